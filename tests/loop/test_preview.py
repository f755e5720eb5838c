"""`ralph prompt` shows exactly what the next run sends."""

from __future__ import annotations

import pytest

from ralph.core.records import AgentReply, AttemptOutcome, SessionEnding
from tests.loop.trial import DONE, FAILED, SAYS_DONE, Trial
from tests.make import ScriptedAgent

SETTINGS = """
[agent]
command = ["sh", "agent.sh"]
[hats]
order = ["explorer", "creator"]
[execution]
max_retries = 5
"""
ANSWERS = """
if [ "$RALPH_READ_ONLY" ]; then exit; fi
case $RALPH_ATTEMPT in
1) echo '<journal>The counter is in columns.py.</journal><hand-over to="creator">See columns.py.</hand-over>';;
2) echo '<failure-report>what_tried: Replaced it.
why_failed: test_tabs failed: 1 != 8
</failure-report><retry-suggestion>Expand tabs.</retry-suggestion>'; echo "<task-failed>$RALPH_TASK_ID</task-failed>";;
3) echo 'x = 1' > columns.py; kill -9 $$;;
4) echo 'MEMORY:pattern:Columns are counted from one, tabs count as eight columns.'; sleep 0.1;;
*) echo "<task-done>$RALPH_TASK_ID</task-done>";;
esac
"""


def write_note(trial: Trial, text: str) -> None:
    file = trial.root / ".ralph/knowledge/tabs.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    head = "---\ntitle: Tabs and columns\ntags: [tabs, columns]\ncreated_at: 2026-11-15T10:00:00Z\n---\n\n"
    file.write_text(f"{head}{text}\n")


def test_the_preview_is_what_the_run_sends(trial: Trial) -> None:
    (trial.root / "columns.py").write_text("x = 0\n")
    trial.settings(SETTINGS)
    trial.script(ANSWERS)
    trial.commit_all()
    feature = trial.project.features.add("Columns", spec="# Columns\n\nTabs count.\n" * 800, plan="1. Tabs")
    whole = trial.project.tasks.add("Text", "Money is in cents.", feature=feature.id)
    task = trial.project.tasks.add("Count tabs as columns", "See columns.py.", parent=whole.id, feature=feature.id)
    trial.ralph(
        "memory", "add", "Run make widths after each edit of columns.py.", "--type", "pattern", "--files", "columns.py"
    )

    for attempt in range(1, 6):
        write_note(trial, f"Tabs count as {attempt} columns.")
        shown = trial.ralph("prompt", task.id, "--raw").out
        trial.ralph("run", "--max-iterations", "1")

        assert f"Tabs count as {attempt} columns." in shown
        assert shown == trial.kept_prompt(task, attempt)
    assert trial.outcomes()[-1] is AttemptOutcome.DONE


def test_a_preview_without_memory_is_what_an_attempt_without_memory_is_sent(trial: Trial) -> None:
    trial.settings(SETTINGS)
    trial.script(SAYS_DONE)
    write_note(trial, "Tabs count as eight columns.")
    task = trial.project.tasks.add("Count tabs as columns")

    shown = trial.ralph("prompt", task.id, "--raw", "--no-memory").out
    trial.ralph("run", "--max-iterations", "1", "--holdout", "0.999999")

    assert shown == trial.kept_prompt(task, 1)


@pytest.mark.parametrize("feedback", ["", "Leave the lexer alone."])
def test_what_a_person_said_who_stopped_an_attempt_is_previewed(trial: Trial, feedback: str) -> None:
    task = trial.project.tasks.add("Count tabs as columns")
    stopped = AgentReply(
        text="<journal>Half done.</journal>", ending=SessionEnding.STOPPED, detail="stopped by a person"
    )
    trial.run(ScriptedAgent(stopped, FAILED), ask=lambda _: feedback)
    trial.project.tasks.reset(task.id)

    shown = trial.project.prompts.preview(task.id).text
    agent = ScriptedAgent(DONE)
    trial.run(agent)

    # The test's agent accepts models; the one that is configured does not.
    assert shown.partition("- Model:")[0] == agent.prompts[0].partition("- Model:")[0]


def test_the_preview_knows_of_a_run_that_was_killed(trial: Trial) -> None:
    trial.settings(SETTINGS)
    trial.script("echo 'x = 1' > new.py; touch started; sleep 60")
    trial.commit_all()
    task = trial.project.tasks.add("Count tabs as columns")
    process = trial.start("run", "--max-iterations", "1")
    trial.soon("started")
    process.kill()
    process.communicate()
    trial.script(SAYS_DONE)

    shown = trial.ralph("prompt", task.id, "--raw").out
    trial.ralph("run", "--max-iterations", "1")

    assert "Attempt 1 was cut off (the worker vanished)" in shown
    assert "- ? new.py\n" in shown
    assert shown == trial.kept_prompt(task, 2)
