"""Recall of memories for a context, used by prompts, `prime`, `search` and all other entry points.

Candidates come from the word index, the files of the top hits, memories learned next to them, links and, if the extra
is installed, vector search. `memory.rank` scores them together, and `memory.choose` selects the few to show. Recall
never changes the store.
"""

from __future__ import annotations

from ralph.core.records import LeftOut, Recalled, now, record, replace
from ralph.memory.recall.query import question
from ralph.memory.recall.rank import Ranking
from ralph.memory.recall.select import FLOOR, MOST, choose
from ralph.store.memory_queries import Wanted, memory_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ralph.core.records import Attempt, FailureReport
    from ralph.memory.recall.query import Context
    from ralph.memory.recall.rank import Scored
    from ralph.store import Store
    from ralph.store.database import Found

CANDIDATES = 120
"""Number of memories fetched from the word index."""
JOURNAL_CANDIDATES = 60
"""Number of journal entries or failure reports fetched from the word index."""
BEST = 20
"""Number of top hits whose neighbors and links are added."""
FILES, OF_A_FILE = 8, 8
"""Number of files of the top hits to follow, and of memories added per file."""


@record
class Recall:
    """Recalled memories, and why others were left out."""

    shown: tuple[Recalled, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


def recall(
    store: Store,
    context: Context,
    wanted: Wanted | None = None,
    most: int = MOST,
    tags: Collection[str] = (),
    *,
    by_meaning: bool = False,
) -> Recall:
    """Return the few memories to show for a context, best first, and why others are left out.

    With `tags`, only memories that have one of them are shown.
    """
    choices = choose(ranked(store, context, wanted, by_meaning=by_meaning), context, most, tags)
    return Recall(
        shown=tuple(recalled(choice.scored, choice.place) for choice in choices if not choice.why_not),
        left_out=tuple(
            LeftOut(
                what=choice.scored.row["title"],
                why=choice.why_not,
                id=choice.scored.row["id"],
                place=choice.place,
                score=choice.scored.score,
                because=tuple(choice.scored.shares.items()),
            )
            for choice in choices
            if choice.why_not
        ),
    )


def ranked(store: Store, context: Context, wanted: Wanted | None = None, *, by_meaning: bool = False) -> list[Scored]:
    """Return all memories that have something in common with a context, best first.

    `by_meaning` adds vector search if the extra is installed; loading the model takes time.
    """
    context = _with_time(context)
    query = question(context)
    memories = store.memories
    result = memories.look_up(query.words, CANDIDATES, wanted)
    ranking = Ranking(context, query, result.held_by, result.total)
    ranking.add(result.rows)
    if by_meaning:
        _add_nearest(store, context, wanted, ranking)
    if not ranking.found:
        return []
    best = ranking.best(BEST)
    pairs = memories.next_to([hit.row["seq"] for hit in best])
    links = memories.linked([hit.row["id"] for hit in best])
    related = [seq for pair in (*pairs, *links) for seq in pair]
    related += memories.touching(ranking.files_of_the_best()[:FILES], OF_A_FILE)
    ranking.add(memories.indexed([seq for seq in dict.fromkeys(related) if seq not in ranking.found], wanted))
    ranking.by_files()
    ranking.by_record()
    if context.failure:
        ranking.by_failure(store.attempts.tasks_that_failed(context.failure))
    ranking.by_links(links)
    ranking.by_neighbours(pairs)
    return ranking.best(len(ranking.found))


def _add_nearest(store: Store, context: Context, wanted: Wanted | None, ranking: Ranking) -> None:
    from ralph.memory.recall.vector_search import near

    nearness = near(store, context)
    if nearness:
        nearest = nearness.current([seq for seq in nearness.nearest() if seq not in ranking.found])
        ranking.add(store.memories.indexed(nearest, wanted))
        ranking.by_meaning(nearness.of(nearness.current(ranking.found)))


def recalled(one: Scored, place: int | None = None) -> Recalled:
    """Return a scored memory with the components of its score and its rank, if it was chosen."""
    return Recalled(memory=memory_in(one.row), score=one.score, because=_components(one), place=place)


def matching_attempts(
    store: Store, context: Context, limit: int, not_run: str = "", floor: float = FLOOR
) -> list[Attempt]:
    """Return journal entries similar to a context, best first, excluding one run."""
    from ralph.store.attempts import attempt_in

    hits = _rank_by_words(context, lambda words: store.attempts.look_up(words, JOURNAL_CANDIDATES, not_run))
    return [attempt_in(hit.row) for hit in hits if hit.evidence >= floor][:limit]


def matching_failures(store: Store, context: Context, limit: int, not_task: str = "") -> list[FailureReport]:
    """Return failure reports of other tasks with the same failure or about the same subject, best first.

    Error texts are not compared word by word, because all stack traces have words in common.
    """
    from ralph.store.attempts import report_in

    same = store.attempts.same_failures(context.failure, limit, not_task) if context.failure else []
    subject = replace(context, errors=())
    hits = _rank_by_words(subject, lambda words: store.attempts.look_up_failures(words, JOURNAL_CANDIDATES, not_task))
    similar = [report_in(hit.row) for hit in hits if hit.evidence >= FLOOR][:limit]
    return list(dict.fromkeys((*same, *similar)))[:limit]


def _with_time(context: Context) -> Context:
    return context if context.at else replace(context, at=now())


def _rank_by_words(context: Context, look_up: Callable[[dict[str, float]], Found]) -> list[Scored]:
    context = _with_time(context)
    query = question(context)
    result = look_up(query.words)
    ranking = Ranking(context, query, result.held_by, result.total)
    ranking.add(result.rows)
    ranking.by_files()
    ranking.by_age()
    return ranking.best(len(ranking.found))


def _components(hit: Scored) -> tuple[tuple[str, float], ...]:
    return tuple(sorted(hit.shares.items(), key=lambda share: -abs(share[1])))
