"""Memories that the guide of an agent already says, which prompts therefore do not repeat."""

from __future__ import annotations

from ralph.core.guides import BULLET, COMMENT_END, fingerprint_line, guides_of, stated_sources

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from ralph.core.records import Memory
    from ralph.store import Store

_FILE_REFERENCE = r"(?<!\w)@(?=[\w~./\\])[^\s`]*"
"""What Claude Code takes for a file to include, outside of code."""


def guided_memories(store: Store, directory: Path | str, agent: str) -> frozenset[str]:
    """Return the ids of the memories that the guides of an agent say, as they are now."""
    sources = stated_sources(directory, guides_of(agent))
    if not sources:
        return frozenset()  # Most prompts end here, after looking at one or two files.
    return frozenset(
        one.id for one in store.memories.find_by_ids(sources) if fingerprint_line(guide_line(one)) == sources[one.id]
    )


def guide_line(memory: Memory) -> str:
    """Return the line of a guide that says what a memory says; its text cannot be more than that."""
    from ralph.memory.recall.render import escape_inline

    text = f"{memory.title}: {memory.content}" if memory.kind == "knowledge" else memory.content
    text = escape_inline(text).replace("<!", "‹!").replace(COMMENT_END, "--›")
    return BULLET + _without_file_references(text)


def _without_file_references(text: str) -> str:
    """Return a text in which what looks like a file to include is code."""
    if "@" not in text:
        return text
    from ralph.core.text import compiled_pattern

    parts = (text if text.count("`") % 2 == 0 else text.replace("`", "'")).split("`")
    outside = compiled_pattern(_FILE_REFERENCE)
    return "`".join(part if place % 2 else outside.sub(r"`\g<0>`", part) for place, part in enumerate(parts))
