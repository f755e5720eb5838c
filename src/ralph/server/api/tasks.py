"""Tasks and features: list, add, see, change, delete, and how tasks hang together."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from ralph.project import FeatureCounts, FeatureView, Project, TaskGraph, TaskView
from ralph.records import Feature, LogEntry, Prompt, Status, Task
from ralph.server.calls import Body, Calls, Listing, Query
from ralph.server.paging import Name, Number, Paged, cursor_to, place_in
from ralph.server.problems import InvalidValueError

calls = Calls("tasks")
features = Calls("features")

Priority = Annotated[
    int, msgspec.Meta(ge=-(2**53) + 1, le=2**53 - 1, description="Higher goes first.")
]  # as far as numbers in JSON are exact
Title = Annotated[str, msgspec.Meta(min_length=1)]


class TasksQuery(Paged):
    """Which tasks are wanted."""

    status: Status | None = None
    feature: Annotated[Name | None, msgspec.Meta(description="Of this feature, by name or id.")] = None
    ready: Annotated[bool, msgspec.Meta(description="Only those that could start now.")] = False


class GraphQuery(Query):
    """How much of the graph is wanted."""

    feature: Annotated[Name | None, msgspec.Meta(description="Of this feature, by name or id.")] = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=2_000, description="How many tasks at most.")] = 500


class NewTask(Body):
    """A task to add."""

    title: Title
    body: str = ""
    priority: Priority = 0
    parent: Annotated[Name | None, msgspec.Meta(description="The task it is a part of.")] = None
    feature: Annotated[Name | None, msgspec.Meta(description="By name or id.")] = None
    needs: Annotated[tuple[Name, ...], msgspec.Meta(description="Tasks that must be done first.")] = ()
    id: Annotated[Name | None, msgspec.Meta(description="An id of your own: asked again, it is still one task.")] = None


class TaskChange(Body):
    """What to change in a task; what is not said stays."""

    title: Title | None = None
    body: str | None = None
    priority: Priority | None = None
    parent: Annotated[Name | None, msgspec.Meta(description="Empty: it is a part of nothing.")] = None
    feature: Annotated[Name | None, msgspec.Meta(description="By name or id; empty: it has none.")] = None
    needs: Annotated[tuple[Name, ...] | None, msgspec.Meta(description="All tasks that must be done first.")] = None


class NeedsChange(Body):
    """Which tasks a task waits for from now on, and which no longer."""

    add: tuple[Name, ...] = ()
    remove: tuple[Name, ...] = ()


class Reason(Body):
    """Why it is so."""

    reason: str = ""


class LogLine(Body):
    """A line for the log of a task."""

    message: Title


class Deleted(msgspec.Struct):
    """What is gone."""

    deleted: list[str]
    """Ids: the task, and its parts."""


@calls.get("/api/tasks")
def list_tasks(project: Project, query: TasksQuery) -> Listing[Task]:
    """List tasks, the most urgent first."""
    after = place_in(query.cursor, tuple[Number, Number])
    tasks, place = project.task_page(
        query.limit, after, status=query.status, feature=query.feature, ready=query.ready or None
    )
    return Listing(tasks, cursor_to(place))


@calls.post("/api/tasks", 201)
def add_task(project: Project, body: NewTask) -> Task:
    """Add a task."""
    return project.add_task(
        body.title,
        body.body,
        priority=body.priority,
        parent=body.parent or None,
        feature=body.feature or None,
        needs=body.needs,
        id=body.id or None,
    )


@calls.get("/api/tasks/graph")
def show_task_graph(project: Project, query: GraphQuery) -> TaskGraph:
    """Give tasks and what links them: needs and parts.

    With more tasks than the limit, the oldest of the done ones are left out.
    """
    return project.task_graph(query.limit, feature=query.feature)


@calls.get("/api/tasks/{id}")
def show_task(project: Project, id: str) -> TaskView:
    """Give all about a task: its latest attempts, parts, and what waits for what."""
    return project.task(id)


@calls.put("/api/tasks/{id}")
def change_task(project: Project, id: str, body: TaskChange) -> Task:
    """Change what a task says, where it belongs or what it waits for, all or nothing."""
    changes: dict[str, Any] = msgspec.structs.asdict(body)
    if all(value is None for value in changes.values()):
        raise InvalidValueError(f"Say what to change: {', '.join(changes)}.")
    return project.update_task(id, **changes)


@calls.delete("/api/tasks/{id}")
def delete_task(project: Project, id: str) -> Deleted:
    """Delete a task with its parts and attempts; what was learned stays."""
    return Deleted(project.delete_task(id))


@calls.post("/api/tasks/{id}/done")
def finish_task(project: Project, id: str) -> Task:
    """Say that a task is done."""
    return project.done(id)


@calls.post("/api/tasks/{id}/fail")
def fail_task(project: Project, id: str, body: Reason) -> Task:
    """Say that a task has failed for good."""
    return project.fail(id, body.reason)


@calls.post("/api/tasks/{id}/block")
def block_task(project: Project, id: str, body: Reason) -> Task:
    """Hold a task back until it is reset."""
    return project.block(id, body.reason)


@calls.post("/api/tasks/{id}/reset")
def reset_task(project: Project, id: str) -> Task:
    """Put a task back to pending, with all its retries; a worker that has it loses it."""
    return project.reset(id)


@calls.put("/api/tasks/{id}/needs")
def change_needs(project: Project, id: str, body: NeedsChange) -> Task:
    """Change what a task waits for, all or nothing."""
    return project.change_needs(id, add=body.add, remove=body.remove)


@calls.get("/api/tasks/{id}/log")
def show_task_log(project: Project, id: str) -> Listing[LogEntry]:
    """Give the log of a task, oldest line first."""
    return Listing(project.read_log(id))


@calls.post("/api/tasks/{id}/log", 201)
def add_to_task_log(project: Project, id: str, body: LogLine) -> Listing[LogEntry]:
    """Add a line to the log of a task; give the log."""
    project.log(id, body.message)
    return Listing(project.read_log(id))


class PromptQuery(Query):
    """For which attempt."""

    model: Annotated[Name | None, msgspec.Meta(description="As for a run; else the one that would be chosen.")] = None
    with_memory: Annotated[bool, msgspec.Meta(description="Or as a session without memory would get it.")] = True


@calls.get("/api/tasks/{id}/prompt")
def show_prompt(project: Project, id: str, query: PromptQuery) -> Prompt:
    """Give the prompt that the next attempt at a task would get, with what was left out and why. Changes nothing."""
    return project.prompt(id, model=query.model, with_memory=query.with_memory)


# --- features -------------------------------------------------------------------------


class NewFeature(Body):
    """A feature to add."""

    name: Title
    spec: Annotated[str, msgspec.Meta(description="What is wanted; goes into the prompts of its tasks.")] = ""
    plan: Annotated[str, msgspec.Meta(description="How it will be built.")] = ""


@features.get("/api/features")
def list_features(project: Project) -> Listing[FeatureCounts]:
    """List all features with how many of their tasks there are in each status, oldest first."""
    return Listing(project.feature_counts())


@features.post("/api/features", 201)
def add_feature(project: Project, body: NewFeature) -> Feature:
    """Add a feature whose spec and plan go into the prompts of its tasks."""
    return project.add_feature(body.name, body.spec, body.plan)


@features.get("/api/features/{id}")
def show_feature(project: Project, id: str) -> FeatureView:
    """Give a feature with its tasks, by its id or name."""
    return project.feature(id)


@features.delete("/api/features/{id}")
def delete_feature(project: Project, id: str) -> Feature:
    """Delete a feature; its tasks stay."""
    return project.delete_feature(id)
