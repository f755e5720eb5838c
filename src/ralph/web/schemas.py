"""Response types of the API that differ from the internal records."""

from __future__ import annotations

from typing import Any

import msgspec

from ralph.core.records import Episode, Memory, MemoryEvent, RecalledMemory, now
from ralph.formats.public_memory import public_fields
from ralph.loop.prompts import EpisodeExplanation, Explanation
from ralph.memory.lifecycle.confidence import current_confidence
from ralph.memory.lifecycle.timeline import changed_fields
from ralph.store.memories import AddResult, ChangeResult


class PublicMemory(msgspec.Struct, kw_only=True):
    """Memory with the field names of the published export format."""

    id: str
    type: str
    title: str
    content: str
    confidence: float
    """Confidence as last set."""
    confidence_now: float
    """Confidence after decay since the memory was last confirmed."""
    tags: tuple[str, ...]
    file_refs: tuple[str, ...]
    created_by_hat: str | None
    source: str
    use_count: int
    success_rate: float | None
    support: int
    """Number of times it was learned."""
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
    pinned_at: str | None
    stale: str
    """Change of its files that makes it unreliable; empty if there is none."""
    wins: int
    losses: int


class ChangedMemory(PublicMemory, kw_only=True):
    """Memory after a change."""

    event: int | None
    """Number of the change in its history, for `only` of undo; null if nothing changed."""


def public_memory(memory: Memory) -> PublicMemory:
    """Convert a memory to its public form."""
    return PublicMemory(**_fields(memory))


def changed_memory(changed: ChangeResult) -> ChangedMemory:
    """Convert a changed memory to its public form."""
    return ChangedMemory(**_fields(changed.memory), event=changed.event)


def _fields(memory: Memory) -> dict[str, Any]:
    extra = {"confidence_now": current_confidence(memory, now()), "wins": memory.wins, "losses": memory.losses}
    return public_fields(memory) | extra


class AddedMemory(msgspec.Struct):
    """Result of adding a memory."""

    what: str
    """`added`, or what happened to an equivalent memory: `learned again`, `updated`, `revived`, `known`."""
    memory: PublicMemory
    event: int | None
    """Number of the change in its history, for `only` of undo; null if nothing changed."""
    superseded: list[str]
    """Ids of earlier memories whose place it takes."""


def added_memory(result: AddResult) -> AddedMemory:
    """Convert the result of adding a memory to its public form."""
    memory, superseded = public_memory(result.memory), list(result.superseded)
    return AddedMemory(what=result.what, memory=memory, event=result.event, superseded=superseded)


class ScoreComponent(msgspec.Struct):
    """Component of a score."""

    name: str
    """Origin of the component: words, files, confidence, …"""
    share: float


class MemoryHit(msgspec.Struct):
    """Search hit with its score."""

    memory: PublicMemory
    score: float
    because: list[ScoreComponent]
    """Components of the score, largest first."""
    relevance: float | None
    """Estimated probability that it is relevant; null if it was not ranked by the default ranking."""
    evidence: str
    """What the estimate rests on, in words."""


def memory_hit(hit: RecalledMemory) -> MemoryHit:
    """Convert a search hit to its public form."""
    return MemoryHit(public_memory(hit.memory), hit.score, score_shares(hit.because), hit.relevance, hit.evidence)


class TaskRank(msgspec.Struct, kw_only=True):
    """Rank for a task, and why its next prompt does not include the ranked thing."""

    task_id: str
    score: float | None
    because: list[ScoreComponent]
    relevance: float | None
    """Estimated probability that it is relevant."""
    evidence: str
    """What the estimate rests on, in words."""
    rank: int | None
    """Rank among what is relevant to the task, from 1."""
    ranked: int
    """Number of ranked memories or passages."""
    is_shown: bool
    reason: str
    """Reason it is not included; empty if it is."""
    is_rule: bool
    """Whether it is told in every prompt, as a standing rule."""


class MemoryExplanation(TaskRank, kw_only=True):
    """Explanation why the next prompt for a task includes a memory or not."""

    memory: PublicMemory


class EpisodeReason(TaskRank, kw_only=True):
    """Explanation why the next prompt for a task quotes a passage or not."""

    episode: Episode


def memory_explanation(why: Explanation) -> MemoryExplanation:
    """Convert an explanation to its public form."""
    return MemoryExplanation(memory=public_memory(why.memory), **_rank_fields(why))


def episode_reason(why: EpisodeExplanation) -> EpisodeReason:
    """Convert an explanation of a passage to its public form."""
    return EpisodeReason(episode=why.episode, **_rank_fields(why))


def _rank_fields(why: Explanation | EpisodeExplanation) -> dict[str, Any]:
    return {
        "task_id": why.task_id,
        "score": why.score,
        "because": score_shares(why.because),
        "relevance": why.relevance,
        "evidence": why.evidence,
        "rank": why.rank,
        "ranked": why.ranked,
        "is_shown": why.is_shown,
        "reason": why.reason,
        "is_rule": why.is_rule,
    }


def score_shares(because: tuple[tuple[str, float], ...]) -> list[ScoreComponent]:
    """Convert the components of a score to their public form."""
    return [ScoreComponent(name=name, share=share) for name, share in because]


class ChangedField(msgspec.Struct):
    """Value of a field before and after a change."""

    was: Any
    became: Any


class HistoryEvent(msgspec.Struct, kw_only=True):
    """Change in the history of a memory."""

    seq: int
    """Number of the change, for `to` of undo, which reverts all later changes."""
    what: str
    who: str
    why: str
    at: str
    change_id: str
    """ID shared by changes made together; empty for a single change."""
    undoes: int | None
    """Number of the change that this one reverted."""
    changed: dict[str, ChangedField]
    """Changed fields by name."""


class MemoryHistoryEvent(HistoryEvent, kw_only=True):
    """Change in the history of a memory, with the memory's ID."""

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
_INTERNAL_FIELDS = ("seen", "trust")  # `trust` is in the history of older versions


def history_event(event: MemoryEvent) -> HistoryEvent:
    """Convert a memory event to its public form."""
    return HistoryEvent(**_event_fields(event))


def memory_history_event(event: MemoryEvent) -> MemoryHistoryEvent:
    """Convert a memory event to its public form with the ID of the memory."""
    return MemoryHistoryEvent(memory_id=event.memory_id, **_event_fields(event))


def _event_fields(event: MemoryEvent) -> dict[str, Any]:
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
            if name not in _INTERNAL_FIELDS
        },
    }
