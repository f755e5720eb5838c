"""What goes out over HTTP where it is not a record of ours as it is."""

from __future__ import annotations

from typing import Any

import msgspec

from ralph.memory.lifecycle import faded
from ralph.memory.public import public_fields
from ralph.memory.timeline import changed_fields
from ralph.records import Memory, MemoryEvent, Recalled, now
from ralph.remembering import Why
from ralph.store.memories import Changed, Kept


class PublicMemory(msgspec.Struct, kw_only=True):
    """A memory, under the names the published export gives its fields."""

    id: str
    type: str
    title: str
    content: str
    confidence: float
    """As it was last set."""
    confidence_now: float
    """It falls while nothing speaks for the memory."""
    tags: tuple[str, ...]
    file_refs: tuple[str, ...]
    created_by_hat: str | None
    source: str
    use_count: int
    success_rate: float | None
    support: int
    """How often it was learned."""
    state: str
    state_reason: str
    superseded_by: str | None
    task_type: str | None
    feature: str | None
    structured_content: Any
    created_by_task: str | None
    created_by_run: str | None
    created_by_attempt: int | None
    created_by_session: str | None
    source_loops: tuple[str, ...]
    created_at: str
    updated_at: str
    last_used_at: str | None
    verified_at: str | None
    validated_at: str | None
    stale: str
    """What has become of its files since, if that makes it doubtful."""
    wins: int
    losses: int


class ChangedMemory(PublicMemory, kw_only=True):
    """A memory as it is after a change."""

    event: int | None
    """The number of the change in its history, which undo takes as `only`; nothing when there was none to make."""


def public(memory: Memory) -> PublicMemory:
    """Give a memory as other programs see it."""
    return PublicMemory(**_fields(memory))


def changed_memory(changed: Changed) -> ChangedMemory:
    """Give a memory after a change."""
    return ChangedMemory(**_fields(changed.memory), event=changed.event)


def _fields(memory: Memory) -> dict[str, Any]:
    beside = {"confidence_now": faded(memory, now()), "wins": memory.wins, "losses": memory.losses}
    return public_fields(memory) | beside


class KeptMemory(msgspec.Struct):
    """A memory that was to be kept, and what became of it."""

    what: str
    """`added`, or what was done to one that says the same: `learned again`, `revived`, `known`."""
    memory: PublicMemory
    event: int | None
    """The number of that in its history, which undo takes as `only`; nothing when nothing was changed."""


def kept_memory(kept: Kept) -> KeptMemory:
    """Give what became of a memory that was to be kept."""
    return KeptMemory(what=kept.what, memory=public(kept.memory), event=kept.event)


class ScoreShare(msgspec.Struct):
    """A part of a score."""

    name: str
    """Where it comes from: words, files, confidence, …"""
    share: float


class FoundMemory(msgspec.Struct):
    """A memory that was found, and why."""

    memory: PublicMemory
    score: float
    because: list[ScoreShare]
    """What the score is made of, the largest share first."""


def found_memory(one: Recalled) -> FoundMemory:
    """Give a memory that was found."""
    return FoundMemory(memory=public(one.memory), score=one.score, because=_shares(one.because))


class WhyShown(msgspec.Struct, kw_only=True):
    """Why the next prompt for a task shows a memory, or does not."""

    memory: PublicMemory
    task_id: str
    score: float | None
    because: list[ScoreShare]
    rank: int | None
    """Its place among those that have to do with the task, from 1."""
    ranked: int
    """How many have a place."""
    is_shown: bool
    reason: str
    """Why it is not shown; empty when it is."""


def why_shown(why: Why) -> WhyShown:
    """Give why a memory is shown for a task or not."""
    return WhyShown(
        memory=public(why.memory),
        task_id=why.task_id,
        score=why.score,
        because=_shares(why.because),
        rank=why.rank,
        ranked=why.ranked,
        is_shown=why.is_shown,
        reason=why.reason,
    )


def _shares(because: tuple[tuple[str, float], ...]) -> list[ScoreShare]:
    return [ScoreShare(name=name, share=share) for name, share in because]


class ChangedField(msgspec.Struct):
    """A field before and after a change."""

    was: Any
    became: Any


class HistoryEvent(msgspec.Struct, kw_only=True):
    """One change in a memory's life."""

    seq: int
    """What undo takes as `to`: all that came after it."""
    what: str
    who: str
    why: str
    at: str
    change_id: str
    """The same for changes made together; empty when it was made alone."""
    undoes: int | None
    """The event that this one took back."""
    changed: dict[str, ChangedField]
    """By the name of the field."""


class MemoryOccurrence(HistoryEvent, kw_only=True):
    """One change in the life of a memory, and of which one."""

    memory_id: str


_PUBLIC_NAMES = {
    "kind": "type",
    "body": "content",
    "content": "structured_content",
    "files": "file_refs",
    "hat": "created_by_hat",
    "uses": "use_count",
    "used_at": "last_used_at",
    "origin_task": "created_by_task",
    "origin_run": "created_by_run",
    "origin_attempt": "created_by_attempt",
    "origin_session": "created_by_session",
    "origin_loops": "source_loops",
}
_NOT_TOLD = ("seen", "trust")


def history_event(event: MemoryEvent) -> HistoryEvent:
    """Give an event with what it changed, under the names that the fields have here."""
    return HistoryEvent(**_told(event))


def memory_occurrence(event: MemoryEvent) -> MemoryOccurrence:
    """Give an event in the same way, with the memory it happened to."""
    return MemoryOccurrence(memory_id=event.memory_id, **_told(event))


def _told(event: MemoryEvent) -> dict[str, Any]:
    return {
        "seq": event.seq,
        "what": event.what,
        "who": event.who,
        "why": event.why,
        "at": event.at,
        "change_id": event.change_id,
        "undoes": event.undoes,
        "changed": {
            _PUBLIC_NAMES.get(name, name): ChangedField(was=was, became=became)
            for name, (was, became) in changed_fields(event).items()
            if name not in _NOT_TOLD
        },
    }
