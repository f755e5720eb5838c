"""Reader and writer of the version 1 export: one JSON object with a list of memories.

The fields of version 1 come first and are always present. Additional fields follow; readers of version 1 ignore them.
"""

from __future__ import annotations

from ralph.core.records import MemorySource, MemoryState
from ralph.core.text import one_line, sanitize, truncate
from ralph.formats.detection import is_memory
from ralph.formats.imported import (
    MAX_WORD_CHARS,
    InvalidEntryError,
    convert_entries,
    imported_memory,
    parse_count,
    parse_enum,
    parse_id,
    parse_kind,
    parse_paths,
    parse_ratio,
    parse_source_loops,
    parse_tags,
    parse_timestamp,
    require_object,
)
from ralph.formats.js_json import dumps, loads
from ralph.formats.learnings_json import MAX_REASON_CHARS, clean_content
from ralph.formats.planned import ReadProblem, quote_excerpt
from ralph.formats.public_memory import export_fields_v1
from ralph.memory.lifecycle.learnings import structured_content

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ralph.core.records import Memory
    from ralph.formats.detection import FileSample
    from ralph.formats.imported import Reading

    Fields = dict[str, object]

EXPORT_VERSION = 1


def is_memories_json(sample: FileSample) -> bool:
    """Return whether a file is an export or a list of memories."""
    return sample.has_list("memories") or (sample.is_array and is_memory(sample.first_object))


def read_memories_json(text: str, at: str) -> Reading:
    """Return the memories and the problems of an export or a bare list of memories.

    `at` is the current time, for entries without a date. The `line` of a problem is the number of the entry, from 1.
    """
    try:
        entries = _entries(text)
    except ValueError as error:
        return (), (ReadProblem(line=1, why=f"Nothing imported: {error}."),)
    return convert_entries(enumerate(entries, start=1), lambda entry: _memory(require_object(entry), at), "Entry {}")


def write_memories_json(memories: Iterable[Memory], project: str, at: str) -> str:
    """Return the memories as an export of the project, created at the given time."""
    entries = [export_fields(memory) for memory in memories]
    export = {"version": EXPORT_VERSION, "project": project, "exported_at": at, "memories": entries}
    return dumps(export, indent=2) + "\n"


def _entries(text: str) -> list[object]:
    try:
        export = loads(text)
    except ValueError as error:
        raise ValueError(f"the file is not valid JSON: {error}") from None
    if isinstance(export, list):
        return export
    entries = export.get("memories") if isinstance(export, dict) else None
    if not isinstance(export, dict) or not isinstance(entries, list):
        raise ValueError("the file has no `memories` list")
    version = export.get("version")
    if isinstance(version, bool) or version not in (None, EXPORT_VERSION, str(EXPORT_VERSION)):
        raise ValueError(
            f"the export has version {quote_excerpt(str(version))}, but only version {EXPORT_VERSION} is supported"
        )
    return entries


def _memory(fields: Fields, at: str) -> Memory:
    source, state, content = (fields.get(name) for name in ("source", "state", "structured_content"))
    return imported_memory(
        kind=parse_kind(fields.get("type")),
        title=_text(fields, "title"),
        content=_text(fields, "content"),
        at=at,
        id=parse_id(fields.get("id")),
        structured_content="" if content is None else dumps(clean_content(content)),
        confidence=parse_ratio(fields.get("confidence"), "confidence"),
        tags=parse_tags(fields.get("tags")),
        files=parse_paths(fields.get("file_refs")),
        hat=_word(fields, "created_by_hat"),
        source=MemorySource(source)
        if isinstance(source, str) and source in tuple(MemorySource)
        else MemorySource.IMPORTED,
        uses=parse_count(fields.get("use_count"), "use count"),
        created_at=parse_timestamp(fields.get("created_at")),
        updated_at=parse_timestamp(fields.get("updated_at")),
        used_at=parse_timestamp(fields.get("last_used_at")) or None,
        verified_at=parse_timestamp(fields.get("verified_at")) or None,
        validated_at=parse_timestamp(fields.get("validated_at")) or None,
        success_rate=parse_ratio(fields.get("success_rate"), "success rate"),
        support=max(1, parse_count(fields.get("support"), "support")),
        task_type=_word(fields, "task_type"),
        feature=_word(fields, "feature", MAX_WORD_CHARS),
        origin_loops=parse_source_loops(fields.get("source_loops")),
        state=MemoryState.ACTIVE if state is None else parse_enum(state, "state", MemoryState),
        state_reason=truncate(sanitize(_text(fields, "state_reason")), MAX_REASON_CHARS),
        superseded_by=parse_id(fields.get("superseded_by")) or None,
    )


def _text(fields: Fields, name: str) -> str:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidEntryError(f"its {name} is not a string")
    return value or ""


def _word(fields: Fields, name: str, width: int = 50) -> str | None:
    return one_line(sanitize(_text(fields, name)), width) or None


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
        "structured_content": structured_content(memory) if memory.structured_content else None,
        "source_loops": memory.origin_loops or None,
        "state": memory.state if memory.state is not MemoryState.ACTIVE else None,
        "state_reason": memory.state_reason or None,
        "superseded_by": memory.superseded_by,
    }
    return {
        **export_fields_v1(memory),
        **{name: value for name, value in additional.items() if value is not None},
    }
