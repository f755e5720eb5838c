"""Memories: list, find, add, count, clean up."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field

from ralph.memory.prime import primed
from ralph.memory.profiles import PROFILES
from ralph.project import Project
from ralph.remembering import Removal, days_ago
from ralph.server.api.wanted import (
    Confidence,
    Content,
    Files,
    Filters,
    Tags,
    Title,
    TypeName,
    chosen,
    known_kinds,
    nameable,
    tags_of,
    wanted_by,
)
from ralph.server.calls import Body, Calls, Listing, Query
from ralph.server.paging import Cursor, Limit, cursor_to, place_in
from ralph.server.problems import InvalidValueError
from ralph.server.shapes import (
    FoundMemory,
    KeptMemory,
    PublicMemory,
    found_memory,
    kept_memory,
    public,
)
from ralph.store.known_memories import Wanted
from ralph.text import count_tokens

calls = Calls("memories")

MOST_DAYS = 999_999_999
MOST_TOKENS = 1_000_000

CursorPart = Annotated[str, Meta(max_length=200, pattern=r"^[^\x00]*$")]


# --- listing and finding --------------------------------------------------------------


class MemoriesQuery(Filters):
    """Which memories are listed, and from where on."""

    limit: Limit = 50
    cursor: Cursor = ""


class MemorySearch(Filters):
    """What to look for among which memories."""

    q: Annotated[str, Meta(description="Any words; without them and a task, the newest are given.")] = ""
    task: Annotated[str, Meta(description="A task whose words count too.")] = ""
    ranker: Annotated[str, Meta(description=f"Rank by another formula: {', '.join(PROFILES)}.")] = ""
    limit: Limit = 50


class Facet(Struct):
    """How many memories have something in common."""

    name: str
    count: int


class MemoryFacets(Struct):
    """By what memories can be told apart, the most frequent first; of the active ones, but by state of all."""

    type: list[Facet]
    state: list[Facet]
    source: list[Facet]
    tag: list[Facet]
    """The most frequent ones."""
    stale: int
    """Those whose files are no longer as they were."""


@calls.get("/api/projects/{project}/memories")
def list_memories(project: Project, name: str, query: MemoriesQuery) -> Listing[PublicMemory]:
    """List memories, newest first."""
    of = chosen(project, name)
    wanted = wanted_by(of, query)
    found, place = of.memory.page(wanted, query.limit, place_in(query.cursor, tuple[CursorPart, CursorPart]))
    return Listing([public(one) for one in found], cursor_to(place))


@calls.get("/api/projects/{project}/memories/search")
def search_memories(project: Project, name: str, query: MemorySearch) -> Listing[FoundMemory]:
    """Find memories by any words, best first, each with what its score is made of.

    For a task, its own words count too. The names of the dates `after_date` and `before_date` are understood as well.
    """
    of = chosen(project, name)
    if query.ranker and query.ranker not in PROFILES:
        raise InvalidValueError(f"ranker: it is one of {', '.join(PROFILES)}.")
    task = nameable("Task", query.task) or None
    found = of.memory.search(query.q, wanted_by(of, query), query.limit, query.ranker, task)
    return Listing([found_memory(one) for one in found])


class SharedQuery(Filters):
    """Which shared memories are listed."""

    limit: Limit = 50


class OfferedMemory(Struct):
    """A memory that all projects of the database get."""

    memory: PublicMemory
    shared_from: str
    """The name of the project it came from, as it was then."""


@calls.get("/api/projects/{project}/memories/shared")
def list_shared_memories(project: Project, name: str, query: SharedQuery) -> Listing[OfferedMemory]:
    """List the memories that all projects of the database get, newest first, and where they come from."""
    of = chosen(project, name)
    found = of.memory.shared(wanted_by(of, query), query.limit)
    return Listing([OfferedMemory(memory=public(one.memory), shared_from=one.project) for one in found])


@calls.get("/api/projects/{project}/memories/facets")
def count_memories(project: Project, name: str) -> MemoryFacets:
    """Count memories by type, state, source and tag."""
    facets = chosen(project, name).memory.facets()
    return MemoryFacets(
        type=_facets(facets.type),
        state=_facets(facets.state),
        source=_facets(facets.source),
        tag=_facets(facets.tag),
        stale=facets.stale,
    )


def _facets(counts: dict[str, int]) -> list[Facet]:
    return [Facet(name=name, count=count) for name, count in counts.items()]


class MemorySums(Struct, kw_only=True):
    """What the memories of a project add up to: the active ones, but by state all."""

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
def sum_up_memories(project: Project, name: str) -> MemorySums:
    """Say what the memories add up to: how many of which kind, how sure, how often used."""
    found = chosen(project, name).memory.stats()
    return MemorySums(
        total=found.total,
        by_state=found.by_state,
        by_type=found.by_kind,
        by_task_type=found.by_task_type,
        by_source=found.by_source,
        average_confidence=found.average_confidence,
        average_success_rate=found.average_success_rate,
        uses=found.uses,
        most_used=public(found.most_used) if found.most_used else None,
        last_updated=found.last_updated,
    )


class Verified(Struct):
    """What is wrong with what is stored."""

    problems: list[str]
    """One sentence each; empty when all is undamaged."""


@calls.get("/api/projects/{project}/memories/verify")
def verify_memories(project: Project, name: str) -> Verified:
    """Check that what is stored is undamaged; that takes a while where there is much."""
    return Verified(chosen(project, name).memory.verify())


# --- before an agent ------------------------------------------------------------------


class PrimeQuery(Query):
    """For what, and how much."""

    budget: Annotated[int, Meta(ge=1, le=MOST_TOKENS, description="At most so many tokens.")] = 2_000
    task: Annotated[str, Meta(description="Only the few that a prompt for this task would show.")] = ""
    text: Annotated[str, Meta(description="The same for any text.")] = ""
    type: Annotated[list[TypeName], Meta(max_length=50)] = field(default_factory=list)
    tag: Tags = field(default_factory=list)
    recent: Annotated[int, Meta(ge=0, le=MOST_DAYS, description="Only from the last so many days; 0: all.")] = 0


class Primed(Struct):
    """Memories to put before an agent."""

    items: list[PublicMemory]
    tokens: int
    """About so many has the text."""
    text: str
    """As an agent gets it."""


@calls.get("/api/projects/{project}/memories/prime")
def prime_memories(project: Project, name: str, query: PrimeQuery) -> Primed:
    """Give the memories to put before an agent: the surest of each type, or for a task or text those that matter."""
    of = chosen(project, name)
    after = days_ago(query.recent) if query.recent else ""
    wanted = Wanted(kinds=known_kinds(of, query.type), tags=tags_of(query.tag), after=after)
    task, text = nameable("Task", query.task) or None, query.text or None
    found = of.memory.prime(wanted, query.budget, task_id=task, text=text)
    said = primed(found)
    return Primed(items=[public(one) for one in found], tokens=count_tokens(said), text=said)


# --- adding ---------------------------------------------------------------------------


class NewMemory(Body):
    """What to remember."""

    content: Annotated[Content, Meta(min_length=1)]
    type: Annotated[TypeName, Meta(description="Without one: pattern.")] = ""
    title: Annotated[Title, Meta(description="Without one, the first sentence.")] = ""
    tags: Tags = field(default_factory=list)
    file_refs: Annotated[Files, Meta(description="Files it is about; without any, those the content names.")] = field(
        default_factory=list
    )
    confidence: Confidence | None = None


@calls.post("/api/projects/{project}/memories", 201)
def add_memory(project: Project, name: str, body: NewMemory) -> KeptMemory:
    """Remember something; one that says the same as a known one makes that one surer."""
    kept = chosen(project, name).memory.add(
        body.content,
        kind=body.type or None,
        title=body.title,
        tags=body.tags,
        files=body.file_refs,
        confidence=body.confidence,
    )
    return kept_memory(kept)


# --- upkeep ---------------------------------------------------------------------------


class Cleanup(Body):
    """What may go; without anything said, what is doubtful, old and was never used."""

    min_confidence: Confidence | None = None
    older_than_days: Annotated[int, Meta(ge=0, le=MOST_DAYS)] | None = None
    unused: bool = False
    yes: Annotated[bool, Meta(description="Also when it is more than a fifth of all.")] = False
    dry_run: Annotated[bool, Meta(description="Say what would go, and do nothing.")] = False


class Consolidation(Body):
    """How careful to be."""

    yes: Annotated[bool, Meta(description="Also when it is more than a fifth of all.")] = False
    dry_run: Annotated[bool, Meta(description="Say what would go, and do nothing.")] = False


class Clearance(Body):
    """Whether it is meant."""

    yes: Annotated[bool, Meta(description="Needed, because it is all of them.")] = False


class RemovedMemory(Struct):
    """A memory that was taken out of use, and why."""

    id: str
    type: str
    title: str
    why: str


class RemovedMemories(Struct):
    """What was taken out of use, or would be."""

    removed: list[RemovedMemory]
    present: int
    """How many memories there were."""
    change_id: str
    """What undo takes; empty when nothing was done."""


@calls.post("/api/projects/{project}/memories/cleanup")
def clean_up_memories(project: Project, name: str, body: Cleanup) -> RemovedMemories:
    """Take memories out of use that are no longer worth their place; more than a fifth of all only with `yes`."""
    removal = chosen(project, name).memory.cleanup(
        min_confidence=body.min_confidence,
        older_than_days=body.older_than_days,
        unused=body.unused,
        yes=body.yes,
        dry_run=body.dry_run,
    )
    return _removed(removal)


@calls.post("/api/projects/{project}/memories/consolidate")
def consolidate_memories(project: Project, name: str, body: Consolidation) -> RemovedMemories:
    """Let one memory stand for those that say nearly the same; more than a fifth of all only with `yes`."""
    return _removed(chosen(project, name).memory.consolidate(yes=body.yes, dry_run=body.dry_run))


@calls.post("/api/projects/{project}/memories/clear")
def clear_memories(project: Project, name: str, body: Clearance) -> RemovedMemories:
    """Take all memories out of use, only with `yes`; undo of that one change brings them back."""
    return _removed(chosen(project, name).memory.clear(yes=body.yes))


def _removed(removal: Removal) -> RemovedMemories:
    return RemovedMemories(
        removed=[RemovedMemory(id=one.id, type=one.kind, title=one.title, why=why) for one, why in removal.removed],
        present=removal.present,
        change_id=removal.change_id,
    )
