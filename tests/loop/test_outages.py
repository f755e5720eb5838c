"""When the service that runs a model fails, that is nobody's fault: the run waits, and gives up in the end."""

from __future__ import annotations

import json
import os
import time

import pytest

from ralph.core.paging import Page
from ralph.core.records import AttemptOutcome, TaskStatus
from ralph.loop.availability import MAX_OUTAGES
from ralph.loop.options import RunEnding
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
    assert {entry.model for entry in entries} == {None}  # the agent's own, all the time


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
    assert len(trial.project.journal.attempts(Page(limit=100))) == MAX_OUTAGES
    assert {trial.project.tasks.get(task.id).task.status for task in tasks} == {TaskStatus.PENDING}


@pytest.mark.parametrize("limit", [("--max-iterations", "1"), ("--max-minutes", "0.02")])
def test_a_limit_is_not_waited_past(trial: Trial, limit: tuple[str, str]) -> None:
    play(trial, outages=1000, seconds=60)
    trial.project.tasks.add("Fix it")

    began = time.monotonic()
    trial.ralph("run", *limit)

    assert time.monotonic() - began < 20
    assert len(trial.project.journal.attempts(Page(limit=100))) == 1


def limit_event(resets_at: float) -> dict[str, object]:
    info = {"status": "rejected", "resetsAt": int(resets_at), "rateLimitType": "five_hour", "isUsingOverage": False}
    return {"type": "rate_limit_event", "rate_limit_info": info}


FAILURES = {
    "limit": "You've hit your 5-hour limit · resets 9:31am (Europe/Berlin)",
    "login": "Not logged in · Please run /login",
    "credit": "Credit balance is too low",
    "model": "There's an issue with the selected model (nope)",
}


def refuse(trial: Trial, kind: str, times: int, seconds: float = 2.0, settings: str = "") -> None:
    """Let the service refuse so many times; a limit is reset after so many seconds from the first time on."""
    play(trial, outages=times)
    trial.settings(AGENT.format(seconds=0).replace("[execution]", f"{settings}\n[execution]"))
    event = json.dumps(limit_event(time.time() + seconds))
    script = (trial.root / "agent.sh").read_text()
    result = json.dumps(OUTAGE | {"result": FAILURES[kind]})
    announced = f"echo '{event}'\n    " if kind == "limit" else ""
    script = script.replace(f"echo '{json.dumps(OUTAGE)}'", f"{announced}cat <<'EOF'\n{result}\nEOF\n    true")
    (trial.root / "agent.sh").write_text(script)


def test_a_usage_limit_is_waited_for_until_it_is_reset(trial: Trial) -> None:
    refuse(trial, "limit", times=1, seconds=3)
    task = trial.project.tasks.add("Fix it")

    began = time.time()
    told = trial.ralph("run")

    assert trial.project.tasks.get(task.id).task.status is TaskStatus.DONE
    assert time.time() - began > 2
    assert [entry.excused for entry in trial.project.journal.attempts(Page(limit=9))] == [False, True]
    assert "usage limit" in told.out + told.err
    waits = trial.project.runs.report().waits
    assert list(waits) == ["usage limit of claude"]
    assert 1 <= waits["usage limit of claude"] < time.time() - began


def test_a_limit_that_is_reset_too_late_ends_the_run_at_once(trial: Trial) -> None:
    refuse(trial, "limit", times=9, seconds=3600)
    trial.project.tasks.add("Fix it")

    began = time.monotonic()
    trial.ralph("run", "--max-minutes", "30")

    assert time.monotonic() - began < 60
    assert trial.project.runs.list(Page(limit=1))[0].ending == RunEnding.LIMIT_MINUTES


@pytest.mark.parametrize(
    ("kind", "ending"),
    [("login", RunEnding.NO_LOGIN), ("credit", RunEnding.NO_CREDIT), ("model", RunEnding.UNKNOWN_MODEL)],
)
def test_what_waiting_does_not_mend_ends_the_run_at_once(trial: Trial, kind: str, ending: RunEnding) -> None:
    refuse(trial, kind, times=99)
    task = trial.project.tasks.add("Fix it")

    told = trial.ralph("run")

    assert told.code == 1
    assert len(trial.project.journal.attempts(Page(limit=9))) == 1
    assert trial.project.runs.list(Page(limit=1))[0].ending == ending
    assert trial.project.tasks.get(task.id).metrics.failures_since_reset == 0


def test_another_agent_goes_on_while_the_first_one_waits(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(trial, "limit", times=99, seconds=3600, settings='fallback = ["codex"]')
    programs = trial.root.parent / "programs"
    programs.mkdir()
    events = [
        {"type": "item.completed", "item": {"type": "agent_message", "text": "<task-done>$RALPH_TASK_ID</task-done>"}},
        {"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}},
    ]
    lines = "\n".join(json.dumps(event) for event in events)
    (programs / "codex").write_text(
        '#!/bin/sh\ncase "$*" in *--version*) echo codex 0.166.0; exit 0;; esac\n'
        f"cat > /dev/null\ncat <<EOF\n{lines}\nEOF\n"
    )
    (programs / "codex").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    tasks = [trial.project.tasks.add(title) for title in ("One", "Two")]

    trial.ralph("run")

    assert {trial.project.tasks.get(task.id).task.status for task in tasks} == {TaskStatus.DONE}
    entries = trial.project.journal.attempts(Page(limit=9))
    assert [(entry.agent, entry.outcome) for entry in entries] == [
        ("codex", AttemptOutcome.DONE),
        ("codex", AttemptOutcome.DONE),
        ("claude", AttemptOutcome.ERROR),
    ]
