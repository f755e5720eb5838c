"""Memories as they are read: one, many, by words, by what links them, and what happened to each.

Reading changes nothing. Writing, and the history that goes with it, is in `memories`.
"""

from __future__ import annotations

import json

from ralph.errors import NotFoundError, StoreError
from ralph.memory.knowledge import links_in, title_key
from ralph.records import Memory, MemoryEvent, Source, State, record, replace
from ralph.store.rows import from_json, to_columns, to_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from ralph.store.database import Found, Row, Scope
    from ralph.store.rows import Convert

PAGE = 500
FIRST_PAGE = 64
HIGHEST = 2**62
GROWTH = 8
"""Who lists memories mostly wants a few; who goes on wants many."""
FEW = 12
MOST_LINKS = 1_000
SPARE = 3
"""So many more of each kind, because other kinds may have few."""
LONGEST_SOUGHT = 200
"""Databases refuse to compare with patterns of any length."""
_ORDERS = {
    "seq": "seq DESC",
    "created_at": "created_at DESC, id DESC, seq DESC",
}


@record
class Wanted:
    """Which memories to list; empty and None mean all."""

    kinds: tuple[str, ...] = ()
    states: tuple[State, ...] = (State.ACTIVE,)
    tags: tuple[str, ...] = ()
    """Any of them."""
    sources: tuple[Source, ...] = ()
    task_type: str | None = None
    feature: str | None = None
    min_confidence: float = 0.0
    min_success_rate: float = 0.0
    after: str = ""
    before: str = ""
    is_stale: bool = False
    """Only those whose files are no longer as they were."""
    is_validated: bool | None = None
    """Only those that passed the rules, or only those that did not yet."""

    def holds(self, memory: Memory) -> bool:
        """Say whether a memory is one of these."""
        return (
            (not self.kinds or memory.kind in self.kinds)
            and memory.state in self.states
            and (not self.tags or not set(self.tags).isdisjoint(memory.tags))
            and (not self.sources or memory.source in self.sources)
            and self.task_type in (None, memory.task_type)
            and self.feature in (None, memory.feature)
            and memory.confidence >= self.min_confidence
            and (memory.success_rate or 0.0) >= self.min_success_rate
            and memory.created_at >= self.after
            and (not self.before or memory.created_at <= self.before)
            and (not self.is_stale or bool(memory.stale))
            and self.is_validated in (None, bool(memory.validated_at))
        )


class KnownMemories:
    """What this project knows, to be read."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def get(self, id: str) -> Memory:
        """Give one memory, whatever its state, or say that there is none."""
        memory = self.find_one(id)
        if memory is None:
            raise NotFoundError("Memory", id)
        return memory

    def find_one(self, id: str) -> Memory | None:
        """Give one memory, whatever its state, if there is one."""
        rows = self.rows("id = :id", id=id) if "\0" not in id else []
        return memory_in(rows[0]) if rows else None

    def find_each(self, ids: Iterable[str]) -> list[Memory]:
        """Give the memories that have one of these ids, whatever their state, in that order."""
        wanted = list(dict.fromkeys(ids))
        found = {row["id"]: memory_in(row) for row in self.among("id", wanted)}
        return [found[id] for id in wanted if id in found]

    def look_up(self, words: Mapping[str, float], limit: int, wanted: Wanted | None = None) -> Found:
        """Give rows of memories that hold the words, those with the most of their weight first."""
        condition, values = _conditions(wanted or Wanted())
        return self.scope.database.look_up(
            "memory",
            words,
            limit,
            f"r.project_id = :project_id AND {condition}",
            project_id=self.scope.project_id,
            **values,
        )

    def indexed(self, seqs: Sequence[int], wanted: Wanted | None = None) -> list[Row]:
        """Give rows by their numbers, with the words they are found by, in that order."""
        condition, values = _conditions(wanted or Wanted())
        where = f"r.project_id = :project_id AND {condition}"
        return self.scope.database.rows("memory", seqs, where, project_id=self.scope.project_id, **values)

    def touching(self, paths: Sequence[str], most: int) -> list[int]:
        """Give the numbers of memories that name one of these files, the newest of each file."""
        parts = [
            f"""
            SELECT * FROM (SELECT seq, {n} AS place FROM memory_files WHERE project_id = :project_id AND path = :p{n}
            ORDER BY seq DESC LIMIT :most) AS f{n}
            """
            for n in range(len(paths))
        ]
        if not parts:
            return []
        rows = self.scope.query(
            f"{' UNION ALL '.join(parts)} ORDER BY place, seq DESC",
            most=most,
            **{f"p{n}": path for n, path in enumerate(paths)},
        )
        return [row["seq"] for row in rows]

    def naming_files(self, paths: Collection[str] | None = None) -> list[Row]:
        """Give the files, marks and dates of the active memories that name files, or one of these files."""
        columns = "id, files, seen, stale, created_at, updated_at, verified_at"
        if paths is None:
            return self.scope.query(
                f"""
                SELECT {columns} FROM memory
                WHERE project_id = :project_id AND state = 'active' AND files <> '[]' ORDER BY seq
                """
            )
        asked, seqs = list(dict.fromkeys(paths)), dict[int, None]()
        for start in range(0, len(asked), PAGE):
            condition, marks = _one_of("path", asked[start : start + PAGE])
            rows = self.scope.query(
                f"SELECT seq FROM memory_files WHERE project_id = :project_id AND {condition} ORDER BY seq", **marks
            )
            seqs |= {row["seq"]: None for row in rows}
        return list(self.among("seq", list(seqs), columns, " AND state = 'active'"))

    def next_to(self, seqs: Sequence[int]) -> list[tuple[int, int]]:
        """Give pairs of memories learned one right after the other, of which one is among these."""
        pairs: dict[tuple[int, int], None] = {}
        if not seqs:
            return []
        marks = {f"s{n}": seq for n, seq in enumerate(seqs)}
        asked = ", ".join(f"({n}, CAST(:s{n} AS BIGINT))" for n in range(len(seqs)))
        rows = self.scope.query(
            f"""
            WITH asked (place, seq) AS (VALUES {asked})
            SELECT seq, (SELECT MAX(m.seq) FROM memory AS m
                    WHERE m.project_id = :project_id AND m.state = 'active' AND m.seq < asked.seq) AS before,
                (SELECT MIN(m.seq) FROM memory AS m
                    WHERE m.project_id = :project_id AND m.state = 'active' AND m.seq > asked.seq) AS after
            FROM asked ORDER BY place
            """,
            **marks,
        )
        for row in rows:
            seq = row["seq"]
            if row["before"] is not None:
                pairs[row["before"], seq] = None
            if row["after"] is not None:
                pairs[seq, row["after"]] = None
        return list(pairs)

    def linked(self, ids: Sequence[str]) -> list[tuple[int, int]]:
        """Give pairs of active memories of which one links to the other, and one is among these."""
        columns = "id, seq, kind, title_key, state"
        titles = [row["title_key"] for row in self.among("id", ids, columns) if _is_linkable(row)]
        found = {(row["memory_id"], row["title_key"]) for row in self._links("memory_id", ids)}
        found |= {(row["memory_id"], row["title_key"]) for row in self._links("title_key", titles)}
        froms = {row["id"]: row["seq"] for row in self.among("id", [id for id, _ in found], columns)}
        targets: dict[str, list[int]] = {}
        for row in self.among("title_key", [key for _, key in found], columns, " AND kind = 'knowledge'"):
            if _is_linkable(row):
                targets.setdefault(row["title_key"], []).append(row["seq"])
        return [(froms[id], seq) for id, key in sorted(found) if id in froms for seq in targets.get(key, ())]

    def _links(self, column: str, values: Sequence[str]) -> list[Row]:
        marks = {f"v{n}": value for n, value in enumerate(values)}
        if not marks:
            return []
        among = ", ".join(f":{name}" for name in marks)
        return self.scope.query(
            f"""
            SELECT memory_id, title_key FROM memory_links
            WHERE project_id = :project_id AND {column} IN ({among}) LIMIT {MOST_LINKS}
            """,
            **marks,
        )

    def find(self, wanted: Wanted, *, order: str = "seq") -> Iterator[Memory]:
        """Give the wanted memories; what came in last goes first, or with `created_at` the newest."""
        condition, values = _conditions(wanted)
        rows = self.scope.query(
            f"""
            SELECT r.seq FROM memory AS r WHERE r.project_id = :project_id AND {condition}
            ORDER BY {_ORDERS[order]}
            """,
            **values,
        )
        yield from self._in_order([row["seq"] for row in rows], wanted)

    def holding(self, wanted: Wanted, text: str) -> Iterator[Memory]:
        """Give the wanted memories that hold a text, in any case; what came in last goes first.

        Who wants a few of them waits for no more than these.
        """
        condition, values = _conditions(wanted)
        holds = f"{self.scope.database.like_any_case} :held ESCAPE '\\'"
        below, most = HIGHEST, FIRST_PAGE
        while True:
            rows = self.scope.query(
                f"""
                SELECT {_COLUMNS}, r.seq FROM memory AS r
                WHERE r.project_id = :project_id AND r.seq < :below AND {condition}
                    AND (title {holds} OR body {holds} OR tags {holds})
                ORDER BY r.seq DESC LIMIT :most
                """,
                below=below,
                most=most,
                held=_holding(text[:LONGEST_SOUGHT]),
                **values,
            )
            yield from (memory for memory in map(memory_in, rows) if wanted.holds(memory))
            if len(rows) < most:
                return
            below, most = rows[-1]["seq"], PAGE

    def newest(self, wanted: Wanted, below: tuple[str, str] | None = None) -> Iterator[Memory]:
        """Give the wanted memories, the newest first; with the date and id of one, those after it."""
        return self._dated(wanted, below, "<", "DESC")

    def oldest(self, wanted: Wanted, above: tuple[str, str] | None = None) -> Iterator[Memory]:
        """Give the wanted memories, the oldest first; with the date and id of one, those after it."""
        return self._dated(wanted, above, ">", "ASC")

    def _dated(self, wanted: Wanted, place: tuple[str, str] | None, beyond: str, direction: str) -> Iterator[Memory]:
        """Give the wanted memories in the order of their dates, from a place on.

        Each part is looked for where the one before ended, and is larger, so that few have to be.
        """
        condition, values = _conditions(replace(wanted, states=()))
        states = {f"in_state_{n}": state.value for n, state in enumerate(wanted.states or tuple(State))}
        most = FIRST_PAGE
        while True:
            follows = f"(r.created_at, r.id) {beyond} (:made_at, :id)" if place else "1 = 1"
            parts = [
                f"""
                SELECT * FROM (
                    SELECT r.seq, r.created_at, r.id FROM memory AS r
                    WHERE r.project_id = :project_id AND r.state = :{state} AND {follows} AND {condition}
                    ORDER BY r.created_at {direction}, r.id {direction} LIMIT :most
                ) AS {state}
                """
                for state in states
            ]
            rows = self.scope.query(
                f"{' UNION ALL '.join(parts)} ORDER BY created_at {direction}, id {direction} LIMIT :most",
                most=most,
                **values,
                **states,
                **(dict(zip(("made_at", "id"), place, strict=True)) if place else {}),
            )
            yield from self._in_order([row["seq"] for row in rows], wanted)
            if len(rows) < most:
                return
            place = rows[-1]["created_at"], rows[-1]["id"]
            most *= GROWTH

    def _in_order(self, seqs: Sequence[int], wanted: Wanted) -> Iterator[Memory]:
        """Give the memories with these numbers, in that order, that are still wanted."""
        for start in range(0, len(seqs), PAGE):
            page = seqs[start : start + PAGE]
            found = {row["seq"]: row for row in self.among("seq", page)}
            memories = (memory_in(found[seq]) for seq in page if seq in found)
            yield from (memory for memory in memories if wanted.holds(memory))

    def surest(self, wanted: Wanted, most: int) -> list[Memory]:
        """Give the surest wanted memories, about so many in all, about as many of each kind as far as there are."""
        condition, values = _conditions(wanted)
        # From one kind to the next by index: DISTINCT would look at every memory.
        kinds = self.scope.query(
            f"""
            WITH RECURSIVE known (kind) AS (
                SELECT MIN(r.kind) FROM memory AS r WHERE r.project_id = :project_id AND {condition}
                UNION ALL
                SELECT (
                    SELECT MIN(r.kind) FROM memory AS r
                    WHERE r.project_id = :project_id AND r.kind > known.kind AND {condition}
                ) FROM known WHERE known.kind IS NOT NULL
            )
            SELECT kind FROM known WHERE kind IS NOT NULL
            """,
            **values,
        )
        found: list[Memory] = []
        for row in kinds:
            rows = self.scope.query(
                f"""
                SELECT {_COLUMNS} FROM memory AS r WHERE r.project_id = :project_id AND r.kind = :kind AND {condition}
                ORDER BY r.confidence DESC, r.created_at DESC LIMIT :most
                """,
                kind=row["kind"],
                most=most // len(kinds) + SPARE,
                **values,
            )
            found += map(memory_in, rows)
        return [memory for memory in found if wanted.holds(memory)]

    def all(self) -> list[Memory]:
        """Give all active memories, oldest first."""
        return [memory_in(row) for row in self.rows("state = 'active'")]

    def learned_in(self, run_id: str, task_id: str, attempt: int) -> list[Memory]:
        """Give what an attempt taught, as far as it was new."""
        rows = self.rows(
            "origin_task = :task_id AND origin_run = :run_id AND origin_attempt = :attempt",
            run_id=run_id,
            task_id=task_id,
            attempt=attempt,
        )
        return [memory_in(row) for row in rows]

    def of_run(self, run_id: str, limit: int) -> list[Memory]:
        """Give what a run taught, in its attempts or when it was looked through later, newest first."""
        rows = self.scope.query(
            """
            SELECT * FROM (
                SELECT * FROM memory WHERE project_id = :project_id AND origin_run = :run_id
                UNION
                SELECT * FROM memory WHERE project_id = :project_id AND origin_loops <> '[]' AND origin_loops LIKE :loop
            ) AS learned ORDER BY seq DESC LIMIT :most
            """,
            run_id=run_id,
            loop=f'%"{run_id}"%',
            most=limit,
        )
        return [memory_in(row) for row in rows]

    def everything(self) -> Iterator[Memory | MemoryEvent]:
        """Give every memory in any state, oldest first, each followed by its history."""
        last = 0
        while rows := self.scope.query(
            "SELECT * FROM memory WHERE project_id = :project_id AND seq > :last ORDER BY seq LIMIT :page",
            last=last,
            page=PAGE,
        ):
            for row in rows:
                yield memory_in(row)
                yield from self.history(row["id"])
            last = rows[-1]["seq"]

    def texts(self, kinds: Sequence[str]) -> list[Row]:
        """Give id, kind, body, tags and date of the active memories of some kinds, newest first."""
        condition, marks = _one_of("kind", kinds)
        return self.scope.query(
            f"""
            SELECT id, kind, body, tags, created_at FROM memory
            WHERE project_id = :project_id AND state = 'active' AND {condition} ORDER BY seq DESC
            """,
            **marks,
        )

    def by_title(self, title: str, state: State = State.ACTIVE) -> Memory | None:
        """Give the knowledge entry with a title, in any case; the newest one in a state."""
        rows = self.rows(
            "kind = 'knowledge' AND title_key = :key AND state = :state", key=title_key(title), state=state.value
        )
        return memory_in(rows[-1]) if rows else None

    def links(self, id: str) -> tuple[list[tuple[str, Memory | None]], list[Memory]]:
        """Give the titles a memory links to, each with the memory that has it, and the active ones that link here."""
        memory = self.get(id)
        out = [(title, self.by_title(title)) for title in links_in(memory.body)]
        rows = self.scope.query(
            """
            SELECT m.* FROM memory_links AS l CROSS JOIN memory AS m
            WHERE l.project_id = :project_id AND l.title_key = :key AND m.project_id = :project_id
                AND m.id = l.memory_id AND m.state = 'active' AND m.id <> :id
            ORDER BY m.seq
            """,
            key=title_key(memory.title),
            id=id,
        )
        return out, [memory_in(row) for row in rows]

    def shown_to(self, id: str, limit: int) -> list[Row]:
        """Give the latest attempts a memory was shown to, newest first: run, iteration, task, outcome, when."""
        return self.scope.query(
            f"""
            SELECT run_id, iteration, task_id, outcome, started_at, ended_at, handed_to FROM attempts
            WHERE project_id = :project_id AND shown {self.scope.database.like_any_case} :held ESCAPE '\\'
            ORDER BY seq DESC LIMIT :limit
            """,
            held=_holding(f'"{id}"'),
            limit=limit,
        )

    def count(self, state: State = State.ACTIVE) -> int:
        """Give the number of memories in a state."""
        rows = self.scope.query(
            "SELECT COUNT(*) AS n FROM memory WHERE project_id = :project_id AND state = :state", state=state.value
        )
        return int(rows[0]["n"])

    def counts(self, column: str) -> dict[str, int]:
        """Give how many there are: by `state`, or the active ones by `kind`, `task_type` or `source`."""
        condition = "state = 'active'" if column != "state" else "1 = 1"
        rows = self.scope.query(
            f"""
            SELECT COALESCE({column}, '') AS name, COUNT(*) AS n FROM memory
            WHERE project_id = :project_id AND {condition} GROUP BY {column} ORDER BY COUNT(*) DESC, {column}
            """
        )
        return {row["name"]: row["n"] for row in rows}

    def count_validated(self) -> int:
        """Give the number of staged memories that passed the rules."""
        rows = self.scope.query(
            """
            SELECT COUNT(*) AS n FROM memory
            WHERE project_id = :project_id AND state = 'staged' AND validated_at IS NOT NULL
            """
        )
        return int(rows[0]["n"])

    def counts_by_origin(self) -> list[Row]:
        """Give how many active memories have the same source and tags."""
        # `seq > 0` lets the rows be read as they lie, which takes half as long.
        return self.scope.query(
            """
            SELECT source, tags, COUNT(*) AS n FROM memory
            WHERE project_id = :project_id AND state = 'active' AND seq > 0 GROUP BY source, tags
            """
        )

    def count_stale(self) -> int:
        """Give the number of active memories whose files are no longer as they were."""
        # An index on the state, without `|| ''`, would lead to all that are active.
        rows = self.scope.query(
            "SELECT COUNT(*) AS n FROM memory WHERE project_id = :project_id AND state || '' = 'active' AND stale <> ''"
        )
        return int(rows[0]["n"])

    def averages(self) -> Row:
        """Give size, averages and the newest change over the active memories."""
        return self.scope.query(
            """
            SELECT COUNT(*) AS total, AVG(confidence) AS confidence, AVG(success_rate) AS success_rate,
                CAST(COALESCE(SUM(uses), 0) AS BIGINT) AS uses, MAX(updated_at) AS last_updated
            FROM memory WHERE project_id = :project_id AND state = 'active'
            """
        )[0]

    def most_used(self) -> Memory | None:
        """Give the active memory with the most uses, if any was used."""
        rows = self.scope.query(
            """
            SELECT * FROM memory WHERE project_id = :project_id AND state = 'active' AND uses > 0
            ORDER BY uses DESC, seq LIMIT 1
            """
        )
        return memory_in(rows[0]) if rows else None

    def rows(self, condition: str, **values: object) -> list[Row]:
        """Give the rows of memories that meet a condition, oldest first."""
        return self.scope.query(
            f"SELECT * FROM memory WHERE project_id = :project_id AND {condition} ORDER BY seq", **values
        )

    def seqs_of(self, ids: Sequence[str]) -> dict[str, int]:
        """Give the numbers of memories by their ids."""
        return {row["id"]: row["seq"] for row in self.among("id", ids, "id, seq")}

    def among(
        self, column: str, values: Sequence[str] | Sequence[int], columns: str = "*", condition: str = ""
    ) -> Iterator[Row]:
        """Give the rows that have one of these values in a column."""
        wanted = [value for value in dict.fromkeys(values) if value != ""]
        for start in range(0, len(wanted), PAGE):
            part = wanted[start : start + PAGE]
            most = FEW if len(part) <= FEW else PAGE  # one of two numbers, so that both are prepared once
            names = {f"v{n}": part[n] if n < len(part) else None for n in range(most)}
            marks = ", ".join(f":{name}" for name in names)
            yield from self.scope.query(
                f"SELECT {columns} FROM memory WHERE project_id = :project_id AND {column} IN ({marks}){condition}",
                **names,
            )

    def known_by(
        self, marks: Sequence[str], ids: Sequence[str]
    ) -> tuple[dict[str, Memory], dict[str, tuple[Memory, str]]]:
        """Give the memories with one of these fingerprints, the live ones first, and those with one of these ids."""
        by_mark: dict[str, Memory] = {}
        for row in self.among("fingerprint", marks):
            memory = memory_in(row)
            if row["fingerprint"] not in by_mark or state_rank(memory) < state_rank(by_mark[row["fingerprint"]]):
                by_mark[row["fingerprint"]] = memory
        by_id = {row["id"]: (memory_in(row), row["fingerprint"]) for row in self.among("id", ids)}
        return by_mark, by_id

    def count_news(self, memories: Sequence[Memory]) -> int:
        """Give how many of these memories say something that is not known here."""
        from ralph.memory.fingerprint import fingerprint

        marks = [fingerprint(memory) for memory in memories]
        known, _ = self.known_by(marks, [])
        return sum(mark not in known for mark in marks)

    # --- history ---------------------------------------------------------------------

    def history(self, id: str) -> list[MemoryEvent]:
        """Give all that happened to a memory, oldest first."""
        rows = self.scope.query(
            "SELECT * FROM memory_events WHERE project_id = :project_id AND memory_id = :id ORDER BY seq", id=id
        )
        return [event_in(row) for row in rows]

    def events(self, since: int, limit: int) -> list[MemoryEvent]:
        """Give what happened to any memory after an event, oldest first."""
        rows = self.scope.query(
            "SELECT * FROM memory_events WHERE project_id = :project_id AND seq > :since ORDER BY seq LIMIT :limit",
            since=since,
            limit=limit,
        )
        return [event_in(row) for row in rows]

    def last(self, what: str) -> str:
        """Give when something last happened to any memory; empty when it never did."""
        rows = self.scope.query(
            "SELECT MAX(at) AS at FROM memory_events WHERE project_id = :project_id AND what = :what", what=what
        )
        return rows[0]["at"] or ""

    def last_event(self) -> int:
        """Give the number of the newest event, or 0."""
        # An index on the project, without `|| ''`, would lead to all events, to be sorted.
        rows = self.scope.query(
            "SELECT seq FROM memory_events WHERE project_id || '' = :project_id ORDER BY seq DESC LIMIT 1"
        )
        return int(rows[0]["seq"]) if rows else 0

    def version(self, id: str, seq: int) -> Memory:
        """Give a memory as it was right after an event of its history."""
        memory = self.get(id)
        events = self.history(id)
        if seq not in {event.seq for event in events}:
            raise NotFoundError("Event", f"{seq} of {id}")
        for event in reversed(events):
            if event.seq > seq:
                memory = with_fields(memory, event.was)
        return memory


def state_rank(memory: Memory) -> int:
    """Give the place of a memory's state among those that say the same: the live ones come first."""
    order = (State.ACTIVE, State.STAGED, State.SUPERSEDED, State.PRUNED, State.QUARANTINED, State.REJECTED)
    return order.index(memory.state)


def _is_linkable(row: Row) -> bool:
    return bool(row["kind"] == "knowledge" and row["state"] == "active")


def _holding(text: str) -> str:
    """Give the LIKE pattern of what holds a text."""
    return "%" + text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"


def _conditions(wanted: Wanted) -> tuple[str, dict[str, object]]:
    """Give the SQL that picks the wanted memories, known as `r`, as far as SQL can."""
    kinds, marks = _one_of("r.kind", wanted.kinds)
    states, more = _one_of("r.state", [state.value for state in wanted.states])
    sources, bounds = _one_of("r.source", [source.value for source in wanted.sources])
    condition = f"{kinds} AND {states} AND {sources} AND r.confidence >= :least"
    bounds["least"] = wanted.min_confidence
    if wanted.after or wanted.before:
        condition += " AND r.created_at BETWEEN :after AND :before"
        bounds |= {"after": wanted.after, "before": wanted.before or "9999"}
    for name in ("task_type", "feature"):
        if (value := getattr(wanted, name)) is not None:
            condition += f" AND r.{name} = :{name}"
            more[name] = value
    if wanted.is_stale:
        condition += " AND r.stale <> ''"
    if wanted.is_validated is not None:
        condition += f" AND r.validated_at IS {'NOT ' if wanted.is_validated else ''}NULL"
    if wanted.tags:
        # Roughly; `Wanted.holds` looks closer.
        held = [f"r.tags LIKE :tag_{n} ESCAPE '\\'" for n in range(len(wanted.tags))]
        condition += f" AND ({' OR '.join(held)})"
        more |= {f"tag_{n}": _holding(_encoded(tag)) for n, tag in enumerate(wanted.tags)}
    return condition, {**marks, **more, **bounds}


def _encoded(tag: str) -> str:
    return json.dumps(tag, ensure_ascii=False)


def _one_of(column: str, values: Sequence[str]) -> tuple[str, dict[str, object]]:
    if not values:
        return "1 = 1", {}
    name = column.rsplit(".", 1)[-1]
    marks: dict[str, object] = {f"{name}_{n}": value for n, value in enumerate(values)}
    return f"{column} IN ({', '.join(f':{mark}' for mark in marks)})", marks


def with_fields(memory: Memory, was: str | None) -> Memory:
    """Give a memory with the fields of a version before."""
    try:
        before = json.loads(was or "{}")
    except ValueError:
        raise StoreError(f"An event in the history of {memory.id} is damaged.") from None
    names = set(Memory.__slots__) - {"id"}  # type: ignore[attr-defined]
    return to_record(Memory, to_columns(memory) | {name: before[name] for name in names & before.keys()}, MEMORY)


_COLUMNS = ", ".join(f"r.{name}" for name in Memory.__slots__)  # type: ignore[attr-defined]
MEMORY: Convert = {
    "source": Source,
    "state": State,
    "tags": from_json,
    "files": from_json,
    "origin_loops": from_json,
}


def memory_in(row: Row) -> Memory:
    """Give the memory that a row holds."""
    return to_record(Memory, row, MEMORY)


def event_in(row: Row) -> MemoryEvent:
    """Give the event that a row holds."""
    return to_record(MemoryEvent, row, {})
