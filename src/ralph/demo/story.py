"""Build the sample project twice with the same agent, without and with memory, and count what each took.

Nothing is made up here: every figure is read from the attempts the loop stored,
and whether one succeeded was decided by the sample project's own tests.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ralph.agents.rehearsal import PLAYBOOK
from ralph.config import TOML_NAME, load_config
from ralph.errors import RalphError, UsageError
from ralph.location import DATABASE, FOLDER, init_project
from ralph.loop.order import Order, RunEnding
from ralph.project import Project
from ralph.records import Outcome, record
from ralph.store import open_store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from ralph.loop.progress import Event
    from ralph.records import Attempt, Task

    class Watcher(Protocol):
        """Somebody who follows the story."""

        def begin_telling(self, with_memory: bool) -> None:
            """The project is built from the start."""

        def begin_run(self, name: str) -> None:
            """The loop is started."""

        def see_doing(self, title: str, number: int, doing: str) -> None:
            """An attempt at a task goes on to its next stage."""

        def see_attempt(self, told: Told) -> None:
            """An attempt has ended."""


HERE = Path(__file__).parent
NAMES = {False: "without-memory", True: "with-memory"}
PLANS = {"First run": "plan/first-run.jsonl", "Later run": "plan/later-run.jsonl"}
MOST_ATTEMPTS = 100


@record
class Told:
    """One attempt, the way it is told."""

    task: Task
    number: int
    done: bool
    why: str
    """The first thing that went wrong, when it was not done."""
    recalled: tuple[str, ...]
    """Titles of the memories in its prompt."""
    failures: int
    """How many failed attempts at the task its prompt told of."""
    learned: tuple[str, ...]
    """Titles of what it taught."""


@record
class Figures:
    """What some tasks took."""

    tasks: int
    done: int
    done_at_first: int
    attempts: int
    tokens: int
    seconds: float


@record
class Row:
    """What one task took, without and with memory."""

    id: str
    title: str
    without_memory: Figures
    with_memory: Figures


@record
class Result:
    """What the whole story came to."""

    tasks: tuple[Row, ...]
    without_memory: Figures
    with_memory: Figures
    seconds: float
    """From beginning to end, for whoever waited."""


def tell_story(watcher: Watcher, keep: Path | None = None) -> Result:
    """Build the sample project without and with memory; both stay in `keep`, if it is given."""
    if shutil.which("git") is None:
        raise RalphError("The demo keeps its sample project in git, and git was not found. Install it and try again.")
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="ralph-demo-") as directory:
            return _compare(Path(directory), watcher)
    return _compare(keep.absolute(), watcher)


def make_room(keep: Path) -> None:
    """Make the directory the projects are to stay in; refuse one that is in use."""
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise UsageError(f"{keep} is in use. Give --keep a directory that is new or empty.")
    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{keep} cannot be made: {error.strerror}.") from error


def _compare(directory: Path, watcher: Watcher) -> Result:
    began = time.monotonic()
    taken = {with_memory: _build(directory / name, with_memory, watcher) for with_memory, name in NAMES.items()}
    pairs = zip(taken[False], taken[True], strict=True)
    return Result(
        tasks=tuple(
            Row(id=task.id, title=task.title, without_memory=_figures([before]), with_memory=_figures([after]))
            for (task, before), (_, after) in pairs
        ),
        without_memory=_figures([attempts for _, attempts in taken[False]]),
        with_memory=_figures([attempts for _, attempts in taken[True]]),
        seconds=round(time.monotonic() - began, 1),
    )


def _build(directory: Path, with_memory: bool, watcher: Watcher) -> list[tuple[Task, list[Attempt]]]:
    """Build the project run by run; give every task with its attempts."""
    watcher.begin_telling(with_memory)
    make_sample(directory)
    # Only the sample's own settings count, whatever the person's environment says.
    store = open_store(str(directory / FOLDER / DATABASE))
    with Project(directory, store, load_config(directory, environment={})) as project:
        tasks: list[Task] = []
        for name, plan in PLANS.items():
            watcher.begin_run(name)
            tasks += project.import_tasks((directory / plan).read_text(encoding="utf-8"), plan).added
            summary = project.run(Order(with_memory=with_memory), _Listener(project, watcher).hear)
            if summary.ending is RunEnding.INTERRUPTED:
                raise KeyboardInterrupt
            _commit(directory, name)
        return [(task, store.attempts.latest(MOST_ATTEMPTS, task=task.id)) for task in tasks]


class _Listener:
    """Makes the loop's events into a story."""

    def __init__(self, project: Project, watcher: Watcher) -> None:
        self._project = project
        self._watcher = watcher
        self._attempt: dict[str, object] = {}
        self._failures = 0
        self._learned: list[str] = []

    def hear(self, event: Event) -> None:
        """Pass on what the event says."""
        details = event.details
        if event.what == "attempt_started":
            self._attempt, self._failures, self._learned = details, 0, []
            self._see_doing("thinks")
        elif event.what == "recalled":
            self._failures = int(str(details["previous_attempts"]))
        elif event.what == "gate_started":
            self._see_doing("runs the tests")
        elif event.what == "learned":
            self._learned.append(str(details["title"]))
        elif event.what == "attempt_ended":
            self._watcher.see_attempt(self._told())

    def _see_doing(self, doing: str) -> None:
        self._watcher.see_doing(str(self._attempt["title"]), int(str(self._attempt["attempt"])), doing)

    def _told(self) -> Told:
        store = self._project.store
        attempt = store.attempts.latest(1)[0]
        assert attempt.task_id is not None
        reports = store.attempts.reports(MOST_ATTEMPTS, task=attempt.task_id)
        shown = [store.memories.get(id) for id in attempt.shown]
        why = [_trouble(report.why) for report in reports if report.attempt_number == attempt.number]
        return Told(
            task=store.tasks.get(attempt.task_id),
            number=attempt.number or 1,
            done=attempt.outcome is Outcome.DONE,
            why=why[0] if why else attempt.reason,
            recalled=tuple(memory.title for memory in sorted(shown, key=lambda one: one.kind != "knowledge")),
            failures=self._failures,
            learned=tuple(self._learned),
        )


def _trouble(report: str) -> str:
    """Give what the first failing test said, or the report's first line."""
    lines = report.splitlines()
    failed = [line.removeprefix("AssertionError: ") for line in lines if line.startswith("AssertionError: ")]
    return (failed or lines or [""])[0]


# --- the figures -------------------------------------------------------------------


def _figures(tasks: Sequence[Sequence[Attempt]]) -> Figures:
    """Add up the attempts of some tasks."""
    attempts = [attempt for one in tasks for attempt in one]
    done = [attempt for attempt in attempts if attempt.outcome is Outcome.DONE]
    return Figures(
        tasks=len(tasks),
        done=len(done),
        done_at_first=sum(1 for attempt in done if attempt.number == 1),
        attempts=len(attempts),
        tokens=sum((attempt.tokens_in or 0) + (attempt.tokens_out or 0) for attempt in attempts),
        seconds=round(sum(_seconds(attempt) for attempt in attempts), 2),
    )


def _seconds(attempt: Attempt) -> float:
    """Give how long an attempt took with its tests; its own `seconds` are the agent's alone."""
    if attempt.ended_at is None:
        return 0.0
    return (datetime.fromisoformat(attempt.ended_at) - datetime.fromisoformat(attempt.started_at)).total_seconds()


# --- the sample project ------------------------------------------------------------


def make_sample(directory: Path) -> None:
    """Make the sample project: the code so far, failing tests, a playbook for the agent, git."""
    shutil.copytree(HERE / "sample", directory, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    (directory / TOML_NAME).write_text(_settings(), encoding="utf-8")
    (directory / PLAYBOOK).parent.mkdir()
    shutil.copyfile(HERE / "playbook.toml", directory / PLAYBOOK)
    init_project(directory, environment={})
    _git(directory, "init", "--quiet")
    _commit(directory, "Start")


def _settings() -> str:
    # Without -B a test could run the bytecode of the attempt before, when both wrote within one second.
    gate = f"{shlex.quote(sys.executable)} -B -m unittest -qf tests.test_$RALPH_TASK_ID"
    return f'[agent]\nname = "rehearsal"\n\n[execution]\ngates = [{json.dumps(gate, ensure_ascii=False)}]\n'


def _commit(directory: Path, message: str) -> None:
    _git(directory, "add", "--all")
    _git(directory, "commit", "--quiet", "--allow-empty", f"--message={message}")


def _git(directory: Path, *arguments: str) -> None:
    """Run git in the sample project, whoever the person is and whatever their git is set up to do."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", "-c", "user.name=Ralph", "-c", "user.email=ralph@localhost", *arguments],
        cwd=directory,
        env={**own, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise RalphError(f"git {arguments[0]} failed in {directory}: {done.stderr.strip()}")
