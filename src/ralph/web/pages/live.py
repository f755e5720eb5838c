"""Page of a run in progress."""

from __future__ import annotations

from ralph.core.paging import Page
from ralph.core.text import SIGIL_NAMES
from ralph.loop import run_log
from ralph.project import Project
from ralph.web.endpoints import QueryParams
from ralph.web.pages.page import PageView, run_command
from ralph.web.pages.runs import active_runs

LATEST_RUNS = 20
"""Number of latest runs searched for running ones."""
MAX_LIVE_ATTEMPTS = 100
"""Maximum number of attempts shown."""


class LivePageQuery(QueryParams):
    """Run to watch."""

    run: str = ""
    """ID of the run. Default: the one in progress, or the latest."""


def show_live(project: Project, query: LivePageQuery) -> PageView:
    """Show the run in progress with its agent's output, or the latest run."""
    run = run_log.find_run_to_watch(project.store, query.run)
    if run is None:
        return PageView(template="live.html", values={"run": None, "others": [], "run_command": run_command(project)})
    view = project.runs.get(run.id)
    attempts = project.journal.attempts(Page(limit=MAX_LIVE_ATTEMPTS), run=run.id)
    unfinished = [one.id for one in project.store.runs.latest(LATEST_RUNS) if one.ended_at is None and one.id != run.id]
    return PageView(
        template="live.html",
        values={
            "run": run,
            "sigils": SIGIL_NAMES,
            "stats": view.stats,
            "running": view.running,
            "is_at_work": run_log.is_run_active(run, view.running),
            "is_here": run.id in run_log.logged_runs(project.directory),
            "attempts": attempts,
            "has_more": attempts.next is not None,
            "titles": project.store.tasks.titles([one.task_id for one in attempts]),
            "others": project.stats.of(active_runs(project, unfinished)),
            "run_command": run_command(project),
        },
    )
