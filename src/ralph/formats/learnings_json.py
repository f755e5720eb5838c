"""Read and write `ralph-learnings.json` and `staging.json`, checksum included.

A checksum that does not match is reported, never repaired: which copy is right is
for the caller to say, and a damaged file is the last trace of what it held.
"""

from __future__ import annotations

import math

from ralph.files import write_whole
from ralph.formats.imported import (
    InvalidEntryError,
    count_of,
    id_of,
    imported,
    kind_of,
    loops_of,
    moment_of,
    object_of,
    read_entries,
    share_of,
)
from ralph.formats.js_json import checksum, dumps, loads
from ralph.memory.learning import GENERAL, LEARNING_KINDS, content_of, described, in_plain_words
from ralph.memory.limits import LONGEST_BODY
from ralph.records import Memory, State, record
from ralph.text import REDACTED, accept, clean, cut, one_line, redact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from ralph.formats.planned import Unreadable

    Fields = dict[str, object]

VERSION = "1.0.0"
START_CONFIDENCE = 0.5
"""For a learning that does not say; what the original gives it."""
LARGEST_FILE = 50_000_000
"""Bytes."""
LONGEST_REASON = 2000
BEGINNING = "1970-01-01T00:00:00.000Z"


@record
class LearningsFile:
    """What a file of learnings holds."""

    memories: tuple[Memory, ...]
    problems: tuple[Unreadable, ...]
    """What was left out; `line` is the place of the entry, from 1."""
    is_intact: bool
    """Whether its checksum is that of its entries."""
    last_updated: str
    """Empty when the file does not say."""


# --- reading -------------------------------------------------------------------


def read_learnings_json(text: str, at: str) -> LearningsFile:
    """Give the learnings of a `ralph-learnings.json`; raises `ValueError` with a sentence if it is none.

    `at` is the present moment, for what the file leaves undated.
    """
    try:
        return _read_learnings(text, at)
    except ValueError as error:
        raise ValueError(f"No learnings can be read here: {error}.") from None


def read_staging_json(text: str, at: str) -> LearningsFile:
    """Give the staged learnings of a `staging.json`; raises `ValueError` with a sentence if it is none."""
    try:
        return _read(text, "staged", lambda fields: _staged(fields, at))
    except ValueError as error:
        raise ValueError(f"No staged learnings can be read here: {error}.") from None


def _read_learnings(text: str, at: str) -> LearningsFile:
    return _read(text, "learnings", lambda fields: _learning(fields, at))


def _read(text: str, name: str, memory_of: Callable[[Fields], Memory]) -> LearningsFile:
    """Give what the file holds; raises `ValueError` with a clause that says what it is not."""
    store, entries = _opened(text, name)
    numbered = enumerate(entries, start=1)
    memories, problems = read_entries(numbered, lambda entry: memory_of(object_of(entry)), "Entry {}")
    return LearningsFile(
        memories=memories,
        problems=problems,
        is_intact=store.get("checksum") == checksum(entries),
        last_updated=_moment(store.get("lastUpdated")),
    )


def _opened(text: str, name: str) -> tuple[Fields, list[object]]:
    """Give the fields of the file, and its entries."""
    try:
        store = loads(text, allow_nan=True)
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    entries = store.get(name) if isinstance(store, dict) else None
    if not isinstance(store, dict) or not isinstance(entries, list):
        raise ValueError(f"it has no list `{name}`")
    version = store.get("version", VERSION)
    if not isinstance(version, str) or version.split(".")[0] != VERSION.split(".")[0]:
        raise ValueError(f"its version is not {VERSION}")
    return store, entries


def _moment(value: object) -> str:
    try:
        return moment_of(value)
    except InvalidEntryError:
        return ""


def _learning(fields: Fields, at: str) -> Memory:
    return _memory(
        fields,
        at,
        id=id_of(fields.get("id")),
        uses=count_of(fields.get("useCount"), "use count"),
        created_at=moment_of(fields.get("createdAt")),
        updated_at=moment_of(fields.get("updatedAt")),
    )


def _staged(fields: Fields, at: str) -> Memory:
    learning, status = fields.get("learning"), fields.get("status")
    if not isinstance(learning, dict):
        raise InvalidEntryError("it has no learning")
    if status not in ("pending", "validated", "rejected"):
        raise InvalidEntryError("its status is not pending, validated or rejected")
    staged_at = moment_of(fields.get("stagedAt")) or at
    validated_at = moment_of(fields.get("validatedAt"))
    if status == "validated":
        validated_at = validated_at or staged_at
    reason = fields.get("rejectionReason")
    is_rejected = status == "rejected"
    return _memory(
        learning,
        at,
        id=id_of(fields.get("id")),
        state=State.REJECTED if is_rejected else State.STAGED,
        state_reason=cut(accept(reason), LONGEST_REASON) if is_rejected and isinstance(reason, str) else "",
        created_at=staged_at,
        updated_at=validated_at or staged_at,
        validated_at=validated_at or None if status != "pending" else None,
    )


def _memory(fields: Fields, at: str, **more: object) -> Memory:
    kind = kind_of(fields.get("type"))
    if kind not in LEARNING_KINDS:
        raise InvalidEntryError(f"its type is not one of {', '.join(LEARNING_KINDS)}")
    task_type = _task_type(fields.get("taskType"))
    content = structured(fields.get("content"))
    confidence = share_of(fields.get("confidence"), "confidence")
    loops = loops_of(fields.get("sourceLoops"))
    title, body = described(kind, task_type, content)
    # A memory in plain words got a content only to be written here.
    is_plain = "details" in content and in_plain_words(kind, content)
    return imported(
        kind=kind,
        title=title,
        body=body,
        at=at,
        content="" if is_plain else dumps(content),
        task_type=task_type,
        confidence=START_CONFIDENCE if confidence is None else confidence,
        success_rate=share_of(fields.get("successRate"), "success rate"),
        origin_loops=loops,
        support=max(1, len(loops)),
        **more,
    )


def _task_type(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidEntryError("its task type is not text")
    return one_line(accept(value), 50) or None


def structured(value: object) -> Fields:
    """Give the content of a learning the way it may be stored; raises `InvalidEntryError` when it cannot be one."""
    if not isinstance(value, dict) or not value:
        raise InvalidEntryError("its content is not an object that says something")
    if (length := len(dumps(value))) > LONGEST_BODY:
        raise InvalidEntryError(f"its content has {length:,} characters, and a memory may have {LONGEST_BODY:,}")
    return {clean(name): _accepted(inner, name) for name, inner in value.items()}


def _accepted(value: object, name: str) -> object:
    """Give a value of a content the way it may be stored, with the spaces it has; `name` is its key."""
    if isinstance(value, str):
        text = redact(clean(value))
        # A password is told by the name of its field.
        named = f'{clean(name)}: "{text}"'
        return text if redact(named) == named else REDACTED
    if isinstance(value, dict):
        return {clean(key): _accepted(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [_accepted(inner, name) for inner in value]
    if isinstance(value, int | float) and not math.isfinite(value):
        raise InvalidEntryError("its content holds a number that JSON does not have")
    return value


# --- writing -------------------------------------------------------------------


def write_learnings_json(memories: Iterable[Memory], at: str = BEGINNING) -> str:
    """Give the learnings among the memories as a `ralph-learnings.json`.

    It was last updated with its newest learning, or at a later moment given.
    """
    kept = [memory for memory in memories if memory.kind in LEARNING_KINDS]
    learnings = [
        {
            "id": memory.id,
            **_core(memory),
            "createdAt": memory.created_at,
            "updatedAt": memory.updated_at,
            "useCount": memory.uses,
            "successRate": memory.success_rate,
        }
        for memory in kept
    ]
    by_type = dict.fromkeys(LEARNING_KINDS, 0)
    by_task_type: dict[str, int] = {}
    for memory in kept:
        by_type[memory.kind] += 1
        task_type = memory.task_type or GENERAL
        by_task_type[task_type] = by_task_type.get(task_type, 0) + 1
    stats = {"totalLearnings": len(kept), "byType": by_type, "byTaskType": by_task_type}
    last_updated = max([at, *(memory.updated_at for memory in kept)])
    return dumps({**_head(learnings, last_updated), "learnings": learnings, "stats": stats}, indent=2)


def write_staging_json(memories: Iterable[Memory], at: str) -> str:
    """Give the staged and rejected learnings as a `staging.json` that was last changed at this moment."""
    staged = [
        _staged_fields(memory)
        for memory in memories
        if memory.kind in LEARNING_KINDS and memory.state in (State.STAGED, State.REJECTED)
    ]
    return dumps({**_head(staged, at), "staged": staged}, indent=2)


def _head(items: list[Fields], at: str) -> Fields:
    return {"version": VERSION, "checksum": checksum(items), "lastUpdated": at}


def _core(memory: Memory) -> Fields:
    return {
        "type": memory.kind,
        "taskType": memory.task_type or GENERAL,
        "content": content_of(memory),
        "confidence": memory.confidence,
        "sourceLoops": memory.origin_loops,
    }


def _staged_fields(memory: Memory) -> Fields:
    status = "rejected" if memory.state is State.REJECTED else "validated" if memory.validated_at else "pending"
    fields: Fields = {
        "id": memory.id,
        "learning": {**_core(memory), "successRate": memory.success_rate},
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
    """Give the learnings of the file or, when it is damaged, of its backup, with a sentence that says so.

    Nothing is written: the damaged file stays as it is. Raises `ValueError` when both are damaged.
    """
    backup = _beside(path, ".bak")
    try:
        return _load_intact(path, at), ""
    except ValueError as error:
        damage = str(error)
    try:
        found = _load_intact(backup, at)
    except ValueError as error:
        raise ValueError(
            f"Neither {path} ({damage}) nor its backup {backup} ({error}) can be used; mend or remove the first."
        ) from None
    return found, f"{path} cannot be used ({damage}) and was left alone; its backup {backup.name} was read instead."


def save_learnings(path: Path, text: str) -> None:
    """Put the text in place of the file, all or nothing, and keep what was there.

    An intact file becomes the backup. A damaged one must not take the place of a good
    backup; it is kept with the ending `.damaged`.
    """
    try:
        present = path.read_bytes()
    except FileNotFoundError:
        present = b""
    if present:
        write_whole(_beside(path, ".bak" if _is_intact(present) else ".damaged"), present)
    write_whole(path.resolve(), text.encode())


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _load_intact(path: Path, at: str) -> LearningsFile:
    """Give what an undamaged file holds; raises `ValueError` with a clause that says what is wrong with it."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ValueError(f"it has more than {LARGEST_FILE:,} bytes")
        text = path.read_bytes().decode()
    except FileNotFoundError:
        raise ValueError("it is not there") from None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror}") from None
    found = _read_learnings(text, at)
    if not found.is_intact:
        raise ValueError("its checksum does not match")
    return found


def _is_intact(file: bytes) -> bool:
    """Say whether a file of either kind has the checksum of its entries."""
    for name in ("learnings", "staged"):
        try:
            store, entries = _opened(file.decode(), name)
        except ValueError:
            continue
        return store.get("checksum") == checksum(entries)
    return False
