"""Claims on tasks.

A claim is a lease with a token that grows with every claim; a worker with an old token can change nothing.
"""

from __future__ import annotations

from ralph.core.errors import StoreError
from ralph.core.records import Task, TaskStatus, now
from ralph.store.database import matches_checksum
from ralph.store.task_table import NEEDED, READY, TASKS_TOPIC, TaskTable, row_to_task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from ralph.store.database import Row

    R = TypeVar("R")


class TaskClaims(TaskTable):
    """Claims on a project's tasks."""

    def claim(self, worker: str, lease_seconds: float, task_id: str | None, then: Callable[[Task], R]) -> R | None:
        """Claim the first ready task and call `then` with it in one transaction. Return None if no task is ready.

        Two workers never get the same task, because it is selected and marked in one statement.
        """

        def attempt() -> tuple[Row, R] | None:
            with self._scope.concurrent_transaction():
                row = self._pick(worker, lease_seconds, task_id)
                return (row, then(row_to_task(row))) if row else None

        claimed = attempt() or (attempt() if self.release_expired() else None)
        if claimed is None:
            return None
        row, result = claimed
        self._roll_up_claim(row)
        return result

    def _roll_up_claim(self, claimed: Row) -> None:
        if claimed["parent_id"]:
            with self._scope.transaction():
                self._roll_up(claimed["parent_id"])

    def _pick(self, worker: str, lease_seconds: float, only: str | None) -> Row | None:
        """Mark the first ready task as claimed, skipping rows locked by other claims, and return it."""
        database = self._scope.database
        needs = database.json_array("n.needs_id", NEEDED.format(task="tasks"))
        rows = self._scope.query(
            f"""
            UPDATE tasks SET status = 'in_progress', claimed_by = :worker, claim_token = claim_token + 1,
                lease_until = {database.lease_end}
            WHERE project_id = :project_id AND {database.row_key} = (
                SELECT t.{database.row_key} FROM tasks AS t
                WHERE {READY} AND t.status = 'pending' {"AND t.id = :only" if only else ""}
                ORDER BY t.priority DESC, t.seq LIMIT 1 {database.skip_locked}
            )
            RETURNING *, {needs} AS needs
            """,
            worker=worker,
            lease_seconds=str(lease_seconds),
            **({"only": only} if only else {}),
        )
        for row in rows:
            if not matches_checksum({name: value for name, value in row.items() if name != "needs"}):
                raise StoreError(
                    f"Task {row['id']} does not match its checksum, so it was not started. "
                    "Check the database with: ralph doctor",
                    code="damaged-task",
                )
        return rows[0] if rows else None

    @property
    def _expired(self) -> str:
        return f"""
            SELECT 1 FROM tasks WHERE project_id = :project_id AND status = 'in_progress'
                AND lease_until IS NOT NULL AND {self._scope.database.lease_expired} LIMIT 1
        """

    def release_expired(self) -> bool:
        """Release tasks whose lease ran out. Return whether there were any."""
        if not self._scope.query(self._expired):
            return False
        with self._scope.transaction():
            rows = self._scope.update_where(
                "tasks",
                "status = 'pending', claimed_by = NULL, lease_until = NULL",
                f"status = 'in_progress' AND lease_until IS NOT NULL AND {self._scope.database.lease_expired}",
            )
            for row in rows:
                self._roll_up(row["parent_id"])
                self.log(row["id"], "Released: the lease ran out.", "ralph")
            self._publish([row["id"] for row in rows])
        return True

    def heartbeat(self, id: str, token: int, lease_seconds: float) -> bool:
        """Renew the lease of a claim. Return False if the claim was lost."""
        with self._scope.database.single_statement():
            changed = self._scope.execute(
                f"""
                UPDATE tasks SET lease_until = {self._scope.database.lease_end}
                WHERE project_id = :project_id AND id = :id AND claim_token = :token AND status = 'in_progress'
                """,
                id=id,
                token=token,
                lease_seconds=str(lease_seconds),
            )
        return changed > 0

    def settle(self, id: str, token: int, status: TaskStatus, reason: str = "") -> bool:
        """End a claim and set the status of the task. Return False if the claim was lost."""
        with self._scope.transaction():
            rows = self._scope.update_where(
                "tasks",
                "status = :status, reason = :reason, claimed_by = NULL, lease_until = NULL, updated_at = :at",
                "id = :id AND claim_token = :token AND status = 'in_progress'",
                id=id,
                token=token,
                status=status.value,
                reason=reason,
                at=now(),
            )
            if rows:
                self._roll_up(rows[0]["parent_id"])
                self._scope.announce(TASKS_TOPIC)
            self.release_expired()  # here rather than on a claim, which should be fast
            return bool(rows)

    def claimed(self) -> list[Task]:
        """Return the claimed tasks."""
        return self._select(
            "WHERE t.project_id = :project_id AND t.status = 'in_progress' AND t.claimed_by IS NOT NULL ORDER BY t.seq"
        )
