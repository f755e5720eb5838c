"""Recall of memories for a context, used by prompts, `prime`, `search` and all other entry points.

The path: `query` turns a context into weighted words, the candidates come from here (the word index, the files of the
top hits, memories learned next to them, links and, if the extra is installed, vector search), `rank` scores them
together, `select` picks the few to show, and `render` or `prime` makes text of them. Recall never changes the store.
"""

from __future__ import annotations

from ralph.core.records import OmittedItem, RecalledMemory, now, record, replace
from ralph.memory.recall.query import build_query
from ralph.memory.recall.rank import Ranking
from ralph.memory.recall.select import MAX_SHOWN, PROMPT_CUT, select
from ralph.store.memory_queries import MemoryFilter, row_to_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ralph.core.records import Attempt, FailureReport
    from ralph.memory.recall.query import RecallContext
    from ralph.memory.recall.scored import ScoredMemory
    from ralph.memory.recall.select import Cut
    from ralph.store import Store
    from ralph.store.database import WordMatches

MAX_CANDIDATES = 120
"""Number of memories fetched from the word index."""
MAX_WITHOUT_WORDS = 10
"""Number of memories of the same feature, and of the same failure, that are candidates whatever their words."""
MAX_JOURNAL_CANDIDATES = 60
"""Number of journal entries or failure reports fetched from the word index."""
EXPANDED_HITS = 20
"""Number of top hits whose neighbors and links are added."""
EXPANDED_FILES, MEMORIES_PER_FILE = 8, 8
"""Number of files of the top hits to follow, and of memories added per file."""


@record
class RecallResult:
    """Recalled memories, and why others were left out."""

    shown: tuple[RecalledMemory, ...] = ()
    left_out: tuple[OmittedItem, ...] = ()


def recall_memories(
    store: Store,
    context: RecallContext,
    filter: MemoryFilter | None = None,
    limit: int = MAX_SHOWN,
    tags: Collection[str] = (),
    *,
    cut: Cut = PROMPT_CUT,
    by_meaning: bool = False,
    may_load: bool = True,
) -> RecallResult:
    """Return the few memories to show for a context, best first, and why others are left out.

    With `tags`, only memories that have one of them are shown.
    """
    ranked = rank_memories(store, context, filter, by_meaning=by_meaning, may_load=may_load)
    choices = select(ranked, context, limit, tags, cut)
    return RecallResult(
        shown=tuple(
            to_recalled(choice.scored, choice.evidence, choice.place)
            for choice in choices
            if not choice.excluded_because
        ),
        left_out=tuple(
            OmittedItem(
                what=choice.scored.row["title"],
                why=choice.excluded_because,
                id=choice.scored.row["id"],
                place=choice.place,
                score=choice.scored.score,
                because=tuple(choice.scored.components.items()),
                relevance=choice.scored.relevance,
                evidence=choice.evidence,
            )
            for choice in choices
            if choice.excluded_because
        ),
    )


def rank_memories(
    store: Store,
    context: RecallContext,
    filter: MemoryFilter | None = None,
    *,
    by_meaning: bool = False,
    may_load: bool = True,
    candidates: int = MAX_CANDIDATES,
) -> list[ScoredMemory]:
    """Return all memories that have something in common with a context, best first.

    `by_meaning` adds vector search if the extra is installed. Unless `may_load`, another process has to do it, since
    loading the model takes time.
    """
    context = _with_time(context)
    query = build_query(context)
    memories = store.memories
    result = memories.index.search_words(query.words, candidates, filter)
    ranking = Ranking(context, query, result.word_counts, result.total, project=store.project_name)
    ranking.add(result.rows)
    if by_meaning:
        _add_nearest(store, context, filter, ranking, may_load=may_load)
    failed = store.failures.tasks_with(context.failure) if context.failure else set()
    same = memories.index.seqs_of(context.feature, failed, MAX_WITHOUT_WORDS)
    ranking.add(memories.index.rows_with_words([seq for seq in same if seq not in ranking.hits], filter))
    if not ranking.hits:
        return []
    best = ranking.top(EXPANDED_HITS)
    pairs = memories.index.neighbor_pairs([hit.row["seq"] for hit in best])
    links = memories.index.linked_pairs([hit.row for hit in best])
    related = [seq for pair in (*pairs, *links) for seq in pair]
    related += memories.index.seqs_naming_files(ranking.top_files()[:EXPANDED_FILES], MEMORIES_PER_FILE)
    ranking.add(
        memories.index.rows_with_words([seq for seq in dict.fromkeys(related) if seq not in ranking.hits], filter)
    )
    ranking.score_shared_files()
    ranking.score_metadata()
    ranking.score_failures(failed)
    ranking.score_links(links)
    ranking.score_neighbors(pairs)
    return ranking.top(len(ranking.hits))


def _add_nearest(
    store: Store, context: RecallContext, filter: MemoryFilter | None, ranking: Ranking, *, may_load: bool
) -> None:
    from ralph.memory.recall.nearest import find_similar

    similar = find_similar(store, context, ranking.hits, may_load=may_load)
    nearest = [seq for seq in similar if seq not in ranking.hits]
    ranking.add(store.memories.index.rows_with_words(nearest, filter))
    ranking.score_similarity(similar)


def to_recalled(hit: ScoredMemory, evidence: str, place: int | None = None) -> RecalledMemory:
    """Return a scored memory with the components of its score, what makes it relevant, and its rank if chosen."""
    return RecalledMemory(
        memory=row_to_memory(hit.row),
        score=hit.score,
        because=_components(hit),
        place=place,
        relevance=hit.relevance,
        evidence=evidence,
    )


def find_similar_attempts(
    store: Store, context: RecallContext, limit: int, exclude_run: str = "", minimum: float = PROMPT_CUT.minimum
) -> list[Attempt]:
    """Return journal entries similar to a context, best first, excluding one run."""
    from ralph.store.attempts import row_to_attempt

    hits = _rank_by_words(context, lambda words: store.attempts.search(words, MAX_JOURNAL_CANDIDATES, exclude_run))
    return [row_to_attempt(hit.row) for hit in hits if hit.relevance >= minimum][:limit]


def find_similar_failures(
    store: Store, context: RecallContext, limit: int, exclude_task: str = ""
) -> list[FailureReport]:
    """Return failure reports of other tasks with the same failure or about the same subject, best first.

    Error texts are not compared word by word, because all stack traces have words in common.
    """
    from ralph.store.failures import row_to_failure_report

    same = store.failures.with_fingerprint(context.failure, limit, exclude_task) if context.failure else []
    subject = replace(context, errors=())
    hits = _rank_by_words(subject, lambda words: store.failures.search(words, MAX_JOURNAL_CANDIDATES, exclude_task))
    similar = [row_to_failure_report(hit.row) for hit in hits if hit.relevance >= PROMPT_CUT.minimum][:limit]
    return list(dict.fromkeys((*same, *similar)))[:limit]


def _with_time(context: RecallContext) -> RecallContext:
    return context if context.at else replace(context, at=now())


def _rank_by_words(context: RecallContext, look_up: Callable[[dict[str, float]], WordMatches]) -> list[ScoredMemory]:
    context = _with_time(context)
    query = build_query(context)
    result = look_up(query.words)
    ranking = Ranking(context, query, result.word_counts, result.total)
    ranking.add(result.rows)
    ranking.score_shared_files()
    ranking.score_recency()
    return ranking.top(len(ranking.hits))


def _components(hit: ScoredMemory) -> tuple[tuple[str, float], ...]:
    return tuple(sorted(hit.components.items(), key=lambda share: -abs(share[1])))
