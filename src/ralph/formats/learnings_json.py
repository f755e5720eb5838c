"""Reader and writer of `ralph-learnings.json` and `staging.json`, including their checksum.

A checksum mismatch is reported, never repaired: the caller decides which copy is right, and a damaged file may be the
only one left.
"""

from __future__ import annotations

import math

from ralph.core.files import write_atomically
from ralph.core.limits import MAX_BODY_LENGTH
from ralph.core.records import Memory, MemoryState, record
from ralph.core.redaction import REDACTED, redact
from ralph.core.text import clean, one_line, sanitize, truncate
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
    from pathlib import Path

    from ralph.formats.planned import ReadProblem

    Fields = dict[str, object]

LEARNINGS_VERSION = "1.0.0"
DEFAULT_CONFIDENCE = 0.5
"""Confidence of a learning that has none in the file."""
MAX_LEARNINGS_BYTES = 50_000_000
"""Maximum size of a file, in bytes."""
MAX_REASON_CHARS = 2000
"""Maximum length of a rejection reason, in characters; the rest is cut."""
EPOCH = "1970-01-01T00:00:00.000Z"
"""Update time of a file without learnings."""


@record
class LearningsFile:
    """The content of a learnings file."""

    memories: tuple[Memory, ...]
    problems: tuple[ReadProblem, ...]
    """Problems, whose `line` is the number of the entry, from 1."""
    is_intact: bool
    """Whether the checksum matches the entries."""
    last_updated: str
    """Timestamp, or empty if the file has none."""


# --- reading -------------------------------------------------------------------


def read_learnings_json(text: str, at: str) -> LearningsFile:
    """Parse a `ralph-learnings.json`; raise `ValueError` with a message for users if it is invalid.

    `at` is the current time, for entries without a date.
    """
    try:
        return _read_learnings(text, at)
    except ValueError as error:
        raise ValueError(f"Cannot read learnings: {error}.") from None


def read_staging_json(text: str, at: str) -> LearningsFile:
    """Parse a `staging.json`; raise `ValueError` with a message for users if it is invalid."""
    try:
        return _read(text, "staged", lambda fields: _staged_learning(fields, at))
    except ValueError as error:
        raise ValueError(f"Cannot read staged learnings: {error}.") from None


def _read_learnings(text: str, at: str) -> LearningsFile:
    return _read(text, "learnings", lambda fields: _learning(fields, at))


def _read(text: str, name: str, memory_of: Callable[[Fields], Memory]) -> LearningsFile:
    """Parse a file with the list `name`; raise `ValueError` with a short reason if it is invalid."""
    store, entries = _parse(text, name)
    numbered = enumerate(entries, start=1)
    memories, problems = convert_entries(numbered, lambda entry: memory_of(require_object(entry)), "Entry {}")
    return LearningsFile(
        memories=memories,
        problems=problems,
        is_intact=store.get("checksum") == checksum(entries),
        last_updated=_timestamp_or_empty(store.get("lastUpdated")),
    )


def _parse(text: str, name: str) -> tuple[Fields, list[object]]:
    """Return the fields of the file, and its entries."""
    try:
        store = loads(text, allow_nan=True)
    except ValueError as error:
        raise ValueError(f"it is not valid JSON: {error}") from None
    entries = store.get(name) if isinstance(store, dict) else None
    if not isinstance(store, dict) or not isinstance(entries, list):
        raise ValueError(f"it has no `{name}` list")
    version = store.get("version", LEARNINGS_VERSION)
    if not isinstance(version, str) or version.split(".")[0] != LEARNINGS_VERSION.split(".")[0]:
        raise ValueError(f"its version is not {LEARNINGS_VERSION}")
    return store, entries


def _timestamp_or_empty(value: object) -> str:
    try:
        return parse_timestamp(value)
    except InvalidEntryError:
        return ""


def _learning(fields: Fields, at: str) -> Memory:
    return _memory(
        fields,
        at,
        id=parse_id(fields.get("id")),
        uses=parse_count(fields.get("useCount"), "use count"),
        created_at=parse_timestamp(fields.get("createdAt")),
        updated_at=parse_timestamp(fields.get("updatedAt")),
    )


def _staged_learning(fields: Fields, at: str) -> Memory:
    learning, status = fields.get("learning"), fields.get("status")
    if not isinstance(learning, dict):
        raise InvalidEntryError("it has no learning")
    if status not in ("pending", "validated", "rejected"):
        raise InvalidEntryError("its status is not pending, validated or rejected")
    staged_at = parse_timestamp(fields.get("stagedAt")) or at
    validated_at = parse_timestamp(fields.get("validatedAt"))
    if status == "validated":
        validated_at = validated_at or staged_at
    reason = fields.get("rejectionReason")
    is_rejected = status == "rejected"
    return _memory(
        learning,
        at,
        id=parse_id(fields.get("id")),
        state=MemoryState.REJECTED if is_rejected else MemoryState.STAGED,
        state_reason=truncate(sanitize(reason), MAX_REASON_CHARS) if is_rejected and isinstance(reason, str) else "",
        created_at=staged_at,
        updated_at=validated_at or staged_at,
        validated_at=validated_at or None if status != "pending" else None,
    )


def _memory(fields: Fields, at: str, **more: object) -> Memory:
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
        body=body,
        at=at,
        content="" if is_plain else dumps(content),
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
            **_common_fields(memory),
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
    return dumps({**_header(learnings, last_updated), "learnings": learnings, "stats": stats}, indent=2)


def write_staging_json(memories: Iterable[Memory], at: str) -> str:
    """Return the staged and rejected learnings as a `staging.json` with the given update time."""
    staged = [
        _staged_fields(memory)
        for memory in memories
        if memory.kind in LEARNING_KINDS and memory.state in (MemoryState.STAGED, MemoryState.REJECTED)
    ]
    return dumps({**_header(staged, at), "staged": staged}, indent=2)


def _header(items: list[Fields], at: str) -> Fields:
    return {"version": LEARNINGS_VERSION, "checksum": checksum(items), "lastUpdated": at}


def _common_fields(memory: Memory) -> Fields:
    return {
        "type": memory.kind,
        "taskType": memory.task_type or GENERAL_TASK_TYPE,
        "content": structured_content(memory),
        "confidence": memory.confidence,
        "sourceLoops": memory.origin_loops,
    }


def _staged_fields(memory: Memory) -> Fields:
    status = "rejected" if memory.state is MemoryState.REJECTED else "validated" if memory.validated_at else "pending"
    fields: Fields = {
        "id": memory.id,
        "learning": {**_common_fields(memory), "successRate": memory.success_rate},
        "status": status,
        "stagedAt": memory.created_at,
    }
    if memory.validated_at:
        fields["validatedAt"] = memory.validated_at
    if status == "rejected":
        fields["rejectionReason"] = memory.state_reason
    return fields


# --- the file and its backup -----------------------------------------------------


def load_learnings(path: Path, at: str) -> tuple[LearningsFile, str]:
    """Load a learnings file, or its backup if it is damaged; return a message in that case.

    Nothing is written. Raise `ValueError` if both are damaged.
    """
    backup = _sibling(path, ".bak")
    try:
        return _load_intact(path, at), ""
    except ValueError as error:
        damage = str(error)
    try:
        loaded = _load_intact(backup, at)
    except ValueError as error:
        raise ValueError(
            f"Cannot use {path} ({damage}) or its backup {backup} ({error}). Repair or delete the first."
        ) from None
    return loaded, f"Cannot use {path} ({damage}); imported its backup {backup.name} instead. The file was not changed."


def save_learnings(path: Path, text: str) -> None:
    """Replace a learnings file atomically, and keep the previous one.

    An intact file becomes the backup. A damaged one is saved as `.damaged`, so that a good backup is not overwritten.
    """
    try:
        current = path.read_bytes()
    except FileNotFoundError:
        current = b""
    if current:
        write_atomically(_sibling(path, ".bak" if _is_intact(current) else ".damaged"), current)
    write_atomically(path.resolve(), text.encode())


def _sibling(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _load_intact(path: Path, at: str) -> LearningsFile:
    """Load an undamaged file; raise `ValueError` with a short reason if it is damaged."""
    try:
        if path.stat().st_size > MAX_LEARNINGS_BYTES:
            raise ValueError(f"it is larger than {MAX_LEARNINGS_BYTES:,} bytes")
        text = path.read_bytes().decode()
    except FileNotFoundError:
        raise ValueError("it does not exist") from None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror}") from None
    loaded = _read_learnings(text, at)
    if not loaded.is_intact:
        raise ValueError("its checksum does not match")
    return loaded


def _is_intact(file: bytes) -> bool:
    """Return whether the checksum of a file of either kind matches."""
    for name in ("learnings", "staged"):
        try:
            store, entries = _parse(file.decode(), name)
        except ValueError:
            continue
        return store.get("checksum") == checksum(entries)
    return False
