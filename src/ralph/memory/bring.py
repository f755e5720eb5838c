"""What a memory from elsewhere does to one that is here already.

Bringing the same thing twice must change nothing the second time, so only what is
new counts: other tags, other files, loops not heard of yet, or a later text.
"""

from __future__ import annotations

from ralph.records import replace
from ralph.text import paths_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.records import Memory

SAME_ENTRY = 0.5
"""Two texts under one id with fewer words in common than this are two memories."""


def brought(known: Memory, new: Memory) -> Memory | None:
    """Give the known memory with what the new one adds; None when they only happen to share an id."""
    from ralph.memory.fingerprint import fingerprint

    if fingerprint(known) != fingerprint(new):
        return _edited(known, new) if _have_much_in_common(known, new) else None
    united = replace(
        known,
        tags=_united(known.tags, new.tags),
        files=_united(known.files, new.files),
        origin_loops=_united(known.origin_loops, new.origin_loops),
    )
    heard = len(united.origin_loops) - len(known.origin_loops)
    if not heard or not known.origin_loops:
        return united
    evidence = replace(united, support=known.support + heard, confidence=max(known.confidence, new.confidence))
    return _with_content(evidence, known, new) if known.content and new.content else evidence


def _edited(known: Memory, new: Memory) -> Memory:
    """Give the later of two texts of one entry; a text changed here yields only to a later one."""
    if known.updated_at > known.created_at and new.updated_at <= known.updated_at:
        return known
    return replace(
        known,
        kind=new.kind,
        title=new.title,
        body=new.body,
        content=new.content,
        tags=new.tags,
        files=new.files or paths_in(new.body),
        updated_at=max(known.updated_at, new.updated_at),
    )


def _have_much_in_common(known: Memory, new: Memory) -> bool:
    ours, theirs = set(known.body.lower().split()), set(new.body.lower().split())
    return len(ours & theirs) >= SAME_ENTRY * max(1, min(len(ours), len(theirs)))


def _with_content(evidence: Memory, known: Memory, new: Memory) -> Memory:
    import json

    from ralph.memory.learning import described, merged_content

    content = merged_content(known.kind, known.content, new.content, known.support)
    title, body = described(known.kind, known.task_type or "general", json.loads(content))
    return replace(evidence, content=content, title=title, body=body)


def _united(ours: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(ours + theirs))
