"""Endpoints for tasks and features."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from ralph.core.records import Feature, Prompt, Task, TaskLogEntry, TaskStatus
from ralph.loop.features import FeatureCounts, FeatureView
from ralph.loop.tasks import TaskGraph, TaskView
from ralph.project import Project
from ralph.web.endpoints import EndpointGroup, Listing, QueryParams, RequestBody
from ralph.web.paging import Name, Number, PagedQuery, encode_cursor, page_of
from ralph.web.problems import InvalidValueError

calls = EndpointGroup("tasks")
features = EndpointGroup("features")

Priority = Annotated[
    int, msgspec.Meta(ge=-(2**53) + 1, le=2**53 - 1, description="Tasks with a higher priority run first.")
]  # the range of exact integers in JSON
TaskTitle = Annotated[str, msgspec.Meta(min_length=1)]


class TaskListQuery(PagedQuery):
    """Filters for tasks."""

    status: TaskStatus | None = None
    feature: Annotated[Name | None, msgspec.Meta(description="Only of this feature, by name or ID.")] = None
    ready: Annotated[bool, msgspec.Meta(description="Only tasks that can start now.")] = False


class GraphQuery(QueryParams):
    """Extent of the task graph."""

    feature: Annotated[Name | None, msgspec.Meta(description="Only of this feature, by name or ID.")] = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=2_000, description="Maximum number of tasks.")] = 500


class TaskInput(RequestBody):
    """Task to add."""

    title: TaskTitle
    body: str = ""
    priority: Priority = 0
    parent: Annotated[Name | None, msgspec.Meta(description="Parent task.")] = None
    feature: Annotated[Name | None, msgspec.Meta(description="Name or ID.")] = None
    needs: Annotated[tuple[Name, ...], msgspec.Meta(description="Tasks that must be done first.")] = ()
    allow: Annotated[
        tuple[str, ...],
        msgspec.Meta(description="Globs of protected files that it may change; `@tests` for all tests."),
    ] = ()
    id: Annotated[
        Name | None, msgspec.Meta(description="ID of your choice; repeating the request adds no second task.")
    ] = None


class TaskUpdate(RequestBody):
    """Fields to change in a task; omitted fields stay unchanged."""

    title: TaskTitle | None = None
    body: str | None = None
    priority: Priority | None = None
    parent: Annotated[Name | None, msgspec.Meta(description="If empty, the task has no parent.")] = None
    feature: Annotated[Name | None, msgspec.Meta(description="Name or ID; if empty, the task has no feature.")] = None
    needs: Annotated[tuple[Name, ...] | None, msgspec.Meta(description="All tasks that must be done first.")] = None
    allow: Annotated[
        tuple[str, ...] | None, msgspec.Meta(description="All globs of protected files that it may change.")
    ] = None


class NeedsChange(RequestBody):
    """Dependencies to add and remove."""

    add: tuple[Name, ...] = ()
    remove: tuple[Name, ...] = ()


class TaskPlace(RequestBody):
    """Where a pending task runs: directly before or after another one."""

    before: Name = ""
    after: Name = ""


class TaskParts(RequestBody):
    """Parts to split a task into."""

    titles: Annotated[tuple[TaskTitle, ...], msgspec.Meta(min_length=1)]
    in_order: Annotated[bool, msgspec.Meta(description="Whether each part needs the one before it.")] = False


class StatusReason(RequestBody):
    """Reason for a status change."""

    reason: str = ""


class ChangeApproval(RequestBody):
    """Change to accept."""

    digest: Annotated[str, msgspec.Meta(min_length=1, description="Digest of the held change that was shown.")]


class TaskAnswer(RequestBody):
    """Answer to the question of a task."""

    answer: Annotated[str, msgspec.Meta(min_length=1, description="Shown to the next session word for word.")]


class LogLine(RequestBody):
    """Line for the log of a task."""

    message: TaskTitle


class DeletionResult(msgspec.Struct):
    """Result of a deletion."""

    deleted: list[str]
    """IDs of the task and its parts."""


@calls.get("/api/tasks")
def list_tasks(project: Project, query: TaskListQuery) -> Listing[Task]:
    """List tasks ordered by priority."""
    page = page_of(query, tuple[Number, Number])
    tasks = project.tasks.list(page, status=query.status, feature=query.feature, ready=query.ready or None)
    return Listing(tasks, encode_cursor(tasks.next))


@calls.post("/api/tasks", 201)
def add_task(project: Project, body: TaskInput) -> Task:
    """Add a task."""
    return project.tasks.add(
        body.title,
        body.body,
        priority=body.priority,
        parent=body.parent or None,
        feature=body.feature or None,
        needs=body.needs,
        id=body.id or None,
        allow=body.allow,
    )


@calls.get("/api/tasks/graph")
def show_task_graph(project: Project, query: GraphQuery) -> TaskGraph:
    """Return tasks with their dependencies and parts.

    If there are more tasks than the limit, the oldest done ones are left out.
    """
    return project.tasks.graph(query.limit, feature=query.feature)


@calls.get("/api/tasks/{id}")
def show_task(project: Project, id: str) -> TaskView:
    """Return a task with its latest attempts, parts and dependencies."""
    return project.tasks.get(id)


@calls.put("/api/tasks/{id}")
def change_task(project: Project, id: str, body: TaskUpdate) -> Task:
    """Change fields of a task atomically."""
    changes: dict[str, Any] = msgspec.structs.asdict(body)
    if all(value is None for value in changes.values()):
        raise InvalidValueError(f"Nothing to change. Set at least one of {', '.join(changes)}.")
    return project.tasks.update(id, **changes)


@calls.delete("/api/tasks/{id}")
def delete_task(project: Project, id: str) -> DeletionResult:
    """Delete a task with its parts and attempts; what was learned stays, and its notes stay as past work."""
    return DeletionResult(project.tasks.delete(id))


@calls.post("/api/tasks/{id}/done")
def finish_task(project: Project, id: str) -> Task:
    """Mark a task as done."""
    return project.tasks.done(id)


@calls.post("/api/tasks/{id}/fail")
def fail_task(project: Project, id: str, body: StatusReason) -> Task:
    """Mark a task as permanently failed."""
    return project.tasks.fail(id, body.reason)


@calls.post("/api/tasks/{id}/block")
def block_task(project: Project, id: str, body: StatusReason) -> Task:
    """Block a task until it is reset."""
    return project.tasks.block(id, body.reason)


@calls.post("/api/tasks/{id}/reset")
def reset_task(project: Project, id: str) -> Task:
    """Set a task back to pending with all its retries; a worker that has claimed it loses the claim."""
    return project.tasks.reset(id)[0]


@calls.post("/api/tasks/{id}/approve")
def approve_change(project: Project, id: str, body: ChangeApproval) -> Task:
    """Accept the change to protected files that a task waits with; the next run verifies the work again."""
    return project.tasks.approve(id, body.digest)


@calls.post("/api/tasks/{id}/answer")
def answer_question(project: Project, id: str, body: TaskAnswer) -> Task:
    """Answer the question of a blocked task, or the reason why it is blocked; the task becomes ready."""
    return project.questions.answer(id, body.answer)


@calls.put("/api/tasks/{id}/needs")
def change_needs(project: Project, id: str, body: NeedsChange) -> Task:
    """Change the dependencies of a task atomically."""
    return project.tasks.change_needs(id, add=body.add, remove=body.remove)


@calls.post("/api/tasks/{id}/move")
def move_task(project: Project, id: str, body: TaskPlace) -> Listing[Task]:
    """Move a pending task before or after another one; return the tasks whose priority changed."""
    return Listing(project.backlog.move(id, before=body.before, after=body.after))


@calls.post("/api/tasks/{id}/parts", 201)
def split_task(project: Project, id: str, body: TaskParts) -> Listing[Task]:
    """Split a task into parts, all or none, and return them; it is done when all of them are."""
    return Listing(project.backlog.split(id, body.titles, in_order=body.in_order))


@calls.get("/api/tasks/{id}/log")
def show_task_log(project: Project, id: str) -> Listing[TaskLogEntry]:
    """Return the log of a task, oldest line first."""
    return Listing(project.tasks.read_log(id))


@calls.post("/api/tasks/{id}/log", 201)
def add_to_task_log(project: Project, id: str, body: LogLine) -> Listing[TaskLogEntry]:
    """Add a line to the log of a task and return the log."""
    project.tasks.log(id, body.message)
    return Listing(project.tasks.read_log(id))


class PromptQuery(QueryParams):
    """Options for the prompt."""

    model: Annotated[Name | None, msgspec.Meta(description="Model. Default: the one a run would choose.")] = None
    with_memory: Annotated[bool, msgspec.Meta(description="Whether to include memories.")] = True


@calls.get("/api/tasks/{id}/prompt")
def show_prompt(project: Project, id: str, query: PromptQuery) -> Prompt:
    """Return the prompt of the next attempt at a task, with what was left out and why; nothing is changed."""
    return project.prompts.preview(id, model=query.model, with_memory=query.with_memory)


# --- features -------------------------------------------------------------------------


class FeatureInput(RequestBody):
    """Feature to add."""

    name: TaskTitle
    spec: Annotated[str, msgspec.Meta(description="Specification, included in the prompts of its tasks.")] = ""
    plan: Annotated[str, msgspec.Meta(description="Implementation plan.")] = ""


@features.get("/api/features")
def list_features(project: Project) -> Listing[FeatureCounts]:
    """List features with their number of tasks by status, oldest first."""
    return Listing(project.features.counts())


@features.post("/api/features", 201)
def add_feature(project: Project, body: FeatureInput) -> Feature:
    """Add a feature whose spec and plan are included in the prompts of its tasks."""
    return project.features.add(body.name, body.spec, body.plan)


@features.get("/api/features/{id}")
def show_feature(project: Project, id: str) -> FeatureView:
    """Return a feature with its tasks, by ID or name."""
    return project.features.show(id)


class FeatureUpdate(RequestBody):
    """Fields to change in a feature; omitted fields stay unchanged."""

    name: TaskTitle | None = None
    spec: str | None = None
    plan: str | None = None


@features.put("/api/features/{id}")
def update_feature(project: Project, id: str, body: FeatureUpdate) -> Feature:
    """Change a feature, by ID or name."""
    return project.features.update(id, name=body.name, spec=body.spec, plan=body.plan)


@features.delete("/api/features/{id}")
def delete_feature(project: Project, id: str) -> Feature:
    """Delete a feature; its tasks remain."""
    return project.features.delete(id)
