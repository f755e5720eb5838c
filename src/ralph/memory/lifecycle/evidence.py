"""How much the evidence for a learning supports it."""

from __future__ import annotations

import math

from ralph.memory.lifecycle.error_category import TESTS_CATEGORY
from ralph.memory.lifecycle.learnings import number_field, parse_content

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ralph.core.records import Memory

Z = 1.96
"""Quantile of the normal distribution for a two-sided interval of 95 %."""
MIN_TASKS = 2
"""Number of tasks that must support a learning whose outcome never changed because of it."""
MAX_CONFIDENCE = {"strategy": 0.9, "antipattern": 0.8}
"""Maximum confidence by kind, however much supports it."""


def lower_bound(successes: float, trials: float) -> float:
    """Return the lower end of the 95 % Wilson score interval of a success rate.

    It is 0.21 after one success of one, 0.34 after two of two, 0.57 after five of five and 0.72 after ten of ten.
    """
    if trials <= 0:
        return 0.0
    rate, square = min(1.0, successes / trials), Z * Z
    center = rate + square / (2 * trials)
    spread = Z * math.sqrt(rate * (1 - rate) / trials + square / (4 * trials * trials))
    return round(max(0.0, (center - spread) / (1 + square / trials)), 6)


def evidence_confidence(kind: str, content: Mapping[str, object]) -> float | None:
    """Return the confidence that the figures of a strategy or an antipattern support; None if there are none.

    For a strategy it is a bound on the share of its uses that succeeded, for an antipattern on the share of its
    occurrences that failed, which is all of them. A task whose outcome changed counts twice: it failed the other way.
    """
    if kind == "strategy":
        successes = number_field(content, "iterations")
        trials = number_field(content, "uses")
    else:
        successes = trials = number_field(content, "occurrences")
    if kind not in MAX_CONFIDENCE or successes is None or trials is None:
        return None
    turned = number_field(content, "turned") or 0
    return min(lower_bound(successes + turned, trials + turned), MAX_CONFIDENCE[kind])


def lacks_support(memory: Memory) -> bool:
    """Return whether a learning that Ralph concluded rests on one task, and changed the outcome of none.

    In the loop of another program, which does not tell tasks apart, every iteration is a piece of work. That a test
    failed is no lesson in however many tasks: what made it pass is, and is remembered as a fix.
    """
    content = (parse_content(memory.structured_content) if memory.kind in MAX_CONFIDENCE else None) or {}
    tasks = number_field(content, "tasks" if "tasks" in content else "uses")
    if tasks is None or number_field(content, "turned"):
        return False
    return tasks < MIN_TASKS or (memory.kind == "antipattern" and TESTS_CATEGORY in memory.tags)
