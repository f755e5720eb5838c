"""Ranking of rows from the posting lists of words."""

from __future__ import annotations

from ralph.core.tokenize import inverse_document_frequency

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def top_rows(
    found: Mapping[str, Sequence[int]],
    document_counts: Mapping[str, int],
    words: Mapping[str, float],
    total: int,
    limit: int,
) -> list[int]:
    """Return the rows with the highest total weight of words, best first."""
    from heapq import nlargest

    weights: dict[int, float] = {}
    for word in sorted(found):  # a fixed order makes the floating-point sums reproducible
        weight = words[word] * inverse_document_frequency(document_counts[word], total)
        for seq in found[word]:
            weights[seq] = weights.get(seq, 0.0) + weight
    # Rows of equal weight are ordered newest first.
    best = nlargest(limit, zip(weights.values(), weights, strict=True))
    return [seq for _, seq in best]


def most_selective(
    document_counts: Mapping[str, int], words: Mapping[str, float], total: int, max_rows: int
) -> dict[str, float]:
    """Return the most selective words that occur in at most `max_rows` rows in total, but at least one word."""
    selected: dict[str, float] = {}
    for word in sorted(words, key=lambda word: -words[word] * inverse_document_frequency(document_counts[word], total)):
        max_rows -= document_counts[word]
        if max_rows < 0 and selected:
            break
        selected[word] = words[word]
    return selected
