"""Pages of runs: the list, and the details of one."""

from __future__ import annotations

from ralph.memory.lifecycle import days_between
from ralph.project import Project
from ralph.records import now
from ralph.server.calls import Query
from ralph.server.pages.linking import address
from ralph.server.pages.telling import run_command
from ralph.server.paging import Cursor, Name, cursor_to, place_in
from ralph.server.views import Pages, View

ON_A_PAGE = 50
"""Number of runs on a page."""
MOST_ATTEMPTS = 500
"""Maximum number of attempts shown with a run."""
MOST_LEARNED = 1_000
"""Maximum number of learned memories shown with a run."""

pages = Pages()


class RunsQuery(Query):
    """Page of the list of runs."""

    cursor: Cursor = ""


@pages.page("/runs")
def show_runs(project: Project, query: RunsQuery) -> View:
    """Show the results of runs, newest first."""
    runs, place = project.past.runs(ON_A_PAGE, place_in(query.cursor, Name))
    return View(
        template="runs.html",
        values={
            "runs": runs,
            "running": {one.run_id for one in project.store.attempts.running()},
            "is_first": not query.cursor,
            "next": address("/runs", cursor=cursor_to(place)) if place else "",
            "run_command": run_command(project),
        },
    )


@pages.page("/runs/{id}")
def show_run(project: Project, id: str) -> View:
    """Show a run with its attempts, models and learned memories."""
    view = project.past.run(id)
    attempts, more = project.past.attempts(MOST_ATTEMPTS, run=id)
    return View(
        template="run.html",
        values={
            "run": view.run,
            "stats": view.stats,
            "running": view.running,
            "attempts": attempts,
            "has_more": more is not None,
            "titles": project.store.tasks.titles([one.task_id for one in attempts]),
            "models": view.models,
            "learned": project.memory.of_run(id, MOST_LEARNED),
            "elapsed": days_between(view.run.started_at, view.run.ended_at or now()) * 86_400,
        },
    )
