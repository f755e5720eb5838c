"""Results of attempts by model, agent, task type and difficulty, and the lift of memory over time."""

from __future__ import annotations

import math

from ralph.core.records import record
from ralph.memory.lifecycle.lift import measure_lift
from ralph.store.stats import OUTSIDE_AGENT, add_up

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ralph.memory.lifecycle.lift import Trial
    from ralph.store import Store
    from ralph.store.database import Row

MAX_LIFT_POINTS = 24
"""Maximum number of days for which the lift is computed."""
Z_95 = 1.96
"""97.5% quantile of the normal distribution."""
_COLUMNS = ("agent", "model", "task_kind", "difficulty")


@record
class GroupStats:
    """Results of the attempts of one group, such as those with one model."""

    name: str
    """Empty for the agent's default model, or an unknown difficulty."""
    attempts: int
    done: int
    failed: int
    success_rate: float | None
    """Share of conclusive attempts that got their task done, 0 to 1."""
    low: float
    """Lower end of the 95% interval of the success rate."""
    high: float
    mean_seconds: float
    cost_usd: float | None
    """None if no attempt reported any."""
    cost_per_done_usd: float | None
    """Total cost per task done; None if none was done or no cost was reported."""


@record
class Performance:
    """Results of all attempts of a project, grouped in several ways, the largest group first."""

    models: tuple[GroupStats, ...]
    agents: tuple[GroupStats, ...]
    task_types: tuple[GroupStats, ...]
    difficulties: tuple[GroupStats, ...]
    by_type: dict[tuple[str, str], GroupStats]
    """Results by model and task type."""


@record
class LiftPoint:
    """Effect of memory on success, by all attempts up to the end of a day."""

    day: str
    attempts: int
    difference: float
    """Success with memory minus without, in percentage points."""
    low: float
    """Lower end of its 95% interval."""
    high: float


def read_performance(store: Store) -> Performance:
    """Return the results of the attempts of a project, by group."""
    return store.figures.get("performance", store.events.last_seq(), lambda: _performance(store))


def _performance(store: Store) -> Performance:
    rows = store.stats.group_by(*_COLUMNS, "outcome", "is_handover")
    rows = [row for row in rows if row["agent"] != OUTSIDE_AGENT]
    return Performance(
        models=_groups(rows, "model"),
        agents=_groups(rows, "agent"),
        task_types=_groups(rows, "task_kind"),
        difficulties=_groups(rows, "difficulty"),
        by_type={
            (model, kind): _group(kind, [row for row in rows if (row["model"], row["task_kind"]) == (model, kind)])
            for model, kind in {(row["model"], row["task_kind"]) for row in rows}
        },
    )


def _groups(rows: Iterable[Row], column: str) -> tuple[GroupStats, ...]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[column], []).append(row)
    found = (_group(name, some) for name, some in groups.items())
    return tuple(sorted(found, key=lambda one: (-one.attempts, one.name)))


def _group(name: str, rows: Sequence[Row]) -> GroupStats:
    sums = add_up(rows)
    done, failed, cost_usd = sums["done"], sums["failed"], sums["cost_usd"] or None
    low, high = wilson_interval(done, done + failed)
    return GroupStats(
        name=name,
        attempts=sums["attempts"],
        done=done,
        failed=failed,
        success_rate=done / (done + failed) if done + failed else None,
        low=low,
        high=high,
        mean_seconds=sums["seconds"] / sums["attempts"],
        cost_usd=cost_usd,
        cost_per_done_usd=cost_usd / done if cost_usd and done else None,
    )


def wilson_interval(done: int, attempts: int) -> tuple[float, float]:
    """Return the 95% Wilson score interval of a success rate; everything is possible without an attempt."""
    if not attempts:
        return 0.0, 1.0
    rate, square = done / attempts, Z_95**2
    middle = (rate + square / (2 * attempts)) / (1 + square / attempts)
    half = Z_95 / (1 + square / attempts) * math.sqrt(rate * (1 - rate) / attempts + square / (4 * attempts**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def lift_over_time(store: Store) -> tuple[LiftPoint, ...]:
    """Return the effect of memory as it was known at the end of each day, oldest first; empty without enough data."""
    stats = store.stats
    version = store.figures.get("trials", store.events.last_seq(), stats.holdout_version)
    return store.figures.get(
        "lift over time", version, lambda: _lift_points(stats.holdout_trials(), stats.holdout_days())
    )


def _lift_points(trials: Sequence[Trial], days: Sequence[str]) -> tuple[LiftPoint, ...]:
    ends = sorted({day: end for end, day in enumerate(days, 1)}.items())
    step = -(-len(ends) // MAX_LIFT_POINTS) or 1
    points = []
    for day, end in ends[::-1][::step][::-1]:
        lift = measure_lift(trials[:end])
        if lift.measures:
            success = lift.measures[0]
            points.append(
                LiftPoint(day=day, attempts=end, difference=success.difference, low=success.low, high=success.high)
            )
    return tuple(points)
