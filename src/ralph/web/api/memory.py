"""Endpoints for one memory: show, edit, delete, undo and explain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Meta, Struct, convert

from ralph.core.errors import NotFoundError
from ralph.core.records import replace
from ralph.project import Project
from ralph.store.memories import ChangeResult, is_change_id
from ralph.web.api.filters import (
    Confidence,
    Content,
    Files,
    ProjectQuery,
    Reason,
    Tags,
    Title,
    TypeName,
    selected_project,
)
from ralph.web.endpoints import EndpointGroup, Listing, QueryParams, RequestBody
from ralph.web.paging import Limit, Name
from ralph.web.problems import InvalidValueError
from ralph.web.schemas import (
    AddedMemory,
    ChangedMemory,
    HistoryEvent,
    MemoryExplanation,
    PublicMemory,
    added_memory,
    changed_memory,
    history_event,
    memory_explanation,
    public_memory,
)

calls = EndpointGroup("memories")

MAX_EVENT_SEQ = 2**53 - 1
MAX_UNDONE_SHOWN = 200
"""Maximum number of restored memories in a response."""


class MemoryEdit(RequestBody):
    """Fields to change; omitted fields stay unchanged."""

    content: Annotated[Content, Meta(min_length=1)] | None = None
    title: Annotated[Title, Meta(description="If empty, the first sentence.")] | None = None
    type: TypeName | None = None
    tags: Tags | None = None
    file_refs: Files | None = None
    confidence: Confidence | None = None
    why: Reason = ""


def apply_edit(edit: Callable[..., ChangeResult], id: str, body: MemoryEdit) -> ChangedMemory:
    """Apply an edit with the given function and return the changed memory."""
    changes: dict[str, Any] = {
        "content": body.content,
        "title": body.title,
        "type": body.type,
        "tags": body.tags,
        "files": body.file_refs,
        "confidence": body.confidence,
    }
    if all(value is None for value in changes.values()):
        raise InvalidValueError(
            "Nothing to change. Set at least one of content, title, type, tags, file_refs, confidence."
        )
    return changed_memory(edit(id, **changes, why=body.why))


@calls.get("/api/memories/{id}")
def show_memory(project: Project, id: str, query: ProjectQuery) -> PublicMemory:
    """Return one memory in any state."""
    return public_memory(selected_project(project, query.project).memory.get(id))


@calls.put("/api/memories/{id}")
def edit_memory(project: Project, id: str, query: ProjectQuery, body: MemoryEdit) -> ChangedMemory:
    """Edit a memory; the previous version stays in its history."""
    return apply_edit(selected_project(project, query.project).memory.edit, id, body)


class DeleteQuery(ProjectQuery):
    """Reason for the deletion."""

    why: Reason = ""


class DeletedMemory(Struct):
    """Deleted memory with the ID of the change for undo."""

    memory: PublicMemory
    change_id: str


@calls.delete("/api/memories/{id}")
def delete_memory(project: Project, id: str, query: DeleteQuery) -> DeletedMemory:
    """Delete a memory; undo restores it."""
    deleted, change_id = selected_project(project, query.project).memory.delete(id, why=query.why)
    return DeletedMemory(memory=public_memory(deleted[0]), change_id=change_id)


# --- history --------------------------------------------------------------------------


class UndoOptions(RequestBody):
    """Extent of an undo."""

    to: Annotated[int, Meta(ge=0, le=MAX_EVENT_SEQ, description="Revert all changes after this one.")] | None = None
    only: (
        Annotated[int, Meta(ge=0, le=MAX_EVENT_SEQ, description="Revert this change, or nothing if later ones exist.")]
        | None
    ) = None


class UndoResult(Struct):
    """Memories changed by an undo."""

    count: int
    items: list[PublicMemory]
    """Memories after the undo, up to 200 of them."""


@calls.get("/api/memories/{id}/history")
def show_memory_history(project: Project, id: str, query: ProjectQuery) -> Listing[HistoryEvent]:
    """Return the history of a memory, oldest first."""
    events = selected_project(project, query.project).memory.history(id)
    return Listing([history_event(event) for event in events])


@calls.post("/api/memories/{id}/undo")
def undo_memory(project: Project, id: str, query: ProjectQuery, body: UndoOptions) -> PublicMemory:
    """Undo the latest change of a memory, all changes after one in its history, or exactly one change.

    To revert a change just made, pass its `event` as `only`: nothing is reverted if there was a later change.
    """
    if is_change_id(id):
        raise NotFoundError("Memory", id)
    if body.to is not None and body.only is not None:
        raise InvalidValueError("Set only one of to and only.")
    return public_memory(selected_project(project, query.project).memory.undo(id, to=body.to, only=body.only)[0])


@calls.post("/api/changes/{id}/undo")
def undo_change(project: Project, id: str, query: ProjectQuery) -> UndoResult:
    """Undo all changes made together, such as an import or a cleanup."""
    if not is_change_id(id):
        raise NotFoundError("Change", id)
    undone = selected_project(project, query.project).memory.undo(id)
    return UndoResult(count=len(undone), items=[public_memory(one) for one in undone[:MAX_UNDONE_SHOWN]])


class ConfidencePoint(Struct):
    """Confidence of a memory at one time."""

    at: str
    confidence: float
    what: str
    """Cause: an event of the history, `helped`, `did not help`, `faded` or `now`."""


class ConfidenceHistory(Struct):
    """Confidence of a memory since its creation, oldest first."""

    points: list[ConfidencePoint]


@calls.get("/api/memories/{id}/confidence")
def show_memory_confidence(project: Project, id: str, query: ProjectQuery) -> ConfidenceHistory:
    """Return the confidence of a memory over time; it decays while nothing confirms the memory."""
    points = selected_project(project, query.project).memory.confidence_over_time(id)
    return ConfidenceHistory(convert(points, list[ConfidencePoint], from_attributes=True))


class MemoryAttemptsQuery(ProjectQuery):
    """Maximum number of results."""

    limit: Limit = 50


class MemoryAttempt(Struct, kw_only=True):
    """Attempt whose prompt included a memory."""

    run_id: str
    iteration: int
    task_id: str | None
    outcome: str | None
    """Outcome; null while the attempt is running."""
    started_at: str
    ended_at: str | None


@calls.get("/api/memories/{id}/shown")
def show_memory_attempts(project: Project, id: str, query: MemoryAttemptsQuery) -> Listing[MemoryAttempt]:
    """List the latest attempts whose prompt included a memory, newest first."""
    rows = selected_project(project, query.project).memory.show(id, query.limit).shown_to
    return Listing(convert(rows, list[MemoryAttempt]))


# --- confirm and share ----------------------------------------------------------------


class Confirmation(RequestBody):
    """Reason for the confirmation."""

    why: Reason = ""


@calls.post("/api/memories/{id}/confirm")
def confirm_memory(project: Project, id: str, query: ProjectQuery, body: Confirmation) -> ChangedMemory:
    """Confirm that a memory is still correct although its files have changed."""
    ((_, confirmed),) = selected_project(project, query.project).memory.confirm(id, why=body.why)
    return changed_memory(confirmed)


@calls.post("/api/memories/{id}/share")
def share_memory(project: Project, id: str, query: ProjectQuery) -> AddedMemory:
    """Share a memory with all projects of the database, or update the shared copy; return the shared memory."""
    result = selected_project(project, query.project).memory.sharing.share(id)[0]
    return added_memory(replace(result, event=None))  # reverted by unshare, not by undo


@calls.post("/api/memories/{id}/unshare")
def unshare_memory(project: Project, id: str, query: ProjectQuery) -> PublicMemory:
    """Stop sharing a memory; projects that used or edited it keep their copy."""
    of = selected_project(project, query.project)
    return public_memory(of.memory.sharing.unshare(id)[0])


# --- explain --------------------------------------------------------------------------


class ExplainQuery(ProjectQuery, kw_only=True):
    """Task for which to explain a memory."""

    task: Annotated[Name, Meta(min_length=1)]


class RankingQuery(QueryParams):
    """Maximum number of results."""

    limit: Limit = 50


@calls.get("/api/memories/{id}/why")
def explain_memory(project: Project, id: str, query: ExplainQuery) -> MemoryExplanation:
    """Explain a memory's score and rank for a task, and why its prompt does not include it."""
    of = selected_project(project, query.project)
    return memory_explanation(of.prompts.explain(id, query.task))


@calls.get("/api/tasks/{id}/ranking")
def explain_ranking(project: Project, id: str, query: RankingQuery) -> Listing[MemoryExplanation]:
    """List the memories relevant to a task, best first: which ones its next prompt includes, and why not others."""
    return Listing([memory_explanation(one) for one in project.prompts.ranking(id, query.limit)])
