"""Pages of runs: the list, and the details of one."""

from __future__ import annotations

from ralph.core.paging import Page
from ralph.core.records import now
from ralph.memory.lifecycle.confidence import days_between
from ralph.project import Project
from ralph.web.endpoints import QueryParams
from ralph.web.pages.page import PageView, page_url, run_command
from ralph.web.paging import Cursor, Name, decode_cursor, encode_cursor

RUNS_PER_PAGE = 50
"""Number of runs on a page."""
MAX_RUN_ATTEMPTS = 500
"""Maximum number of attempts shown with a run."""
MAX_LEARNED = 1_000
"""Maximum number of learned memories shown with a run."""


class RunsPageQuery(QueryParams):
    """Page of the list of runs."""

    cursor: Cursor = ""


def show_runs(project: Project, query: RunsPageQuery) -> PageView:
    """Show the results of runs, newest first."""
    runs = project.runs.list(Page(limit=RUNS_PER_PAGE, after=decode_cursor(query.cursor, Name)))
    return PageView(
        template="runs.html",
        values={
            "runs": runs,
            "running": {one.run_id for one in project.store.attempts.running()},
            "is_first": not query.cursor,
            "next": page_url("/runs", cursor=encode_cursor(runs.next)) if runs.next else "",
            "run_command": run_command(project),
        },
    )


def show_run(project: Project, id: str) -> PageView:
    """Show a run with its attempts, models and learned memories."""
    view = project.runs.get(id)
    attempts = project.journal.attempts(Page(limit=MAX_RUN_ATTEMPTS), run=id)
    return PageView(
        template="run.html",
        values={
            "run": view.run,
            "stats": view.stats,
            "running": view.running,
            "attempts": attempts,
            "has_more": attempts.next is not None,
            "titles": project.store.tasks.titles([one.task_id for one in attempts]),
            "models": view.models,
            "learned": project.runs.memories(id, MAX_LEARNED),
            "elapsed": days_between(view.run.started_at, view.run.ended_at or now()) * 86_400,
        },
    )
