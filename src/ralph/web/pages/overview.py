"""Overview page of the project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ralph.core.paging import Page
from ralph.core.records import MemoryState, TaskStatus, record
from ralph.project import Project
from ralph.web.pages.page import PageView, run_command

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ralph.core.records import Attempt, Task
    from ralph.loop.stats import RunStats
    from ralph.memory.lifecycle.lift import Lift, Measure

LATEST_ATTEMPTS = 8
"""Number of latest attempts shown."""
MAX_TASKS_PER_SECTION = 6
"""Maximum number of tasks shown per section."""
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


def show_overview(project: Project) -> PageView:
    """Show runs, success, cost, memories and the impact of memory."""
    project.files.check()
    overview = project.overview(MAX_TASKS_PER_SECTION)
    attempts = project.journal.attempts(Page(limit=LATEST_ATTEMPTS))
    states = project.store.memories.stats.counts("state")
    lift = project.stats.lift()
    runs = project.stats.runs()[::-1]
    memory = project.stats.memory()
    return PageView(
        template="overview.html",
        values={
            "overview": overview,
            "parts_of_all": _shares(overview.counts),
            "tasks": _tasks(project, (*attempts, *overview.running, *overview.left)),
            "attempts": attempts,
            "waiting": overview.waiting,
            "trouble": overview.trouble[:MAX_TASKS_PER_SECTION],
            "staged": states.get(MemoryState.STAGED, 0) + states.get(MemoryState.QUARANTINED, 0),
            "runs": runs,
            "memory": memory,
            "lift": lift,
            "run_command": run_command(project),
            "holdout_option": HOLDOUT_OPTION,
            "bar": _bar(lift),
            "measures": [_measure_fields(one) for one in lift.measures],
            "figures": {
                "runs": _figures(runs),
                "growth": [{"at": one.at, "memories": one.memories} for one in memory.growth],
            },
        },
    )


def _shares(counts: dict[TaskStatus, int]) -> list[tuple[TaskStatus, int, float, float]]:
    """Return each status with its count and the start and width of its part of the bar, in percent."""
    total = sum(counts.values())
    shares, start = [], 0.0
    for status in (TaskStatus.DONE, TaskStatus.IN_PROGRESS, TaskStatus.PENDING, TaskStatus.BLOCKED, TaskStatus.FAILED):
        count = counts.get(status, 0)
        width = 100 * count / total if total else 0.0
        shares.append((status, count, round(start, 3), round(width, 3)))
        start += width
    return shares


def _tasks(project: Project, attempts: Iterable[Attempt]) -> dict[str, Task]:
    return project.store.tasks.get_many(one.task_id for one in attempts)


def _figures(runs: Sequence[RunStats]) -> list[dict[str, Any]]:
    return [
        {
            "id": run.id,
            "at": run.started_at,
            "done": run.done,
            "failed": run.failed,
            "success": run.success_rate,
            "cost": run.cost_usd,
        }
        for run in runs
    ]


# --- lift ---------------------------------------------------------------------------------------


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
