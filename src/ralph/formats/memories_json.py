"""Reader and writer of the version 1 export: one JSON object with a list of memories.

The fields of version 1 come first and are always present. Additional fields follow; readers of version 1 ignore them.
"""

from __future__ import annotations

from ralph.core.records import Source, State
from ralph.core.text import accept, cut, one_line
from ralph.formats.imported import (
    LONGEST_WORD,
    InvalidEntryError,
    count_of,
    id_of,
    imported,
    kind_of,
    loops_of,
    moment_of,
    object_of,
    paths_of,
    read_entries,
    share_of,
    tags_of,
    word_of,
)
from ralph.formats.js_json import dumps, loads
from ralph.formats.learnings_json import LONGEST_REASON, structured
from ralph.formats.planned import Unreadable, quote
from ralph.formats.public_memory import version_1
from ralph.memory.lifecycle.learnings import content_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ralph.core.records import Memory
    from ralph.formats.imported import Reading

    Fields = dict[str, object]

VERSION = 1


def read_memories_json(text: str, at: str) -> Reading:
    """Return the memories and the problems of an export or a bare list of memories.

    `at` is the current time, for entries without a date. The `line` of a problem is the number of the entry, from 1.
    """
    try:
        entries = _entries(text)
    except ValueError as error:
        return (), (Unreadable(line=1, why=f"Nothing imported: {error}."),)
    return read_entries(enumerate(entries, start=1), lambda entry: _memory(object_of(entry), at), "Entry {}")


def write_memories_json(memories: Iterable[Memory], project: str, at: str) -> str:
    """Return the memories as an export of the project, created at the given time."""
    entries = [export_fields(memory) for memory in memories]
    export = {"version": VERSION, "project": project, "exported_at": at, "memories": entries}
    return dumps(export, indent=2) + "\n"


def _entries(text: str) -> list[object]:
    try:
        export = loads(text, allow_nan=True)
    except ValueError as error:
        raise ValueError(f"the file is not valid JSON: {error}") from None
    if isinstance(export, list):
        return export
    entries = export.get("memories") if isinstance(export, dict) else None
    if not isinstance(export, dict) or not isinstance(entries, list):
        raise ValueError("the file has no `memories` list")
    version = export.get("version")
    if isinstance(version, bool) or version not in (None, VERSION, str(VERSION)):
        raise ValueError(f"the export has version {quote(str(version))}, but only version {VERSION} is supported")
    return entries


def _memory(fields: Fields, at: str) -> Memory:
    source, state, content = (fields.get(name) for name in ("source", "state", "structured_content"))
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
        validated_at=moment_of(fields.get("validated_at")) or None,
        success_rate=share_of(fields.get("success_rate"), "success rate"),
        support=max(1, count_of(fields.get("support"), "support")),
        task_type=_word(fields, "task_type"),
        feature=_word(fields, "feature", LONGEST_WORD),
        origin_loops=loops_of(fields.get("source_loops")),
        state=State.ACTIVE if state is None else word_of(state, "state", State),
        state_reason=cut(accept(_text(fields, "state_reason")), LONGEST_REASON),
        superseded_by=id_of(fields.get("superseded_by")) or None,
    )


def _text(fields: Fields, name: str) -> str:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidEntryError(f"its {name} is not a string")
    return value or ""


def _word(fields: Fields, name: str, width: int = 50) -> str | None:
    return one_line(accept(_text(fields, name)), width) or None


def export_fields(memory: Memory) -> Fields:
    """Return the fields of a memory in an export: those of version 1, then our own."""
    additional = {
        "created_at": memory.created_at,
        "updated_at": memory.updated_at,
        "last_used_at": memory.used_at,
        "verified_at": memory.verified_at,
        "validated_at": memory.validated_at,
        "success_rate": memory.success_rate,
        "support": memory.support if memory.support > 1 else None,
        "task_type": memory.task_type,
        "feature": memory.feature,
        "structured_content": content_of(memory) if memory.content else None,
        "source_loops": memory.origin_loops or None,
        "state": memory.state if memory.state is not State.ACTIVE else None,
        "state_reason": memory.state_reason or None,
        "superseded_by": memory.superseded_by,
    }
    return {
        **version_1(memory),
        **{name: value for name, value in additional.items() if value is not None},
    }
