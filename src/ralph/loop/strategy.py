"""Choose the model for an attempt, and say why.

A choice rests on what attempts came to, never on text: the one exception is a
model that an attempt asked for, and only if we know it.
"""

from __future__ import annotations

from ralph.loop.stuck import STRONGER_AFTER, Step, Trouble
from ralph.records import Difficulty, Outcome, record
from ralph.text import clean, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.config import ModelsConfig

FIXED = "fixed"
COST_OPTIMIZED = "cost-optimized"
ESCALATE = "escalate"
PLAN = "plan-then-execute"

REASON_CHARACTERS = 120
NAME_CHARACTERS = 24
"""Of a model, in a reason."""
PLANNING_HATS = ("planner", "critic")
HARD = (Difficulty.HARD, Difficulty.BLOCKED)
BAD_RATE = 0.5
"""When less than this share of the latest attempts got done, things go badly."""
LEAST_RECENT = 10
"""Fewer attempts than this say nothing about that."""

# --- what cost-optimized believes before it has seen anything ------------------------

PRIOR_ATTEMPTS = 4.0
"""What is believed of a model counts like so many attempts with it."""
WEAKEST_SUCCESS, STRONGEST_SUCCESS = 0.5, 0.9
"""The probability that one attempt gets a task done, at both ends of the ladder."""
HARD_POWER, BAD_POWER = 2, 1
"""A hard task, and a bad time, raise those to a power that is so much higher."""
OTHERS_WEIGHT = 0.25
"""An attempt at a task of another kind counts like so much of one at a task like this."""
OTHERS_MOST = 10.0
"""However many they are, they never count like more attempts than this."""
TYPICAL_TOKENS_IN, TYPICAL_TOKENS_OUT = 200_000, 10_000
"""Of one session: what matters is how prices compare."""
RUNG_PRICE = 2.0
"""A model whose price nobody knows costs so many times what the one below it costs."""
UNKNOWN_USD = 0.1
"""A session with the weakest, when no price is known at all."""
MILLION = 1_000_000
CENTS_FROM_USD = 0.1
"""Less than this is shown with more digits."""


@record
class ModelRecord:
    """What a model's ended attempts add up to, without hand-overs and interruptions."""

    model: str
    attempts: int = 0
    done: int = 0
    cost_usd: float = 0.0
    tokens: int = 0


@record
class Evidence:
    """All that the choice of a model rests on."""

    trouble: Trouble = Trouble()
    difficulty: Difficulty | None = None
    solved_by: str | None = None
    """The model that got this very task done before."""
    recent: tuple[Outcome, ...] = ()
    """Of the latest attempts in the project, newest first."""
    alike: tuple[ModelRecord, ...] = ()
    """Over attempts at tasks of the same kind, and of the same difficulty if one is known."""
    overall: tuple[ModelRecord, ...] = ()
    hint: str = ""
    """The model that the latest attempt at this task asked for."""
    hint_from: int = 0
    """The number of that attempt."""


@record
class Choice:
    """A model and the reason for it."""

    model: str | None
    reason: str


NO_MODEL = "none is named for this agent: set [agent] model, or write {model} into its command"


def choose_model(
    config: ModelsConfig, evidence: Evidence, *, configured: str, flag: str | None, hat: str, takes_model: bool
) -> Choice:
    """Give the model for the next attempt, and the reason in one line.

    `configured` is the model set for the agent, `flag` the one asked for on the command line. An agent that takes no
    model gets none, unless a person insists.
    """
    if flag:
        return Choice(model=flag, reason="asked for with --model")
    if not takes_model:
        return Choice(model=None, reason=NO_MODEL)
    hinted = _known(config, configured, evidence.hint)
    if hinted:
        return Choice(model=hinted, reason=f"asked for by attempt {evidence.hint_from}")
    model, why = _by_strategy(config, evidence, configured, hat)
    return Choice(model=model, reason=one_line(why, REASON_CHARACTERS))


def strategy_name(config: ModelsConfig, configured: str) -> str:
    """Give the strategy in force: without one in the settings, a configured model is fixed."""
    return config.strategy or (FIXED if configured else ESCALATE)


def models_of(config: ModelsConfig, configured: str) -> tuple[str, ...]:
    """Give the models that the strategy in force may choose."""
    if strategy_name(config, configured) == FIXED:
        return (_fixed(config, configured)[0],)
    return _rungs(config, configured)


def strongest(config: ModelsConfig) -> str:
    """Give the model at the top of the ladder."""
    return config.ladder[-1]


def cost_of(config: ModelsConfig, model: str | None, tokens_in: int | None, tokens_out: int | None) -> float | None:
    """Give what a session costs by the prices in USD; None when price or tokens are not known."""
    price = config.prices.get(model or "")
    if price is None or (tokens_in is None and tokens_out is None):
        return None
    return ((tokens_in or 0) * price[0] + (tokens_out or 0) * price[1]) / MILLION


def unknown_hint(config: ModelsConfig, configured: str, name: str) -> str:
    """Give the sentence for the log when an attempt asked for a model that nobody knows; else nothing."""
    if not name or _known(config, configured, name):
        return ""
    shown = one_line(clean(name), 2 * NAME_CHARACTERS)
    return f"No model called {shown} is known: it is neither on the ladder nor in the prices, so the strategy decides."


def next_step(trouble: Trouble, strategy: str = ESCALATE, *, takes_model: bool = True) -> str:
    """Give in a few words what happens next with a task that failed; nothing for one that did not."""
    if trouble.step is Step.STRONGER and (strategy == FIXED or not takes_model):
        return f"next: again, told what failed; {'the model is fixed' if takes_model else 'the agent takes no model'}"
    return {
        Step.NONE: "",
        Step.REPORT: "next: again, told what failed",
        Step.STRONGER: "next: a stronger model",
        Step.DECOMPOSE: "next: asked to split it",
        Step.PERSON: "waits for a person",
    }[trouble.step]


def _known(config: ModelsConfig, configured: str, name: str) -> str:
    """Give the model of that name as it is spelled in the settings; nothing if it is in none of them."""
    known = [*config.ladder, *config.prices, *filter(None, [configured])]
    wanted = name.strip().lower()
    return next((model for model in known if model.lower() == wanted), "") if wanted else ""


def _by_strategy(config: ModelsConfig, evidence: Evidence, configured: str, hat: str) -> tuple[str, str]:
    strategy = strategy_name(config, configured)
    if strategy == FIXED:
        return _fixed(config, configured)
    if strategy == COST_OPTIMIZED:
        return _cost_optimized(config, evidence, _rungs(config, configured))
    if strategy == PLAN and hat in PLANNING_HATS:
        return strongest(config), f"{PLAN}: the {hat} gets the strongest"
    if strategy == PLAN:
        return _escalated(PLAN, config.ladder, 0, evidence)
    rungs = _rungs(config, configured)
    return _escalated(ESCALATE, rungs, rungs.index(configured) if configured else 0, evidence)


def _fixed(config: ModelsConfig, configured: str) -> tuple[str, str]:
    if configured:
        return configured, "fixed in the configuration"
    return config.ladder[0], "fixed: the first of the ladder"


def _rungs(config: ModelsConfig, configured: str) -> tuple[str, ...]:
    """Give the ladder; a configured model that is not on it is the rung below it."""
    if configured and configured not in config.ladder:
        return (configured, *config.ladder)
    return config.ladder


def _name(model: str) -> str:
    return one_line(clean(model), NAME_CHARACTERS)


def _as_fits(text: str, more: Sequence[str]) -> str:
    """Give the text with as much of the rest, in order, as a reason has room for."""
    for part in more:
        if len(text) + len(part) > REASON_CHARACTERS:
            break
        text += part
    return text


# --- escalate --------------------------------------------------------------------------


def _escalated(strategy: str, rungs: Sequence[str], start: int, evidence: Evidence) -> tuple[str, str]:
    """Give the rung that the trouble so far calls for, and what led to it."""
    trouble = evidence.trouble
    climbed = max(0, trouble.failures - 1)
    reasons = _reasons_to_climb(evidence)
    rung = start + climbed + len(reasons)
    why = _as_fits(f"{strategy}: {_after_failures(trouble.failures)}", reasons)
    failed, solved = _rung_of(rungs, trouble.failed_model), _rung_of(rungs, evidence.solved_by)
    # The planner of plan-then-execute fails with the strongest: that says nothing about who should execute.
    if failed is not None and strategy == ESCALATE and failed + min(1, climbed) > rung:
        rung = failed + min(1, climbed)
        if rung == len(rungs):
            return rungs[-1], f"{strategy}: {_name(rungs[-1])} failed last, and nothing is stronger"
        why = f"{strategy}: {_name(rungs[failed])} failed last, {'so a stronger one' if climbed else 'the same again'}"
    if solved is not None and solved > rung:
        rung, why = solved, f"{strategy}: it got this task done before"
    top = len(rungs) - 1
    return rungs[min(rung, top)], _as_fits(why, ["; this is the top"] if rung > top else [])


def _after_failures(failures: int) -> str:
    if not failures:
        return "no failure yet"
    if failures < STRONGER_AFTER:
        return "1 failure"
    return f"{failures} failures, {failures - 1} rung{'s' if failures > STRONGER_AFTER else ''} up"


def _reasons_to_climb(evidence: Evidence) -> list[str]:
    """Give what calls for one rung more, each."""
    reasons = []
    if evidence.trouble.is_repeating:
        reasons.append(", 1 more as they repeat")
    if evidence.difficulty in HARD:
        reasons.append(f", 1 up for difficulty {evidence.difficulty}")
    if _goes_badly(evidence.recent):
        reasons.append(f", 1 up as {_share_done(evidence.recent):.0%} got done lately")
    return reasons


def _goes_badly(recent: Sequence[Outcome]) -> bool:
    return len(_ended(recent)) >= LEAST_RECENT and _share_done(recent) < BAD_RATE


def _share_done(recent: Sequence[Outcome]) -> float:
    ended = _ended(recent)
    return ended.count(Outcome.DONE) / len(ended)


def _ended(recent: Sequence[Outcome]) -> list[Outcome]:
    return [outcome for outcome in recent if outcome is not Outcome.INTERRUPTED]


def _rung_of(rungs: Sequence[str], model: str | None) -> int | None:
    return rungs.index(model) if model in rungs else None


# --- cost-optimized ----------------------------------------------------------------------


@record
class _Prospect:
    """A model, and what it is expected to cost until a task like this one is done."""

    model: str
    cost_usd: float
    seen: str
    """What became of tasks like this one with it; empty when there were none."""


@record
class _Weighed:
    """The attempts with a model, each counted by how much it says about this task."""

    attempts: float
    done: float
    cost_usd: float


def _cost_optimized(config: ModelsConfig, evidence: Evidence, rungs: Sequence[str]) -> tuple[str, str]:
    """Give the model with the least expected cost of a done task, of those that are strong enough for this one."""
    prospects = _prospects(config, evidence, rungs)
    least, why = _least_rung(rungs, evidence)
    best = min(prospects[least:], key=lambda one: one.cost_usd)
    if least:
        return best.model, f"{COST_OPTIMIZED}: {why}; expected to cost {_usd(best.cost_usd)} for a done task"
    said = f"{COST_OPTIMIZED}: {_name(best.model)} is expected to cost {_usd(best.cost_usd)} for a done task"
    others = [one for one in prospects if one is not best]
    if not others:
        return best.model, _as_fits(said, [f" ({best.seen})" if best.seen else ""])
    second = min(others, key=lambda one: one.cost_usd)
    seen = f" ({second.seen})" if second.seen else f" ({_name(best.model)}: {best.seen})" if best.seen else ""
    return best.model, _as_fits(said, [f", {_name(second.model)} {_usd(second.cost_usd)}", seen])


def _least_rung(rungs: Sequence[str], evidence: Evidence) -> tuple[int, str]:
    """Give the lowest rung that makes sense for a task with this past, and why."""
    failures, failed = evidence.trouble.failures, _rung_of(rungs, evidence.trouble.failed_model)
    solved = _rung_of(rungs, evidence.solved_by) or 0
    above = failures - 1 if failed is None else failed + 1
    above = min(above, len(rungs) - 1) if failures >= STRONGER_AFTER else 0
    if solved >= above:
        return solved, f"{_name(rungs[solved])} got this task done before"
    return above, f"{failures} failures, so at least {_name(rungs[above])}"


def _prospects(config: ModelsConfig, evidence: Evidence, rungs: Sequence[str]) -> list[_Prospect]:
    """Give for each rung the price of an attempt, divided by the probability that it gets the task done."""
    alike = {one.model: one for one in evidence.alike if one.attempts}
    overall = {one.model: one for one in evidence.overall if one.attempts}
    weighed = [_weigh(alike.get(model), overall.get(model)) for model in rungs]
    power = 1 + HARD_POWER * (evidence.difficulty in HARD) + BAD_POWER * _goes_badly(evidence.recent)
    chances = [_chance(_believed(rung, len(rungs)) ** power, one) for rung, one in enumerate(weighed)]
    prices = _attempt_prices(_listed_prices(config, rungs), weighed)
    return [
        _Prospect(model=model, cost_usd=price / chance, seen=_seen(alike.get(model)))
        for model, price, chance in zip(rungs, prices, chances, strict=True)
    ]


def _weigh(alike: ModelRecord | None, overall: ModelRecord | None) -> _Weighed:
    """Count attempts at tasks like this one whole, and the others as a part of that."""
    near = alike or ModelRecord(model="")
    far = overall or near
    others = max(0, far.attempts - near.attempts)
    weight = min(OTHERS_WEIGHT, OTHERS_MOST / others) if others else 0.0
    return _Weighed(
        attempts=near.attempts + weight * others,
        done=near.done + weight * min(others, max(0, far.done - near.done)),
        cost_usd=near.cost_usd + weight * max(0.0, far.cost_usd - near.cost_usd),
    )


def _believed(rung: int, rungs: int) -> float:
    """Give how likely a model is to get a usual task done, by its place on the ladder alone."""
    height = rung / (rungs - 1) if rungs > 1 else 1.0
    return WEAKEST_SUCCESS + height * (STRONGEST_SUCCESS - WEAKEST_SUCCESS)


def _chance(believed: float, seen: _Weighed) -> float:
    """Give how likely a model is to get the task done, by what was believed and what was seen."""
    return (PRIOR_ATTEMPTS * believed + seen.done) / (PRIOR_ATTEMPTS + seen.attempts)


def _listed_prices(config: ModelsConfig, rungs: Sequence[str]) -> list[float]:
    """Give what a typical session costs with each model by the prices; a model without one is guessed by its rung."""
    listed = [cost_of(config, model, TYPICAL_TOKENS_IN, TYPICAL_TOKENS_OUT) for model in rungs]
    paid = {rung: price for rung, price in enumerate(listed) if price} or {0: UNKNOWN_USD}

    def guess(rung: int) -> float:
        nearest = min(paid, key=lambda other: abs(other - rung))
        return float(paid[nearest] * RUNG_PRICE ** (rung - nearest))

    return [guess(rung) if price is None else price for rung, price in enumerate(listed)]


def _attempt_prices(listed: Sequence[float], weighed: Sequence[_Weighed]) -> list[float]:
    """Give what an attempt with each model costs: as it did so far, and by the prices where little was seen.

    The sessions here may be longer or shorter than typical ones, so prices are brought to the scale of what was paid.
    """
    told = [(price, one) for price, one in zip(listed, weighed, strict=True) if one.cost_usd and price]
    scale = sum(one.cost_usd for _, one in told) / sum(price * one.attempts for price, one in told) if told else 1.0
    return [
        # An agent that does not say what it costs leaves attempts that seem to be free.
        (PRIOR_ATTEMPTS * scale * price + one.cost_usd) / (PRIOR_ATTEMPTS + one.attempts)
        if one.cost_usd
        else scale * price
        for price, one in zip(listed, weighed, strict=True)
    ]


def _seen(alike: ModelRecord | None) -> str:
    return f"done {alike.done} of {alike.attempts} like this one" if alike else ""


def _usd(amount: float) -> str:
    return f"${amount:.2f}" if amount >= CENTS_FROM_USD else f"${amount:.4f}"
