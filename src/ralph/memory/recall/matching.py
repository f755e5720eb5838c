"""What matches a search, and where: ranking alone always has a best candidate."""

from __future__ import annotations

import re

from ralph.core.tokenize import tokenize
from ralph.memory.recall.rank import is_common

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ralph.memory.recall.query import RecallContext
    from ralph.memory.recall.scored import ScoredMemory

MIN_COSINE = 0.15
"""Cosine from which a text matches a search by its meaning alone, above what tells nothing."""
MAX_MATCHED_WORDS = 30
"""Number of matched words listed for a text."""
MIN_LITERAL_LENGTH = 2
"""Length of a part of a query from which words that contain it count as matched, in characters."""
SHARE_BEFORE = 0.15
"""Share of an excerpt before its first match, unless the text starts with it."""
SHARE_AT_START = 0.35
"""Share of an excerpt at the beginning of a text in which a match needs no later excerpt."""
_WORD = re.compile(r"[^\W_]+(?:[_.'-]+[^\W_]+)*")


def matching_hits(ranked: Sequence[ScoredMemory], context: RecallContext) -> list[ScoredMemory]:
    """Return the candidates that match a query by themselves.

    Those that mention its subject or mean about the same; if none does, those with at least half of its words, however
    common.
    """
    related = [
        hit
        for hit in ranked
        if hit.is_match and (hit.shares_subject or hit.too_few or hit.amounts.get("cosine", 0.0) >= MIN_COSINE)
    ]
    if related:
        return related
    words = set(tokenize(f"{context.title}\n{context.body}"))
    return [hit for hit in ranked if hit.is_match and 2 * len(words & hit.vocabulary) >= len(words)]


def matching_passages(ranked: Sequence[ScoredMemory], context: RecallContext) -> list[ScoredMemory]:
    """Return the episodes that match a query, and how the sessions ended of which a passage does."""
    matching = {hit.row["seq"]: hit.row["source"] for hit in matching_hits(ranked, context)}
    sources = set(matching.values())
    return [
        hit
        for hit in ranked
        if hit.row["seq"] in matching or (hit.components.get("end") and hit.row["source"] in sources)
    ]


def matched_words(texts: Iterable[str], query: str, *, literally: bool = False) -> list[str]:
    """Return the words of texts, as they are written there, that match a query; most query words match several forms.

    With `literally`, also those that contain a part of the query, as in a search for the beginning of a word.
    """
    stems = {word for word in tokenize(query) if not is_common(word)} or set(tokenize(query))
    parts = [part for part in query.casefold().split() if len(part) >= MIN_LITERAL_LENGTH] if literally else []
    found: dict[str, None] = {}
    for text in texts:
        for word in dict.fromkeys(_WORD.findall(text)):
            if not stems.isdisjoint(tokenize(word)) or any(part in word.casefold() for part in parts):
                found[word] = None
                if len(found) >= MAX_MATCHED_WORDS:
                    return list(found)
    return list(found)


def matched_pattern(words: Sequence[str]) -> re.Pattern[str] | None:
    """Return the pattern that finds matched words in a text; None if there are none."""
    if not words:
        return None
    longest_first = sorted(words, key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")


def matching_excerpt(text: str, words: Sequence[str], length: int) -> str:
    """Return the part of a text that shows its first match, on one line; the beginning if nothing matches."""
    text = " ".join(text.split())
    pattern = matched_pattern(words)
    first = pattern.search(text) if pattern else None
    if first is None or first.start() < SHARE_AT_START * length:
        return text if len(text) <= length else text[: length - 1].rstrip() + "…"
    start = text.rfind(" ", 0, first.start() - int(SHARE_BEFORE * length)) + 1
    part = text[start : start + length - 2].rstrip()
    return f"…{part}" if start + length - 2 >= len(text) else f"…{part}…"
