"""Memories in the store, and the history of each.

Nothing is changed or removed without an event that says who, when and why, and
what it was before: an event keeps the old and the new value of every field it
changed, so that any version can be brought back.
"""

from __future__ import annotations

import json
import os

from ralph.errors import NotFound, RalphError, StoreError
from ralph.memory.knowledge import is_update, links_in, title_key
from ralph.records import Memory, MemoryEvent, Source, State, fields_of, memory_id, now, record, replace
from ralph.store.database import checksum
from ralph.store.rows import from_json, to_columns, to_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ralph.store.database import Row, Scope
    from ralph.store.rows import Convert

PAGE = 500
FEW = 12
BATCH = 5_000
LONGEST_SOUGHT = 200
"""Databases refuse to compare with patterns of any length."""
LIVE = (State.ACTIVE, State.STAGED)
_ORDERS = {
    "seq": "seq DESC",
    "created_at": "created_at DESC, id DESC, seq DESC",
    "confidence": "confidence DESC, created_at DESC, seq DESC",
}
_NOT_UNDONE = ("undone", "unlinked")
"""Events that undo passes over: it takes back what somebody decided."""


@record
class Change:
    """Who changes memories and why; changes with one id are undone together."""

    who: str
    why: str
    id: str = ""


def change_id() -> str:
    """Give a new id for changes made together, `chg-{8 hex}`."""
    return "chg-" + os.urandom(4).hex()


@record
class Kept:
    """What became of a memory that was to be kept."""

    memory: Memory
    what: str
    """`added`, `learned again`, `revived`, `merged`, `known`, `again` (said before in the same file) or
    `refused`: a person has deleted it."""


@record
class Wanted:
    """Which memories to list; empty and None mean all."""

    kinds: tuple[str, ...] = ()
    states: tuple[State, ...] = (State.ACTIVE,)
    tags: tuple[str, ...] = ()
    """Any of them."""
    task_type: str | None = None
    feature: str | None = None
    min_confidence: float = 0.0
    min_success_rate: float = 0.0
    after: str = ""
    before: str = ""

    def holds(self, memory: Memory) -> bool:
        """Say whether a memory is one of these."""
        return (
            (not self.kinds or memory.kind in self.kinds)
            and memory.state in self.states
            and (not self.tags or not set(self.tags).isdisjoint(memory.tags))
            and self.task_type in (None, memory.task_type)
            and self.feature in (None, memory.feature)
            and memory.confidence >= self.min_confidence
            and (memory.success_rate or 0.0) >= self.min_success_rate
            and memory.created_at >= self.after
            and (not self.before or memory.created_at <= self.before)
        )


class Memories:
    """What this project knows."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    # --- keeping ---------------------------------------------------------------------

    def add(self, memory: Memory, change: Change, *, by_person: bool = False) -> Kept:
        """Keep a memory. What is known already is not kept twice: the old one gains support instead.

        What a person has deleted is not learned again, unless a person says it.
        """
        from ralph.memory.lifecycle import learned_again

        with self._scope.transaction():
            known = self._same(memory)
            if known is None:
                return Kept(memory=self.insert(memory, change), what="added")
            known = self._follow(known)
            if not by_person and self._is_refused(known):
                return Kept(memory=known, what="refused")
            live = _live(known, memory, by_person)
            again = learned_again(live, memory, memory.updated_at)
            if live.state is not known.state:
                self._record(known, again, "revived", change)
                return Kept(memory=again, what="revived")
            if not _is_news(known, memory):
                again = replace(again, support=known.support, confidence=known.confidence)
                if known.content or (again.body, again.tags, again.files) == (known.body, known.tags, known.files):
                    return Kept(memory=known, what="known")
            self._record(known, again, "learned again", change)
            return Kept(memory=again, what="learned again")

    def bring(self, arriving: Sequence[tuple[Memory, Sequence[MemoryEvent]]], change: Change) -> list[Kept]:
        """Keep memories from elsewhere with their history, in one go; bringing them once more changes nothing."""
        from ralph.memory.bring import brought
        from ralph.memory.fingerprint import fingerprint

        kept: list[Kept] = []
        fresh: dict[str, tuple[Memory, str, Sequence[MemoryEvent]]] = {}
        with self._scope.transaction():
            marks = [fingerprint(memory) for memory, _ in arriving]
            by_mark, by_id = self._known(marks, [memory.id for memory, _ in arriving if memory.id])
            for (memory, events), mark in zip(arriving, marks, strict=True):
                same_id, same_mark = by_id.get(memory.id), by_mark.get(mark)
                known = same_id[0] if same_id and (same_id[1] == mark or not same_mark) else same_mark
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
                    what = "known" if after == known else "merged" if after.state is known.state else "revived"
                    kept.append(Kept(memory=after, what=what))
                    if after != known:
                        self._record(known, after, what, change)
                by_id[after.id] = after, mark
                by_mark[mark] = after
            is_bulk = len(fresh) > PAGE
            if is_bulk:
                self._scope.database.put_off_upkeep(True)
            self._insert_all(list(fresh.values()), change)
            if is_bulk:
                self._scope.database.put_off_upkeep(False)
        return kept

    def _new_id(self, fresh: Mapping[str, object]) -> str:
        id = memory_id()
        while id in fresh or self.find_one(id):
            id = f"{memory_id()}{os.urandom(2).hex()}"  # so many in one second that they need longer names
        return id

    def _known(
        self, marks: Sequence[str], ids: Sequence[str]
    ) -> tuple[dict[str, Memory], dict[str, tuple[Memory, str]]]:
        """Give the memories with one of these fingerprints, the live ones first, and those with one of these ids."""
        by_mark: dict[str, Memory] = {}
        for row in self._among("fingerprint", marks):
            memory = _memory(row)
            if row["fingerprint"] not in by_mark or _rank(memory) < _rank(by_mark[row["fingerprint"]]):
                by_mark[row["fingerprint"]] = memory
        by_id = {row["id"]: (_memory(row), row["fingerprint"]) for row in self._among("id", ids)}
        return by_mark, by_id

    def _among(self, column: str, values: Sequence[str] | Sequence[int]) -> Iterator[Row]:
        """Give the rows that have one of these values in a column."""
        wanted = [value for value in dict.fromkeys(values) if value != ""]
        for start in range(0, len(wanted), PAGE):
            part = wanted[start : start + PAGE]
            most = FEW if len(part) <= FEW else PAGE  # one of two numbers, so that both are prepared once
            names = {f"v{n}": part[n] if n < len(part) else None for n in range(most)}
            marks = ", ".join(f":{name}" for name in names)
            yield from self._scope.query(
                f"SELECT * FROM memory WHERE project_id = :project_id AND {column} IN ({marks})", **names
            )

    def count_news(self, memories: Sequence[Memory]) -> int:
        """Give how many of these memories say something that is not known here."""
        from ralph.memory.fingerprint import fingerprint

        marks = [fingerprint(memory) for memory in memories]
        known, _ = self._known(marks, [])
        return sum(mark not in known for mark in marks)

    def _same(self, memory: Memory) -> Memory | None:
        """Give the memory that says the same, a live one if there is one."""
        from ralph.memory.fingerprint import fingerprint

        rows = self._scope.query(
            "SELECT * FROM memory WHERE project_id = :project_id AND fingerprint = :mark ORDER BY seq",
            mark=fingerprint(memory),
        )
        found = sorted(map(_memory, rows), key=_rank)
        if memory.kind == "knowledge" and memory.tags and not any(one.state in LIVE for one in found):
            found = self._akin(memory) + found
        return found[0] if found else None

    def _akin(self, memory: Memory) -> list[Memory]:
        """Give knowledge entries of which one title holds the other and the tags agree."""
        from ralph.memory.words import query_words

        candidates = self.search(query_words(memory.title, 12), 20, kinds=("knowledge",))
        return [one for one, _ in candidates if is_update(one, memory)][:1]

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
        with self._scope.transaction():
            while not memory.id or self.find_one(memory.id):
                memory = replace(memory, id=memory_id())
            self._scope.insert("memory", **_columns(memory))
            self._link(memory)
            self._event(memory.id, "added", None, None, change)
        return memory

    def insert_all(self, memories: Sequence[Memory], change: Change) -> None:
        """Keep memories as they are, under ids that are not taken."""
        from ralph.memory.fingerprint import fingerprint

        with self._scope.transaction():
            self._insert_all([(memory, fingerprint(memory), ()) for memory in memories], change)

    def _insert_all(self, fresh: Sequence[tuple[Memory, str, Sequence[MemoryEvent]]], change: Change) -> None:
        at = now()
        self._scope.insert_all("memory", [_columns(memory, mark) for memory, mark, _ in fresh])
        for memory, _, events in fresh:
            self._link(memory)
            self._insert_history(memory.id, events)
        self._scope.insert_all(
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
            rows = self._scope.query(
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
        with self._scope.transaction():
            known = self.get(id)
            became = replace(known, **fields)
            if became != known:
                self._record(known, became, what, change)
            return became

    def replace_all(self, pairs: Iterable[tuple[Memory, Memory]], what: str, change: Change) -> list[Memory]:
        """Change several memories, each from what it was to what it is to become; give those that were changed.

        One that somebody else has changed meanwhile is left alone.
        """
        with self._scope.transaction():
            still = [(was, became) for was, became in pairs if self.find_one(was.id) == was]
            for was, became in still:
                self._record(was, became, what, change)
        return [became for _, became in still]

    def used(self, ids: Sequence[str], at: str, *, helped: bool) -> None:
        """Count a use of memories that were shown to an attempt; if it got its task done, trust them a little more."""
        from ralph.memory.lifecycle import after_use

        rows = list(self._among("id", ids))
        for row in rows:
            after = after_use(_memory(row), at, helped=helped)
            row |= {"uses": after.uses, "used_at": at, "confidence": after.confidence}
            row["checksum"] = checksum(row)
        names = ("project_id", "id", "uses", "used_at", "confidence", "checksum")
        self._scope.database.execute_all(
            """
            UPDATE memory SET uses = :uses, used_at = :used_at, confidence = :confidence, checksum = :checksum
            WHERE project_id = :project_id AND id = :id
            """,
            [{name: row[name] for name in names} for row in rows],
        )

    def supersede(self, kept: Memory, merged: Memory, others: Sequence[Memory], change: Change) -> None:
        """Let one memory, put together from several, stand for the others."""
        with self._scope.transaction():
            if any(self.find_one(one.id) != one for one in (kept, *others)):
                return  # somebody has changed one of them meanwhile
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

    def unlink(self, task_id: str) -> None:
        """Keep what a task taught when the task goes."""
        change = Change(who="ralph", why=f"{task_id} was deleted")
        with self._scope.transaction():
            for known in map(_memory, self._rows("origin_task = :task_id", task_id=task_id)):
                self._record(known, replace(known, origin_task=None, origin_attempt=None), "unlinked", change)

    def _record(self, was: Memory, became: Memory, what: str, change: Change, undoes: int | None = None) -> None:
        self._scope.update("memory", {"id": became.id}, _columns(became))
        if was.body != became.body:
            self._scope.execute(
                "DELETE FROM memory_links WHERE project_id = :project_id AND memory_id = :id", id=became.id
            )
            self._link(became)
        self._event(became.id, what, was, became, change, undoes)

    def _event(
        self,
        id: str,
        what: str,
        was: Memory | None,
        became: Memory | None,
        change: Change,
        undoes: int | None = None,
    ) -> None:
        self._scope.insert("memory_events", **_event_columns(id, what, was, became, change, now(), undoes))

    def _link(self, memory: Memory) -> None:
        """Note which titles a memory links to."""
        if "[[" not in memory.body:
            return
        keys = dict.fromkeys(title_key(title) for title in links_in(memory.body))
        self._scope.insert_all("memory_links", [{"memory_id": memory.id, "title_key": key} for key in keys])

    # --- history ---------------------------------------------------------------------

    def history(self, id: str) -> list[MemoryEvent]:
        """Give all that happened to a memory, oldest first."""
        rows = self._scope.query(
            "SELECT * FROM memory_events WHERE project_id = :project_id AND memory_id = :id ORDER BY seq", id=id
        )
        return [_memory_event(row) for row in rows]

    def events(self, since: int, limit: int) -> list[MemoryEvent]:
        """Give what happened to any memory after an event, oldest first."""
        rows = self._scope.query(
            "SELECT * FROM memory_events WHERE project_id = :project_id AND seq > :since ORDER BY seq LIMIT :limit",
            since=since,
            limit=limit,
        )
        return [_memory_event(row) for row in rows]

    def last(self, what: str) -> str:
        """Give when something last happened to any memory; empty when it never did."""
        rows = self._scope.query(
            "SELECT MAX(at) AS at FROM memory_events WHERE project_id = :project_id AND what = :what", what=what
        )
        return rows[0]["at"] or ""

    def last_event(self) -> int:
        """Give the number of the newest event, or 0."""
        rows = self._scope.query(
            "SELECT seq FROM memory_events WHERE project_id = :project_id ORDER BY seq DESC LIMIT 1"
        )
        return int(rows[0]["seq"]) if rows else 0

    def undo(self, id: str, change: Change) -> tuple[Memory, MemoryEvent]:
        """Take back the latest change of a memory that was not taken back yet; give it and that change."""
        with self._scope.transaction():
            memory = self.get(id)
            events = self.history(id)
            undone = {event.undoes for event in events}
            left = [event for event in events if event.what not in _NOT_UNDONE and event.seq not in undone]
            if not left:
                raise RalphError(f"There is nothing to undo: {id} is as it was first learned.")
            return self._take_back(memory, left[-1], change), left[-1]

    def undo_change(self, id: str, change: Change) -> list[Memory]:
        """Take back all that was changed together, newest first."""
        with self._scope.transaction():
            rows = self._scope.query(
                """
                SELECT * FROM memory_events WHERE project_id = :project_id AND change_id = :id
                    AND seq NOT IN (SELECT undoes FROM memory_events
                        WHERE project_id = :project_id AND undoes IS NOT NULL)
                ORDER BY seq DESC
                """,
                id=id,
            )
            if not rows:
                raise NotFound("Change", id)
            return [self._take_back(self.get(row["memory_id"]), _memory_event(row), change) for row in rows]

    def _take_back(self, memory: Memory, event: MemoryEvent, change: Change) -> Memory:
        if event.what in ("added", "imported"):
            before = replace(memory, state=State.PRUNED, state_reason="its addition was undone")
        else:
            before = _with(memory, event.was)
        before = replace(before, updated_at=now())
        self._record(memory, before, "undone", change, undoes=event.seq)
        return before

    def version(self, id: str, seq: int) -> Memory:
        """Give a memory as it was right after an event of its history."""
        memory = self.get(id)
        events = self.history(id)
        if seq not in {event.seq for event in events}:
            raise NotFound("Event", f"{seq} of {id}")
        for event in reversed(events):
            if event.seq > seq:
                memory = _with(memory, event.was)
        return memory

    # --- finding ---------------------------------------------------------------------

    def get(self, id: str) -> Memory:
        """Give one memory, whatever its state, or say that there is none."""
        memory = self.find_one(id)
        if memory is None:
            raise NotFound("Memory", id)
        return memory

    def find_one(self, id: str) -> Memory | None:
        """Give one memory, whatever its state, if there is one."""
        rows = self._rows("id = :id", id=id)
        return _memory(rows[0]) if rows else None

    def search(
        self, words: Sequence[str], limit: int, *, kinds: Sequence[str] = (), since: str = ""
    ) -> list[tuple[Memory, float]]:
        """Give active memories that hold any of the words, best first, each with the share of the words it holds.

        With `kinds` or `since`, only those of these kinds or made from then on.
        """
        condition, marks = _one_of("r.kind", kinds)
        rows = self._scope.database.search(
            "memory",
            words,
            limit,
            f"r.project_id = :project_id AND r.state = 'active' AND r.created_at >= :since AND {condition}",
            project_id=self._scope.project_id,
            since=since,
            **marks,
        )
        return [(_memory(row), row["score"]) for row in rows]

    def find(self, wanted: Wanted, *, text: str = "", order: str = "seq") -> Iterator[Memory]:
        """Give the wanted memories; with a text, those that hold it, in any case.

        What came in last goes first, or with `created_at` the newest, or with `confidence` the surest.
        """
        kinds, marks = _one_of("kind", wanted.kinds)
        states, more = _one_of("state", [state.value for state in wanted.states])
        condition = f"{kinds} AND {states} AND confidence >= :least AND created_at >= :after"
        if text:
            holds = f"{self._scope.database.like_any_case} :held ESCAPE '\\'"
            condition += f" AND (title {holds} OR body {holds} OR tags {holds})"
            more["held"] = _holding(text[:LONGEST_SOUGHT])
        rows = self._scope.query(
            f"""
            SELECT seq FROM memory WHERE project_id = :project_id AND {condition}
            ORDER BY {_ORDERS[order]}
            """,
            least=wanted.min_confidence,
            after=wanted.after,
            **marks,
            **more,
        )
        for start in range(0, len(rows), PAGE):
            page = [row["seq"] for row in rows[start : start + PAGE]]
            found = {row["seq"]: row for row in self._among("seq", page)}
            memories = (_memory(found[seq]) for seq in page if seq in found)
            yield from (memory for memory in memories if wanted.holds(memory))

    def all(self) -> list[Memory]:
        """Give all active memories, oldest first."""
        return [_memory(row) for row in self._rows("state = 'active'")]

    def learned_in(self, run_id: str, task_id: str, attempt: int) -> list[Memory]:
        """Give what an attempt taught, as far as it was new."""
        rows = self._rows(
            "origin_task = :task_id AND origin_run = :run_id AND origin_attempt = :attempt",
            run_id=run_id,
            task_id=task_id,
            attempt=attempt,
        )
        return [_memory(row) for row in rows]

    def everything(self) -> Iterator[Memory | MemoryEvent]:
        """Give every memory in any state, oldest first, each followed by its history."""
        last = 0
        while rows := self._scope.query(
            "SELECT * FROM memory WHERE project_id = :project_id AND seq > :last ORDER BY seq LIMIT :page",
            last=last,
            page=PAGE,
        ):
            for row in rows:
                yield _memory(row)
                yield from self.history(row["id"])
            last = rows[-1]["seq"]

    def texts(self, kinds: Sequence[str]) -> list[Row]:
        """Give id, kind, body, tags and date of the active memories of some kinds, newest first."""
        condition, marks = _one_of("kind", kinds)
        return self._scope.query(
            f"""
            SELECT id, kind, body, tags, created_at FROM memory
            WHERE project_id = :project_id AND state = 'active' AND {condition} ORDER BY seq DESC
            """,
            **marks,
        )

    def by_title(self, title: str, state: State = State.ACTIVE) -> Memory | None:
        """Give the knowledge entry with a title, in any case; the newest one in a state."""
        rows = self._rows(
            "kind = 'knowledge' AND title_key = :key AND state = :state", key=title_key(title), state=state.value
        )
        return _memory(rows[-1]) if rows else None

    def links(self, id: str) -> tuple[list[tuple[str, Memory | None]], list[Memory]]:
        """Give the titles a memory links to, each with the memory that has it, and the active ones that link here."""
        memory = self.get(id)
        out = [(title, self.by_title(title)) for title in links_in(memory.body)]
        rows = self._scope.query(
            """
            SELECT m.* FROM memory_links AS l JOIN memory AS m ON m.project_id = l.project_id AND m.id = l.memory_id
            WHERE l.project_id = :project_id AND l.title_key = :key AND m.state = 'active' AND m.id <> :id
            ORDER BY m.seq
            """,
            key=title_key(memory.title),
            id=id,
        )
        return out, [_memory(row) for row in rows]

    def shown_to(self, id: str, limit: int) -> list[Row]:
        """Give the latest attempts a memory was shown to: run, iteration, task and outcome, newest first."""
        return self._scope.query(
            f"""
            SELECT run_id, iteration, task_id, outcome, started_at FROM attempts
            WHERE project_id = :project_id AND shown {self._scope.database.like_any_case} :held ESCAPE '\\'
            ORDER BY seq DESC LIMIT :limit
            """,
            held=_holding(f'"{id}"'),
            limit=limit,
        )

    def count(self, state: State = State.ACTIVE) -> int:
        """Give the number of memories in a state."""
        rows = self._scope.query(
            "SELECT COUNT(*) AS n FROM memory WHERE project_id = :project_id AND state = :state", state=state.value
        )
        return int(rows[0]["n"])

    def counts(self, column: str) -> dict[str, int]:
        """Give how many there are: by `state`, or the active ones by `kind`, `task_type` or `source`."""
        condition = "state = 'active'" if column != "state" else "1 = 1"
        rows = self._scope.query(
            f"""
            SELECT COALESCE({column}, '') AS name, COUNT(*) AS n FROM memory
            WHERE project_id = :project_id AND {condition} GROUP BY {column} ORDER BY COUNT(*) DESC, {column}
            """
        )
        return {row["name"]: row["n"] for row in rows}

    def averages(self) -> Row:
        """Give size, averages and the newest change over the active memories."""
        return self._scope.query(
            """
            SELECT COUNT(*) AS total, AVG(confidence) AS confidence, AVG(success_rate) AS success_rate,
                COALESCE(SUM(uses), 0) AS uses, MAX(updated_at) AS last_updated
            FROM memory WHERE project_id = :project_id AND state = 'active'
            """
        )[0]

    def most_used(self) -> Memory | None:
        """Give the active memory with the most uses, if any was used."""
        rows = self._scope.query(
            """
            SELECT * FROM memory WHERE project_id = :project_id AND state = 'active' AND uses > 0
            ORDER BY uses DESC, seq LIMIT 1
            """
        )
        return _memory(rows[0]) if rows else None

    def _rows(self, condition: str, **values: object) -> list[Row]:
        return self._scope.query(
            f"SELECT * FROM memory WHERE project_id = :project_id AND {condition} ORDER BY seq", **values
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


def _rank(memory: Memory) -> int:
    """Give the place of a memory's state among those that say the same: the live ones come first."""
    order = (State.ACTIVE, State.STAGED, State.SUPERSEDED, State.PRUNED, State.QUARANTINED, State.REJECTED)
    return order.index(memory.state)


def _holding(text: str) -> str:
    """Give the LIKE pattern of what holds a text."""
    return "%" + text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"


def _one_of(column: str, values: Sequence[str]) -> tuple[str, dict[str, object]]:
    if not values:
        return "1 = 1", {}
    name = column.rsplit(".", 1)[-1]
    marks: dict[str, object] = {f"{name}_{n}": value for n, value in enumerate(values)}
    return f"{column} IN ({', '.join(f':{mark}' for mark in marks)})", marks


def _columns(memory: Memory, mark: str = "") -> dict[str, object]:
    from ralph.memory.fingerprint import fingerprint

    return to_columns(memory) | {
        "title_key": title_key(memory.title),
        "fingerprint": mark or fingerprint(memory),
    }


def fingerprint_of(row: Row) -> str:
    """Give what the memory in a row is known again by."""
    from ralph.memory.fingerprint import fingerprint

    return fingerprint(_memory(row))


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


def _with(memory: Memory, was: str | None) -> Memory:
    """Give a memory with the fields of a version before."""
    try:
        before = json.loads(was or "{}")
    except ValueError:
        raise StoreError(f"An event in the history of {memory.id} is damaged.") from None
    names = set(Memory.__slots__) - {"id"}  # type: ignore[attr-defined]
    return to_record(Memory, to_columns(memory) | {name: before[name] for name in names & before.keys()}, _MEMORY)


_MEMORY: Convert = {
    "source": Source,
    "state": State,
    "tags": from_json,
    "files": from_json,
    "origin_loops": from_json,
}


def _memory(row: Row) -> Memory:
    return to_record(Memory, row, _MEMORY)


def _memory_event(row: Row) -> MemoryEvent:
    return to_record(MemoryEvent, row, {})
