"""What prompts say about earlier attempts at their task: all of them, nothing that was refuted, nothing empty."""

from __future__ import annotations

import pytest

from ralph.agents import SessionOptions
from ralph.core.records import AgentReply, AttemptOutcome, SessionEnding
from ralph.loop.settle import error_fingerprint
from tests.loop.test_prompt import a_failure, an_entry, build, known
from tests.loop.trial import DONE, FAILED, Trial
from tests.make import ScriptedAgent

SUGGESTED = "<retry-suggestion>Expand tabs before counting columns.</retry-suggestion>"


def failed(tried: str, why: str, rest: str = "") -> str:
    return f"<failure-report>\nwhat_tried: {tried}\nwhy_failed: {why}\n</failure-report>\n{rest}\n{FAILED}"


class SlowAgent(ScriptedAgent):
    """Changes files and is stopped in its first session; then says done."""

    reports_files = False

    def __init__(self, trial: Trial) -> None:
        super().__init__(DONE)
        self._root = trial.root

    def work(self, prompt: str, session: SessionOptions) -> AgentReply:
        reply = super().work(prompt, session)
        if len(self.prompts) > 1:
            return reply
        (self._root / "kept.py").write_text("a = 2  # changed\n")
        (self._root / "new.py").write_text("b = 1\n")
        return AgentReply(text="", ending=SessionEnding.TIMED_OUT, detail="took longer than 60 s")


def test_every_attempt_is_listed_old_ones_in_a_line_each() -> None:
    reports = tuple(a_failure(n, why=f"Reason {n} " + "why " * 200) for n in range(30, 20, -1))
    attempts = tuple(
        an_entry(n, number=n, task_id="t-00000a", outcome=AttemptOutcome.FAILED, reason=f"Reason {n}")
        for n in range(30, 0, -1)
    )

    prompt = build(known(reports=reports, attempts=attempts, attempt_number=31))
    section = next(one for one in prompt.sections if one.name == "Previous Attempts")

    assert "#### Attempt 30 " in section.text
    assert all(f"Attempt {n} [" in section.text and f"Reason {n}" in section.text for n in range(1, 31))
    assert section.tokens <= (section.cap_tokens or 0)
    assert not section.left_out


def test_of_a_hundred_attempts_the_oldest_are_one_line() -> None:
    attempts = tuple(
        an_entry(n, number=n, task_id="t-00000a", outcome=AttemptOutcome.FAILED, reason="Why " * 30)
        for n in range(100, 0, -1)
    )

    prompt = build(known(attempts=attempts, attempt_number=101))
    section = next(one for one in prompt.sections if one.name == "Previous Attempts")

    assert "- Attempts 1 to " in section.text
    assert section.tokens <= (section.cap_tokens or 0)
    assert len(section.shown) + len(section.left_out) == 100


def test_advice_that_a_later_attempt_followed_in_vain_is_not_repeated(trial: Trial) -> None:
    trial.project.tasks.add("Count columns")
    agent = ScriptedAgent(
        failed("Replaced the tokenizer.", "test_tabs failed.", SUGGESTED),
        failed("Expanded tabs before counting the columns.", "test_width failed: a wide character has two columns."),
        DONE,
    )

    trial.run(agent)

    assert "Expand tabs before counting columns." in agent.prompts[1]
    assert "Expand tabs before counting columns." not in agent.prompts[2]
    assert "#### Attempt 1" in agent.prompts[2]


def test_advice_that_nobody_tried_is_repeated(trial: Trial) -> None:
    trial.project.tasks.add("Count columns")
    crash = AgentReply(text="", ending=SessionEnding.CRASHED, detail="exited with status 1")
    agent = ScriptedAgent(failed("Replaced it.", "test_tabs failed.", SUGGESTED), crash, DONE)

    trial.run(agent)

    assert "Expand tabs before counting columns." in agent.prompts[2]


def test_prose_about_a_failure_is_said_once(trial: Trial) -> None:
    trial.project.tasks.add("Serve orders")
    reason = "Orders cannot be served, because port 8080 is taken by another server."
    agent = ScriptedAgent(f"{reason}\n\n<task-failed>TASK</task-failed>", DONE)

    trial.run(agent)

    assert agent.prompts[1].count(reason) == 1
    assert f"- **Why it failed**: {reason}" in agent.prompts[1]


def test_an_agent_that_said_nothing_is_not_quoted(trial: Trial) -> None:
    trial.project.tasks.add("Count columns")
    agent = ScriptedAgent(FAILED, FAILED, FAILED, DONE)

    trial.run(agent)

    assert all(f"Attempt {n} [" in agent.prompts[3] for n in (1, 2, 3))
    assert "The agent said nothing" not in agent.prompts[3]
    assert "doing the same again" not in agent.prompts[3]
    assert "same error" not in agent.prompts[3]


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("the agent gave no reason", "the agent gave no reason", False),
        ("Unknown error.", "Unknown error.", False),
        ("It did not work, I do not know why", "It did not work, I do not know why", False),
        ("AssertionError: 1 != 8", "AssertionError: 3 != 4", False),
        ("test_tabs failed", "test_width failed", False),
        ("AssertionError: 1 != 8", "AssertionError: 1 != 8", True),
        ("a.py:12: error: x at 0x7f01 in 0.31s", "a.py:98: error: x at 0x8a00 in 1.02s", True),
        ("/tmp/run-1/a.py, line 3: boom", "/tmp/run-2/a.py, line 7: boom", True),
    ],
)
def test_the_same_error_has_the_same_content(one: str, other: str, is_same: bool) -> None:
    prints = error_fingerprint("tool_error", one), error_fingerprint("tool_error", other)

    assert (prints[0] == prints[1] != "") is is_same


def test_after_an_attempt_that_was_cut_off_the_prompt_lists_what_it_left(trial: Trial) -> None:
    (trial.root / "kept.py").write_text("a = 1\n")
    trial.commit_all()
    trial.project.tasks.add("Count columns")

    agent = SlowAgent(trial)
    trial.run(agent)

    assert "### Unfinished Work\n\nAttempt 1 was cut off (took longer than 60 s)" in agent.prompts[1]
    assert "- M kept.py\n- ? new.py\n" in agent.prompts[1]
    assert "Unfinished Work" not in agent.prompts[0]


def test_a_killed_worker_is_told_of_and_a_tree_that_was_put_back_is_not_listed(trial: Trial) -> None:
    trial.commit_all()
    project = trial.project
    task = project.tasks.add("Count columns")
    run = project.store.runs.start("test")
    project.store.attempts.begin(run.id, "gone", 60, agent="test")
    project.store.attempts.release_vanished({"gone"})
    agent = ScriptedAgent(DONE)

    trial.run(agent)

    assert f"**{task.id}**" in agent.prompts[0]
    assert "Attempt 1 was cut off (the worker vanished) before it could report. It left no" in agent.prompts[0]


def test_in_a_worktree_it_lists_what_is_not_merged_yet(trial: Trial) -> None:
    task = trial.project.tasks.add("Count columns")
    (trial.root / "agent.sh").write_text(
        f'cat > "{trial.root}/.ralph/prompt.$RALPH_TASK_ID.$RALPH_ATTEMPT"\n'
        "if [ $RALPH_ATTEMPT = 1 ]; then echo 'x = 1' > new.py; kill -9 $$; fi\n"
        'echo "<task-done>$RALPH_TASK_ID</task-done>"\n'
    )
    trial.commit_all()

    trial.ralph("run", "--parallel", "2", "--max-iterations", "2", "--", "sh", str(trial.root / "agent.sh"))

    assert "Attempt 1 was cut off" in trial.kept_prompt(task, 2)
    assert "- A new.py\n" in trial.kept_prompt(task, 2)
