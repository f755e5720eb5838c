"""Decide whether a staged learning may be promoted.

The reasons are worded as other programs write them into `staging.json`, where
people look for them.
"""

from __future__ import annotations

from ralph.memory.learning import LEARNING_KINDS
from ralph.records import State, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.records import Memory

STATUSES = ("pending", "validated", "rejected", "quarantined")
LEAST_CONFIDENCE = 0.3
MOST_ANTIPATTERN_SUCCESS = 0.2
LEAST_STRATEGY_SUCCESS = 0.5
ENOUGH_SUPPORT = 5
"""An estimate learned so often and still unsure will not get better by waiting."""


def refusal(memory: Memory) -> str:
    """Give the reason why a learning may not be promoted, or an empty text when it may."""
    if why := _missing(memory):
        return why
    if not 0 <= memory.confidence <= 1:
        return "Confidence must be between 0 and 1"
    if memory.success_rate is not None and not 0 <= memory.success_rate <= 1:
        return "Success rate must be between 0 and 1"
    return _too_weak(memory) if memory.kind in LEARNING_KINDS else ""


def _missing(memory: Memory) -> str:
    is_structured = bool(memory.content) or memory.kind in LEARNING_KINDS
    said = (memory.content, memory.task_type) if is_structured else (memory.body or memory.title,)
    if not memory.kind.strip() or not all(text and text.strip() for text in said):
        return "Missing required fields"
    if not is_structured:
        return ""
    if memory.kind not in LEARNING_KINDS:
        return f"Invalid type: {memory.kind}"
    return "" if _fields(memory.content) else "Missing required fields"


def _fields(content: str) -> dict[str, object]:
    import json

    try:
        fields = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _too_weak(memory: Memory) -> str:
    if memory.confidence < LEAST_CONFIDENCE:
        return "Confidence too low (< 0.3)"
    if memory.success_rate is None:
        return ""
    if memory.kind == "antipattern" and memory.success_rate > MOST_ANTIPATTERN_SUCCESS:
        return "Anti-patterns should have low success rate"
    if memory.kind == "strategy" and memory.success_rate < LEAST_STRATEGY_SUCCESS:
        return "Strategies should have success rate >= 0.5"
    return ""


def waits(memory: Memory) -> bool:
    """Say whether a learning stays pending: an estimate with nothing against it but that it rests on little yet."""
    if memory.kind != "estimate" or memory.support >= ENOUGH_SUPPORT or not 0 <= memory.confidence < LEAST_CONFIDENCE:
        return False
    return not refusal(replace(memory, confidence=LEAST_CONFIDENCE))


def status(memory: Memory) -> str:
    """Give where a learning stands on its way: pending, validated, rejected or quarantined."""
    if memory.state is State.STAGED:
        return "validated" if memory.validated_at else "pending"
    return str(memory.state)


def held_back(memory: Memory) -> str:
    """Give why a learning is not in use; nothing when it only waits for its turn."""
    if memory.state is State.STAGED and not memory.validated_at and waits(memory):
        return "needs more iterations"
    return memory.state_reason
