"""What was done: attempts of runs, and sessions that people had without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ralph.past import JournalEntry
from ralph.project import Project
from ralph.records import Outcome
from ralph.server.calls import Query
from ralph.server.pages.linking import address
from ralph.server.pages.live import titles_of
from ralph.server.pages.telling import run_command
from ralph.server.paging import Cursor, Moment, Number, cursor_to, place_in
from ralph.server.problems import InvalidValueError
from ralph.server.views import Pages, View

if TYPE_CHECKING:
    from ralph.stats import RunStats

ON_A_PAGE = 50
MOST_FOUND = 50
MOST_RUNS = 30
SESSIONS = "session"

pages = Pages()


class JournalQuery(Query):
    """Which entries to show."""

    q: str = ""
    run: str = ""
    task: str = ""
    outcome: str = ""
    """`session` stands for sessions without a run."""
    cursor: Cursor = ""


@pages.page("/journal")
def show_journal(project: Project, query: JournalQuery) -> View:
    """Show what was done, newest first, or what words are found in."""
    if query.outcome and query.outcome not in (*Outcome, SESSIONS):
        raise InvalidValueError(f"outcome: must be one of {', '.join((*Outcome, SESSIONS))}.")
    entries, cursor = _found(project, query), None
    if not query.q.strip():
        entries, cursor = _listed(project, query)
    runs = project.stats.runs(MOST_RUNS)

    def narrowed(**change: str) -> str:
        asked = {"q": query.q, "run": query.run, "task": query.task, "outcome": query.outcome}
        return address("/journal", **(asked | change))

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
            "titles": titles_of(project, [one.attempt.task_id for one in entries if one.attempt]),
            "next": narrowed(cursor=cursor) if cursor else "",
            "run_command": run_command(project),
        },
    )


@pages.page("/sessions/{id}")
def show_session(project: Project, id: str) -> View:
    """Show a session that somebody had without a run."""
    session = project.sessions.get(id)
    return View(template="session.html", values={"session": session})


def _is_listed(run: str, runs: list[RunStats]) -> bool:
    return not run or any(one.id == run for one in runs)


def _found(project: Project, query: JournalQuery) -> list[JournalEntry]:
    """Give the entries in which words are found, as far as they are wanted."""
    if not query.q.strip():
        return []
    return [one for one in project.past.search(query.q, MOST_FOUND) if _is_wanted(one, query)]


def _is_wanted(entry: JournalEntry, query: JournalQuery) -> bool:
    attempt = entry.attempt
    if attempt is None:
        return query.outcome in ("", SESSIONS) and not query.run and not query.task
    return (
        query.run in ("", attempt.run_id)
        and query.task in ("", attempt.task_id)
        and query.outcome in ("", attempt.outcome)
    )


def _listed(project: Project, query: JournalQuery) -> tuple[list[JournalEntry], str | None]:
    """Give a page of entries, and the cursor that leads on."""
    if query.outcome == SESSIONS:
        sessions, after = project.past.sessions(ON_A_PAGE, place_in(query.cursor, tuple[Moment, Number]))
        return [JournalEntry(at=one.last_at, session=one) for one in sessions], cursor_to(after)
    if query.run or query.task or query.outcome:
        attempts, place = project.past.attempts(
            ON_A_PAGE,
            place_in(query.cursor, Number),
            run=query.run or None,
            task=query.task or None,
            outcome=Outcome(query.outcome) if query.outcome else None,
        )
        return [JournalEntry(at=one.started_at, attempt=one) for one in attempts], cursor_to(place)
    entries, where = project.past.journal(ON_A_PAGE, place_in(query.cursor, tuple[Number | None, Moment, Number]))
    return entries, cursor_to(where)
