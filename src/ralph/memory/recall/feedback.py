"""Which files and folders a query is about, by what the best matches touch.

Each of the best matches votes for the files that it touches, and so do those nearest in meaning. What gets most of the
votes is probably what the task will touch, so memories about it rank higher, whatever their words.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from ralph.memory.recall.scored import ScoredMemory

VOTERS, VOTE_EXPONENT = 5, 5
"""Number of best matches that vote, and the exponent that favors the first of them."""
SIMILAR_VOTERS, SIMILAR_EXPONENT = 10, 3
"""The same for those nearest in meaning."""
SIMILAR_VOTES = 0.3
"""Share of the votes that those nearest in meaning have, where the model is installed."""
SPLIT_EXPONENT = 0.25
"""Exponent by which the vote of a memory that touches many files counts less for each of them."""
PRIOR_CHANCE = 0.05
"""Chance that a query is about a file that nobody votes for."""
COVERAGE_HITS = 20
"""Number of best matching texts that tell how many candidates name files."""
CLOSE_SECOND = 0.8
"""Word score of the second best match, relative to the best, from which words alone do not single out one."""


def votes(hits: Collection[ScoredMemory], place_of: Callable[[str], str]) -> dict[str, float]:
    """Return the share of the votes that each file or folder gets."""
    by_score = {hit: hit.score for hit in hits}
    by_meaning = {hit: hit.amounts["meaning"] for hit in hits if "meaning" in hit.amounts}
    share = SIMILAR_VOTES if any(by_meaning.values()) else 0.0
    result = _shares(by_score, VOTERS, VOTE_EXPONENT, place_of)
    if share:
        result = {place: (1 - share) * vote for place, vote in result.items()}
        for place, vote in _shares(by_meaning, SIMILAR_VOTERS, SIMILAR_EXPONENT, place_of).items():
            result[place] = result.get(place, 0.0) + share * vote
    return result


def _shares(
    scores: Mapping[ScoredMemory, float], voters: int, exponent: int, place_of: Callable[[str], str]
) -> dict[str, float]:
    best = sorted(scores, key=lambda hit: (-scores[hit], -hit.row["seq"]))[:voters]
    total = sum(scores[hit] ** exponent for hit in best)
    result: dict[str, float] = {}
    for hit in best if total else ():
        places = set(map(place_of, hit.files))
        for place in places:
            vote = scores[hit] ** exponent / total / len(places) ** SPLIT_EXPONENT
            result[place] = result.get(place, 0.0) + vote
    return result


def chance(places: Iterable[str], votes: Mapping[str, float]) -> float:
    """Return the chance that the query is about one of these files or folders."""
    none = 1.0
    for place in places:
        none *= 1 - max(votes.get(place, 0.0), PRIOR_CHANCE)
    return 1 - none


def file_weight(hits: Sequence[ScoredMemory], scores: Sequence[float]) -> float:
    """Return how much files count for candidates with these word scores, from 0 to 1.

    Evidence that only some candidates can have must not push out the others, nor one that words single out.
    """
    best = sorted(zip(scores, hits, strict=True), key=lambda pair: -pair[0])[:COVERAGE_HITS]
    coverage = sum(1 for _, hit in best if hit.files) / len(best) if best else 0.0
    first, second = sorted((*scores, 0.0, 0.0), reverse=True)[:2]
    ambiguity = min(1.0, second / (CLOSE_SECOND * first)) if first else 1.0
    return coverage**2 * ambiguity
