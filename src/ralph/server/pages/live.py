"""A run while it works."""

from __future__ import annotations

from ralph import live
from ralph.project import Project
from ralph.server.calls import Query
from ralph.server.pages.telling import run_command
from ralph.server.views import Pages, View

LATEST = 20
"""Among so many runs those at work are looked for."""
MOST_ATTEMPTS = 100

pages = Pages()


class LiveQuery(Query):
    """Which run to watch."""

    run: str = ""
    """Else the one at work, or the latest."""


@pages.page("/live")
def show_live(project: Project, query: LiveQuery) -> View:
    """Show the run at work with what its agent says, or the latest one."""
    run = live.to_watch(project.store, query.run)
    if run is None:
        return View(template="live.html", values={"run": None, "others": [], "run_command": run_command(project)})
    seen = project.past.run(run.id)
    attempts, more = project.past.attempts(MOST_ATTEMPTS, run=run.id)
    running = project.store.attempts.running()
    latest = [one for one in project.store.attempts.runs(LATEST) if one.ended_at is None and one.id != run.id]
    others = [one for one in latest if live.goes_on(one, [each for each in running if each.run_id == one.id])]
    return View(
        template="live.html",
        values={
            "run": run,
            "stats": seen.stats,
            "running": seen.running,
            "is_at_work": live.goes_on(run, seen.running),
            "is_here": run.id in live.runs(project.directory),
            "attempts": attempts,
            "has_more": more is not None,
            "titles": titles_of(project, [one.task_id for one in attempts]),
            "others": project.stats.of(others),
            "run_command": run_command(project),
        },
    )


def titles_of(project: Project, ids: list[str | None]) -> dict[str, str]:
    """Give the titles of tasks that are still there."""
    return project.store.tasks.titles(ids)
