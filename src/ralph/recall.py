"""Find what matters for a context: the one recall behind prompts, `prime`, `search` and every other door.

Candidates come from the index of words, the files the best of them touch, what was learned next to them, what links
to them, and, where it is installed, from their meaning. `memory.rank` scores them together, `memory.choose` keeps the
few to show. Reading changes nothing.
"""

from __future__ import annotations

from ralph.memory.choose import FLOOR, MOST, choose
from ralph.memory.question import question
from ralph.memory.rank import Ranking
from ralph.records import LeftOut, Recalled, now, record, replace
from ralph.store.known_memories import Wanted, memory_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ralph.memory.question import Context
    from ralph.memory.rank import Scored
    from ralph.records import Attempt, FailureReport
    from ralph.store import Store
    from ralph.store.database import Found

CANDIDATES = 120
JOURNAL_CANDIDATES = 60
BEST = 20
"""Of so many of the best the neighbours and links are looked at."""
FILES, OF_A_FILE = 8, 8


@record
class Recall:
    """What was found for a context: what to show, and of the rest why not."""

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
    """Give the few memories to show for a context, best first, and why the others are left out.

    With `tags`, only what has one of them is shown.
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
    """Give the memories that have something in common with a context, best first.

    `by_meaning` also looks at what they mean, where the extra is installed: that takes time to load.
    """
    context = _dated(context)
    asked = question(context)
    memories = store.memories
    found = memories.look_up(asked.words, CANDIDATES, wanted)
    ranking = Ranking(context, asked, found.held_by, found.total)
    ranking.add(found.rows)
    if by_meaning:
        _add_nearest(store, context, wanted, ranking)
    if not ranking.found:
        return []
    best = ranking.best(BEST)
    pairs = memories.next_to([one.row["seq"] for one in best])
    links = memories.linked([one.row["id"] for one in best])
    near = [seq for pair in (*pairs, *links) for seq in pair]
    near += memories.touching(ranking.files_of_the_best()[:FILES], OF_A_FILE)
    ranking.add(memories.indexed([seq for seq in dict.fromkeys(near) if seq not in ranking.found], wanted))
    ranking.by_files()
    ranking.by_record()
    if context.failure:
        ranking.by_failure(store.attempts.tasks_that_failed(context.failure))
    ranking.by_links(links)
    ranking.by_neighbours(pairs)
    return ranking.best(len(ranking.found))


def _add_nearest(store: Store, context: Context, wanted: Wanted | None, ranking: Ranking) -> None:
    from ralph.nearness import near

    nearness = near(store, context)
    if nearness:
        nearest = nearness.current([seq for seq in nearness.nearest() if seq not in ranking.found])
        ranking.add(store.memories.indexed(nearest, wanted))
        ranking.by_meaning(nearness.of(nearness.current(ranking.found)))


def recalled(one: Scored, place: int | None = None) -> Recalled:
    """Give a memory that was found with its score, what that is made of, and its place if it was chosen."""
    return Recalled(memory=memory_in(one.row), score=one.score, because=_because(one), place=place)


def matching_attempts(
    store: Store, context: Context, limit: int, not_run: str = "", floor: float = FLOOR
) -> list[Attempt]:
    """Give journal entries that have something in common with a context, best first, none of one run."""
    from ralph.store.attempts import attempt_in

    found = _by_words(context, lambda words: store.attempts.look_up(words, JOURNAL_CANDIDATES, not_run))
    return [attempt_in(one.row) for one in found if one.evidence >= floor][:limit]


def matching_failures(store: Store, context: Context, limit: int, not_task: str = "") -> list[FailureReport]:
    """Give failure reports of other tasks that have something in common with a context, best first.

    What every trace has in common does not count: the same failure does, and what the task is about.
    """
    from ralph.store.attempts import report_in

    same = store.attempts.same_failures(context.failure, limit, not_task) if context.failure else []
    about = replace(context, errors=())
    found = _by_words(about, lambda words: store.attempts.look_up_failures(words, JOURNAL_CANDIDATES, not_task))
    like = [report_in(one.row) for one in found if one.evidence >= FLOOR][:limit]
    return list(dict.fromkeys((*same, *like)))[:limit]


def _dated(context: Context) -> Context:
    return context if context.at else replace(context, at=now())


def _by_words(context: Context, look_up: Callable[[dict[str, float]], Found]) -> list[Scored]:
    context = _dated(context)
    asked = question(context)
    found = look_up(asked.words)
    ranking = Ranking(context, asked, found.held_by, found.total)
    ranking.add(found.rows)
    ranking.by_files()
    ranking.by_age()
    return ranking.best(len(ranking.found))


def _because(one: Scored) -> tuple[tuple[str, float], ...]:
    return tuple(sorted(one.shares.items(), key=lambda share: -abs(share[1])))
