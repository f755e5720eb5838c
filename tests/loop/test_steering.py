"""A run is stopped, paused and continued from another terminal, and started for one new task."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from ralph.core.paging import Page
from ralph.core.records import AttemptOutcome, TaskStatus
from ralph.loop.options import RunEnding
from tests.loop.trial import Trial
from tests.waiting import wait_until

if TYPE_CHECKING:
    pass

WAITS = """
cat > /dev/null
echo x >> started
while [ ! -e go ]; do sleep 0.05; done
echo "<task-done>$RALPH_TASK_ID</task-done>"
"""
SAYS_DONE = 'cat > /dev/null\necho "<task-done>$RALPH_TASK_ID</task-done>"\n'


def start(trial: Trial) -> subprocess.Popen[str]:
    """Start a run over two tasks whose sessions wait for the file `go`, and wait for the first one."""
    for title in ("One", "Two"):
        trial.project.tasks.add(title)
    trial.script(WAITS)
    run = trial.start("run", "--", "sh", "agent.sh")
    wait_until((trial.root / "started").exists)
    return run


def test_a_stopped_run_ends_its_session_and_can_be_resumed(trial: Trial) -> None:
    run = start(trial)

    assert trial.ralph("stop").code == 0

    assert run.wait(60) == RunEnding.STOPPED.exit_code
    (attempt,) = trial.project.journal.attempts(Page(limit=9))
    assert attempt.outcome is AttemptOutcome.INTERRUPTED
    assert trial.project.runs.list(Page(limit=1))[0].ending == RunEnding.STOPPED
    (trial.root / "go").touch()
    assert trial.ralph("run", "--resume").code == 0
    assert {task.status for task in trial.project.tasks.list()} == {TaskStatus.DONE}


def test_a_paused_run_settles_its_attempt_and_goes_on_when_it_is_told(trial: Trial) -> None:
    run = start(trial)
    assert trial.ralph("pause").code == 0
    told = iter(run.stdout or ())
    wait_until(lambda: "Pausing" in next(told))

    (trial.root / "go").touch()
    wait_until(lambda: "done" in next(told))
    assert run.poll() is None
    wait_until(lambda: "Paused." in next(told))
    assert "paused; to continue: ralph resume" in trial.ralph("status").out
    assert "paused after" in trial.ralph("report").out
    assert len((trial.root / "started").read_text().split()) == 1

    assert trial.ralph("resume").code == 0
    run.communicate(timeout=60)
    assert run.returncode == 0
    assert len(trial.project.journal.attempts(Page(limit=9))) == 2


def test_without_an_active_run_there_is_nothing_to_stop(trial: Trial) -> None:
    assert trial.ralph("stop").error == "no-active-run"
    assert trial.ralph("resume", "run-00000000").error == "run-not-found"


def test_a_title_is_added_as_a_task_and_run_alone(trial: Trial) -> None:
    trial.project.tasks.add("Another one")
    trial.script(SAYS_DONE)

    assert trial.ralph("run", "Fix the login test", "--", "sh", "agent.sh").code == 0
    assert trial.ralph("run", "Never added", "--", "./no-such-program").code == 2
    assert trial.ralph("run", "Two", "titles", "--", "sh", "agent.sh").error == "unexpected-argument"

    status = {task.title: task.status for task in trial.project.tasks.list()}
    assert status == {"Another one": TaskStatus.PENDING, "Fix the login test": TaskStatus.DONE}
    assert trial.project.runs.list(Page(limit=1))[0].ending == RunEnding.TASK_DONE
