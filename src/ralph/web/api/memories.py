"""Endpoints for memories: list, search, add, count and clean up."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field

from ralph.core.text import count_tokens
from ralph.memory.maintenance import Removal
from ralph.memory.validation import days_ago
from ralph.project import Project
from ralph.store.memory_queries import MemoryFilter
from ralph.web.api.filters import (
    Confidence,
    Content,
    Files,
    MemoryFilters,
    RankerName,
    Tags,
    Title,
    TypeName,
    memory_filter_from,
    normalize_tags,
    resolve_types,
    selected_project,
)
from ralph.web.endpoints import EndpointGroup, Listing, QueryParams, RequestBody
from ralph.web.paging import Cursor, Limit, Name, encode_cursor, page_of
from ralph.web.schemas import (
    AddedMemory,
    MemoryHit,
    PublicMemory,
    added_memory,
    memory_hit,
    public_memory,
)

calls = EndpointGroup("memories")

MAX_DAYS = 999_999_999
MAX_PRIME_TOKENS = 1_000_000

CursorPart = Annotated[str, Meta(max_length=200, pattern=r"^[^\x00]*$")]


# --- list and search ------------------------------------------------------------------


class MemoriesQuery(MemoryFilters):
    """Filters and page of a list of memories."""

    limit: Limit = 50
    cursor: Cursor = ""


class MemorySearchQuery(MemoryFilters):
    """Search query with filters."""

    q: Annotated[str, Meta(description="Search words. Default without a task: the newest memories.")] = ""
    task: Annotated[Name, Meta(description="Task whose text is added to the query.")] = ""
    ranker: Annotated[RankerName | None, Meta(description="Ranking formula. Default: the hybrid one.")] = None
    limit: Limit = 50


class Facet(Struct):
    """Number of memories with one value of a field."""

    name: str
    count: int


class FacetsQuery(MemoryFilters):
    """Search words and filters of the memories to count."""

    q: Annotated[str, Meta(description="Search words. Default: all memories.")] = ""


class MemoryFacets(Struct):
    """Numbers of memories by field, most frequent first; each counts what the filters on other fields leave."""

    type: list[Facet]
    state: list[Facet]
    source: list[Facet]
    tag: list[Facet]
    """Most frequent tags."""
    stale: int
    """Number of memories whose files have changed."""
    total: int
    """Number of memories that match the search words and all filters."""
    is_partial: bool
    """Whether more memories match the search words than were counted: the best 500."""


@calls.get("/api/projects/{project}/memories")
def list_memories(project: Project, name: str, query: MemoriesQuery) -> Listing[PublicMemory]:
    """List memories, newest first."""
    target = selected_project(project, name)
    filters = memory_filter_from(target, query)
    found = target.memory.list(filters, page_of(query, tuple[CursorPart, CursorPart]))
    return Listing([public_memory(one) for one in found], encode_cursor(found.next))


@calls.get("/api/projects/{project}/memories/search")
def search_memories(project: Project, name: str, query: MemorySearchQuery) -> Listing[MemoryHit]:
    """Search memories by words, best match first, each with the components of its score.

    With a task, its text is added to the query. `after_date` and `before_date` are aliases of the date filters.
    """
    target = selected_project(project, name)
    found = target.memory.search(
        query.q, memory_filter_from(target, query), query.limit, ranker=query.ranker or "", task_id=query.task or None
    )
    return Listing([memory_hit(one) for one in found])


class SharedQuery(MemoryFilters):
    """Filters for shared memories."""

    limit: Limit = 50


class SharedMemoryEntry(Struct):
    """Memory shared with all projects of the database."""

    memory: PublicMemory
    shared_from: str
    """Name of the project that shared it, at that time."""


@calls.get("/api/projects/{project}/memories/shared")
def list_shared_memories(project: Project, name: str, query: SharedQuery) -> Listing[SharedMemoryEntry]:
    """List memories shared with all projects of the database, newest first."""
    target = selected_project(project, name)
    found = target.memory.sharing.list(memory_filter_from(target, query), query.limit)
    return Listing([SharedMemoryEntry(memory=public_memory(one.memory), shared_from=one.project) for one in found])


@calls.get("/api/projects/{project}/memories/facets")
def count_memories(project: Project, name: str, query: FacetsQuery) -> MemoryFacets:
    """Count memories by type, state, source and tag, of those that match search words and filters."""
    target = selected_project(project, name)
    facets = target.memory.facets(query.q, memory_filter_from(target, query))
    return MemoryFacets(
        type=_facets(facets.type),
        state=_facets(facets.state),
        source=_facets(facets.source),
        tag=_facets(facets.tag),
        stale=facets.stale,
        total=facets.total,
        is_partial=facets.is_partial,
    )


def _facets(counts: dict[str, int]) -> list[Facet]:
    return [Facet(name=name, count=count) for name, count in counts.items()]


class MemoryTotals(Struct, kw_only=True):
    """Statistics of the active memories of a project; by state, of all memories."""

    total: int
    by_state: dict[str, int]
    by_type: dict[str, int]
    by_task_type: dict[str, int]
    by_source: dict[str, int]
    average_confidence: float
    average_success_rate: float | None
    uses: int
    most_used: PublicMemory | None
    last_updated: str | None


@calls.get("/api/projects/{project}/memories/stats")
def show_memory_totals(project: Project, name: str) -> MemoryTotals:
    """Return statistics of the memories: counts, confidence and use."""
    found = selected_project(project, name).memory.stats()
    return MemoryTotals(
        total=found.total,
        by_state=found.by_state,
        by_type=found.by_kind,
        by_task_type=found.by_task_type,
        by_source=found.by_source,
        average_confidence=found.average_confidence,
        average_success_rate=found.average_success_rate,
        uses=found.uses,
        most_used=public_memory(found.most_used) if found.most_used else None,
        last_updated=found.last_updated,
    )


class MemoryVerification(Struct):
    """Result of verifying the stored memories."""

    problems: list[str]
    """Problems found; empty if the data is intact."""


@calls.get("/api/projects/{project}/memories/verify")
def verify_memories(project: Project, name: str) -> MemoryVerification:
    """Verify the integrity of the stored memories, which takes a while for large projects."""
    return MemoryVerification(selected_project(project, name).memory.maintenance.verify())


# --- prime ----------------------------------------------------------------------------


class PrimeQuery(QueryParams):
    """Subject and size of the memories for an agent."""

    budget: Annotated[int, Meta(ge=1, le=MAX_PRIME_TOKENS, description="Maximum size, in tokens.")] = 2_000
    task: Annotated[Name, Meta(description="Only memories that a prompt for this task would include.")] = ""
    text: Annotated[str, Meta(description="Only memories relevant to this text.")] = ""
    type: Annotated[list[TypeName], Meta(max_length=50)] = field(default_factory=list)
    tag: Tags = field(default_factory=list)
    recent: Annotated[int, Meta(ge=0, le=MAX_DAYS, description="Only memories from the last N days; 0 for all.")] = 0


class PrimeResult(Struct):
    """Memories for an agent's context."""

    items: list[PublicMemory]
    tokens: int
    """Estimated size of the text, in tokens."""
    text: str
    """Standing rules and memories as text for the agent."""


@calls.get("/api/projects/{project}/memories/prime")
def prime_memories(project: Project, name: str, query: PrimeQuery) -> PrimeResult:
    """Return memories for an agent's context: the most confident of each type, or those relevant to a task or text."""
    target = selected_project(project, name)
    after = days_ago(query.recent) if query.recent else ""
    filters = MemoryFilter(kinds=resolve_types(target, query.type), tags=normalize_tags(query.tag), after=after)
    primer = target.memory.rules.primer(filters, query.budget, task_id=query.task or None, text=query.text or None)
    items = [public_memory(one) for one in primer.memories]
    return PrimeResult(items=items, tokens=count_tokens(primer.text), text=primer.text)


# --- add ------------------------------------------------------------------------------


class NewMemory(RequestBody):
    """Memory to add."""

    content: Annotated[Content, Meta(min_length=1)]
    type: Annotated[TypeName, Meta(description="Default: pattern.")] = ""
    title: Annotated[Title, Meta(description="Default: the first sentence.")] = ""
    tags: Tags = field(default_factory=list)
    file_refs: Annotated[Files, Meta(description="Related files. Default: those named in the content.")] = field(
        default_factory=list
    )
    confidence: Confidence | None = None


@calls.post("/api/projects/{project}/memories", 201)
def add_memory(project: Project, name: str, body: NewMemory) -> AddedMemory:
    """Add a memory; if an equivalent one exists, that one gains confidence instead."""
    result = selected_project(project, name).memory.add(
        body.content,
        type=body.type or None,
        title=body.title,
        tags=body.tags,
        files=body.file_refs,
        confidence=body.confidence,
    )
    return added_memory(result)


# --- maintenance ----------------------------------------------------------------------


class CleanupOptions(RequestBody):
    """Criteria for memories to remove. Default: those with low confidence that are old and were never used."""

    min_confidence: Confidence | None = None
    older_than_days: Annotated[int, Meta(ge=0, le=MAX_DAYS)] | None = None
    unused: bool = False
    yes: Annotated[bool, Meta(description="Confirm removing more than a fifth of all memories.")] = False
    dry_run: Annotated[bool, Meta(description="Only return what would be removed.")] = False


class ConsolidationOptions(RequestBody):
    """Options of a consolidation."""

    yes: Annotated[bool, Meta(description="Confirm removing more than a fifth of all memories.")] = False
    dry_run: Annotated[bool, Meta(description="Only return what would be removed.")] = False


class ClearMemoriesOptions(RequestBody):
    """Confirmation to remove all memories."""

    yes: Annotated[bool, Meta(description="Required confirmation.")] = False


class RemovedMemory(Struct):
    """Removed memory with the reason."""

    id: str
    type: str
    title: str
    why: str


class RemovedMemories(Struct):
    """Memories that were removed, or would be."""

    removed: list[RemovedMemory]
    present: int
    """Number of memories before the removal."""
    change_id: str
    """ID of the change for undo; empty if nothing was removed."""
    left: list[RemovedMemory]
    """Memories that a consolidation looked at and left, each with the reason."""


@calls.post("/api/projects/{project}/memories/cleanup")
def clean_up_memories(project: Project, name: str, body: CleanupOptions) -> RemovedMemories:
    """Remove memories of little value; removing more than a fifth of all requires `yes`."""
    removal = selected_project(project, name).memory.maintenance.cleanup(
        min_confidence=body.min_confidence,
        older_than_days=body.older_than_days,
        unused=body.unused,
        yes=body.yes,
        dry_run=body.dry_run,
    )
    return _removed(removal)


@calls.post("/api/projects/{project}/memories/consolidate")
def consolidate_memories(project: Project, name: str, body: ConsolidationOptions) -> RemovedMemories:
    """Merge near-duplicate memories into one; removing more than a fifth of all requires `yes`."""
    return _removed(selected_project(project, name).memory.maintenance.consolidate(yes=body.yes, dry_run=body.dry_run))


@calls.post("/api/projects/{project}/memories/clear")
def clear_memories(project: Project, name: str, body: ClearMemoriesOptions) -> RemovedMemories:
    """Remove all memories, which requires `yes`; undoing that change restores them."""
    return _removed(selected_project(project, name).memory.maintenance.clear(yes=body.yes))


def _removed(removal: Removal) -> RemovedMemories:
    return RemovedMemories(
        removed=[RemovedMemory(id=one.id, type=one.kind, title=one.title, why=why) for one, why in removal.removed],
        present=removal.present,
        change_id=removal.change_id,
        left=[RemovedMemory(id=one.id, type=one.kind, title=one.title, why=why) for one, why in removal.left],
    )
