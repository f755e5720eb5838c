"""Validation of staged learnings before promotion.

The reasons have the same wording as in the `staging.json` files of other programs.
"""

from __future__ import annotations

from ralph.core.records import MemorySource, MemoryState, replace
from ralph.memory.lifecycle.error_category import TESTS_CATEGORY
from ralph.memory.lifecycle.evidence import lacks_support
from ralph.memory.lifecycle.learnings import LEARNING_KINDS, parse_content

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.records import Memory

STATUSES = ("pending", "validated", "rejected", "quarantined")
MIN_CONFIDENCE = 0.3
"""Minimum confidence of a learning."""
MAX_ANTIPATTERN_SUCCESS = 0.2
"""Maximum success rate of an antipattern."""
MIN_STRATEGY_SUCCESS = 0.5
"""Minimum success rate of a strategy."""
DECISIVE_SUPPORT = 5
"""Support from which an estimate with low confidence is rejected instead of kept pending."""


def rejection_reason(memory: Memory) -> str:
    """Return the reason why a learning cannot be promoted; empty if it can."""
    if reason := _missing_fields(memory):
        return reason
    if not 0 <= memory.confidence <= 1:
        return "Confidence must be between 0 and 1"
    if memory.success_rate is not None and not 0 <= memory.success_rate <= 1:
        return "Success rate must be between 0 and 1"
    return _weakness(memory) if memory.kind in LEARNING_KINDS else ""


def _missing_fields(memory: Memory) -> str:
    is_structured = bool(memory.structured_content) or memory.kind in LEARNING_KINDS
    required = (memory.structured_content, memory.task_type) if is_structured else (memory.content or memory.title,)
    if not memory.kind.strip() or not all(text and text.strip() for text in required):
        return "Missing required fields"
    if not is_structured:
        return ""
    if memory.kind not in LEARNING_KINDS:
        return f"Invalid type: {memory.kind}"
    return "" if parse_content(memory.structured_content) else "Missing required fields"


def _weakness(memory: Memory) -> str:
    if memory.confidence < MIN_CONFIDENCE:
        return "Confidence too low (< 0.3)"
    if memory.success_rate is None:
        return ""
    if memory.kind == "antipattern" and memory.success_rate > MAX_ANTIPATTERN_SUCCESS:
        return "Anti-patterns should have low success rate"
    if memory.kind == "strategy" and memory.success_rate < MIN_STRATEGY_SUCCESS:
        return "Strategies should have success rate >= 0.5"
    return ""


def needs_more_data(memory: Memory) -> bool:
    """Return whether a learning stays pending.

    That is a conclusion from one task, a sentence that only one session said, or an estimate that only lacks data.
    """
    if is_from_talk(memory):
        return True
    if lacks_support(memory):
        return not rejection_reason(replace(memory, confidence=max(memory.confidence, MIN_CONFIDENCE)))
    if memory.kind != "estimate" or memory.support >= DECISIVE_SUPPORT or not 0 <= memory.confidence < MIN_CONFIDENCE:
        return False
    return not rejection_reason(replace(memory, confidence=MIN_CONFIDENCE))


def is_from_talk(memory: Memory) -> bool:
    """Return whether a memory is a sentence that was taken from what one session said, and that waits for another."""
    is_sentence = memory.source is MemorySource.AUTOMATIC and not memory.structured_content
    is_said = bool(memory.origin_session or memory.origin_run)
    return memory.state is MemoryState.STAGED and is_sentence and is_said


def staging_status(memory: Memory) -> str:
    """Return the staging status of a learning: pending, validated, rejected or quarantined."""
    if memory.state is MemoryState.STAGED:
        return "validated" if memory.validated_at else "pending"
    return str(memory.state)


def pending_reason(memory: Memory) -> str:
    """Return why a learning is not in use; empty if it is only waiting for validation."""
    if memory.state is MemoryState.STAGED and not memory.validated_at and needs_more_data(memory):
        if is_from_talk(memory):
            return "needs another session or task that says it, or your review"
        if memory.kind == "antipattern" and TESTS_CATEGORY in memory.tags:
            return "a failing test says nothing about what to do; needs your review"
        return "needs more iterations" if memory.kind == "estimate" else "needs another task that supports it"
    return memory.state_reason
