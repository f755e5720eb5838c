"""Estimate of the probability that a candidate is relevant to a query.

A score orders candidates; it does not tell whether the best of them is any good. The estimate does: a logistic
regression over what a candidate and a query have in common, fitted to prompts with labeled memories (bench/prompts).
It does not depend on the length of the query: words that match nothing change nothing.
"""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

INTERCEPT = -7.35
COEFFICIENTS = {
    "words": 2.3,
    "information": 1.4,
    "identifier": 0.9,
    "covered": 1.2,
    "title": 0.7,
    "tagged": 1.2,
    "cosine": 2.4,
    "files": 4.0,
    "feature": 5.5,
    "failure": 7.5,
    "hat": 0.3,
    "date": 1.5,
    "task type": 0.3,
    "meant to fail": -1.5,
}
"""Log odds for one unit of each kind of evidence."""
NEAREST_SHARE, MAX_NEAREST = 1.5, 0.25
"""Least estimate for what is by far the nearest in meaning, whatever its words, per unit of its lead; and at most."""
INHERITED_SHARE, SOURCE_SHARE = 0.25, 0.5
"""Share of the estimate of a candidate that its neighbors inherit, and other passages of the same session."""
SHORT_TALK = 4
"""Number of passages up to which all of a session are about the same; of a longer one, fewer are."""


def estimate_relevance(amounts: Mapping[str, float]) -> float:
    """Return the probability from 0 to 1 that a candidate with this evidence is relevant."""
    log_odds = INTERCEPT + sum(weight * amounts[name] for name, weight in COEFFICIENTS.items() if name in amounts)
    return 1 / (1 + math.exp(-log_odds))
