"""Ranking of rows from the posting lists of words."""

from __future__ import annotations

from ralph.core.tokenize import rarity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def heaviest(
    found: Mapping[str, Sequence[int]], held_by: Mapping[str, int], words: Mapping[str, float], total: int, most: int
) -> list[int]:
    """Return the rows with the highest total weight of words, best first."""
    from heapq import nlargest

    weights: dict[int, float] = {}
    for word in sorted(found):  # a fixed order makes the floating-point sums reproducible
        weight = words[word] * rarity(held_by[word], total)
        for seq in found[word]:
            weights[seq] = weights.get(seq, 0.0) + weight
    # Rows of equal weight are ordered newest first.
    best = nlargest(most, zip(weights.values(), weights, strict=True))
    return [seq for _, seq in best]


def few_enough(held_by: Mapping[str, int], words: Mapping[str, float], total: int, most: int) -> dict[str, float]:
    """Return the most selective words that occur in at most `most` rows in total, but at least one word."""
    selected: dict[str, float] = {}
    for word in sorted(words, key=lambda word: -words[word] * rarity(held_by[word], total)):
        most -= held_by[word]
        if most < 0 and selected:
            break
        selected[word] = words[word]
    return selected
