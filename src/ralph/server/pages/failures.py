"""Page of failure reports."""

from __future__ import annotations

from ralph.project import Project
from ralph.server.calls import Query
from ralph.server.pages.linking import address
from ralph.server.paging import Cursor, Number, cursor_to, place_in
from ralph.server.views import Pages, View

ON_A_PAGE = 30
"""Number of reports on a page."""

pages = Pages()


class FailuresQuery(Query):
    """Filters for failures."""

    category: str = ""
    task: str = ""
    fingerprint: str = ""
    cursor: Cursor = ""


@pages.page("/failures")
def show_failures(project: Project, query: FailuresQuery) -> View:
    """Show failures by category, groups of identical ones, and the reports."""
    reports, place = project.past.failures(
        ON_A_PAGE,
        place_in(query.cursor, Number),
        task=query.task or None,
        category=query.category or None,
        fingerprint=query.fingerprint or None,
    )
    groups = [
        one
        for one in project.past.failure_groups()
        if query.category in ("", one.category) and query.fingerprint in ("", one.fingerprint)
    ]
    filters = {"category": query.category, "task": query.task, "fingerprint": query.fingerprint}

    def narrowed(**change: str) -> str:
        return address("/failures", **(filters | change))

    cursor = cursor_to(place)
    return View(
        template="failures.html",
        values={
            "query": query,
            "is_narrowed": any(filters.values()),
            "narrowed": narrowed,
            "categories": project.failure_counts(),
            "groups": [] if query.task else groups,
            "reports": reports,
            "titles": project.store.tasks.titles(
                [*(one.task_id for one in reports), *(one.example.task_id for one in groups)]
            ),
            "next": narrowed(cursor=cursor) if cursor else "",
        },
    )
