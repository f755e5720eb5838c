"""Memories in the store, and the history of each.

Nothing is changed or removed without an event that says who, when and why, and
what it was before: an event keeps the old and the new value of every field it
changed, so that any version can be brought back.
"""

from __future__ import annotations

import json
import os

from ralph.errors import ConflictError, NotFoundError
from ralph.memory.knowledge import is_update, links_in, title_key
from ralph.records import Memory, MemoryEvent, State, fields_of, memory_id, now, record, replace
from ralph.store.database import checksum, is_right
from ralph.store.known_memories import PAGE, KnownMemories, Wanted, event_in, memory_in, state_rank, with_fields
from ralph.store.rows import to_columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ralph.store.database import Row

BATCH = 5_000
LIVE = (State.ACTIVE, State.STAGED)
_FOUND_BY = ("title", "body", "tags", "files")
_NOT_UNDONE = ("undone", "unlinked")
"""Events that undo passes over: it takes back what somebody decided."""


_CHANGE = "chg-"


@record
class Change:
    """Who changes memories and why; changes with one id are undone together."""

    who: str
    why: str
    id: str = ""


_SETTLED = ("uses", "used_at", "wins", "losses", "success_rate", "confidence")
"""What the outcome of an attempt changes in the memories it was shown."""


def change_id() -> str:
    """Give a new id for changes made together, `chg-{8 hex}`."""
    return _CHANGE + os.urandom(4).hex()


def is_change_id(id: str) -> bool:
    """Say whether an id looks like that of a change."""
    return id.startswith(_CHANGE)


@record
class Kept:
    """What became of a memory that was to be kept."""

    memory: Memory
    what: str
    """`added`, `learned again`, `revived`, `merged`, `known`, `again` (said before in the same file) or
    `refused`: a person has deleted it."""
    event: int | None = None
    """The number of that in the memory's history, where it is told; None when nothing was changed."""


@record
class Changed:
    """A memory as it is after a change, and the number of the change in its history."""

    memory: Memory
    event: int | None
    """None when there was nothing to change."""


class Memories(KnownMemories):
    """What this project knows, and all that can happen to it."""

    # --- keeping ---------------------------------------------------------------------

    def add(
        self,
        memory: Memory,
        change: Change,
        *,
        by_person: bool = False,
        stated: Mapping[str, object] | None = None,
    ) -> Kept:
        """Keep a memory. What is known already is not kept twice: the old one gains support, and what is `stated`.

        What a person has deleted is not learned again, unless a person says it.
        """
        from ralph.memory.fingerprint import fingerprint
        from ralph.memory.lifecycle import learned_again

        mark = fingerprint(memory)
        with self.scope.transaction():
            known = self._same(memory, mark)
            if known is None:
                added = self._insert(memory, mark, change)
                return Kept(memory=added.memory, what="added", event=added.event)
            known = self._follow(known)
            if not by_person and self._is_refused(known):
                return Kept(memory=known, what="refused")
            live = _live(known, memory, by_person)
            again = learned_again(live, memory, memory.updated_at)
            if live.state is not known.state:
                again = replace(again, **stated or {})
                return Kept(memory=again, what="revived", event=self._record(known, again, "revived", change))
            if not _is_news(known, memory) and not stated:
                again = replace(again, support=known.support, confidence=known.confidence)
                if known.content or (again.body, again.tags, again.files) == (known.body, known.tags, known.files):
                    return Kept(memory=known, what="known")
            again = replace(again, **stated or {})
            event = self._record(known, again, "learned again", change)
            return Kept(memory=again, what="learned again", event=event)

    def bring(self, arriving: Sequence[tuple[Memory, Sequence[MemoryEvent]]], change: Change) -> list[Kept]:
        """Keep memories from elsewhere with their history, in one go; bringing them once more changes nothing."""
        from ralph.memory.bring import brought
        from ralph.memory.fingerprint import fingerprint
        from ralph.memory.staleness import rewritten

        kept: list[Kept] = []
        fresh: dict[str, tuple[Memory, str, Sequence[MemoryEvent]]] = {}
        with self.scope.transaction():
            marks = [fingerprint(memory) for memory, _ in arriving]
            by_mark, by_id = self.known_by(marks, [memory.id for memory, _ in arriving if memory.id])
            for (memory, events), mark in zip(arriving, marks, strict=True):
                same_id, same_mark = by_id.get(memory.id), by_mark.get(mark)
                known = same_id[0] if same_id and (same_id[1] == mark or not same_mark) else same_mark
                if known and known.id in by_id:
                    known = by_id[known.id][0]  # an entry above may have changed it
                if known and known.id not in fresh and memory.state is State.ACTIVE:
                    known = self._follow(known)
                    if self._is_refused(known):
                        kept.append(Kept(memory=known, what="refused"))
                        continue
                if known and memory.state is State.QUARANTINED:
                    kept.append(Kept(memory=known, what="known"))  # an agent changes nothing that is here
                    continue
                after = brought(known, memory) if known else None
                if known is None or after is None:
                    new = memory if memory.id and not same_id else replace(memory, id=self._new_id(fresh))
                    if new.seen or new.stale:
                        new = replace(new, seen="", stale="")  # its files are not those that were seen elsewhere
                    fresh[new.id] = new, mark, events
                    by_id[new.id] = new, mark
                    by_mark[mark] = new
                    kept.append(Kept(memory=new, what="added"))
                    continue
                if after.id in fresh:
                    kept.append(Kept(memory=after, what="again" if after == known else "merged"))
                    fresh[after.id] = after, *fresh[after.id][1:]
                else:
                    after = _live(after, memory, True) if memory.state is State.ACTIVE else after
                    after = replace(after, **rewritten(known, {"body": after.body}))
                    what = "known" if after == known else "merged" if after.state is known.state else "revived"
                    kept.append(Kept(memory=after, what=what))
                    if after != known:
                        self._record(known, after, what, change)
                by_id[after.id] = after, mark
                by_mark[mark] = after
            is_bulk = len(fresh) > PAGE
            if is_bulk:
                self.scope.database.put_off_upkeep(True)
            self._insert_all(list(fresh.values()), change)
            if is_bulk:
                self.scope.database.put_off_upkeep(False)
        return kept

    def _new_id(self, fresh: Mapping[str, object]) -> str:
        id = memory_id()
        while id in fresh or self.find_one(id):
            id = f"{memory_id()}{os.urandom(2).hex()}"  # so many in one second that they need longer names
        return id

    def _same(self, memory: Memory, mark: str) -> Memory | None:
        """Give the memory that says the same, a live one if there is one."""
        rows = self.scope.query(
            "SELECT * FROM memory WHERE project_id = :project_id AND fingerprint = :mark ORDER BY seq",
            mark=mark,
        )
        found = sorted(map(memory_in, rows), key=state_rank)
        if memory.kind == "knowledge" and memory.tags and not any(one.state in LIVE for one in found):
            found = self._akin(memory) + found
        return found[0] if found else None

    def _akin(self, memory: Memory) -> list[Memory]:
        """Give knowledge entries of which one title holds the other and the tags agree."""
        from ralph.memory.words import words

        titled = dict.fromkeys(words(memory.title), 1.0)
        found = self.look_up(titled, 20, Wanted(kinds=("knowledge",)))
        return [one for one in map(memory_in, found.rows) if is_update(one, memory)][:1]

    def _follow(self, memory: Memory) -> Memory:
        """Give the memory that has taken the place of this one."""
        seen = {memory.id}
        while memory.state is State.SUPERSEDED and memory.superseded_by and memory.superseded_by not in seen:
            seen.add(memory.superseded_by)
            next_one = self.find_one(memory.superseded_by)
            if next_one is None:
                break
            memory = next_one
        return memory

    def _is_refused(self, memory: Memory) -> bool:
        """Say whether a memory is out of use because a person said so; what left a file with a branch is not."""
        if memory.state in LIVE or memory.state is State.SUPERSEDED:
            return False
        events = [event for event in self.history(memory.id) if event.what not in ("learned again", "unlinked")]
        return bool(events) and events[-1].what in ("deleted", "rejected") and events[-1].who == "person"

    def insert(self, memory: Memory, change: Change) -> Memory:
        """Keep a memory as it is, whatever else is known; a taken id is replaced by a new one."""
        from ralph.memory.fingerprint import fingerprint

        with self.scope.transaction():
            return self._insert(memory, fingerprint(memory), change).memory

    def _insert(self, memory: Memory, mark: str, change: Change) -> Changed:
        while not memory.id or self.find_one(memory.id):
            memory = replace(memory, id=memory_id())
        columns = _columns(memory, mark)
        self.scope.insert("memory", **columns)
        self._index([columns], is_new=True)
        self._link(memory)
        return Changed(memory=memory, event=self._event(memory.id, "added", None, None, change))

    def insert_all(self, memories: Sequence[Memory], change: Change) -> None:
        """Keep memories as they are, under ids that are not taken."""
        from ralph.memory.fingerprint import fingerprint

        with self.scope.transaction():
            self._insert_all([(memory, fingerprint(memory), ()) for memory in memories], change)

    def _insert_all(self, fresh: Sequence[tuple[Memory, str, Sequence[MemoryEvent]]], change: Change) -> None:
        at = now()
        rows = [_columns(memory, mark) for memory, mark, _ in fresh]
        self.scope.insert_all("memory", rows)
        self._index(rows, is_new=True)
        for memory, _, events in fresh:
            self._link(memory)
            self._insert_history(memory.id, events)
        self.scope.insert_all(
            "memory_events",
            [
                _event_columns(memory.id, "imported" if events else "added", None, None, change, at)
                for memory, _, events in fresh
            ],
        )

    def _insert_history(self, id: str, events: Sequence[MemoryEvent]) -> None:
        """Keep what happened to a memory elsewhere; its events get numbers of ours."""
        numbers: dict[int | None, int] = {}
        for event in events:
            undoes = numbers.get(event.undoes)
            rows = self.scope.query(
                """
                INSERT INTO memory_events (project_id, memory_id, what, was, became, who, why, at, change_id, undoes)
                VALUES (:project_id, :id, :what, :was, :became, :who, :why, :at, :change_id, :undoes) RETURNING seq
                """,
                id=id,
                **{**fields_of(event), "undoes": undoes, "memory_id": None, "seq": None},
            )
            numbers[event.seq] = rows[0]["seq"]

    # --- changing --------------------------------------------------------------------

    def change(self, id: str, what: str, change: Change, **fields: object) -> Memory:
        """Change some fields of a memory and note what they were; give it as it is now."""
        return self.changed(id, what, change, **fields).memory

    def changed(self, id: str, what: str, change: Change, **fields: object) -> Changed:
        """Do what `change` does; give the number of that in its history too."""
        from ralph.memory.staleness import rewritten

        with self.scope.transaction():
            known = self.get(id)
            became = replace(known, **rewritten(known, fields))
            is_rewritten = "body" in fields or "title" in fields
            event = self._record(known, became, what, change, is_rewritten=is_rewritten) if became != known else None
            return Changed(memory=became, event=event)

    def replace_all(self, pairs: Iterable[tuple[Memory, Memory]], what: str, change: Change) -> list[Memory]:
        """Change several memories, each from what it was to what it is to become; give those that were changed.

        One that somebody else has changed meanwhile is left alone.
        """
        with self.scope.transaction():
            still = [(was, became) for was, became in pairs if self.find_one(was.id) == was]
            for was, became in still:
                self._record(was, became, what, change)
        return [became for _, became in still]

    def used(self, ids: Sequence[str], at: str, *, won: bool, usual: float = 0.5) -> None:
        """Give memories that were shown to an attempt their share in its outcome.

        `usual` is how often attempts succeed here.
        """
        from ralph.memory.lifecycle import after_use

        rows = list(self.among("id", ids))
        for row in rows:
            after = after_use(memory_in(row), at, won=won, usual=usual)
            was_right = is_right(row)
            row |= {name: getattr(after, name) for name in _SETTLED}
            if was_right:  # a damaged one is not made to look sound
                row["checksum"] = checksum(row)
        names = (*_SETTLED, "checksum")
        self.scope.database.execute_all(
            f"""
            UPDATE memory SET {", ".join(f"{name} = :{name}" for name in names)}
            WHERE project_id = :project_id AND id = :id
            """,
            [{name: row[name] for name in ("project_id", "id", *names)} for row in rows],
        )

    def note_files(self, changes: Sequence[tuple[Row, str, str]]) -> None:
        """Note marks of the files that memories name, and what became of the files; no event, for it is no decision.

        Each is a row of `naming_files` with its new marks and words. One that was changed meanwhile is left alone.
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
            self.scope.database.execute_all(
                """
                UPDATE memory SET seen = :seen, stale = :stale
                WHERE project_id = :project_id AND id = :id AND seen = :was_seen AND updated_at = :updated_at
                """,
                rows,
            )

    def supersede(self, kept: Memory, merged: Memory, others: Sequence[Memory], change: Change) -> bool:
        """Let one memory, put together from several, stand for the others; False when one was changed meanwhile."""
        with self.scope.transaction():
            if any(self.find_one(one.id) != one for one in (kept, *others)):
                return False
            self._record(kept, merged, "consolidated", change)
            for other in others:
                aside = replace(
                    other,
                    state=State.SUPERSEDED,
                    superseded_by=kept.id,
                    state_reason=f"says the same as {kept.id}",
                    updated_at=merged.updated_at,
                )
                self._record(other, aside, "superseded", change)
        return True

    def unlink(self, task_id: str) -> None:
        """Keep what a task taught when the task goes."""
        change = Change(who="ralph", why=f"{task_id} was deleted")
        with self.scope.transaction():
            for known in map(memory_in, self.rows("origin_task = :task_id", task_id=task_id)):
                self._record(known, replace(known, origin_task=None, origin_attempt=None), "unlinked", change)

    def _record(
        self,
        was: Memory,
        became: Memory,
        what: str,
        change: Change,
        undoes: int | None = None,
        *,
        is_rewritten: bool = False,
    ) -> int:
        """Write a memory as it is from now on, and what happened to it; give the number of that.

        `is_rewritten` says that somebody gives its text, though it may be the one that it has.
        """
        columns = _columns(became)
        noted = self._checksum_if_damaged(became.id)
        self.scope.update("memory", {"id": became.id}, columns)
        if noted and not is_rewritten and (was.title, was.body) == (became.title, became.body):
            # Nobody has written its text anew: that it was damaged stays known.
            self.scope.execute(
                "UPDATE memory SET checksum = :noted WHERE project_id = :project_id AND id = :id",
                noted=noted,
                id=became.id,
            )
        if any(getattr(was, name) != getattr(became, name) for name in _FOUND_BY):
            self._index([columns])
        if (was.title, was.body) != (became.title, became.body):
            seqs = self.seqs_of([became.id])
            self.scope.execute(
                "DELETE FROM memory_vectors WHERE project_id = :project_id AND seq = :seq", seq=seqs[became.id]
            )
        if was.body != became.body:
            self.scope.execute(
                "DELETE FROM memory_links WHERE project_id = :project_id AND memory_id = :id", id=became.id
            )
            self._link(became)
        return self._event(became.id, what, was, became, change, undoes)

    def _checksum_if_damaged(self, id: str) -> str:
        """Give the checksum of a memory that does not match it; nothing when it does."""
        return next((str(row["checksum"]) for row in self.among("id", [id]) if not is_right(row)), "")

    def _event(
        self,
        id: str,
        what: str,
        was: Memory | None,
        became: Memory | None,
        change: Change,
        undoes: int | None = None,
    ) -> int:
        return self.scope.insert_numbered(
            "memory_events", **_event_columns(id, what, was, became, change, now(), undoes)
        )

    def _index(self, rows: Sequence[Row], *, is_new: bool = False) -> None:
        """Keep what memories are found by in step with their texts."""
        from ralph.store.index import write

        if len(rows) == 1:
            found = self.scope.query(
                "SELECT id, seq FROM memory WHERE project_id = :project_id AND id = :id", id=rows[0]["id"]
            )
            seqs = {row["id"]: row["seq"] for row in found}
        else:
            seqs = self.seqs_of([row["id"] for row in rows])
        for row in rows:
            row["seq"] = seqs[row["id"]]
            row["project_id"] = self.scope.project_id
        write(self.scope.database, "memory", rows, is_new=is_new)

    def _link(self, memory: Memory) -> None:
        """Note which titles a memory links to."""
        if "[[" not in memory.body:
            return
        keys = dict.fromkeys(title_key(title) for title in links_in(memory.body))
        self.scope.insert_all("memory_links", [{"memory_id": memory.id, "title_key": key} for key in keys])

    # --- history ---------------------------------------------------------------------

    def undo(self, id: str, change: Change, *, only: int | None = None) -> tuple[Memory, MemoryEvent]:
        """Take back the latest change of a memory that was not taken back yet; give it and that change.

        With the number of a change, `only` that one: refused when it is not the latest.
        """
        with self.scope.transaction():
            memory = self.get(id)
            events = self.history(id)
            undone = {event.undoes for event in events}
            left = [event for event in events if event.what not in _NOT_UNDONE and event.seq not in undone]
            if only is not None:
                _refuse_unless_latest(id, only, events, left)
            if not left:
                raise ConflictError(f"There is nothing to undo: {id} is as it was first learned.")
            return self._take_back(memory, left[-1], change), left[-1]

    def undo_change(self, id: str, change: Change) -> list[Memory]:
        """Take back all that was changed together, newest first."""
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
            return [self._take_back(self.get(row["memory_id"]), event_in(row), change) for row in rows]

    def _take_back(self, memory: Memory, event: MemoryEvent, change: Change) -> Memory:
        if event.what in ("added", "imported"):
            before = replace(memory, state=State.PRUNED, state_reason="its addition was undone")
        else:
            before = with_fields(memory, event.was)
        before = replace(before, updated_at=now())
        self._record(memory, before, "undone", change, undoes=event.seq)
        return before


def _refuse_unless_latest(id: str, only: int, events: Sequence[MemoryEvent], left: Sequence[MemoryEvent]) -> None:
    """Say why a change cannot be taken back alone, if it cannot; `left` are those that were not taken back yet."""
    if all(event.seq != only for event in events):
        raise NotFoundError("Event", f"{only} of {id}")
    if all(event.seq != only for event in left):
        raise ConflictError(
            f"Event {only} of {id} was taken back already, or is none that can be: nothing was changed."
        )
    if left[-1].seq != only:
        later = left[-1]
        raise ConflictError(
            f"{id} was changed again after event {only} ({later.what} by {later.who}, event {later.seq}):"
            " nothing was taken back; look at its history first."
        )


def _live(known: Memory, new: Memory, by_person: bool) -> Memory:
    """Give a known memory in use again: active, or staged when that is all the new one asks for."""
    if known.state is State.ACTIVE or (known.state is State.STAGED and not by_person):
        return known
    wanted = State.STAGED if new.state is State.STAGED else State.ACTIVE
    if known.state is wanted:
        return known
    return replace(known, state=wanted, state_reason="", superseded_by=None)


def _is_news(known: Memory, new: Memory) -> bool:
    """Say whether a memory comes from another attempt or loop than the known one; a person's word always does."""
    if new.origin_loops:
        return not set(new.origin_loops) <= set(known.origin_loops)
    ours = (known.origin_run, known.origin_task, known.origin_attempt)
    theirs = (new.origin_run, new.origin_task, new.origin_attempt)
    return new.origin_run is None or ours != theirs


def _columns(memory: Memory, mark: str = "") -> dict[str, object]:
    from ralph.memory.fingerprint import fingerprint

    return to_columns(memory) | {
        "title_key": title_key(memory.title),
        "fingerprint": mark or fingerprint(memory),
    }


def fingerprint_of(row: Row) -> str:
    """Give what the memory in a row is known again by."""
    from ralph.memory.fingerprint import fingerprint

    return fingerprint(memory_in(row))


def _event_columns(
    id: str,
    what: str,
    was: Memory | None,
    became: Memory | None,
    change: Change,
    at: str,
    undoes: int | None = None,
) -> dict[str, object]:
    """Give an event with the fields that changed, as they were and as they are."""
    before = to_columns(was) if was else {}
    after = to_columns(became) if became else {}
    changed = [name for name in after if after[name] != before.get(name)]
    return {
        "memory_id": id,
        "what": what,
        "was": _json({name: before[name] for name in changed}) if was else None,
        "became": _json({name: after[name] for name in changed}) if was else None,
        "who": change.who,
        "why": change.why,
        "at": at,
        "change_id": change.id,
        "undoes": undoes,
    }


def _json(fields: dict[str, object]) -> str:
    return json.dumps(fields, ensure_ascii=False)
