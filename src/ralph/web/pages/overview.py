"""Overview page of the project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ralph.core.paging import Page
from ralph.core.records import MemoryState, TaskStatus
from ralph.project import Project
from ralph.web.pages.lift import lift_values
from ralph.web.pages.page import PageView, run_command
from ralph.web.pages.runs import active_runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ralph.core.records import Attempt, Task
    from ralph.loop.stats import RunStats

LATEST_ATTEMPTS = 8
"""Number of latest attempts shown."""
MAX_TASKS_PER_SECTION = 6
"""Maximum number of tasks shown per section."""


def show_overview(project: Project) -> PageView:
    """Show runs, success, cost, memories and the impact of memory."""
    project.files.check()
    overview = project.overview(MAX_TASKS_PER_SECTION)
    attempts = project.journal.attempts(Page(limit=LATEST_ATTEMPTS))
    states = project.store.memories.stats.counts("state")
    lift = project.stats.lift()
    runs = project.stats.runs()[::-1]
    memory = project.stats.memory_growth()
    last = overview.last_run
    return PageView(
        template="overview.html",
        values={
            "overview": overview,
            "is_active": last is not None and last.ended_at is None and bool(active_runs(project, [last.id])),
            "parts_of_all": _shares(overview.counts),
            "tasks": _tasks(project, (*attempts, *overview.running, *overview.left)),
            "attempts": attempts,
            "attention": project.attention(MAX_TASKS_PER_SECTION),
            "trouble": overview.trouble[:MAX_TASKS_PER_SECTION],
            "staged": states.get(MemoryState.STAGED, 0) + states.get(MemoryState.QUARANTINED, 0),
            "runs": runs,
            "memory": memory,
            "run_command": run_command(project),
            **lift_values(project, lift),
            "figures": {
                "runs": _figures(runs),
                "growth": [{"at": at, "memories": memories} for at, memories in memory.growth],
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
