"""One memory: all about it, change it, delete it, take that back, and why it is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Meta, Struct

from ralph.project import Project
from ralph.records import replace
from ralph.server.api.wanted import (
    Confidence,
    Content,
    Files,
    OfProject,
    Reason,
    Tags,
    Title,
    TypeName,
    chosen,
    nameable,
)
from ralph.server.calls import Body, Calls, Listing, Query
from ralph.server.paging import Limit
from ralph.server.problems import InvalidValueError
from ralph.server.shapes import (
    ChangedMemory,
    HistoryEvent,
    KeptMemory,
    PublicMemory,
    WhyShown,
    changed_memory,
    history_event,
    kept_memory,
    public,
    why_shown,
)
from ralph.store.memories import Changed

calls = Calls("memories")

MOST_EVENTS = 2**53 - 1
MOST_UNDONE = 200
"""So many of the memories that a change had touched are given."""


class MemoryEdit(Body):
    """What to change; what is left out stays as it is."""

    content: Annotated[Content, Meta(min_length=1)] | None = None
    title: Annotated[Title, Meta(description="Empty: the first sentence.")] | None = None
    type: TypeName | None = None
    tags: Tags | None = None
    file_refs: Files | None = None
    confidence: Confidence | None = None
    why: Reason = ""


def edited(edit: Callable[..., Changed], id: str, body: MemoryEdit) -> ChangedMemory:
    """Change a memory in a way; give it as it is now."""
    changes: dict[str, Any] = {
        "body": body.content,
        "title": body.title,
        "kind": body.type,
        "tags": body.tags,
        "files": body.file_refs,
        "confidence": body.confidence,
    }
    if all(value is None for value in changes.values()):
        raise InvalidValueError("There is nothing to change: say content, title, type, tags, file_refs or confidence.")
    return changed_memory(edit(id, **changes, why=body.why))


@calls.get("/api/memories/{id}")
def show_memory(project: Project, id: str, query: OfProject) -> PublicMemory:
    """Give one memory, whatever its state."""
    return public(chosen(project, query.project).memory.get(id))


@calls.put("/api/memories/{id}")
def edit_memory(project: Project, id: str, query: OfProject, body: MemoryEdit) -> ChangedMemory:
    """Change a memory; what it was stays in its history."""
    return edited(chosen(project, query.project).memory.edit, id, body)


class DeleteQuery(OfProject):
    """Why it goes."""

    why: Reason = ""


class DeletedMemory(Struct):
    """A memory that was taken out of use, and the change that undo takes back."""

    memory: PublicMemory
    change_id: str


@calls.delete("/api/memories/{id}")
def delete_memory(project: Project, id: str, query: DeleteQuery) -> DeletedMemory:
    """Take a memory out of use; undo brings it back."""
    deleted, change_id = chosen(project, query.project).memory.delete(id, why=query.why)
    return DeletedMemory(memory=public(deleted[0]), change_id=change_id)


# --- its past -------------------------------------------------------------------------


class UndoTo(Body):
    """How far back."""

    to: Annotated[int, Meta(ge=0, le=MOST_EVENTS, description="Take back all after this event.")] | None = None
    only: (
        Annotated[int, Meta(ge=0, le=MOST_EVENTS, description="Take back this event, or nothing if others came after.")]
        | None
    ) = None


class Undone(Struct):
    """Memories of which something was taken back."""

    count: int
    items: list[PublicMemory]
    """As they are now, up to 200 of them."""


@calls.get("/api/memories/{id}/history")
def show_memory_history(project: Project, id: str, query: OfProject) -> Listing[HistoryEvent]:
    """Give all that happened to a memory, oldest first."""
    events = chosen(project, query.project).memory.history(id)
    return Listing([history_event(event) for event in events])


@calls.post("/api/memories/{id}/undo")
def undo_memory(project: Project, id: str, query: OfProject, body: UndoTo) -> PublicMemory:
    """Take back the latest change of a memory, all after an event of its history, or exactly one event.

    Whoever has just made a change says its `event` as `only`: when something came after it, nothing is taken back.
    """
    return public(chosen(project, query.project).memory.undo(id, to=body.to, only=body.only))


@calls.post("/api/changes/{id}/undo")
def undo_change(project: Project, id: str, query: OfProject) -> Undone:
    """Take back all that was changed together, like an import or a cleanup."""
    undone = chosen(project, query.project).memory.undo_change(nameable("Change", id))
    return Undone(count=len(undone), items=[public(one) for one in undone[:MOST_UNDONE]])


class ConfidencePoint(Struct):
    """How sure a memory was at one moment."""

    at: str
    confidence: float
    what: str
    """What happened then: what an event of the history says, `helped`, `did not help`, `faded`, or `now`."""


class ConfidenceOverTime(Struct):
    """How sure a memory was from its first day up to now, oldest first."""

    points: list[ConfidencePoint]


@calls.get("/api/memories/{id}/confidence")
def show_memory_confidence(project: Project, id: str, query: OfProject) -> ConfidenceOverTime:
    """Give how sure a memory was over time; it fades while nothing speaks for it."""
    points = chosen(project, query.project).memory.confidence_over_time(id)
    return ConfidenceOverTime([ConfidencePoint(one.at, one.confidence, one.what) for one in points])


class ShownQuery(OfProject):
    """How many."""

    limit: Limit = 50


class ShownAttempt(Struct, kw_only=True):
    """An attempt that a memory was shown to."""

    run_id: str
    iteration: int
    task_id: str | None
    outcome: str | None
    """Nothing while it is running."""
    started_at: str
    ended_at: str | None


@calls.get("/api/memories/{id}/shown")
def show_memory_attempts(project: Project, id: str, query: ShownQuery) -> Listing[ShownAttempt]:
    """Give the latest attempts a memory was shown to, newest first."""
    rows = chosen(project, query.project).memory.shown_to(id, query.limit)
    names = ShownAttempt.__struct_fields__
    return Listing([ShownAttempt(**{name: row[name] for name in names}) for row in rows])


# --- whether it holds, and who gets it ------------------------------------------------


class Confirmation(Body):
    """Why it holds."""

    why: Reason = ""


@calls.post("/api/memories/{id}/confirm")
def confirm_memory(project: Project, id: str, query: OfProject, body: Confirmation) -> ChangedMemory:
    """Say that a memory holds as things are now, though its files have changed."""
    ((_, confirmed),) = chosen(project, query.project).memory.confirm(id, why=body.why)
    return changed_memory(confirmed)


@calls.post("/api/memories/{id}/share")
def share_memory(project: Project, id: str, query: OfProject) -> KeptMemory:
    """Offer a memory to all projects of the database, or again as it is now; give it as they get it."""
    kept = chosen(project, query.project).memory.share(id)[0]
    return kept_memory(replace(kept, event=None))  # unshare takes it back, not undo


@calls.post("/api/memories/{id}/unshare")
def unshare_memory(project: Project, id: str, query: OfProject) -> PublicMemory:
    """Share a memory no longer; where it was used or edited it stays."""
    of = chosen(project, query.project)
    return public(of.memory.unshare(nameable("Memory", id))[0])


# --- why it is shown ------------------------------------------------------------------


class WhyQuery(OfProject, kw_only=True):
    """For which task."""

    task: Annotated[str, Meta(min_length=1)]


class RankingQuery(Query):
    """How many."""

    limit: Limit = 50


@calls.get("/api/memories/{id}/why")
def explain_memory(project: Project, id: str, query: WhyQuery) -> WhyShown:
    """Say what a memory's score for a task is made of, its place, and why it is not shown, if it is not."""
    of = chosen(project, query.project)
    return why_shown(of.memory.why(id, nameable("Task", query.task)))


@calls.get("/api/tasks/{id}/ranking")
def explain_ranking(project: Project, id: str, query: RankingQuery) -> Listing[WhyShown]:
    """Give the memories that have to do with a task, best first: which its next prompt shows, and why not others."""
    return Listing([why_shown(one) for one in project.memory.ranking(nameable("Task", id), query.limit)])
