"""What can be done with learnings on their way into the memory: extracted, staged, reviewed, promoted."""

from __future__ import annotations

from ralph.errors import NotFound, RalphError, WrongUsage
from ralph.records import State, now, replace
from ralph.store.known_memories import Wanted
from ralph.store.memories import Change, change_id
from ralph.text import accept, title_of
from ralph.who import by, refuse_agents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ralph.loop.promotion import Counts
    from ralph.records import Memory
    from ralph.store import Store
    from ralph.store.memories import Kept

WAITING = (State.STAGED, State.QUARANTINED)


class Extracting:
    """The staging area of one opened project."""

    def __init__(self, store: Store, changed: Callable[[], None]) -> None:
        """`changed` is called when memories became active or ceased to be."""
        self._store = store
        self._changed = changed

    def extract(self, run_id: str | None = None) -> tuple[str, Counts]:
        """Extract what a run taught, the latest one if none is named, and stage it; give the run too."""
        from ralph.loop.episodes import histories
        from ralph.loop.promotion import stage

        runs = self._store.attempts.runs(1)
        if run_id is None and not runs:
            raise RalphError("There is no run to learn from yet. Start one with: ralph run")
        name = run_id or runs[0].id
        return name, stage(self._store, histories(self._store, name), by(f"extracted from {name}"))

    def extract_state(self, text: str, name: str) -> Counts:
        """Extract what a loop taught that ran elsewhere, from its state file, and stage it."""
        from ralph.formats.loop_state import read_loop_state
        from ralph.loop.promotion import stage

        refuse_agents("What another loop's state teaches")
        try:
            history = read_loop_state(text)
        except ValueError as error:
            raise WrongUsage(f"{name} cannot be learned from: {error}") from error
        if not history.loop_id:
            history = replace(history, loop_id=name)
        return stage(self._store, [history], by(f"extracted from {name}"))

    def extract_handover(self, from_hat: str, to_hat: str, text: str) -> list[Kept]:
        """Keep what one role found out for the next, from its words."""
        from ralph.memory.handover import HANDOVERS, at_handover

        if (from_hat, to_hat) not in HANDOVERS:
            known = ", ".join(f"{one} to {other}" for one, other in HANDOVERS)
            raise WrongUsage(f"Nothing is extracted from {from_hat} to {to_hat}; the hand-overs are: {known}.")
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

    def validate(self) -> Counts:
        """Check what is pending against the rules."""
        from ralph.loop.promotion import validate

        return validate(self._store, Change(who="ralph", why="validated"))

    def promote(self, ids: Sequence[str] = (), *, validate_first: bool = False) -> tuple[Counts, int]:
        """Make validated learnings active, all or the named ones; give how many stay staged too."""
        from ralph.loop.promotion import promote

        refuse_agents("What is promoted")
        if validate_first:
            self.validate()
        for id in ids:
            memory = self._waiting(id)
            if memory.state is not State.STAGED or not memory.validated_at:
                raise WrongUsage(f"{id} has not been validated. Look at it with: ralph learn review")
        counts = promote(self._store, by("promoted"), ids)
        self._changed()
        return counts, self._store.memories.count(State.STAGED)

    def accept(self, id: str, body: str | None = None) -> Memory:
        """Let a person's yes make a waiting learning active, with other words if there are any."""
        refuse_agents("What is kept")
        self._waiting(id)
        text = accept(body or "")
        # The words are a person's now, no longer made from figures.
        fields: dict[str, object] = {"title": title_of(text), "body": text, "content": ""} if text else {}
        at = now()
        active = self._store.memories.change(
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

    def reject(self, id: str, reason: str = "") -> Memory:
        """Let a person's no keep a waiting learning out."""
        self._waiting(id)
        why = accept(reason) or "rejected by a person"
        return self._store.memories.change(
            id, "rejected", by(why), state=State.REJECTED, state_reason=why, updated_at=now()
        )

    def clear(self) -> tuple[int, str]:
        """Take everything that is staged out of the staging area; give how much, and what to undo."""
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
        if memory.state not in WAITING:
            raise NotFound("Staged learning", f"{id} (it is {memory.state})")
        return memory
