"""What happens in runs and to tasks, numbered in the order it became visible, for those who follow it.

Each event is written in the transaction of what it tells of, and only while its writer has its turn: on a server,
claims have none, and an event written there could become visible after a later one. An event is a hint to look: one
may come twice, when an answer got lost, and the oldest are forgotten.
"""

from __future__ import annotations

from ralph.records import RunEvent, now
from ralph.store.database import RUN_FEED
from ralph.store.rows import to_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from ralph.records import Attempt
    from ralph.store.database import Row, Scope

MOST_KEPT = 10_000
"""So many events of a project stay, the newest."""
FORGET_EVERY = 1_000
"""After about so many events the old ones are forgotten, beside at the end of each run."""
MOST_TASKS = 50
"""When more tasks change at once, one event tells of all."""


class RunEvents:
    """What happened in the runs and to the tasks of a project, of late."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    # --- following -------------------------------------------------------------------

    def since(self, seq: int, limit: int) -> list[RunEvent]:
        """Give what happened after an event, oldest first."""
        rows = self._scope.query(
            "SELECT * FROM run_events WHERE project_id = :project_id AND seq > :seq ORDER BY seq LIMIT :limit",
            seq=seq,
            limit=limit,
        )
        return [to_record(RunEvent, row, {}) for row in rows]

    def first(self) -> int:
        """Give the number of the oldest event that is kept, or 0."""
        return self._end("MIN")

    def has_forgotten(self, seq: int) -> bool:
        """Say whether events that came after one may have been forgotten: it is older than all, and many are kept."""
        return seq < self.first() - 1 and self._oldest_kept() is not None

    def last(self) -> int:
        """Give the number of the newest event, or 0."""
        return self._end("MAX")

    def _end(self, which: str) -> int:
        rows = self._scope.query(f"SELECT {which}(seq) AS seq FROM run_events WHERE project_id = :project_id")
        return int(rows[0]["seq"] or 0)

    # --- telling ---------------------------------------------------------------------

    def tell_run(self, what: str, run_id: str) -> None:
        """Tell that a run has started or ended; inside the transaction in which it did, as all of these."""
        self._tell([_row(what, run_id=run_id)])

    def tell_attempt(self, what: str, attempt: Attempt) -> None:
        """Tell that an attempt has started or ended; its task has changed too."""
        self._tell([_row(what, run_id=attempt.run_id, iteration=attempt.iteration, task_id=attempt.task_id)])

    def tell_tasks(self, ids: Collection[str]) -> None:
        """Tell that tasks were added, changed, moved or deleted; of very many at once in one event, without an id."""
        told = (None,) if len(ids) > MOST_TASKS else dict.fromkeys(ids)
        if ids:
            self._tell([_row("task_changed", task_id=id) for id in told])

    def _tell(self, rows: list[Row]) -> None:
        last = self._tell_one(rows[0]) if len(rows) == 1 else self._tell_all(rows)
        if last % FORGET_EVERY < len(rows):  # also where no run ever ends
            self.forget_old()

    def _tell_one(self, row: Row) -> int:
        self._scope.announce(RUN_FEED)
        told = self._scope.query(
            """
            INSERT INTO run_events (project_id, what, run_id, iteration, task_id, at)
            VALUES (:project_id, :what, :run_id, :iteration, :task_id, :at) RETURNING seq
            """,
            **row,
        )
        return int(told[0]["seq"])

    def _tell_all(self, rows: list[Row]) -> int:
        self._scope.insert_all(RUN_FEED, rows)
        return self.last()

    def forget_old(self) -> None:
        """Delete all but the newest events."""
        oldest = self._oldest_kept()
        if oldest is not None:
            sql = "DELETE FROM run_events WHERE project_id = :project_id AND seq < :oldest"
            self._scope.execute(sql, oldest=oldest)

    def _oldest_kept(self) -> int | None:
        """Give the number of the oldest of as many events as are kept; None while there are fewer."""
        rows = self._scope.query(
            f"""
            SELECT seq FROM run_events WHERE project_id = :project_id ORDER BY seq DESC LIMIT 1 OFFSET {MOST_KEPT - 1}
            """
        )
        return int(rows[0]["seq"]) if rows else None


def _row(what: str, *, run_id: str = "", iteration: int | None = None, task_id: str | None = None) -> Row:
    return {"what": what, "run_id": run_id, "iteration": iteration, "task_id": task_id, "at": now()}
