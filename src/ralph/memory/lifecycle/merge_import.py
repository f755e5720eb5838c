"""Merging of imported memories into existing ones.

Importing the same file twice must change nothing the second time, so only new information counts: new tags, new files,
new source loops, or a newer text. Fields missing from the import, perhaps because its format cannot hold them, are
kept.
"""

from __future__ import annotations

from ralph.core.limits import MAX_TAGS
from ralph.core.records import replace
from ralph.core.text import extract_title, find_paths
from ralph.memory.lifecycle.confidence import merge_learning_text, union
from ralph.memory.lifecycle.fingerprint import fingerprint
from ralph.memory.lifecycle.learnings import LEARNING_KINDS, structured_content

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.records import Memory

MIN_WORD_OVERLAP = 0.5
"""Minimum share of words two texts with the same id must have in common to count as the same memory."""


def merge_imported(known: Memory, new: Memory) -> Memory | None:
    """Return the known memory updated from the imported one, or None if they only share an id."""
    is_same = fingerprint(known) == fingerprint(new) or _is_plain_text_copy(known, new)
    if not is_same and not _is_similar(known, new):
        return None
    merged = replace(
        _add_details(known, new) if is_same else _apply_edit(known, new),
        origin_loops=union(known.origin_loops, new.origin_loops),
    )
    new_loops = len(merged.origin_loops) - len(known.origin_loops)
    if not new_loops or not known.origin_loops:
        return merged
    is_structured = known.kind in LEARNING_KINDS and known.structured_content and new.structured_content
    text = merge_learning_text(known, new) if is_same and is_structured else {}
    confidence = max(known.confidence, new.confidence)
    return replace(merged, **text, support=known.support + new_loops, confidence=confidence)


def _is_plain_text_copy(known: Memory, new: Memory) -> bool:
    """Return whether one memory is the plain-text form of the other, which has structured content."""
    if known.kind != new.kind or bool(known.structured_content) == bool(new.structured_content):
        return False
    return (known.title, known.content or known.title) == (new.title, new.content or new.title)


def _add_details(known: Memory, new: Memory) -> Memory:
    """Return the known memory with the tags, files and content another copy of it adds."""
    files = _merge_lists(known.files, new.files)
    # Paths derived from the text add nothing: the text is the same.
    has_new_files = files != known.files and new.files != find_paths(new.content)
    return replace(
        known,
        structured_content=_merge_content(known, new),
        tags=_merge_lists(known.tags, new.tags),
        files=files if has_new_files else known.files,
    )


def _merge_content(known: Memory, new: Memory) -> str:
    """Return the known content, or the new content if only that one is structured and says more."""
    if known.structured_content or not new.structured_content or structured_content(new) == structured_content(known):
        return known.structured_content
    return new.structured_content


def _apply_edit(known: Memory, new: Memory) -> Memory:
    """Return the newer of two texts of one entry; a local edit is only replaced by a later one."""
    if known.updated_at > known.created_at and new.updated_at <= known.updated_at:
        return known
    has_no_title = new.title == extract_title(new.content) and known.title != extract_title(known.content)
    return replace(
        known,
        kind=new.kind,
        title=known.title if has_no_title else new.title,
        content=new.content or known.content,
        structured_content=new.structured_content or known.structured_content,
        tags=new.tags or known.tags,
        files=_merge_files(known, new),
        updated_at=max(known.updated_at, new.updated_at),
    )


def _merge_files(known: Memory, new: Memory) -> tuple[str, ...]:
    """Return the files the new memory lists; keep the known list if the new ones only come from its text."""
    mentioned = find_paths(new.content)
    if new.files and new.files != mentioned:
        return new.files
    mentioned_before = find_paths(known.content)
    return _merge_lists(mentioned, tuple(path for path in known.files if path not in mentioned_before))


def _is_similar(known: Memory, new: Memory) -> bool:
    ours, theirs = set(known.content.lower().split()), set(new.content.lower().split())
    return len(ours & theirs) >= MIN_WORD_OVERLAP * max(1, min(len(ours), len(theirs)))


def _merge_lists(ours: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[str, ...]:
    """Return both without duplicates, limited to `MAX_TAGS` unless the known memory already has more."""
    return union(ours, theirs)[: max(MAX_TAGS, len(ours))]
