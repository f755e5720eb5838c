"""The staging area: learnings are extracted, validated, reviewed and promoted to memories."""

from __future__ import annotations

from ralph.core.errors import ConfirmationRequiredError, NotFoundError, RalphError, UsageError
from ralph.core.records import MemoryState, now, replace
from ralph.core.text import extract_title, sanitize
from ralph.memory.capture.promotion import promote_learnings, run_histories, stage_learnings, validate_learnings
from ralph.memory.queries import page_of
from ralph.store.memories import ChangeInfo, change_id
from ralph.store.memory_queries import MemoryFilter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ralph.core.actor import Actor
    from ralph.core.paging import Page, ResultList
    from ralph.core.records import Memory
    from ralph.memory.capture.promotion import LearningCounts
    from ralph.memory.capture.reflection import Proposal
    from ralph.memory.reflection import AppliedProposals
    from ralph.memory.service import MemoryService
    from ralph.store import Store
    from ralph.store.memories import AddResult, ChangeResult

WAITING = (MemoryState.STAGED, MemoryState.QUARANTINED)
_STATUSES = {
    None: MemoryFilter(states=WAITING),
    "all": MemoryFilter(states=(*WAITING, MemoryState.REJECTED)),
    "pending": MemoryFilter(states=(MemoryState.STAGED,), is_validated=False),
    "validated": MemoryFilter(states=(MemoryState.STAGED,), is_validated=True),
    "quarantined": MemoryFilter(states=(MemoryState.QUARANTINED,)),
    "rejected": MemoryFilter(states=(MemoryState.REJECTED,)),
}


class LearningService:
    """The staging area of one opened project."""

    def __init__(self, store: Store, memory: MemoryService, actor: Actor) -> None:
        self._store = store
        self._memory = memory
        self._actor = actor

    def extract(self, run_id: str | None = None) -> tuple[str, LearningCounts]:
        """Extract learnings from a run, by default the latest, and stage them; return the run id and the counts."""
        self._actor.require("learn.extract")
        runs = self._store.runs.latest(1)
        if run_id is None and not runs:
            raise RalphError("There is no run to learn from yet. Start one with: ralph run", code="no-run")
        name = run_id or runs[0].id
        return name, stage_learnings(
            self._store, run_histories(self._store, name), self._change(f"extracted from {name}")
        )

    def extract_state(self, text: str, name: str) -> LearningCounts:
        """Extract learnings from the state file of another loop, and stage them."""
        from ralph.formats.loop_state import read_loop_state

        self._actor.require("learn.import")
        try:
            history = read_loop_state(text)
        except ValueError as error:
            raise UsageError(f"{name} is not a readable loop state: {error}", code="unreadable-state") from error
        if not history.loop_id:
            history = replace(history, loop_id=name)
        return stage_learnings(self._store, [history], self._change(f"extracted from {name}"))

    def extract_handover(self, from_hat: str, to_hat: str, text: str) -> list[AddResult]:
        """Extract and add memories from what one hat hands over to the next."""
        from ralph.memory.capture.handover import HANDOVERS, extract_at_handover

        self._actor.require("learn.handover")
        if (from_hat, to_hat) not in HANDOVERS:
            known = ", ".join(f"{one} to {other}" for one, other in HANDOVERS)
            raise UsageError(
                f"Unknown hand-over: {from_hat} to {to_hat}. Use one of: {known}.", code="unknown-handover"
            )
        with self._store.transaction():
            return [
                self._store.memories.add(memory, self._change(f"{from_hat} handed over to {to_hat}"))
                for memory in extract_at_handover(from_hat, to_hat, sanitize(text), now())
            ]

    def _change(self, why: str) -> ChangeInfo:
        return ChangeInfo(who=self._actor.kind, why=why)

    def counts(self) -> dict[str, int]:
        """Return the number of learnings by status."""
        by_state = self._store.memories.stats.counts("state")
        validated = self._store.memories.stats.count_validated()
        return {
            "pending": by_state.get(MemoryState.STAGED, 0) - validated,
            "validated": validated,
            "quarantined": by_state.get(MemoryState.QUARANTINED, 0),
            "rejected": by_state.get(MemoryState.REJECTED, 0),
        }

    def edit(self, id: str, **changes: Any) -> ChangeResult:
        """Edit a learning that is still undecided, as `MemoryService.edit` does."""
        self._actor.require("learn.edit")
        return self._memory.edit(id, **changes, check=_require_undecided)

    def validate(self) -> LearningCounts:
        """Validate pending learnings against the rules."""
        self._actor.require("learn.validate")
        return validate_learnings(self._store, ChangeInfo(who="ralph", why="validated"))

    def promote(self, ids: Sequence[str] = (), *, validate_first: bool = False) -> tuple[LearningCounts, int]:
        """Promote validated learnings, all or the given ones; return the counts and how many stay staged."""
        self._actor.require("learn.promote")
        if validate_first:
            self.validate()
        for id in ids:
            memory = self._staged(id)
            if memory.state is not MemoryState.STAGED or not memory.validated_at:
                raise UsageError(
                    f"{id} has not been validated. Review it with: ralph learn review", code="not-validated"
                )
        counts = promote_learnings(self._store, self._change("promoted"), ids)
        return counts, self._store.memories.stats.count(MemoryState.STAGED)

    def accept(self, id: str, content: str | None = None) -> ChangeResult:
        """Accept a staged learning, with new content if given; return the memory and the change to undo."""
        self._actor.require("learn.accept")
        text = sanitize(content or "")
        # The content is a person's now, no longer generated from figures.
        fields: dict[str, object] = (
            {"title": extract_title(text), "content": text, "structured_content": ""} if text else {}
        )
        at = now()
        with self._store.transaction():
            self._staged(id)
            return self._store.memories.update(
                id,
                "promoted",
                self._change("reviewed"),
                **fields,
                state=MemoryState.ACTIVE,
                state_reason="",
                validated_at=at,
                updated_at=at,
            )

    def reject(self, id: str, reason: str = "") -> ChangeResult:
        """Reject a staged learning."""
        self._actor.require("learn.reject")
        why = sanitize(reason) or "rejected by a person"
        with self._store.transaction():
            self._staged(id)
            return self._store.memories.update(
                id, "rejected", self._change(why), state=MemoryState.REJECTED, state_reason=why, updated_at=now()
            )

    def clear(self, *, yes: bool = False) -> tuple[int, str]:
        """Clear the staging area; return the number of learnings removed and the change to undo."""
        self._actor.require("learn.clear")
        if not yes:
            raise ConfirmationRequiredError("empty the staging area")
        change = replace(self._change("staging was cleared"), id=change_id())
        waiting = [one for one in self.list() if one.state is MemoryState.STAGED]
        self._store.memories.update_unmodified(
            [
                (one, replace(one, state=MemoryState.PRUNED, state_reason=change.why, updated_at=now()))
                for one in waiting
            ],
            "cleared",
            change,
        )
        return len(waiting), change.id if waiting else ""

    def proposals(self) -> tuple[Proposal, ...]:
        """Return the merges, corrections and removals that reflections proposed, oldest first."""
        from ralph.memory.reflection import read_state

        return read_state(self._store).proposals

    def apply_proposals(self, numbers: Sequence[int] = ()) -> AppliedProposals:
        """Apply proposals of reflections, all or those with a number from 1, as one change."""
        from ralph.memory.reflection import apply_proposals

        self._actor.require("learn.apply")
        return apply_proposals(self._store, numbers, self._actor.kind)

    def discard_proposals(self, numbers: Sequence[int] = ()) -> int:
        """Discard proposals of reflections, all or those with a number from 1; return how many."""
        from ralph.memory.reflection import take

        self._actor.require("learn.apply")
        with self._store.transaction():
            return len(take(self._store, numbers))

    def _staged(self, id: str) -> Memory:
        memory = self._store.memories.get(id)
        _require_undecided(memory)
        return memory

    def list(self, status: str | None = None, page: Page | None = None, *, newest: bool = False) -> ResultList[Memory]:
        """Return staged and quarantined learnings, or those of one status (`all` for every one), oldest first."""
        filter = _STATUSES[status]
        memories = self._store.memories
        after = page.after if page else None
        return page_of((memories.listing.newest if newest else memories.listing.oldest)(filter, after), page)


def _require_undecided(memory: Memory) -> None:
    if memory.state not in WAITING:
        raise NotFoundError("Staged learning", f"{memory.id} (it is {memory.state})")
