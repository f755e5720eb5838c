"""Page of a run in progress."""

from __future__ import annotations

from ralph import live
from ralph.project import Project
from ralph.server.calls import Query
from ralph.server.pages.telling import run_command
from ralph.server.views import Pages, View

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
    run = live.to_watch(project.store, query.run)
    if run is None:
        return View(template="live.html", values={"run": None, "others": [], "run_command": run_command(project)})
    view = project.past.run(run.id)
    attempts, more = project.past.attempts(MOST_ATTEMPTS, run=run.id)
    running = project.store.attempts.running()
    unfinished = [one for one in project.store.attempts.runs(LATEST) if one.ended_at is None and one.id != run.id]
    others = [one for one in unfinished if live.goes_on(one, [each for each in running if each.run_id == one.id])]
    return View(
        template="live.html",
        values={
            "run": run,
            "stats": view.stats,
            "running": view.running,
            "is_at_work": live.goes_on(run, view.running),
            "is_here": run.id in live.runs(project.directory),
            "attempts": attempts,
            "has_more": more is not None,
            "titles": project.store.tasks.titles([one.task_id for one in attempts]),
            "others": project.stats.of(others),
            "run_command": run_command(project),
        },
    )
