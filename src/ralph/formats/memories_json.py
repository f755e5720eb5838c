"""Read and write memories as the version 1 export: one JSON object with a list of memories.

The fields of version 1 come first and are always there; what we know beyond them
follows, for readers of version 1 pass over fields they do not know.
"""

from __future__ import annotations

from ralph.formats.imported import (
    NotAMemory,
    count_of,
    id_of,
    imported,
    kind_of,
    moment_of,
    paths_of,
    share_of,
    tags_of,
)
from ralph.formats.js_json import dumps, loads
from ralph.formats.learnings_json import structured
from ralph.formats.planned import Unreadable, quote
from ralph.memory.learning import content_of
from ralph.memory.public import version_1
from ralph.records import Source
from ralph.text import accept, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ralph.formats.imported import Reading
    from ralph.records import Memory

    Fields = dict[str, object]

VERSION = 1


def read_memories_json(text: str, at: str) -> Reading:
    """Give the memories of an export or of a bare list of them, and what could not be read.

    `at` is the present moment, for what is undated; `line` of a problem is the place of the entry, from 1.
    """
    try:
        entries = _entries(text)
    except ValueError as error:
        return (), (Unreadable(line=1, why=f"No memories can be read here: {error}."),)
    memories, problems = [], []
    for place, entry in enumerate(entries, start=1):
        try:
            memories.append(_memory(entry, at))
        except NotAMemory as error:
            problems.append(Unreadable(line=place, why=f"Entry {place} is left out: {error}."))
    return tuple(memories), tuple(problems)


def write_memories_json(memories: Iterable[Memory], project: str, at: str) -> str:
    """Give the memories as an export of this project, made at this moment."""
    export = {"version": VERSION, "project": project, "exported_at": at, "memories": [_fields(m) for m in memories]}
    return dumps(export, indent=2) + "\n"


def _entries(text: str) -> list[object]:
    try:
        export = loads(text, allow_nan=True)
    except ValueError as error:
        raise ValueError(f"the file is not JSON: {error}") from None
    if isinstance(export, list):
        return export
    entries = export.get("memories") if isinstance(export, dict) else None
    if not isinstance(export, dict) or not isinstance(entries, list):
        raise ValueError("the file has no list `memories`")
    version = export.get("version")
    if isinstance(version, bool) or version not in (None, VERSION, str(VERSION)):
        raise ValueError(f"the export has version {quote(str(version))}, and only version {VERSION} is known")
    return entries


def _memory(entry: object, at: str) -> Memory:
    if not isinstance(entry, dict):
        raise NotAMemory("it is not an object")
    fields: Fields = entry
    source, content = fields.get("source"), fields.get("structured_content")
    return imported(
        kind=kind_of(fields.get("type")),
        title=_text(fields, "title"),
        body=_text(fields, "content"),
        at=at,
        id=id_of(fields.get("id")),
        content="" if content is None else dumps(structured(content)),
        confidence=share_of(fields.get("confidence"), "confidence"),
        tags=tags_of(fields.get("tags")),
        files=paths_of(fields.get("file_refs")),
        hat=_word(fields, "created_by_hat"),
        source=Source(source) if isinstance(source, str) and source in tuple(Source) else Source.IMPORTED,
        uses=count_of(fields.get("use_count"), "use count"),
        created_at=moment_of(fields.get("created_at")),
        updated_at=moment_of(fields.get("updated_at")),
        used_at=moment_of(fields.get("last_used_at")) or None,
        verified_at=moment_of(fields.get("verified_at")) or None,
        success_rate=share_of(fields.get("success_rate"), "success rate"),
        task_type=_word(fields, "task_type"),
    )


def _text(fields: Fields, name: str) -> str:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise NotAMemory(f"its {name} is not text")
    return value or ""


def _word(fields: Fields, name: str) -> str | None:
    return one_line(accept(_text(fields, name)), 50) or None


def _fields(memory: Memory) -> Fields:
    beyond = {
        "created_at": memory.created_at,
        "updated_at": memory.updated_at,
        "last_used_at": memory.used_at,
        "verified_at": memory.verified_at,
        "success_rate": memory.success_rate,
        "task_type": memory.task_type,
        "structured_content": content_of(memory) if memory.content else None,
    }
    return {
        **version_1(memory),
        **{name: value for name, value in beyond.items() if value is not None},
    }
