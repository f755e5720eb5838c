"""What happened: runs, attempts, the journal, sessions and failures."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ralph import live
from ralph.errors import NotFoundError
from ralph.loop.progress import Event
from ralph.past import FailureGroup, JournalEntry, RunView
from ralph.project import Project
from ralph.records import AgentSession, Attempt, FailureReport, Outcome
from ralph.server.calls import Calls, Listing, Query
from ralph.server.paging import Limit, Moment, Name, Number, Paged, cursor_to, place_in
from ralph.server.problems import InvalidValueError
from ralph.stats import RunStats

runs = Calls("runs")
journal = Calls("journal")
failures = Calls("failures")

OfRun = Annotated[Name | None, msgspec.Meta(description="Of this run.")]
OfTask = Annotated[Name | None, msgspec.Meta(description="Of this task.")]


# --- runs -----------------------------------------------------------------------------


class LiveQuery(Query):
    """From where on."""

    offset: Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1, description="As the answer before gave it.")] = 0


class Live(msgspec.Struct):
    """What a run told, from a position on; there may be more at once."""

    events: list[Event]
    offset: int
    """The position to go on from."""
    is_over: bool
    """The run has ended, or whoever worked on it is gone: nothing comes after what is there now."""


class AttemptsQuery(Paged):
    """Which attempts are wanted."""

    run: OfRun = None
    task: OfTask = None
    outcome: Outcome | None = None


@runs.get("/api/runs")
def list_runs(project: Project, query: Paged) -> Listing[RunStats]:
    """List what came of the runs, newest first."""
    try:
        runs, place = project.past.runs(query.limit, place_in(query.cursor, Name))
    except NotFoundError:
        raise InvalidValueError("cursor: the run it names is gone; begin anew without one.") from None
    return Listing(runs, cursor_to(place))


@runs.get("/api/runs/{id}")
def show_run(project: Project, id: str) -> RunView:
    """Give all about a run."""
    return project.past.run(id)


@runs.get("/api/runs/{id}/live")
def watch_run(project: Project, id: str, query: LiveQuery) -> Live:
    """Give what a run on this machine tells while it works, its agent's output too.

    Ask again with the `offset` of the answer. Of a run on another machine nothing comes, nor of an old one.
    """
    return Live(*live.listen(project.directory, project.store.attempts.run(id), query.offset))


@runs.get("/api/attempts")
def list_attempts(project: Project, query: AttemptsQuery) -> Listing[Attempt]:
    """List attempts, newest first, also those still running."""
    before = place_in(query.cursor, Number)
    attempts, place = project.past.attempts(query.limit, before, run=query.run, task=query.task, outcome=query.outcome)
    return Listing(attempts, cursor_to(place))


@runs.get("/api/runs/{run}/attempts/{iteration}")
def show_attempt(project: Project, run: str, iteration: str) -> Attempt:
    """Give one attempt by its run and iteration."""
    return project.journal_entry(f"{run}/{iteration}")


# --- the journal ----------------------------------------------------------------------


class SearchQuery(Query):
    """What is looked for."""

    q: Annotated[str, msgspec.Meta(description="Words.")]
    limit: Limit = 20


@journal.get("/api/journal")
def list_journal(project: Project, query: AttemptsQuery) -> Listing[JournalEntry]:
    """List attempts and sessions outside the loop, newest first; of one run, task or outcome there are no sessions."""
    if query.run or query.task or query.outcome:
        attempts = list_attempts(project, query)
        return Listing([JournalEntry(at=one.started_at, attempt=one) for one in attempts.items], attempts.next)
    entries, place = project.past.journal(query.limit, place_in(query.cursor, tuple[Number | None, Moment, Number]))
    return Listing(entries, cursor_to(place))


@journal.get("/api/journal/search")
def search_journal(project: Project, query: SearchQuery) -> Listing[JournalEntry]:
    """Find attempts and sessions by words in their notes, tasks and files, best first."""
    return Listing(project.past.search(query.q, query.limit))


@journal.get("/api/sessions")
def list_sessions(project: Project, query: Paged) -> Listing[AgentSession]:
    """List sessions of agents outside the loop, the latest first."""
    sessions, place = project.past.sessions(query.limit, place_in(query.cursor, tuple[Moment, Number]))
    return Listing(sessions, cursor_to(place))


@journal.get("/api/sessions/{id}")
def show_session(project: Project, id: str) -> AgentSession:
    """Give a session by its id, or by a beginning of it that no other has."""
    return project.sessions.get(id)


# --- failures -------------------------------------------------------------------------


class FailuresQuery(Paged):
    """Which failures are wanted."""

    task: OfTask = None
    category: Name | None = None
    fingerprint: Annotated[Name | None, msgspec.Meta(description="The same for failures that are the same.")] = None


class CategoryCount(msgspec.Struct):
    """How many failures of a category there are."""

    category: str
    failures: int
    tasks: int
    """In so many tasks."""
    latest: str


class FailureCounts(msgspec.Struct):
    """What goes wrong, and how often."""

    categories: list[CategoryCount]
    fingerprints: list[FailureGroup]
    """Those seen most often."""


@failures.get("/api/failures")
def list_failures(project: Project, query: FailuresQuery) -> Listing[FailureReport]:
    """List failure reports, freshest first."""
    before = place_in(query.cursor, Number)
    reports, place = project.past.failures(
        query.limit, before, task=query.task, category=query.category, fingerprint=query.fingerprint
    )
    return Listing(reports, cursor_to(place))


@failures.get("/api/failures/counts")
def count_failures(project: Project) -> FailureCounts:
    """Count failures by category, and those that are the same, most frequent first."""
    return FailureCounts(
        [CategoryCount(**row) for row in project.failure_counts()],
        project.past.failure_groups(),
    )
