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

    def latest(self, task_id: str) -> HeldChange | None:
        """Return the newest held change of a task, approved or not."""
        rows = self._scope.query(
            "SELECT * FROM held_changes WHERE project_id = :project_id AND task_id = :id ORDER BY seq DESC LIMIT 1",
            id=task_id,
        )
        return to_record(HeldChange, rows[0], _CONVERTERS) if rows else None

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

    def unapproved(self) -> list[HeldChange]:
        """Return the changes of unfinished tasks that nobody has approved, newest first."""
        rows = self._scope.query(
            """
            SELECT h.* FROM held_changes AS h JOIN tasks AS t ON t.project_id = h.project_id AND t.id = h.task_id
            WHERE h.project_id = :project_id AND h.approved_at IS NULL AND t.status <> 'done' ORDER BY h.seq DESC
            """
        )
        return [to_record(HeldChange, row, _CONVERTERS) for row in rows]

    def approved_marks(self) -> frozenset[str]:
        """Return the marks of all changes that a person has approved."""
        rows = self._scope.query(
            "SELECT marks FROM held_changes WHERE project_id = :project_id AND approved_at IS NOT NULL"
        )
        return frozenset(mark for row in rows for mark in from_json(row["marks"]))
