"""Staging, validation and promotion of extracted learnings."""

from __future__ import annotations

from ralph.core.records import Source, State, now, record
from ralph.memory.capture.extract import extract
from ralph.memory.lifecycle.staging import refusal, waits
from ralph.store.memory_queries import Wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ralph.core.records import Memory
    from ralph.memory.lifecycle.loop_history import LoopHistory
    from ralph.store import Store
    from ralph.store.memories import Change


@record
class Counts:
    """Numbers of learnings by what happened to them."""

    extracted: int = 0
    merged: int = 0
    """Extracted learnings that supported an existing one."""
    validated: int = 0
    rejected: int = 0
    waiting: int = 0
    """Estimates that need more data before they are validated."""
    promoted: int = 0


def stage(store: Store, histories: Iterable[LoopHistory], change: Change) -> Counts:
    """Extract learnings from histories and stage them; known ones gain support instead."""
    with store.transaction():
        at = now()
        results = [store.memories.add(one, change) for history in histories for one in extract(history, at)]
    return Counts(extracted=len(results), merged=sum(result.what != "added" for result in results))


def staged(store: Store) -> list[Memory]:
    """Return staged memories, oldest first."""
    return list(store.memories.find(Wanted(states=(State.STAGED,))))[::-1]


def validate(store: Store, change: Change, *, only_extracted: bool = False) -> Counts:
    """Validate or reject pending learnings by the rules."""
    validated = rejected = waiting = 0
    with store.transaction():
        at = now()
        for memory in staged(store):
            if memory.validated_at or (only_extracted and memory.source is not Source.AUTOMATIC):
                continue
            reason = refusal(memory)
            if reason and waits(memory):
                waiting += 1
            elif reason:
                rejected += 1
                store.memories.change(
                    memory.id, "rejected", change, state=State.REJECTED, state_reason=reason, updated_at=at
                )
            else:
                validated += 1
                store.memories.change(memory.id, "validated", change, validated_at=at, updated_at=at)
    return Counts(validated=validated, rejected=rejected, waiting=waiting)


def promote(store: Store, change: Change, ids: Sequence[str] = (), *, only_extracted: bool = False) -> Counts:
    """Activate validated learnings: all of them, or those with the given ids."""
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
    """Stage, validate and promote learnings; with `review`, leave the promotion to a person."""
    with store.transaction():
        staging = stage(store, histories, change)
        # Learnings that a person staged wait for a person.
        validation = validate(store, change, only_extracted=True)
        promoted = 0 if review else promote(store, change, only_extracted=True).promoted
    return Counts(
        extracted=staging.extracted,
        merged=staging.merged,
        validated=validation.validated,
        rejected=validation.rejected,
        waiting=validation.waiting,
        promoted=promoted,
    )
