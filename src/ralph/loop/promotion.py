"""The way of an extracted learning: staged, checked against the rules, promoted."""

from __future__ import annotations

from ralph.memory.extract import extract
from ralph.memory.staging import refusal, waits
from ralph.records import Source, State, now, record
from ralph.store.known_memories import Wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ralph.memory.history import LoopHistory
    from ralph.records import Memory
    from ralph.store import Store
    from ralph.store.memories import Change


@record
class Counts:
    """What happened to learnings on one pass."""

    extracted: int = 0
    merged: int = 0
    """Of the extracted, those that were known and gained support."""
    validated: int = 0
    rejected: int = 0
    waiting: int = 0
    """Estimates that need more data before they are judged."""
    promoted: int = 0


def stage(store: Store, histories: Iterable[LoopHistory], change: Change) -> Counts:
    """Extract what histories teach and stage it; what is known gains support instead."""
    with store.transaction():
        at = now()
        kept = [store.memories.add(one, change) for history in histories for one in extract(history, at)]
    return Counts(extracted=len(kept), merged=sum(one.what != "added" for one in kept))


def staged(store: Store) -> list[Memory]:
    """Give what is staged, oldest first."""
    return list(store.memories.find(Wanted(states=(State.STAGED,))))[::-1]


def validate(store: Store, change: Change, *, only_extracted: bool = False) -> Counts:
    """Check what is pending against the rules."""
    validated = rejected = waiting = 0
    with store.transaction():
        at = now()
        for memory in staged(store):
            if memory.validated_at or (only_extracted and memory.source is not Source.AUTOMATIC):
                continue
            why = refusal(memory)
            if why and waits(memory):
                waiting += 1
            elif why:
                rejected += 1
                store.memories.change(
                    memory.id, "rejected", change, state=State.REJECTED, state_reason=why, updated_at=at
                )
            else:
                validated += 1
                store.memories.change(memory.id, "validated", change, validated_at=at, updated_at=at)
    return Counts(validated=validated, rejected=rejected, waiting=waiting)


def promote(store: Store, change: Change, ids: Sequence[str] = (), *, only_extracted: bool = False) -> Counts:
    """Make validated learnings active: all of them, or the named ones."""
    with store.transaction():
        at = now()
        ready = [
            one
            for one in staged(store)
            if one.validated_at
            and (not ids or one.id in ids)
            and (not only_extracted or one.source is Source.AUTOMATIC)
        ]
        for memory in ready:
            store.memories.change(memory.id, "promoted", change, state=State.ACTIVE, updated_at=at)
    return Counts(promoted=len(ready))


def learn_from(store: Store, histories: Sequence[LoopHistory], change: Change, *, review: bool) -> Counts:
    """Do the whole way at once; with `review` the promotion is left to a person."""
    with store.transaction():
        taken = stage(store, histories, change)
        # What a person staged waits for a person.
        checked = validate(store, change, only_extracted=True)
        promoted = 0 if review else promote(store, change, only_extracted=True).promoted
    return Counts(
        extracted=taken.extracted,
        merged=taken.merged,
        validated=checked.validated,
        rejected=checked.rejected,
        waiting=checked.waiting,
        promoted=promoted,
    )
