"""What happened in a project, page by page: attempts, failures, sessions, and what becomes of them from now on.

A page goes on from the place of the last thing on the page before it: what is added meanwhile moves nothing.
"""

from __future__ import annotations

from ralph.core.records import now, record
from ralph.loop.stats import ModelStats, RunStats, Stats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeVar

    from ralph.core.records import AgentSession, Attempt, FailureReport, Outcome, Run, RunEvent, Task
    from ralph.memory.sessions import Attending
    from ralph.store import Store

    T = TypeVar("T")
    P = TypeVar("P")
    Place = tuple[int | None, str, int]
    """Of a journal entry: the last attempt before it, and the last session."""

MOST_GROUPS = 50
LATEST_OF_ALL = ("~", 0)
"""The place before the latest session: no moment comes after it."""


@record
class JournalEntry:
    """One thing that was done: an attempt of a run, or a session that somebody had without one."""

    at: str
    """By which it has its place."""
    attempt: Attempt | None = None
    session: AgentSession | None = None


@record
class FailureGroup:
    """Failures that are the same."""

    fingerprint: str
    category: str
    failures: int
    tasks: int
    """In so many tasks it was seen."""
    first: str
    latest: str
    example: FailureReport
    """The latest one."""


@record
class RunView:
    """All about one run."""

    run: Run
    stats: RunStats
    models: tuple[ModelStats, ...]
    """What each model did in it, the one with the most attempts first."""
    running: tuple[Attempt, ...]
    """Its attempts that have not ended."""


@record
class Happening:
    """Something that happened in a run or to a task, and what it happened to as that is now."""

    event: RunEvent
    run: Run | None
    attempt: Attempt | None
    task: Task | None
    """None as well when it was deleted since."""


class Past:
    """What happened in a project."""

    def __init__(self, store: Store, attending: Attending) -> None:
        self._store = store
        self._attending = attending

    # --- pages ---------------------------------------------------------------------

    def attempts(
        self,
        limit: int,
        before: int | None = None,
        *,
        run: str | None = None,
        task: str | None = None,
        outcome: Outcome | None = None,
    ) -> tuple[list[Attempt], int | None]:
        """Give attempts, newest first, and the place to go on from if there are more."""
        self._require(run, task)
        return _page(self._store.attempts.placed(limit + 1, before, run=run, task=task, outcome=outcome), limit)

    def failures(
        self,
        limit: int,
        before: int | None = None,
        *,
        task: str | None = None,
        category: str | None = None,
        fingerprint: str | None = None,
    ) -> tuple[list[FailureReport], int | None]:
        """Give failure reports, freshest first, and the place to go on from if there are more."""
        self._require(None, task)
        found = self._store.attempts.placed_reports(
            limit + 1, before, task=task, category=category, fingerprint=fingerprint
        )
        return _page(found, limit)

    def runs(self, limit: int, before: str | None = None) -> tuple[list[RunStats], str | None]:
        """Give what came of the runs, newest first, and the place to go on from if there are more."""
        if before:
            self._store.attempts.run(before)
        found = Stats(self._store).runs(limit + 1, before or "")
        return found[:limit], found[limit - 1].id if len(found) > limit else None

    def sessions(
        self, limit: int, before: tuple[str, int] | None = None
    ) -> tuple[list[AgentSession], tuple[str, int] | None]:
        """Give sessions outside the loop, the latest first, and the place to go on from if there are more."""
        return _page(self._store.sessions.placed(limit + 1, before), limit)

    def _require(self, run: str | None, task: str | None) -> None:
        """Say that there is no such run or task, rather than that nothing happened in it."""
        if task:
            self._store.tasks.get(task)
        if run:
            self._store.attempts.run(run)

    # --- the journal -----------------------------------------------------------------

    def journal(self, limit: int, before: Place | None = None) -> tuple[list[JournalEntry], Place | None]:
        """Give attempts and sessions together, newest first, and the place to go on from if there are more."""
        attempt_place = before[0] if before else None
        session_place = before[1:] if before else LATEST_OF_ALL
        attempts = self._store.attempts.placed(limit + 1, attempt_place)
        sessions = self._store.sessions.placed(limit + 1, session_place)
        entries: list[JournalEntry] = []
        at_attempt = at_session = 0
        while len(entries) < limit and (at_attempt < len(attempts) or at_session < len(sessions)):
            attempt = attempts[at_attempt][0] if at_attempt < len(attempts) else None
            session = sessions[at_session][0] if at_session < len(sessions) else None
            if attempt and (session is None or attempt.started_at >= session.last_at):
                entries.append(JournalEntry(at=attempt.started_at, attempt=attempt))
                at_attempt += 1
            elif session:
                entries.append(JournalEntry(at=session.last_at, session=session))
                at_session += 1
        if at_attempt == len(attempts) and at_session == len(sessions):
            return entries, None
        if at_attempt:
            attempt_place = attempts[at_attempt - 1][1]
        if at_session:
            session_place = sessions[at_session - 1][1]
        return entries, (attempt_place, *session_place)

    def search(self, query: str, limit: int) -> list[JournalEntry]:
        """Find attempts and sessions by words, the best of each first; any text is safe as a query."""
        from ralph.memory.recall.candidates import matching_attempts
        from ralph.memory.recall.query import Context

        sessions = self._attending.search(query, limit)
        # The one kind does not push out the other.
        most = max(limit - len(sessions), -(-limit // 2))
        attempts = matching_attempts(self._store, Context(title=query, at=now()), most, floor=0.0)
        entries = [JournalEntry(at=one.started_at, attempt=one) for one in attempts]
        entries += [JournalEntry(at=one.last_at, session=one) for one in sessions]
        return entries[:limit]

    # --- in sum ----------------------------------------------------------------------

    def run(self, id: str) -> RunView:
        """Give all about one run."""
        run = self._store.attempts.run(id)
        stats = Stats(self._store)
        return RunView(
            run=run,
            stats=stats.of([run])[0],
            models=tuple(stats.models(id)),
            running=tuple(one for one in self._store.attempts.running() if one.run_id == id),
        )

    def failure_groups(self, limit: int = MOST_GROUPS) -> list[FailureGroup]:
        """Give which failures are the same, those seen most often first."""
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
            for row, report in self._store.attempts.report_groups(limit)
        ]

    # --- as it happens -----------------------------------------------------------------

    def missed_until(self, seq: int, next: int) -> int:
        """Give up to where events are forgotten that came after one and before the next that is there, or 0."""
        return next - 1 if next > seq + 1 and self._store.events.has_forgotten(seq) else 0

    def since(self, seq: int, limit: int) -> list[Happening]:
        """Give what happened in runs and to tasks after an event, oldest first, with each as it is now."""
        events = self._store.events.since(seq, limit)
        if not events:
            return []
        until = events[-1].seq
        runs = {one.id: one for one in self._store.attempts.runs_told_of(seq, until)}
        attempts = {(one.run_id, one.iteration): one for one in self._store.attempts.told_of(seq, until)}
        tasks = {one.id: one for one in self._store.tasks.told_of(seq, until)}
        return [
            Happening(
                event=one,
                run=runs.get(one.run_id),
                attempt=attempts.get((one.run_id, one.iteration or 0)),
                task=tasks.get(one.task_id or ""),
            )
            for one in events
        ]


def _page(found: Sequence[tuple[T, P]], limit: int) -> tuple[list[T], P | None]:
    """Give as many as are wanted, and the place of the last one if more were found."""
    return [one for one, _ in found[:limit]], found[limit - 1][1] if len(found) > limit else None
