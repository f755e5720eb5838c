"""Memories that a person shares with all projects of a database.

Shared memories are copied into a project of their own. Every other project imports what is new there before it
recalls. The copy is its own from then on: what was edited or deleted in a project stays so.
"""

from __future__ import annotations

import hashlib
import json

from ralph.core.errors import ConflictError, RalphError
from ralph.core.records import MemoryState, now, record, replace
from ralph.memory.lifecycle.confidence import current_confidence
from ralph.memory.lifecycle.fingerprint import fingerprint
from ralph.store.memories import LIVE_STATES, AddResult, ChangeInfo, change_id
from ralph.store.memory_queries import SHARED_FROM
from ralph.store.shared import SharedMemories

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ralph.core.actor import Actor
    from ralph.core.records import Memory, MemoryEvent
    from ralph.store import Store
    from ralph.store.memory_queries import MemoryFilter

NO_LONGER = "no longer shared"
RALPH = "ralph"
MAX_USES = 1_000
"""Number of the latest uses searched for an attempt that succeeded."""
_TEXT = ("kind", "title", "content", "structured_content", "tags", "files", "task_type")
_NOT_CARRIED = {
    "feature": None,
    "origin_task": None,
    "origin_run": None,
    "origin_attempt": None,
    "origin_session": None,
    "superseded_by": None,
    "uses": 0,
    "used_at": None,
    "wins": 0,
    "losses": 0,
    "seen": "",
    "stale": "",
    "state_reason": "",
}
"""Fields that mean nothing in another project, with their defaults."""


@record
class SharedMemory:
    """A shared memory and the project it came from."""

    memory: Memory
    project: str
    """Name of that project when the memory was shared."""


class SharingService:
    """Sharing of memories, for one opened project."""

    def __init__(self, store: Store, actor: Actor) -> None:
        self._store = store
        self._actor = actor
        self._shared = SharedMemories(store.scope)

    def share(self, *ids: str) -> list[AddResult]:
        """Share memories with all projects of the database, or share them again as they are now: all or none.

        Each result is `added`, `revived`, `edited`, or `known` when it was shared already.
        """
        self._actor.require("memory.share")
        own = [self._store.memories.get(id) for id in dict.fromkeys(ids)]
        for memory in own:
            if memory.state is not MemoryState.ACTIVE:
                raise ConflictError(
                    f"{memory.id} is {memory.state}, and only active memories can be shared.", code="not-active"
                )
        self._store.projects.ensure_shared()
        change = self._change(f"{SHARED_FROM}{self._store.project_name}")
        shared_ids = self._shared_ids()
        # Writers to the shared project must hold its lock: readers follow its events by their numbers.
        with self._store.database.transaction(self._shared.memories.scope.project_id):
            return [self._put(memory, shared_ids.get(memory.id, ""), change) for memory in own]

    def _put(self, memory: Memory, shared_id: str, change: ChangeInfo) -> AddResult:
        memories, at = self._shared.memories, now()
        known = self._find_copy(memory, shared_id)
        if known is None:
            copy = replace(memory, **_NOT_CARRIED, updated_at=at, verified_at=at)
            return AddResult(memory=memories.insert_unchecked(copy, change), what="added")
        if known.state is MemoryState.ACTIVE and _text_of(known) == _text_of(memory):
            return AddResult(memory=known, what="known")
        what = "edited" if known.state is MemoryState.ACTIVE else "revived"
        fields = _text_of(memory) | {"state": MemoryState.ACTIVE, "state_reason": "", "updated_at": at}
        return AddResult(memory=memories.update(known.id, what, change, **fields, verified_at=at).memory, what=what)

    def _find_copy(self, memory: Memory, shared_id: str) -> Memory | None:
        """Return the shared memory that is a copy of this one, or says the same."""
        memories = self._shared.memories
        if shared_id and (known := memories.find_by_id(shared_id)):
            return known
        mark = fingerprint(memory)
        by_mark, by_id = memories.index.find_known([mark], [memory.id])
        if mark in by_mark:
            return by_mark[mark]
        same_id = by_id[memory.id][0] if memory.id in by_id else None
        is_ours = same_id and source_of(memories.history.of(memory.id)) == self._store.project_name
        return same_id if is_ours else None

    def unshare(self, *ids: str) -> list[Memory]:
        """Stop sharing memories, all or none; ids are those of this project or of the shared one.

        Other projects keep what they have made their own.
        """
        self._actor.require("memory.unshare")
        change = self._change(f"{NO_LONGER} ({self._store.project_name})")
        memories, shared_ids = self._shared.memories, self._shared_ids()
        with self._store.database.transaction(memories.scope.project_id):
            names = {shared_ids.get(id, id): id for id in ids}
            for shared_id, id in names.items():
                known = memories.find_by_id(shared_id)
                if known is None or known.state is not MemoryState.ACTIVE:
                    raise RalphError(f"{id} is not shared. See: ralph memory list --shared", code="not-shared")
            fields = {"state": MemoryState.PRUNED, "state_reason": change.why, "updated_at": now()}
            return [memories.update(id, "unshared", change, **fields).memory for id in names]

    def is_shared(self, id: str) -> bool:
        """Return whether a memory of this project is shared."""
        memories = self._shared.memories
        known = memories.find_by_id(id) or memories.find_by_id(self._shared_ids().get(id, ""))
        return known is not None and known.state is MemoryState.ACTIVE

    def list(self, filter: MemoryFilter, limit: int = 0) -> list[SharedMemory]:
        """Return the shared memories that match a filter, newest first, each with its project."""
        memories, at = self._shared.memories, now()
        found = [
            SharedMemory(memory=one, project=source_of(memories.history.of(one.id)))
            for one in memories.listing.newest(filter)
            if current_confidence(one, at) >= filter.min_confidence
        ]
        return found[:limit] if limit else found

    def _shared_ids(self) -> dict[str, str]:
        """Return the id of the shared copy of each memory of this project."""
        return {own_id: id for id, (own_id, _) in self._shared.synced_ids().items()}

    def _change(self, why: str) -> ChangeInfo:
        return ChangeInfo(who=self._actor.kind, why=why, id=change_id())


def source_of(events: Sequence[MemoryEvent]) -> str:
    """Return the name of the project that shared a memory last; empty when none did."""
    reasons = [event.why for event in events if event.why.startswith(SHARED_FROM)]
    return reasons[-1].removeprefix(SHARED_FROM) if reasons else ""


# --- importing shared memories -------------------------------------------------------------


def import_shared(store: Store) -> int:
    """Import what was shared, changed or unshared since the last time; return the number of memories changed here.

    Costs one query when there is nothing new.
    """
    shared = SharedMemories(store.scope)
    if not shared.unseen_range():
        return 0
    with store.transaction():
        unseen = shared.unseen_range()  # somebody else may have been quicker
        if not unseen:
            return 0
        count = _SharedImport(store, shared).apply(shared.changed_between(*unseen))
        shared.record_sync(unseen[1])
    return count


class _SharedImport:
    """One import of shared memories, inside a transaction of the importing project."""

    def __init__(self, store: Store, shared: SharedMemories) -> None:
        self._memories = store.memories
        self._shared = shared
        self._synced = shared.synced_ids()

    def apply(self, changed: Sequence[tuple[Memory, str]]) -> int:
        """Import shared memories, each with the reason of its last change; return the number changed here."""
        count = 0
        new: dict[str, list[Memory]] = {}
        known = self._memories.index.seqs_by_id([one.id for one, _ in changed])
        for one, why in changed:
            own_id = self._own_id(one, one.id in known)
            if one.state is not MemoryState.ACTIVE:
                count += bool(own_id) and self._withdraw(one, own_id)
            elif own_id:
                count += self._renew(one, own_id, why)
            else:
                new.setdefault(why, []).append(one)
        for why, memories in new.items():
            count += self._import(memories, ChangeInfo(who=RALPH, why=why))
        return count

    def _own_id(self, one: Memory, is_known: bool) -> str:
        """Return the id of this project's copy of a shared memory, or an empty string."""
        if one.id in self._synced:
            return self._synced[one.id][0]
        # The mapping may be lost, after a backup was restored for example.
        return one.id if is_known and _came_by_sharing(self._memories.history.of(one.id)) else ""

    def _import(self, memories: Sequence[Memory], change: ChangeInfo) -> int:
        results = self._memories.import_memories([(memory, ()) for memory in memories], change)
        for one, ours in zip(memories, results, strict=True):
            if ours.what != "refused":  # what a person has deleted here stays deleted
                self._shared.save_synced(one.id, ours.memory.id, _mark(one))
        return sum(ours.what in ("added", "merged", "revived") for ours in results)

    def _renew(self, one: Memory, own_id: str, why: str) -> bool:
        """Update our copy from the shared one, unless it was edited or pruned here."""
        ours = self._memories.get(own_id)
        _, before = self._synced.get(one.id, ("", ""))
        is_live = ours.state in LIVE_STATES
        was_withdrawn = not is_live and self._memories.history.of(own_id)[-1].what == "unshared"
        is_unchanged = is_live and _mark(ours) in (before, _mark(one))
        if not before or was_withdrawn or is_unchanged:
            self._shared.save_synced(one.id, own_id, _mark(one))
        if not was_withdrawn and (not is_unchanged or _mark(ours) == _mark(one)):
            return False
        fields = _text_of(one) | ({"state": MemoryState.ACTIVE, "state_reason": ""} if was_withdrawn else {})
        change = ChangeInfo(who=RALPH, why=why)
        self._memories.update(own_id, "revived" if was_withdrawn else "edited", change, **fields, updated_at=now())
        return True

    def _withdraw(self, one: Memory, own_id: str) -> bool:
        """Prune our copy of a memory that is no longer shared, unless it has been edited or has helped here."""
        self._shared.delete_synced(one.id)
        ours = self._memories.get(own_id)
        events = self._memories.history.of(own_id)
        if ours.state not in LIVE_STATES or not _came_by_sharing(events) or not all(map(_is_ours, events)):
            return False
        if any(row["outcome"] == "done" for row in self._memories.history.attempts_shown(own_id, MAX_USES)):
            return False
        why = one.state_reason or NO_LONGER
        fields = {"state": MemoryState.PRUNED, "state_reason": why, "updated_at": now()}
        self._memories.update(own_id, "unshared", ChangeInfo(who=RALPH, why=why), **fields)
        return True


def _is_ours(event: MemoryEvent) -> bool:
    """Return whether sharing, and nobody else, made a change."""
    return event.who == RALPH and event.why.startswith((SHARED_FROM, NO_LONGER))


def _came_by_sharing(events: Sequence[MemoryEvent]) -> bool:
    """Return whether a memory is here only because another project shared it."""
    return bool(events) and _is_ours(events[0])


def _text_of(memory: Memory) -> dict[str, Any]:
    return {name: getattr(memory, name) for name in _TEXT}


def _mark(memory: Memory) -> str:
    """Return a hash of the text of a memory."""
    # The keys are those of stored hashes, from before the fields were renamed.
    keys = {"content": "body", "structured_content": "content"}
    text = json.dumps({keys.get(name, name): value for name, value in _text_of(memory).items()}, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
