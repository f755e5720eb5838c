"""Choice of the posting lists that a search reads, and ranking of rows from them.

Few query words are rare. Reading all postings of the others would take time in proportion to the table, and reading
some of them would miss most of the rows that contain several. So rare words are read in full, and frequent ones only
where they occur together with a rare one, which the database finds out without returning the rest.
"""

from __future__ import annotations

from ralph.core.records import record
from ralph.core.tokenize import inverse_document_frequency

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_POSTINGS = 8_000
"""Maximum number of postings of rare words that a search reads."""
MAX_SCANNED = 60_000
"""Maximum number of postings of frequent words that the database reads to find those in common with other words."""
MAX_ANCHORS = 60
"""Maximum number of words that a frequent word is read together with."""
MAX_TOGETHER = 5
"""Number of words of a query up to which the rows that have all of them are read as well."""


@record
class ReadingPlan:
    """Which postings to read of each word of a query; other words are too frequent to be read."""

    whole: tuple[str, ...]
    """Words whose postings are all read."""
    anchor: str
    """Frequent word that is read where any other word occurs, because the rare ones are in few rows; may be empty."""
    shared: tuple[str, ...]
    """Frequent words that are read where one of the words above occurs."""
    together: tuple[str, ...] = ()
    """Words of a short query with several frequent words, which are read where all of them occur."""

    def companions(self, word: str) -> tuple[str, ...]:
        """Return the words of which a row has to contain one for the posting of a frequent word to be read."""
        others = self.shared if word == self.anchor else (self.anchor,) if self.anchor else ()
        return (*others, *self.whole)[:MAX_ANCHORS]


def plan_reading(
    counts: Mapping[str, int], words: Mapping[str, float], total: int, max_postings: int = MAX_POSTINGS
) -> ReadingPlan:
    """Return which postings to read: those that tell most for the time that reading them takes."""

    def cost_per_weight(word: str) -> float:
        return counts[word] / (words[word] * inverse_document_frequency(counts[word], total))

    whole: list[str] = []
    frequent: list[str] = []
    budget = max_postings
    for word in sorted(words, key=cost_per_weight):
        if counts[word] <= budget:
            budget -= counts[word]
            whole.append(word)
        else:
            frequent.append(word)
    has_few = budget > max_postings // 2
    anchor = frequent.pop(0) if frequent and has_few else ""
    read = max_postings - budget + counts.get(anchor, 0)
    scanned = 0
    shared: list[str] = []
    for word in frequent:
        scanned += counts[word] + read
        if scanned > MAX_SCANNED * max_postings // MAX_POSTINGS and (shared or not anchor):
            break
        shared.append(word)
    together = tuple(sorted(words)) if len(whole) + 1 < len(words) <= MAX_TOGETHER else ()
    return ReadingPlan(whole=tuple(whole), anchor=anchor, shared=tuple(shared), together=together)


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


def most_selective(counts: Mapping[str, int], words: Mapping[str, float], max_rows: int) -> dict[str, float]:
    """Return the rarest words that occur in at most `max_rows` rows in total, but at least one word."""
    selected: dict[str, float] = {}
    for word in sorted(words, key=counts.__getitem__):
        max_rows -= counts[word]
        if max_rows < 0 and selected:
            break
        selected[word] = words[word]
    return selected
