"""Whether what a person types into a session has a subject, or is something like "go on, but keep it shorter"."""

from __future__ import annotations

from ralph.core.tokenize import tokenize
from ralph.memory.recall.common_words import everyday_shares
from ralph.memory.recall.rank import is_common

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.memory.recall.query import RecallContext
    from ralph.memory.recall.scored import ScoredMemory

MAX_NAMING_WORDS = 5
"""Number of words up to which a tag in a prompt is what the prompt is about, however common a word it is."""
MIN_QUERY_WORDS, MIN_COMMON_WORDS = 2.0, 0.6
"""Number of words of a subject from which a query has one, and that a candidate shares with a query that has none.

Everyday words count as a part of a word.
"""
NO_SUBJECT = "the prompt names no subject, and has only everyday words in common with it"
"""Reason why a candidate is not shown."""


def without_subject(hits: Sequence[ScoredMemory], context: RecallContext) -> list[ScoredMemory]:
    """Return the candidates that share no subject with a query, which has none of its own."""
    words = tokenize("\n".join((context.title, context.body, *context.errors, *context.files)))
    shares = everyday_shares({word for word in words if not is_common(word)})
    if sum(shares.values()) >= MIN_QUERY_WORDS:
        return []
    naming = ["failure", "named"]
    if len(context.title.split()) <= MAX_NAMING_WORDS:
        naming.append("subject tag")
    return [
        hit
        for hit in hits
        if not any(map(hit.amounts.get, naming))
        and sum(shares.get(word, 0.0) for word in hit.telling) < MIN_COMMON_WORDS
    ]
