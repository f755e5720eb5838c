"""What a memory from elsewhere does to one that is here already.

Bringing the same thing twice must change nothing the second time, so only what is
new counts: other tags, other files, loops not heard of yet, or a later text. What
a file does not say, perhaps because its format has no place for it, stays as it is.
"""

from __future__ import annotations

from ralph.memory.learning import LEARNING_KINDS, content_of
from ralph.memory.lifecycle import restated, united
from ralph.memory.limits import MOST_TAGS
from ralph.records import replace
from ralph.text import paths_in, title_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.records import Memory

SAME_ENTRY = 0.5
"""Two texts under one id with fewer words in common than this are two memories."""


def brought(known: Memory, new: Memory) -> Memory | None:
    """Give the known memory with what the new one adds; None when they only happen to share an id."""
    from ralph.memory.fingerprint import fingerprint

    is_same = fingerprint(known) == fingerprint(new) or _is_in_other_form(known, new)
    if not is_same and not _have_much_in_common(known, new):
        return None
    after = replace(
        _completed(known, new) if is_same else _edited(known, new),
        origin_loops=united(known.origin_loops, new.origin_loops),
    )
    heard = len(after.origin_loops) - len(known.origin_loops)
    if not heard or not known.origin_loops:
        return after
    is_structured = known.kind in LEARNING_KINDS and known.content and new.content
    words = restated(known, new) if is_same and is_structured else {}
    confidence = max(known.confidence, new.confidence)
    return replace(after, **words, support=known.support + heard, confidence=confidence)


def _is_in_other_form(known: Memory, new: Memory) -> bool:
    """Say whether one is the other in mere words, as it comes out of a format without structured content."""
    if known.kind != new.kind or bool(known.content) == bool(new.content):
        return False
    return (known.title, known.body or known.title) == (new.title, new.body or new.title)


def _completed(known: Memory, new: Memory) -> Memory:
    """Give the known memory with what another copy of it says beyond it."""
    files = _joined(known.files, new.files)
    # What was only found in its text is no news: it is the same text.
    is_news = files != known.files and new.files != paths_in(new.body)
    return replace(
        known,
        content=_content(known, new),
        tags=_joined(known.tags, new.tags),
        files=files if is_news else known.files,
    )


def _content(known: Memory, new: Memory) -> str:
    """Give our content, or theirs if ours is in mere words and theirs says more than they do."""
    if known.content or not new.content or content_of(new) == content_of(known):
        return known.content
    return new.content


def _edited(known: Memory, new: Memory) -> Memory:
    """Give the later of two texts of one entry; a text changed here yields only to a later one."""
    if known.updated_at > known.created_at and new.updated_at <= known.updated_at:
        return known
    has_no_title = new.title == title_of(new.body) and known.title != title_of(known.body)
    return replace(
        known,
        kind=new.kind,
        title=known.title if has_no_title else new.title,
        body=new.body or known.body,
        content=new.content or known.content,
        tags=new.tags or known.tags,
        files=_files(known, new),
        updated_at=max(known.updated_at, new.updated_at),
    )


def _files(known: Memory, new: Memory) -> tuple[str, ...]:
    """Give the files the new one names; if they merely stand in its text, those the known one names stay."""
    mentioned = paths_in(new.body)
    if new.files and new.files != mentioned:
        return new.files
    were_mentioned = paths_in(known.body)
    return _joined(mentioned, tuple(path for path in known.files if path not in were_mentioned))


def _have_much_in_common(known: Memory, new: Memory) -> bool:
    ours, theirs = set(known.body.lower().split()), set(new.body.lower().split())
    return len(ours & theirs) >= SAME_ENTRY * max(1, min(len(ours), len(theirs)))


def _joined(ours: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[str, ...]:
    """Give both, but no more than a memory may have besides what ours has already."""
    return united(ours, theirs)[: max(MOST_TAGS, len(ours))]
