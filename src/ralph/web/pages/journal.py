"""Pages of the journal: attempts of runs, and sessions outside the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ralph.core.paging import Page
from ralph.core.records import AttemptOutcome
from ralph.loop.journal import JournalEntry
from ralph.project import Project
from ralph.web.endpoints import QueryParams
from ralph.web.pages.page import PageView, page_url, run_command
from ralph.web.paging import Cursor, Moment, Number, decode_cursor, encode_cursor
from ralph.web.problems import InvalidValueError

if TYPE_CHECKING:
    from ralph.loop.stats import RunStats

ENTRIES_PER_PAGE = 50
"""Number of entries on a page."""
MAX_SEARCH_RESULTS = 50
"""Maximum number of search results."""
MAX_RUN_CHOICES = 30
"""Number of runs offered as a filter."""
SESSION_FILTER = "session"
"""Value of the outcome filter for sessions outside the loop."""


class JournalPageQuery(QueryParams):
    """Filters for journal entries."""

    q: str = ""
    run: str = ""
    task: str = ""
    outcome: str = ""
    """Outcome of an attempt, or `session` for sessions outside the loop."""
    cursor: Cursor = ""


def show_journal(project: Project, query: JournalPageQuery) -> PageView:
    """Show journal entries, newest first, or search results."""
    if query.outcome and query.outcome not in (*AttemptOutcome, SESSION_FILTER):
        raise InvalidValueError(f"outcome: must be one of {', '.join((*AttemptOutcome, SESSION_FILTER))}.")
    entries, cursor = _search(project, query), None
    if not query.q.strip():
        entries, cursor = _page(project, query)
    runs = project.stats.runs(MAX_RUN_CHOICES)

    def narrowed(**change: str) -> str:
        filters = {"q": query.q, "run": query.run, "task": query.task, "outcome": query.outcome}
        return page_url("/journal", **(filters | change))

    return PageView(
        template="journal.html",
        values={
            "query": query,
            "narrowed": narrowed,
            "is_narrowed": any((query.q, query.run, query.task, query.outcome)),
            "outcomes": [one.value for one in AttemptOutcome],
            "runs": runs,
            "is_listed": _is_listed(query.run, runs),
            "entries": entries,
            "titles": project.store.tasks.titles([one.attempt.task_id for one in entries if one.attempt]),
            "next": narrowed(cursor=cursor) if cursor else "",
            "run_command": run_command(project),
        },
    )


def _is_listed(run: str, runs: list[RunStats]) -> bool:
    return not run or any(one.id == run for one in runs)


def _search(project: Project, query: JournalPageQuery) -> list[JournalEntry]:
    """Return search results that match the filters."""
    if not query.q.strip():
        return []
    return [one for one in project.journal.search(query.q, MAX_SEARCH_RESULTS) if _matches(one, query)]


def _matches(entry: JournalEntry, query: JournalPageQuery) -> bool:
    attempt = entry.attempt
    if attempt is None:
        return query.outcome in ("", SESSION_FILTER) and not query.run and not query.task
    return (
        query.run in ("", attempt.run_id)
        and query.task in ("", attempt.task_id)
        and query.outcome in ("", attempt.outcome)
    )


def _page(project: Project, query: JournalPageQuery) -> tuple[list[JournalEntry], str | None]:
    """Return a page of entries and the cursor of the next page."""
    if query.outcome == SESSION_FILTER:
        sessions = project.sessions.list(_page_at(query, tuple[Moment, Number]))
        return [JournalEntry(at=one.last_at, session=one) for one in sessions], encode_cursor(sessions.next)
    if query.run or query.task or query.outcome:
        attempts = project.journal.attempts(
            _page_at(query, Number),
            run=query.run or None,
            task=query.task or None,
            outcome=AttemptOutcome(query.outcome) if query.outcome else None,
        )
        return [JournalEntry(at=one.started_at, attempt=one) for one in attempts], encode_cursor(attempts.next)
    entries = project.journal.list(_page_at(query, tuple[Number | None, Moment, Number]))
    return entries, encode_cursor(entries.next)


def _page_at(query: JournalPageQuery, cursor: Any) -> Page:
    return Page(limit=ENTRIES_PER_PAGE, after=decode_cursor(query.cursor, cursor))
