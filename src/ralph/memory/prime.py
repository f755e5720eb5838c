"""Choose the memories to put before an agent that has not said what it works on, and write them down.

A budget is shared fairly between the kinds: cut in file order, it once kept 21
patterns and none of 77 fixes. But the surest memory goes first, for it may be the only one.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from ralph.memory.lifecycle import faded
from ralph.memory.render import group_of, in_line, quoted
from ralph.memory.staleness import doubt
from ralph.records import KINDS
from ralph.text import CHARACTERS_PER_TOKEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ralph.records import Memory

HEADING = "# Memories\n"
STALE = 0.3
"""So much less sure is a memory whose files are gone; half of that when they have changed."""


def within(memories: Iterable[Memory], budget_tokens: int, at: str) -> list[Memory]:
    """Give the memories that fit a budget: the surest, then one of each kind in turn, the surest kind first.

    Of equally sure ones the newest goes first.
    """
    left: dict[str, list[tuple[int, Memory]]] = {}
    for place, memory in enumerate(sorted(memories, key=lambda one: (_sure(one, at), one.created_at))):
        left.setdefault(memory.kind, []).append((-place, memory))
    room = budget_tokens * CHARACTERS_PER_TOKEN - len(HEADING)
    chosen: dict[str, list[Memory]] = {}
    # Whose turn it is: the kind with the fewest chosen, among those the one with the surest memory left.
    turns = [(0, *group.pop()) for group in left.values()]
    heapify(turns)
    while turns:
        had, _, memory = heappop(turns)
        heading = 0 if had else len(_heading(memory))
        if (cost := len(_block(memory)) + heading) <= room:
            chosen.setdefault(memory.kind, []).append(memory)
            room -= cost
            had += 1
        if left[memory.kind]:
            heappush(turns, (had, *left[memory.kind].pop()))
    return [memory for group in chosen.values() for memory in group]


def _sure(memory: Memory, at: str) -> float:
    """Give how sure a memory is by now, less when its files are no longer as they were."""
    return faded(memory, at) - STALE * doubt(memory.stale)


def primed(memories: Sequence[Memory]) -> str:
    """Give memories as markdown for an agent, grouped by kind; nothing for none."""
    if not memories:
        return ""
    groups: dict[str, list[Memory]] = {}
    for memory in sorted(memories, key=lambda one: _place(one.kind)):
        groups.setdefault(_heading(memory), []).append(memory)
    return HEADING + "".join(heading + "".join(map(_block, group)) for heading, group in groups.items())


def _place(kind: str) -> int:
    return KINDS.index(kind) if kind in KINDS else len(KINDS)


def _heading(memory: Memory) -> str:
    return f"\n## {group_of(memory.kind)}\n"


def _block(memory: Memory) -> str:
    title = f"**{in_line(memory.title)}**\n" if memory.kind == "knowledge" else ""
    text = "\n".join(f"> {line}".rstrip() for line in (title + quoted(memory.body)).split("\n"))
    tags = f"tags: {', '.join(_in_comment(tag) for tag in memory.tags)} | " if memory.tags else ""
    doubts = f" | check first: {_in_comment(memory.stale)}" if memory.stale else ""
    return f"\n### {quoted(memory.id)}\n{text}\n<!-- {tags}created: {memory.created_at[:10]}{doubts} -->\n"


def _in_comment(text: str) -> str:
    """Give a text without what would end the comment it stands in, or its part of it."""
    return quoted(text).replace("|", "/").replace("--", "-").replace(">", "")
