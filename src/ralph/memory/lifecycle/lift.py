"""Lift of memory: attempts with memory compared with randomly held-out attempts.

Only randomized attempts count. Each is weighted by its probability, so that runs with different holdout shares can be
combined. Attempts at one task are correlated: the interval reflects the variance between tasks, not between attempts.
"""

from __future__ import annotations

import math
from enum import StrEnum
from operator import add
from typing import NamedTuple

from ralph.core.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    _Sums = dict[bool, dict[str, tuple[float, ...]]]
    """For each arm and task the sums that the numbers below name."""

MIN_ATTEMPTS = 20
"""Minimum number of attempts in each arm."""
MIN_COMPLETED_TASKS = 5
"""Minimum number of completed tasks in the better arm, and in each arm for what a completed task costs."""
MIN_SHOWN_SHARE = 0.2
"""Share of attempts shown a memory below which the comparison says little about memories."""
_T_QUANTILES = (
    *((120, 1.980), (60, 2.000), (40, 2.021), (30, 2.042), (25, 2.060), (20, 2.086), (17, 2.110), (15, 2.131)),
    *((13, 2.160), (12, 2.179), (11, 2.201), (10, 2.228), (9, 2.262), (8, 2.306), (7, 2.365), (6, 2.447), (5, 2.571)),
    *((4, 2.776), (3, 3.182), (2, 4.303), (1, 12.706)),
)
"""97.5% quantile of Student's t from each number of degrees of freedom on."""
_COUNT, _ATTEMPTS, _TOKENS, _COST, _DONE, _WHOLE = range(6)


class LiftVerdict(StrEnum):
    """Conclusion about the effect of memory."""

    NOT_ENOUGH = "not enough data"
    HELPS = "helps"
    HARMS = "harms"
    NO_DIFFERENCE = "no difference"


class Trial(NamedTuple):
    """One attempt randomly assigned to an arm."""

    task_id: str
    with_memory: bool
    holdout: float
    """Probability with which memory was held out."""
    done: bool
    tokens: int = 0
    cost_usd: float = 0.0
    is_handover: bool = False
    """True for the part of a single hat, which adds to the cost of a task but not to the success rate."""
    is_shown: bool = False
    """True if its prompt contained memories."""


@record
class Arm:
    """Attempts with memory, or those without."""

    attempts: int
    tasks: int
    """Number of tasks attempted."""
    done: int
    """Number of tasks completed."""


@record
class Measure:
    """One quantity measured in both arms, and the difference memory makes."""

    name: str
    unit: str
    """`%`, `attempts`, `tokens` or `usd`."""
    with_memory: float
    without: float
    difference: float
    """With memory minus without; for percentages, in points."""
    low: float
    """Lower end of the 95% interval of the difference."""
    high: float
    """Upper end of the 95% interval of the difference."""
    percent: float | None
    """Difference relative to the value without memory, in percent."""

    @property
    def is_certain(self) -> bool:
        """Return whether the interval excludes zero."""
        return self.low > 0 or self.high < 0


@record
class Lift:
    """Effect of memory, with its uncertainty and a summary in words."""

    is_enough: bool
    verdict: LiftVerdict
    says: str
    with_memory: Arm
    without: Arm
    measures: tuple[Measure, ...]
    """Success, attempts, tokens and cost per completed task; empty unless both arms have enough data.

    Measures that no agent reported are omitted.
    """
    shown: int
    """Number of attempts with memory whose prompt contained memories; for the others, none matched."""
    shown_says: str
    """The same as a sentence; empty if there was no attempt with memory."""

    @property
    def needs_holdout(self) -> bool:
        """Return whether no attempt was assigned at random, which takes a run with a holdout."""
        return not self.with_memory.attempts and not self.without.attempts

    @property
    def has_low_exposure(self) -> bool:
        """Return whether too few attempts had memories in their prompt for a meaningful comparison."""
        return _is_rare(self.shown, self.with_memory.attempts)

    @property
    def summary(self) -> str:
        """Return the summary, with a note if memories were rarely shown."""
        return f"{self.says} {self.shown_says}" if self.has_low_exposure else self.says


def measure_lift(trials: Sequence[Trial]) -> Lift:
    """Return the effect of memory on success, attempts, tokens and cost, with 95% intervals."""
    randomized = [trial for trial in trials if 0 < trial.holdout < 1]
    sums = _sums(randomized)
    arms = {side: _arm(arm) for side, arm in sums.items()}
    shortage = _shortage_message(randomized, arms)
    measures = () if shortage else tuple(_all_measures(randomized, sums))
    verdict = _verdict(measures[0]) if measures else LiftVerdict.NOT_ENOUGH
    shown = sum(trial.is_shown for trial in randomized if trial.with_memory)
    return Lift(
        is_enough=not shortage,
        verdict=verdict,
        says=shortage or _conclusion(verdict, measures),
        with_memory=arms[True],
        without=arms[False],
        measures=measures,
        shown=shown,
        shown_says=_shown_message(shown, arms[True].attempts),
    )


def _arm(sums: Mapping[str, Sequence[float]]) -> Arm:
    return Arm(
        attempts=int(sum(total[_COUNT] for total in sums.values())),
        tasks=len(sums),
        done=sum(total[_DONE] > 0 for total in sums.values()),
    )


# --- data requirements -----------------------------------------------------------------


def _shortage_message(trials: Sequence[Trial], arms: Mapping[bool, Arm]) -> str:
    """Return what is missing for a comparison; empty if nothing is."""
    if not trials:
        return "Not enough data: no attempt was randomly held out. To compare, run: ralph run --holdout 0.1"
    side = min(arms, key=lambda side: arms[side].attempts)
    if arms[side].attempts < MIN_ATTEMPTS:
        so_far = f"{_count(arms[side].attempts, 'attempt')} {'with' if side else 'without'} memory so far"
        return f"Not enough data: {so_far}; each arm needs at least {MIN_ATTEMPTS}."
    done = max(arm.done for arm in arms.values())
    if done < MIN_COMPLETED_TASKS:
        return f"Not enough data: {_count(done, 'completed task')} so far; {MIN_COMPLETED_TASKS} are needed."
    return ""


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


# --- measures ---------------------------------------------------------------------------


def _all_measures(trials: Sequence[Trial], sums: _Sums) -> list[Measure]:
    pseudo = _sums(_pseudo_trials(trials))
    padded = {side: {**arm, **pseudo[side]} for side, arm in sums.items()}
    measures = (
        _success(sums, padded),
        _cost_per_task("attempts per done task", "attempts", sums, padded, _ATTEMPTS),
        _cost_per_task("tokens per done task", "tokens", sums, padded, _TOKENS),
        _cost_per_task("cost per done task", "usd", sums, padded, _COST),
    )
    return [measure for measure in measures if measure]


def _success(sums: _Sums, padded: _Sums) -> Measure:
    """Compare the share of attempts that complete their task."""
    ratios = {side: 100 * _ratio(arm, _DONE, _WHOLE) for side, arm in sums.items()}
    half = 100 * _half_width(padded, sums, _DONE, _WHOLE, is_relative=False)
    difference = ratios[True] - ratios[False]
    return _measure("success", "%", ratios, max(-100.0, difference - half), min(100.0, difference + half))


def _cost_per_task(name: str, unit: str, sums: _Sums, padded: _Sums, cost: int) -> Measure | None:
    """Compare the cost of a completed task; None if no agent reported it, or an arm has completed too few.

    The interval is computed on the logarithm of the ratio, because it is far from symmetric.
    """
    if any(sum(total[_DONE] > 0 for total in arm.values()) < MIN_COMPLETED_TASKS for arm in sums.values()):
        return None
    ratios = {side: _ratio(arm, cost, _DONE) for side, arm in sums.items()}
    if not (ratios[True] and ratios[False]):
        return None
    half = _half_width(padded, sums, cost, _DONE, is_relative=True)
    low, high = (ratios[True] * math.exp(side) - ratios[False] for side in (-half, half))
    return _measure(name, unit, ratios, low, high)


def _measure(name: str, unit: str, ratios: Mapping[bool, float], low: float, high: float) -> Measure:
    difference = ratios[True] - ratios[False]
    return Measure(
        name=name,
        unit=unit,
        with_memory=ratios[True],
        without=ratios[False],
        difference=difference,
        low=low,
        high=high,
        percent=100 * difference / ratios[False] if ratios[False] else None,
    )


def _pseudo_trials(trials: Sequence[Trial]) -> list[Trial]:
    """Return one more completed and one more failed attempt with average cost for each arm.

    They only widen the interval: without them an arm in which everything succeeded would seem certain.
    """
    result = []
    for side in (True, False):
        arm = [trial for trial in trials if trial.with_memory == side]
        chance = len(arm) / sum(map(_weight, arm))
        result += [
            Trial(
                task_id=f"pseudo {side} {done}",
                with_memory=side,
                holdout=1 - chance if side else chance,
                done=done,
                tokens=sum(trial.tokens for trial in arm) // len(arm),
                cost_usd=sum(trial.cost_usd for trial in arm) / len(arm),
            )
            for done in (True, False)
        ]
    return result


def _weight(trial: Trial) -> float:
    """Return the inverse of the probability that the attempt was assigned to its arm."""
    return 1 / (1 - trial.holdout) if trial.with_memory else 1 / trial.holdout


def _sums(trials: Sequence[Trial]) -> _Sums:
    """Return the weighted sums of the attempts at each task, by arm."""
    sums: _Sums = {True: {}, False: {}}
    for trial in trials:
        task_id, with_memory, _, done, tokens, cost_usd, is_handover, _ = trial
        weight, arm = _weight(trial), sums[with_memory]
        added = (1, weight, weight * tokens, weight * cost_usd, weight * done, weight * (not is_handover))
        known = arm.get(task_id)
        arm[task_id] = tuple(map(add, known, added)) if known else added
    return sums


def _ratio(arm: Mapping[str, Sequence[float]], numerator: int, denominator: int) -> float:
    return sum(total[numerator] for total in arm.values()) / sum(total[denominator] for total in arm.values())


def _half_width(sums: _Sums, observed: _Sums, numerator: int, denominator: int, *, is_relative: bool) -> float:
    """Return half the width of the 95% interval of the difference between the arms, or between their logarithms.

    Uses the first-order influence of each task on the difference, with its attempts in both arms combined.
    """
    influences: dict[str, float] = {}
    for side, arm in sums.items():
        ratio = _ratio(arm, numerator, denominator)
        scale = sum(total[denominator] for total in arm.values()) * (ratio if is_relative else 1.0)
        for task, total in arm.items():
            influence = (total[numerator] - ratio * total[denominator]) / scale
            influences[task] = influences.get(task, 0.0) + (influence if side else -influence)
    variance = sum(influence * influence for influence in influences.values()) * len(influences) / (len(influences) - 1)
    return _t_quantile(min(map(len, observed.values())) - 1) * math.sqrt(variance)


def _t_quantile(freedom: int) -> float:
    """Return the 97.5% quantile of Student's t for the next lower number of degrees of freedom in the table."""
    return next(quantile for least, quantile in _T_QUANTILES if freedom >= least)


# --- summary ----------------------------------------------------------------------------


def _verdict(success: Measure) -> LiftVerdict:
    if not success.is_certain:
        return LiftVerdict.NO_DIFFERENCE
    return LiftVerdict.HELPS if success.difference > 0 else LiftVerdict.HARMS


_VERDICT_TEXT = {
    LiftVerdict.HELPS: "Memory helps",
    LiftVerdict.HARMS: "Memory hurts",
    LiftVerdict.NO_DIFFERENCE: "No measurable difference yet",
}


def _conclusion(verdict: LiftVerdict, measures: Sequence[Measure]) -> str:
    success = measures[0]
    return (
        f"{_VERDICT_TEXT[verdict]}: {success.with_memory:.0f}% of attempts succeed with it, {success.without:.0f}% "
        f"without ({success.difference:+.0f} points, 95% interval {success.low:+.0f} to {success.high:+.0f})"
        f"{_cost_clause(measures[1:])}."
    )


def _shown_message(shown: int, attempts: int) -> str:
    """Return how many attempts with memory had memories in their prompt, with a note if they are few."""
    if not attempts:
        return ""
    total = f"of {_count(attempts, 'attempt')} with memory enabled"
    if not _is_rare(shown, attempts):
        return f"Memories were in the prompt of {shown:,} {total}."
    few = f"only {shown:,} {total} ({100 * shown / attempts:.0f}%)" if shown else f"none {total}"
    return f"Memories were in the prompt of {few}, so they could make little difference."


def _is_rare(shown: int, attempts: int) -> bool:
    return shown < MIN_SHOWN_SHARE * attempts


def _cost_clause(measures: Sequence[Measure]) -> str:
    """Return a clause on the first cost that certainly differs, tokens before money; empty if none does."""
    for measure in measures[1:]:
        if measure.is_certain and measure.percent is not None:
            what, less = ("tokens", "fewer") if measure.unit == "tokens" else ("money", "less")
            amount = f"{abs(measure.percent):.0f}% {'more' if measure.percent > 0 else less} {what}"
            return f"; a completed task takes {amount}"
    return ""
