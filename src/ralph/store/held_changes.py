"""Store for changes to protected files that wait for a person."""

from __future__ import annotations

from ralph.core.records import HeldChange, now
from ralph.store.rows import from_json, to_columns, to_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.store.database import ProjectScope
    from ralph.store.rows import Converters

_CONVERTERS: Converters = {"files": from_json, "marks": from_json}


class HeldChangeStore:
    """Held changes of a project."""

    def __init__(self, scope: ProjectScope) -> None:
        self._scope = scope

    def add(self, change: HeldChange) -> None:
        """Store a change that waits for a person."""
        self._scope.insert("held_changes", **to_columns(change))

    def waiting(self, task_id: str) -> HeldChange | None:
        """Return the change that a task waits with: nobody approved it, and no reset or attempt came after it.

        One without a reason only tells later runs what unfinished work changed.
        """
        rows = self._scope.query(
            """
            SELECT h.* FROM held_changes AS h JOIN tasks AS t ON t.project_id = h.project_id AND t.id = h.task_id
            JOIN attempts AS a ON a.project_id = h.project_id AND a.run_id = h.run_id AND a.iteration = h.iteration
            WHERE h.project_id = :project_id AND h.task_id = :id AND h.approved_at IS NULL AND t.status <> 'done'
                AND h.reason <> ''
                AND a.task_id = h.task_id AND a.number > t.reset_after AND a.number = (
                    SELECT MAX(b.number) FROM attempts AS b WHERE b.project_id = :project_id AND b.task_id = :id
                )
            ORDER BY h.seq DESC LIMIT 1
            """,
            id=task_id,
        )
        return to_record(HeldChange, rows[0], _CONVERTERS) if rows else None

    def of_unfinished(self) -> list[HeldChange]:
        """Return the changes of all unfinished tasks, approved or not, oldest first."""
        rows = self._scope.query(
            """
            SELECT h.* FROM held_changes AS h JOIN tasks AS t ON t.project_id = h.project_id AND t.id = h.task_id
            WHERE h.project_id = :project_id AND t.status <> 'done' ORDER BY h.seq
            """
        )
        return [to_record(HeldChange, row, _CONVERTERS) for row in rows]

    def approve(self, task_id: str, digest: str) -> None:
        """Mark the change of a task as approved by a person."""
        self._scope.execute(
            """
            UPDATE held_changes SET approved_at = :at
            WHERE project_id = :project_id AND task_id = :id AND digest = :digest AND approved_at IS NULL
            """,
            id=task_id,
            digest=digest,
            at=now(),
        )

    def withdraw_approval(self, task_id: str) -> None:
        """Make the approved changes of a task wait again: its work starts over."""
        self._scope.execute(
            "UPDATE held_changes SET approved_at = NULL WHERE project_id = :project_id AND task_id = :id", id=task_id
        )

    def discard(self, task_id: str) -> None:
        """Forget the changes of a task that is done: they are part of the project now."""
        self._scope.execute("DELETE FROM held_changes WHERE project_id = :project_id AND task_id = :id", id=task_id)
