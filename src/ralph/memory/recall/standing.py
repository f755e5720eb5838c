"""Standing rules: what holds for all work on a project, in every prompt.

They come from memories that a person pinned or that state a rule for the whole project, and from what people said in
sessions. Each is told in its newest form, those that are pinned or confirmed most first.
"""

from __future__ import annotations

from ralph.core.records import Rule, StatedRule, replace
from ralph.memory.validation import days_ago

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from ralph.core.config import Config
    from ralph.core.records import Memory, StandingRule
    from ralph.store import Store
    from ralph.store.database import Row

MAX_MEMORIES, MAX_PASSAGES, MAX_RULES = 200, 200, 300
"""Numbers of the newest memories, passages and rules that are compared."""
MIN_CONFIDENCE = 0.55
"""Confidence of a memory from which on it stands; what was only extracted starts below."""
MAX_PINNED_CHARACTERS = 240
"""Length up to which a pinned memory is told as it is, although it states several rules."""


def standing_rules(store: Store, config: Config, guided: Collection[str] = ()) -> list[StandingRule]:
    """Return all rules that hold, those that are pinned or confirmed most first; none if the settings want none.

    Those that memories of `guided` state are left out, because the guide of the agent says them.
    """
    if not config.injects_memories or not config.memories.rules:
        return []
    memories = store.memories.with_rules(MAX_MEMORIES)
    passages = store.episodes.with_rules(MAX_PASSAGES) if config.injects_episodes else []
    if not memories and not passages:
        return []  # Nothing is loaded for most projects.
    from ralph.memory.lifecycle.supersession import current_rules, decode_rules

    by_people = store.memories.with_rules_by_people()
    stated = [
        replace(one, is_by_agent=not memory.pinned_at and memory.id not in by_people)
        for memory, stored in memories
        if _stands(memory, stored, config)
        for one in rules_of_memory(memory, stored)
    ]
    for row in passages:
        stated += (_of_passage(row, rule) for rule in decode_rules(row["rules"]))
        if len(stated) >= MAX_RULES:
            break
    return [rule for rule in current_rules(stated) if rule.stated.id not in guided]


def _stands(memory: Memory, stored: str, config: Config) -> bool:
    """Return whether a memory is for all work: pinned, or a rule that is not about some files or one feature."""
    if memory.pinned_at:
        return True
    only = config.memories.filter
    if (only.types and memory.kind not in only.types) or (only.tags and not set(only.tags) & set(memory.tags)):
        return False
    if only.recent and memory.created_at < days_ago(only.recent):
        return False
    if memory.confidence < MIN_CONFIDENCE or memory.feature or memory.stale:
        return False
    from ralph.memory.lifecycle.supersession import files_of_rules

    return not files_of_rules(memory, stored)


def rules_of_memory(memory: Memory, stored: str) -> list[StatedRule]:
    """Return what a memory states, given its rules as JSON; a short one that is pinned is told as it is."""
    from ralph.memory.lifecycle.supersession import decode_rules

    rules = decode_rules(stored) or [Rule(text="")]
    if memory.pinned_at and len(_text_of(memory)) <= MAX_PINNED_CHARACTERS:
        rules = [replace(rules[0], place=0)]
    return [stated_by_memory(memory, rule) for rule in rules]


def stated_by_memory(memory: Memory, rule: Rule) -> StatedRule:
    """Return what a memory states, given one of its rules."""
    from ralph.memory.lifecycle.supersession import stated_at

    return StatedRule(
        rule=rule if rule.place else replace(rule, text=_text_of(memory)),
        id=memory.id,
        at=stated_at(memory),
        trust=memory.confidence + memory.support / 1_000,
        is_memory=True,
        is_pinned=bool(memory.pinned_at),
    )


def _text_of(memory: Memory) -> str:
    return f"{memory.title}: {memory.content}" if memory.kind == "knowledge" else memory.content


def _of_passage(row: Row, rule: Rule) -> StatedRule:
    return StatedRule(rule=rule, id=row["id"], at=row["at"], source=row["source"], position=row["position"])
