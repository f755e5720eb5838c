"""Feed of changes in runs and tasks, numbered in the order in which they became visible.

Each event is written in the transaction that makes the change, and only while that transaction holds the project's
write lock. Claims on a server do not hold it, so an event written there could become visible after a later one.
Followers must treat an event as a hint to read the record again: it may come twice if a response was lost, and old
events are deleted.
"""

from __future__ import annotations

from ralph.core.records import RunEvent, now
from ralph.store.database import RUN_FEED
from ralph.store.rows import to_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from ralph.core.records import Attempt
    from ralph.store.database import ProjectScope, Row

MAX_EVENTS = 10_000
"""Maximum number of events kept per project."""
TRIM_EVERY = 1_000
"""Number of events after which old ones are deleted. They are also deleted at the end of each run."""
MAX_TASK_EVENTS = 50
"""Maximum number of tasks that get their own event when they change at once."""


class RunEventFeed:
    """Recent events in the runs and tasks of a project."""

    def __init__(self, scope: ProjectScope) -> None:
        self._scope = scope

    # --- reading ---------------------------------------------------------------------

    def since(self, seq: int, limit: int) -> list[RunEvent]:
        """Return the events after a sequence number, oldest first."""
        rows = self._scope.query(
            "SELECT * FROM run_events WHERE project_id = :project_id AND seq > :seq ORDER BY seq LIMIT :limit",
            seq=seq,
            limit=limit,
        )
        return [to_record(RunEvent, row, {}) for row in rows]

    def first_seq(self) -> int:
        """Return the sequence number of the oldest event, or 0."""
        return self._boundary("MIN")

    def has_gap(self, seq: int) -> bool:
        """Return whether events after a sequence number may have been deleted."""
        return seq < self.first_seq() - 1 and self._oldest_to_keep() is not None

    def last_seq(self) -> int:
        """Return the sequence number of the newest event, or 0."""
        return self._boundary("MAX")

    def _boundary(self, function: str) -> int:
        rows = self._scope.query(f"SELECT {function}(seq) AS seq FROM run_events WHERE project_id = :project_id")
        return int(rows[0]["seq"] or 0)

    # --- publishing ------------------------------------------------------------------

    def publish_run(self, what: str, run_id: str) -> None:
        """Publish that a run started or ended, in the transaction that makes the change."""
        self._publish([_row(what, run_id=run_id)])

    def publish_attempt(self, what: str, attempt: Attempt) -> None:
        """Publish that an attempt started or ended, and its task changed."""
        self._publish([_row(what, run_id=attempt.run_id, iteration=attempt.iteration, task_id=attempt.task_id)])

    def publish_tasks(self, ids: Collection[str]) -> None:
        """Publish that tasks were added, changed or deleted. Many tasks share one event without a task id."""
        task_ids = (None,) if len(ids) > MAX_TASK_EVENTS else dict.fromkeys(ids)
        if ids:
            self._publish([_row("task_changed", task_id=id) for id in task_ids])

    def _publish(self, rows: list[Row]) -> None:
        last = self._insert(rows[0]) if len(rows) == 1 else self._insert_all(rows)
        if last % TRIM_EVERY < len(rows):  # not only at the end of a run: a project may have tasks but no runs
            self.trim()

    def _insert(self, row: Row) -> int:
        self._scope.announce(RUN_FEED)
        inserted = self._scope.query(
            """
            INSERT INTO run_events (project_id, what, run_id, iteration, task_id, at)
            VALUES (:project_id, :what, :run_id, :iteration, :task_id, :at) RETURNING seq
            """,
            **row,
        )
        return int(inserted[0]["seq"])

    def _insert_all(self, rows: list[Row]) -> int:
        self._scope.insert_many(RUN_FEED, rows)
        return self.last_seq()

    def trim(self) -> None:
        """Delete all but the newest events."""
        oldest = self._oldest_to_keep()
        if oldest is not None:
            sql = "DELETE FROM run_events WHERE project_id = :project_id AND seq < :oldest"
            self._scope.execute(sql, oldest=oldest)

    def _oldest_to_keep(self) -> int | None:
        """Return the sequence number of the oldest event to keep, or None while there are fewer than `MAX_EVENTS`."""
        rows = self._scope.query(
            f"""
            SELECT seq FROM run_events WHERE project_id = :project_id ORDER BY seq DESC LIMIT 1 OFFSET {MAX_EVENTS - 1}
            """
        )
        return int(rows[0]["seq"]) if rows else None


def _row(what: str, *, run_id: str = "", iteration: int | None = None, task_id: str | None = None) -> Row:
    return {"what": what, "run_id": run_id, "iteration": iteration, "task_id": task_id, "at": now()}
