"""Recall of what previous loops taught, by the type of the task, its error and its files rather than its words."""

from __future__ import annotations

from ralph.core.records import replace
from ralph.store.memory_queries import MemoryFilter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ralph.core.records import RecalledMemory
    from ralph.memory.recall.query import RecallContext
    from ralph.store import Store

MAX_PER_KIND = {"strategy": 3, "antipattern": 3, "estimate": 1, "convention": 2}
"""Number of learnings shown, by kind."""
MAX_READ = 200
"""Number of the most trusted learnings of each kind that are ranked."""
MIN_CONFIDENCE = 0.3
"""Confidence below which a learning is not shown."""
_REASONS = {"task type": "learned from tasks of the same type", "error": "is about the same error"}
"""What a share of the score means, in words."""


def recall_learnings(store: Store, context: RecallContext, kinds: Iterable[str] = ()) -> list[RecalledMemory]:
    """Return the learnings of previous loops for a task, best first within each kind; `kinds` limits the kinds.

    A strategy, antipattern or estimate is for tasks of one type; an antipattern is also for the error it is about, and
    a convention for files like its examples.
    """
    allowed = set(kinds) or set(MAX_PER_KIND)
    found: list[RecalledMemory] = []
    for kind, limit in MAX_PER_KIND.items():
        if kind in allowed:
            found += _of_kind(store, context, kind)[:limit]
    return found


def _of_kind(store: Store, context: RecallContext, kind: str) -> list[RecalledMemory]:
    filter = MemoryFilter(kinds=(kind,), min_confidence=MIN_CONFIDENCE)
    memories = [one for one in store.memories.listing.most_confident(filter, MAX_READ) if one.structured_content]
    if not memories:
        return []
    from ralph.memory.recall.formulas import is_for_files, rank_by_weights

    found = []
    for one in rank_by_weights(memories, context):
        shares = dict(one.because)
        reasons = [_REASONS[name] for name in _REASONS if shares.get(name)]
        if is_for_files(one.memory, context.files):
            reasons.append("has examples like the files of the task")
        if reasons:
            found.append(replace(one, evidence="; ".join(reasons)))
    return found
