"""Dependencies and subtasks of tasks."""

from __future__ import annotations

from ralph.core.errors import TaskCycleError
from ralph.store.cycles import find_cycle
from ralph.store.task_table import TaskTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ralph.core.records import Task


class TaskRelations(TaskTable):
    """Dependencies and subtasks of a project's tasks."""

    def add_dependencies(self, id: str, task_ids: Iterable[str]) -> Task:
        """Add dependencies to a task. Raise `TaskCycleError` if that would create a cycle."""
        task_ids = tuple(task_ids)
        with self._scope.transaction():
            self._require(id)
            for other in task_ids:
                self.insert_dependency(id, other)
            self.check_cycles()
            self._publish([id] if task_ids else [])
        return self.get(id)

    def remove_dependencies(self, id: str, task_ids: Iterable[str]) -> Task:
        """Remove dependencies from a task."""
        task_ids = tuple(task_ids)
        with self._scope.transaction():
            self._require(id)
            for other in task_ids:
                self._require(other)
                self._delete_dependency(id, other)
            self._publish([id] if task_ids else [])
        return self.get(id)

    def replace_dependencies(self, task: Task, needs: Sequence[str]) -> None:
        """Replace all dependencies of a task, in the open transaction."""
        for other in set(task.needs) - set(needs):
            self._delete_dependency(task.id, other)
        for other in dict.fromkeys(needs):
            self.insert_dependency(task.id, other)

    def insert_dependency(self, waiting: str, needed: str) -> None:
        """Insert a dependency without checking for cycles, in the open transaction."""
        self._require(needed)
        self._scope.execute(
            """
            INSERT INTO task_needs (project_id, task_id, needs_id) VALUES (:project_id, :task_id, :needs_id)
            ON CONFLICT DO NOTHING
            """,
            task_id=waiting,
            needs_id=needed,
        )

    def _delete_dependency(self, waiting: str, needed: str) -> None:
        self._scope.execute(
            "DELETE FROM task_needs WHERE project_id = :project_id AND task_id = :waiting AND needs_id = :needed",
            waiting=waiting,
            needed=needed,
        )

    def check_cycles(self) -> None:
        """Raise `TaskCycleError` if tasks wait for each other."""
        rows = self._scope.query("SELECT id, parent_id FROM tasks WHERE project_id = :project_id")
        needs: dict[str, list[str]] = {}
        for edge in self._scope.query("SELECT task_id, needs_id FROM task_needs WHERE project_id = :project_id"):
            needs.setdefault(edge["task_id"], []).append(edge["needs_id"])
        if path := find_cycle({row["id"]: row["parent_id"] for row in rows}, needs):
            raise TaskCycleError(path)

    def subtree(self, id: str) -> list[Task]:
        """Return a task and all its descendants, parents before children."""
        self._require(id)
        return self._select(
            """
            JOIN (
                WITH RECURSIVE tree (id, depth) AS (
                    SELECT id, 0 FROM tasks WHERE project_id = :project_id AND id = :id
                    UNION ALL
                    SELECT c.id, tree.depth + 1 FROM tree
                    JOIN tasks AS c ON c.project_id = :project_id AND c.parent_id = tree.id
                )
                SELECT id, depth FROM tree
            ) AS found ON found.id = t.id
            WHERE t.project_id = :project_id ORDER BY found.depth, t.priority DESC, t.seq
            """,
            id=id,
        )

    def subtasks(self, id: str) -> list[Task]:
        """Return the direct subtasks of a task, in claim order."""
        return self._select(
            "WHERE t.project_id = :project_id AND t.parent_id = :id ORDER BY t.priority DESC, t.seq", id=id
        )

    def dependents(self, id: str) -> list[str]:
        """Return the ids of the tasks that depend on this one."""
        rows = self._scope.query(
            "SELECT task_id FROM task_needs WHERE project_id = :project_id AND needs_id = :id ORDER BY task_id", id=id
        )
        return [row["task_id"] for row in rows]

    def with_ancestors(self, id: str) -> list[Task]:
        """Return a task and all its ancestors, children before parents."""
        found = [self.get(id)]
        while parent := found[-1].parent_id:
            found.append(self.get(parent))
        return found

    def depth(self, id: str) -> int:
        """Return the number of ancestors of a task."""
        return len(self.with_ancestors(id)) - 1
