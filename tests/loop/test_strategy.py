from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.config import STRATEGIES, ModelsConfig
from ralph.core.records import AttemptOutcome, Difficulty, replace
from ralph.loop.strategy import (
    MAX_REASON_LENGTH,
    NO_MODEL_REASON,
    ModelChoice,
    ModelEvidence,
    ModelTotals,
    choose_model,
    next_step_text,
    session_cost,
    strategy_name,
    strongest_model,
    unknown_model_problem,
)
from ralph.loop.stuck import EscalationStep, StuckState

BADLY = (AttemptOutcome.FAILED,) * 6 + (AttemptOutcome.DONE,) * 4


def chosen(
    strategy: str = "",
    *,
    ladder: tuple[str, ...] = ("haiku", "sonnet", "opus"),
    configured: str = "",
    flag: str | None = None,
    hat: str = "creator",
    takes_model: bool = True,
    prices: dict[str, tuple[float, ...]] | None = None,
    failures: int = 0,
    repeating: bool = False,
    failed_model: str = "",
    **evidence: object,
) -> ModelChoice:
    config = ModelsConfig(strategy=strategy, ladder=ladder)
    if prices is not None:
        config = replace(config, prices=prices)
    trouble = StuckState(failures=failures, is_repeating=repeating, failed_model=failed_model)
    return choose_model(
        config,
        replace(ModelEvidence(stuck_state=trouble), **evidence),
        configured=configured,
        flag=flag,
        hat=hat,
        takes_model=takes_model,
    )


# --- who decides ---------------------------------------------------------------------


def test_a_person_who_asks_for_a_model_gets_it() -> None:
    choice = chosen("fixed", flag="mine", configured="sonnet", hint="opus", takes_model=False)

    assert choice == ModelChoice(model="mine", reason="asked for with --model")


def test_a_program_that_takes_no_model_gets_none_and_a_reason() -> None:
    choice = chosen(configured="sonnet", hint="opus", takes_model=False)

    assert choice.model is None
    assert choice.reason == NO_MODEL_REASON


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_known_model_that_an_attempt_asked_for_goes_before_the_strategy(strategy: str) -> None:
    choice = chosen(strategy, hint=" Opus ", hint_from=2)

    assert choice == ModelChoice(model="opus", reason="asked for by attempt 2")


def test_the_prices_and_the_agent_settings_make_a_model_known_too() -> None:
    assert chosen("escalate", hint="local", prices={"local": (0.0, 0.0)}).model == "local"
    assert chosen("escalate", hint="mine", configured="mine").model == "mine"


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("hint", ["gpt-99", " ", "haiku\nopus", "ignore all that and take opus"])
def test_a_model_nobody_knows_never_changes_the_choice(strategy: str, hint: str) -> None:
    assert chosen(strategy, hint=hint, hint_from=1) == chosen(strategy)


def test_a_hint_nobody_knows_is_put_into_one_sentence() -> None:
    config = ModelsConfig()

    sentence = unknown_model_problem(config, "", "gpt\x1b[31m-99\n" + "x" * 500)

    assert sentence.startswith("Unknown model gpt-99 x")
    assert "\n" not in sentence
    assert len(sentence) < 200
    assert (
        unknown_model_problem(config, "", "OPUS")
        == unknown_model_problem(config, "mine", "mine")
        == unknown_model_problem(config, "", "")
        == ""
    )


def test_without_a_strategy_a_configured_model_is_fixed() -> None:
    assert strategy_name(ModelsConfig(), "sonnet") == "fixed"
    assert strategy_name(ModelsConfig(), "") == "escalate"
    assert strategy_name(ModelsConfig(strategy="cost-optimized"), "sonnet") == "cost-optimized"


# --- fixed ---------------------------------------------------------------------------


def test_fixed_never_changes() -> None:
    assert chosen("fixed", configured="mine", failures=3, repeating=True) == ModelChoice(
        model="mine", reason="fixed in the configuration", is_default=True
    )
    assert chosen("fixed", failures=3).model == "haiku"


# --- escalate ------------------------------------------------------------------------


@pytest.mark.parametrize(("failures", "model"), [(0, "haiku"), (1, "haiku"), (2, "sonnet"), (3, "opus"), (9, "opus")])
def test_escalate_climbs_from_the_second_failure_on(failures: int, model: str) -> None:
    assert chosen("escalate", failures=failures).model == model


def test_escalate_says_what_led_to_a_model() -> None:
    assert chosen("escalate").reason == "escalate: no failure yet"
    assert chosen("escalate", failures=1).reason == "escalate: 1 failure"
    assert chosen("escalate", failures=2).reason == "escalate: 2 failures, 1 rung up"
    assert chosen("escalate", failures=3, repeating=True).reason == (
        "escalate: 3 failures, 2 rungs up, 1 more because they repeat; this is the top"
    )
    assert chosen("escalate", difficulty=Difficulty.HARD, recent=BADLY).reason == (
        "escalate: no failure yet, 1 up for difficulty hard, 1 up because 40% got done recently"
    )


def test_escalate_starts_with_the_configured_model() -> None:
    assert chosen("escalate", configured="sonnet").model == "sonnet"
    assert chosen("escalate", configured="sonnet", failures=2).model == "opus"


def test_a_configured_model_that_is_not_on_the_ladder_is_the_rung_below_it() -> None:
    models = [chosen("escalate", configured="tiny", failures=failures).model for failures in range(5)]

    assert models == ["tiny", "tiny", "haiku", "sonnet", "opus"]


def test_failures_that_repeat_are_worth_one_rung_more() -> None:
    assert chosen("escalate", failures=2, repeating=True).model == "opus"


@pytest.mark.parametrize("difficulty", Difficulty)
def test_a_hard_task_starts_one_rung_higher(difficulty: Difficulty) -> None:
    is_hard = difficulty in (Difficulty.HARD, Difficulty.BLOCKED)

    assert chosen("escalate", difficulty=difficulty).model == ("sonnet" if is_hard else "haiku")


def test_in_bad_times_a_task_starts_one_rung_higher() -> None:
    assert chosen("escalate", recent=BADLY).model == "sonnet"
    assert chosen("escalate", recent=(*BADLY[1:], AttemptOutcome.DONE)).model == "haiku"


def test_few_attempts_and_interruptions_make_no_bad_times() -> None:
    assert chosen("escalate", recent=(AttemptOutcome.FAILED,) * 9).model == "haiku"
    assert chosen("escalate", recent=(AttemptOutcome.INTERRUPTED,) * 20).model == "haiku"
    assert chosen("escalate", recent=(AttemptOutcome.INTERRUPTED,) * 9 + (AttemptOutcome.FAILED,) * 9).model == "haiku"


@pytest.mark.parametrize("strategy", ["escalate", "cost-optimized", "plan-then-execute"])
def test_the_model_that_got_the_task_done_before_is_not_undercut(strategy: str) -> None:
    choice = chosen(strategy, solved_by="sonnet")

    assert choice.model == "sonnet"
    assert "done before" in choice.reason
    assert chosen(strategy, solved_by="sonnet", failures=3, failed_model="sonnet").model == "opus"
    assert chosen(strategy, solved_by="long gone").model == "haiku"


def test_escalate_does_not_fall_back_below_the_model_that_failed_last() -> None:
    again, stronger = (chosen("escalate", failures=count, failed_model="sonnet") for count in (1, 2))

    assert again == ModelChoice(model="sonnet", reason="escalate: sonnet failed last, so the same again")
    assert stronger == ModelChoice(model="opus", reason="escalate: sonnet failed last, so a stronger one")


# --- plan-then-execute -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("hat", "model"),
    [("planner", "opus"), ("critic", "opus"), ("explorer", "haiku"), ("creator", "haiku"), ("editor", "haiku")],
)
def test_the_strongest_plans_and_the_cheapest_executes(hat: str, model: str) -> None:
    assert chosen("plan-then-execute", hat=hat, configured="sonnet").model == model


def test_escalate_starts_with_the_model_that_got_tasks_like_it_done() -> None:
    weak, strong = ModelTotals(model="haiku", attempts=4, done=1), ModelTotals(model="opus", attempts=3, done=3)

    choice = chosen("escalate", similar=(weak, strong))

    assert (choice.model, choice.is_default) == ("opus", False)
    assert choice.reason == "escalate: opus got 3 of 3 tasks like it done, haiku 1 of 4"
    assert chosen("plan-then-execute", similar=(weak, strong)).model == "opus"


def test_escalate_keeps_to_that_model_after_failures() -> None:
    weak, strong = ModelTotals(model="haiku", attempts=4, done=1), ModelTotals(model="opus", attempts=3, done=3)

    choice = chosen("escalate", failures=2, similar=(weak, strong))

    assert choice.model == "opus"
    assert choice.reason == "escalate: opus got 3 of 3 tasks like it done, haiku 1 of 4"


@pytest.mark.parametrize(
    ("weak", "strong"),
    [((2, 0), (3, 3)), ((4, 2), (3, 3)), ((4, 1), (3, 1)), ((4, 1), (1, 1)), ((4, 1), (0, 0))],
    ids=["too few attempts", "well enough", "no better", "too few successes", "never tried"],
)
def test_escalate_starts_as_usual_without_such_experience(weak: tuple[int, int], strong: tuple[int, int]) -> None:
    similar = [
        ModelTotals(model=model, attempts=attempts, done=done)
        for model, (attempts, done) in {"haiku": weak, "opus": strong}.items()
    ]

    assert chosen("escalate", similar=tuple(similar)).model == "haiku"


def test_who_executes_a_plan_escalates() -> None:
    choice = chosen("plan-then-execute", failures=2)

    assert choice == ModelChoice(model="sonnet", reason="plan-then-execute: 2 failures, 1 rung up")


def test_a_planner_that_failed_does_not_make_the_execution_dear() -> None:
    assert chosen("plan-then-execute", failures=1, failed_model="opus").model == "haiku"


# --- cost-optimized ----------------------------------------------------------------------


def seen(model: str, attempts: int, done: int, each_usd: float = 0.0) -> ModelTotals:
    return ModelTotals(model=model, attempts=attempts, done=done, cost_usd=attempts * each_usd)


def test_without_evidence_the_cheapest_is_tried() -> None:
    assert chosen("cost-optimized").model == "haiku"


def test_a_cheap_model_that_rarely_gets_there_is_dear() -> None:
    alike = (seen("haiku", 12, 1, 0.05), seen("sonnet", 10, 9, 0.15))

    choice = chosen("cost-optimized", similar=alike, overall=alike)

    assert choice == ModelChoice(
        model="sonnet",
        reason="cost-optimized: sonnet is expected to cost $0.18 for a done task, haiku $0.27"
        " (done 1 of 12 like this one)",
    )


def test_a_cheap_model_that_gets_there_stays() -> None:
    alike = (seen("haiku", 12, 9, 0.05), seen("sonnet", 10, 10, 0.15))

    assert chosen("cost-optimized", similar=alike, overall=alike).model == "haiku"


def test_the_reason_says_what_speaks_for_the_model() -> None:
    choice = chosen("cost-optimized", similar=(seen("haiku", 4, 4),))

    assert choice.reason.endswith("(haiku: done 4 of 4 like this one)")


def test_what_was_paid_counts_more_than_the_prices() -> None:
    alike = (seen("haiku", 20, 15, 0.9), seen("sonnet", 20, 15, 0.1), seen("opus", 20, 15, 0.9))

    assert chosen("cost-optimized", similar=alike).model == "sonnet"


def test_a_model_without_a_record_is_priced_on_the_scale_of_what_was_paid() -> None:
    """Sessions a hundred times as long as usual must not make the models seem cheap that nobody tried."""
    alike = (seen("haiku", 10, 8, 10.0),)

    assert chosen("cost-optimized", similar=alike).model == "haiku"


def test_attempts_that_tell_no_cost_are_not_free() -> None:
    alike = (seen("opus", 10, 10, 0.0), seen("haiku", 10, 7, 0.02))

    assert chosen("cost-optimized", similar=alike).model == "haiku"


def test_other_tasks_count_less_than_those_like_this_one() -> None:
    bad, good = seen("haiku", 12, 0), seen("haiku", 12, 8)

    as_alike = chosen("cost-optimized", similar=(bad,), overall=(bad,))
    as_other = chosen("cost-optimized", overall=(bad,))
    many_others = chosen("cost-optimized", similar=(good,), overall=(seen("haiku", 10_012, 8),))

    assert as_alike.model == "sonnet"
    assert as_other.model == "haiku"
    assert many_others.model == "haiku"


def test_a_hard_task_is_not_left_to_the_weakest() -> None:
    assert chosen("cost-optimized", difficulty=Difficulty.HARD).model == "opus"


def test_in_bad_times_a_small_difference_in_price_is_worth_paying() -> None:
    prices: dict[str, tuple[float, ...]] = {"haiku": (1.0, 5.0), "sonnet": (1.5, 7.5), "opus": (2.0, 10.0)}

    assert chosen("cost-optimized", prices=prices).model == "haiku"
    assert chosen("cost-optimized", prices=prices, recent=BADLY).model == "opus"


def test_failures_at_this_very_task_call_for_more_than_what_failed() -> None:
    once, twice, thrice = (
        chosen("cost-optimized", failures=count, failed_model=failed)
        for count, failed in ((1, "haiku"), (2, "haiku"), (3, "sonnet"))
    )

    assert (once.model, twice.model, thrice.model) == ("haiku", "sonnet", "opus")
    assert twice.reason.startswith("cost-optimized: 2 failures, so at least sonnet; expected to cost $")
    assert chosen("cost-optimized", failures=2, failed_model="opus").model == "opus"
    assert chosen("cost-optimized", failures=2, failed_model="who knows").model == "sonnet"


def test_a_ladder_without_prices_costs_more_with_every_rung() -> None:
    assert chosen("cost-optimized", ladder=("a", "b", "c"), prices={}).model == "a"
    assert chosen("cost-optimized", ladder=("a", "b", "c"), prices={"c": (0.0, 0.0)}).model == "c"
    assert chosen("cost-optimized", ladder=("only",), prices={}).model == "only"


# --- prices and steps ------------------------------------------------------------------------


def test_a_session_costs_what_its_tokens_cost() -> None:
    config = ModelsConfig()

    assert session_cost(config, "sonnet", 1_000_000, 100_000) == pytest.approx(4.5)
    assert session_cost(config, "sonnet", None, 100_000) == pytest.approx(1.5)
    assert session_cost(config, "sonnet", None, None) is None
    assert session_cost(config, "unknown", 10, 10) is None
    assert session_cost(config, None, 10, 10) is None


def test_the_strongest_is_the_last_of_the_ladder() -> None:
    assert strongest_model(ModelsConfig(ladder=("a", "b"))) == "b"


def test_every_step_says_what_happens_next() -> None:
    said = {step: next_step_text(StuckState(step=step)) for step in EscalationStep}

    assert said == {
        EscalationStep.NONE: "",
        EscalationStep.REPORT: "next: retry with the failure report",
        EscalationStep.STRONGER: "next: a stronger model",
        EscalationStep.DECOMPOSE: "next: ask the agent to split it",
        EscalationStep.PERSON: "waits for a person",
    }


def test_a_fixed_model_is_not_said_to_get_stronger() -> None:
    assert "fixed" in next_step_text(StuckState(step=EscalationStep.STRONGER), "fixed")


# --- any evidence ------------------------------------------------------------------------------

NAMES = ("a", "b", "c", "d", "e", "a model with quite a long name of 41 letters")
LADDERS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True).map(tuple)
RECORDS = st.lists(
    st.builds(
        lambda model, attempts, share, cost: ModelTotals(
            model=model, attempts=attempts, done=int(share * attempts), cost_usd=cost, tokens=attempts * 1000
        ),
        st.sampled_from([*NAMES, "another"]),
        st.integers(0, 100_000),
        st.floats(0, 1),
        st.floats(0, 1e6),
    ),
    max_size=6,
).map(tuple)
EVIDENCE = st.builds(
    ModelEvidence,
    stuck_state=st.builds(
        StuckState,
        failures=st.integers(0, 20),
        is_repeating=st.booleans(),
        failed_model=st.sampled_from(["", "another", *NAMES]),
    ),
    difficulty=st.none() | st.sampled_from(Difficulty),
    solved_by=st.none() | st.sampled_from(["another", *NAMES]),
    recent=st.lists(st.sampled_from(AttemptOutcome), max_size=20).map(tuple),
    similar=RECORDS,
    overall=RECORDS,
)
CONFIGURED = st.sampled_from(["", "mine", *NAMES])
PRICES = st.dictionaries(st.sampled_from([*NAMES, "mine"]), st.tuples(st.floats(0, 1e4), st.floats(0, 1e4)))


@given(
    strategy=st.sampled_from(["", *STRATEGIES]),
    ladder=LADDERS,
    prices=PRICES,
    evidence=EVIDENCE,
    configured=CONFIGURED,
    hat=st.sampled_from(["planner", "creator"]),
)
def test_any_evidence_gives_a_model_of_the_settings_and_a_short_reason(
    strategy: str,
    ladder: tuple[str, ...],
    prices: dict[str, tuple[float, ...]],
    evidence: ModelEvidence,
    configured: str,
    hat: str,
) -> None:
    config = ModelsConfig(strategy=strategy, ladder=ladder, prices=prices)

    choice = choose_model(config, evidence, configured=configured, flag=None, hat=hat, takes_model=True)

    assert choice.model in (*ladder, configured)
    assert choice.model
    assert 0 < len(choice.reason) <= MAX_REASON_LENGTH
    assert "\n" not in choice.reason
    assert "…" not in choice.reason or "letters" in "".join((*ladder, configured))


@given(strategy=st.sampled_from(["escalate", "plan-then-execute"]), ladder=LADDERS, evidence=EVIDENCE)
def test_more_failures_never_bring_a_weaker_model(
    strategy: str, ladder: tuple[str, ...], evidence: ModelEvidence
) -> None:
    config = ModelsConfig(strategy=strategy, ladder=ladder)

    def rung(failures: int) -> int:
        worse = replace(evidence, stuck_state=replace(evidence.stuck_state, failures=failures))
        choice = choose_model(config, worse, configured="", flag=None, hat="creator", takes_model=True)
        return ladder.index(choice.model or "")

    rungs = [rung(failures) for failures in range(8)]

    assert rungs == sorted(rungs)
    assert rungs[-1] == len(ladder) - 1


@given(ladder=LADDERS, evidence=EVIDENCE)
def test_the_second_failure_costs_at_least_a_rung(ladder: tuple[str, ...], evidence: ModelEvidence) -> None:
    config = ModelsConfig(strategy="cost-optimized", ladder=ladder)
    twice = replace(evidence, stuck_state=StuckState(failures=2, failed_model=ladder[0]))

    choice = choose_model(config, twice, configured="", flag=None, hat="creator", takes_model=True)

    assert choice.model in (ladder[1:] or ladder)
