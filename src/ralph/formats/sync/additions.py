"""Writing new memories to `.agent/memories.md` without parsing it.

This is the common case: the files are as the last sync left them, and memories were added since. A full sync compares
every entry with its memory, which takes seconds with many memories, while all other writers wait.
"""

from __future__ import annotations

import re

from ralph.formats.memories_document import SECTION_HEADINGS, MarkdownEntry
from ralph.formats.memories_md import edit_document, header_id
from ralph.formats.sync.disk import UnusableFileError
from ralph.formats.sync.entries import comparable_row, row_entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.formats.sync.disk import SyncedFiles
    from ralph.store.database import Row

MAX_ADDITIONS = 200
"""Number of changed memories from which a full sync is not slower."""
_HEADING = re.compile(r"^#{1,3}(?:[ \t].*)?$", re.MULTILINE)


def write_additions(disk: SyncedFiles) -> int | None:
    """Write the memories added since the last sync and return their number, or None if a full sync is needed."""
    changed = disk.changed_memories(MAX_ADDITIONS + 1) if disk.is_as_synced() else None
    if changed is None or len(changed) > MAX_ADDITIONS:
        return None
    added = _find_additions(disk, changed)
    if added is None:
        return None
    if added and not _write(disk, added):
        return None
    disk.finish()
    return len(added)


def _find_additions(disk: SyncedFiles, changed: Sequence[Row]) -> list[Row] | None:
    """Return the rows that the file lacks, or None if a change cannot be written by adding entries."""
    known = disk.sync_state.entries_of([row["id"] for row in changed if not row["is_new"]])
    added: list[Row] = []
    for row in changed:
        is_active, base = row["state"] == "active", known.get(row["id"])
        if base is not None:
            if not is_active or base != (disk.memories, comparable_row(row)):
                return None
        elif row["kind"] == "knowledge" or header_id(row["id"]) != row["id"]:
            return None
        elif is_active and row["kind"] in SECTION_HEADINGS:
            added.append(row)
    return added


def _write(disk: SyncedFiles, added: Sequence[Row]) -> bool:
    """Add entries to the file; return False if that is not possible without parsing it."""
    try:
        content = disk.read(disk.memories)
        if content is None or disk.has_changed(disk.memories):
            return False
        text: str | None = content.text
        for kind in SECTION_HEADINGS:
            entries = [row_entry(row) for row in added if row["kind"] == kind]
            text = insert_entries(text, entries) if text is not None and entries else text
        written = disk.write(disk.memories, text, content) if text is not None else None
    except UnusableFileError:
        return False  # the full sync reports it
    if written is None:
        return False
    disk.sync_state.save_entries(disk.memories, {row["id"]: comparable_row(row) for row in added})
    disk.mark_synced(written)
    return True


def insert_entries(text: str, entries: Sequence[MarkdownEntry]) -> str | None:
    """Return the text with new entries of one kind, or None if their place cannot be found without parsing the text."""
    heading = f"## {SECTION_HEADINGS[entries[0].kind]}\n"
    start = 0 if text.startswith(heading) else text.find(f"\n{heading}") + 1 or -1
    if start < 0 or "\r" in text or any(f"### {entry.id}" in text for entry in entries):
        return None
    if _may_be_code(text[:start]):
        return None
    # What decides about the place is the introduction of the section, up to the next heading.
    following = _HEADING.search(text, start + len(heading))
    end = following.start() if following else len(text)
    section = text[start:end]
    if _may_be_code(section):
        return None
    next_heading = "#\n" if following else ""
    edited = edit_document(section + next_heading, put=entries)
    return text[:start] + edited.removesuffix(next_heading) + text[end:]


def _may_be_code(text: str) -> bool:
    """Return whether a code block may begin in a text; those in entries are quoted and do not count."""
    has_fence = "```" in text or "~~~" in text
    return has_fence and re.search(r"^(?!>).*(?:```|~~~)", text, re.MULTILINE) is not None
