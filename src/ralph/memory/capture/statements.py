"""Memories that agents state in their answers."""

from __future__ import annotations

from ralph.core.records import Memory, MemorySource, MemoryState, new_memory_id, replace
from ralph.core.text import extract_title, find_paths
from ralph.memory.capture.injection import STEERING_REASON, is_steering
from ralph.memory.lifecycle.confidence import INITIAL_CONFIDENCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.records import Sigils


def stated(sigils: Sigils, at: str) -> list[Memory]:
    """Return the memories stated in sigils, without an origin."""
    statements = [("knowledge", one.title, one.body, one.tags) for one in sigils.knowledge]
    statements += [(one.category, extract_title(one.content), one.content, one.tags) for one in sigils.learnings]
    statements += [(one.kind, one.title, one.content, ()) for one in sigils.signals]
    return [_held_if_steering(statement(kind, title, body, tags, at)) for kind, title, body, tags in statements]


def _held_if_steering(memory: Memory) -> Memory:
    """Return a statement, quarantined if it reads like an instruction that somebody planted for agents."""
    if not is_steering(f"{memory.title}\n{memory.content}"):
        return memory
    return replace(memory, state=MemoryState.QUARANTINED, state_reason=STEERING_REASON)


def statement(kind: str, title: str, body: str, tags: tuple[str, ...], at: str) -> Memory:
    """Return a memory that an agent stated explicitly."""
    return Memory(
        id=new_memory_id(),
        kind=kind,
        title=title,
        content=body,
        tags=tags,
        files=tuple(dict.fromkeys(find_paths(body) + tuple(tag for tag in tags if "/" in tag)))[:20],
        source=MemorySource.EXPLICIT,
        state=MemoryState.ACTIVE,
        confidence=INITIAL_CONFIDENCE[MemorySource.EXPLICIT],
        created_at=at,
        updated_at=at,
    )
