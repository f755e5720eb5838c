"""Endpoints for reviewing staged learnings."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, convert, field

from ralph.memory.lifecycle.staging import pending_reason, staging_status
from ralph.project import Project
from ralph.store.memories import AddResult
from ralph.web.api.filters import Content, LearningStatus, Reason
from ralph.web.api.memories import CursorPart
from ralph.web.api.memory import MemoryEdit, apply_edit
from ralph.web.endpoints import EndpointGroup, Listing, RequestBody
from ralph.web.paging import Name, PagedQuery, encode_cursor, page_of
from ralph.web.problems import InvalidValueError
from ralph.web.schemas import AddedMemory, ChangedMemory, PublicMemory, added_memory, changed_memory, public_memory

calls = EndpointGroup("staging")

MAX_PROMOTED_IDS = 1_000
"""Maximum number of learnings in a request."""
MAX_STATE_NAME_CHARS = 200
"""Maximum length of a file name, in characters."""


class LearningsQuery(PagedQuery):
    """Filters for staged learnings."""

    status: Annotated[LearningStatus | None, Meta(description="Default: all that need a decision.")] = None


class StagedLearning(Struct):
    """Learning that is not in use yet."""

    memory: PublicMemory
    status: str
    """pending, validated, rejected or quarantined."""
    reason: str
    """Reason it is held back or was rejected; empty if it is only pending."""


@calls.get("/api/staging")
def list_staging(project: Project, query: LearningsQuery) -> Listing[StagedLearning]:
    """List learnings that need a decision or were rejected, oldest first."""
    found = project.learnings.list(query.status, page_of(query, tuple[CursorPart, CursorPart]))
    items = [
        StagedLearning(memory=public_memory(one), status=staging_status(one), reason=pending_reason(one))
        for one in found
    ]
    return Listing(items, encode_cursor(found.next))


# --- proposals of reflections ----------------------------------------------------------

MAX_PROPOSAL_NUMBERS = 50
"""Maximum number of proposals in a request."""


class PublicProposal(Struct):
    """Merge, correction or removal that a reflection proposed."""

    number: int
    """Number by which it is applied or discarded; those after it move up when it is."""
    action: str
    """merge, correct or remove."""
    ids: list[str]
    """Memories it is about; of a merge, the one that stays comes first."""
    content: str
    """New content; empty if it stays as it is."""
    reason: str
    evidence: str
    """Quotes that it rests on."""


class ProposalNumbers(RequestBody):
    """Proposals to decide on."""

    numbers: Annotated[
        list[Annotated[int, Meta(ge=1, le=MAX_PROPOSAL_NUMBERS)]],
        Meta(max_length=MAX_PROPOSAL_NUMBERS, description="Default: all proposals."),
    ] = field(default_factory=list)


class AppliedProposalsResult(Struct):
    """What became of proposals that were applied."""

    applied: int
    skipped: int
    """Number of those about memories that have changed since, or that are a person's."""
    change_id: str
    """ID of the change for undo; empty if nothing was changed."""


class DiscardedProposals(Struct):
    """Number of discarded proposals."""

    discarded: int


def public_proposals(project: Project) -> list[PublicProposal]:
    """Return the proposals that wait, numbered from 1."""
    return [
        PublicProposal(
            number=number,
            action=one.action,
            ids=list(one.ids),
            content=one.content,
            reason=one.reason,
            evidence=one.evidence,
        )
        for number, one in enumerate(project.learnings.proposals(), start=1)
    ]


@calls.get("/api/staging/proposals")
def list_proposals(project: Project) -> Listing[PublicProposal]:
    """List what reflections proposed to merge, correct or remove, oldest first; additions are staged learnings."""
    return Listing(public_proposals(project), None)


@calls.post("/api/staging/proposals/apply")
def apply_proposals(project: Project, body: ProposalNumbers) -> AppliedProposalsResult:
    """Apply proposals as one change; undoing that change reverts all of it."""
    result = project.learnings.apply_proposals(body.numbers)
    return AppliedProposalsResult(applied=len(result.applied), skipped=len(result.skipped), change_id=result.change_id)


@calls.post("/api/staging/proposals/discard")
def discard_proposals(project: Project, body: ProposalNumbers) -> DiscardedProposals:
    """Discard proposals."""
    return DiscardedProposals(discarded=project.learnings.discard_proposals(body.numbers))


# --- decisions on one -----------------------------------------------------------------


class Approval(RequestBody):
    """Approval of a learning."""

    content: Annotated[Content, Meta(description="Replacement text, if any.")] = ""


class Rejection(RequestBody):
    """Rejection of a learning."""

    reason: Reason = ""


@calls.put("/api/staging/{id}")
def edit_learning(project: Project, id: str, body: MemoryEdit) -> ChangedMemory:
    """Edit a staged learning, which stays staged."""
    return apply_edit(project.learnings.edit, id, body)


@calls.post("/api/staging/{id}/approve")
def approve_learning(project: Project, id: str, body: Approval) -> ChangedMemory:
    """Approve a learning, with a replacement text if given; undo its `event` to revert that."""
    return changed_memory(project.learnings.accept(id, body.content))


@calls.post("/api/staging/{id}/reject")
def reject_learning(project: Project, id: str, body: Rejection) -> ChangedMemory:
    """Reject a learning; undo its `event` to revert that."""
    return changed_memory(project.learnings.reject(id, body.reason))


# --- bulk operations ------------------------------------------------------------------


class ValidationResult(Struct):
    """Result of a validation."""

    validated: int
    rejected: int
    waiting: int
    """Number of estimates that need more data."""


class PromotionOptions(RequestBody):
    """Learnings to promote."""

    ids: Annotated[list[Name], Meta(max_length=MAX_PROMOTED_IDS, description="Default: all validated learnings.")] = (
        field(default_factory=list)
    )
    validate: Annotated[bool, Meta(description="Validate pending learnings first.")] = False


class PromotionResult(Struct):
    """Result of a promotion."""

    promoted: int
    left: int
    """Number of learnings that stay staged."""


class ExtractionSource(RequestBody):
    """Source of learnings: a run, the state file of another loop, or the handover message of a role."""

    run: Annotated[Name, Meta(description="Run ID. Default: the latest run.")] = ""
    state: Annotated[str, Meta(description="Contents of the state file of another loop.")] = ""
    name: Annotated[str, Meta(max_length=MAX_STATE_NAME_CHARS, description="Name of that file.")] = "state"
    from_hat: Annotated[str, Meta(description="Role that hands over.")] = ""
    to_hat: Annotated[str, Meta(description="Role that takes over.")] = ""
    text: Annotated[str, Meta(description="Final message of the role that hands over.")] = ""
    promote: Annotated[bool, Meta(description="Also validate and promote the learnings.")] = False


class ExtractionResult(Struct, kw_only=True):
    """Result of an extraction and, with `promote`, of the promotion."""

    source: str
    """Run or other source."""
    extracted: int
    merged: int
    """Number of extracted learnings that were already known and gained support."""
    kept: list[AddedMemory] = field(default_factory=list)
    """Memories from a handover, which are in use immediately."""
    checked: ValidationResult | None = None
    promoted: PromotionResult | None = None


@calls.post("/api/staging/validate")
def validate_learnings(project: Project) -> ValidationResult:
    """Validate pending learnings against the rules."""
    return convert(project.learnings.validate(), ValidationResult, from_attributes=True)


@calls.post("/api/staging/promote")
def promote_learnings(project: Project, body: PromotionOptions) -> PromotionResult:
    """Promote validated learnings to memories: all of them, or those with the given IDs."""
    counts, left = project.learnings.promote(body.ids, validate_first=body.validate)
    return PromotionResult(promoted=counts.promoted, left=left)


@calls.post("/api/staging/extract")
def extract_learnings(project: Project, body: ExtractionSource) -> ExtractionResult:
    """Extract learnings from a run or another loop's state and stage them; add those of a handover directly."""
    if bool(body.from_hat) != bool(body.to_hat):
        raise InvalidValueError("Set both from_hat and to_hat.")
    if sum(map(bool, (body.run, body.state, body.from_hat))) > 1:
        raise InvalidValueError("Set only one source: run, state, or from_hat with to_hat.")
    if bool(body.text) != bool(body.from_hat):
        raise InvalidValueError("A handover requires from_hat, to_hat and text.")
    if body.from_hat:
        return _handover_result(project.learnings.extract_handover(body.from_hat, body.to_hat, body.text), body)
    if body.state:
        source, counts = body.name, project.learnings.extract_state(body.state, body.name)
    else:
        source, counts = project.learnings.extract(body.run or None)
    extracted = ExtractionResult(source=source, extracted=counts.extracted, merged=counts.merged)
    if body.promote:
        extracted.checked = validate_learnings(project)
        extracted.promoted = promote_learnings(project, PromotionOptions())
    return extracted


def _handover_result(results: list[AddResult], body: ExtractionSource) -> ExtractionResult:
    known = sum(result.what != "added" for result in results)
    source = f"{body.from_hat} to {body.to_hat}"
    added = [added_memory(result) for result in results]
    return ExtractionResult(source=source, extracted=len(results), merged=known, kept=added)


class ClearStagingOptions(RequestBody):
    """Confirmation to clear the staging area."""

    yes: Annotated[bool, Meta(description="Required confirmation.")] = False


class ClearStagingResult(Struct):
    """Result of clearing the staging area."""

    count: int
    change_id: str
    """ID of the change for undo; empty if nothing was staged."""


@calls.post("/api/staging/clear")
def clear_staging(project: Project, body: ClearStagingOptions) -> ClearStagingResult:
    """Remove all staged learnings, which requires `yes`; undoing that change restores them."""
    return ClearStagingResult(*project.learnings.clear(yes=body.yes))
