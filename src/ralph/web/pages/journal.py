"""Pages of the journal: attempts of runs, and sessions outside the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ralph.core.paging import Page
from ralph.core.records import Outcome
from ralph.loop.journal import JournalEntry
from ralph.project import Project
from ralph.web.endpoints import Query
from ralph.web.page_routes import Pages, View
from ralph.web.pages.links import address
from ralph.web.pages.sentences import run_command
from ralph.web.paging import Cursor, Moment, Number, cursor_to, place_in
from ralph.web.problems import InvalidValueError

if TYPE_CHECKING:
    from ralph.loop.stats import RunStats

ON_A_PAGE = 50
"""Number of entries on a page."""
MOST_FOUND = 50
"""Maximum number of search results."""
MOST_RUNS = 30
"""Number of runs offered as a filter."""
SESSIONS = "session"
"""Value of the outcome filter for sessions outside the loop."""

pages = Pages()


class JournalQuery(Query):
    """Filters for journal entries."""

    q: str = ""
    run: str = ""
    task: str = ""
    outcome: str = ""
    """Outcome of an attempt, or `session` for sessions outside the loop."""
    cursor: Cursor = ""


@pages.page("/journal")
def show_journal(project: Project, query: JournalQuery) -> View:
    """Show journal entries, newest first, or search results."""
    if query.outcome and query.outcome not in (*Outcome, SESSIONS):
        raise InvalidValueError(f"outcome: must be one of {', '.join((*Outcome, SESSIONS))}.")
    entries, cursor = _search(project, query), None
    if not query.q.strip():
        entries, cursor = _page(project, query)
    runs = project.stats.runs(MOST_RUNS)

    def narrowed(**change: str) -> str:
        filters = {"q": query.q, "run": query.run, "task": query.task, "outcome": query.outcome}
        return address("/journal", **(filters | change))

    return View(
        template="journal.html",
        values={
            "query": query,
            "narrowed": narrowed,
            "is_narrowed": any((query.q, query.run, query.task, query.outcome)),
            "outcomes": [one.value for one in Outcome],
            "runs": runs,
            "is_listed": _is_listed(query.run, runs),
            "entries": entries,
            "titles": project.store.tasks.titles([one.attempt.task_id for one in entries if one.attempt]),
            "next": narrowed(cursor=cursor) if cursor else "",
            "run_command": run_command(project),
        },
    )


@pages.page("/sessions/{id}")
def show_session(project: Project, id: str) -> View:
    """Show a session outside the loop."""
    session = project.sessions.get(id)
    return View(template="session.html", values={"session": session})


def _is_listed(run: str, runs: list[RunStats]) -> bool:
    return not run or any(one.id == run for one in runs)


def _search(project: Project, query: JournalQuery) -> list[JournalEntry]:
    """Return search results that match the filters."""
    if not query.q.strip():
        return []
    return [one for one in project.journal.search(query.q, MOST_FOUND) if _matches(one, query)]


def _matches(entry: JournalEntry, query: JournalQuery) -> bool:
    attempt = entry.attempt
    if attempt is None:
        return query.outcome in ("", SESSIONS) and not query.run and not query.task
    return (
        query.run in ("", attempt.run_id)
        and query.task in ("", attempt.task_id)
        and query.outcome in ("", attempt.outcome)
    )


def _page(project: Project, query: JournalQuery) -> tuple[list[JournalEntry], str | None]:
    """Return a page of entries and the cursor of the next page."""
    if query.outcome == SESSIONS:
        sessions = project.sessions.list(_page_at(query, tuple[Moment, Number]))
        return [JournalEntry(at=one.last_at, session=one) for one in sessions], cursor_to(sessions.next)
    if query.run or query.task or query.outcome:
        attempts = project.journal.attempts(
            _page_at(query, Number),
            run=query.run or None,
            task=query.task or None,
            outcome=Outcome(query.outcome) if query.outcome else None,
        )
        return [JournalEntry(at=one.started_at, attempt=one) for one in attempts], cursor_to(attempts.next)
    entries = project.journal.list(_page_at(query, tuple[Number | None, Moment, Number]))
    return entries, cursor_to(entries.next)


def _page_at(query: JournalQuery, cursor: Any) -> Page:
    return Page(limit=ON_A_PAGE, after=place_in(query.cursor, cursor))
