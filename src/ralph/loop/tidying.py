"""What is done to the memory at the end of a run, so that it stays small and true. Nothing is erased."""

from __future__ import annotations

import time

from ralph.memory.consolidate import clusters, is_due, merge
from ralph.memory.lifecycle import LEARNING_DAYS, outlived, too_many
from ralph.records import State, now, replace, timestamp
from ralph.store.known_memories import Wanted
from ralph.store.memories import Change, change_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ralph.records import Memory
    from ralph.store import Store

DAY_SECONDS = 86_400


def consolidate(store: Store) -> int:
    """Let one memory stand for its near-duplicates when there are many; give how many were put aside."""
    present = store.memories.count()
    if not is_due(present, store.attempts.count_since(store.memories.last("consolidated"))):
        return 0
    found = clusters(store.memories.all(), now())
    going = sum(len(others) for _, others in found)
    if not going or too_many(going, present):
        return 0  # so many at once are for a person to look at: ralph memory consolidate
    store.backup("before consolidation")
    return len(put_together(store, found, Change(who="ralph", why="consolidation", id=change_id())))


def put_together(store: Store, found: Iterable[tuple[Memory, Sequence[Memory]]], change: Change) -> set[str]:
    """Let the first of each cluster stand for the others; give the ids of those that were put aside."""
    aside: set[str] = set()
    with store.transaction():
        at = now()
        for kept, others in found:
            if store.memories.supersede(kept, merge(kept, others, at), others, change):
                aside |= {other.id for other in others}
    return aside


def retire(store: Store) -> int:
    """Take out of use what runs taught long ago and nothing has spoken for since; give how many."""
    at = now()
    old = Wanted(before=timestamp(time.time() - LEARNING_DAYS * DAY_SECONDS))
    going = [memory for memory in store.memories.find(old) if outlived(memory, at)]
    if not going or too_many(len(going), store.memories.count()):
        return 0
    why = "old, and not used for a month"
    change = Change(who="ralph", why=why, id=change_id())
    pruned = [(one, replace(one, state=State.PRUNED, state_reason=why, updated_at=at)) for one in going]
    return len(store.memories.replace_all(pruned, "pruned", change))
