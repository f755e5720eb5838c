"""A candidate for recall with the components of its score, and the weight of each component."""

from __future__ import annotations

from ralph.core.tokenize import parse_string_list
from ralph.memory.recall.estimate import MAX_NEAREST, NEAREST_SHARE, estimate_relevance

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Row = dict[str, Any]

WEIGHTS = {
    "words": 1.0,
    "paths": 0.45,
    "named": 0.45,
    "title": 0.1,
    "every word": 1.5,
    "files": 2.0,
    "folders": 0.3,
    "no files": 1.0,
    "together": 0.35,
    "links": 0.2,
    "meaning": 0.5,
    "recency": 0.15,
    "date": 0.8,
    "tags": 0.05,
    "confidence": 0.1,
    "success": 0.1,
    "hat": 0.05,
    "task type": 0.05,
    "feature": 0.1,
    "failure": 0.1,
    "stale": -0.3,
    "meant to fail": -0.3,
}
"""Weight of each score component. docs/recall.md lists the measured effect of most of them."""

PROSE_WEIGHTS = {**WEIGHTS, "meaning": 1.0, "recency": 0.3}
"""The same if both the query and the memory are long texts that name no files, such as reports.

The meaning of a long text is known better than that of a sentence, and nothing else tells such texts apart.
"""
MIN_PROSE_WORDS = 40
"""Number of words of a long text."""

EPISODE_WEIGHTS = {
    "words": 1.0,
    "source": 0.3,
    "end": 0.5,
    "meaning": 0.5,
    "recency": 0.05,
    "success": 0.1,
}
"""Weight of each score component of an episode. What only some of them have, such as files, would hide the others."""

FILE_COMPONENTS = ("paths", "files", "folders")
"""Components that only memories with files can have."""
CONTENT_COMPONENTS = ("words", "title", "paths", "named", "meaning")
"""Components that come from the memory itself."""


class ScoredMemory:
    """A candidate memory or episode with its row, score components, total score and estimated relevance."""

    __slots__ = (
        "_estimate",
        "_vocabulary",
        "_weights",
        "amounts",
        "certainty",
        "components",
        "files",
        "inherited",
        "row",
        "score",
        "telling",
        "too_few",
    )

    def __init__(self, row: Row, weights: Mapping[str, float] = WEIGHTS) -> None:
        self.row = row
        self._weights = weights
        self._vocabulary: set[str] | None = None
        self._estimate: float | None = None
        """Estimated relevance by the amounts; None until it is asked for."""
        self.files = parse_string_list(row["files"])
        self.components: dict[str, float] = {}
        self.amounts: dict[str, float] = {}
        """Amount of each kind of evidence, before it is weighted."""
        self.score = 0.0
        self.telling: tuple[str, ...] = ()
        """Words in common with the query that tell something about its subject, most distinctive first."""
        self.too_few: tuple[str, ...] = ()
        """Such words that are too few to count, because a passage may have them by chance."""
        self.certainty = ""
        """Why it certainly belongs to the query; empty if that is not certain."""
        self.inherited = 0.0
        """Estimated relevance that it has because of a neighbor."""

    @property
    def vocabulary(self) -> set[str]:
        """The words of its title and text."""
        if self._vocabulary is None:
            self._vocabulary = {*self.row["title_words"].split(), *self.row["body_words"].split()}
        return self._vocabulary

    @property
    def content_score(self) -> float:
        """The part of the score that comes from its own content."""
        return sum(self.components.get(name, 0.0) for name in CONTENT_COMPONENTS)

    @property
    def shares_subject(self) -> bool:
        """Whether it has something in common with the query by itself, other than common words and its meaning."""
        amounts = self.amounts
        return bool(self.telling or self.certainty or any(map(amounts.get, ("named", "feature", "failure"))))

    @property
    def is_related(self) -> bool:
        """Whether it has something in common with the query by itself, other than common words."""
        return self.shares_subject or self.amounts.get("cosine", 0.0) > 0

    @property
    def is_match(self) -> bool:
        """Whether it matches the query by itself, be it by common words; being near another match is not enough."""
        return self.is_related or any(self.amounts.get(name) for name in ("words", "title", "paths", "tags"))

    @property
    def relevance(self) -> float:
        """The estimated probability that it is relevant."""
        least = max(self.inherited, min(MAX_NEAREST, NEAREST_SHARE * self.amounts.get("nearest", 0.0)))
        if not self.is_related:
            return least
        if self._estimate is None:
            self._estimate = estimate_relevance(self.amounts)
        return max(self._estimate, least)

    def raise_to(self, name: str, amount: float) -> None:
        """Let evidence that is not part of the score have at least this amount."""
        self.amounts[name] = max(self.amounts.get(name, 0.0), amount)
        self._estimate = None

    def add(self, name: str, amount: float) -> None:
        """Add evidence, and its share of the score."""
        if amount:
            self._estimate = None
            self.amounts[name] = self.amounts.get(name, 0.0) + amount
            if name in self._weights:
                share = self._weights[name] * amount
                self.components[name] = self.components.get(name, 0.0) + share
                self.score += share
