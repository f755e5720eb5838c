"""What becomes of a known memory that is stated again. Pure."""

from __future__ import annotations

from ralph.core.records import Memory, MemoryState, replace
from ralph.memory.lifecycle.staging import is_from_talk

SAYS_OTHERWISE = "says otherwise since"
"""Why a memory was superseded, unless it is merged into one that says the same."""


def replaced_reason(by: Memory) -> str:
    """Return why a memory is superseded by one that says something else."""
    from ralph.memory.lifecycle.supersession import stated_at

    return f"{by.id} {SAYS_OTHERWISE} {stated_at(by)[:10]}"


def is_replaced(memory: Memory) -> bool:
    """Return whether a memory was superseded by one that says something else."""
    return memory.state is MemoryState.SUPERSEDED and SAYS_OTHERWISE in memory.state_reason


def revived(known: Memory, new: Memory, by_person: bool) -> Memory:
    """Return a known memory in a live state: active, or staged if the new one is staged.

    What was staged because one session said it is active once another one, or another task, says it too.
    """
    if is_confirmed(known, new):
        return replace(known, state=MemoryState.ACTIVE)
    if known.state is MemoryState.ACTIVE or (known.state is MemoryState.STAGED and not by_person):
        return known
    state = MemoryState.STAGED if new.state is MemoryState.STAGED else MemoryState.ACTIVE
    if known.state is state:
        return known
    return replace(known, state=state, state_reason="", superseded_by=None)


def is_confirmed(known: Memory, new: Memory) -> bool:
    """Return whether a staged sentence of one session is said by another session, or at another task, too."""
    if not is_from_talk(known):
        return False
    is_other_session = new.origin_session is not None and new.origin_session != known.origin_session
    return is_other_session or (new.origin_task is not None and new.origin_task != known.origin_task)


def has_new_origin(known: Memory, new: Memory) -> bool:
    """Return whether a memory comes from another attempt or loop than the known one. A person always counts as new."""
    if new.origin_loops:
        return not set(new.origin_loops) <= set(known.origin_loops)
    known_attempt = (known.origin_run, known.origin_task, known.origin_attempt)
    new_attempt = (new.origin_run, new.origin_task, new.origin_attempt)
    return new.origin_run is None or known_attempt != new_attempt
