"""How a run that was stopped or killed goes on: with the same task, and with what it has used."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from ralph.core.errors import NotFoundError
from ralph.core.records import TaskStatus
from ralph.loop.options import RunEnding
from ralph.loop.report import KILLED
from ralph.memory.lifecycle.confidence import days_between
from tests.loop.trial import SAYS_DONE, SOON_SECONDS, Trial, leave

DAY = 86_400.0
AGENT = '[agent]\ncommand = ["sh", "agent.sh"]\n'
WAITS_ONCE = f"if [ -e .ralph/again ]; then {SAYS_DONE}; exit; fi\ntouch .ralph/began; sleep 60"


@pytest.fixture
def started(trial: Trial) -> Iterator[list[subprocess.Popen[str]]]:
    """Give a list of processes that are ended after the test."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        leave(process.pid)
        process.communicate()


def begin(trial: Trial, started: list[subprocess.Popen[str]], *words: str) -> subprocess.Popen[str]:
    """Start a run, and return once its first session has begun."""
    trial.settings(AGENT)
    trial.script(WAITS_ONCE)
    process = trial.start("run", *words)
    started.append(process)
    trial.soon(".ralph/began")
    return process


def kill(trial: Trial, process: subprocess.Popen[str]) -> None:
    """Kill a run; the next session does its task."""
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    (trial.root / ".ralph/again").touch()


# --- the one task ------------------------------------------------------------------------------


def test_a_killed_run_of_one_title_goes_on_with_that_task_alone(
    trial: Trial, started: list[subprocess.Popen[str]]
) -> None:
    other = trial.project.tasks.add("Another")
    kill(trial, begin(trial, started, "Just one"))

    ran = trial.ralph("run", "--resume")

    assert ran.code == 0
    assert trial.status(other) is TaskStatus.PENDING
    assert {one.task_id for one in trial.attempts()} == {trial.attempts()[0].task_id}
    assert trial.project.store.tasks.progress.counts()[TaskStatus.DONE] == 1


def test_a_stopped_run_of_one_task_goes_on_with_that_task_alone(
    trial: Trial, started: list[subprocess.Popen[str]]
) -> None:
    one, other = trial.project.tasks.add("One"), trial.project.tasks.add("Another", priority=9)
    process = begin(trial, started, "--task", one.id)
    assert trial.ralph("stop").code == 0
    assert process.wait(30) == 130
    (trial.root / ".ralph/again").touch()

    trial.ralph("run", "--resume")

    assert (trial.status(one), trial.status(other)) == (TaskStatus.DONE, TaskStatus.PENDING)


def test_a_run_whose_one_task_is_done_has_nothing_left_to_do(trial: Trial) -> None:
    trial.settings(AGENT)
    trial.script(SAYS_DONE)
    other, one = trial.project.tasks.add("Another"), trial.project.tasks.add("One")
    trial.ralph("run", "--task", one.id)

    ran = trial.ralph("run", "--resume")

    assert ran.code == RunEnding.NOTHING.exit_code
    assert trial.status(other) is TaskStatus.PENDING


def test_a_task_that_a_run_is_resumed_with_is_for_this_time_only(trial: Trial) -> None:
    trial.settings(AGENT)
    trial.script(SAYS_DONE)
    tasks = [trial.project.tasks.add(f"Task {number}") for number in range(4)]
    trial.ralph("run", "--max-iterations", "1")

    trial.ralph("run", "--resume", "--max-iterations", "9", "--task", tasks[3].id)
    before = [trial.status(one) for one in tasks]
    trial.ralph("run", "--resume")

    assert before == [TaskStatus.DONE, TaskStatus.PENDING, TaskStatus.PENDING, TaskStatus.DONE]
    assert {trial.status(one) for one in tasks} == {TaskStatus.DONE}


def test_a_run_whose_one_task_was_deleted_does_not_take_up_others(
    trial: Trial, started: list[subprocess.Popen[str]]
) -> None:
    one, other = trial.project.tasks.add("One"), trial.project.tasks.add("Another")
    kill(trial, begin(trial, started, "--task", one.id))
    trial.ralph("task", "reset", one.id)
    trial.project.tasks.delete(one.id)

    ran = trial.ralph("run", "--resume")

    assert ran.code == NotFoundError.exit_code
    assert trial.status(other) is TaskStatus.PENDING


def test_the_status_tells_a_killed_run_from_an_active_one(trial: Trial, started: list[subprocess.Popen[str]]) -> None:
    trial.project.tasks.add("One")
    process = begin(trial, started)
    states = [trial.ralph("status", "--format", "json").json["last_run_state"]]
    kill(trial, process)
    states.append(trial.ralph("status", "--format", "json").json["last_run_state"])
    killed = trial.ralph("status").out
    trial.ralph("run", "--resume")
    states.append(trial.ralph("status", "--format", "json").json["last_run_state"])

    assert states == ["running", "killed", "ended"]
    assert "ralph run --resume" in killed


# --- what was used -----------------------------------------------------------------------------


def test_the_time_of_a_killed_attempt_counts(trial: Trial, started: list[subprocess.Popen[str]]) -> None:
    task = trial.project.tasks.add("One")
    process = begin(trial, started, "--max-minutes", "30", "--max-iterations", "2")
    deadline = time.monotonic() + SOON_SECONDS
    while trial.last().seconds < 1 and time.monotonic() < deadline:
        time.sleep(0.1)
    alive = trial.last().seconds
    kill(trial, process)

    report = trial.project.runs.report()
    trial.ralph("run", "--resume")

    assert alive >= 1
    assert report.state == KILLED
    assert report.seconds >= alive
    assert report.unfinished[0].seconds >= alive
    killed = trial.attempts()[0]
    assert killed.seconds >= alive
    assert killed.ended_at is not None
    assert abs(days_between(killed.started_at, killed.ended_at) * DAY - killed.seconds) < 0.1
    assert trial.project.store.runs.latest(1)[0].seconds >= alive
    assert trial.status(task) is TaskStatus.DONE
