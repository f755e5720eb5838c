"""Page of a run in progress."""

from __future__ import annotations

from ralph.core.paging import Page
from ralph.loop import run_log
from ralph.project import Project
from ralph.web.endpoints import Query
from ralph.web.page_routes import Pages, View
from ralph.web.pages.sentences import run_command

LATEST = 20
"""Number of latest runs searched for running ones."""
MOST_ATTEMPTS = 100
"""Maximum number of attempts shown."""

pages = Pages()


class LiveQuery(Query):
    """Run to watch."""

    run: str = ""
    """ID of the run. Default: the one in progress, or the latest."""


@pages.page("/live")
def show_live(project: Project, query: LiveQuery) -> View:
    """Show the run in progress with its agent's output, or the latest run."""
    run = run_log.to_watch(project.store, query.run)
    if run is None:
        return View(template="live.html", values={"run": None, "others": [], "run_command": run_command(project)})
    view = project.runs.get(run.id)
    attempts = project.journal.attempts(Page(limit=MOST_ATTEMPTS), run=run.id)
    running = project.store.attempts.running()
    unfinished = [one for one in project.store.attempts.runs(LATEST) if one.ended_at is None and one.id != run.id]
    others = [one for one in unfinished if run_log.goes_on(one, [each for each in running if each.run_id == one.id])]
    return View(
        template="live.html",
        values={
            "run": run,
            "stats": view.stats,
            "running": view.running,
            "is_at_work": run_log.goes_on(run, view.running),
            "is_here": run.id in run_log.runs(project.directory),
            "attempts": attempts,
            "has_more": attempts.next is not None,
            "titles": project.store.tasks.titles([one.task_id for one in attempts]),
            "others": project.stats.of(others),
            "run_command": run_command(project),
        },
    )
