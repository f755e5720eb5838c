"""Memory types of imported files that are neither built in nor used in the project: mapped, and said."""

from __future__ import annotations

from collections import Counter

from ralph.core.limits import MAX_TAGS
from ralph.core.memory_types import MEMORY_TYPES
from ralph.core.records import replace
from ralph.formats.planned import ReadProblem
from ralph.memory.lifecycle.confidence import union

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ralph.core.records import Memory
    from ralph.store import Store

FALLBACK_TYPE = "other"
"""Type of memories that were imported with an unknown one."""


def unknown_types(store: Store, memories: Iterable[Memory]) -> set[str]:
    """Return the types of memories that are neither built in nor used in the project."""
    foreign = {one.kind for one in memories} - MEMORY_TYPES.keys()
    return foreign - store.memories.stats.counts("kind").keys() if foreign else set()


def with_known_type(memory: Memory, unknown: Collection[str]) -> Memory:
    """Return a memory whose type is known; an unknown one becomes a tag."""
    if memory.kind not in unknown:
        return memory
    return replace(memory, kind=FALLBACK_TYPE, tags=union(memory.tags, (memory.kind,))[:MAX_TAGS])


def remarks_on_types(memories: Iterable[Memory], unknown: Collection[str]) -> list[ReadProblem]:
    """Return a remark for each unknown type, with what it was imported as."""
    counts = Counter(one.kind for one in memories if one.kind in unknown)
    return [
        ReadProblem(
            line=1,
            was_read=True,
            why=f"{number:,} {'entry has' if number == 1 else 'entries have'} the unknown type {kind!r}:"
            f" imported as {FALLBACK_TYPE}, with {kind!r} as a tag.",
        )
        for kind, number in counts.items()
    ]
