"""Progress of tasks: which are ready, and how many have which status."""

from __future__ import annotations

from ralph.core.records import TaskStatus
from ralph.store.task_table import READY, TaskTable, id_batches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ralph.core.records import Task

_LEAF = """
    t.project_id = :project_id
    AND (SELECT 1 FROM tasks AS c WHERE c.project_id = :project_id AND c.parent_id = t.id LIMIT 1) IS NULL
"""


class TaskProgress(TaskTable):
    """Progress of a project's tasks."""

    def ready(self, limit: int | None = None, priority: int | None = None) -> list[Task]:
        """Return the tasks that are ready to be claimed, in claim order, optionally of one priority."""
        same_priority = "AND t.priority = :priority" if priority is not None else ""
        return self._select(
            f"""WHERE {READY} AND t.status = 'pending' {same_priority}
            ORDER BY t.priority DESC, t.seq {"LIMIT :limit" if limit else ""}""",
            **({"limit": limit} if limit else {}),
            **({"priority": priority} if priority is not None else {}),
        )

    def filter_ready(self, ids: Iterable[str | None]) -> set[str]:
        """Return the ids of those tasks that are ready to be claimed."""
        return {
            row["id"]
            for placeholders, values in id_batches(ids)
            for row in self._scope.query(
                # The status is checked below: with it, SQLite would scan all pending tasks.
                f"SELECT t.id, t.status FROM tasks AS t WHERE {READY} AND t.id IN ({placeholders})",
                **values,
            )
            if row["status"] == TaskStatus.PENDING
        }

    def count_ready(self, feature_id: str | None = None) -> int:
        """Return the number of tasks that are ready to be claimed, optionally of one feature."""
        condition = "AND t.feature_id = :feature_id" if feature_id else ""
        rows = self._scope.query(
            f"SELECT COUNT(*) AS n FROM tasks AS t WHERE {READY} AND t.status = 'pending' {condition}",
            **({"feature_id": feature_id} if feature_id else {}),
        )
        return int(rows[0]["n"])

    def with_status(self, status: TaskStatus, limit: int | None = None) -> list[Task]:
        """Return tasks with this status in claim order. Tasks with subtasks are skipped."""
        return self._select(
            f"WHERE {_LEAF} AND t.status = :status ORDER BY t.priority DESC, t.seq {'LIMIT :limit' if limit else ''}",
            status=status.value,
            **({"limit": limit} if limit else {}),
        )

    def count_with_status(self, status: TaskStatus) -> int:
        """Return the number of tasks with this status. Tasks with subtasks are skipped."""
        rows = self._scope.query(
            f"SELECT COUNT(*) AS n FROM tasks AS t WHERE {_LEAF} AND t.status = :status", status=status.value
        )
        return int(rows[0]["n"])

    def count_open(self) -> int:
        """Return the number of tasks that are left to do and wait for nobody. Tasks with subtasks are skipped."""
        rows = self._scope.query(
            f"SELECT COUNT(*) AS n FROM tasks AS t WHERE {_LEAF} AND t.status IN ('pending', 'in_progress')"
        )
        return int(rows[0]["n"])

    def has_unfinished(self) -> bool:
        """Return whether any task is not done."""
        rows = self._scope.query(
            """
            SELECT 1 FROM tasks
            WHERE project_id = :project_id AND status IN ('pending', 'in_progress', 'failed', 'blocked') LIMIT 1
            """
        )
        return bool(rows)

    def counts(self) -> dict[TaskStatus, int]:
        """Count tasks by status."""
        rows = self._scope.query(
            "SELECT status, COUNT(*) AS n FROM tasks WHERE project_id = :project_id GROUP BY status ORDER BY status"
        )
        return {TaskStatus(row["status"]): row["n"] for row in rows}

    def counts_by_feature(self) -> dict[str, dict[TaskStatus, int]]:
        """Count tasks by feature and status."""
        rows = self._scope.query(
            """
            SELECT feature_id, status, COUNT(*) AS n FROM tasks
            WHERE project_id = :project_id AND feature_id IS NOT NULL GROUP BY feature_id, status ORDER BY status
            """
        )
        counts: dict[str, dict[TaskStatus, int]] = {}
        for row in rows:
            counts.setdefault(row["feature_id"], {})[TaskStatus(row["status"])] = row["n"]
        return counts
