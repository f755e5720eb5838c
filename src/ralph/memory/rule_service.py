"""Standing rules of a project: what every prompt tells, what is pinned, and what contradicts each other."""

from __future__ import annotations

from ralph.core.errors import ConflictError, NotFoundError
from ralph.core.records import EPISODE_PREFIX, MemoryState, Rule, now, record
from ralph.core.text import count_tokens
from ralph.store.memories import ChangeInfo, change_id
from ralph.store.memory_queries import MemoryFilter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from ralph.core.actor import Actor
    from ralph.core.config import Config
    from ralph.core.records import Memory, StandingRule, StatedRule
    from ralph.memory.recall.render_rules import StandingSection
    from ralph.memory.service import MemoryService
    from ralph.store import Store
    from ralph.store.memories import ChangeResult

MAX_COMPARED = 1_000
"""Number of the newest memories that are searched for contradictions."""


@record
class Conflict:
    """Two statements that contradict each other although both are in use."""

    earlier: StatedRule
    later: StatedRule


@record
class Primer:
    """What an agent is told at the start: rules for all work, and memories."""

    text: str
    memories: tuple[Memory, ...]
    """The memories below the rules."""


class RuleService:
    """Rules for all work on one opened project."""

    def __init__(self, store: Store, config: Config, actor: Actor, memory: MemoryService) -> None:
        self._store = store
        self._config = config
        self._actor = actor
        self._memory = memory

    # --- reading ---------------------------------------------------------------------

    def standing(self, guided: Collection[str] = ()) -> list[StandingRule]:
        """Return all rules that hold, in their newest form, those that are pinned or confirmed most first.

        Those of memories of `guided` are left out.
        """
        from ralph.memory.recall.standing import standing_rules

        return standing_rules(self._store, self._config, guided)

    def is_told(self, id: str) -> bool:
        """Return whether every prompt tells what a memory or passage states as a rule."""
        section = self.section(self._config.memories.rules)
        if not section:
            return False
        shown = {*section.memories, *section.episodes}
        return any(id in (one.stated.id, *one.sources) for one in self.standing() if one.stated.id in shown)

    def section(self, room_tokens: int, guided: Collection[str] = ()) -> StandingSection | None:
        """Return the rules to tell within a number of tokens, without those of `guided`; None if there are none."""
        if room_tokens <= 0 or not self._config.injects_memories or not self._store.memories.has_rules():
            return None  # Most projects end here, without loading what compares rules.
        from ralph.memory.recall.render_rules import render_standing

        found = render_standing(self.standing(guided), min(self._config.memories.rules, room_tokens))
        return found if found.text else None

    def primer(
        self, wanted: MemoryFilter, budget_tokens: int = 0, *, task_id: str | None = None, text: str | None = None
    ) -> Primer:
        """Return the rules and the memories for the start of a session, or for a task or a text, within a budget.

        Who asks for memories of some types, tags or days gets no rules.
        """
        from ralph.memory.recall.prime import render_primer

        rules = self.section(budget_tokens or self._config.memories.rules) if wanted == MemoryFilter() else None
        if not rules:
            found = self._memory.prime(wanted, budget_tokens, task_id=task_id, text=text)
            return Primer(text=render_primer(found), memories=tuple(found))
        left = max(1, budget_tokens - count_tokens(rules.text)) if budget_tokens else 0
        memories = self._memory.prime(wanted, left, task_id=task_id, text=text)
        others = tuple(one for one in memories if one.id not in rules.memories)
        return Primer(text="\n".join(filter(None, [rules.text, render_primer(others)])), memories=others)

    def conflicts(self) -> list[Conflict]:
        """Return statements that contradict each other, for a person to decide; the newest first.

        They are memories, and memories of which a person said otherwise later.
        """
        from ralph.memory.lifecycle.supersession import changes_rule, rule_changes
        from ralph.memory.recall.standing import MAX_MEMORIES, stated_by_memory

        memories = sorted(self._store.memories.with_rules(MAX_MEMORIES), key=lambda one: one[0].created_at)
        found = [
            Conflict(earlier=stated_by_memory(earlier[0], one), later=stated_by_memory(later[0], other))
            for place, later in enumerate(memories)
            for earlier in memories[:place]
            if changes_rule(earlier, later)
            for one, other in rule_changes(earlier[1], later[1])
        ]
        listed = {(one.earlier.id, one.later.id) for one in found}
        found += (one for one in self._contradictions() if (one.earlier.id, one.later.id) not in listed)
        found += [
            Conflict(earlier=past, later=rule.stated)
            for rule in self.standing()
            for past in rule.superseded
            if past.is_memory and not rule.stated.is_memory
        ]
        return sorted(found, key=lambda one: one.later.at, reverse=True)

    def _with_several_rules(self) -> set[str]:
        """Return the ids of memories that cannot give way as a whole, because they state several rules."""
        from ralph.memory.lifecycle.supersession import decode_rules

        return {
            one.id for one, stored in self._store.memories.with_rules(MAX_COMPARED) if len(decode_rules(stored)) > 1
        }

    def _contradictions(self) -> list[Conflict]:
        """Return the newest memories that say something else about the same, rules or not."""
        from itertools import islice

        from ralph.memory.lifecycle.duplicates import find_contradictions
        from ralph.memory.recall.standing import stated_by_memory

        newest = list(islice(self._store.memories.listing.newest(MemoryFilter()), MAX_COMPARED))
        return [
            Conflict(earlier=stated_by_memory(earlier, Rule(text="")), later=stated_by_memory(later, Rule(text="")))
            for earlier, later in find_contradictions(newest)
        ]

    # --- deciding --------------------------------------------------------------------

    def pin(self, id: str, why: str = "") -> list[ChangeResult]:
        """Pin a memory to every prompt. Rules of a passage become memories that are pinned."""
        self._actor.require("memory.pin")
        ids = [id] if not id.startswith(EPISODE_PREFIX) else self._remember_rules(id)
        return [self._set_pinned(one, now(), "pinned", why) for one in ids]

    def unpin(self, id: str, why: str = "") -> ChangeResult:
        """No longer tell a memory in every prompt, unless it is a rule by what it says."""
        self._actor.require("memory.unpin")
        return self._set_pinned(id, None, "unpinned", why)

    def _set_pinned(self, id: str, at: str | None, what: str, why: str) -> ChangeResult:
        memory = self._store.memories.get(id)
        if memory.state is not MemoryState.ACTIVE:
            raise NotFoundError("Memory", f"{id} (it is {memory.state}; only active ones can be {what})")
        pinned_at = memory.pinned_at if at and memory.pinned_at else at
        change = ChangeInfo(who=self._actor.kind, why=why)
        return self._store.memories.update(id, what, change, pinned_at=pinned_at)

    def _remember_rules(self, id: str) -> list[str]:
        """Add the rules that a person stated in a passage as memories, and return their ids."""
        from ralph.memory.lifecycle.supersession import decode_rules

        rules = decode_rules(self._store.episodes.get(id).rules)
        if not rules:
            raise NotFoundError("Rule", f"in {id} (a person states none there; add it with: ralph memory add)")
        return [self._memory.add(rule.text, type="convention").memory.id for rule in rules]

    def keep(self, id: str, why: str = "") -> tuple[Memory, list[Memory], str]:
        """Let a memory, or what was said in a passage, take the place of what contradicts it.

        Return it, the memories it supersedes, and the id of the change to undo.
        """
        self._actor.require("memory.keep")
        conflicts = [one for one in self.conflicts() if id in (one.earlier.id, one.later.id)]
        others = {other.id for one in conflicts for other in (one.earlier, one.later) if other.is_memory} - {id}
        if not others:
            raise NotFoundError("Conflict", f"of {id} (see them with: ralph memory conflicts)")
        if several := self._with_several_rules() & others:
            other = min(several)
            what = f"{other} states several rules, of which the others still hold"
            raise ConflictError(
                f"{what}. Correct the one that does not: ralph memory edit {other}", code="several-rules"
            )
        change = ChangeInfo(who=self._actor.kind, why=why, id=change_id())
        with self._store.transaction():
            kept = self._store.memories.get(id if not id.startswith(EPISODE_PREFIX) else self._remember_rules(id)[0])
            memories = [one for one in self._store.memories.find_by_ids(others) if one.state is MemoryState.ACTIVE]
            self._store.memories.supersede(memories, kept, change)
            # From now on it is what a person said, which agents do not change.
            kept = self._store.memories.update(kept.id, "kept", change, updated_at=now()).memory
        return kept, self._store.memories.find_by_ids(others), change.id
