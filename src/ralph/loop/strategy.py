"""Model selection strategies, with a reason for each choice.

A choice depends on the outcomes of attempts, never on their text; the one exception
is a model that an attempt asked for, if it is a known one.
"""

from __future__ import annotations

from ralph.core.records import AttemptOutcome, Difficulty, record, replace
from ralph.core.text import clean, format_usd, one_line
from ralph.loop.stuck import STRONGER_MODEL_AFTER, EscalationStep, StuckState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.core.config import ModelsConfig

FIXED = "fixed"
COST_OPTIMIZED = "cost-optimized"
ESCALATE = "escalate"
PLAN_THEN_EXECUTE = "plan-then-execute"

MAX_REASON_LENGTH = 120
"""Maximum length of a reason, in characters."""
MAX_MODEL_NAME_LENGTH = 24
"""Maximum length of a model's name in a reason, in characters."""
PLANNING_HATS = ("planner", "critic")
HARD_DIFFICULTIES = (Difficulty.HARD, Difficulty.BLOCKED)
LOW_SUCCESS_RATE = 0.5
"""Share of recent attempts done below which a stronger model is chosen."""
MIN_RECENT_ATTEMPTS = 10
"""Minimum number of recent attempts for that share to count."""

MIN_SIMILAR_ATTEMPTS, MIN_SIMILAR_DONE = 3, 2
"""Minimum number of attempts of a model at similar tasks, and of done ones of a stronger one, to prefer the latter."""
GAIN_FACTOR = 1.5
"""How much higher the success rate of the stronger model has to be."""

# --- priors of the cost-optimized strategy --------------------------------------------

PRIOR_ATTEMPTS = 4.0
"""Weight of the prior for a model, in attempts."""
WEAKEST_PRIOR, STRONGEST_PRIOR = 0.5, 0.9
"""Prior probability that one attempt gets a task done, at both ends of the ladder."""
HARD_EXPONENT, LOW_SUCCESS_EXPONENT = 2, 1
"""Amounts added to the exponent of that probability for a hard task and for a low recent success rate."""
DISSIMILAR_WEIGHT = 0.25
"""Weight of an attempt at a task of another kind."""
MAX_DISSIMILAR_WEIGHT = 10.0
"""Maximum total weight of attempts at tasks of other kinds, in attempts."""
TYPICAL_TOKENS_IN, TYPICAL_TOKENS_OUT = 200_000, 10_000
"""Tokens of a typical session, used to compare prices."""
RUNG_PRICE_RATIO = 2.0
"""Assumed price ratio between neighboring models of the ladder without a known price."""
DEFAULT_SESSION_USD = 0.1
"""Assumed cost of a session with the weakest model when no price is known, in USD."""
TOKENS_PER_PRICE = 1_000_000


@record
class ModelTotals:
    """Totals of a model's finished attempts, without hand-overs and interruptions."""

    model: str
    attempts: int = 0
    done: int = 0
    cost_usd: float = 0.0
    tokens: int = 0


@record
class ModelEvidence:
    """Facts that the choice of a model depends on."""

    stuck_state: StuckState = StuckState()
    difficulty: Difficulty | None = None
    solved_by: str | None = None
    """Model that got this task done before."""
    recent: tuple[AttemptOutcome, ...] = ()
    """Outcomes of the latest attempts in the project, newest first."""
    similar: tuple[ModelTotals, ...] = ()
    """Totals for tasks of the same kind, and of the same difficulty if it is known."""
    overall: tuple[ModelTotals, ...] = ()
    hint: str = ""
    """Model that the latest attempt at this task asked for."""
    hint_from: int = 0
    """Number of that attempt."""


@record
class ModelChoice:
    """Chosen model, with the reason."""

    model: str | None
    reason: str
    is_default: bool = False
    """Whether nothing speaks for another model than the usual one."""


NO_MODEL_REASON = "no model or strategy is configured for this agent"


def choose_model(
    config: ModelsConfig, evidence: ModelEvidence, *, configured: str, flag: str | None, hat: str, takes_model: bool
) -> ModelChoice:
    """Return the model for the next attempt, with the reason in one line.

    `configured` is the model configured for the agent, `flag` the one from the command line. An agent that takes no
    model gets none unless `flag` is given.
    """
    if flag:
        return ModelChoice(model=flag, reason="asked for with --model")
    if not takes_model:
        return ModelChoice(model=None, reason=NO_MODEL_REASON)
    hinted = _find_model(config, configured, evidence.hint)
    if hinted:
        return ModelChoice(model=hinted, reason=f"asked for by attempt {evidence.hint_from}")
    choice = _by_strategy(config, evidence, configured, hat)
    return replace(choice, reason=one_line(choice.reason, MAX_REASON_LENGTH))


def strategy_name(config: ModelsConfig, configured: str) -> str:
    """Return the strategy in effect; by default, a configured model is fixed."""
    return config.strategy or (FIXED if configured else ESCALATE)


def candidate_models(config: ModelsConfig, configured: str) -> tuple[str, ...]:
    """Return the models that the strategy in effect may choose."""
    if strategy_name(config, configured) == FIXED:
        return (configured or config.ladder[0],)
    return _rungs(config, configured)


def model_note(config: ModelsConfig, configured: str) -> str:
    """Return which models the strategy in effect chooses from."""
    models = candidate_models(config, configured)
    if strategy_name(config, configured) == FIXED:
        return f"{models[0]} (configured)"
    return f"strategy {strategy_name(config, configured)} ({' → '.join(models)})"


def strongest_model(config: ModelsConfig) -> str:
    """Return the model at the top of the ladder."""
    return config.ladder[-1]


def session_cost(
    config: ModelsConfig, model: str | None, tokens_in: int | None, tokens_out: int | None
) -> float | None:
    """Return the cost of a session in USD, or None when its price or tokens are unknown."""
    price = config.prices.get(model or "")
    if price is None or (tokens_in is None and tokens_out is None):
        return None
    return ((tokens_in or 0) * price[0] + (tokens_out or 0) * price[1]) / TOKENS_PER_PRICE


def unknown_model_problem(config: ModelsConfig, configured: str, name: str) -> str:
    """Return a message if an attempt asked for an unknown model, else an empty string."""
    if not name or _find_model(config, configured, name):
        return ""
    shown = one_line(clean(name), 2 * MAX_MODEL_NAME_LENGTH)
    return f"Unknown model {shown}: it is neither on the ladder nor in the prices, so the strategy decides."


def next_step_text(stuck_state: StuckState, strategy: str = ESCALATE, *, takes_model: bool = True) -> str:
    """Return what happens next with a failing task in a few words, or an empty string."""
    if stuck_state.step is EscalationStep.STRONGER and (strategy == FIXED or not takes_model):
        why = "the model is fixed" if takes_model else "the agent takes no model"
        return f"next: retry with the failure report; {why}"
    return {
        EscalationStep.NONE: "",
        EscalationStep.REPORT: "next: retry with the failure report",
        EscalationStep.STRONGER: "next: a stronger model",
        EscalationStep.DECOMPOSE: "next: ask the agent to split it",
        EscalationStep.PERSON: "waits for a person",
    }[stuck_state.step]


def _find_model(config: ModelsConfig, configured: str, name: str) -> str:
    """Return a model's name as spelled in the configuration, or an empty string if it is unknown."""
    known = [*config.ladder, *config.prices, *filter(None, [configured])]
    key = name.strip().lower()
    return next((model for model in known if model.lower() == key), "") if key else ""


def _by_strategy(config: ModelsConfig, evidence: ModelEvidence, configured: str, hat: str) -> ModelChoice:
    strategy = strategy_name(config, configured)
    if strategy == FIXED:
        return _fixed(config, configured)
    if strategy == COST_OPTIMIZED:
        return _cost_optimized(config, evidence, _rungs(config, configured))
    if strategy == PLAN_THEN_EXECUTE and hat in PLANNING_HATS:
        reason = f"{PLAN_THEN_EXECUTE}: the {hat} gets the strongest model"
        return ModelChoice(model=strongest_model(config), reason=reason)
    if strategy == PLAN_THEN_EXECUTE:
        return _escalate(PLAN_THEN_EXECUTE, config.ladder, 0, evidence)
    rungs = _rungs(config, configured)
    return _escalate(ESCALATE, rungs, rungs.index(configured) if configured else 0, evidence)


def _fixed(config: ModelsConfig, configured: str) -> ModelChoice:
    if configured:
        return ModelChoice(model=configured, reason="fixed in the configuration", is_default=True)
    return ModelChoice(model=config.ladder[0], reason="fixed: the first model of the ladder")


def _rungs(config: ModelsConfig, configured: str) -> tuple[str, ...]:
    """Return the ladder, with a configured model that is not on it added at the bottom."""
    if configured and configured not in config.ladder:
        return (configured, *config.ladder)
    return config.ladder


def _short_name(model: str) -> str:
    return one_line(clean(model), MAX_MODEL_NAME_LENGTH)


def _append_fitting(text: str, parts: Sequence[str]) -> str:
    """Append as many of the parts, in order, as fit into a reason."""
    for part in parts:
        if len(text) + len(part) > MAX_REASON_LENGTH:
            break
        text += part
    return text


# --- escalate --------------------------------------------------------------------------


def _escalate(strategy: str, rungs: Sequence[str], start: int, evidence: ModelEvidence) -> ModelChoice:
    """Return the model that the failures so far call for, with the reason."""
    stuck_state = evidence.stuck_state
    climbed = max(0, stuck_state.failures - 1)
    reasons = _reasons_to_climb(evidence)
    rung = start + climbed + len(reasons)
    why = _append_fitting(f"{strategy}: {_after_failures(stuck_state.failures)}", reasons)
    failed, solved = _rung_of(rungs, stuck_state.failed_model), _rung_of(rungs, evidence.solved_by)
    # In plan-then-execute the planner fails with the strongest model, which says nothing about the other hats.
    if failed is not None and strategy == ESCALATE and failed + min(1, climbed) > rung:
        rung = failed + min(1, climbed)
        if rung == len(rungs):
            why = f"{strategy}: {_short_name(rungs[-1])} failed last, and there is no stronger model"
            return ModelChoice(model=rungs[-1], reason=why)
        how = "a stronger one" if climbed else "the same again"
        why = f"{strategy}: {_short_name(rungs[failed])} failed last, so {how}"
    if solved is not None and solved > rung:
        rung, why = solved, f"{strategy}: it got this task done before"
    # What holds for a weaker model holds after more failures, too: those never bring a weaker model.
    similar, weaker = max(
        (_rung_for_similar(rungs, lower, evidence.similar), lower) for lower in range(start, rung + 1)
    )
    if similar > rung:
        rung, why = similar, f"{strategy}: {_similar_reason(rungs, weaker, similar, evidence.similar)}"
    top = len(rungs) - 1
    return ModelChoice(
        model=rungs[min(rung, top)],
        reason=_append_fitting(why, ["; this is the top"] if rung > top else []),
        is_default=rung == start and not stuck_state.failures,
    )


def _rung_for_similar(rungs: Sequence[str], rung: int, similar: Sequence[ModelTotals]) -> int:
    """Return the lowest rung from the given one on whose model gets tasks like this one done, by experience."""
    totals = {one.model: one for one in similar}
    own = totals.get(rungs[rung]) if rung < len(rungs) else None
    if own is None or own.attempts < MIN_SIMILAR_ATTEMPTS or own.done / own.attempts >= LOW_SUCCESS_RATE:
        return rung
    for higher in range(rung + 1, len(rungs)):
        one = totals.get(rungs[higher])
        if (
            one
            and one.done >= MIN_SIMILAR_DONE
            and one.done / one.attempts >= max(LOW_SUCCESS_RATE, GAIN_FACTOR * own.done / own.attempts)
        ):
            return higher
    return rung


def _similar_reason(rungs: Sequence[str], rung: int, similar_rung: int, similar: Sequence[ModelTotals]) -> str:
    totals = {one.model: one for one in similar}
    better, own = totals[rungs[similar_rung]], totals[rungs[rung]]
    return (
        f"{_short_name(better.model)} got {better.done} of {better.attempts} tasks like it done,"
        f" {_short_name(own.model)} {own.done} of {own.attempts}"
    )


def _after_failures(failures: int) -> str:
    if not failures:
        return "no failure yet"
    if failures < STRONGER_MODEL_AFTER:
        return "1 failure"
    return f"{failures} failures, {failures - 1} rung{'s' if failures > STRONGER_MODEL_AFTER else ''} up"


def _reasons_to_climb(evidence: ModelEvidence) -> list[str]:
    """Return the reasons that each raise the model by one rung."""
    reasons = []
    if evidence.stuck_state.is_repeating:
        reasons.append(", 1 more because they repeat")
    if evidence.difficulty in HARD_DIFFICULTIES:
        reasons.append(f", 1 up for difficulty {evidence.difficulty}")
    if _has_low_success(evidence.recent):
        reasons.append(f", 1 up because {_share_done(evidence.recent):.0%} got done recently")
    return reasons


def _has_low_success(recent: Sequence[AttemptOutcome]) -> bool:
    return len(_ended(recent)) >= MIN_RECENT_ATTEMPTS and _share_done(recent) < LOW_SUCCESS_RATE


def _share_done(recent: Sequence[AttemptOutcome]) -> float:
    ended = _ended(recent)
    return ended.count(AttemptOutcome.DONE) / len(ended)


def _ended(recent: Sequence[AttemptOutcome]) -> list[AttemptOutcome]:
    return [outcome for outcome in recent if outcome is not AttemptOutcome.INTERRUPTED]


def _rung_of(rungs: Sequence[str], model: str | None) -> int | None:
    return rungs.index(model) if model in rungs else None


# --- cost-optimized ----------------------------------------------------------------------


@record
class _Prospect:
    """Model with its expected cost of getting a task like this one done."""

    model: str
    cost_usd: float
    seen: str
    """Its success with similar tasks as text; empty when there were none."""


@record
class _WeightedRecord:
    """Totals of a model's attempts, weighted by similarity to this task."""

    attempts: float
    done: float
    cost_usd: float


def _cost_optimized(config: ModelsConfig, evidence: ModelEvidence, rungs: Sequence[str]) -> ModelChoice:
    """Return the model with the lowest expected cost among those strong enough for the task."""
    prospects = _prospects(config, evidence, rungs)
    least, why = _least_rung(rungs, evidence)
    best = min(prospects[least:], key=lambda one: one.cost_usd)
    if least:
        reason = f"{COST_OPTIMIZED}: {why}; expected to cost {format_usd(best.cost_usd)} for a done task"
        return ModelChoice(model=best.model, reason=reason)
    reason = (
        f"{COST_OPTIMIZED}: {_short_name(best.model)} is expected to cost {format_usd(best.cost_usd)} for a done task"
    )
    others = [one for one in prospects if one is not best]
    if not others:
        return ModelChoice(model=best.model, reason=_append_fitting(reason, [f" ({best.seen})" if best.seen else ""]))
    second = min(others, key=lambda one: one.cost_usd)
    seen = f" ({second.seen})" if second.seen else f" ({_short_name(best.model)}: {best.seen})" if best.seen else ""
    parts = [f", {_short_name(second.model)} {format_usd(second.cost_usd)}", seen]
    return ModelChoice(model=best.model, reason=_append_fitting(reason, parts))


def _least_rung(rungs: Sequence[str], evidence: ModelEvidence) -> tuple[int, str]:
    """Return the lowest suitable rung given the task's earlier attempts, with the reason."""
    failures, failed = evidence.stuck_state.failures, _rung_of(rungs, evidence.stuck_state.failed_model)
    solved = _rung_of(rungs, evidence.solved_by) or 0
    above = failures - 1 if failed is None else failed + 1
    above = min(above, len(rungs) - 1) if failures >= STRONGER_MODEL_AFTER else 0
    if solved >= above:
        return solved, f"{_short_name(rungs[solved])} got this task done before"
    return above, f"{failures} failures, so at least {_short_name(rungs[above])}"


def _prospects(config: ModelsConfig, evidence: ModelEvidence, rungs: Sequence[str]) -> list[_Prospect]:
    """Return the expected cost per rung: price of an attempt divided by its success probability."""
    similar = {one.model: one for one in evidence.similar if one.attempts}
    overall = {one.model: one for one in evidence.overall if one.attempts}
    weighted = [_weight(similar.get(model), overall.get(model)) for model in rungs]
    power = (
        1
        + HARD_EXPONENT * (evidence.difficulty in HARD_DIFFICULTIES)
        + LOW_SUCCESS_EXPONENT * _has_low_success(evidence.recent)
    )
    chances = [_posterior(_prior(rung, len(rungs)) ** power, one) for rung, one in enumerate(weighted)]
    prices = _attempt_prices(_listed_prices(config, rungs), weighted)
    return [
        _Prospect(model=model, cost_usd=price / chance, seen=_seen(similar.get(model)))
        for model, price, chance in zip(rungs, prices, chances, strict=True)
    ]


def _weight(similar: ModelTotals | None, overall: ModelTotals | None) -> _WeightedRecord:
    """Add up attempts, with full weight for similar tasks and a reduced one for others."""
    near = similar or ModelTotals(model="")
    far = overall or near
    others = max(0, far.attempts - near.attempts)
    weight = min(DISSIMILAR_WEIGHT, MAX_DISSIMILAR_WEIGHT / others) if others else 0.0
    return _WeightedRecord(
        attempts=near.attempts + weight * others,
        done=near.done + weight * min(others, max(0, far.done - near.done)),
        cost_usd=near.cost_usd + weight * max(0.0, far.cost_usd - near.cost_usd),
    )


def _prior(rung: int, rungs: int) -> float:
    """Return the prior success probability of a model by its position on the ladder."""
    height = rung / (rungs - 1) if rungs > 1 else 1.0
    return WEAKEST_PRIOR + height * (STRONGEST_PRIOR - WEAKEST_PRIOR)


def _posterior(prior: float, seen: _WeightedRecord) -> float:
    """Return the posterior success probability of a model."""
    return (PRIOR_ATTEMPTS * prior + seen.done) / (PRIOR_ATTEMPTS + seen.attempts)


def _listed_prices(config: ModelsConfig, rungs: Sequence[str]) -> list[float]:
    """Return the list price of a typical session per model, estimated from the rung where it is unknown."""
    listed = [session_cost(config, model, TYPICAL_TOKENS_IN, TYPICAL_TOKENS_OUT) for model in rungs]
    paid = {rung: price for rung, price in enumerate(listed) if price} or {0: DEFAULT_SESSION_USD}

    def guess(rung: int) -> float:
        nearest = min(paid, key=lambda other: abs(other - rung))
        return float(paid[nearest] * RUNG_PRICE_RATIO ** (rung - nearest))

    return [guess(rung) if price is None else price for rung, price in enumerate(listed)]


def _attempt_prices(listed: Sequence[float], weighted: Sequence[_WeightedRecord]) -> list[float]:
    """Return the price of an attempt per model: list prices blended with the costs observed so far.

    Sessions here may be longer or shorter than typical ones, so list prices are scaled to the observed costs.
    """
    observed = [(price, one) for price, one in zip(listed, weighted, strict=True) if one.cost_usd and price]
    scale = (
        sum(one.cost_usd for _, one in observed) / sum(price * one.attempts for price, one in observed)
        if observed
        else 1.0
    )
    return [
        # Attempts of agents that do not report costs look free.
        (PRIOR_ATTEMPTS * scale * price + one.cost_usd) / (PRIOR_ATTEMPTS + one.attempts)
        if one.cost_usd
        else scale * price
        for price, one in zip(listed, weighted, strict=True)
    ]


def _seen(similar: ModelTotals | None) -> str:
    return f"done {similar.done} of {similar.attempts} like this one" if similar else ""
