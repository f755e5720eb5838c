"""Public representation of a memory, with the field names of the published export format."""

from __future__ import annotations

from ralph.memory.lifecycle.learnings import structured_content

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.records import Memory


def export_fields_v1(memory: Memory) -> dict[str, object]:
    """Return the fields of export format version 1."""
    return {
        "id": memory.id,
        "type": memory.kind,
        "title": memory.title,
        "content": memory.content or memory.title,
        "confidence": memory.confidence,
        "tags": memory.tags,
        "file_refs": memory.files,
        "created_by_hat": memory.hat,
        "source": memory.source,
        "use_count": memory.uses,
    }


def public_fields(memory: Memory) -> dict[str, object]:
    """Return all public fields of a memory, in the form an import reads."""
    return {
        **export_fields_v1(memory),
        "success_rate": memory.success_rate,
        "support": memory.support,
        "state": memory.state,
        "state_reason": memory.state_reason,
        "superseded_by": memory.superseded_by,
        "task_type": memory.task_type,
        "feature": memory.feature,
        "structured_content": structured_content(memory) if memory.structured_content else None,
        "created_by_task": memory.origin_task,
        "created_by_run": memory.origin_run,
        "created_by_attempt": memory.origin_attempt,
        "created_by_session": memory.origin_session,
        "source_loops": memory.origin_loops,
        "created_at": memory.created_at,
        "updated_at": memory.updated_at,
        "last_used_at": memory.used_at,
        "verified_at": memory.verified_at,
        "validated_at": memory.validated_at,
        "pinned_at": memory.pinned_at,
        "stale": memory.stale,
    }
