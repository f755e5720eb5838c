"""The journal: attempts, failures and agent sessions of a project, newest first."""

from __future__ import annotations

from ralph.core.errors import NotFoundError, UsageError
from ralph.core.paging import Page, ResultList, paged
from ralph.core.records import now, record
from ralph.memory.recall.candidates import find_similar_attempts
from ralph.memory.recall.query import RecallContext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.records import AgentSession, Attempt, AttemptOutcome, FailureReport
    from ralph.loop.git.diffs import AttemptDiff
    from ralph.memory.sessions import SessionService
    from ralph.store import Store
    from ralph.store.database import Row

    JournalCursor = tuple[int | None, str, int]
    """Cursor of a journal entry: the last attempt before it, and the last session."""

MAX_GROUPS = 50
MAX_REPORTS = 1_000
NEWEST_SESSION = ("~", 0)
"""Cursor before the latest session: no timestamp sorts after it."""


@record
class JournalEntry:
    """An attempt of a run, or an agent session outside the loop."""

    at: str
    """Timestamp the journal is ordered by."""
    attempt: Attempt | None = None
    session: AgentSession | None = None


@record
class FailureGroup:
    """Failures with the same fingerprint."""

    fingerprint: str
    category: str
    failures: int
    tasks: int
    """Number of tasks it occurred in."""
    first: str
    latest: str
    example: FailureReport
    """The latest report."""


class JournalService:
    """The journal of one opened project."""

    def __init__(self, store: Store, sessions: SessionService, directory: str) -> None:
        """`directory` is in the repository with the commits of attempts."""
        self._store = store
        self._sessions = sessions
        self._directory = directory

    def search(self, query: str, limit: int) -> list[JournalEntry]:
        """Return attempts and sessions that match a query, the best of each first."""
        sessions = self._sessions.search(query, limit)
        # Neither kind pushes out the other.
        most = max(limit - len(sessions), -(-limit // 2))
        attempts = find_similar_attempts(self._store, RecallContext(title=query, at=now()), most, minimum=0.0)
        entries = [JournalEntry(at=one.started_at, attempt=one) for one in attempts]
        entries += [JournalEntry(at=one.last_at, session=one) for one in sessions]
        return entries[:limit]

    def attempts(
        self,
        page: Page,
        *,
        run: str | None = None,
        task: str | None = None,
        outcome: AttemptOutcome | None = None,
    ) -> ResultList[Attempt]:
        """Return attempts, newest first, of one run, task or outcome if given."""
        self._check_ids(run, task)
        found = self._store.attempts.page(page.limit + 1, page.after, run=run, task=task, outcome=outcome)
        return paged(found, page)

    def get(self, name: str) -> Attempt:
        """Return one attempt by `RUN/ITERATION`, or by an iteration of the latest run."""
        run, _, iteration = name.rpartition("/")
        if not (iteration.isascii() and iteration.isdecimal() and len(iteration) < 10):
            raise UsageError(
                f"{name!r} is not a journal entry: use RUN/ITERATION, as ralph journal list shows it.",
                code="invalid-entry",
            )
        runs = [] if run else self._store.runs.latest(1)
        return self._store.attempts.get(run or (runs[0].id if runs else "no run"), int(iteration))

    def diff(self, name: str) -> AttemptDiff:
        """Return what an attempt changed, by `RUN/ITERATION`."""
        from ralph.loop.git.diffs import attempt_diff

        return attempt_diff(self._directory, self.get(name))

    def task_diff(self, task_id: str, attempt: int | None = None) -> AttemptDiff:
        """Return what an attempt at a task changed; by default, what all attempts did until it was last done."""
        from ralph.loop.git.diffs import attempt_diff

        self._check_ids(None, task_id)
        attempts = self._store.attempts.latest(MAX_REPORTS, task=task_id)
        if attempt is None:
            if not attempts:
                raise UsageError(f"{task_id} has no attempts yet.", code="no-attempts")
            last = next((index for index, one in enumerate(attempts) if one.commits or one.checkpoint), 0)
            return attempt_diff(self._directory, attempts[last], attempts[last + 1 :])
        found = [one for one in attempts if one.number == attempt]
        if not found:
            raise NotFoundError("Attempt", f"{task_id}/{attempt}")
        return attempt_diff(self._directory, found[0])

    def failures(
        self,
        page: Page,
        *,
        task: str | None = None,
        category: str | None = None,
        fingerprint: str | None = None,
    ) -> ResultList[FailureReport]:
        """Return failure reports, newest first, of one task, category or fingerprint if given."""
        self._check_ids(None, task)
        found = self._store.failures.page(
            page.limit + 1, page.after, task=task, category=category, fingerprint=fingerprint
        )
        return paged(found, page)

    def failures_of(self, task_id: str, attempt: int | None = None) -> list[FailureReport]:
        """Return the failure reports of a task, newest first, of one attempt if given."""
        found = self.failures(Page(limit=MAX_REPORTS), task=task_id)
        return [one for one in found if attempt in (None, one.attempt_number)]

    def failure_counts(self) -> list[Row]:
        """Return the number of failures by category, most frequent first."""
        return self._store.failures.counts()

    def failure_groups(self, limit: int = MAX_GROUPS) -> list[FailureGroup]:
        """Return failures grouped by fingerprint, most frequent first."""
        return [
            FailureGroup(
                fingerprint=report.fingerprint,
                category=report.category,
                failures=row["failures"],
                tasks=row["tasks"],
                first=row["first"],
                latest=report.created_at,
                example=report,
            )
            for row, report in self._store.failures.groups(limit)
        ]

    def _check_ids(self, run: str | None, task: str | None) -> None:
        """Raise `NotFoundError` for an unknown run or task, rather than list nothing."""
        if task:
            self._store.tasks.get(task)
        if run:
            self._store.runs.get(run)

    def list(self, page: Page) -> ResultList[JournalEntry]:
        """Return attempts and sessions together, newest first."""
        cursor: JournalCursor | None = page.after
        attempt_cursor = cursor[0] if cursor else None
        session_cursor = cursor[1:] if cursor else NEWEST_SESSION
        attempts = self._store.attempts.page(page.limit + 1, attempt_cursor)
        sessions = self._store.sessions.page(page.limit + 1, session_cursor)
        entries: ResultList[JournalEntry] = ResultList()
        at_attempt = at_session = 0
        while len(entries) < page.limit and (at_attempt < len(attempts) or at_session < len(sessions)):
            attempt = attempts[at_attempt][0] if at_attempt < len(attempts) else None
            session = sessions[at_session][0] if at_session < len(sessions) else None
            if attempt and (session is None or attempt.started_at >= session.last_at):
                entries.append(JournalEntry(at=attempt.started_at, attempt=attempt))
                at_attempt += 1
            elif session:
                entries.append(JournalEntry(at=session.last_at, session=session))
                at_session += 1
        if at_attempt < len(attempts) or at_session < len(sessions):
            if at_attempt:
                attempt_cursor = attempts[at_attempt - 1][1]
            if at_session:
                session_cursor = sessions[at_session - 1][1]
            entries.next = (attempt_cursor, *session_cursor)
        return entries
