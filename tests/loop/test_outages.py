"""When the service that runs a model fails, that is nobody's fault: the run waits, and gives up in the end."""

from __future__ import annotations

import json
import time

import pytest

from ralph.core.paging import Page
from ralph.core.records import AttemptOutcome, TaskStatus
from ralph.loop import context
from tests.loop.trial import Trial

AGENT = """\
[agent]
name = "claude"
command = ["sh", "agent.sh"]
outage_seconds = {seconds}
[execution]
max_retries = 1
"""
DONE = [
    {"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": "<task-done>TASK</task-done>"}]}},
    {"type": "result", "subtype": "success", "is_error": False, "terminal_reason": "completed", "result": ""},
]
OUTAGE = {
    "type": "result",
    "subtype": "success",
    "is_error": True,
    "terminal_reason": "api_error",
    "result": "API Error: 529 Overloaded. request_id: req_NUMBER",
}


def play(trial: Trial, outages: int, seconds: float = 0) -> None:
    """Let the agent's service fail so many times before it works; what it says is never the same twice."""
    trial.settings(AGENT.format(seconds=seconds))
    done = "\n".join(map(json.dumps, DONE))
    trial.script(
        f"""
case "$*" in *--version*) echo 2.1.325; exit 0;; esac
cat > /dev/null
echo x >> .ralph/asked
number=$(wc -l < .ralph/asked)
if [ "$number" -le {outages} ]; then
    echo '{json.dumps(OUTAGE)}' | sed "s/NUMBER/$number/"
    exit 1
fi
echo '{done}' | sed "s/TASK/$RALPH_TASK_ID/"
"""
    )


def test_an_outage_uses_up_no_retries_and_blames_no_task(trial: Trial) -> None:
    play(trial, outages=6)
    task = trial.project.tasks.add("Fix it")

    trial.ralph("run")

    assert trial.project.tasks.get(task.id).task.status is TaskStatus.DONE
    entries = trial.project.journal.attempts(Page(limit=20))
    assert [entry.outcome for entry in entries] == [AttemptOutcome.DONE, *[AttemptOutcome.ERROR] * 6]
    assert [entry.excused for entry in entries] == [False, *[True] * 6]
    assert trial.project.tasks.get(task.id).metrics.failures_since_reset == 0
    assert {entry.model for entry in entries} == {"haiku"}  # none of them asks for a stronger one


def test_a_run_waits_before_it_asks_again_twice_as_long_each_time(trial: Trial) -> None:
    play(trial, outages=2, seconds=0.5)
    trial.project.tasks.add("Fix it")

    began = time.monotonic()
    told = trial.ralph("run")

    assert time.monotonic() - began > 1.5
    assert "Retrying in 0.5 s" in told.out + told.err
    assert "Retrying in 1 s" in told.out + told.err


def test_a_service_that_stays_away_ends_the_run_and_blocks_nothing(trial: Trial) -> None:
    play(trial, outages=1000)
    tasks = [trial.project.tasks.add(title) for title in ("One", "Two", "Three")]

    told = trial.ralph("run")

    assert told.code == 1
    assert "repeatedly could not use its model" in told.out + told.err
    assert len(trial.project.journal.attempts(Page(limit=100))) == context.MAX_OUTAGES
    assert {trial.project.tasks.get(task.id).task.status for task in tasks} == {TaskStatus.PENDING}


@pytest.mark.parametrize("limit", [("--max-iterations", "1"), ("--max-minutes", "0.02")])
def test_a_limit_is_not_waited_past(trial: Trial, limit: tuple[str, str]) -> None:
    play(trial, outages=1000, seconds=60)
    trial.project.tasks.add("Fix it")

    began = time.monotonic()
    trial.ralph("run", *limit)

    assert time.monotonic() - began < 20
    assert len(trial.project.journal.attempts(Page(limit=100))) == 1
