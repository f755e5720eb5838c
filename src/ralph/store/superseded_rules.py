"""Rules and other statements that a new memory takes the place of."""

from __future__ import annotations

from ralph.core.records import Memory, MemoryState, replace
from ralph.memory.lifecycle.frames import is_certain_change, may_change
from ralph.memory.lifecycle.supersession import changes_rule, concern_same_files, rule_of_memory
from ralph.store.memories import ChangeInfo, change_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.store.memories import MemoryStore

MAX_COMPARED_RULES = 1_000
"""Number of the newest memories with a rule that a new one is compared with."""

MAX_STATEMENT = 400
"""Length up to which a memory is one statement, in characters."""
NOT_STATEMENTS = ("fix", "knowledge")
"""Kinds of memories that tell what failed once, or more than one thing."""


def supersede_rules(memories: MemoryStore, memory: Memory, change: ChangeInfo) -> tuple[str, ...]:
    """Let a new rule take the place of earlier ones about the same thing, and return their ids.

    What a person said stays unless a person changes it; `RuleService.conflicts` lists both.
    """
    if memory.state is not MemoryState.ACTIVE:
        return ()
    is_person = change.who == "person"
    changed = {one.id: one for one in (*_changed_rules(memories, memory), *_changed_statements(memories, memory))}
    earlier = [one for one in changed.values() if is_person or not is_persons(memories, one)]
    memories.supersede(earlier, memory, replace(change, id=change.id or change_id()))
    return tuple(one.id for one in earlier)


def _changed_rules(memories: MemoryStore, memory: Memory) -> list[Memory]:
    rule = rule_of_memory(memory)
    return [
        other
        for other, stored in (memories.with_rules(MAX_COMPARED_RULES) if rule else ())
        if changes_rule((other, stored), (memory, rule), is_certain=True)
    ]


def _changed_statements(memories: MemoryStore, memory: Memory) -> list[Memory]:
    """Return the memories that say something else about the same, in nearly the same words."""
    if memory.structured_content or memory.kind in NOT_STATEMENTS or len(memory.content) > MAX_STATEMENT:
        return []
    if not may_change(memory.content):
        return []
    from ralph.memory.lifecycle.same_fact import comparable_key
    from ralph.store.paraphrases import similar_memories

    return [
        other
        for other in similar_memories(memories, memory)
        if other.id != memory.id
        and other.state is MemoryState.ACTIVE
        and not other.structured_content
        and comparable_key(other) == comparable_key(memory)
        and concern_same_files(other, memory)
        and is_certain_change(memory.content, other.content)
    ]


def is_persons(memories: MemoryStore, memory: Memory) -> bool:
    """Return whether a person has added, changed or pinned a memory."""
    return bool(memory.pinned_at) or memories.history.is_by_person(memory.id)
