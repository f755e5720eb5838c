"""Rules and other statements that a new memory takes the place of."""

from __future__ import annotations

from ralph.core.records import Memory, MemoryState, record_fields, replace
from ralph.memory.lifecycle.confidence import reinforce
from ralph.memory.lifecycle.frames import is_certain_change, may_change, says_change
from ralph.memory.lifecycle.supersession import changes_rule, concern_same_files, rule_of_memory, stated_at
from ralph.store.memories import LIVE_STATES, AddResult, ChangeInfo, change_id
from ralph.store.stated_again import revived

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
    earlier = _changed(memories, memory, change)
    memories.supersede(earlier, memory, replace(change, id=change.id or change_id()))
    return tuple(one.id for one in earlier)


def _changed(memories: MemoryStore, memory: Memory, change: ChangeInfo) -> list[Memory]:
    """Return the memories that say something else about the same, as far as who makes the change may replace them."""
    is_person = change.who == "person"
    changed = {one.id: one for one in (*_changed_rules(memories, memory), *_changed_statements(memories, memory))}
    return [
        one
        for one in changed.values()
        if (is_person or not is_persons(memories, one)) and not _is_in_doubt(one, memory)
    ]


def supersede_in_order(memories: MemoryStore, imported: Iterable[Memory], change: ChangeInfo) -> int:
    """Let imported statements take the place of earlier ones about the same thing; return how many give way.

    What is newer here than an imported statement, and says something else, stays for the prompts to tell instead.
    """
    count = 0
    for memory in sorted(imported, key=lambda one: (one.created_at, one.id)):
        if memory.state is MemoryState.ACTIVE:
            earlier = [one for one in _changed(memories, memory, change) if _order(one) < _order(memory)]
            memories.supersede(earlier, memory, change)
            count += len(earlier)
    return count


def _order(memory: Memory) -> tuple[str, str]:
    return stated_at(memory), memory.id


def _is_in_doubt(earlier: Memory, later: Memory) -> bool:
    """Return whether a change is for a person to confirm: of what is pinned, or tagged as something else.

    Words that say that it changed, about just the same, leave no doubt.
    """
    is_tagged_apart = bool(earlier.tags and later.tags) and not set(earlier.tags) & set(later.tags)
    if not earlier.pinned_at and not is_tagged_apart:
        return False
    return not says_change(later.content) or not is_certain_change(later.content, earlier.content)


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


def restate(
    memories: MemoryStore,
    replaced: Memory,
    current: Memory,
    memory: Memory,
    change: ChangeInfo,
    fields: Mapping[str, object],
    *,
    by_person: bool,
) -> AddResult:
    """Let a memory hold again that another one took the place of, and take the place of that one.

    An agent does not bring back what a person has replaced.
    """
    if not by_person and current.state in LIVE_STATES and is_persons(memories, current):
        return AddResult(memory=current, what="known")
    change = replace(change, id=change.id or change_id())
    restated = replace(reinforce(revived(replaced, memory, by_person), memory, memory.updated_at), **fields)
    before, after = record_fields(replaced), record_fields(restated)
    changed = {name: value for name, value in after.items() if value != before[name]}
    event = memories.update(replaced.id, "revived", change, **changed).event
    if restated.state is not MemoryState.ACTIVE:
        return AddResult(memory=restated, what="revived", event=event)
    others = [current] if current.state is MemoryState.ACTIVE and current.id != restated.id else []
    memories.supersede(others, restated, change)
    ids = (*(one.id for one in others), *supersede_rules(memories, restated, change))
    return AddResult(memory=restated, what="revived", event=event, superseded=ids)


def is_persons(memories: MemoryStore, memory: Memory) -> bool:
    """Return whether a person has added, changed or pinned a memory."""
    return bool(memory.pinned_at) or memories.history.is_by_person(memory.id)
