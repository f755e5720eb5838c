"""Which rows hold the most of what is asked for, from the rows that hold each word."""

from __future__ import annotations

from ralph.memory.words import rarity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def heaviest(
    found: Mapping[str, Sequence[int]], held_by: Mapping[str, int], words: Mapping[str, float], total: int, most: int
) -> list[int]:
    """Give the rows that hold the most of the words' weight, best first."""
    from heapq import nlargest

    weights: dict[int, float] = {}
    for word in sorted(found):  # so that sums, and with them the order, are the same each time
        worth = words[word] * rarity(held_by[word], total)
        for seq in found[word]:
            weights[seq] = weights.get(seq, 0.0) + worth
    # Of equal weight the newest first.
    best = nlargest(most, zip(weights.values(), weights, strict=True))
    return [seq for _, seq in best]


def few_enough(held_by: Mapping[str, int], words: Mapping[str, float], total: int, most: int) -> dict[str, float]:
    """Give the most telling words, as many as are in no more rows than these together; always one."""
    found: dict[str, float] = {}
    for word in sorted(words, key=lambda word: -words[word] * rarity(held_by[word], total)):
        most -= held_by[word]
        if most < 0 and found:
            break
        found[word] = words[word]
    return found
