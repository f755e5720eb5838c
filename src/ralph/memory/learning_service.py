"""What can be done with learnings on their way into the memory: extracted, staged, reviewed, promoted."""

from __future__ import annotations

from itertools import islice

from ralph.core.actor import by, refuse_agents
from ralph.core.errors import ConfirmationRequiredError, NotFoundError, RalphError, UsageError
from ralph.core.records import State, now, replace
from ralph.core.text import accept, title_of
from ralph.store.memories import Change, change_id
from ralph.store.memory_queries import Wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ralph.core.records import Memory
    from ralph.memory.capture.promotion import Counts
    from ralph.store import Store
    from ralph.store.memories import Changed, Kept

WAITING = (State.STAGED, State.QUARANTINED)
_STATUSES = {
    None: Wanted(states=WAITING),
    "all": Wanted(states=(*WAITING, State.REJECTED)),
    "pending": Wanted(states=(State.STAGED,), is_validated=False),
    "validated": Wanted(states=(State.STAGED,), is_validated=True),
    "quarantined": Wanted(states=(State.QUARANTINED,)),
    "rejected": Wanted(states=(State.REJECTED,)),
}


class Extracting:
    """The staging area of one opened project."""

    def __init__(self, store: Store, changed: Callable[[], None], edit: Callable[..., Changed]) -> None:
        """`changed` is called when memories became active or ceased to be; `edit` changes a memory."""
        self._store = store
        self._changed = changed
        self._edit = edit

    def extract(self, run_id: str | None = None) -> tuple[str, Counts]:
        """Extract what a run taught, the latest one if none is named, and stage it; give the run too."""
        from ralph.memory.capture.episodes import histories
        from ralph.memory.capture.promotion import stage

        runs = self._store.attempts.runs(1)
        if run_id is None and not runs:
            raise RalphError("There is no run to learn from yet. Start one with: ralph run")
        name = run_id or runs[0].id
        return name, stage(self._store, histories(self._store, name), by(f"extracted from {name}"))

    def extract_state(self, text: str, name: str) -> Counts:
        """Extract what a loop taught that ran elsewhere, from its state file, and stage it."""
        from ralph.formats.loop_state import read_loop_state
        from ralph.memory.capture.promotion import stage

        refuse_agents("What another loop's state teaches")
        try:
            history = read_loop_state(text)
        except ValueError as error:
            raise UsageError(f"{name} cannot be learned from: {error}") from error
        if not history.loop_id:
            history = replace(history, loop_id=name)
        return stage(self._store, [history], by(f"extracted from {name}"))

    def extract_handover(self, from_hat: str, to_hat: str, text: str) -> list[Kept]:
        """Keep what one role found out for the next, from its words."""
        from ralph.memory.capture.handover import HANDOVERS, at_handover

        if (from_hat, to_hat) not in HANDOVERS:
            known = ", ".join(f"{one} to {other}" for one, other in HANDOVERS)
            raise UsageError(f"Nothing is extracted from {from_hat} to {to_hat}; the hand-overs are: {known}.")
        with self._store.transaction():
            kept = [
                self._store.memories.add(memory, by(f"{from_hat} handed over to {to_hat}"))
                for memory in at_handover(from_hat, to_hat, accept(text), now())
            ]
        self._changed()
        return kept

    def waiting(self) -> list[Memory]:
        """Give what waits for a decision, oldest first: staged, or brought in by an agent from outside."""
        return list(self._store.memories.find(Wanted(states=WAITING)))[::-1]

    def rejected(self) -> list[Memory]:
        """Give what was rejected, oldest first."""
        return list(self._store.memories.find(Wanted(states=(State.REJECTED,))))[::-1]

    def page(
        self,
        limit: int,
        after: tuple[str, str] | None = None,
        *,
        status: str | None = None,
        newest: bool = False,
    ) -> tuple[list[Memory], tuple[str, str] | None]:
        """Give some of what is `listed`, and the place to go on from if there are more; the oldest or newest first."""
        wanted = _STATUSES[status]
        memories = self._store.memories
        ordered = memories.newest(wanted, after) if newest else memories.oldest(wanted, after)
        found = list(islice(ordered, limit + 1))
        page = found[:limit]
        return page, (page[-1].created_at, page[-1].id) if len(found) > limit else None

    def counts(self) -> dict[str, int]:
        """Give how many learnings there are by where they stand: pending, validated, quarantined and rejected."""
        by_state = self._store.memories.counts("state")
        validated = self._store.memories.count_validated()
        return {
            "pending": by_state.get(State.STAGED, 0) - validated,
            "validated": validated,
            "quarantined": by_state.get(State.QUARANTINED, 0),
            "rejected": by_state.get(State.REJECTED, 0),
        }

    def listed(self, status: str | None = None) -> list[Memory]:
        """Give learnings by where they stand, oldest first: what waits, or one of the statuses, or `all`."""
        from ralph.memory.lifecycle.staging import status as status_of

        waiting = self.waiting()
        if status is None:
            return waiting
        rejected = self.rejected() if status in ("rejected", "all") else []
        return [one for one in (*waiting, *rejected) if status in ("all", status_of(one))]

    def edit(self, id: str, **changes: Any) -> Changed:
        """Change one that waits for a decision as `Remembering.edit` does; it goes on waiting."""
        return self._edit(id, **changes, check=_refuse_decided)

    def validate(self) -> Counts:
        """Check what is pending against the rules."""
        from ralph.memory.capture.promotion import validate

        return validate(self._store, Change(who="ralph", why="validated"))

    def promote(self, ids: Sequence[str] = (), *, validate_first: bool = False) -> tuple[Counts, int]:
        """Make validated learnings active, all or the named ones; give how many stay staged too."""
        from ralph.memory.capture.promotion import promote

        refuse_agents("What is promoted")
        if validate_first:
            self.validate()
        for id in ids:
            memory = self._waiting(id)
            if memory.state is not State.STAGED or not memory.validated_at:
                raise UsageError(f"{id} has not been validated. Look at it with: ralph learn review")
        counts = promote(self._store, by("promoted"), ids)
        self._changed()
        return counts, self._store.memories.count(State.STAGED)

    def accept(self, id: str, body: str | None = None) -> Changed:
        """Let a person's yes make a waiting learning active, with other words if there are any.

        Gives it as it is now, and what undo takes back.
        """
        refuse_agents("What is kept")
        text = accept(body or "")
        # The words are a person's now, no longer made from figures.
        fields: dict[str, object] = {"title": title_of(text), "body": text, "content": ""} if text else {}
        at = now()
        with self._store.transaction():
            self._waiting(id)
            active = self._store.memories.changed(
                id,
                "promoted",
                by("reviewed"),
                **fields,
                state=State.ACTIVE,
                state_reason="",
                validated_at=at,
                updated_at=at,
            )
        self._changed()
        return active

    def reject(self, id: str, reason: str = "") -> Changed:
        """Let a person's no keep a waiting learning out."""
        why = accept(reason) or "rejected by a person"
        with self._store.transaction():
            self._waiting(id)
            return self._store.memories.changed(
                id, "rejected", by(why), state=State.REJECTED, state_reason=why, updated_at=now()
            )

    def clear(self, *, yes: bool = False) -> tuple[int, str]:
        """Take everything that is staged out of the staging area, if that is meant; give how much, and what to undo."""
        if not yes:
            raise ConfirmationRequiredError("empty the staging area")
        change = replace(by("staging was cleared"), id=change_id())
        waiting = [one for one in self.waiting() if one.state is State.STAGED]
        self._store.memories.replace_all(
            [(one, replace(one, state=State.PRUNED, state_reason=change.why, updated_at=now())) for one in waiting],
            "cleared",
            change,
        )
        return len(waiting), change.id if waiting else ""

    def _waiting(self, id: str) -> Memory:
        memory = self._store.memories.get(id)
        _refuse_decided(memory)
        return memory


def _refuse_decided(memory: Memory) -> None:
    if memory.state not in WAITING:
        raise NotFoundError("Staged learning", f"{memory.id} (it is {memory.state})")
