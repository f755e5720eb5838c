"""Selection and rendering of memories for an agent that has not said what it works on.

The token budget is shared fairly between the kinds: cut in file order, it once kept 21 patterns and none of 77 fixes.
The most trusted memory goes first, because it may be the only one that fits.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from ralph.core.memory_types import MEMORY_KINDS
from ralph.core.text import CHARACTERS_PER_TOKEN
from ralph.memory.lifecycle.confidence import current_confidence
from ralph.memory.lifecycle.staleness import staleness_penalty
from ralph.memory.recall.render import escape_inline, escape_untrusted, has_own_title, kind_heading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ralph.core.records import Memory

HEADING = "# Memories\n"
START_WORDS = 4
"""Number of words with which memories about the same begin: of those, the newest goes first and the others last."""
STALE_PENALTY = 0.3
"""Confidence penalty of a memory whose files are gone; half of it if they have changed."""


def fit_to_budget(memories: Iterable[Memory], budget_tokens: int, at: str) -> list[Memory]:
    """Return the memories that fit the budget: the most trusted one, then one of each kind in turn.

    Kinds with more trusted memories go first, and newer memories win ties. Of those that begin alike, as of one failure
    that was noted again and again, the first goes before and the others after what says something else.
    """
    remaining: dict[str, list[tuple[int, Memory]]] = {}
    for rank, memory in enumerate(sorted(memories, key=lambda one: (_trust(one, at), one.created_at, one.id))):
        remaining.setdefault(memory.kind, []).append((-rank, memory))
    room = budget_tokens * CHARACTERS_PER_TOKEN - len(HEADING)
    chosen: dict[str, list[Memory]] = {}
    told: set[tuple[str, ...]] = set()
    repeats: list[Memory] = []
    # The next turn goes to the kind with the fewest chosen memories, then to the one with the most trusted memory left.
    turns = [(0, *group.pop()) for group in remaining.values()]
    heapify(turns)
    while turns:
        count, _, memory = heappop(turns)
        heading = 0 if count else len(_heading(memory))
        if (start := _start(memory)) and start in told:
            repeats.append(memory)
        elif (cost := len(_block(memory)) + heading) <= room:
            chosen.setdefault(memory.kind, []).append(memory)
            told.add(start)
            room -= cost
            count += 1
        if remaining[memory.kind]:
            heappush(turns, (count, *remaining[memory.kind].pop()))
    for memory in repeats:
        if (cost := len(_block(memory))) <= room:
            chosen[memory.kind].append(memory)
            room -= cost
    return [memory for group in chosen.values() for memory in group]


def _start(memory: Memory) -> tuple[str, ...]:
    """Return the kind of a memory and the words with which it begins; nothing if it is too short to tell."""
    words = memory.content.split(None, START_WORDS)[:START_WORDS]
    return (memory.kind, *words) if len(words) == START_WORDS else ()


def _trust(memory: Memory, at: str) -> float:
    """Return the current confidence, reduced if the files of the memory have changed."""
    return current_confidence(memory, at) - STALE_PENALTY * staleness_penalty(memory.stale)


def render_primer(memories: Sequence[Memory]) -> str:
    """Return memories as markdown for an agent, grouped by kind; empty if there are none."""
    if not memories:
        return ""
    groups: dict[str, list[Memory]] = {}
    for memory in sorted(memories, key=lambda one: _kind_order(one.kind)):
        groups.setdefault(_heading(memory), []).append(memory)
    return HEADING + "".join(heading + "".join(map(_block, group)) for heading, group in groups.items())


def _kind_order(kind: str) -> int:
    return MEMORY_KINDS.index(kind) if kind in MEMORY_KINDS else len(MEMORY_KINDS)


def _heading(memory: Memory) -> str:
    return f"\n## {kind_heading(memory.kind)}\n"


def _block(memory: Memory) -> str:
    title = f"**{escape_inline(memory.title)}**\n" if has_own_title(memory) else ""
    text = "\n".join(f"> {line}".rstrip() for line in (title + escape_untrusted(memory.content)).split("\n"))
    tags = f"tags: {', '.join(_in_comment(tag) for tag in memory.tags)} | " if memory.tags else ""
    doubts = f" | check first: {_in_comment(memory.stale)}" if memory.stale else ""
    return f"\n### {escape_untrusted(memory.id)}\n{text}\n<!-- {tags}created: {memory.created_at[:10]}{doubts} -->\n"


def _in_comment(text: str) -> str:
    """Return a text that cannot end the HTML comment or the field it is put into."""
    return escape_untrusted(text).replace("|", "/").replace("--", "-").replace(">", "")
