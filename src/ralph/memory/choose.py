"""Choose the few to show of what was ranked: those with something to say, each different, of every kind.

A handful that fits helps; a long list misleads. So what has little in common with the task is left out even when
nothing else is there, what says nearly the same as a better one is left out, and of equally good ones the kind that is
not there yet goes first.
"""

from __future__ import annotations

import re

from ralph.memory.words import texts_in
from ralph.records import record, session_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ralph.memory.question import Context
    from ralph.memory.rank import Scored

MOST = 8
FLOOR = 1.1
"""A memory that says less than this of what was asked is no answer, however few others there are.

Of memories that answer a question 97 % say more; of the best that a question of another world finds, 15 %.
"""
LOST = 0.35
"""A memory whose confidence has sunk this low by attempts that failed is not shown any more."""
LEAST_LOSSES = 4
"""So many more losses than wins it takes, however unsure a memory was from the start."""
NEARLY_THE_SAME = 0.7
"""The share of all their words that two memories have in common when one is enough."""
SAME_KIND = 0.93
"""Of each kind the next one counts a little less than the one before."""


_NO = re.compile(r"\b(?:not?|never|none|without|avoid|cannot)\b|n't\b", re.IGNORECASE)


@record
class Choice:
    """What became of one that was ranked: shown, or the reason why not."""

    scored: Scored
    place: int
    """In the ranking, from 1."""
    why_not: str = ""


def choose(ranked: Sequence[Scored], context: Context, most: int = MOST, tags: Collection[str] = ()) -> list[Choice]:
    """Give what becomes of each, in the order of the ranking; the shown ones have no reason why not.

    With `tags`, only what has one of them is shown.
    """
    why_not: dict[int, str] = {}
    chosen: list[Scored] = []
    waiting: list[Scored] = []
    for one in ranked:
        reason = _ruled_out(one, context, tags)
        if reason:
            why_not[one.row["seq"]] = reason
        else:
            waiting.append(one)
    kinds: dict[str, int] = {}
    while waiting and len(chosen) < most:
        best = max(waiting, key=lambda one: one.score * SAME_KIND ** kinds.get(one.row["kind"], 0))
        waiting.remove(best)
        if twin := next((other for other in chosen if _nearly_the_same(best, other)), None):
            why_not[best.row["seq"]] = f"says nearly the same as {twin.row['id']}"
            continue
        chosen.append(best)
        kinds[best.row["kind"]] = kinds.get(best.row["kind"], 0) + 1
    why_not |= {one.row["seq"]: f"not among the best {most}" for one in waiting}
    return [
        Choice(scored=one, place=place, why_not=why_not.get(one.row["seq"], "")) for place, one in enumerate(ranked, 1)
    ]


def _ruled_out(one: Scored, context: Context, tags: Collection[str]) -> str:
    if one.row["id"] in context.shown:
        return "was shown already"
    if context.session and session_of(one.row) == context.session:
        return "is of this very session"
    if tags and not set(tags) & set(texts_in(one.row["tags"])):
        return "has none of the configured tags"
    if one.row["losses"] - one.row["wins"] >= LEAST_LOSSES and one.row["confidence"] <= LOST:
        tried = one.row["wins"] + one.row["losses"]
        return f"did not help: of {tried} attempts it was shown to, {one.row['wins']} got their task done"
    if one.evidence < FLOOR:
        needed = f"evidence {one.evidence:.2f}, at least {FLOOR:g} is needed whatever the score"
        return f"shares too few telling words or files with the task ({needed})"
    return ""


def _says_no(one: Scored) -> bool:
    return bool(_NO.search(f"{one.row['title']}\n{one.row['body']}"))


def _nearly_the_same(one: Scored, other: Scored) -> bool:
    if _says_no(one) != _says_no(other):
        return False  # the one may say the contrary of the other
    ours, theirs = one.vocabulary, other.vocabulary
    common = len(ours & theirs)
    return common >= NEARLY_THE_SAME * (len(ours) + len(theirs) - common)
