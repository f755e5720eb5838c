"""Hostile agents in real runs: each ends within its limits, leaves nobody behind, and the run goes on.

Each session is an attempt of `ralph run` at a task of its own. As soon as the run says that the attempt has ended, all
that the agent started must be gone: known by the ids they wrote down, and by the task in their environment.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ralph.core.config import STORE_VARIABLE
from ralph.core.records import TaskStatus, record
from ralph.project import Project
from tests.faults import hostile
from tests.faults.trial import Shown, Trial
from tests.make import damaged_rows, set_up_project

MEMORY_MB = 100
AT_ONCE = 3
"""Runs that go on at the same time."""
MOST_SECONDS = 500.0
"""So long a run may take before it counts as one that hangs."""

Expected = tuple[str, str | None]
DONE: Expected = ("done", None)
SILENT: Expected = ("error", "timeout")
CRASHED: Expected = ("error", "tool_error")
OPEN: Expected = ("blocked", "unknown")

COMMON: dict[str, Expected] = {
    **dict.fromkeys(("hang", "hang_deaf", "dots", "dots_deaf", "hang_with_children", "forks_fast"), SILENT),
    **dict.fromkeys(("many_children", "daemons", "nohup", "own_groups", "holds_stdout", "without_trace"), DONE),
    **dict.fromkeys(("kills_guard", "kills_guard_without_trace", "kills_group_of_guard"), CRASHED),
    **dict.fromkeys(("asks_guard_to_go", "stops_ralph", "other_namespace"), DONE),
    **dict.fromkeys(("bad_utf8", "zeros", "escapes", "surrogates"), DONE),
    **dict.fromkeys(("half_a_sigil", "forged_sigil"), OPEN),
    **dict.fromkeys(("closes_stdin", "closes_all", "never_reads"), DONE),
    **dict.fromkeys(("dies", "exits"), CRASHED),
    **dict.fromkeys(("breaks_settings", "removes_settings", "removes_knowledge", "closes_the_directory"), DONE),
    **dict.fromkeys(("fills_the_disk", "locks_the_database"), DONE),
}
LOUD: dict[str, Expected] = {
    **dict.fromkeys(("floods_stdout", "floods_stderr", "floods_one_line", "floods_escapes"), CRASHED),
    # Of so many sigils the last ones are not read: a task stays open rather than being taken for done.
    **{"a_million_open_tags": DONE, "a_million_sigils": OPEN},
}
"""What prints megabytes gets time: on a busy machine it takes more than a few seconds."""
SLOW: dict[str, Expected] = dict.fromkeys(("stops_guard", "traces_guard"), SILENT)
"""The guard has nine seconds before it is given up."""
GIGABYTES: dict[str, Expected] = dict.fromkeys(("gigabyte", "gigabyte_of_stderr", "gigabyte_in_one_line"), DONE)
CLAUDE: dict[str, Expected] = {
    **dict.fromkeys(("garbage_events", "a_huge_event", "deep_events", "no_result"), CRASHED),
    **dict.fromkeys(("floods_one_line", "bad_utf8", "daemons", "kills_guard", "dies"), CRASHED),
    **dict.fromkeys(("hang_deaf", "result_then_hang"), SILENT),
}
EXPECTED = {**COMMON, **LOUD, **SLOW, **GIGABYTES, "well": DONE}
SHORT = {"RALPH_AGENT_SECONDS": "5", "RALPH_AGENT_IDLE_SECONDS": "2.5"}
UNLIMITED = {"RALPH_AGENT_SECONDS": "400", "RALPH_AGENT_IDLE_SECONDS": "60", "RALPH_AGENT_OUTPUT_MB": "0"}
WITH_TIME = {"RALPH_AGENT_SECONDS": "100", "RALPH_AGENT_IDLE_SECONDS": "30"}


@record
class Session:
    """A hostile session, and what came of it."""

    what: str
    outcome: str
    error_type: str | None
    reason: str
    survivors: tuple[str, ...]


@record
class Ended:
    """A run of hostile sessions."""

    sessions: tuple[Session, ...]
    peak_mb: float
    exit_code: int
    unsettled: int
    """Tasks that still count as worked on, or were never tried."""
    said: str


def hostile_run(
    folder: Path, names: Sequence[str], *, agent: str = "command", settings: Mapping[str, str] = SHORT
) -> Ended:
    """Let one `ralph run` meet hostile agents one after the other, in a new project in the folder."""
    root = folder / "project"
    root.mkdir(parents=True)
    program = folder / "hostile.py"
    shutil.copyfile(hostile.__file__, program)
    # Only the interpreter itself: it starts for every session.
    (folder / "agent").write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {program} "$@"\n')
    (folder / "agent").chmod(0o755)
    set_up_project(root)
    with Project.open(root) as project:
        plan = {project.tasks.add(f"Number {number}").id: name for number, name in enumerate(names)}
    (folder / "plan.json").write_text(json.dumps(plan))
    given = {name: value for name, value in os.environ.items() if name != STORE_VARIABLE}
    given |= {
        **{"RALPH_AGENT_NAME": agent, "RALPH_AGENT_COMMAND": str(folder / "agent"), "RALPH_AGENT_OUTAGE_SECONDS": "0"},
        # The model that recalls by meaning, an extra, takes as much by itself as all of this may.
        **{"RALPH_MEMORIES_MEANING": "false"},
        **{"RALPH_EXECUTION_MAX_RETRIES": "0", "RALPH_LIMITS_TASK_ITERATIONS": "1", **settings},
    }
    ralph = subprocess.Popen(
        [sys.executable, "-m", "ralph", "run", "--format", "json"],
        cwd=root,
        env=given,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=(folder / "stderr").open("wb"),
    )
    sessions, peak_mb = [], 0.0
    with _Watching(ralph, folder):
        assert ralph.stdout
        for line in ralph.stdout:
            told = json.loads(line)
            peak_mb = max(peak_mb, _peak_mb(ralph.pid))
            if told["event"] == "attempt_ended":
                sessions.append(_session(plan[told["task_id"]], told, folder))
        ralph.stdout.close()
        ralph.wait()
    root.chmod(0o755)
    (root / ".ralph").chmod(0o755)
    (root / ".ralph.toml").unlink(missing_ok=True)
    with Project.open(root) as project:
        unsettled = sum(task.status is TaskStatus.IN_PROGRESS for task in project.store.tasks.all())
        unsettled += len(damaged_rows(project.store)) + abs(len(names) - len(sessions))
    said = (folder / "stderr").read_text(errors="replace")
    return Ended(
        sessions=tuple(sessions),
        peak_mb=peak_mb,
        exit_code=ralph.returncode,
        unsettled=unsettled,
        said=said,
    )


def _peak_mb(pid: int) -> float:
    """Give the most memory that a process has had; what `wait4` says counts the process that started it too."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), 0.0)


def _session(what: str, told: Mapping[str, str], folder: Path) -> Session:
    alive = tuple(survivors(folder, told["task_id"]))
    return Session(
        what=what,
        outcome=told["outcome"],
        error_type=told["error_type"] or None,
        reason=told["reason"],
        survivors=alive,
    )


def survivors(folder: Path, task_id: str) -> Iterator[str]:
    """Give who of a session is alive: by the ids that were written down, and by the task in the environment."""
    noted = folder / f"{task_id}.pids"
    pids = set(noted.read_text().split()) if noted.exists() else set()
    # An id may be given anew; whoever has it then is not of this session, and not younger than what we read.
    for place in Path("/proc").iterdir():
        if not place.name.isdigit() or place.name == str(os.getpid()):
            continue
        try:
            state = (place / "stat").read_bytes().rpartition(b")")[2].split()
            is_tagged = f"RALPH_TASK_ID={task_id}".encode() in (place / "environ").read_bytes().split(b"\0")
            is_noted = place.name in pids and (place / "cwd").readlink() == folder / "project"
            name = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if (is_tagged or is_noted) and state[0] not in (b"Z", b"X"):
            yield f"{place.name} {state[0].decode()} {name}"


class _Watching:
    """Lets a stopped Ralph go on, as a person would; kills one that hangs."""

    def __init__(self, ralph: subprocess.Popen[bytes], folder: Path) -> None:
        self._ralph = ralph
        self._stopped = folder / "stopped"
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        if self._ralph.returncode is None:
            self._ralph.kill()
            self._ralph.wait()

    def _watch(self) -> None:
        deadline = time.monotonic() + MOST_SECONDS
        while not self._is_over.wait(0.1):
            if time.monotonic() > deadline:
                self._ralph.kill()
            elif self._stopped.exists():
                time.sleep(0.5)
                self._stopped.unlink()
                os.kill(self._ralph.pid, signal.SIGCONT)


def judged(ended: Ended, expected: Mapping[str, Expected]) -> list[str]:
    """Give what must not have happened in a run, each as a sentence."""
    wrong = []
    for session in ended.sessions:
        wrong += [f"{session.what}: {survivor} is alive" for survivor in session.survivors]
        if (session.outcome, session.error_type) != expected[session.what]:
            wrong.append(f"{session.what}: {session.outcome} {session.error_type}: {session.reason}")
    if ended.peak_mb >= MEMORY_MB:
        wrong.append(f"Ralph took {ended.peak_mb:.0f} MB")
    if ended.unsettled or ended.exit_code not in (0, 1, 3):
        wrong.append(f"the run ended with {ended.exit_code} and {ended.unsettled} unsettled: {ended.said[-500:]}")
    return wrong


Part = tuple[str, list[str], str, Mapping[str, str]]


def _parts(size: int, random_: random.Random) -> list[Part]:
    """Give runs of so many hostile sessions in all: most of the common ones, some that are slow, loud or Claude."""

    def some(kinds: Mapping[str, Expected], count: int) -> list[str]:
        names = [*kinds] * (count // len(kinds) + 1)
        names = names[:count] if count >= len(kinds) else random_.sample(names, count)
        random_.shuffle(names)
        return names

    gigabytes = list(GIGABYTES)[: size // 60]
    claude, loud, slow = some(CLAUDE, size // 10), some(LOUD, size // 15), some(SLOW, size // 100)
    common = [*slow, *some(COMMON, size - len(gigabytes) - len(claude) - len(loud) - len(slow))]
    random_.shuffle(common)
    # The same crash five times in a row ends a run, as it should: something well is between them.
    between = [name for one in loud for name in (one, "well")]
    share = max(1, -(-len(common) // max(1, size // 30)))
    return [
        *[(name, [name], "command", UNLIMITED) for name in gigabytes],
        *([("loud", between[:-1], "command", WITH_TIME)] if loud else []),
        *([("claude", claude, "claude", SHORT)] if claude else []),
        *[(f"{at}", common[at : at + share], "command", SHORT) for at in range(0, len(common), share)],
    ]


def run(folder: Path, size: int, seed: int) -> Shown:
    """Let so many hostile agents loose; count survivors, wrong outcomes and runs that took too much memory."""
    parts = _parts(size, random.Random(seed))

    def one(part: Part) -> tuple[Ended, list[str]]:
        name, names, agent, settings = part
        ended = hostile_run(folder / name, names, agent=agent, settings=settings)
        return ended, judged(ended, CLAUDE if agent == "claude" else EXPECTED)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(one, parts))
    wrong = [sentence for _, sentences in results for sentence in sentences]
    for sentence in wrong:
        print(f"  {sentence}", flush=True)
    sessions = [session for ended, _ in results for session in ended.sessions if session.what != "well"]
    peak_mb = max(ended.peak_mb for ended, _ in results)
    kinds = len({session.what for session in sessions})
    return Shown(
        load=f"{len(sessions)} hostile runs of {kinds} kinds",
        tried=len(sessions),
        lost=len(wrong),
        says=f"peak {peak_mb:.0f} MB; 1 GB printed {sum(session.what in GIGABYTES for session in sessions)} times",
    )


TRIALS = (Trial(name="agents", test="agents", allowed="0 survivors, < 100 MB", size=200, run=run),)
