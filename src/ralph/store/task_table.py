"""Access to the rows of tasks, shared by everything that reads or changes them.

A task with subtasks is never worked on itself: its status is derived from theirs by `_roll_up`.
"""

from __future__ import annotations

from ralph.core.errors import NotFoundError
from ralph.core.records import Task, TaskStatus, now
from ralph.store.rows import from_json, to_record
from ralph.store.run_events import RunEventFeed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ralph.store.database import ProjectScope, Row
    from ralph.store.rows import Converters

TASKS_TOPIC = "tasks"
"""Topic announced when a task may have become ready, or all tasks may be done."""
IDS_PER_STATEMENT = 500
"""Maximum number of ids per statement."""
NEEDED = "task_needs AS n WHERE n.project_id = {task}.project_id AND n.task_id = {task}.id"

# A task is ready if it has no subtasks, no dependency of it or its ancestors is open, and its parent has not failed.
# Scalar subqueries instead of EXISTS, which PostgreSQL turns into joins that read all tasks.
READY = """
    t.project_id = :project_id
    AND (SELECT 1 FROM tasks AS c WHERE c.project_id = :project_id AND c.parent_id = t.id LIMIT 1) IS NULL
    AND (
        SELECT 1 FROM task_needs AS n JOIN tasks AS d ON d.project_id = :project_id AND d.id = n.needs_id
        WHERE n.project_id = :project_id AND n.task_id = t.id AND d.status <> 'done' LIMIT 1
    ) IS NULL
    AND (t.parent_id IS NULL OR (
        WITH RECURSIVE above (id, parent_id, status) AS (
            SELECT p.id, p.parent_id, p.status FROM tasks AS p
            WHERE p.project_id = :project_id AND p.id = t.parent_id
            UNION ALL
            SELECT p.id, p.parent_id, '' FROM above
            JOIN tasks AS p ON p.project_id = :project_id AND p.id = above.parent_id
        )
        SELECT 1 FROM above WHERE above.status = 'failed' OR (
            SELECT 1 FROM task_needs AS n JOIN tasks AS d ON d.project_id = :project_id AND d.id = n.needs_id
            WHERE n.project_id = :project_id AND n.task_id = above.id AND d.status <> 'done' LIMIT 1
        ) IS NOT NULL
        LIMIT 1
    ) IS NULL)
"""


class TaskTable:
    """Access to the rows of a project's tasks."""

    def __init__(self, scope: ProjectScope) -> None:
        self._scope = scope

    def get(self, id: str) -> Task:
        """Return a task, or raise `NotFoundError`."""
        rows = self._select("WHERE t.project_id = :project_id AND t.id = :id", id=id)
        if not rows:
            raise NotFoundError("Task", id)
        return rows[0]

    def log(self, id: str, message: str, who: str) -> None:
        """Add an entry to the log of a task."""
        with self._scope.transaction():
            self._require(id)
            self._scope.insert("task_log", task_id=id, message=message, who=who, at=now())

    def _select(self, clauses: str, **values: object) -> list[Task]:
        return [row_to_task(row) for row in self._rows(clauses, **values)]

    def _rows(self, clauses: str, **values: object) -> list[Row]:
        needs = self._scope.database.json_array("n.needs_id", NEEDED.format(task="t"))
        return self._scope.query(f"SELECT t.*, {needs} AS needs FROM tasks AS t {clauses}", **values)

    def _exists(self, id: str) -> bool:
        return bool(self._scope.query("SELECT 1 FROM tasks WHERE project_id = :project_id AND id = :id", id=id))

    def _require(self, id: str) -> None:
        if not self._exists(id):
            raise NotFoundError("Task", id)

    def _publish(self, ids: Sequence[str]) -> None:
        """Publish changes of tasks, in the transaction that makes them."""
        RunEventFeed(self._scope).publish_tasks(ids)
        self._scope.announce(TASKS_TOPIC)

    def _set(self, id: str, assignments: str, **values: object) -> None:
        self._scope.update_where("tasks", f"{assignments}, updated_at = :at", "id = :id", id=id, at=now(), **values)

    def _roll_up(self, id: str | None) -> None:
        """Update the status of a parent from its subtasks, and of its ancestors while they change."""
        while id:
            task = self.get(id)
            rows = self._scope.query(
                "SELECT status, COUNT(*) AS n FROM tasks"
                " WHERE project_id = :project_id AND parent_id = :id GROUP BY status",
                id=id,
            )
            status = parent_status({TaskStatus(row["status"]) for row in rows}) if rows else TaskStatus.PENDING
            is_claimed_parent = bool(rows) and task.claimed_by is not None
            if not is_claimed_parent and (
                status is task.status or (not rows and task.status is not TaskStatus.IN_PROGRESS)
            ):
                return
            # A worker that claimed the task before it was split must not settle it any more.
            self._set(
                id,
                "status = :status, claimed_by = NULL, lease_until = NULL, claim_token = claim_token + 1",
                status=status.value,
            )
            self._publish([id])
            id = task.parent_id


def parent_status(children: set[TaskStatus]) -> TaskStatus:
    """Return the status of a task from those of its subtasks."""
    if TaskStatus.FAILED in children:
        return TaskStatus.FAILED
    if children == {TaskStatus.DONE}:
        return TaskStatus.DONE
    if children & {TaskStatus.IN_PROGRESS, TaskStatus.DONE}:
        return TaskStatus.IN_PROGRESS
    return TaskStatus.PENDING


_TASK: Converters = {
    "status": TaskStatus,
    "allow": from_json,
    "needs": lambda stored: tuple(sorted(from_json(stored))),
    "lease_until": lambda stored: stored.partition(" ")[
        0
    ],  # SQLite appends what `leases` needs to tell when it is over
}


def row_to_task(row: Row) -> Task:
    """Return the task in a row."""
    return to_record(Task, row, _TASK)


def id_batches(ids: Iterable[str | None]) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield placeholders and values for statements with up to `IDS_PER_STATEMENT` ids each."""
    unique_ids = [id for id in dict.fromkeys(ids) if id and "\0" not in id]
    for start in range(0, len(unique_ids), IDS_PER_STATEMENT):
        values: dict[str, object] = {
            f"id_{n}": id for n, id in enumerate(unique_ids[start : start + IDS_PER_STATEMENT])
        }
        yield ", ".join(f":{name}" for name in values), values
