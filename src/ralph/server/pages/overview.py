"""Where the project stands, at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ralph.project import Project
from ralph.records import State, Status, record
from ralph.server.pages.telling import run_command
from ralph.server.views import Pages, View

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ralph.memory.lift import Lift, Measure
    from ralph.records import Attempt, Task
    from ralph.stats import RunStats

LATEST = 8
MOST = 6
"""So many tasks in trouble, or waiting, are shown; the page of tasks has all."""
TO_COMPARE = "--holdout 0.1"
PADDING = 0.12
"""So much room is left on both sides of an interval."""

pages = Pages()


@record
class Bar:
    """An interval on a scale with its zero, in percent of the width."""

    low: float
    width: float
    middle: float
    zero: float


@pages.page("/")
def overview(project: Project) -> View:
    """Show runs, success, cost, what is remembered, and what memory brings."""
    project.memory.look_at_files()
    seen = project.overview(MOST)
    attempts = project.journal(LATEST)
    states = project.store.memories.counts("state")
    lift = project.stats.lift()
    runs = project.stats.runs()[::-1]
    memory = project.stats.memory()
    command = run_command(project)
    return View(
        template="overview.html",
        values={
            "overview": seen,
            "parts_of_all": _shares(seen.counts),
            "tasks": _tasks(project, (*attempts, *seen.running, *seen.left)),
            "attempts": attempts,
            "waiting": seen.waiting,
            "trouble": seen.trouble[:MOST],
            "staged": states.get(State.STAGED, 0) + states.get(State.QUARANTINED, 0),
            "runs": runs,
            "memory": memory,
            "lift": lift,
            "lift_says": lift.says.replace(f"ralph run {TO_COMPARE}", f"`{command} {TO_COMPARE}`"),
            "run_command": command,
            "bar": _bar(lift),
            "measures": [_said(one) for one in lift.measures],
            "figures": {
                "runs": _figures(runs),
                "growth": [{"at": one.at, "memories": one.memories} for one in memory.growth],
            },
        },
    )


def _shares(counts: dict[Status, int]) -> list[tuple[Status, int, float, float]]:
    """Give each status with its count, where its part of the bar begins, and how wide it is, in percent."""
    total = sum(counts.values())
    shares, begin = [], 0.0
    for status in (Status.DONE, Status.IN_PROGRESS, Status.PENDING, Status.BLOCKED, Status.FAILED):
        count = counts.get(status, 0)
        width = 100 * count / total if total else 0.0
        shares.append((status, count, round(begin, 3), round(width, 3)))
        begin += width
    return shares


def _tasks(project: Project, attempts: Iterable[Attempt]) -> dict[str, Task]:
    return project.store.tasks.some(one.task_id for one in attempts)


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


def _bar(lift: Lift) -> Bar | None:
    """Give where the interval of the success is drawn; zero is always on the scale."""
    if not lift.measures:
        return None
    success = lift.measures[0]
    low, high = min(success.low, 0.0), max(success.high, 0.0)
    room = (high - low or 1.0) * PADDING
    low, high = low - room, high + room

    def at(value: float) -> float:
        return round(100 * (value - low) / (high - low), 2)

    return Bar(
        low=at(success.low),
        width=round(at(success.high) - at(success.low), 2),
        middle=at(success.difference),
        zero=at(0.0),
    )


def _said(one: Measure) -> dict[str, Any]:
    """Give a measure in words."""
    amount = {"%": "{:.1f} %", "attempts": "{:.2f}", "tokens": "{:,.0f}", "usd": "${:,.3f}"}[one.unit].format
    apart = "{:.1f}".format if one.unit == "%" else amount
    is_better = (one.difference > 0) == (one.unit == "%")
    return {
        "name": one.name,
        "with_memory": amount(one.with_memory),
        "without": amount(one.without),
        "difference": _signed(one.difference, apart(abs(one.difference))) + (" points" if one.unit == "%" else ""),
        "ends": f"{_signed(one.low, apart(abs(one.low)))} to {_signed(one.high, apart(abs(one.high)))}",
        "status": ("good" if is_better else "bad") if one.is_certain else "pending",
    }


def _signed(value: float, amount: str) -> str:
    return ("−" if value < 0 else "+") + amount
