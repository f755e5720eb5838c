"""Tasks: what there is to do, in which order, and how far it is."""

from __future__ import annotations

import re

from ralph.core.errors import ConflictError, UsageError
from ralph.core.paging import ResultList, paged
from ralph.core.records import TaskStatus, now, record
from ralph.core.text import one_line, sanitize
from ralph.store.tasks import TaskDraft

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ralph.core.actor import Actor
    from ralph.core.config import Config
    from ralph.core.paging import Page
    from ralph.core.records import Attempt, Feature, HeldChange, Question, Task, TaskLogEntry, TaskMetrics
    from ralph.formats.planned import PlannedProject, TaskImport
    from ralph.store import Store

SHOWN_ATTEMPTS = 20
MAX_KEPT_ATTEMPTS = 1_000
"""Number of latest attempts at a deleted task whose notes are kept."""
REPORT_LEASE_SECONDS = 60.0
"""Time a task is claimed while a failure outside the loop is recorded."""
_OPEN = (TaskStatus.PENDING, TaskStatus.IN_PROGRESS, TaskStatus.BLOCKED, TaskStatus.FAILED)
_UNDECIDED = (TaskStatus.PENDING, TaskStatus.IN_PROGRESS, TaskStatus.BLOCKED)


@record
class TaskView:
    """A task with its attempts and the tasks it is linked to."""

    task: Task
    metrics: TaskMetrics
    attempts: tuple[Attempt, ...]
    """Latest attempts, newest first."""
    parts: tuple[Task, ...]
    needs: tuple[Task, ...]
    needed_by: tuple[Task, ...]
    feature: Feature | None
    held: HeldChange | None = None
    """Change to protected files that waits for a person."""
    questions: tuple[Question, ...] = ()
    """What agents asked a person about it, with the answers, oldest first."""


@record
class TaskLink:
    """Which of two tasks comes first."""

    first: str
    then: str
    kind: str
    """`needs`, or `part` when the first is a part of the other."""


@record
class TaskGraph:
    """Tasks and how they depend on each other."""

    tasks: tuple[Task, ...]
    links: tuple[TaskLink, ...]
    is_whole: bool
    """Whether these are all tasks of the project."""


class TaskService:
    """The tasks of one opened project."""

    def __init__(self, store: Store, config: Config, actor: Actor) -> None:
        self._store = store
        self._tasks = store.tasks
        self._config = config
        self._actor = actor

    # --- reading ---------------------------------------------------------------------

    def get(self, id: str) -> TaskView:
        """Return a task with its attempts and links."""
        task = self._tasks.get(id)
        needed_by = self._tasks.graph.dependents(id)
        linked = self._tasks.get_many((*task.needs, *needed_by))
        return TaskView(
            task=task,
            metrics=self._store.stats.metrics(id),
            attempts=tuple(self._store.attempts.latest(SHOWN_ATTEMPTS, task=id)),
            parts=tuple(self._tasks.graph.subtasks(id)),
            needs=tuple(linked[other] for other in task.needs if other in linked),
            needed_by=tuple(linked[other] for other in needed_by if other in linked),
            feature=self._store.features.get(task.feature_id) if task.feature_id else None,
            held=self._store.held_changes.waiting(id),
            questions=tuple(self._store.questions.of_task(id)),
        )

    def tree(self, id: str | None = None) -> list[Task]:
        """Return a task with all tasks below it, or all tasks."""
        return self._tasks.graph.subtree(id) if id else self._tasks.all()

    def graph(self, limit: int, *, feature: str | None = None) -> TaskGraph:
        """Return tasks and their links; beyond the limit, the oldest finished tasks are left out."""
        found = self._tasks.unfinished_first(limit + 1, self._feature_id(feature))
        tasks = found[:limit]
        ids = {task.id for task in tasks}
        needs = [TaskLink(first=id, then=task.id, kind="needs") for task in tasks for id in task.needs if id in ids]
        wholes = [(task.id, task.parent_id) for task in tasks if task.parent_id and task.parent_id in ids]
        parts = [TaskLink(first=part, then=whole, kind="part") for part, whole in wholes]
        return TaskGraph(tasks=tuple(tasks), links=(*needs, *parts), is_whole=len(found) <= limit)

    def counts(self, feature: str | None = None) -> dict[TaskStatus, int]:
        """Return the number of tasks by status, of one feature if given."""
        wanted = self._feature_id(feature)
        return (
            self._tasks.progress.counts()
            if wanted is None
            else self._tasks.progress.counts_by_feature().get(wanted, {})
        )

    def count_ready(self, feature: str | None = None) -> int:
        """Return the number of tasks that can start now, of one feature if given."""
        wanted = self._feature_id(feature)
        if wanted is not None:
            return self._tasks.progress.count_ready(wanted)
        return self._store.figures.get("ready", self._store.events.last_seq(), self._tasks.progress.count_ready)

    def read_log(self, id: str) -> list[TaskLogEntry]:
        """Return the log of a task, oldest first."""
        return self._tasks.read_log(id)

    # --- changing --------------------------------------------------------------------

    def add(
        self,
        title: str,
        body: str = "",
        *,
        priority: int = 0,
        parent: str | None = None,
        feature: str | None = None,
        needs: Sequence[str] = (),
        id: str | None = None,
        allow: Sequence[str] = (),
    ) -> Task:
        """Add a task; `feature` is a name or an id.

        `allow` are globs of protected files that it may change, `@tests` for all tests; agents cannot set them.

        With an `id` chosen by the caller the call is idempotent: repeating it returns the same task.
        """
        self._actor.require("task.add")
        check_parents(self._store, self._actor, [parent])
        return self._tasks.add(
            TaskDraft(
                id=_check_id(id) if id else None,
                title=_clean_title(title),
                body=sanitize(body),
                priority=priority,
                parent_id=parent,
                feature_id=self._feature_id(feature),
                needs=tuple(needs),
                allow=self._checked_allow(allow),
                written_by=self._actor.kind,
            )
        )

    def update(
        self,
        id: str,
        *,
        title: str | None = None,
        body: str | None = None,
        priority: int | None = None,
        parent: str | None = None,
        feature: str | None = None,
        needs: Sequence[str] | None = None,
        allow: Sequence[str] | None = None,
    ) -> Task:
        """Change a task; None leaves a field as it is, an empty parent or feature removes the link.

        `needs` replaces all tasks it depends on, `allow` all globs of protected files that it may change.
        """
        from ralph.loop.authored_text import is_all_replaced

        self._actor.require("task.update")
        task = self._tasks.get(id)
        new_title = _clean_title(title) if title is not None else None
        new_body = sanitize(body) if body is not None else None
        is_rewritten = is_all_replaced((task.title, new_title), (task.body, new_body))
        return self._tasks.update(
            id,
            written_by=self._actor.kind if is_rewritten else None,
            title=new_title,
            body=new_body,
            priority=priority,
            parent_id=parent,
            feature_id=self._feature_id(feature) if feature else feature,
            needs=needs,
            allow=None if allow is None else self._checked_allow(allow),
        )

    def approve(self, id: str, digest: str = "") -> Task:
        """Accept work that a task waits with: a change to protected files, or work that nobody has reviewed.

        It is verified again without a session.

        `digest` is that of the change that was shown; without it, the latest is accepted.
        """
        self._actor.require("task.approve")
        self._tasks.get(id)
        held = self._store.held_changes.waiting(id)
        if held is None or (digest and held.digest != digest):
            raise ConflictError(
                f"{id} has no change that waits for approval. See: ralph task show {id}", code="nothing-to-approve"
            )
        if not held.marks:
            self._refuse_change_of_another(held)
        with self._store.transaction():
            self._store.held_changes.approve(id, held.digest)
            self._tasks.log(id, f"Change {held.digest[:12]} approved: {', '.join(held.files)}", self._actor.kind)
            return self._move(id, TaskStatus.PENDING, _OPEN, "")

    def _refuse_change_of_another(self, held: HeldChange) -> None:
        """Refuse to approve what another task left behind and waits with itself."""
        for other in self._store.held_changes.of_unfinished():
            if other.task_id != held.task_id and not other.approved_at and set(other.files) & set(held.files):
                raise ConflictError(
                    f"{held.task_id} waits for {other.task_id}, which left {', '.join(held.files[:5])}. Run:"
                    f" ralph task approve {other.task_id}, or put the files back and run: ralph task reset"
                    f" {held.task_id}",
                    code="change-of-another-task",
                )

    def _checked_allow(self, allow: Sequence[str]) -> tuple[str, ...]:
        globs = tuple(dict.fromkeys(filter(None, (sanitize(item).strip() for item in allow))))
        if globs:
            self._actor.require("task.allow")
        return globs

    def change_needs(self, id: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Task:
        """Add and remove dependencies of a task; return the task."""
        self._actor.require("task.needs")
        if add or remove:
            with self._store.transaction():
                self._tasks.graph.remove_dependencies(id, remove)
                self._tasks.graph.add_dependencies(id, add)
        return self._tasks.get(id)

    def done(self, id: str) -> Task:
        """Mark a task as done."""
        from ralph.loop.workers import is_loop_at_work

        self._actor.require("task.done")
        if self._actor.is_agent and is_loop_at_work(self._store):
            # It may be an agent of that run that connected through a server somebody else started.
            raise UsageError(
                "While a run is active, only the run marks tasks as done, once their gates pass.", code="run-active"
            )
        with self._store.transaction():
            self._store.held_changes.discard(id)
            return self._move(id, TaskStatus.DONE, _OPEN, "")

    def fail(self, id: str, reason: str = "") -> Task:
        """Mark a task as failed for good."""
        self._actor.require("task.fail")
        return self._move(id, TaskStatus.FAILED, _UNDECIDED, reason)

    def block(self, id: str, reason: str = "") -> Task:
        """Hold a task back until somebody resets it."""
        self._actor.require("task.block")
        return self._move(id, TaskStatus.BLOCKED, _UNDECIDED, reason)

    def reset(self, *ids: str) -> list[Task]:
        """Put tasks back to pending with all their retries, all or none; workers lose their claims."""
        self._actor.require("task.reset")
        with self._store.transaction():
            for id in ids:
                self._store.held_changes.withdraw_approval(id)
            return [self._move(id, TaskStatus.PENDING, tuple(TaskStatus), "") for id in ids]

    def _move(self, id: str, status: TaskStatus, allowed: Iterable[TaskStatus], reason: str) -> Task:
        reason = sanitize(reason)
        with self._store.transaction():
            task = self._tasks.set_status(id, status, allowed, reason)
            message = f"Set to {status} by hand" + (f": {reason}" if reason else ".")
            self._tasks.log(id, message, self._actor.kind)
        return task

    def delete(self, id: str) -> list[str]:
        """Delete a task with its parts and attempts; return their ids.

        What was learned stays, and the notes of its attempts stay findable as past work.
        """
        self._actor.require("task.delete")
        with self._store.transaction():
            for task in self._tasks.graph.subtree(self._tasks.get(id).id):
                self._keep_notes(task)
            return self._tasks.delete(id)

    def _keep_notes(self, task: Task) -> None:
        from ralph.core.records import EpisodeKind
        from ralph.memory.capture.passages import notes_passages

        store, questions = self._store, self._store.questions.of_task(task.id)
        for attempt in reversed(store.attempts.latest(MAX_KEPT_ATTEMPTS, task=task.id)):
            asked = [one for one in questions if (one.run_id, one.iteration) == (attempt.run_id, attempt.iteration)]
            place = store.episodes.next_position(EpisodeKind.ATTEMPT, f"{attempt.run_id}/{attempt.iteration}")
            store.episodes.add(notes_passages(task, attempt, asked, place))

    def log(self, id: str, message: str) -> None:
        """Add a line to the log of a task."""
        self._actor.require("task.log")
        text = sanitize(message)
        if not text:
            raise UsageError("The log message is empty.", code="empty-message")
        self._tasks.log(id, text, self._actor.kind)

    def import_(self, text: str, name: str) -> TaskImport:
        """Add the tasks of a file; tasks that already exist stay as they are."""
        from ralph.loop.import_tasks import import_tasks

        self._actor.require("task.import")
        return import_tasks(self._store, text, name, self._actor)

    def import_planned(self, project: PlannedProject) -> TaskImport:
        """Add the tasks and features that a reader found; those that already exist stay as they are."""
        from ralph.loop.import_tasks import import_planned

        self._actor.require("task.import")
        return import_planned(self._store, project, self._actor)

    def report_failure(
        self, id: str, tried: str, why: str, *, category: str = "", files: Sequence[str] = (), trace: str = ""
    ) -> tuple[Attempt, Task]:
        """Record a failed attempt made outside the loop; return it and the task as it is now.

        The task goes back to pending, or waits for a person once its retries are used up.
        """
        from ralph.core.records import FailureReportSigil
        from ralph.loop.report_failure import record_failure

        self._actor.require("task.report-failure")
        report = FailureReportSigil(
            tried=_required(tried, "what was tried"),
            why=_required(why, "why it failed"),
            category="_".join(sanitize(category).lower().split())[:50] or "unknown",
            files=tuple(dict.fromkeys(filter(None, map(sanitize, files)))),
            trace=trace,
        )
        return record_failure(self._store, self._config, id, report, REPORT_LEASE_SECONDS, at=now())

    # --- helpers ---------------------------------------------------------------------

    def _feature_id(self, feature: str | None) -> str | None:
        return self._store.features.get(feature).id if feature else None

    def list(
        self,
        page: Page | None = None,
        *,
        status: TaskStatus | None = None,
        feature: str | None = None,
        ready: bool | None = None,
    ) -> ResultList[Task]:
        """Return tasks ordered by priority, of one status or feature if given.

        `ready` selects tasks that can start now; False selects pending tasks that wait for something.
        """
        found = self._tasks.page(
            page.limit + 1 if page else None,
            page.after if page else None,
            status=status,
            feature_id=self._feature_id(feature),
            ready=ready,
        )
        return paged(found, page)


def check_parents(store: Store, actor: Actor, parents: Iterable[str | None]) -> None:
    """Raise `UsageError` if an agent would decide with parts of its own whether a person's task is done."""
    # Outside the loop, agents may mark tasks as done while no run is active, so they may as well plan their parts.
    if not actor.is_agent or not (actor.is_loop_session or store.tasks.claims.claimed()):
        return
    for parent in filter(None, parents):
        if any(task.written_by != "agent" for task in store.tasks.graph.with_ancestors(parent)):
            raise UsageError(
                f"Agents cannot add parts to {parent}: its parts decide when a person's task is done. "
                "Add the task without a parent, or split the session's own task with <subtask> sigils in the answer.",
                code="person-required",
            )


def _required(text: str, what: str) -> str:
    cleaned = sanitize(text)
    if not cleaned:
        raise UsageError(f"A failure report must say {what}.", code="incomplete-report")
    return cleaned


def _check_id(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", text):
        raise UsageError(
            "Invalid task id: use up to 64 letters, digits, dots, dashes or underscores, a letter or digit first.",
            code="invalid-id",
        )
    return text


def _clean_title(text: str) -> str:
    title = one_line(sanitize(text))
    if not title:
        raise UsageError("A task needs a title.", code="empty-title")
    return title
