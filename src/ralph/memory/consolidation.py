"""Consolidation and retirement of memories at the end of a run. Nothing is erased."""

from __future__ import annotations

import time

from ralph.core.records import MemoryState, now, replace, timestamp
from ralph.memory.lifecycle.confidence import LEARNING_EXPIRY_DAYS, is_expired, needs_confirmation
from ralph.memory.lifecycle.duplicates import find_duplicates, is_consolidation_due, merge_duplicates
from ralph.store.memories import ChangeInfo, change_id
from ralph.store.memory_queries import MemoryFilter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ralph.core.records import Memory
    from ralph.store import Store

DAY_SECONDS = 86_400


def consolidate_memories(store: Store) -> int:
    """Merge near-duplicate memories when there are many; return how many were superseded."""
    total = store.memories.stats.count()
    if not is_consolidation_due(total, store.stats.count_since(store.memories.history.last_time("consolidated"))):
        return 0
    found = find_duplicates(store.memories.all(), now())
    count = sum(len(others) for _, others in found)
    if not count or needs_confirmation(count, total):
        return 0  # suspiciously many: leave it to a person, with ralph memory consolidate
    store.backup("before consolidation")
    return len(merge_clusters(store, found, ChangeInfo(who="ralph", why="consolidation", id=change_id())))


def merge_clusters(store: Store, clusters: Iterable[tuple[Memory, Sequence[Memory]]], change: ChangeInfo) -> set[str]:
    """Supersede the other memories of each cluster by its first; return the superseded ids."""
    superseded: set[str] = set()
    with store.transaction():
        at = now()
        for first, others in clusters:
            if store.memories.consolidate(first, merge_duplicates(first, others, at), others, change):
                superseded |= {other.id for other in others}
    return superseded


def retire_memories(store: Store) -> int:
    """Prune old learnings of runs that have not been used since; return how many."""
    at = now()
    filter = MemoryFilter(before=timestamp(time.time() - LEARNING_EXPIRY_DAYS * DAY_SECONDS))
    outdated = [memory for memory in store.memories.find(filter) if is_expired(memory, at)]
    if not outdated or needs_confirmation(len(outdated), store.memories.stats.count()):
        return 0
    why = "old, and not used for a month"
    change = ChangeInfo(who="ralph", why=why, id=change_id())
    pruned = [(one, replace(one, state=MemoryState.PRUNED, state_reason=why, updated_at=at)) for one in outdated]
    return len(store.memories.update_unmodified(pruned, "pruned", change))
