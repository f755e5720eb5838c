"""Store for tasks."""

from __future__ import annotations

from functools import cached_property

from ralph.core.errors import ConflictError, UsageError
from ralph.core.records import Task, TaskLogEntry, TaskStatus, new_task_id, now, record
from ralph.store.rows import to_json, to_record
from ralph.store.task_table import READY, TaskTable, id_batches, row_to_task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ralph.core.records import SubtaskSigil
    from ralph.store.claims import TaskClaims
    from ralph.store.database import Row
    from ralph.store.task_graph import TaskRelations
    from ralph.store.task_progress import TaskProgress


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
    allow: tuple[str, ...] = ()
    written_by: str = "person"
    log: tuple[TaskLogEntry, ...] = ()
    """What another program recorded about the task; entries without a time get the current one."""


class TaskStore(TaskTable):
    """A project's tasks."""

    # Imported on first use: a typical command needs only one of these.

    @cached_property
    def graph(self) -> TaskRelations:
        """Dependencies and subtasks."""
        from ralph.store.task_graph import TaskRelations

        return TaskRelations(self._scope)

    @cached_property
    def progress(self) -> TaskProgress:
        """Which tasks are ready, and how many have which status."""
        from ralph.store.task_progress import TaskProgress

        return TaskProgress(self._scope)

    @cached_property
    def claims(self) -> TaskClaims:
        """Claims on tasks."""
        from ralph.store.claims import TaskClaims

        return TaskClaims(self._scope)

    # --- adding and changing -------------------------------------------------------

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
                self.graph.check_cycles()
            for parent in dict.fromkeys(task.parent_id for task in tasks if task.parent_id):
                self._roll_up(parent)
            self._insert_logs(dict(zip(ids, tasks, strict=True)))
            self._publish(ids)
        return [self.get(new_id) for new_id in ids]

    def _insert_logs(self, tasks: Mapping[str, TaskDraft]) -> None:
        at = now()
        rows: list[Row] = [
            {"task_id": id, "message": entry.message, "who": entry.who, "at": entry.at or at}
            for id, task in tasks.items()
            for entry in task.log
        ]
        self._scope.insert_many("task_log", rows)

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
                    written_by="agent",
                    needs=tuple(ids[title.casefold()] for title in part.needs if title.casefold() in ids),
                )
                for part in parts
            ]
        )

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
            allow=to_json(task.allow),
            written_by=task.written_by,
            created_at=at,
            updated_at=at,
        )
        return new_id

    def _free_id(self) -> str:
        new_id = new_task_id()
        while self._exists(new_id):
            new_id = new_task_id()
        return new_id

    def _link(self, new_id: str, task: TaskDraft) -> None:
        if task.parent_id:
            feature_id = task.feature_id or self.get(task.parent_id).feature_id
            self._set(
                new_id, "parent_id = :parent_id, feature_id = :feature", parent_id=task.parent_id, feature=feature_id
            )
        for needed in dict.fromkeys(task.needs):
            self.graph.insert_dependency(new_id, needed)

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
        allow: Sequence[str] | None = None,
        written_by: str | None = None,
    ) -> Task:
        """Update a task. Arguments that are None change nothing; an empty id removes the link.

        `needs` replaces all dependencies.
        """
        allowed = None if allow is None else to_json(allow)
        texts = {"title": title, "body": body, "priority": priority, "allow": allowed, "written_by": written_by}
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
                self.graph.replace_dependencies(before, needs)
            if "parent_id" in changes or needs is not None:
                self.graph.check_cycles()
            if "parent_id" in changes:
                for parent in filter(None, (before.parent_id, parent_id)):
                    self._roll_up(parent)
            self._publish([id])
        return self.get(id)

    def delete(self, id: str) -> list[str]:
        """Delete a task and its subtasks with their attempts, and return the deleted ids.

        Memories learned from them are kept, without the link. Raise `ConflictError` while another task depends on
        one of them, or one is claimed.
        """
        from ralph.store.memories import MemoryStore

        with self._scope.transaction():
            parent = self.get(id).parent_id
            ids = [task.id for task in self.graph.subtree(id)]
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
        waiting = [other for other in self.graph.dependents(id) if other not in subtree]
        if waiting:
            raise ConflictError(
                f"{id} is a dependency of {', '.join(waiting)}. "
                f"Remove it first with: ralph task deps {waiting[0]} --remove {id}",
                code="task-needed",
            )

    def set_status(
        self,
        id: str,
        status: TaskStatus,
        allowed: Iterable[TaskStatus],
        reason: str = "",
        *,
        restores_retries: bool = True,
    ) -> Task:
        """Set the status of a task by hand. A worker that claimed it loses the claim.

        A pending task gets all its retries back, unless told otherwise.
        """
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
                reset_after=(attempts[0]["n"] or 0)
                if status is TaskStatus.PENDING and restores_retries
                else task.reset_after,
            )
            if task.parent_id:
                self._roll_up(task.parent_id)
            self._publish([id])
        return self.get(id)

    def _has_children(self, id: str) -> bool:
        return bool(
            self._scope.query("SELECT 1 FROM tasks WHERE project_id = :project_id AND parent_id = :id LIMIT 1", id=id)
        )

    # --- reading -------------------------------------------------------------------

    def all(self) -> list[Task]:
        """Return all tasks in the order in which they are claimed."""
        return self._select("WHERE t.project_id = :project_id ORDER BY t.priority DESC, t.seq")

    def get_many(self, ids: Iterable[str | None]) -> dict[str, Task]:
        """Return tasks by id. Unknown ids are skipped."""
        return {
            task.id: task
            for placeholders, values in id_batches(ids)
            for task in self._select(f"WHERE t.project_id = :project_id AND t.id IN ({placeholders})", **values)
        }

    def titles(self, ids: Iterable[str | None]) -> dict[str, str]:
        """Return the titles of tasks by id. Unknown ids are skipped."""
        return {
            row["id"]: row["title"]
            for placeholders, values in id_batches(ids)
            for row in self._scope.query(
                f"SELECT id, title FROM tasks WHERE project_id = :project_id AND id IN ({placeholders})", **values
            )
        }

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
            conditions.append(f"t.status = 'pending' AND {'' if ready else 'NOT '}({READY})")
        if after:
            conditions.append("(t.priority < :priority OR (t.priority = :priority AND t.seq > :seq))")
            values |= {"priority": after[0], "seq": after[1]}
        if limit is not None:
            values["limit"] = limit
        where, limit_clause = " AND ".join(conditions), "LIMIT :limit" if limit is not None else ""
        rows = self._rows(f"WHERE {where} ORDER BY t.priority DESC, t.seq {limit_clause}", **values)
        return [(row_to_task(row), (row["priority"], row["seq"])) for row in rows]

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

    def read_log(self, id: str) -> list[TaskLogEntry]:
        """Return the log of a task, oldest first."""
        self._require(id)
        rows = self._scope.query(
            "SELECT message, who, at FROM task_log WHERE project_id = :project_id AND task_id = :id ORDER BY seq",
            id=id,
        )
        return [to_record(TaskLogEntry, row, {}) for row in rows]
