"""Writing new memories to the files without parsing these.

This is the common case: the files are as the last sync left them, and memories were added since. A full sync compares
every entry with its memory, which takes seconds with many memories, while all other writers wait.
"""

from __future__ import annotations

from ralph.core.memory_files import KNOWLEDGE_DIR
from ralph.formats.knowledge_md import format_note, unused_file_name
from ralph.formats.memories_document import SECTION_HEADINGS
from ralph.formats.memories_md import format_entries, header_id
from ralph.formats.sync.disk import BULK_FLUSH_FILES, UnusableFileError, encode_text
from ralph.formats.sync.entries import comparable_note, comparable_row, row_entry, row_note

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ralph.formats.memories_document import MarkdownEntry
    from ralph.formats.sync.disk import SyncedFiles
    from ralph.store.database import Row

MAX_ADDITIONS = 200
"""Number of changed memories from which a full sync is not slower."""


def write_additions(disk: SyncedFiles) -> int | None:
    """Write the memories added since the last sync and return their number, or None if a full sync is needed."""
    files = disk.files_as_synced()
    changed = disk.changed_memories(MAX_ADDITIONS + 1) if files else None
    if changed is None or len(changed) > MAX_ADDITIONS:
        return None
    added = _find_additions(disk, changed)
    notes = [row for row in added or () if row["kind"] == "knowledge"]
    entries = [row for row in added or () if row["kind"] != "knowledge"]
    if added is None or len(notes) >= BULK_FLUSH_FILES:
        return None
    try:
        if not _write_entries(disk, entries, files) or not _write_notes(disk, notes, files):
            return None
    except UnusableFileError:
        return None  # the full sync reports it
    disk.finish(files)
    return len(added)


def _find_additions(disk: SyncedFiles, changed: Sequence[Row]) -> list[Row] | None:
    """Return the rows that the files lack, or None if a change cannot be written by adding entries."""
    known = disk.sync_state.entries_of([row["id"] for row in changed if not row["is_new"]])
    added: list[Row] = []
    for row in changed:
        is_active, base = row["state"] == "active", known.get(row["id"])
        is_note = row["kind"] == "knowledge"
        if base is not None:
            is_same_file = base[0].startswith(KNOWLEDGE_DIR) if is_note else base[0] == disk.memories
            text = comparable_note(row) if is_note else comparable_row(row)
            if not is_active or not is_same_file or base[1] != text:
                return None
        elif not is_note and header_id(row["id"]) != row["id"]:
            return None
        elif is_active and (row["kind"] in SECTION_HEADINGS or (is_note and row["tags"] != "[]")):
            added.append(row)
    return added


def _write_entries(disk: SyncedFiles, added: Sequence[Row], files: dict[str, tuple[int, int]]) -> bool:
    """Add entries to the markdown file; return False if that is not possible without parsing it."""
    if not added:
        return True
    offsets = disk.insertion_offsets
    if not offsets.keys() >= {row["kind"] for row in added}:
        return False
    seen = disk.read(disk.memories)
    if seen is None or seen.stat != files.get(disk.memories):
        return False
    if any(f"### {row['id']}".encode() in seen.content for row in added if not row["is_new"]):
        return False
    parts, disk.insertion_offsets = insert_entries(seen.content, offsets, [row_entry(row) for row in added])
    written = disk.write(disk.memories, parts, seen)
    if written is None:
        return False
    disk.sync_state.save_entries(disk.memories, {row["id"]: comparable_row(row) for row in added})
    disk.mark_synced(written)
    files[written.path] = written.stat
    return True


def insert_entries(
    content: bytes, offsets: Mapping[str, int], entries: Sequence[MarkdownEntry]
) -> tuple[list[bytes | memoryview], dict[str, int]]:
    """Return the parts of a file with new entries, and its new offsets."""
    view, parts, moved = memoryview(content), list[bytes | memoryview](), dict(offsets)
    done = inserted = 0
    for kind, offset in sorted(offsets.items(), key=lambda one: one[1]):
        moved[kind] += inserted
        if new := [entry for entry in entries if entry.kind == kind]:
            block = format_entries(content, offset, new)
            parts += [view[done:offset], block]
            done = offset
            inserted += len(block)
    return [*parts, view[done:]], moved


def _write_notes(disk: SyncedFiles, added: Sequence[Row], files: dict[str, tuple[int, int]]) -> bool:
    """Write a file for each knowledge entry; return False if one could not be written."""
    taken = {path.removeprefix(KNOWLEDGE_DIR) for path in (disk.knowledge_paths() if added else ())}
    for row in added:
        name = unused_file_name(row["title"], taken)
        written = disk.write(KNOWLEDGE_DIR + name, encode_text(format_note(row_note(row))), None)
        if written is None:
            return False
        taken.add(name)
        disk.sync_state.save_entries(written.path, {row["id"]: comparable_note(row)})
        disk.mark_synced(written)
        files[written.path] = written.stat
    return True
