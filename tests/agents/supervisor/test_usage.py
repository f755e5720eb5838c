"""Limits on the memory and the processes of a session, with real programs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from ralph.agents import Limits
from ralph.agents.supervisor.process import ProcessResult, run_program
from ralph.core.records import AttemptOutcome, SessionEnding, TaskStatus
from ralph.project import Project
from tests.loop.trial import SAYS_DONE, Trial

LONG_ENOUGH = 60.0
MB = 1024 * 1024
GREEDY = "import time\nkept = bytearray(b'x' * (150 << 20))\nprint('has it', flush=True)\ntime.sleep(617)"
"""A program that uses 150 MB and stays."""


def run(directory: Path, *argv: str, **limits: Any) -> ProcessResult:
    return run_program(argv, directory=directory, limits=Limits(seconds=LONG_ENOUGH, **limits))


def survivors(mark: str) -> list[psutil.Process]:
    return [one for one in psutil.process_iter(["cmdline"]) if mark in " ".join(one.info["cmdline"] or ())]


@pytest.mark.storeless
def test_memory_is_limited_for_all_processes_together(tmp_path: Path) -> None:
    (tmp_path / "greedy.py").write_text(GREEDY)
    greedy = str(tmp_path / "greedy.py")
    three = f"for n in 1 2 3; do {sys.executable} {greedy} & done; wait"

    alone = run(tmp_path, sys.executable, greedy, memory_bytes=100 * MB)
    together = run(tmp_path, "sh", "-c", three, memory_bytes=350 * MB)
    modest = run(tmp_path, sys.executable, "-c", "print('fine')", memory_bytes=350 * MB)

    assert [ended.ending for ended in (alone, together)] == [SessionEnding.OUT_OF_MEMORY] * 2
    assert "100 MB" in alone.detail
    assert modest.ending is SessionEnding.FINISHED
    assert survivors(greedy) == []


@pytest.mark.storeless
def test_processes_are_limited(tmp_path: Path) -> None:
    many = "trap '' TERM; for n in 1 2 3 4 5 6 7 8 9; do setsid sleep 618 & done; wait"

    ended = run(tmp_path, "sh", "-c", many, processes=5)
    few = run(tmp_path, "sh", "-c", "sleep 0.3 & sleep 0.3 & wait", processes=5)

    assert ended.ending is SessionEnding.TOO_MANY_PROCESSES
    assert "5 processes" in ended.detail
    assert few.ending is SessionEnding.FINISHED
    assert survivors("sleep 618") == []


@pytest.fixture
def trial(project: Project, capsys: pytest.CaptureFixture[str]) -> Trial:
    return Trial(project, capsys)


def test_a_greedy_session_is_a_recorded_error(trial: Trial) -> None:
    trial.project.tasks.add("Task")
    (trial.root / "greedy.py").write_text(GREEDY)
    trial.settings("[agent]\nmemory_mb = 100")

    trial.ralph("run", "--max-iterations", "1", "--", sys.executable, str(trial.root / "greedy.py"))

    assert trial.outcomes() == [AttemptOutcome.ERROR]
    assert trial.project.store.failures.latest(1)[0].category == "memory_limit"
    assert survivors(f"{trial.root}/greedy.py") == []


def test_a_greedy_gate_fails(trial: Trial) -> None:
    trial.project.tasks.add("Task")
    (trial.root / "greedy.py").write_text(GREEDY)
    trial.settings(f'[agent]\nmemory_mb = 100\n[execution]\ngates = ["{sys.executable} {trial.root}/greedy.py"]')

    trial.ralph("run", "--max-iterations", "1", "--", "sh", "-c", f"cat > /dev/null; {SAYS_DONE}")

    assert trial.outcomes() == [AttemptOutcome.RETRIED]
    assert survivors(f"{trial.root}/greedy.py") == []


@pytest.mark.parametrize(("changed", "status"), [(3, TaskStatus.DONE), (4, TaskStatus.BLOCKED)])
def test_a_session_that_changes_too_many_files_needs_a_person(trial: Trial, changed: int, status: TaskStatus) -> None:
    task = trial.project.tasks.add("Task")
    trial.settings("[agent]\nmax_files_changed = 3")
    trial.commit_all()
    script = f"cat > /dev/null; for n in $(seq {changed}); do echo x > file$n.txt; done; {SAYS_DONE}"

    trial.ralph("run", "--max-iterations", "3", "--", "sh", "-c", script)

    assert trial.status(task) is status
    assert len(trial.attempts()) == 1
    if status is TaskStatus.BLOCKED:
        assert "max_files_changed" in trial.project.store.tasks.get(task.id).reason
        assert trial.project.store.failures.latest(1)[0].category == "too_many_files"


@pytest.mark.parametrize(
    ("limit", "gate", "category"),
    [
        ("memory_mb = 100", f"printf 'FAILED: one\\n'; {sys.executable} greedy.py", "memory_limit"),
        ("processes = 5", "for n in 1 2 3 4 5 6 7 8 9; do sleep 619 & done; wait", "process_limit"),
    ],
)
def test_a_gate_that_reaches_a_limit_says_which_and_teaches_nothing(
    trial: Trial, limit: str, gate: str, category: str
) -> None:
    trial.project.tasks.add("Task")
    (trial.root / "greedy.py").write_text(GREEDY)
    trial.settings(f"[agent]\n{limit}\n[execution]\ngates = ['''{gate}''']")

    ran = trial.ralph("run", "--max-iterations", "2", "--", "sh", "-c", f"cat > /dev/null; {SAYS_DONE}")

    assert trial.outcomes() == [AttemptOutcome.RETRIED] * 2
    report = trial.project.store.failures.latest(1)[0]
    assert report.category == category
    assert limit in report.why.partition("\n")[0]
    assert limit in next(line for line in ran.out.splitlines() if "↻ failed" in line)
    assert trial.project.memory.list() == []
    assert trial.project.learnings.list() == []
