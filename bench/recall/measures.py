"""How good a ranking is. Every measure lies in 0 to 1, and 1 can always be reached."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

CHARACTERS_PER_TOKEN = 4
RESAMPLES = 1_000
SEED = 1


def size_tokens(memory: Mapping[str, Any]) -> int:
    """Return the size of a memory as it would stand in a prompt."""
    return math.ceil(len(f"### {memory['title']}\n{memory['content']}\n") / CHARACTERS_PER_TOKEN)


def recall(ranked: Sequence[str], relevant: set[str], first: int) -> float:
    """Return the share of what could be among the first that is."""
    return sum(id in relevant for id in ranked[:first]) / min(len(relevant), first)


def ndcg(ranked: Sequence[str], relevant: set[str], first: int) -> float:
    """Return the gain of the first, each worth less the later it comes, against the best order there is."""
    gain = sum(1 / math.log2(place + 2) for place, id in enumerate(ranked[:first]) if id in relevant)
    return gain / sum(1 / math.log2(place + 2) for place in range(min(len(relevant), first)))


def reciprocal_rank(ranked: Sequence[str], relevant: set[str]) -> float:
    """Return 1 divided by the place of the first relevant memory; 0 if there is none."""
    return next((1 / place for place, id in enumerate(ranked, start=1) if id in relevant), 0.0)


def packed(ranked: Sequence[str], sizes: Mapping[str, int], budget_tokens: int) -> list[str]:
    """Return what fits, best first; a memory too large for what is left is passed over."""
    inside, left = [], budget_tokens
    for id in ranked:
        if sizes[id] <= left:
            inside.append(id)
            left -= sizes[id]
    return inside


def recall_within(
    ranked: Sequence[str], relevant: set[str], sizes: Mapping[str, int], budget_tokens: int
) -> float | None:
    """Return the share of what could be inside the budget that is; None if nothing relevant could be."""
    possible, left = 0, budget_tokens
    for size in sorted(sizes[id] for id in relevant):
        if size > left:
            break
        possible += 1
        left -= size
    if not possible:
        return None
    return min(1.0, sum(id in relevant for id in packed(ranked, sizes, budget_tokens)) / possible)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return where the mean would lie 95 times of 100, had other queries of the same sort been asked."""
    chance = random.Random(SEED)
    means = sorted(fmean(chance.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES) - 1]


def may_be_noise(better: Sequence[float], worse: Sequence[float]) -> bool:
    """Return whether a lead over the same queries could be chance."""
    low, high = interval([a - b for a, b in zip(better, worse, strict=True)])
    return low <= 0 <= high
