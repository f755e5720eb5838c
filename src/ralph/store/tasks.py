"""Store for tasks: the dependency graph, and claims on tasks.

A task with subtasks is never worked on itself: its status is derived from theirs by `_roll_up`. A claim is a lease
with a token that grows with every claim; a worker with an old token can change nothing.
"""

from __future__ import annotations

from ralph.core.errors import ClaimLostError, ConflictError, NotFoundError, StoreError, TaskCycleError, UsageError
from ralph.core.records import Task, TaskLogEntry, TaskStatus, new_task_id, now, record
from ralph.store.database import matches_checksum
from ralph.store.memories import MemoryStore
from ralph.store.rows import from_json, to_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeVar

    from ralph.core.records import SubtaskSigil
    from ralph.store.database import ProjectScope, Row
    from ralph.store.rows import Converters

    R = TypeVar("R")

TASKS_TOPIC = "tasks"
"""Topic announced when a task may have become ready, or all tasks may be done."""
IDS_PER_STATEMENT = 500
"""Maximum number of ids per statement."""

_LEAF = """
    t.project_id = :project_id
    AND (SELECT 1 FROM tasks AS c WHERE c.project_id = :project_id AND c.parent_id = t.id LIMIT 1) IS NULL
"""
_NEEDED = "task_needs AS n WHERE n.project_id = {task}.project_id AND n.task_id = {task}.id"

# A task is ready if it has no subtasks, no dependency of it or its ancestors is open, and its parent has not failed.
# Scalar subqueries instead of EXISTS, which PostgreSQL turns into joins that read all tasks.
_READY = """
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


@record
class TaskDraft:
    """A task to add."""

    title: str
    body: str = ""
    id: str | None = None
    """Generated if None."""
    status: TaskStatus = TaskStatus.PENDING
    reason: str = ""
    priority: int = 0
    parent_id: str | None = None
    feature_id: str | None = None
    """Inherited from the parent if None."""
    needs: tuple[str, ...] = ()


class TaskStore:
    """A project's tasks."""

    def __init__(self, scope: ProjectScope) -> None:
        self._scope = scope

    # --- task graph --------------------------------------------------------------

    def add(self, task: TaskDraft) -> Task:
        """Add a task. If the id exists with the same title, return the existing task."""
        with self._scope.transaction():
            if task.id and self._exists(task.id) and (known := self.get(task.id)).title == task.title:
                return known
            return self.add_all([task])[0]

    def add_all(self, tasks: Sequence[TaskDraft]) -> list[Task]:
        """Add tasks that may refer to each other: all of them, or none if one is refused."""
        with self._scope.transaction():
            ids = [self._insert(task) for task in tasks]
            for task, new_id in zip(tasks, ids, strict=True):
                self._link(new_id, task)
            if any(task.needs or task.parent_id for task in tasks):
                self._check_cycles()
            for parent in dict.fromkeys(task.parent_id for task in tasks if task.parent_id):
                self._roll_up(parent)
            self._publish(ids)
        return [self.get(new_id) for new_id in ids]

    def _insert(self, task: TaskDraft) -> str:
        if task.id and self._exists(task.id):
            raise UsageError(f"Task {task.id} already exists. See: ralph task show {task.id}", code="task-exists")
        new_id = task.id or self._free_id()
        at = now()
        self._scope.insert(
            "tasks",
            id=new_id,
            title=task.title,
            body=task.body,
            status=task.status.value,
            priority=task.priority,
            parent_id=None,
            feature_id=task.feature_id,
            reason=task.reason,
            claimed_by=None,
            claim_token=0,
            lease_until=None,
            reset_after=0,
            created_at=at,
            updated_at=at,
        )
        return new_id

    def _link(self, new_id: str, task: TaskDraft) -> None:
        if task.parent_id:
            feature_id = task.feature_id or self.get(task.parent_id).feature_id
            self._set(
                new_id, "parent_id = :parent_id, feature_id = :feature", parent_id=task.parent_id, feature=feature_id
            )
        for needed in dict.fromkeys(task.needs):
            self._insert_dependency(new_id, needed)

    def _insert_dependency(self, waiting: str, needed: str) -> None:
        self._require(needed)
        self._scope.execute(
            """
            INSERT INTO task_needs (project_id, task_id, needs_id) VALUES (:project_id, :task_id, :needs_id)
            ON CONFLICT DO NOTHING
            """,
            task_id=waiting,
            needs_id=needed,
        )

    def _check_cycles(self) -> None:
        from ralph.store.graph import find_cycle

        rows = self._scope.query("SELECT id, parent_id FROM tasks WHERE project_id = :project_id")
        needs: dict[str, list[str]] = {}
        for edge in self._scope.query("SELECT task_id, needs_id FROM task_needs WHERE project_id = :project_id"):
            needs.setdefault(edge["task_id"], []).append(edge["needs_id"])
        if path := find_cycle({row["id"]: row["parent_id"] for row in rows}, needs):
            raise TaskCycleError(path)

    def add_dependencies(self, id: str, task_ids: Iterable[str]) -> Task:
        """Add dependencies to a task. Raise `TaskCycleError` if that would create a cycle."""
        task_ids = tuple(task_ids)
        with self._scope.transaction():
            self._require(id)
            for other in task_ids:
                self._insert_dependency(id, other)
            self._check_cycles()
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

    def update(
        self,
        id: str,
        *,
        title: str | None = None,
        body: str | None = None,
        priority: int | None = None,
        feature_id: str | None = None,
        parent_id: str | None = None,
        needs: Sequence[str] | None = None,
    ) -> Task:
        """Update a task. Arguments that are None change nothing; an empty id removes the link.

        `needs` replaces all dependencies.
        """
        texts = {"title": title, "body": body, "priority": priority}
        links = {"feature_id": feature_id, "parent_id": parent_id}
        changes: dict[str, object] = {name: value for name, value in texts.items() if value is not None}
        changes |= {name: value or None for name, value in links.items() if value is not None}
        with self._scope.transaction():
            before = self.get(id)
            if changes.get("parent_id"):
                self._require(str(changes["parent_id"]))
            if changes:
                self._set(id, ", ".join(f"{name} = :{name}" for name in changes), **changes)
            if title not in (None, before.title):
                from ralph.store.index import index_rows

                # Attempts are indexed by the title of their task.
                index_rows(self._scope, "attempt", "r.task_id = :task_id", task_id=id)
            if needs is not None:
                self._replace_dependencies(before, needs)
            if "parent_id" in changes or needs is not None:
                self._check_cycles()
            if "parent_id" in changes:
                for parent in filter(None, (before.parent_id, parent_id)):
                    self._roll_up(parent)
            self._publish([id])
        return self.get(id)

    def _replace_dependencies(self, task: Task, needs: Sequence[str]) -> None:
        for other in set(task.needs) - set(needs):
            self._delete_dependency(task.id, other)
        for other in dict.fromkeys(needs):
            self._insert_dependency(task.id, other)

    def _delete_dependency(self, waiting: str, needed: str) -> None:
        self._scope.execute(
            "DELETE FROM task_needs WHERE project_id = :project_id AND task_id = :waiting AND needs_id = :needed",
            waiting=waiting,
            needed=needed,
        )

    def delete(self, id: str) -> list[str]:
        """Delete a task and its subtasks with their attempts, and return the deleted ids.

        Memories learned from them are kept, without the link. Raise `ConflictError` while another task depends on
        one of them, or one is claimed.
        """
        with self._scope.transaction():
            parent = self.get(id).parent_id
            ids = [task.id for task in self.subtree(id)]
            for subtree_id in ids:
                # Prevents a claim between the check and the deletion.
                lock = self._scope.database.for_update
                self._scope.query(
                    f"SELECT 1 AS one FROM tasks WHERE project_id = :project_id AND id = :id {lock}", id=subtree_id
                )
            for subtree_id in ids:
                self._check_deletable(subtree_id, ids)
            for subtree_id in ids:
                MemoryStore(self._scope).detach_task(subtree_id)
            self._scope.execute("DELETE FROM tasks WHERE project_id = :project_id AND id = :id", id=id)
            if parent:
                self._roll_up(parent)
            self._publish(ids)
        return ids

    def _check_deletable(self, id: str, subtree: list[str]) -> None:
        task = self.get(id)
        if task.status is TaskStatus.IN_PROGRESS and task.claimed_by:
            raise ConflictError(
                f"{id} is claimed by {task.claimed_by}. Release it first with: ralph task reset {id}",
                code="task-claimed",
            )
        waiting = [other for other in self.dependents(id) if other not in subtree]
        if waiting:
            raise ConflictError(
                f"{id} is a dependency of {', '.join(waiting)}. "
                f"Remove it first with: ralph task deps {waiting[0]} --remove {id}",
                code="task-needed",
            )

    # --- reading -----------------------------------------------------------------

    def get(self, id: str) -> Task:
        """Return a task, or raise `NotFoundError`."""
        rows = self._select("WHERE t.project_id = :project_id AND t.id = :id", id=id)
        if not rows:
            raise NotFoundError("Task", id)
        return rows[0]

    def all(self) -> list[Task]:
        """Return all tasks in the order in which they are claimed."""
        return self._select("WHERE t.project_id = :project_id ORDER BY t.priority DESC, t.seq")

    def get_many(self, ids: Iterable[str | None]) -> dict[str, Task]:
        """Return tasks by id. Unknown ids are skipped."""
        return {
            task.id: task
            for placeholders, values in _batches(ids)
            for task in self._select(f"WHERE t.project_id = :project_id AND t.id IN ({placeholders})", **values)
        }

    def titles(self, ids: Iterable[str | None]) -> dict[str, str]:
        """Return the titles of tasks by id. Unknown ids are skipped."""
        return {
            row["id"]: row["title"]
            for placeholders, values in _batches(ids)
            for row in self._scope.query(
                f"SELECT id, title FROM tasks WHERE project_id = :project_id AND id IN ({placeholders})", **values
            )
        }

    def filter_ready(self, ids: Iterable[str | None]) -> set[str]:
        """Return the ids of those tasks that are ready to be claimed."""
        return {
            row["id"]
            for placeholders, values in _batches(ids)
            for row in self._scope.query(
                # The status is checked below: with it, SQLite would scan all pending tasks.
                f"SELECT t.id, t.status FROM tasks AS t WHERE {_READY} AND t.id IN ({placeholders})",
                **values,
            )
            if row["status"] == TaskStatus.PENDING
        }

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

    def ready(self, limit: int | None = None) -> list[Task]:
        """Return the tasks that are ready to be claimed, in claim order."""
        return [task for task, _ in self.page(limit, ready=True)]

    def count_ready(self, feature_id: str | None = None) -> int:
        """Return the number of tasks that are ready to be claimed, optionally of one feature."""
        condition = "AND t.feature_id = :feature_id" if feature_id else ""
        rows = self._scope.query(
            f"SELECT COUNT(*) AS n FROM tasks AS t WHERE {_READY} AND t.status = 'pending' {condition}",
            **({"feature_id": feature_id} if feature_id else {}),
        )
        return int(rows[0]["n"])

    def page(
        self,
        limit: int | None = None,
        after: tuple[int, int] | None = None,
        *,
        status: TaskStatus | None = None,
        feature_id: str | None = None,
        ready: bool | None = None,
    ) -> list[tuple[Task, tuple[int, int]]]:
        """Return tasks in claim order, each with its cursor. Pass a cursor as `after` to get the next page.

        `ready` selects pending tasks that can be claimed now (True) or that wait for others (False).
        """
        conditions = ["t.project_id = :project_id"]
        values: dict[str, object] = {}
        filters = {"status": status.value if status else None, "feature_id": feature_id}
        for name, value in filters.items():
            if value is not None:
                conditions.append(f"t.{name} = :{name}")
                values[name] = value
        if ready is not None:
            conditions.append(f"t.status = 'pending' AND {'' if ready else 'NOT '}({_READY})")
        if after:
            conditions.append("(t.priority < :priority OR (t.priority = :priority AND t.seq > :seq))")
            values |= {"priority": after[0], "seq": after[1]}
        if limit is not None:
            values["limit"] = limit
        where, limit_clause = " AND ".join(conditions), "LIMIT :limit" if limit is not None else ""
        rows = self._rows(f"WHERE {where} ORDER BY t.priority DESC, t.seq {limit_clause}", **values)
        return [(_task(row), (row["priority"], row["seq"])) for row in rows]

    def unfinished_first(self, limit: int, feature_id: str | None = None) -> list[Task]:
        """Return up to `limit` tasks: unfinished ones in claim order, then the newest done ones."""
        condition = "AND t.feature_id = :feature_id" if feature_id else ""
        values = {"feature_id": feature_id} if feature_id else {}
        is_done = "CASE WHEN t.status = 'done' THEN 1 ELSE 0 END"
        order = f"{is_done}, {is_done} * t.seq DESC, t.priority DESC, t.seq"
        return self._select(
            f"WHERE t.project_id = :project_id {condition} ORDER BY {order} LIMIT :limit", **values, limit=limit
        )

    def changed_between(self, since: int, until: int) -> list[Task]:
        """Return the tasks changed by the events after `since`, up to and including `until`."""
        return self._select(
            """
            WHERE t.project_id = :project_id AND t.id IN (
                SELECT task_id FROM run_events
                WHERE project_id = :project_id AND seq > :since AND seq <= :until AND task_id IS NOT NULL
            )
            """,
            since=since,
            until=until,
        )

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

    def _select(self, clauses: str, **values: object) -> list[Task]:
        return [_task(row) for row in self._rows(clauses, **values)]

    def _rows(self, clauses: str, **values: object) -> list[Row]:
        needs = self._scope.database.json_array("n.needs_id", _NEEDED.format(task="t"))
        return self._scope.query(f"SELECT t.*, {needs} AS needs FROM tasks AS t {clauses}", **values)

    def split(self, id: str, parts: Sequence[SubtaskSigil]) -> list[Task]:
        """Split a task into subtasks, which may depend on each other. It is done when they all are."""
        task = self.get(id)
        ids = {part.title.casefold(): self._free_id() for part in parts}
        parts = list({part.title.casefold(): part for part in parts}.values())
        return self.add_all(
            [
                TaskDraft(
                    id=ids[part.title.casefold()],
                    title=part.title,
                    body=part.body,
                    priority=task.priority,
                    parent_id=id,
                    needs=tuple(ids[title.casefold()] for title in part.needs if title.casefold() in ids),
                )
                for part in parts
            ]
        )

    def depth(self, id: str) -> int:
        """Return the number of ancestors of a task."""
        depth = 0
        parent = self.get(id).parent_id
        while parent:
            depth, parent = depth + 1, self.get(parent).parent_id
        return depth

    # --- claims ------------------------------------------------------------------

    def claim(self, worker: str, lease_seconds: float, task_id: str | None = None) -> Task | None:
        """Claim the first ready task for a worker. Return None if no task is ready.

        Two workers never get the same task, because it is selected and marked in one statement.
        """

        def claim() -> Row | None:
            with self._scope.database.single_statement():
                return self._pick(worker, lease_seconds, task_id)

        row = claim() or (claim() if self.release_expired() else None)
        if row is None:
            return None
        self._roll_up_claim(row)
        return _task(row)

    def claim_and(self, worker: str, lease_seconds: float, task_id: str | None, then: Callable[[Task], R]) -> R | None:
        """Claim the first ready task and call `then` with it in one transaction. Return None if no task is ready."""

        def claim() -> tuple[Row, R] | None:
            with self._scope.concurrent_transaction():
                row = self._pick(worker, lease_seconds, task_id)
                return (row, then(_task(row))) if row else None

        claimed = claim() or (claim() if self.release_expired() else None)
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
        needs = database.json_array("n.needs_id", _NEEDED.format(task="tasks"))
        rows = self._scope.query(
            f"""
            UPDATE tasks SET status = 'in_progress', claimed_by = :worker, claim_token = claim_token + 1,
                lease_until = {database.lease_end}
            WHERE project_id = :project_id AND {database.row_key} = (
                SELECT t.{database.row_key} FROM tasks AS t
                WHERE {_READY} AND t.status = 'pending' {"AND t.id = :only" if only else ""}
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

    def settle(self, id: str, token: int, status: TaskStatus, reason: str = "") -> None:
        """End a claim and set the status of the task. Raise `ClaimLostError` if the claim was lost."""
        if not self.try_settle(id, token, status, reason):
            raise ClaimLostError(id)

    def try_settle(self, id: str, token: int, status: TaskStatus, reason: str = "") -> bool:
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

    def release(self, id: str, token: int) -> None:
        """Release a claim, so that the task can be claimed again."""
        self.settle(id, token, TaskStatus.PENDING)

    def claimed(self) -> list[Task]:
        """Return the claimed tasks."""
        return self._select(
            "WHERE t.project_id = :project_id AND t.status = 'in_progress' AND t.claimed_by IS NOT NULL ORDER BY t.seq"
        )

    # --- changes by people ---------------------------------------------------------

    def set_status(self, id: str, status: TaskStatus, allowed: Iterable[TaskStatus], reason: str = "") -> Task:
        """Set the status of a task by hand. A worker that claimed it loses the claim."""
        with self._scope.transaction():
            task = self.get(id)
            if self._has_children(id):
                raise ConflictError(
                    f"{id} has subtasks, so its status is derived from theirs. Change those instead.",
                    code="has-subtasks",
                )
            if task.status not in allowed:
                if task.status is status:
                    raise ConflictError(f"{id} is already {status}.", code="same-status")
                raise ConflictError(
                    f"{id} is {task.status} and cannot become {status}. Reset it first with: ralph task reset {id}",
                    code="invalid-transition",
                )
            attempts = self._scope.query(
                "SELECT MAX(number) AS n FROM attempts WHERE project_id = :project_id AND task_id = :id", id=id
            )
            self._set(
                id,
                """status = :status, reason = :reason, claimed_by = NULL, lease_until = NULL,
                claim_token = claim_token + 1, reset_after = :reset_after""",
                status=status.value,
                reason=reason,
                reset_after=(attempts[0]["n"] or 0) if status is TaskStatus.PENDING else task.reset_after,
            )
            if task.parent_id:
                self._roll_up(task.parent_id)
            self._publish([id])
        return self.get(id)

    def log(self, id: str, message: str, who: str) -> None:
        """Add an entry to the log of a task."""
        with self._scope.transaction():
            self._require(id)
            self._scope.insert("task_log", task_id=id, message=message, who=who, at=now())

    def read_log(self, id: str) -> list[TaskLogEntry]:
        """Return the log of a task, oldest first."""
        self._require(id)
        rows = self._scope.query(
            "SELECT message, who, at FROM task_log WHERE project_id = :project_id AND task_id = :id ORDER BY seq",
            id=id,
        )
        return [to_record(TaskLogEntry, row, {}) for row in rows]

    # --- helpers -------------------------------------------------------------------

    def _free_id(self) -> str:
        new_id = new_task_id()
        while self._exists(new_id):
            new_id = new_task_id()
        return new_id

    def _exists(self, id: str) -> bool:
        return bool(self._scope.query("SELECT 1 FROM tasks WHERE project_id = :project_id AND id = :id", id=id))

    def _require(self, id: str) -> None:
        if not self._exists(id):
            raise NotFoundError("Task", id)

    def _has_children(self, id: str) -> bool:
        return bool(
            self._scope.query("SELECT 1 FROM tasks WHERE project_id = :project_id AND parent_id = :id LIMIT 1", id=id)
        )

    def _publish(self, ids: Sequence[str]) -> None:
        """Publish changes of tasks, in the transaction that makes them."""
        from ralph.store.run_events import RunEventFeed

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


def _batches(ids: Iterable[str | None]) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield placeholders and values for statements with up to `IDS_PER_STATEMENT` ids each."""
    unique_ids = [id for id in dict.fromkeys(ids) if id and "\0" not in id]
    for start in range(0, len(unique_ids), IDS_PER_STATEMENT):
        values: dict[str, object] = {
            f"id_{n}": id for n, id in enumerate(unique_ids[start : start + IDS_PER_STATEMENT])
        }
        yield ", ".join(f":{name}" for name in values), values


_TASK: Converters = {
    "status": TaskStatus,
    "needs": lambda stored: tuple(sorted(from_json(stored))),
    "lease_until": lambda stored: stored.partition(" ")[
        0
    ],  # SQLite appends what `leases` needs to tell when it is over
}


def _task(row: Row) -> Task:
    return to_record(Task, row, _TASK)
