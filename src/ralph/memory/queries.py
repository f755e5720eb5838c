"""Reading the memories of a project: one, many, searched, recalled. Nothing here writes."""

from __future__ import annotations

import sys
from itertools import islice

from ralph.core.actor import PERSON
from ralph.core.errors import UsageError
from ralph.core.paging import MAX_PAGE_ITEMS, Page, ResultList, paged
from ralph.core.records import Memory, MemoryEvent, MemoryState, RecalledMemory, now, record, replace
from ralph.core.text import count_tokens, find_paths
from ralph.memory.lifecycle.confidence import current_confidence
from ralph.memory.validation import clean_query, days_ago
from ralph.store.memory_queries import MemoryFilter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

    from ralph.core.actor import Actor
    from ralph.core.config import Config
    from ralph.memory.facets import Facets
    from ralph.memory.lifecycle.timeline import ConfidenceAt
    from ralph.memory.recall.query import RecallContext
    from ralph.memory.recall.scored import ScoredMemory
    from ralph.store import Store
    from ralph.store.database import Row

MAX_RANKED = 2_000
"""Number of the newest memories that a published ranking formula sees."""
MAX_SESSION_ENTRY_LENGTH = 1_200
"""Length above which a memory is told by its best sentences in a session, which has room for three, in characters."""
MIN_TOKENS = 20
"""Fewest tokens a memory takes in a prime; bounds how many are read."""
SHOWN_ATTEMPTS = 20
MAX_USES = 200
"""Number of the latest uses that the confidence over time is computed from."""
MAX_FACETED = 500
"""Number of matches of a query that facets count."""


@record
class MemoryView:
    """A memory with its links and the attempts it was shown to."""

    memory: Memory
    confidence: float
    """Confidence as of now, after decay."""
    links: tuple[tuple[str, str | None], ...]
    """Titles it links to, each with the id of the memory that has it."""
    linked_from: tuple[Memory, ...]
    supersedes: tuple[Memory, ...]
    """Memories whose place it takes, newest first."""
    shown_to: tuple[Row, ...]


@record
class MemorySummary:
    """Counts and averages over all memories of a project."""

    total: int
    by_state: dict[str, int]
    by_kind: dict[str, int]
    by_task_type: dict[str, int]
    by_source: dict[str, int]
    average_confidence: float
    average_success_rate: float | None
    uses: int
    most_used: Memory | None
    last_updated: str | None


class MemoryQueries:
    """Read access to the memories of one opened project."""

    def __init__(
        self, store: Store, root: Path | str, config: Config, actor: Actor = PERSON, *, has_files: bool = True
    ) -> None:
        """`has_files`: the files that memories name are in `root`."""
        self._store = store
        self._memories = store.memories
        self._root = root
        self._config = config
        self._actor = actor
        self._has_files = has_files
        self._facets: tuple[int, Facets] | None = None
        """Facets with the event they were counted after."""

    # --- one memory ------------------------------------------------------------------

    def get(self, id: str) -> Memory:
        """Return one memory, whatever its state."""
        return self._memories.get(id)

    def show(self, id: str, attempts: int = SHOWN_ATTEMPTS) -> MemoryView:
        """Return a memory with its links and the latest attempts it was shown to, newest first."""
        memory = self._memories.get(id)
        links, back = self._memories.index.links(id)
        return MemoryView(
            memory=memory,
            confidence=current_confidence(memory, now()),
            links=tuple((title, other.id if other else None) for title, other in links),
            linked_from=tuple(back),
            supersedes=tuple(self._memories.superseded_by(id)),
            shown_to=tuple(self._memories.history.attempts_shown(id, attempts)),
        )

    def history(self, id: str) -> list[MemoryEvent]:
        """Return all changes of a memory, oldest first."""
        self._memories.get(id)
        return self._memories.history.of(id)

    def confidence_over_time(self, id: str) -> list[ConfidenceAt]:
        """Return the confidence of a memory from the day it was added until now."""
        from ralph.memory.lifecycle.timeline import MemoryUse, trace_confidence

        memory = self.get(id)
        uses = [
            MemoryUse(at=row["ended_at"], succeeded=row["outcome"] == "done")
            for row in self._memories.history.attempts_shown(id, MAX_USES)
            # The same uses that earn credit: interrupted attempts and hand-overs do not.
            if row["ended_at"]
            and row["outcome"] != "interrupted"
            and not (row["outcome"] == "done" and row["handed_to"])
        ]
        return trace_confidence(memory, self._memories.history.of(id), uses, now())

    # --- many ------------------------------------------------------------------------

    def search(
        self,
        query: str,
        filter: MemoryFilter | None = None,
        limit: int = 20,
        *,
        ranker: str = "",
        task_id: str | None = None,
        by_meaning: bool = True,
    ) -> list[RecalledMemory]:
        """Return memories that match a query, best first, then those that contain its text literally.

        With `task_id`, the words of the task count too. With `ranker`, one of the published formulas ranks them.
        Without `by_meaning`, no vector search, whatever the settings say: its model takes long to load.
        """
        filter = filter or MemoryFilter()
        query = clean_query(query)
        if ranker:
            return self._ranked(query, filter, ranker, task_id)[:limit]
        if not query and not task_id:
            page = Page(limit=min(limit, MAX_PAGE_ITEMS)) if limit else None
            return [RecalledMemory(memory=one, score=0.0) for one in self.list(filter, page)]
        context = self._context_of(query, task_id)
        found = list(islice(self._matching(context, filter, by_meaning=by_meaning), limit))
        if query and len(found) < limit:
            found += islice(self._containing(query, filter, {one.memory.id for one in found}), limit - len(found))
        return found

    def _matching(
        self, context: RecallContext, filter: MemoryFilter, *, by_meaning: bool = True, candidates: int = 0
    ) -> Iterator[RecalledMemory]:
        """Return memories that match by themselves, not only through others; by telling words if the query has any."""
        from ralph.memory.recall.candidates import MAX_CANDIDATES, rank_memories
        from ralph.memory.recall.matching import matching_hits

        at = context.at or now()
        by_meaning = by_meaning and self._config.memories.meaning
        context, candidates = replace(context, at=at), candidates or MAX_CANDIDATES
        ranked = rank_memories(self._store, context, filter, by_meaning=by_meaning, candidates=candidates)
        recalled = _to_recalled(matching_hits(ranked, context), context)
        return (one for one in recalled if _is_confident(one.memory, filter, at))

    def _containing(self, query: str, filter: MemoryFilter, seen: Collection[str]) -> Iterator[RecalledMemory]:
        at = now()
        for one in self._memories.listing.containing(filter, query):
            if one.id not in seen and _is_confident(one, filter, at):
                yield RecalledMemory(memory=one, score=0.0, because=(("text", 0.0),))

    def _ranked(self, query: str, filter: MemoryFilter, ranker: str, task_id: str | None) -> list[RecalledMemory]:
        from ralph.memory.recall.rankers import RANKERS

        if ranker not in RANKERS:
            raise UsageError(f"Unknown ranker: {ranker!r}. Use one of {', '.join(RANKERS)}.", code="unknown-ranker")
        context = self._context_of(query, task_id)
        return RANKERS[ranker].rank(list(islice(self._memories.find(filter), MAX_RANKED)), context)

    # --- recall ------------------------------------------------------------------------

    def recall(self, context: RecallContext, limit: int, filter: MemoryFilter | None = None) -> list[RecalledMemory]:
        """Return every memory that has something in common with a context, best first, with its score components."""
        from ralph.memory.recall.candidates import rank_memories

        filter = filter or MemoryFilter()
        at = context.at or now()
        by_meaning = self._config.memories.meaning
        ranked = rank_memories(self._store, replace(context, at=at), filter, by_meaning=by_meaning)
        recalled = _to_recalled(ranked, context)
        return list(islice((one for one in recalled if _is_confident(one.memory, filter, at)), limit))

    def recall_within(
        self, context: RecallContext, filter: MemoryFilter, budget_tokens: int, limit: int = 0, *, strict: bool = False
    ) -> list[Memory]:
        """Return the memories to show for a context, within a token budget; the settings complete the filter.

        With `strict`, only what is likely to be relevant, as for a prompt that a person types into a session, and long
        memories by their best sentences. This runs before every prompt, so unless the settings say otherwise, vector
        search is left to a process that has loaded the model, if there is one.
        """
        from ralph.memory.recall.candidates import recall_memories
        from ralph.memory.recall.select import MAX_SHOWN, PROMPT_CUT, SESSION_CUT

        filter = self._with_settings(filter)
        cut = SESSION_CUT if strict else PROMPT_CUT
        settings = self._config.memories
        shown = recall_memories(
            self._store,
            context,
            filter,
            limit or MAX_SHOWN,
            tags=filter.tags,
            cut=cut,
            by_meaning=settings.meaning,
            may_load=settings.meaning_in_hooks,
        ).shown
        if not shown:
            return []  # Most prompts end here, without loading what renders memories.
        from ralph.memory.recall.prime import render_primer

        chosen: list[Memory] = []
        for one in shown:
            memory = _abridged(one.memory, context) if strict else one.memory
            if not budget_tokens or count_tokens(render_primer([*chosen, memory])) <= budget_tokens:
                chosen.append(memory)
        return chosen

    def guided(self, agent: str) -> frozenset[str]:
        """Return the ids of the memories that a guide says which an agent reads here, such as AGENTS.md."""
        from ralph.memory.recall.guided import guided_memories

        return guided_memories(self._store, self._root, agent) if self._has_files else frozenset()

    def prime(
        self, filter: MemoryFilter, budget_tokens: int = 0, *, task_id: str | None = None, text: str | None = None
    ) -> list[Memory]:
        """Return memories for the start of a session, within a token budget: the most trusted of each type in turn.

        With a task or a text, the ones a prompt for it would show, best first.
        """
        if task_id is not None or text is not None:
            return self.recall_within(self._context_of(clean_query(text or ""), task_id), filter, budget_tokens)
        if not budget_tokens:
            return list(self._memories.find(filter))
        from ralph.memory.recall.prime import fit_to_budget

        return fit_to_budget(
            self._memories.listing.most_confident(filter, budget_tokens // MIN_TOKENS + 1), budget_tokens, now()
        )

    def most_trusted(self, budget_tokens: int, exclude: Collection[str] = (), after: str = "") -> ResultList[Memory]:
        """Return the most trusted memories of each type, except `exclude`, added after a time if one is given.

        `next` is the id of one that does not fit; None if all do.
        """
        from ralph.memory.recall.prime import fit_to_budget

        limit = budget_tokens // MIN_TOKENS + 1 + len(exclude)
        found = self._memories.listing.most_confident(self._with_settings(MemoryFilter(after=after)), limit)
        candidates = [one for one in found if one.id not in exclude]
        fitting = fit_to_budget(candidates, budget_tokens, now())
        fits = {one.id for one in fitting}
        return ResultList(fitting, next((one.id for one in candidates if one.id not in fits), None))

    def _with_settings(self, filter: MemoryFilter) -> MemoryFilter:
        """Return the filter with `memories.filter` of the settings for what it leaves open."""
        setting = self._config.memories.filter
        after = max(filter.after, days_ago(setting.recent)) if setting.recent else filter.after
        return replace(filter, kinds=filter.kinds or setting.types, tags=filter.tags or setting.tags, after=after)

    def _context_of(self, query: str, task_id: str | None) -> RecallContext:
        from ralph.memory.lifecycle.task_type import classify_objective
        from ralph.memory.recall.query import RecallContext

        session = self._actor.session_key
        if not task_id:
            return RecallContext(
                title=query, files=find_paths(query), task_type=classify_objective(query), session=session, at=now()
            )
        from ralph.memory.recall.gather import next_context

        context = next_context(self._store, task_id)
        return replace(context, session=session, title=f"{context.title} {query}".strip())

    # --- counts ------------------------------------------------------------------------

    def stats(self) -> MemorySummary:
        """Return counts and averages over all memories."""
        averages = self._memories.stats.averages()
        return MemorySummary(
            total=averages["total"],
            by_state=self._memories.stats.counts("state"),
            by_kind=self._memories.stats.counts("kind"),
            by_task_type=self._memories.stats.counts("task_type"),
            by_source=self._memories.stats.counts("source"),
            average_confidence=averages["confidence"] or 0.0,
            average_success_rate=averages["success_rate"],
            uses=averages["uses"],
            most_used=self._memories.stats.most_used(),
            last_updated=averages["last_updated"],
        )

    def facets(self, query: str = "", filter: MemoryFilter | None = None) -> Facets:
        """Return the number of memories by type, state, source and tag; of those that match a query and a filter.

        Of the best `MAX_FACETED` matches of a query, in any state.
        """
        from ralph.memory.facets import count_all, count_filtered, count_matches

        filter = filter or MemoryFilter()
        if query := clean_query(query):
            matching = self._all_matching(query, filter)
            return count_matches(matching[:MAX_FACETED], filter, is_partial=len(matching) > MAX_FACETED)
        if filter != MemoryFilter():
            return count_filtered(self._memories.stats, filter)
        last = self._memories.history.last_event_seq()
        if self._facets is None or self._facets[0] != last:
            self._facets = last, count_all(self._memories.stats)
        found = self._facets[1]
        return replace(found, stale=self._memories.stats.count_stale(), total=found.state.get("active", 0))

    def _all_matching(self, query: str, filter: MemoryFilter) -> list[Memory]:
        """Return the matches of a query whatever facets are chosen, and one more than are counted if there are more."""
        any_facet = replace(filter, kinds=(), states=tuple(MemoryState), sources=(), tags=(), is_stale=False)
        hits = self._matching(self._context_of(query, None), any_facet, candidates=MAX_FACETED + 1)
        found = [hit.memory for hit in islice(hits, MAX_FACETED + 1)]
        seen = {one.id for one in found}
        more = (hit.memory for hit in self._containing(query, any_facet, seen))
        return [*found, *islice(more, MAX_FACETED + 1 - len(found))]

    def list(
        self, filter: MemoryFilter | None = None, page: Page | None = None, *, oldest: bool = False
    ) -> ResultList[Memory]:
        """Return the memories that match a filter, newest first unless `oldest`.

        Only active memories can be stale: whether they are is determined now, from their files.
        """
        filter = filter or MemoryFilter()
        at = now()
        after = page.after if page else None
        stale: dict[str, str] = {}
        if filter.is_stale:
            filter, stale = replace(filter, is_stale=False), self._current_staleness()
            if not stale:
                return ResultList([])
        ordered = (self._memories.listing.oldest if oldest else self._memories.listing.newest)(filter, after)
        matching = (one for one in ordered if _is_confident(one, filter, at))
        if stale:
            matching = (replace(one, stale=stale[one.id]) for one in matching if one.id in stale)
        return page_of(matching, page)

    def _current_staleness(self) -> dict[str, str]:
        from ralph.memory.freshness import current_staleness

        return current_staleness(self._store, self._root) if self._has_files else {}


def page_of(memories: Iterable[Memory], page: Page | None) -> ResultList[Memory]:
    """Return the memories of a page, or all of them without one."""
    if page is None:
        return ResultList(memories)
    found = islice(memories, min(page.limit + 1, sys.maxsize))
    return paged([(one, (one.created_at, one.id)) for one in found], page)


def _to_recalled(ranked: Iterable[ScoredMemory], context: RecallContext) -> Iterator[RecalledMemory]:
    from ralph.memory.recall.candidates import to_recalled
    from ralph.memory.recall.evidence import describe_evidence, words_as_written

    written = words_as_written(context)
    for hit in ranked:
        yield to_recalled(hit, describe_evidence(hit, written))


def _abridged(memory: Memory, context: RecallContext) -> Memory:
    """Return a memory that is too long for a session with the sentences that matter most for a context."""
    if len(memory.content) <= MAX_SESSION_ENTRY_LENGTH:
        return memory
    from ralph.memory.recall.render import abridged

    query = f"{context.title}\n{context.body}"
    return replace(memory, content=abridged(memory.id, memory.content, query, MAX_SESSION_ENTRY_LENGTH))


def _is_confident(memory: Memory, filter: MemoryFilter, at: str) -> bool:
    """Whether the decayed confidence, which SQL cannot compute, still passes the filter."""
    return not filter.min_confidence or current_confidence(memory, at) >= filter.min_confidence
