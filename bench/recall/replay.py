"""Replay a set on a ranker and measure it."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean, median
from typing import Any, NamedTuple

from bench.recall.clock import CLOCK
from bench.recall.measures import interval, ndcg, recall, recall_within, reciprocal_rank, size_tokens
from bench.recall.rankers import Ranker
from bench.recall.sets import Added, Store


class Measured(NamedTuple):
    """What a ranker reached on a set."""

    recall_5: float
    recall_5_low: float
    recall_5_high: float
    recall_10: float
    ndcg_10: float
    mrr: float
    recall_budget: float
    query_ms_p50: float
    query_ms_mean: float
    add_seconds: float
    queries: int
    each_recall_5: list[float]
    """Per query, in the order asked, so that two rankers can be compared query by query."""

    def as_json(self) -> dict[str, Any]:
        """Return the numbers without the list of each query."""
        return {name: value for name, value in self._asdict().items() if name != "each_recall_5"}


def replay(make: Callable[[], Ranker], stores: list[Store], budget_tokens: int) -> Measured:
    """Replay the history of every store with a new ranker, and measure."""
    fives: list[float] = []
    tens: list[float] = []
    gains: list[float] = []
    ranks: list[float] = []
    within: list[float] = []
    spent: list[float] = []
    adding = 0.0
    for store in stores:
        sizes: dict[str, int] = {}
        start = CLOCK.now()
        ranker = make()
        adding += CLOCK.now() - start
        try:
            for event in store:
                start = CLOCK.now()
                if isinstance(event, Added):
                    ranker.add(event.memories)
                    adding += CLOCK.now() - start
                    sizes.update((memory["id"], size_tokens(memory)) for memory in event.memories)
                    continue
                ranked = list(dict.fromkeys(ranker.search(event.query, budget_tokens)))
                spent.append(CLOCK.now() - start)
                fives.append(recall(ranked, event.relevant, 5))
                tens.append(recall(ranked, event.relevant, 10))
                gains.append(ndcg(ranked, event.relevant, 10))
                ranks.append(reciprocal_rank(ranked, event.relevant))
                inside = recall_within(ranked, event.relevant, sizes, budget_tokens)
                if inside is not None:
                    within.append(inside)
        finally:
            ranker.close()
    low, high = interval(fives)
    return Measured(
        recall_5=fmean(fives),
        recall_5_low=low,
        recall_5_high=high,
        recall_10=fmean(tens),
        ndcg_10=fmean(gains),
        mrr=fmean(ranks),
        recall_budget=fmean(within) if within else 0.0,
        query_ms_p50=median(spent) * 1000,
        query_ms_mean=fmean(spent) * 1000,
        add_seconds=adding,
        queries=len(fives),
        each_recall_5=fives,
    )
