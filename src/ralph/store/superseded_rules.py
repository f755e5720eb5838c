"""Rules that a new memory takes the place of."""

from __future__ import annotations

from ralph.core.records import Memory, MemoryState, replace
from ralph.memory.lifecycle.supersession import changes_rule, rule_of_memory
from ralph.store.memories import ChangeInfo, change_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.store.memories import MemoryStore

MAX_COMPARED_RULES = 1_000
"""Number of the newest memories with a rule that a new one is compared with."""


def supersede_rules(memories: MemoryStore, memory: Memory, change: ChangeInfo) -> tuple[str, ...]:
    """Let a new rule take the place of earlier ones about the same thing, and return their ids.

    What a person said stays unless a person changes it; `RuleService.conflicts` lists both.
    """
    rule = rule_of_memory(memory) if memory.state is MemoryState.ACTIVE else ""
    if not rule:
        return ()
    is_person = change.who == "person"
    earlier = [
        other
        for other, stored in memories.with_rules(MAX_COMPARED_RULES)
        if changes_rule((other, stored), (memory, rule), is_certain=True)
        and (is_person or not is_persons(memories, other))
    ]
    memories.supersede(earlier, memory, replace(change, id=change.id or change_id()))
    return tuple(one.id for one in earlier)


def is_persons(memories: MemoryStore, memory: Memory) -> bool:
    """Return whether a person has added, changed or pinned a memory."""
    return bool(memory.pinned_at) or memories.history.is_by_person(memory.id)
