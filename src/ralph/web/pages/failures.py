"""Page of failure reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ralph.core.paging import Page
from ralph.project import Project
from ralph.web.endpoints import QueryParams
from ralph.web.pages.page import PageView, page_url
from ralph.web.paging import Cursor, Number, decode_cursor, encode_cursor

if TYPE_CHECKING:
    from ralph.loop.journal import FailureGroup

FAILURES_PER_PAGE = 30
"""Number of reports on a page."""


class FailuresPageQuery(QueryParams):
    """Filters for failures."""

    category: str = ""
    task: str = ""
    fingerprint: str = ""
    cursor: Cursor = ""


def _is_group(group: FailureGroup, fingerprint: str) -> bool:
    """Return whether a group is asked for, or says more than the report of an only failure."""
    return group.fingerprint == fingerprint if fingerprint else group.failures > 1


def show_failures(project: Project, query: FailuresPageQuery) -> PageView:
    """Show failures by category, groups of identical ones, and the reports."""
    reports = project.journal.failures(
        Page(limit=FAILURES_PER_PAGE, after=decode_cursor(query.cursor, Number)),
        task=query.task or None,
        category=query.category or None,
        fingerprint=query.fingerprint or None,
    )
    groups = [
        one
        for one in project.journal.failure_groups()
        if query.category in ("", one.category) and _is_group(one, query.fingerprint)
    ]
    filters = {"category": query.category, "task": query.task, "fingerprint": query.fingerprint}

    def narrowed(**change: str) -> str:
        return page_url("/failures", **(filters | change))

    cursor = encode_cursor(reports.next)
    return PageView(
        template="failures.html",
        values={
            "query": query,
            "is_narrowed": any(filters.values()),
            "narrowed": narrowed,
            "categories": project.journal.failure_counts(),
            "groups": [] if query.task else groups,
            "reports": reports,
            "titles": project.store.tasks.titles(
                [*(one.task_id for one in reports), *(one.example.task_id for one in groups)]
            ),
            "next": narrowed(cursor=cursor) if cursor else "",
        },
    )
