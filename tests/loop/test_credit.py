"""What was shown shares in what came of it, once; and what is left out on purpose shows what memory brings."""

from __future__ import annotations

import random

import pytest

from ralph.agents import SessionOptions
from ralph.core.errors import ClaimLostError
from ralph.core.records import (
    AgentReply,
    AttemptOutcome,
    AttemptResult,
    EpisodeKind,
    Memory,
    SessionEnding,
    Speaker,
    TaskStatus,
    now,
    replace,
)
from ralph.loop.options import RunOptions
from ralph.memory.lifecycle.confidence import CONFIDENCE_GAIN
from tests.loop.trial import DONE, FAILED, SAYS_DONE, SAYS_FAILED, Trial
from tests.make import ScriptedAgent, a_memory, an_episode, begin, remember

EVEN = 0.5
"""How often attempts succeed in a project without a past, as far as credit goes."""
FADES = CONFIDENCE_GAIN * EVEN / (1 - EVEN)


def known(trial: Trial, body: str = "The parser wants tabs.", **fields: object) -> Memory:
    return remember(
        trial.project.store,
        a_memory(f"About {body}", body, **{"tags": ("parser",), "confidence": 0.6, **fields}),
    )


def again(trial: Trial, memory: Memory) -> Memory:
    return trial.project.store.memories.get(memory.id)


def record(memory: Memory) -> tuple[int, int, int, float | None]:
    return memory.uses, memory.wins, memory.losses, memory.success_rate


# --- wins and losses -------------------------------------------------------------------------


def test_a_memory_that_was_shown_when_a_task_got_done_wins(trial: Trial) -> None:
    memory = known(trial)
    trial.project.tasks.add("Mend the parser")

    trial.run(ScriptedAgent(DONE))

    assert trial.last().shown == (memory.id,)
    after = again(trial, memory)
    assert record(after) == (1, 1, 0, 1.0)
    assert after.confidence == pytest.approx(0.6 + CONFIDENCE_GAIN)
    assert after.used_at == trial.last().ended_at


def test_past_work_that_was_shown_is_recorded_and_credited(trial: Trial) -> None:
    episode = an_episode("The parser of invoices wants tabs, never spaces")
    trial.project.store.episodes.add([episode])
    trial.project.tasks.add("Mend the parser of invoices")

    trial.run(ScriptedAgent(DONE))

    assert trial.last().shown == (episode.id,)
    (row,) = trial.project.store.scope.query(
        "SELECT uses, wins, losses FROM episodes WHERE project_id = :project_id AND kind = 'session'"
    )
    assert tuple(row.values()) == (1, 1, 0)


def test_an_attempt_keeps_its_transcript(trial: Trial) -> None:
    trial.project.tasks.add("Mend the parser of invoices", body="It fails on tabs.")

    trial.run(ScriptedAgent(f"The tokenizer dropped tabs in quoted fields. {SAYS_DONE}"))

    attempt = trial.last()
    (passage,) = trial.project.episodes.transcript(EpisodeKind.ATTEMPT, f"{attempt.run_id}/{attempt.iteration}")
    assert passage.text.startswith("The tokenizer dropped tabs in quoted fields.")
    assert passage.speaker is Speaker.AGENT


@pytest.mark.parametrize(
    "answer",
    [FAILED, "nothing said", AgentReply(text="", ending=SessionEnding.TIMED_OUT, detail="x", files=())],
    ids=["failed", "blocked", "error"],
)
def test_a_memory_that_was_shown_in_vain_loses(trial: Trial, answer: str | AgentReply) -> None:
    memory = known(trial)
    trial.project.tasks.add("Mend the parser")

    trial.run(ScriptedAgent(answer), RunOptions(iterations=1))

    after = again(trial, memory)
    assert record(after) == (1, 0, 1, 0.0)
    assert after.confidence == pytest.approx(0.6 - FADES)


def test_an_agent_that_crashes_says_nothing_about_what_it_was_told(trial: Trial) -> None:
    memory = known(trial)
    trial.project.tasks.add("Mend the parser")

    trial.run(ScriptedAgent(AgentReply(text="", ending=SessionEnding.CRASHED, detail="connection refused", files=())))

    assert trial.last().shown == (memory.id,)
    assert record(again(trial, memory)) == (0, 0, 0, None)


def test_work_that_a_gate_refuses_is_no_win(trial: Trial) -> None:
    memory = known(trial)
    trial.project.tasks.add("Mend the parser")

    trial.run(ScriptedAgent(DONE), RunOptions(iterations=1), execution={"gates": ("false",)})

    assert record(again(trial, memory)) == (1, 0, 1, 0.0)


def test_each_attempt_counts_once(trial: Trial) -> None:
    memory = known(trial)
    trial.project.tasks.add("Mend the parser")
    trial.project.tasks.add("Extend the parser")

    trial.run(ScriptedAgent(FAILED, DONE, DONE))

    uses, wins, losses, rate = record(again(trial, memory))
    assert (uses, wins, losses) == (3, 2, 1)
    assert rate == pytest.approx(2 / 3, abs=1e-5)


def test_by_command_the_record_of_a_memory_is_seen(trial: Trial) -> None:
    trial.script(f"if [ $RALPH_ATTEMPT = 1 ]; then {SAYS_FAILED}; else {SAYS_DONE}; fi")
    id = trial.ralph("memory", "add", "The parser wants tabs.", "--tags", "parser", "--format", "quiet").out.strip()
    trial.project.tasks.add("Mend the parser")

    trial.ralph("run", "--", "sh", "agent.sh")
    shown = trial.ralph("memory", "show", id, "--format", "json").json
    stats = trial.ralph("stats", "memory", "--format", "json").json

    assert (shown["use_count"], shown["success_rate"]) == (2, 0.5)
    assert (stats["wins"], stats["losses"]) == (1, 1)


def test_what_was_not_shown_neither_wins_nor_loses(trial: Trial) -> None:
    other = known(trial, "Bananas are yellow.", tags=("fruit",))
    trial.project.tasks.add("Mend the parser")

    trial.run(ScriptedAgent(DONE))

    assert record(again(trial, other)) == (0, 0, 0, None)


def test_what_an_attempt_itself_learned_is_not_its_own_win(trial: Trial) -> None:
    trial.project.tasks.add("Mend the parser")

    trial.run(ScriptedAgent(f'<knowledge tags="parser" title="Tabs">Use tabs.</knowledge>{DONE}'))

    (learned,) = trial.memories("knowledge")
    assert record(learned) == (0, 0, 0, None)


def test_an_interrupted_attempt_says_nothing_about_what_it_was_shown(trial: Trial) -> None:
    memory = known(trial)
    trial.project.tasks.add("Mend the parser")

    trial.run(ScriptedAgent(AgentReply(text="", ending=SessionEnding.STOPPED, files=())), RunOptions(iterations=1))

    assert trial.last().shown == (memory.id,)
    assert record(again(trial, memory)) == (0, 0, 0, None)


def test_an_attempt_whose_task_was_taken_away_says_nothing_either(trial: Trial) -> None:
    memory = known(trial)
    task = trial.project.tasks.add("Mend the parser")

    def taken_away(prompt: str, session: SessionOptions) -> str:
        trial.project.tasks.done(task.id)
        return DONE

    trial.run(ScriptedAgent(taken_away))

    assert trial.outcomes() == [AttemptOutcome.INTERRUPTED]
    assert record(again(trial, memory)) == (0, 0, 0, None)


def test_a_memory_that_was_deleted_meanwhile_hinders_nothing(trial: Trial) -> None:
    memory = known(trial)
    trial.project.tasks.add("Mend the parser")

    def forget(prompt: str, session: SessionOptions) -> str:
        trial.ralph("memory", "delete", memory.id)
        return DONE

    trial.run(ScriptedAgent(forget))

    assert trial.outcomes() == [AttemptOutcome.DONE]


def test_the_success_rate_of_an_antipattern_tells_of_those_who_follow_it(trial: Trial) -> None:
    memory = known(trial, "Do not edit the parser by hand.", kind="antipattern", success_rate=0.0)
    trial.project.tasks.add("Mend the parser")

    trial.run(ScriptedAgent(DONE))

    after = again(trial, memory)
    assert record(after) == (1, 1, 0, 0.0)
    assert after.confidence > memory.confidence


def test_a_failure_takes_more_where_most_succeed(trial: Trial) -> None:
    memory = known(trial)
    for number in range(8):
        trial.project.tasks.add(f"Water the plants {number}")
    trial.run(ScriptedAgent(DONE))
    trial.project.tasks.add("Mend the parser")

    trial.run(ScriptedAgent(FAILED), RunOptions(iterations=1))

    assert again(trial, memory).confidence < 0.6 - FADES


# --- several hats ----------------------------------------------------------------------------


def hatted(trial: Trial, *answers: str, iterations: int = 20, **kinds: tuple[str, ...]) -> None:
    order = ("planner", "creator", "critic")
    trial.run(ScriptedAgent(*answers), RunOptions(iterations=iterations), hats={"order": order, "kinds": kinds})


def test_what_earlier_hats_were_shown_shares_in_the_outcome(trial: Trial) -> None:
    planned = known(trial, "The parser has two passes.", kind="architecture")
    created = known(trial, "The parser wants tabs.", kind="fix")
    trial.project.tasks.add("Mend the parser")

    hatted(trial, DONE, iterations=2, planner=("architecture",), creator=("fix",), critic=("pitfall",))
    between = [record(again(trial, memory)) for memory in (planned, created)]
    hatted(trial, DONE, planner=("architecture",), creator=("fix",), critic=("pitfall",))

    assert [attempt.shown for attempt in trial.attempts()] == [(planned.id,), (created.id,), ()]
    assert between == [(0, 0, 0, None)] * 2
    assert [record(again(trial, memory)) for memory in (planned, created)] == [(1, 1, 0, 1.0)] * 2


def test_a_memory_that_several_hats_were_shown_counts_once(trial: Trial) -> None:
    memory = known(trial)
    trial.project.tasks.add("Mend the parser")

    hatted(trial, DONE)

    assert [attempt.shown for attempt in trial.attempts()] == [(memory.id,)] * 3
    assert record(again(trial, memory)) == (1, 1, 0, 1.0)


def test_what_led_to_findings_loses_and_what_mended_them_wins(trial: Trial) -> None:
    memory = known(trial)
    trial.project.tasks.add("Mend the parser")

    hatted(trial, DONE, DONE, '<hand-over to="creator">It is wrong.</hand-over>', DONE, DONE)

    assert trial.outcomes()[2] is AttemptOutcome.RETRIED
    uses, wins, losses, rate = record(again(trial, memory))
    assert (uses, wins, losses, rate) == (2, 1, 1, 0.5)


# --- once, and all or nothing ------------------------------------------------------------------


def settled(trial: Trial, outcome: AttemptOutcome = AttemptOutcome.DONE) -> tuple[AttemptResult, int]:
    """Begin an attempt that is shown what is known; give what settles it."""
    store = trial.project.store
    run = store.runs.start("test")
    task, attempt = begin(store, run.id)
    shown = tuple(memory.id for memory in store.memories.all())
    ended = replace(attempt, outcome=outcome, shown=shown, ended_at=now())
    status = TaskStatus.DONE if outcome is AttemptOutcome.DONE else TaskStatus.PENDING
    return AttemptResult(attempt=ended, report=None, memories=(), task_status=status), task.claim_token


def test_a_settlement_that_is_repeated_after_its_answer_was_lost_counts_once(trial: Trial) -> None:
    memory = known(trial)
    trial.project.tasks.add("Mend the parser")
    capture, token = settled(trial)

    trial.project.store.attempts.finish(capture, token)
    trial.project.store.attempts.finish(capture, token, is_retry=True)

    assert record(again(trial, memory)) == (1, 1, 0, 1.0)
    assert again(trial, memory).confidence == pytest.approx(0.6 + CONFIDENCE_GAIN)


def test_a_settlement_that_never_arrived_is_made_up_for(trial: Trial) -> None:
    memory = known(trial)
    trial.project.tasks.add("Mend the parser")
    capture, token = settled(trial)

    trial.project.store.attempts.finish(capture, token, is_retry=True)

    assert record(again(trial, memory)) == (1, 1, 0, 1.0)


def test_a_settlement_that_is_undone_leaves_no_credit_behind(trial: Trial) -> None:
    memory = known(trial)
    task = trial.project.tasks.add("Mend the parser")
    capture, token = settled(trial)

    with pytest.raises(ZeroDivisionError), trial.project.store.transaction():
        trial.project.store.attempts.finish(capture, token)
        assert again(trial, memory).wins == 1
        raise ZeroDivisionError

    assert record(again(trial, memory)) == (0, 0, 0, None)
    assert trial.last().outcome is None
    assert trial.status(task) is TaskStatus.IN_PROGRESS


def test_who_lost_the_claim_gives_no_credit(trial: Trial) -> None:
    memory = known(trial)
    task = trial.project.tasks.add("Mend the parser")
    capture, token = settled(trial)
    trial.project.tasks.reset(task.id)

    with pytest.raises(ClaimLostError):
        trial.project.store.attempts.finish(capture, token)
    with pytest.raises(ClaimLostError):
        trial.project.store.attempts.finish(capture, token, is_retry=True)

    assert record(again(trial, memory)) == (0, 0, 0, None)


# --- holdout -------------------------------------------------------------------------------------

OF_MEMORY = (
    "## Project Knowledge",
    "## Run Journal",
    "### Previous Attempts",
    "### Failures of Other Tasks",
    "### Stuck Loop Warning",
    "The parser wants tabs.",
    "Looked at the lexer.",
    "ralph memory search",
)


def test_a_share_of_the_iterations_does_without_memory(trial: Trial) -> None:
    random.seed(6)
    memory = known(trial)
    for number in range(60):
        trial.project.tasks.add(f"Mend the parser {number}")
    agent = ScriptedAgent(f"<journal>Looked at the lexer.</journal>{DONE}")

    trial.run(agent, RunOptions(holdout=0.3), memories={"skill_injection": True, "files": False})

    attempts = trial.attempts()
    without = [attempt for attempt in attempts if not attempt.with_memory]
    assert {attempt.holdout for attempt in attempts} == {0.3}
    assert 8 <= len(without) <= 30
    for attempt, prompt in zip(attempts, agent.prompts, strict=True):
        assert ("The parser wants tabs." in prompt) is attempt.with_memory
        assert (memory.id in attempt.shown) is attempt.with_memory
        if not attempt.with_memory:
            assert not [words for words in OF_MEMORY if words in prompt]
    assert again(trial, memory).uses == len(attempts) - len(without)


def test_nothing_of_earlier_failures_is_in_a_prompt_without_memory(trial: Trial) -> None:
    known(trial)
    trial.project.tasks.add("Mend the parser")
    agent = ScriptedAgent(f"<journal>Looked at the lexer.</journal>{FAILED}")

    trial.run(agent, RunOptions(with_memory=False))

    assert len(agent.prompts) == 4
    for prompt in agent.prompts:
        assert not [words for words in OF_MEMORY if words in prompt]


def test_by_command_the_share_is_told_and_recorded(trial: Trial) -> None:
    trial.script(SAYS_DONE)
    trial.project.tasks.add("A")

    ran = trial.ralph("run", "--holdout", "0.25", "--", "sh", "agent.sh")

    assert "25% of the iterations run without memory" in ran.out
    assert trial.last().holdout == 0.25


def test_without_a_holdout_no_experiment_is_recorded(trial: Trial) -> None:
    for number in range(2):
        trial.project.tasks.add(str(number))

    trial.run(ScriptedAgent(DONE), RunOptions(iterations=1))
    trial.run(ScriptedAgent(DONE), RunOptions(iterations=1, with_memory=False, holdout=0.5))

    assert [(attempt.holdout, attempt.with_memory) for attempt in trial.attempts()] == [(0.0, True), (0.0, False)]


@pytest.mark.parametrize("share", ["0", "1", "1.5", "-0.1", "nan", "inf", "ten"])
def test_a_share_that_makes_no_sense_is_refused(trial: Trial, share: str) -> None:
    ran = trial.ralph("run", "--holdout", share, "--", "true")

    assert ran.code == 2


def test_a_holdout_without_any_memory_is_refused(trial: Trial) -> None:
    ran = trial.ralph("run", "--holdout", "0.5", "--no-memory", "--", "true")

    assert (ran.code, ran.error) == (2, "conflicting-options")
