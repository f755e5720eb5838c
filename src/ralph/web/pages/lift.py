"""Values of the lift of memory, for the pages that show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ralph.core.records import record
from ralph.web.pages.page import run_command

if TYPE_CHECKING:
    from ralph.memory.lifecycle.lift import Lift, Measure
    from ralph.project import Project

HOLDOUT_OPTION = "--holdout 0.1"
"""Option of `ralph run` that measures the impact of memory."""
INTERVAL_PADDING = 0.12
"""Space on both sides of an interval, as a fraction of the scale."""


@record
class IntervalBar:
    """Interval on a scale with its zero, in percent of the width."""

    low: float
    width: float
    middle: float
    zero: float


def lift_values(project: Project, lift: Lift) -> dict[str, Any]:
    """Return the values of lift.html."""
    return {
        "lift": lift,
        "holdout_command": run_command(project, f" {HOLDOUT_OPTION}"),
        "bar": _bar(lift),
        "measures": [_measure_fields(one) for one in lift.measures],
    }


def _bar(lift: Lift) -> IntervalBar | None:
    """Return the position of the success rate interval on a scale that includes zero."""
    if not lift.measures:
        return None
    success = lift.measures[0]
    low, high = min(success.low, 0.0), max(success.high, 0.0)
    padding = (high - low or 1.0) * INTERVAL_PADDING
    low, high = low - padding, high + padding

    def at(value: float) -> float:
        return round(100 * (value - low) / (high - low), 2)

    return IntervalBar(
        low=at(success.low),
        width=round(at(success.high) - at(success.low), 2),
        middle=at(success.difference),
        zero=at(0.0),
    )


def _measure_fields(measure: Measure) -> dict[str, Any]:
    """Return the formatted values of a measure."""
    is_rate = measure.unit == "%"
    amount = {"%": "{:.1f}%", "attempts": "{:.2f}", "tokens": "{:,.0f}", "usd": "${:,.3f}"}[measure.unit].format
    is_better = (measure.difference > 0) == is_rate

    def signed(value: float) -> str:
        return ("−" if value < 0 else "+") + ("{:.1f}".format if is_rate else amount)(abs(value))

    return {
        "name": measure.name,
        "with_memory": amount(measure.with_memory),
        "without": amount(measure.without),
        "difference": signed(measure.difference) + (" points" if is_rate else ""),
        "ends": f"{signed(measure.low)} to {signed(measure.high)}",
        "status": ("good" if is_better else "bad") if measure.is_certain else "pending",
    }
