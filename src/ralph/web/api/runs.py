"""Endpoints for runs, attempts, the journal, sessions and failures."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from ralph.core.errors import NotFoundError
from ralph.core.records import AgentSession, Attempt, AttemptOutcome, FailureReport
from ralph.loop import run_log
from ralph.loop.git.diffs import AttemptDiff
from ralph.loop.journal import FailureGroup, JournalEntry
from ralph.loop.progress import ProgressEvent
from ralph.loop.report import RunReport
from ralph.loop.report_formats import RENDERERS
from ralph.loop.report_text import report_document
from ralph.loop.runs import RunView
from ralph.loop.stats import RunStats
from ralph.project import Project
from ralph.web.endpoints import EndpointGroup, Listing, QueryParams, RawResponse, encode_json
from ralph.web.paging import Limit, Moment, Name, Number, PagedQuery, encode_cursor, page_of
from ralph.web.problems import InvalidValueError

runs = EndpointGroup("runs")
journal = EndpointGroup("journal")
failures = EndpointGroup("failures")

OfRun = Annotated[Name | None, msgspec.Meta(description="Only of this run.")]
OfTask = Annotated[Name | None, msgspec.Meta(description="Only of this task.")]


# --- runs -----------------------------------------------------------------------------


class LiveOutputQuery(QueryParams):
    """Position from which to read."""

    offset: Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1, description="`offset` of the previous response.")] = 0


class LiveOutput(msgspec.Struct):
    """Output of a run from a position on; more may be available immediately."""

    events: list[ProgressEvent]
    offset: int
    """Position from which to continue."""
    is_over: bool
    """Whether the run has ended or its worker is gone, so that no more output follows."""


class ReportQuery(QueryParams):
    """Format of a report."""

    format: Annotated[
        Literal["json", "text", "markdown", "html"], msgspec.Meta(description="`html` is one file to save.")
    ] = "json"


class AttemptsQuery(PagedQuery):
    """Filters for attempts."""

    run: OfRun = None
    task: OfTask = None
    outcome: AttemptOutcome | None = None


@runs.get("/api/runs")
def list_runs(project: Project, query: PagedQuery) -> Listing[RunStats]:
    """List the results of runs, newest first."""
    try:
        runs = project.runs.list(page_of(query, Name))
    except NotFoundError:
        raise InvalidValueError("cursor: its run no longer exists. Start again without a cursor.") from None
    return Listing(runs, encode_cursor(runs.next))


@runs.get("/api/runs/{id}")
def show_run(project: Project, id: str) -> RunView:
    """Return a run with its statistics."""
    return project.runs.get(id)


@runs.get("/api/runs/{id}/report", response_type=RunReport, text_types=("text/plain", "text/html"))
def report_run(project: Project, id: str, query: ReportQuery) -> RawResponse:
    """Return the report of a run: what was done, what failed and why, what waits for a person, what it cost.

    Besides JSON it is available as plain text, as Markdown, and as one HTML file to save.
    """
    report = project.runs.report(id)
    if query.format == "json":
        return RawResponse(text=encode_json(report))
    text = RENDERERS[query.format](report_document(report, project.store.project_name))
    file_name = f"{report.run.id}.html" if query.format == "html" else ""
    return RawResponse(text=text.encode("utf-8", "replace"), is_text=True, file_name=file_name)


@runs.get("/api/runs/{id}/live")
def watch_run(project: Project, id: str, query: LiveOutputQuery) -> LiveOutput:
    """Return the live output of a run on this machine, including its agent's.

    Call it again with the returned `offset`. Old runs and runs on other machines have no output.
    """
    return LiveOutput(*run_log.poll_events(project.directory, project.store.runs.get(id), query.offset))


@runs.get("/api/attempts")
def list_attempts(project: Project, query: AttemptsQuery) -> Listing[Attempt]:
    """List attempts, including running ones, newest first."""
    attempts = project.journal.attempts(page_of(query, Number), run=query.run, task=query.task, outcome=query.outcome)
    return Listing(attempts, encode_cursor(attempts.next))


@runs.get("/api/runs/{run}/attempts/{iteration}")
def show_attempt(project: Project, run: str, iteration: str) -> Attempt:
    """Return one attempt by run and iteration."""
    return project.journal.get(f"{run}/{iteration}")


@runs.get("/api/runs/{run}/attempts/{iteration}/diff")
def show_attempt_diff(project: Project, run: str, iteration: str) -> AttemptDiff:
    """Return what an attempt changed as a unified diff, redacted and bounded.

    `problem` says why there is none.
    """
    return project.journal.diff(f"{run}/{iteration}")


# --- journal --------------------------------------------------------------------------


class JournalSearchQuery(QueryParams):
    """Search words."""

    q: Annotated[str, msgspec.Meta(description="Search words.")]
    limit: Limit = 20


@journal.get("/api/journal")
def list_journal(project: Project, query: AttemptsQuery) -> Listing[JournalEntry]:
    """List attempts and sessions outside the loop, newest first; filters exclude sessions."""
    if query.run or query.task or query.outcome:
        attempts = list_attempts(project, query)
        return Listing([JournalEntry(at=one.started_at, attempt=one) for one in attempts.items], attempts.next)
    entries = project.journal.list(page_of(query, tuple[Number | None, Moment, Number]))
    return Listing(entries, encode_cursor(entries.next))


@journal.get("/api/journal/search")
def search_journal(project: Project, query: JournalSearchQuery) -> Listing[JournalEntry]:
    """Search attempts and sessions by words in their notes, tasks and files, best match first."""
    return Listing(project.journal.search(query.q, query.limit))


@journal.get("/api/sessions")
def list_sessions(project: Project, query: PagedQuery) -> Listing[AgentSession]:
    """List agent sessions outside the loop, newest first."""
    sessions = project.sessions.list(page_of(query, tuple[Moment, Number]))
    return Listing(sessions, encode_cursor(sessions.next))


@journal.get("/api/sessions/{id}")
def show_session(project: Project, id: str) -> AgentSession:
    """Return a session by ID or by a unique prefix of it."""
    return project.sessions.get(id)


# --- failures -------------------------------------------------------------------------


class FailureReportsQuery(PagedQuery):
    """Filters for failure reports."""

    task: OfTask = None
    category: Name | None = None
    fingerprint: Annotated[Name | None, msgspec.Meta(description="Identical failures share a fingerprint.")] = None


class CategoryCount(msgspec.Struct):
    """Number of failures in a category."""

    category: str
    failures: int
    tasks: int
    """Number of tasks with such failures."""
    latest: str


class FailureCounts(msgspec.Struct):
    """Failures by category and fingerprint."""

    categories: list[CategoryCount]
    fingerprints: list[FailureGroup]
    """Most frequent groups of identical failures."""


@failures.get("/api/failures")
def list_failures(project: Project, query: FailureReportsQuery) -> Listing[FailureReport]:
    """List failure reports, newest first."""
    reports = project.journal.failures(
        page_of(query, Number), task=query.task, category=query.category, fingerprint=query.fingerprint
    )
    return Listing(reports, encode_cursor(reports.next))


@failures.get("/api/failures/counts")
def count_failures(project: Project) -> FailureCounts:
    """Count failures by category and identical failures, most frequent first."""
    return FailureCounts(
        [CategoryCount(**row) for row in project.journal.failure_counts()],
        project.journal.failure_groups(),
    )
