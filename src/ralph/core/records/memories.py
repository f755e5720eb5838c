"""Records of the memory."""

from __future__ import annotations

from enum import StrEnum

from ralph.core.records.base import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class MemorySource(StrEnum):
    """Origin of a memory."""

    AUTOMATIC = "automatic"
    EXPLICIT = "explicit"
    IMPORTED = "imported"


class MemoryState(StrEnum):
    """Lifecycle state of a memory. Only active memories are ever shown."""

    STAGED = "staged"
    ACTIVE = "active"
    REJECTED = "rejected"
    SUPERSEDED = "superseded"
    PRUNED = "pruned"
    QUARANTINED = "quarantined"


@record
class Memory:
    """Something learned that should help with later tasks."""

    id: str
    kind: str
    title: str
    content: str
    structured_content: str = ""
    """Structured content as JSON, for the kinds strategy, antipattern, estimate and convention."""
    tags: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    feature: str | None = None
    task_type: str | None = None
    hat: str | None = None
    source: MemorySource = MemorySource.EXPLICIT
    state: MemoryState = MemoryState.ACTIVE
    state_reason: str = ""
    """Why the memory is rejected, pruned, superseded or quarantined."""
    confidence: float = 0.5
    """Confidence from 0 to 1. The initial value depends on the source."""
    wins: int = 0
    losses: int = 0
    uses: int = 0
    success_rate: float | None = None
    """Success rate where the memory was followed, if known."""
    support: int = 1
    """Number of distinct attempts or loops that learned it."""
    superseded_by: str | None = None
    origin_task: str | None = None
    origin_run: str | None = None
    origin_attempt: int | None = None
    origin_session: str | None = None
    origin_loops: tuple[str, ...] = ()
    created_at: str
    updated_at: str
    used_at: str | None = None
    verified_at: str | None = None
    """When it was last learned again or confirmed by an attempt."""
    seen: str = ""
    """Fingerprints of the files it names at `verified_at`, by path, as JSON."""
    stale: str = ""
    """Change of those files since, if it makes the memory doubtful. Empty otherwise."""
    validated_at: str | None = None
    """When the memory passed validation while staged."""
    pinned_at: str | None = None
    """When a person pinned it to every prompt."""


@record
class MemoryEvent:
    """A change in the history of a memory."""

    seq: int
    memory_id: str
    what: str
    was: str | None
    """Old values of the changed fields, as JSON. None if the memory was added."""
    became: str | None
    """New values of the changed fields, as JSON."""
    who: str
    why: str
    at: str
    change_id: str = ""
    """Id shared by changes that were made together."""
    undoes: int | None = None
    """Sequence number of the event that this one undid."""


@record
class RecalledMemory:
    """A memory recalled for a task, with its score and the components of the score."""

    memory: Memory
    score: float
    because: tuple[tuple[str, float], ...] = ()
    place: int | None = None
    """Rank from 1 among all candidates, if the result is a selection of them."""
    relevance: float | None = None
    """Estimated probability that it is relevant, if it was ranked by the default ranking."""
    evidence: str = ""
    """What the estimate rests on, in words."""


def session_key(origin: Mapping[str, Any]) -> str | None:
    """Return a key that identifies the agent session of a memory: its session id, or its attempt."""
    if origin.get("origin_session"):
        return str(origin["origin_session"])
    attempt = [origin.get(name) for name in ("origin_run", "origin_task", "origin_attempt")]
    return "/".join(map(str, attempt)) if all(attempt) else None
