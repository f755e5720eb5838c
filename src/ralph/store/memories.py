"""Store for memories and their history.

Every change is recorded as an event: who, when, why, and the old and new value of every changed field, so that
any earlier version can be restored.
"""

from __future__ import annotations

import os
from functools import cached_property

from ralph.core.errors import ConflictError, NotFoundError
from ralph.core.records import Memory, MemoryEvent, MemoryState, new_memory_id, now, record, replace
from ralph.memory.lifecycle.knowledge import is_update
from ralph.store.database import checksum
from ralph.store.memory_queries import (
    PAGE,
    MemoryFilter,
    MemoryHistory,
    require_latest,
    row_to_memory,
    row_to_memory_event,
    state_rank,
    with_old_fields,
)
from ralph.store.memory_writer import MemoryWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ralph.store.database import Row
    from ralph.store.memory_index import MemoryIndex
    from ralph.store.memory_listing import MemoryListing
    from ralph.store.memory_stats import MemoryStatistics

LIVE_STATES = (MemoryState.ACTIVE, MemoryState.STAGED)
"""States in which a memory is in use or may come into use."""
_CREDIT_FIELDS = ("uses", "used_at", "wins", "losses", "success_rate", "confidence")
"""Fields that the outcome of an attempt changes in the memories shown to it."""
_NOT_UNDOABLE = ("undone", "unlinked")
"""Events that undo skips, because nobody decided them."""
_CHANGE_PREFIX = "chg-"


@record
class ChangeInfo:
    """Author and reason of a change to memories. Changes with the same id are undone together."""

    who: str
    why: str
    id: str = ""


def change_id() -> str:
    """Return a new id for changes made together, `chg-{8 hex}`."""
    return _CHANGE_PREFIX + os.urandom(4).hex()


def is_change_id(id: str) -> bool:
    """Return whether an id has the form of a change id."""
    return id.startswith(_CHANGE_PREFIX)


@record
class AddResult:
    """Result of adding a memory."""

    memory: Memory
    what: str
    """`added`, `learned again`, `refined` (the known words said less), `updated` (the body of a knowledge entry was
    replaced), `revived`, `merged`, `known`, `again` (a repetition within the same import) or `refused` (a person
    deleted it)."""
    event: int | None = None
    """Sequence number of the event that records it, if known. None if nothing changed."""
    superseded: tuple[str, ...] = ()
    """Ids of earlier memories whose place it takes."""


@record
class ChangeResult:
    """A memory after a change, and the sequence number of the event that records it."""

    memory: Memory
    event: int | None
    """None if nothing changed."""
    superseded: tuple[str, ...] = ()
    """Ids of memories whose place it takes, because it says something else now."""


class MemoryStore(MemoryWriter):
    """Memories of a project, with their history."""

    # Imported on first use: a typical command needs only one of these.

    @cached_property
    def listing(self) -> MemoryListing:
        """Lists of memories in a given order."""
        from ralph.store.memory_listing import MemoryListing

        return MemoryListing(self.scope)

    @cached_property
    def index(self) -> MemoryIndex:
        """Look-up by words, files, links and fingerprints."""
        from ralph.store.memory_index import MemoryIndex

        return MemoryIndex(self.scope)

    @cached_property
    def history(self) -> MemoryHistory:
        """Events, earlier versions and uses."""
        return MemoryHistory(self.scope)

    @cached_property
    def stats(self) -> MemoryStatistics:
        """Counts and averages."""
        from ralph.store.memory_stats import MemoryStatistics

        return MemoryStatistics(self.scope)

    # --- adding ----------------------------------------------------------------------

    def add(
        self,
        memory: Memory,
        change: ChangeInfo,
        *,
        by_person: bool = False,
        fields: Mapping[str, object] | None = None,
        told: Collection[str] = (),
    ) -> AddResult:
        """Add a memory, or update the existing one that says the same.

        An existing memory gains support and gets the given fields. A memory that a person deleted is
        refused unless a person adds it. Who was told memories (`told`, by id) and says the same in other words does
        not support them.
        """
        from ralph.memory.lifecycle.confidence import reinforce
        from ralph.memory.lifecycle.fingerprint import fingerprint
        from ralph.store.superseded_rules import restate, supersede_rules

        mark = fingerprint(memory)
        with self.scope.transaction():
            known = self._find_same(memory, mark, by_person=by_person)
            if memory.state is MemoryState.QUARANTINED:
                return self._add_quarantined(memory, mark, known, change)
            if known is None and not by_person and (result := self._add_paraphrase(memory, change, told)):
                return result
            if known is None:
                added = self._insert(memory, mark, change)
                superseded = supersede_rules(self, added.memory, change)
                return AddResult(memory=added.memory, what="added", event=added.event, superseded=superseded)
            from ralph.store.stated_again import has_new_origin, is_replaced, revived

            known = self._successor(known, while_same=True)
            if is_replaced(known) and memory.kind != "knowledge":
                current = self._successor(known)
                return restate(self, known, current, memory, change, fields or {}, by_person=by_person)
            known = self._successor(known)
            if not by_person and self._was_deleted_by_person(known):
                return AddResult(memory=known, what="refused")
            live = revived(known, memory, by_person)
            updated = reinforce(live, memory, memory.updated_at)
            if live.state is not known.state:
                updated = replace(updated, **fields or {})
                return AddResult(memory=updated, what="revived", event=self._record(known, updated, "revived", change))
            if not has_new_origin(known, memory) and not fields:
                updated = replace(updated, support=known.support, confidence=known.confidence)
                is_same = (updated.content, updated.tags, updated.files) == (known.content, known.tags, known.files)
                if known.structured_content or is_same:
                    return AddResult(memory=known, what="known")
            updated = replace(updated, **fields or {})
            is_new_body = known.kind == "knowledge" and updated.content != known.content
            what = "updated" if is_new_body else "learned again"
            return AddResult(memory=updated, what=what, event=self._record(known, updated, what, change))

    def _add_quarantined(self, memory: Memory, mark: str, known: Memory | None, change: ChangeInfo) -> AddResult:
        """Add a memory that waits for a person, which never changes a known one."""
        if known is not None:
            return AddResult(memory=known, what="known")
        added = self._insert(memory, mark, change)
        return AddResult(memory=added.memory, what="added", event=added.event)

    def _add_paraphrase(self, memory: Memory, change: ChangeInfo, told: Collection[str]) -> AddResult | None:
        """Reinforce or refine the memory that says the same in other words; return None if there is none."""
        from ralph.store.paraphrases import find_paraphrase, is_echo, reinforce_paraphrase
        from ralph.store.stated_again import has_new_origin

        found = find_paraphrase(self, memory)
        if found is None:
            return None
        if not has_new_origin(found.known, memory) or is_echo(found, memory, told):
            return AddResult(memory=found.known, what="known")
        updated = reinforce_paraphrase(self, found, memory)
        what = "refined" if updated.content != found.known.content else "learned again"
        change = replace(change, why=f"{change.why}; in the words: {memory.content}")
        return AddResult(memory=updated, what=what, event=self._record(found.known, updated, what, change))

    def import_memories(
        self, memories: Sequence[tuple[Memory, Sequence[MemoryEvent]]], change: ChangeInfo
    ) -> list[AddResult]:
        """Import memories with their history in one transaction. Importing them again changes nothing."""
        from ralph.memory.lifecycle.fingerprint import fingerprint
        from ralph.memory.lifecycle.merge_import import merge_imported
        from ralph.memory.lifecycle.staleness import reset_marks_on_edit
        from ralph.store.stated_again import revived

        results: list[AddResult] = []
        fresh: dict[str, tuple[Memory, str, Sequence[MemoryEvent]]] = {}
        with self.scope.transaction():
            marks = [fingerprint(memory) for memory, _ in memories]
            by_mark, by_id = self.index.find_known(marks, [memory.id for memory, _ in memories if memory.id])
            for (memory, events), mark in zip(memories, marks, strict=True):
                same_id, same_mark = by_id.get(memory.id), by_mark.get(mark)
                known = same_id[0] if same_id and (same_id[1] == mark or not same_mark) else same_mark
                if known and known.id in by_id:
                    known = by_id[known.id][0]  # an earlier entry may have changed it
                if known and known.id not in fresh and memory.state is MemoryState.ACTIVE:
                    known = self._successor(known)
                    if self._was_deleted_by_person(known):
                        results.append(AddResult(memory=known, what="refused"))
                        continue
                if known and memory.state is MemoryState.QUARANTINED:
                    results.append(
                        AddResult(memory=known, what="known")
                    )  # quarantined memories never change existing ones
                    continue
                after = merge_imported(known, memory) if known else None
                if known is None or after is None:
                    new = memory if memory.id and not same_id else replace(memory, id=self._new_id(fresh))
                    if new.seen or new.stale or new.pinned_at:
                        # Those describe files of another working copy, and a pin is for a person here to decide.
                        new = replace(new, seen="", stale="", pinned_at=None)
                    fresh[new.id] = new, mark, events
                    by_id[new.id] = new, mark
                    by_mark[mark] = new
                    results.append(AddResult(memory=new, what="added"))
                    continue
                if after.id in fresh:
                    results.append(AddResult(memory=after, what="again" if after == known else "merged"))
                    fresh[after.id] = after, *fresh[after.id][1:]
                else:
                    after = revived(after, memory, True) if memory.state is MemoryState.ACTIVE else after
                    after = replace(after, **reset_marks_on_edit(known, {"content": after.content}))
                    what = "known" if after == known else "merged" if after.state is known.state else "revived"
                    results.append(AddResult(memory=after, what=what))
                    if after != known:
                        self._record(known, after, what, change)
                by_id[after.id] = after, mark
                by_mark[mark] = after
            is_bulk = len(fresh) > PAGE
            if is_bulk:
                self.scope.database.words.set_bulk_mode("memory", True)
            self._insert_all(list(fresh.values()), change)
            if is_bulk:
                self.scope.database.words.set_bulk_mode("memory", False)
        return results

    def supersede(self, memories: Sequence[Memory], by: Memory, change: ChangeInfo) -> None:
        """Let a memory take the place of others, which stay in the history."""
        from ralph.store.stated_again import replaced_reason

        with self.scope.transaction():
            for one in memories:
                superseded = replace(
                    one,
                    state=MemoryState.SUPERSEDED,
                    superseded_by=by.id,
                    state_reason=replaced_reason(by),
                    updated_at=now(),
                )
                self._record(one, superseded, "superseded", change)

    def _new_id(self, fresh: Mapping[str, object]) -> str:
        id = new_memory_id()
        while id in fresh or self.find_by_id(id):
            id = f"{new_memory_id()}{os.urandom(2).hex()}"  # many ids are created within a second
        return id

    def _find_same(self, memory: Memory, mark: str, *, by_person: bool) -> Memory | None:
        """Return the memory that says the same, preferably a live one.

        Knowledge under the same title takes the place of what is known, but not an agent's of a person's.
        """
        rows = self.scope.query(
            "SELECT * FROM memory WHERE project_id = :project_id AND fingerprint = :mark ORDER BY seq",
            mark=mark,
        )
        matches = sorted(map(row_to_memory, rows), key=state_rank)
        if memory.kind == "knowledge" and memory.tags and not any(match.state in LIVE_STATES for match in matches):
            matches = self._find_similar_entries(memory) + matches
        if memory.kind == "knowledge" and not by_person:
            matches = [one for one in matches if not self._would_reword(self._successor(one), memory)]
        return matches[0] if matches else None

    def _would_reword(self, known: Memory, memory: Memory) -> bool:
        """Return whether a new statement would take the place of what a person said and has not withdrawn."""
        from ralph.store.superseded_rules import is_persons

        return known.state in LIVE_STATES and known.content != memory.content and is_persons(self, known)

    def _find_similar_entries(self, memory: Memory) -> list[Memory]:
        """Return the knowledge entry that the memory updates: one title contains the other, and the tags overlap."""
        from ralph.core.tokenize import tokenize

        title_words = dict.fromkeys(tokenize(memory.title), 1.0)
        found = self.index.search_words(title_words, 20, MemoryFilter(kinds=("knowledge",)))
        return [entry for entry in map(row_to_memory, found.rows) if is_update(entry, memory)][:1]

    def _successor(self, memory: Memory, *, while_same: bool = False) -> Memory:
        """Follow `superseded_by` to the memory that is current, or as long as each says the same as the one before."""
        from ralph.store.stated_again import is_replaced

        seen = {memory.id}
        while memory.state is MemoryState.SUPERSEDED and memory.superseded_by and memory.superseded_by not in seen:
            if while_same and is_replaced(memory):
                break
            seen.add(memory.superseded_by)
            successor = self.find_by_id(memory.superseded_by)
            if successor is None:
                break
            memory = successor
        return memory

    def _was_deleted_by_person(self, memory: Memory) -> bool:
        """Return whether a person deleted or rejected it, as opposed to a removal by a synced file."""
        if memory.state in LIVE_STATES or memory.state is MemoryState.SUPERSEDED:
            return False
        events = [
            event for event in self.history.of(memory.id) if event.what not in ("learned again", "updated", "unlinked")
        ]
        return bool(events) and events[-1].what in ("deleted", "rejected") and events[-1].who == "person"

    def insert_unchecked(self, memory: Memory, change: ChangeInfo) -> Memory:
        """Insert a memory without looking for duplicates. An id that is taken is replaced by a new one."""

        from ralph.memory.lifecycle.fingerprint import fingerprint

        with self.scope.transaction():
            return self._insert(memory, fingerprint(memory), change).memory

    def _insert(self, memory: Memory, mark: str, change: ChangeInfo) -> ChangeResult:
        while not memory.id or self.find_by_id(memory.id):
            memory = replace(memory, id=new_memory_id())
        return ChangeResult(memory=memory, event=self._insert_one(memory, mark, change))

    def insert_all_unchecked(self, memories: Sequence[Memory], change: ChangeInfo) -> None:
        """Insert memories without looking for duplicates. Their ids must be free."""

        from ralph.memory.lifecycle.fingerprint import fingerprint

        with self.scope.transaction():
            self._insert_all([(memory, fingerprint(memory), ()) for memory in memories], change)

    # --- changing --------------------------------------------------------------------

    def update(self, id: str, what: str, change: ChangeInfo, **fields: object) -> ChangeResult:
        """Change fields of a memory and record the change; what it says otherwise now takes the place of others."""
        from ralph.memory.lifecycle.staleness import reset_marks_on_edit

        with self.scope.transaction():
            known = self.get(id)
            updated = replace(known, **reset_marks_on_edit(known, fields))
            if updated.content == known.content:
                event = self._record(known, updated, what, change) if updated != known else None
                return ChangeResult(memory=updated, event=event)
            from ralph.store.superseded_rules import supersede_rules

            change = replace(change, id=change.id or change_id())
            event = self._record(known, updated, what, change)
            return ChangeResult(memory=updated, event=event, superseded=supersede_rules(self, updated, change))

    def update_unmodified(self, pairs: Iterable[tuple[Memory, Memory]], what: str, change: ChangeInfo) -> list[Memory]:
        """Replace memories, given as pairs of the old and the new version, and return the new versions.

        A memory that was modified concurrently is skipped.
        """
        with self.scope.transaction():
            unmodified = [(before, after) for before, after in pairs if self.find_by_id(before.id) == before]
            for before, after in unmodified:
                self._record(before, after, what, change)
        return [after for _, after in unmodified]

    def credit_outcome(self, ids: Sequence[str], at: str, *, won: bool, usual_rate: float = 0.5) -> None:
        """Credit the outcome of an attempt to the memories shown to it.

        `usual_rate` is the usual success rate of attempts in this project.
        """
        from ralph.memory.lifecycle.confidence import record_use

        rows = list(self.rows_in("id", ids))
        for row in rows:
            after = record_use(row_to_memory(row), at, succeeded=won, base_rate=usual_rate)
            row |= {name: getattr(after, name) for name in _CREDIT_FIELDS}
            row["checksum"] = checksum(row)
        names = (*_CREDIT_FIELDS, "checksum")
        self.scope.database.execute_many(
            f"""
            UPDATE memory SET {", ".join(f"{name} = :{name}" for name in names)}
            WHERE project_id = :project_id AND id = :id
            """,
            [{name: row[name] for name in ("project_id", "id", *names)} for row in rows],
        )

    def set_file_state(self, changes: Sequence[tuple[Row, str, str]]) -> None:
        """Store file fingerprints and staleness of memories, without an event because nobody decided it.

        Each change is a row of `index.file_references` with its new `seen` and `stale`. A memory that was modified
        concurrently is skipped.
        """
        rows = [
            {
                "project_id": self.scope.project_id,
                "id": row["id"],
                "seen": seen,
                "stale": stale,
                "was_seen": row["seen"],
                "updated_at": row["updated_at"],
            }
            for row, seen, stale in changes
        ]
        if not rows:
            return
        with self.scope.transaction():
            self.scope.database.execute_many(
                """
                UPDATE memory SET seen = :seen, stale = :stale
                WHERE project_id = :project_id AND id = :id AND seen = :was_seen AND updated_at = :updated_at
                """,
                rows,
            )

    def consolidate(self, survivor: Memory, merged: Memory, others: Sequence[Memory], change: ChangeInfo) -> bool:
        """Merge `others` into one memory; return False if any of them was modified concurrently."""
        with self.scope.transaction():
            if any(self.find_by_id(memory.id) != memory for memory in (survivor, *others)):
                return False
            self._record(survivor, merged, "consolidated", change)
            for other in others:
                superseded = replace(
                    other,
                    state=MemoryState.SUPERSEDED,
                    superseded_by=survivor.id,
                    state_reason=f"says the same as {survivor.id}",
                    updated_at=merged.updated_at,
                )
                self._record(other, superseded, "superseded", change)
        return True

    def detach_task(self, task_id: str) -> None:
        """Detach the memories learned from a task before the task is deleted."""
        change = ChangeInfo(who="ralph", why=f"{task_id} was deleted")
        with self.scope.transaction():
            for known in map(row_to_memory, self.rows("origin_task = :task_id", task_id=task_id)):
                self._record(known, replace(known, origin_task=None, origin_attempt=None), "unlinked", change)

    # --- history ---------------------------------------------------------------------

    def undo(self, id: str, change: ChangeInfo, *, only: int | None = None) -> tuple[Memory, MemoryEvent]:
        """Undo the latest change of a memory that is not undone yet; return the memory and the undone event.

        With `only`, undo that event, and refuse if it is not the latest.
        """
        with self.scope.transaction():
            memory = self.get(id)
            events = self.history.of(id)
            undone = {event.undoes for event in events}
            undoable = [event for event in events if event.what not in _NOT_UNDOABLE and event.seq not in undone]
            if only is not None:
                require_latest(id, only, events, undoable)
            if not undoable:
                raise ConflictError(f"Nothing to undo: {id} has no changes left to undo.", code="nothing-to-undo")
            return self._revert(memory, undoable[-1], change), undoable[-1]

    def undo_change(self, id: str, change: ChangeInfo) -> list[Memory]:
        """Undo all events of a change, newest first."""
        with self.scope.transaction():
            rows = self.scope.query(
                """
                SELECT * FROM memory_events WHERE project_id = :project_id AND change_id = :id
                    AND seq NOT IN (SELECT undoes FROM memory_events
                        WHERE project_id = :project_id AND undoes IS NOT NULL)
                ORDER BY seq DESC
                """,
                id=id,
            )
            if not rows:
                raise NotFoundError("Change", id)
            return [self._revert(self.get(row["memory_id"]), row_to_memory_event(row), change) for row in rows]

    def _revert(self, memory: Memory, event: MemoryEvent, change: ChangeInfo) -> Memory:
        if event.what in ("added", "imported"):
            reverted = replace(memory, state=MemoryState.PRUNED, state_reason="its addition was undone")
        else:
            reverted = with_old_fields(memory, event.was)
        reverted = replace(reverted, updated_at=now())
        self._record(memory, reverted, "undone", change, undoes=event.seq)
        return reverted
