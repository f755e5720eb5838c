"""The demo run: build the sample project without and with memory, and compare the results.

All numbers come from the attempts stored by the loop, and the tests of the sample project decide which of them succeed.
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
from ralph.core.config import TOML_NAME, load_config
from ralph.core.errors import RalphError, UsageError
from ralph.core.records import AttemptOutcome, record
from ralph.core.trust_record import TRUST_VARIABLE
from ralph.loop.options import RunEnding, RunOptions
from ralph.project import Project
from ralph.store import open_store
from ralph.workspace import DATABASE, FOLDER, init_project

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from ralph.core.records import Attempt, Task
    from ralph.loop.progress import ProgressEvent

    class DemoWatcher(Protocol):
        """Callbacks for the progress of the demo."""

        def start_build(self, with_memory: bool) -> None:
            """Handle the start of one of the two builds."""

        def start_run(self, name: str) -> None:
            """Handle the start of a run."""

        def show_stage(self, title: str, number: int, doing: str) -> None:
            """Handle the next stage of an attempt."""

        def show_attempt(self, told: DemoAttempt) -> None:
            """Handle the end of an attempt."""


DEMO_DIRECTORY = Path(__file__).parent
BUILD_DIRECTORIES = {False: "without-memory", True: "with-memory"}
RUN_TASK_FILES = {"First run": "plan/first-run.jsonl", "Later run": "plan/later-run.jsonl"}
MAX_ATTEMPTS_READ = 100
"""Maximum number of attempts read per task."""


@record
class DemoAttempt:
    """An attempt, as shown to the watcher."""

    task: Task
    number: int
    done: bool
    error: str
    """First error, if the attempt failed."""
    recalled: tuple[str, ...]
    """Titles of the memories in the prompt."""
    previous_failures: int
    """Number of earlier failed attempts described in the prompt."""
    learned: tuple[str, ...]
    """Titles of the memories it added."""


@record
class DemoTotals:
    """Attempts, tokens and time used by a set of tasks."""

    tasks: int
    done: int
    done_at_first: int
    attempts: int
    tokens: int
    seconds: float


@record
class DemoTaskResult:
    """Results of one task, without and with memory."""

    id: str
    title: str
    without_memory: DemoTotals
    with_memory: DemoTotals


@record
class DemoResult:
    """Results of the whole demo."""

    tasks: tuple[DemoTaskResult, ...]
    without_memory: DemoTotals
    with_memory: DemoTotals
    seconds: float
    """Wall-clock time of the demo, in seconds."""


def run_demo(watcher: DemoWatcher, keep: Path | None = None) -> DemoResult:
    """Build the sample project without and with memory, in `keep` or in a temporary directory."""
    if shutil.which("git") is None:
        raise RalphError("The demo needs git, which was not found. Install git and try again.")
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="ralph-demo-") as directory:
            return _compare(Path(directory), watcher)
    return _compare(keep.absolute(), watcher)


def prepare_directory(keep: Path) -> None:
    """Create the directory for the projects. Raise UsageError if it exists and is not empty."""
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise UsageError(f"{keep} is not empty. Use --keep with a new or empty directory.")
    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"Cannot create {keep}: {error.strerror}.") from error


def _compare(directory: Path, watcher: DemoWatcher) -> DemoResult:
    started = time.monotonic()
    results = {
        with_memory: _build(directory / name, with_memory, watcher) for with_memory, name in BUILD_DIRECTORIES.items()
    }
    pairs = zip(results[False], results[True], strict=True)
    return DemoResult(
        tasks=tuple(
            DemoTaskResult(
                id=task.id, title=task.title, without_memory=_figures([before]), with_memory=_figures([after])
            )
            for (task, before), (_, after) in pairs
        ),
        without_memory=_figures([attempts for _, attempts in results[False]]),
        with_memory=_figures([attempts for _, attempts in results[True]]),
        seconds=round(time.monotonic() - started, 1),
    )


def _build(directory: Path, with_memory: bool, watcher: DemoWatcher) -> list[tuple[Task, list[Attempt]]]:
    """Build the project run by run. Return each task with its attempts."""
    watcher.start_build(with_memory)
    create_sample_project(directory)
    # Ignore settings from the user's environment, and use those just written.
    store = open_store(str(directory / FOLDER / DATABASE))
    with Project(directory, store, load_config(directory, environment={TRUST_VARIABLE: "1"})) as project:
        tasks: list[Task] = []
        for name, plan in RUN_TASK_FILES.items():
            watcher.start_run(name)
            tasks += project.tasks.import_((directory / plan).read_text(encoding="utf-8"), plan).added
            summary = project.runs.start(RunOptions(with_memory=with_memory), _Listener(project, watcher).handle)
            if summary.ending is RunEnding.INTERRUPTED:
                raise KeyboardInterrupt
            _commit(directory, name)
        return [(task, store.attempts.latest(MAX_ATTEMPTS_READ, task=task.id)) for task in tasks]


class _Listener:
    """Adapter from loop events to watcher callbacks."""

    def __init__(self, project: Project, watcher: DemoWatcher) -> None:
        self._project = project
        self._watcher = watcher
        self._attempt: dict[str, object] = {}
        self._failures = 0
        self._learned: list[str] = []

    def handle(self, event: ProgressEvent) -> None:
        """Pass an event on to the watcher."""
        details = event.details
        if event.what == "attempt_started":
            self._attempt, self._failures, self._learned = details, 0, []
            self._report_stage("thinking")
        elif event.what == "recalled":
            self._failures = int(str(details["previous_attempts"]))
        elif event.what == "gate_started":
            self._report_stage("running the tests")
        elif event.what == "learned":
            self._learned.append(str(details["title"]))
        elif event.what == "attempt_ended":
            self._watcher.show_attempt(self._describe_attempt())

    def _report_stage(self, doing: str) -> None:
        self._watcher.show_stage(str(self._attempt["title"]), int(str(self._attempt["attempt"])), doing)

    def _describe_attempt(self) -> DemoAttempt:
        store = self._project.store
        attempt = store.attempts.latest(1)[0]
        assert attempt.task_id is not None
        reports = store.failures.latest(MAX_ATTEMPTS_READ, task=attempt.task_id)
        shown = [store.memories.get(id) for id in attempt.shown]
        why = [_first_error(report.why) for report in reports if report.attempt_number == attempt.number]
        return DemoAttempt(
            task=store.tasks.get(attempt.task_id),
            number=attempt.number or 1,
            done=attempt.outcome is AttemptOutcome.DONE,
            error=why[0] if why else attempt.reason,
            recalled=tuple(memory.title for memory in sorted(shown, key=lambda one: one.kind != "knowledge")),
            previous_failures=self._failures,
            learned=tuple(self._learned),
        )


def _first_error(report: str) -> str:
    """Return the message of the first failed assertion, or the first line of the report."""
    lines = report.splitlines()
    failed = [line.removeprefix("AssertionError: ") for line in lines if line.startswith("AssertionError: ")]
    return (failed or lines or [""])[0]


# --- results -----------------------------------------------------------------------


def _figures(tasks: Sequence[Sequence[Attempt]]) -> DemoTotals:
    """Sum up the attempts of a set of tasks."""
    attempts = [attempt for task in tasks for attempt in task]
    done = [attempt for attempt in attempts if attempt.outcome is AttemptOutcome.DONE]
    return DemoTotals(
        tasks=len(tasks),
        done=len(done),
        done_at_first=sum(1 for attempt in done if attempt.number == 1),
        attempts=len(attempts),
        tokens=sum((attempt.tokens_in or 0) + (attempt.tokens_out or 0) for attempt in attempts),
        seconds=round(sum(_seconds(attempt) for attempt in attempts), 2),
    )


def _seconds(attempt: Attempt) -> float:
    """Return the duration of an attempt including its tests; `attempt.seconds` covers only the agent."""
    if attempt.ended_at is None:
        return 0.0
    return (datetime.fromisoformat(attempt.ended_at) - datetime.fromisoformat(attempt.started_at)).total_seconds()


# --- sample project ----------------------------------------------------------------


def create_sample_project(directory: Path) -> None:
    """Create the sample project: initial code, failing tests, a playbook for the agent and a git repository."""
    shutil.copytree(DEMO_DIRECTORY / "sample", directory, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    (directory / TOML_NAME).write_text(_settings(), encoding="utf-8")
    (directory / PLAYBOOK).parent.mkdir()
    shutil.copyfile(DEMO_DIRECTORY / "playbook.toml", directory / PLAYBOOK)
    init_project(directory, environment={})
    _git(directory, "init", "--quiet")
    _commit(directory, "Start")


def _settings() -> str:
    # Without -B, a test could run stale bytecode if two attempts write a file within one second.
    gate = f"{shlex.quote(sys.executable)} -B -m unittest -qf tests.test_$RALPH_TASK_ID"
    gates = json.dumps([gate], ensure_ascii=False)
    return f'[agent]\nname = "rehearsal"\n\n[execution]\ncommit = "never"\ngates = {gates}\n'


def _commit(directory: Path, message: str) -> None:
    _git(directory, "add", "--all")
    _git(directory, "commit", "--quiet", "--allow-empty", f"--message={message}")


def _git(directory: Path, *arguments: str) -> None:
    """Run git in the sample project, independent of the user's git configuration."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    process = subprocess.run(
        ["git", "-c", "user.name=Ralph", "-c", "user.email=ralph@localhost", *arguments],
        cwd=directory,
        env={**environment, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if process.returncode:
        raise RalphError(f"git {arguments[0]} failed in {directory}: {process.stderr.strip()}")
