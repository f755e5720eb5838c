"""Look-up of what is known in other words, so that one fact is one memory."""

from __future__ import annotations

from ralph.core.records import Memory, MemoryState, record, replace
from ralph.core.tokenize import tokenize
from ralph.memory.lifecycle.confidence import reinforce
from ralph.memory.lifecycle.gate_fixes import fix_text, fixed_error, tells_fix
from ralph.memory.lifecycle.same_fact import ONE_FACT, Relation, comparable_key, is_better_wording, relate
from ralph.store.memory_queries import MemoryFilter, row_to_memory
from ralph.store.stated_again import is_confirmed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from ralph.store.memories import MemoryStore

MAX_COMPARED = 8
"""Number of memories with the most words in common that are compared with a new one."""
MAX_COMPARED_POSTINGS = 800
"""Number of postings that this search reads: adding a memory has to cost the same, however many there are."""
MAX_COMPARED_WORDS = 24
"""Number of words of a new memory by which these are found."""


@record
class Paraphrase:
    """A memory that says what a new statement says, and what the new one is to it."""

    known: Memory
    relation: Relation


def similar_memories(memories: MemoryStore, memory: Memory) -> list[Memory]:
    """Return the live memories that have the most words in common with one, itself included if it is stored."""
    words = dict.fromkeys(tokenize(memory.content)[:MAX_COMPARED_WORDS], 1.0)
    live = MemoryFilter(states=(MemoryState.ACTIVE, MemoryState.STAGED))
    if not words:
        return []
    found = memories.index.search_words(words, MAX_COMPARED, live, MAX_COMPARED_POSTINGS)
    return [row_to_memory(row) for row in found.rows]


def find_paraphrase(memories: MemoryStore, memory: Memory) -> Paraphrase | None:
    """Return the memory that says the same in other words, or less about the same.

    What says something else about the same subject is no paraphrase but a memory of its own: which of the two holds is
    for supersession to decide.
    """
    if memory.structured_content or memory.kind == "knowledge":
        return None
    for known in similar_memories(memories, memory):
        if known.structured_content or comparable_key(known) != comparable_key(memory):
            continue
        relation = _relation(memory, known)
        if relation in ONE_FACT:
            return Paraphrase(known=known, relation=relation)
    return None


def _relation(memory: Memory, known: Memory) -> Relation:
    """Return what a new memory is to a known one: who says what fixed a gate says more than who states it as a rule."""
    if (error := fixed_error(memory)) and error == fixed_error(known):
        return Relation.SAME
    fix, known_fix = fix_text(memory), fix_text(known)
    if fix and not known_fix:
        is_told = tells_fix(memory, known) or relate(fix, known.content) in ONE_FACT
        return Relation.REFINEMENT if is_told else Relation.DIFFERENT
    if known_fix and not fix:
        is_told = tells_fix(known, memory) or relate(memory.content, known_fix) in ONE_FACT
        return Relation.SAME if is_told else Relation.DIFFERENT
    return relate(memory.content, known.content)


def is_echo(found: Paraphrase, memory: Memory, told: Collection[str]) -> bool:
    """Return whether a statement only repeats a memory that its author was told; a gate that fails again does not."""
    return found.known.id in told and found.relation is Relation.SAME and not fixed_error(memory)


def reinforce_paraphrase(memories: MemoryStore, found: Paraphrase, memory: Memory) -> Memory:
    """Return the known memory, strengthened, in the better of both wordings; a person's words stay."""
    known = found.known
    is_better = found.relation is Relation.REFINEMENT or is_better_wording(memory.content, known.content)
    is_better &= not fix_text(known) or bool(fix_text(memory))
    may_reword = memory.state in (MemoryState.ACTIVE, known.state) and not memories.history.is_by_person(known.id)
    worded = memory if is_better and may_reword else known
    updated = reinforce(known, memory, memory.updated_at)
    updated = replace(updated, title=worded.title, content=worded.content)
    if worded.kind == "fix":
        updated = replace(updated, kind="fix")  # the sentence of a note is now part of what fixed a gate
    return replace(updated, state=MemoryState.ACTIVE) if is_confirmed(known, memory) else updated
