"""Grouping of confirmed memories into what a guide or a skill can say together."""

from __future__ import annotations

from ralph.core.memory_types import MEMORY_KINDS
from ralph.core.tokenize import tokenize, tokenize_path
from ralph.memory.lifecycle.confidence import current_confidence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ralph.core.records import Memory

MIN_CONFIDENCE, MIN_CONFIRMATIONS = 0.7, 2
"""Confidence, and number of times learned or helpful, from which a memory of agents and runs is confirmed."""
MIN_GROUP = 3
"""Number of memories that make a group."""


def is_confirmed(memory: Memory, at: str) -> bool:
    """Return whether experience confirms a memory; what a person pinned or wrote needs no experience."""
    if memory.pinned_at:
        return True
    is_often = max(memory.support, memory.wins) >= MIN_CONFIRMATIONS
    return is_often and current_confidence(memory, at) >= MIN_CONFIDENCE


def group_memories(memories: Sequence[Memory]) -> dict[str, list[Memory]]:
    """Return groups by feature, tag or directory in common, the largest first; each memory is in one at most."""
    left = list(memories)
    groups: dict[str, list[Memory]] = {}
    while True:
        by_key: dict[str, list[Memory]] = {}
        for memory in left:
            for key in dict.fromkeys(_keys(memory)):
                by_key.setdefault(key, []).append(memory)
        key = max(by_key, key=lambda one: (len(by_key[one]), one), default="")
        if not key or len(by_key[key]) < MIN_GROUP:
            return groups
        groups[key] = sorted_by_kind(by_key[key])
        taken = {one.id for one in by_key[key]}
        left = [one for one in left if one.id not in taken]


def _keys(memory: Memory) -> Iterator[str]:
    if memory.feature:
        yield memory.feature
    yield from (tag for tag in memory.tags if ":" not in tag)  # tags of Ralph itself, such as error:timeout
    yield from (folder for path in memory.files if (folder := path.rpartition("/")[0]))


def about_topic(memories: Sequence[Memory], topic: str) -> list[Memory]:
    """Return the memories that have all words of a topic in their text, tags, files or feature."""
    wanted = set(tokenize(topic))
    return sorted_by_kind([one for one in memories if wanted and wanted <= _words(one)])


def _words(memory: Memory) -> set[str]:
    text = "\n".join((memory.title, memory.content, *memory.tags, memory.feature or ""))
    return {*tokenize(text), *(word for path in memory.files for word in tokenize_path(path))}


def sorted_by_kind(memories: Sequence[Memory]) -> list[Memory]:
    """Return memories in the order of their types, the oldest first."""
    places = {kind: place for place, kind in enumerate(MEMORY_KINDS)}
    return sorted(memories, key=lambda one: (places.get(one.kind, len(places)), one.created_at, one.id))
