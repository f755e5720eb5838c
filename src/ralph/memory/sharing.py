"""Memories that the projects of one database share, because a person chose them.

What is shared is copied into a project of its own, in which nobody works. Every other one takes in what is new there
before it recalls, as a copy that is its own from then on: what was edited or deleted here stays so.
"""

from __future__ import annotations

from ralph.core.errors import ConflictError, RalphError
from ralph.core.records import State, now, record, replace
from ralph.store.memories import LIVE, Change, Kept, change_id
from ralph.store.shared import Shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ralph.core.records import Memory, MemoryEvent
    from ralph.store import Store
    from ralph.store.memory_queries import Wanted

SHARED_FROM = "shared from "
NO_LONGER = "no longer shared"
RALPH = "ralph"
MOST_USES = 1_000
"""Of so many of the latest attempts a memory was shown to it is looked whether one got its task done."""
_TEXT = ("kind", "title", "body", "content", "tags", "files", "task_type")
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
"""What a memory has to do with its own project means nothing in another one."""


@record
class SharedMemory:
    """A memory that all projects get, and the one it came from."""

    memory: Memory
    project: str
    """The name of that project when the memory was shared."""


# --- giving --------------------------------------------------------------------------------


def share(store: Store, ids: Sequence[str], who: str) -> list[Kept]:
    """Offer memories to all projects of the database, or offer them again as they are now: all or none.

    Gives each as the others get it: `added`, `revived`, `edited`, or `known` when it was shared already.
    """
    own = [store.memories.get(id) for id in dict.fromkeys(ids)]
    for memory in own:
        if memory.state is not State.ACTIVE:
            raise ConflictError(f"{memory.id} is {memory.state}, and only what is in use can be shared.")
    name = store.project_name
    store.projects.add_shared()
    change = Change(who=who, why=f"{SHARED_FROM}{name}", id=change_id())
    shared = Shared(store.scope)
    agreed = {own_id: id for id, (own_id, _) in shared.agreed().items()}
    # Only who has the turn of the shared project may write there: its events are followed by their numbers.
    with store.database.transaction(shared.memories.scope.project_id):
        return [_share(shared, memory, agreed.get(memory.id, ""), name, change) for memory in own]


def _share(shared: Shared, memory: Memory, known_as: str, name: str, change: Change) -> Kept:
    at = now()
    known = _known(shared, memory, known_as, name)
    if known is None:
        copy = replace(memory, **_NOT_CARRIED, trust="shared", updated_at=at, verified_at=at)
        return Kept(memory=shared.memories.insert(copy, change), what="added")
    if known.state is State.ACTIVE and _text_of(known) == _text_of(memory):
        return Kept(memory=known, what="known")
    what = "edited" if known.state is State.ACTIVE else "revived"
    fields = _text_of(memory) | {"state": State.ACTIVE, "state_reason": "", "updated_at": at, "verified_at": at}
    return Kept(memory=shared.memories.change(known.id, what, change, **fields), what=what)


def _known(shared: Shared, memory: Memory, known_as: str, name: str) -> Memory | None:
    """Give the shared memory that this one is, or says the same as."""
    from ralph.memory.lifecycle.fingerprint import fingerprint

    if known_as and (known := shared.memories.find_one(known_as)):
        return known
    mark = fingerprint(memory)
    by_mark, by_id = shared.memories.known_by([mark], [memory.id])
    if mark in by_mark:
        return by_mark[mark]
    same_id = by_id[memory.id][0] if memory.id in by_id else None
    return same_id if same_id and source_of(shared.memories.history(memory.id)) == name else None


def unshare(store: Store, ids: Sequence[str], who: str) -> list[Memory]:
    """Share memories no longer, all or none; ids are those here or those they are shared under."""
    shared = Shared(store.scope)
    agreed = {own_id: id for id, (own_id, _) in shared.agreed().items()}
    why = f"{NO_LONGER} ({store.project_name})"
    change = Change(who=who, why=why, id=change_id())
    with store.database.transaction(shared.memories.scope.project_id):
        names = {agreed.get(id, id): id for id in ids}
        for shared_id, id in names.items():
            known = shared.memories.find_one(shared_id)
            if known is None or known.state is not State.ACTIVE:
                raise RalphError(f"{id} is not shared. What is: ralph memory list --shared")
        fields = {"state": State.PRUNED, "state_reason": why, "updated_at": now()}
        return [shared.memories.change(id, "unshared", change, **fields) for id in names]


def is_shared(store: Store, id: str) -> bool:
    """Say whether a memory of this project is one that all projects get."""
    shared = Shared(store.scope)
    known = shared.memories.find_one(id)
    if known is None:
        agreed = {own_id: shared_id for shared_id, (own_id, _) in shared.agreed().items()}
        known = shared.memories.find_one(agreed[id]) if id in agreed else None
    return known is not None and known.state is State.ACTIVE


def shared_memories(store: Store, wanted: Wanted) -> list[SharedMemory]:
    """Give the wanted memories that are shared, newest first, each with where it came from."""
    memories = Shared(store.scope).memories
    found = memories.find(wanted, order="created_at")
    return [SharedMemory(memory=one, project=source_of(memories.history(one.id))) for one in found]


def source_of(events: Sequence[MemoryEvent]) -> str:
    """Give the name of the project that shared a memory last; empty when none did."""
    told = [event.why for event in events if event.why.startswith(SHARED_FROM)]
    return told[-1].removeprefix(SHARED_FROM) if told else ""


# --- taking in -----------------------------------------------------------------------------


def take_in(store: Store) -> int:
    """Take in what was shared, changed or unshared since the last time; give how many memories here that changed.

    When nothing was, that costs one look.
    """
    shared = Shared(store.scope)
    if not shared.news():
        return 0
    with store.transaction():
        news = shared.news()  # somebody else may have been quicker
        if not news:
            return 0
        count = _Taking(store, shared).take(shared.touched(*news))
        shared.note(news[1])
    return count


class _Taking:
    """One look at what is shared, inside a transaction of the project that takes it in."""

    def __init__(self, store: Store, shared: Shared) -> None:
        self._memories = store.memories
        self._shared = shared
        self._agreed = shared.agreed()

    def take(self, touched: Sequence[tuple[Memory, str]]) -> int:
        """Take in shared memories, each with why it was last touched; give how many of ours that changed."""
        count = 0
        new: dict[str, list[Memory]] = {}
        known = self._memories.seqs_of([one.id for one, _ in touched])
        for one, why in touched:
            own_id = self._own_id(one, one.id in known)
            if one.state is not State.ACTIVE:
                count += bool(own_id) and self._let_go(one, own_id)
            elif own_id:
                count += self._renew(one, own_id, why)
            else:
                new.setdefault(why, []).append(one)
        for why, memories in new.items():
            count += self._bring(memories, Change(who=RALPH, why=why))
        return count

    def _own_id(self, one: Memory, is_known: bool) -> str:
        """Give the id of our copy of a shared memory, if we have one."""
        if one.id in self._agreed:
            return self._agreed[one.id][0]
        # What was agreed on may be lost, after a backup was brought back for example.
        return one.id if is_known and _came_by_sharing(self._memories.history(one.id)) else ""

    def _bring(self, memories: Sequence[Memory], change: Change) -> int:
        kept = self._memories.bring([(memory, ()) for memory in memories], change)
        for one, ours in zip(memories, kept, strict=True):
            if ours.what != "refused":  # what a person has deleted here stays deleted
                self._shared.agree(one.id, ours.memory.id, _mark(one))
        return sum(ours.what in ("added", "merged", "revived") for ours in kept)

    def _renew(self, one: Memory, own_id: str, why: str) -> bool:
        """Let our copy follow the shared one, unless it was edited here or taken out of use."""
        ours = self._memories.get(own_id)
        _, before = self._agreed.get(one.id, ("", ""))
        is_live = ours.state in LIVE
        was_let_go = not is_live and self._memories.history(own_id)[-1].what == "unshared"
        is_as_it_came = is_live and _mark(ours) in (before, _mark(one))
        if not before or was_let_go or is_as_it_came:
            self._shared.agree(one.id, own_id, _mark(one))
        if not was_let_go and (not is_as_it_came or _mark(ours) == _mark(one)):
            return False
        fields = _text_of(one) | ({"state": State.ACTIVE, "state_reason": ""} if was_let_go else {})
        change = Change(who=RALPH, why=why)
        self._memories.change(own_id, "revived" if was_let_go else "edited", change, **fields, updated_at=now())
        return True

    def _let_go(self, one: Memory, own_id: str) -> bool:
        """Take our copy of what is no longer shared out of use, unless it has become our own."""
        self._shared.forget(one.id)
        ours = self._memories.get(own_id)
        events = self._memories.history(own_id)
        if ours.state not in LIVE or not _came_by_sharing(events) or not all(map(_is_ours, events)):
            return False
        if any(row["outcome"] == "done" for row in self._memories.shown_to(own_id, MOST_USES)):
            return False
        why = one.state_reason or NO_LONGER
        fields = {"state": State.PRUNED, "state_reason": why, "updated_at": now()}
        self._memories.change(own_id, "unshared", Change(who=RALPH, why=why), **fields)
        return True


def _is_ours(event: MemoryEvent) -> bool:
    """Say whether it was the sharing that did something to a memory, and nobody else."""
    return event.who == RALPH and event.why.startswith((SHARED_FROM, NO_LONGER))


def _came_by_sharing(events: Sequence[MemoryEvent]) -> bool:
    """Say whether a memory is here only because another project shared it."""
    return bool(events) and _is_ours(events[0])


def _text_of(memory: Memory) -> dict[str, Any]:
    return {name: getattr(memory, name) for name in _TEXT}


def _mark(memory: Memory) -> str:
    """Give what tells whether the text of a memory was changed."""
    import hashlib
    import json

    said = json.dumps(_text_of(memory), ensure_ascii=False)
    return hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()[:16]
