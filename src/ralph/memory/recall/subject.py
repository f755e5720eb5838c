"""Whether what a person types into a session has a subject, or is something like "go on, but keep it shorter"."""

from __future__ import annotations

from ralph.core.tokenize import tokenize
from ralph.memory.recall.everyday_words import STEMS
from ralph.memory.recall.rank import is_common

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ralph.memory.recall.query import RecallContext
    from ralph.memory.recall.scored import ScoredMemory

MIN_QUERY_WORDS, MIN_COMMON_WORDS = 2.0, 0.6
"""Number of words of a subject from which a query has one, and that a candidate shares with a query that has none.

Everyday words count as a part of a word.
"""
NO_SUBJECT = "the prompt names no subject, and has only everyday words in common with it"
"""Reason why a candidate is not shown."""


def without_subject(hits: Sequence[ScoredMemory], context: RecallContext) -> list[ScoredMemory]:
    """Return the candidates that share no subject with a query, which has none of its own."""
    words = tokenize("\n".join((context.title, context.body, *context.errors, *context.files)))
    shares = _shares({word for word in words if not is_common(word)})
    if sum(shares.values()) >= MIN_QUERY_WORDS:
        return []
    return [hit for hit in hits if sum(shares.get(word, 0.0) for word in hit.telling) < MIN_COMMON_WORDS]


def _shares(words: Iterable[str]) -> dict[str, float]:
    """Return how much of a word each counts: less, the more conversations about nothing in particular have it."""
    shares = dict.fromkeys(words, 1.0)
    for count, stems in STEMS.items():
        for word in shares.keys() & set(stems.split()):
            shares[word] = 1 / (1 + count)
    return shares
