"""Reader and writer of `ralph-learnings.json`, including its checksum.

A checksum mismatch is reported, never repaired: the caller decides which copy is right, and a damaged file may be the
only one left.
"""

from __future__ import annotations

import math

from ralph.core.limits import MAX_BODY_LENGTH
from ralph.core.records import Memory
from ralph.core.redaction import REDACTED, redact
from ralph.core.text import clean, one_line, sanitize
from ralph.formats.imported import (
    InvalidEntryError,
    convert_entries,
    imported_memory,
    parse_count,
    parse_id,
    parse_kind,
    parse_ratio,
    parse_source_loops,
    parse_timestamp,
    require_object,
)
from ralph.formats.js_json import checksum, dumps, loads
from ralph.formats.planned import ReadProblem
from ralph.memory.lifecycle.learnings import (
    GENERAL_TASK_TYPE,
    LEARNING_KINDS,
    describe_learning,
    plain_text_of,
    structured_content,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ralph.formats.detection import FileSample
    from ralph.formats.imported import Reading

    Fields = dict[str, object]

LEARNINGS_VERSION = "1.0.0"
DEFAULT_CONFIDENCE = 0.5
"""Confidence of a learning that has none in the file."""
MAX_REASON_CHARS = 2000
"""Maximum length of a rejection reason, in characters; the rest is cut."""
EPOCH = "1970-01-01T00:00:00.000Z"
"""Update time of a file without learnings."""


# --- reading -------------------------------------------------------------------


def is_learnings_json(sample: FileSample) -> bool:
    """Return whether a file is a `ralph-learnings.json`, even a damaged one."""
    return sample.has_list("learnings")


def is_learning(memory: Memory) -> bool:
    """Return whether a memory can be written as a learning."""
    return memory.kind in LEARNING_KINDS


def read_learnings_json(text: str, at: str) -> Reading:
    """Return the memories and the problems of a `ralph-learnings.json`; `at` is the current time."""
    return read_list(text, "learnings", lambda fields: _learning(fields, at))


def read_list(text: str, name: str, memory_of: Callable[[Fields], Memory]) -> Reading:
    """Return the memories and problems of a file with the list `name`.

    The `line` of a problem is the number of the entry, from 1. If the checksum does not match, the first problem says
    that the file is imported only with force.
    """
    try:
        document, entries = _parse(text, name)
    except ValueError as error:
        return (), (ReadProblem(line=1, why=f"Nothing imported: {error}."),)
    numbered = enumerate(entries, start=1)
    memories, problems = convert_entries(numbered, lambda entry: memory_of(require_object(entry)), "Entry {}")
    if document.get("checksum") == checksum(entries):
        return memories, problems
    why = "The checksum does not match: the file was changed or damaged after it was written."
    return memories, (ReadProblem(line=1, why=why, needs_force=True), *problems)


def _parse(text: str, name: str) -> tuple[Fields, list[object]]:
    """Return the fields of a file, and its entries; raise `ValueError` with a short reason if it is invalid."""
    try:
        document = loads(text)
    except ValueError as error:
        raise ValueError(f"the file is not valid JSON: {error}") from None
    entries = document.get(name) if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(entries, list):
        raise ValueError(f"the file has no `{name}` list")
    version = document.get("version", LEARNINGS_VERSION)
    if not isinstance(version, str) or version.split(".")[0] != LEARNINGS_VERSION.split(".")[0]:
        raise ValueError(f"the version of the file is not {LEARNINGS_VERSION}")
    return document, entries


def _learning(fields: Fields, at: str) -> Memory:
    return learning_memory(
        fields,
        at,
        id=parse_id(fields.get("id")),
        uses=parse_count(fields.get("useCount"), "use count"),
        created_at=parse_timestamp(fields.get("createdAt")),
        updated_at=parse_timestamp(fields.get("updatedAt")),
    )


def learning_memory(fields: Fields, at: str, **more: object) -> Memory:
    """Return the memory of a learning; raise `InvalidEntryError` if it is invalid."""
    kind = parse_kind(fields.get("type"))
    if kind not in LEARNING_KINDS:
        raise InvalidEntryError(f"its type is not one of {', '.join(LEARNING_KINDS)}")
    task_type = _task_type(fields.get("taskType"))
    content = clean_content(fields.get("content"))
    confidence = parse_ratio(fields.get("confidence"), "confidence")
    loops = parse_source_loops(fields.get("sourceLoops"))
    title, body = describe_learning(kind, task_type, content)
    # Content was generated for a plain-text memory when it was exported, and is dropped again.
    is_plain = "details" in content and plain_text_of(kind, content)
    return imported_memory(
        kind=kind,
        title=title,
        content=body,
        at=at,
        structured_content="" if is_plain else dumps(content),
        task_type=task_type,
        confidence=DEFAULT_CONFIDENCE if confidence is None else confidence,
        success_rate=parse_ratio(fields.get("successRate"), "success rate"),
        origin_loops=loops,
        support=max(1, len(loops)),
        **more,
    )


def _task_type(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidEntryError("its task type is not a string")
    return one_line(sanitize(value), 50) or None


def clean_content(value: object) -> Fields:
    """Return the cleaned content of a learning; raise `InvalidEntryError` if it is invalid."""
    if not isinstance(value, dict) or not value:
        raise InvalidEntryError("its content is not a non-empty object")
    if (length := len(dumps(value))) > MAX_BODY_LENGTH:
        raise InvalidEntryError(f"its content has {length:,} characters, and the limit is {MAX_BODY_LENGTH:,}")
    return {clean(name): _clean_value(inner, name) for name, inner in value.items()}


def _clean_value(value: object, name: str) -> object:
    """Return a value with its strings cleaned and redacted; `name` is its key."""
    if isinstance(value, str):
        text = redact(clean(value))
        # Passwords are recognized by the name of their field.
        named = f'{clean(name)}: "{text}"'
        return text if redact(named) == named else REDACTED
    if isinstance(value, dict):
        return {clean(key): _clean_value(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [_clean_value(inner, name) for inner in value]
    if isinstance(value, int | float) and not math.isfinite(value):
        raise InvalidEntryError("its content has a number that is not valid JSON")
    return value


# --- writing -------------------------------------------------------------------


def write_learnings_json(memories: Iterable[Memory], at: str = EPOCH) -> str:
    """Return the learnings among the memories as a `ralph-learnings.json`.

    Its update time is that of the newest learning, but not before `at`.
    """
    exported = [memory for memory in memories if memory.kind in LEARNING_KINDS]
    learnings = [
        {
            "id": memory.id,
            **common_fields(memory),
            "createdAt": memory.created_at,
            "updatedAt": memory.updated_at,
            "useCount": memory.uses,
            "successRate": memory.success_rate,
        }
        for memory in exported
    ]
    by_type = dict.fromkeys(LEARNING_KINDS, 0)
    by_task_type: dict[str, int] = {}
    for memory in exported:
        by_type[memory.kind] += 1
        task_type = memory.task_type or GENERAL_TASK_TYPE
        by_task_type[task_type] = by_task_type.get(task_type, 0) + 1
    stats = {"totalLearnings": len(exported), "byType": by_type, "byTaskType": by_task_type}
    last_updated = max([at, *(memory.updated_at for memory in exported)])
    return dumps({**file_header(learnings, last_updated), "learnings": learnings, "stats": stats}, indent=2)


def file_header(items: list[Fields], at: str) -> Fields:
    """Return the fields at the start of a file."""
    return {"version": LEARNINGS_VERSION, "checksum": checksum(items), "lastUpdated": at}


def common_fields(memory: Memory) -> Fields:
    """Return the fields that learnings have in both files."""
    return {
        "type": memory.kind,
        "taskType": memory.task_type or GENERAL_TASK_TYPE,
        "content": structured_content(memory),
        "confidence": memory.confidence,
        "sourceLoops": memory.origin_loops,
    }
