"""What runs taught and is not in use yet: look through it, and decide."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from ralph.memory.staging import held_back, status
from ralph.project import Project
from ralph.server.api.memories import CursorPart
from ralph.server.api.memory import MemoryEdit, edited
from ralph.server.api.wanted import Content, Reason, nameable
from ralph.server.calls import Body, Calls, Listing
from ralph.server.paging import Paged, cursor_to, place_in
from ralph.server.problems import InvalidValueError
from ralph.server.shapes import ChangedMemory, KeptMemory, PublicMemory, changed_memory, kept_memory, public
from ralph.store.memories import Kept

calls = Calls("staging")

MOST_IDS = 1_000
LONGEST_NAME = 200

Status = Literal["pending", "validated", "rejected", "quarantined", "all"]


class StagingQuery(Paged):
    """Which learnings are wanted."""

    status: Annotated[Status | None, Meta(description="Without one: all that wait for a decision.")] = None


class StagedLearning(Struct):
    """A learning on its way into the memory."""

    memory: PublicMemory
    status: str
    """pending, validated, rejected or quarantined."""
    reason: str
    """Why it is held back or was rejected; empty when it only waits for its turn."""


@calls.get("/api/staging")
def list_staging(project: Project, query: StagingQuery) -> Listing[StagedLearning]:
    """List what waits for a decision, or was rejected, oldest first."""
    after = place_in(query.cursor, tuple[CursorPart, CursorPart])
    page, place = project.learning.page(query.limit, after, status=query.status)
    items = [StagedLearning(memory=public(one), status=status(one), reason=held_back(one)) for one in page]
    return Listing(items, cursor_to(place))


# --- deciding on one ------------------------------------------------------------------


class Approval(Body):
    """In which words to keep it."""

    content: Annotated[Content, Meta(description="Other words, if any.")] = ""


class Rejection(Body):
    """Why not."""

    reason: Reason = ""


@calls.put("/api/staging/{id}")
def edit_learning(project: Project, id: str, body: MemoryEdit) -> ChangedMemory:
    """Change a learning that waits for a decision; it goes on waiting."""
    return edited(project.learning.edit, id, body)


@calls.post("/api/staging/{id}/approve")
def approve_learning(project: Project, id: str, body: Approval) -> ChangedMemory:
    """Let a learning into the memory, in other words if there are any; to take that back, undo its `event`."""
    return changed_memory(project.learning.accept(id, body.content))


@calls.post("/api/staging/{id}/reject")
def reject_learning(project: Project, id: str, body: Rejection) -> ChangedMemory:
    """Keep a learning out; to take that back, undo its `event`."""
    return changed_memory(project.learning.reject(id, body.reason))


# --- many at once ---------------------------------------------------------------------


class Validated(Struct):
    """What came of checking."""

    validated: int
    rejected: int
    waiting: int
    """Estimates that need more data."""


class Promotion(Body):
    """What to keep."""

    ids: Annotated[list[str], Meta(max_length=MOST_IDS, description="Without any: all that passed the rules.")] = field(
        default_factory=list
    )
    validate: Annotated[bool, Meta(description="Check what is pending first.")] = False


class Promoted(Struct):
    """What came of it."""

    promoted: int
    left: int
    """So many stay staged."""


class Extraction(Body):
    """From what: a run, the state of a loop that ran elsewhere, or what a role said when it handed over."""

    run: Annotated[str, Meta(description="Without anything said: the latest.")] = ""
    state: Annotated[str, Meta(description="What is in the state file of a loop that ran elsewhere.")] = ""
    name: Annotated[str, Meta(max_length=LONGEST_NAME, description="What that file is called.")] = "state"
    from_hat: Annotated[str, Meta(description="The role that hands over.")] = ""
    to_hat: Annotated[str, Meta(description="The role that takes over.")] = ""
    text: Annotated[str, Meta(description="What the role that hands over said last.")] = ""
    promote: Annotated[bool, Meta(description="Also check them, and keep those that pass.")] = False


class Extracted(Struct, kw_only=True):
    """What was drawn from it, and with `promote` what became of it."""

    source: str
    """The run, or what else it was drawn from."""
    extracted: int
    merged: int
    """Of these, how many were known and gained support."""
    kept: list[KeptMemory] = field(default_factory=list)
    """What a role handed over, which is in use at once."""
    checked: Validated | None = None
    promoted: Promoted | None = None


@calls.post("/api/staging/validate")
def validate_learnings(project: Project) -> Validated:
    """Check what is pending against the rules."""
    counts = project.learning.validate()
    return Validated(validated=counts.validated, rejected=counts.rejected, waiting=counts.waiting)


@calls.post("/api/staging/promote")
def promote_learnings(project: Project, body: Promotion) -> Promoted:
    """Let what passed the rules into the memory: all of it, or the named ones."""
    ids = [nameable("Memory", id) for id in body.ids]
    counts, left = project.learning.promote(ids, validate_first=body.validate)
    return Promoted(promoted=counts.promoted, left=left)


@calls.post("/api/staging/extract")
def extract_learnings(project: Project, body: Extraction) -> Extracted:
    """Draw learnings from a run, or from what a loop elsewhere left, and stage them; keep what a role handed over."""
    if bool(body.from_hat) != bool(body.to_hat):
        raise InvalidValueError("Say both roles: from_hat and to_hat.")
    if sum(map(bool, (body.run, body.state, body.from_hat))) > 1:
        raise InvalidValueError("Say one source: run, state, or from_hat with to_hat.")
    if bool(body.text) != bool(body.from_hat):
        raise InvalidValueError("Say who handed over what: from_hat, to_hat and text.")
    if body.from_hat:
        return _handed_over(project.learning.extract_handover(body.from_hat, body.to_hat, body.text), body)
    if body.state:
        source, counts = body.name, project.learning.extract_state(body.state, body.name)
    else:
        source, counts = project.learning.extract(nameable("Run", body.run) or None)
    extracted = Extracted(source=source, extracted=counts.extracted, merged=counts.merged)
    if body.promote:
        extracted.checked = validate_learnings(project)
        extracted.promoted = promote_learnings(project, Promotion())
    return extracted


def _handed_over(kept: list[Kept], body: Extraction) -> Extracted:
    known = sum(one.what != "added" for one in kept)
    source = f"{body.from_hat} to {body.to_hat}"
    return Extracted(source=source, extracted=len(kept), merged=known, kept=[kept_memory(one) for one in kept])


class Emptying(Body):
    """Whether it is meant."""

    yes: Annotated[bool, Meta(description="Needed, because it is all of it.")] = False


class Emptied(Struct):
    """What was taken out of the staging area."""

    count: int
    change_id: str
    """What undo takes; empty when there was nothing."""


@calls.post("/api/staging/clear")
def clear_staging(project: Project, body: Emptying) -> Emptied:
    """Take all that is staged out of the staging area, only with `yes`; undo of that one change brings it back."""
    return Emptied(*project.learning.clear(yes=body.yes))
