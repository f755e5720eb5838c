"""Consolidation and retirement of memories at the end of a run. Nothing is erased."""

from __future__ import annotations

import time

from ralph.core.records import State, now, replace, timestamp
from ralph.memory.lifecycle.confidence import LEARNING_DAYS, outlived, too_many
from ralph.memory.lifecycle.duplicates import clusters, is_due, merge
from ralph.store.memories import Change, change_id
from ralph.store.memory_queries import Wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ralph.core.records import Memory
    from ralph.store import Store

DAY_SECONDS = 86_400


def consolidate(store: Store) -> int:
    """Merge near-duplicate memories when there are many; return how many were superseded."""
    total = store.memories.count()
    if not is_due(total, store.attempts.count_since(store.memories.last("consolidated"))):
        return 0
    found = clusters(store.memories.all(), now())
    count = sum(len(others) for _, others in found)
    if not count or too_many(count, total):
        return 0  # suspiciously many: leave it to a person, with ralph memory consolidate
    store.backup("before consolidation")
    return len(put_together(store, found, Change(who="ralph", why="consolidation", id=change_id())))


def put_together(store: Store, found: Iterable[tuple[Memory, Sequence[Memory]]], change: Change) -> set[str]:
    """Supersede the other memories of each cluster by its first; return the superseded ids."""
    superseded: set[str] = set()
    with store.transaction():
        at = now()
        for first, others in found:
            if store.memories.supersede(first, merge(first, others, at), others, change):
                superseded |= {other.id for other in others}
    return superseded


def retire(store: Store) -> int:
    """Prune old learnings of runs that have not been used since; return how many."""
    at = now()
    filter = Wanted(before=timestamp(time.time() - LEARNING_DAYS * DAY_SECONDS))
    outdated = [memory for memory in store.memories.find(filter) if outlived(memory, at)]
    if not outdated or too_many(len(outdated), store.memories.count()):
        return 0
    why = "old, and not used for a month"
    change = Change(who="ralph", why=why, id=change_id())
    pruned = [(one, replace(one, state=State.PRUNED, state_reason=why, updated_at=at)) for one in outdated]
    return len(store.memories.replace_all(pruned, "pruned", change))
