"""A session that the model refused, or that hung before it did anything, is repeated once at no cost to its task."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ralph.core.paging import Page
from ralph.core.records import AttemptOutcome, TaskStatus
from tests.loop.trial import Trial

AGENT = """\
[agent]
name = "claude"
command = ["sh", "agent.sh"]
idle_seconds = 1
[execution]
max_retries = 1
"""
REFUSAL = [
    {
        "type": "assistant",
        "message": {"id": "m", "content": [{"type": "text", "text": "No."}], "stop_reason": "refusal"},
    },
    {"type": "result", "subtype": "success", "is_error": False, "result": "No.", "stop_reason": "refusal"},
]
DONE = [
    {"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": "<task-done>TASK</task-done>"}]}},
    {"type": "result", "subtype": "success", "is_error": False, "terminal_reason": "completed", "result": ""},
]
HANG = "exec sleep 60"


def lines(events: list[Any]) -> str:
    return "\n".join(map(json.dumps, events))


REFUSES = f"echo '{lines(REFUSAL)}'; exit 0"


def play(trial: Trial, times: int, disturbance: str) -> None:
    """Let the first sessions be disturbed; later ones get their task done."""
    trial.settings(AGENT)
    trial.script(
        f"""
case "$*" in *--version*) echo 2.1.325; exit 0;; esac
cat > /dev/null
echo x >> .ralph/asked
if [ "$(wc -l < .ralph/asked)" -le {times} ]; then
    {disturbance}
fi
echo '{lines(DONE)}' | sed "s/TASK/$RALPH_TASK_ID/"
"""
    )


@pytest.mark.parametrize(
    ("disturbance", "outcome"),
    [(REFUSES, AttemptOutcome.FAILED), (HANG, AttemptOutcome.ERROR)],
    ids=["refusal", "hang"],
)
def test_the_first_one_counts_for_nothing_and_the_next_for_a_retry(
    trial: Trial, disturbance: str, outcome: AttemptOutcome
) -> None:
    play(trial, 2, disturbance)
    task = trial.project.tasks.add("Fix it")

    trial.ralph("run")

    entries = trial.project.journal.attempts(Page(limit=20))
    assert [entry.outcome for entry in entries] == [AttemptOutcome.DONE, outcome, outcome]
    assert [entry.excused for entry in entries] == [False, False, True]
    assert trial.project.tasks.get(task.id).task.status is TaskStatus.DONE


def test_a_model_that_always_refuses_leaves_the_task_to_a_person(trial: Trial) -> None:
    play(trial, 99, REFUSES)
    task = trial.project.tasks.add("Fix it")

    trial.ralph("run", "--max-iterations", "9")

    assert trial.project.tasks.get(task.id).task.status is TaskStatus.BLOCKED
    assert len(trial.project.journal.attempts(Page(limit=20))) == 3


def test_an_agent_that_hangs_on_every_task_stops_the_run(trial: Trial) -> None:
    play(trial, 99, HANG)
    for number in range(12):
        trial.project.tasks.add(f"Fix {number}")

    trial.ralph("run", "--max-iterations", "12")

    assert len(trial.project.journal.attempts(Page(limit=20))) < 12


def test_work_before_a_hang_counts(trial: Trial) -> None:
    play(trial, 1, f"echo x > work.txt; {HANG}")
    trial.project.tasks.add("Fix it")
    trial.git("init", "--quiet")
    trial.commit_all()

    trial.ralph("run")

    assert [entry.excused for entry in trial.project.journal.attempts(Page(limit=20))] == [False, False]
