"""Tasks that became done although neither the loop nor a person finished them."""

from __future__ import annotations

from ralph.core.records import TaskStatus, record
from ralph.store.task_table import TaskTable, id_batches, row_to_task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.records import Task
    from ralph.store.database import ProjectScope, Row


_IS_OPEN = "(status < 'done' OR status > 'done')"
"""Condition for tasks that are not done; unlike `<>`, both parts are looked up in the index."""


@record
class OpenTask:
    """What the loop knew about an unfinished task before a session."""

    status: str
    claimed_by: str | None
    claim_token: int
    lease_until: str | None


class DoneWatch(TaskTable):
    """Unfinished tasks before a session; finds those that are done after it for no known reason."""

    def __init__(self, scope: ProjectScope) -> None:
        super().__init__(scope)
        newest = scope.query("SELECT MAX(seq) AS seq FROM tasks WHERE project_id = :project_id")
        self._newest = newest[0]["seq"] or 0
        rows = scope.query(
            "SELECT id, status, claimed_by, claim_token, lease_until FROM tasks"
            f" WHERE project_id = :project_id AND {_IS_OPEN}"
        )
        self._open = {row["id"]: OpenTask(**{name: row[name] for name in OpenTask.__slots__}) for row in rows}  # type: ignore[attr-defined]

    def revert_unexplained(self) -> list[Task]:
        """Restore the former status of tasks that are done for no known reason, and return them as they were found."""
        found = [task for task in self._newly_done() if not self._is_explained(task)]
        with self._scope.transaction():
            for task in found:
                self._revert(task)
        return found

    def _newly_done(self) -> list[Task]:
        still = self._scope.query(f"SELECT id FROM tasks WHERE project_id = :project_id AND {_IS_OPEN}")
        ids = self._open.keys() - {row["id"] for row in still}
        return [
            task
            for marks, values in id_batches(ids)
            for task in self._select(f"WHERE t.project_id = :project_id AND t.id IN ({marks})", **values)
        ]

    def _is_explained(self, task: Task) -> bool:
        """Return whether an attempt of the loop, a person, or the parts of a task account for its status."""
        found = self._scope.query(
            """
            SELECT 1 FROM attempts WHERE project_id = :project_id AND task_id = :id AND outcome = 'done'
                AND handed_to = '' AND number > :reset_after
            UNION ALL SELECT 1 FROM (
                SELECT message FROM task_log WHERE project_id = :project_id AND task_id = :id
                    AND message LIKE 'Set to % by hand%' AND who = 'person' ORDER BY seq DESC LIMIT 1
            ) AS latest WHERE message LIKE 'Set to done by hand%'
            """,
            id=task.id,
            reset_after=task.reset_after,
        )
        return bool(found) or self._is_done_in_parts(task)

    def _is_done_in_parts(self, task: Task) -> bool:
        rows = self._rows("WHERE t.project_id = :project_id AND t.parent_id = :id", id=task.id)
        return bool(rows) and all(self._is_done_part(row) for row in rows)

    def _is_done_part(self, row: Row) -> bool:
        """Return whether a part was done before the session, or is now for a known reason."""
        was_done = row["seq"] <= self._newest and row["id"] not in self._open
        return row["status"] == TaskStatus.DONE and (was_done or self._is_explained(row_to_task(row)))

    def _revert(self, task: Task) -> None:
        before = self._open[task.id]
        self._set(
            task.id,
            "status = :status, claimed_by = :by, claim_token = :token, lease_until = :lease",
            status=before.status,
            by=before.claimed_by,
            token=before.claim_token,
            lease=before.lease_until,
        )
        self.log(
            task.id, f"Back to {before.status}: it was set to done outside of the loop and not by a person.", "ralph"
        )
        if task.parent_id and before.status != TaskStatus.DONE:
            self._roll_up(task.parent_id)
        self._publish([task.id])
