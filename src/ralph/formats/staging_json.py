"""Reader and writer of `staging.json`: learnings that wait for review, and rejected ones."""

from __future__ import annotations

from ralph.core.records import Memory, MemoryState
from ralph.core.text import sanitize, truncate
from ralph.formats.imported import InvalidEntryError, parse_id, parse_timestamp
from ralph.formats.js_json import dumps
from ralph.formats.learnings_json import (
    MAX_REASON_CHARS,
    common_fields,
    file_header,
    is_learning,
    learning_memory,
    read_list,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ralph.formats.detection import FileSample
    from ralph.formats.imported import Reading

    Fields = dict[str, object]


def is_staging_json(sample: FileSample) -> bool:
    """Return whether a file is a `staging.json`, even a damaged one."""
    return sample.has_list("staged")


def is_staged_learning(memory: Memory) -> bool:
    """Return whether a memory can be written to the file."""
    return is_learning(memory) and memory.state in (MemoryState.STAGED, MemoryState.REJECTED)


def read_staging_json(text: str, at: str) -> Reading:
    """Return the memories and the problems of a `staging.json`; `at` is the current time."""
    return read_list(text, "staged", lambda fields: _staged_learning(fields, at))


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
    return learning_memory(
        learning,
        at,
        id=parse_id(fields.get("id")),
        state=MemoryState.REJECTED if is_rejected else MemoryState.STAGED,
        state_reason=truncate(sanitize(reason), MAX_REASON_CHARS) if is_rejected and isinstance(reason, str) else "",
        created_at=staged_at,
        updated_at=validated_at or staged_at,
        validated_at=validated_at or None if status != "pending" else None,
    )


def write_staging_json(memories: Iterable[Memory], at: str) -> str:
    """Return the staged and rejected learnings as a `staging.json` with the given update time."""
    staged = [_staged_fields(memory) for memory in memories if is_staged_learning(memory)]
    return dumps({**file_header(staged, at), "staged": staged}, indent=2)


def _staged_fields(memory: Memory) -> Fields:
    status = "rejected" if memory.state is MemoryState.REJECTED else "validated" if memory.validated_at else "pending"
    fields: Fields = {
        "id": memory.id,
        "learning": {**common_fields(memory), "successRate": memory.success_rate},
        "status": status,
        "stagedAt": memory.created_at,
    }
    if memory.validated_at:
        fields["validatedAt"] = memory.validated_at
    if status == "rejected":
        fields["rejectionReason"] = memory.state_reason
    return fields
