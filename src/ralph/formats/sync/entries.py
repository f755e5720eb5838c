"""Memories in the form of their entries in the files, and texts that can be compared."""

from __future__ import annotations

import json

from ralph.formats.knowledge_md import KnowledgeNote
from ralph.formats.memories_document import MarkdownEntry
from ralph.formats.memories_md import clean_tags, header_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ralph.store.database import Row

encode = json.JSONEncoder(ensure_ascii=False).encode


def comparable_row(row: Row, base: str | None = None) -> str:
    """Return a memory in the form of its entry in the file, for comparison; `base` is its synced text, if any."""
    tags = json.loads(row["tags"])
    if encode([row["kind"], row["body"], tags]) == base:
        return base  # same result as below, but faster
    return encode_fields(row["kind"], row["body"], tags)


def encode_fields(kind: str, body: str, tags: Iterable[str]) -> str:
    """Encode kind, text and tags as they would come back from a file."""
    return encode([kind, strip_lines(body), list(clean_tags(tag.lower() for tag in tags))])


def strip_lines(text: str) -> str:
    """Return a text without the trailing space of its lines."""
    if " \n" not in text and "\t\n" not in text:
        return text.strip()
    return "\n".join(line.rstrip() for line in text.split("\n")).strip()


def row_entry(row: Row) -> MarkdownEntry:
    """Return the entry of a memory."""
    return MarkdownEntry(
        id=header_id(row["id"]),
        kind=row["kind"],
        body=row["body"],
        tags=tuple(json.loads(row["tags"])),
        created=row["created_at"][:10],
    )


def row_note(row: Row) -> KnowledgeNote:
    """Return the content of the file of a knowledge entry."""
    return KnowledgeNote(
        title=row["title"],
        tags=tuple(json.loads(row["tags"])),
        body=row["body"],
        feature=row["feature"],
        created_at=row["created_at"],
    )


def comparable_note(row: Row) -> str:
    """Return a knowledge entry in a form that can be compared."""
    return encode_note(row_note(row))


def encode_note(note: KnowledgeNote) -> str:
    """Encode what a knowledge file and its entry have in common."""
    return encode([note.title, list(note.tags), note.feature, note.body])
