"""What memory brings: attempts with it compared with attempts it was left out of by chance.

Only attempts that chance decided about count. Each stands for as many as its chance says, so that runs with different
shares can be put together. Attempts at one task are alike: the interval is wide as the tasks differ, not the attempts.
"""

from __future__ import annotations

import math
from enum import StrEnum

from ralph.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    _Sums = dict[bool, dict[str, tuple[float, float]]]

LEAST_ATTEMPTS = 20
LEAST_DONE = 5
"""Each arm needs so many; with fewer the interval would promise too much."""
RARELY = 0.2
"""Below this share of attempts that were shown a memory, the comparison says little about memories."""


class Verdict(StrEnum):
    """What can be said about memory."""

    NOT_ENOUGH = "not enough data"
    HELPS = "helps"
    HARMS = "harms"
    NO_DIFFERENCE = "no difference"


@record
class Trial:
    """One attempt that chance gave memory, or left without."""

    task_id: str
    with_memory: bool
    holdout: float
    """The probability with which memory was left out."""
    done: bool
    tokens: int = 0
    cost_usd: float = 0.0
    is_handover: bool = False
    """It did one hat's part; it counts for what a done task took, not for success."""
    is_shown: bool = False
    """There were memories in its prompt."""


@record
class Arm:
    """The attempts with memory, or those without."""

    attempts: int
    tasks: int
    """How many tasks these were attempts at."""
    done: int
    """How many tasks they got done."""


@record
class Measure:
    """One thing measured in both arms, and the difference memory makes."""

    name: str
    unit: str
    """`%`, `attempts`, `tokens` or `usd`."""
    with_memory: float
    without: float
    difference: float
    """With memory less without; of percentages in points."""
    low: float
    """The 95 % interval of the difference."""
    high: float
    percent: float | None
    """The difference in % of what it is without memory."""

    @property
    def is_certain(self) -> bool:
        """Say whether the interval leaves no doubt that there is a difference."""
        return self.low > 0 or self.high < 0


@record
class Lift:
    """What memory brings, how sure that is, and what to say about it."""

    is_enough: bool
    verdict: Verdict
    says: str
    with_memory: Arm
    without: Arm
    measures: tuple[Measure, ...]
    """Success, attempts, tokens and cost per done task; none unless both arms have enough.

    What nobody told is left out.
    """
    shown: int
    """So many of the attempts with memory had memories in their prompt; the others found none that fit."""
    shown_says: str
    """The same in a sentence; empty when there was no attempt with memory."""

    @property
    def is_rarely_shown(self) -> bool:
        """Say whether so few attempts had memories in their prompt that they could hardly make a difference."""
        return _is_rare(self.shown, self.with_memory.attempts)

    @property
    def in_short(self) -> str:
        """Give what to say, and how rarely memories were shown if that is so."""
        return f"{self.says} {self.shown_says}" if self.is_rarely_shown else self.says


def lift(trials: Sequence[Trial]) -> Lift:
    """Give what memory brings in success, attempts, tokens and cost, with 95 % intervals."""
    chosen = [trial for trial in trials if 0 < trial.holdout < 1]
    arms = {side: _arm([trial for trial in chosen if trial.with_memory is side]) for side in (True, False)}
    missing = _missing(chosen, arms)
    measures = () if missing else tuple(_measured(chosen))
    verdict = _verdict(measures[0]) if measures else Verdict.NOT_ENOUGH
    shown = sum(trial.is_shown for trial in chosen if trial.with_memory)
    return Lift(
        is_enough=not missing,
        verdict=verdict,
        says=missing or _conclusion(verdict, measures),
        with_memory=arms[True],
        without=arms[False],
        measures=measures,
        shown=shown,
        shown_says=_shown(shown, arms[True].attempts),
    )


def _arm(trials: Sequence[Trial]) -> Arm:
    return Arm(
        attempts=len(trials),
        tasks=len({trial.task_id for trial in trials}),
        done=len({trial.task_id for trial in trials if trial.done}),
    )


# --- enough ----------------------------------------------------------------------------


def _missing(trials: Sequence[Trial], arms: Mapping[bool, Arm]) -> str:
    """Say what is missing for a comparison and when it will be there; nothing when there is enough."""
    if not trials:
        return "Not enough data: memory was never left out by chance. Compare with: ralph run --holdout 0.1"
    holdout = trials[-1].holdout
    attempts = {side: arm.attempts for side, arm in arms.items()}
    if short := _short(attempts, LEAST_ATTEMPTS, "attempt"):
        side, sentence = short
        iterations = (LEAST_ATTEMPTS - attempts[side]) / (1 - holdout if side else holdout)
        return f"{sentence} {_iterations(iterations, holdout)}"
    done = {side: arm.done for side, arm in arms.items()}
    if short := _short(done, LEAST_DONE, "done task"):
        side, sentence = short
        attempts_each = attempts[side] / max(done[side], 1)
        iterations = (LEAST_DONE - done[side]) * attempts_each / (1 - holdout if side else holdout)
        return f"{sentence} {_iterations(iterations, holdout)}"
    return ""


def _short(counts: Mapping[bool, int], least: int, noun: str) -> tuple[bool, str] | None:
    """Give the arm that is short of something, and a sentence about it."""
    side = min(counts, key=counts.__getitem__)
    if counts[side] >= least:
        return None
    where = "with" if side else "without"
    return side, (
        f"Not enough data: {_count(counts[side], noun)} {where} memory so far; at least {least} are needed in each arm."
    )


def _iterations(count: float, holdout: float) -> str:
    digits = 1 if count < 100 else 10
    about = math.ceil(round(count / digits, 6)) * digits
    return f"At a holdout of {100 * holdout:g} % that takes about {_count(about, 'more iteration')}."


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


# --- measures ---------------------------------------------------------------------------


def _measured(trials: Sequence[Trial]) -> list[Measure]:
    more = [*trials, *_imagined(trials)]
    measures = (
        _success(trials, more),
        _per_done("attempts per done task", "attempts", trials, more, lambda one: 1.0),
        _per_done("tokens per done task", "tokens", trials, more, lambda one: float(one.tokens)),
        _per_done("cost per done task", "usd", trials, more, lambda one: one.cost_usd),
    )
    return [measure for measure in measures if measure]


def _success(trials: Sequence[Trial], more: Sequence[Trial]) -> Measure:
    """Compare how often an attempt gets its task done."""

    def of(some: Sequence[Trial]) -> _Sums:
        return _sums(some, lambda one: 100.0 * one.done, lambda one: float(not one.is_handover))

    sums = of(trials)
    ratios = {side: _ratio(sums[side]) for side in sums}
    half = _half_width(of(more), sums, is_relative=False)
    difference = ratios[True] - ratios[False]
    return _measure("success", "%", ratios, difference - half, difference + half)


def _per_done(
    name: str, unit: str, trials: Sequence[Trial], more: Sequence[Trial], taken: Callable[[Trial], float]
) -> Measure | None:
    """Compare what a done task takes; None when nobody said.

    How many times as much it is with memory is what the interval is made of, as a logarithm: it is far from symmetric.
    """

    def of(some: Sequence[Trial]) -> _Sums:
        return _sums(some, taken, lambda one: float(one.done))

    sums = of(trials)
    ratios = {side: _ratio(sums[side]) for side in sums}
    if not (ratios[True] and ratios[False]):
        return None
    half = _half_width(of(more), sums, is_relative=True)
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


def _imagined(trials: Sequence[Trial]) -> list[Trial]:
    """Give one more done and one more failed attempt for each arm, each usual in what it took.

    They are only there when the interval is made: else an arm in which all went well would seem certain.
    """
    found = []
    for side in (True, False):
        arm = [trial for trial in trials if trial.with_memory is side]
        chance = len(arm) / sum(map(_weight, arm))
        found += [
            Trial(
                task_id=f"imagined {side} {done}",
                with_memory=side,
                holdout=1 - chance if side else chance,
                done=done,
                tokens=sum(trial.tokens for trial in arm) // len(arm),
                cost_usd=sum(trial.cost_usd for trial in arm) / len(arm),
            )
            for done in (True, False)
        ]
    return found


def _weight(trial: Trial) -> float:
    """Give for how many attempts one stands: chance put it into its arm once in so many times."""
    return 1 / (1 - trial.holdout) if trial.with_memory else 1 / trial.holdout


def _sums(trials: Sequence[Trial], above: Callable[[Trial], float], below: Callable[[Trial], float]) -> _Sums:
    """Give the sums above and below the line of a ratio, for each arm and task."""
    sums: _Sums = {True: {}, False: {}}
    for trial in trials:
        weight, arm = _weight(trial), sums[trial.with_memory]
        so_far = arm.get(trial.task_id, (0.0, 0.0))
        arm[trial.task_id] = (so_far[0] + weight * above(trial), so_far[1] + weight * below(trial))
    return sums


def _ratio(arm: Mapping[str, tuple[float, float]]) -> float:
    return sum(above for above, _ in arm.values()) / sum(below for _, below in arm.values())


def _half_width(sums: _Sums, seen: _Sums, *, is_relative: bool) -> float:
    """Give half the width of the 95 % interval of the difference between the arms, or of that of their logarithms.

    What counts is by how much each task moves the difference, in first order, with its attempts in both arms together.
    """
    pulls: dict[str, float] = {}
    for side, arm in sums.items():
        ratio = _ratio(arm)
        scale = sum(below for _, below in arm.values()) * (ratio if is_relative else 1.0)
        for task, (above, below) in arm.items():
            pull = (above - ratio * below) / scale
            pulls[task] = pulls.get(task, 0.0) + (pull if side else -pull)
    variance = sum(pull * pull for pull in pulls.values()) * len(pulls) / (len(pulls) - 1)
    return _t_quantile(min(map(len, seen.values())) - 1) * math.sqrt(variance)


_NORMAL = 1.959963984540054
_T_TERMS = (
    (_NORMAL**3 + _NORMAL) / 4,
    (5 * _NORMAL**5 + 16 * _NORMAL**3 + 3 * _NORMAL) / 96,
    (3 * _NORMAL**7 + 19 * _NORMAL**5 + 17 * _NORMAL**3 - 15 * _NORMAL) / 384,
    (79 * _NORMAL**9 + 776 * _NORMAL**7 + 1482 * _NORMAL**5 - 1920 * _NORMAL**3 - 945 * _NORMAL) / 92160,
)


def _t_quantile(freedom: int) -> float:
    """Give the 97.5 % quantile of Student's t, by its series around the normal one; exact to 0.001 from 4 on."""
    return _NORMAL + sum(term / float(freedom) ** place for place, term in enumerate(_T_TERMS, start=1))


# --- words ------------------------------------------------------------------------------


def _verdict(success: Measure) -> Verdict:
    if not success.is_certain:
        return Verdict.NO_DIFFERENCE
    return Verdict.HELPS if success.difference > 0 else Verdict.HARMS


_SAYS = {
    Verdict.HELPS: "Memory helps",
    Verdict.HARMS: "Memory does not help, it harms",
    Verdict.NO_DIFFERENCE: "No difference can be seen yet",
}


def _conclusion(verdict: Verdict, measures: Sequence[Measure]) -> str:
    success = measures[0]
    return (
        f"{_SAYS[verdict]}: {success.with_memory:.0f} % of the attempts get done with it, {success.without:.0f} % "
        f"without ({success.difference:+.0f} points, 95 % interval {success.low:+.0f} to {success.high:+.0f})"
        f"{_also(measures[1:])}."
    )


def _shown(shown: int, attempts: int) -> str:
    """Say how many attempts with memory had memories in their prompt, and what follows when they are few."""
    if not attempts:
        return ""
    of_all = f"of {_count(attempts, 'attempt')} that could have them"
    if _is_rare(shown, attempts):
        few = f"only {shown:,} {of_all} ({100 * shown / attempts:.0f} %)" if shown else f"none {of_all}"
        return f"Memories were in the prompt of {few}; where none is shown, none can help."
    return f"Memories were in the prompt of {shown:,} {of_all}."


def _is_rare(shown: int, attempts: int) -> bool:
    return shown < RARELY * attempts


def _also(measures: Sequence[Measure]) -> str:
    """Name the first thing besides success in which there is a difference for certain: tokens before cost."""
    for measure in measures[1:]:
        if measure.is_certain and measure.percent is not None:
            what, less = ("tokens", "fewer") if measure.unit == "tokens" else ("money", "less")
            return f"; a done task takes {abs(measure.percent):.0f} % {'more' if measure.percent > 0 else less} {what}"
    return ""
