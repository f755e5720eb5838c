"""Read access to memories: by id, filter, words, files, links and history.

Nothing here writes; `memories` does, together with the history.
"""

from __future__ import annotations

import json

from ralph.core.errors import NotFoundError, StoreError
from ralph.core.records import Memory, MemoryEvent, MemorySource, MemoryState, record, replace
from ralph.memory.lifecycle.knowledge import links_in, title_key
from ralph.store.rows import from_json, to_columns, to_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from ralph.store.database import ProjectScope, Row, WordMatches
    from ralph.store.rows import Converters

PAGE = 500
"""Number of rows read per query."""
FIRST_PAGE = 64
"""Number of rows read by the first query of a listing, because most callers need only a few."""
MAX_SEQ = 2**62
"""Sequence number above all others."""
PAGE_GROWTH = 8
"""Factor by which each page of a listing is larger than the one before."""
SMALL_PAGE = 12
"""Number of values up to which a smaller prepared statement is used."""
MAX_LINKS = 1_000
"""Maximum number of links read at once."""
EXTRA_PER_KIND = 3
"""Number of additional memories read per kind, because other kinds may have few."""
MAX_SEARCH_LENGTH = 200
"""Maximum length of a search text, in characters. Databases limit the length of LIKE patterns."""
_ORDERS = {
    "seq": "seq DESC",
    "created_at": "created_at DESC, id DESC, seq DESC",
}


@record
class MemoryFilter:
    """Filter for memories. Empty and None match everything."""

    kinds: tuple[str, ...] = ()
    states: tuple[MemoryState, ...] = (MemoryState.ACTIVE,)
    tags: tuple[str, ...] = ()
    """Matches memories that have at least one of these."""
    sources: tuple[MemorySource, ...] = ()
    task_type: str | None = None
    feature: str | None = None
    min_confidence: float = 0.0
    min_success_rate: float = 0.0
    after: str = ""
    before: str = ""
    is_stale: bool = False
    """Match only memories whose files have changed."""
    is_validated: bool | None = None
    """Match only memories that passed validation, or only those that did not."""


class MemoryReader:
    """Read access to the memories of a project."""

    def __init__(self, scope: ProjectScope) -> None:
        self.scope = scope

    def get(self, id: str) -> Memory:
        """Return the memory with this id in any state, or raise `NotFoundError`."""
        memory = self.find_by_id(id)
        if memory is None:
            raise NotFoundError("Memory", id)
        return memory

    def find_by_id(self, id: str) -> Memory | None:
        """Return the memory with this id in any state, or None."""
        rows = self.rows("id = :id", id=id) if "\0" not in id else []
        return row_to_memory(rows[0]) if rows else None

    def find_by_ids(self, ids: Iterable[str]) -> list[Memory]:
        """Return the memories with these ids in any state, in the given order. Unknown ids are skipped."""
        unique_ids = list(dict.fromkeys(ids))
        found = {row["id"]: row_to_memory(row) for row in self.rows_in("id", unique_ids)}
        return [found[id] for id in unique_ids if id in found]

    def search_words(self, words: Mapping[str, float], limit: int, filter: MemoryFilter | None = None) -> WordMatches:
        """Return rows of memories that contain the words, highest total weight first."""
        condition, values = _conditions(filter or MemoryFilter())
        return self.scope.database.search_words(
            "memory",
            words,
            limit,
            f"r.project_id = :project_id AND {condition}",
            project_id=self.scope.project_id,
            **values,
        )

    def rows_with_words(self, seqs: Sequence[int], filter: MemoryFilter | None = None) -> list[Row]:
        """Return rows by sequence number with their indexed words, in the given order."""
        condition, values = _conditions(filter or MemoryFilter())
        where = f"r.project_id = :project_id AND {condition}"
        return self.scope.database.rows_by_seq("memory", seqs, where, project_id=self.scope.project_id, **values)

    def seqs_naming_files(self, paths: Sequence[str], limit: int) -> list[int]:
        """Return the sequence numbers of the newest memories that name each of these files, up to `most` per file."""
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
            most=limit,
            **{f"p{n}": path for n, path in enumerate(paths)},
        )
        return [row["seq"] for row in rows]

    def file_references(self, paths: Collection[str] | None = None) -> list[Row]:
        """Return files, fingerprints and dates of active memories that name any file, or one of `paths`."""
        columns = "id, files, seen, stale, created_at, updated_at, verified_at"
        if paths is None:
            return self.scope.query(
                f"""
                SELECT {columns} FROM memory
                WHERE project_id = :project_id AND state = 'active' AND files <> '[]' ORDER BY seq
                """
            )
        unique_paths, seqs = list(dict.fromkeys(paths)), dict[int, None]()
        for start in range(0, len(unique_paths), PAGE):
            condition, values = _one_of("path", unique_paths[start : start + PAGE])
            rows = self.scope.query(
                f"SELECT seq FROM memory_files WHERE project_id = :project_id AND {condition} ORDER BY seq", **values
            )
            seqs |= {row["seq"]: None for row in rows}
        return list(self.rows_in("seq", list(seqs), columns, " AND state = 'active'"))

    def neighbor_pairs(self, seqs: Sequence[int]) -> list[tuple[int, int]]:
        """Return pairs of consecutively learned active memories that include one of these sequence numbers."""
        pairs: dict[tuple[int, int], None] = {}
        if not seqs:
            return []
        values = {f"s{n}": seq for n, seq in enumerate(seqs)}
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
            **values,
        )
        for row in rows:
            seq = row["seq"]
            if row["before"] is not None:
                pairs[row["before"], seq] = None
            if row["after"] is not None:
                pairs[seq, row["after"]] = None
        return list(pairs)

    def linked_pairs(self, ids: Sequence[str]) -> list[tuple[int, int]]:
        """Return pairs of memories linked by a `[[title]]` that include one of these ids, as sequence numbers."""
        columns = "id, seq, kind, title_key, state"
        titles = [row["title_key"] for row in self.rows_in("id", ids, columns) if _is_linkable(row)]
        links = {(row["memory_id"], row["title_key"]) for row in self._links("memory_id", ids)}
        links |= {(row["memory_id"], row["title_key"]) for row in self._links("title_key", titles)}
        sources = {row["id"]: row["seq"] for row in self.rows_in("id", [id for id, _ in links], columns)}
        targets: dict[str, list[int]] = {}
        for row in self.rows_in("title_key", [key for _, key in links], columns, " AND kind = 'knowledge'"):
            if _is_linkable(row):
                targets.setdefault(row["title_key"], []).append(row["seq"])
        return [(sources[id], seq) for id, key in sorted(links) if id in sources for seq in targets.get(key, ())]

    def _links(self, column: str, values: Sequence[str]) -> list[Row]:
        bound = {f"v{n}": value for n, value in enumerate(values)}
        if not bound:
            return []
        placeholders = ", ".join(f":{name}" for name in bound)
        return self.scope.query(
            f"""
            SELECT memory_id, title_key FROM memory_links
            WHERE project_id = :project_id AND {column} IN ({placeholders}) LIMIT {MAX_LINKS}
            """,
            **bound,
        )

    def find(self, filter: MemoryFilter, *, order: str = "seq") -> Iterator[Memory]:
        """Yield matching memories, last inserted first, or newest first if `order` is `created_at`."""
        condition, values = _conditions(filter)
        rows = self.scope.query(
            f"""
            SELECT r.seq FROM memory AS r WHERE r.project_id = :project_id AND {condition}
            ORDER BY {_ORDERS[order]}
            """,
            **values,
        )
        yield from self._in_order([row["seq"] for row in rows])

    def containing(self, filter: MemoryFilter, text: str) -> Iterator[Memory]:
        """Yield matching memories that contain a text, ignoring case, last inserted first.

        Pages are read on demand, so that a caller who needs only a few does not wait for all.
        """
        condition, values = _conditions(filter)
        contains = f"{self.scope.database.ilike} :pattern ESCAPE '\\'"
        below, most = MAX_SEQ, FIRST_PAGE
        while True:
            rows = self.scope.query(
                f"""
                SELECT {_COLUMNS}, r.seq FROM memory AS r
                WHERE r.project_id = :project_id AND r.seq < :below AND {condition}
                    AND (title {contains} OR body {contains} OR tags {contains})
                ORDER BY r.seq DESC LIMIT :most
                """,
                below=below,
                most=most,
                pattern=_like_pattern(text[:MAX_SEARCH_LENGTH]),
                **values,
            )
            yield from map(row_to_memory, rows)
            if len(rows) < most:
                return
            below, most = rows[-1]["seq"], PAGE

    def newest(self, filter: MemoryFilter, below: tuple[str, str] | None = None) -> Iterator[Memory]:
        """Yield matching memories, newest first, starting after the date and id in `below`."""
        return self._by_date(filter, below, "<", "DESC")

    def oldest(self, filter: MemoryFilter, above: tuple[str, str] | None = None) -> Iterator[Memory]:
        """Yield matching memories, oldest first, starting after the date and id in `above`."""
        return self._by_date(filter, above, ">", "ASC")

    def _by_date(
        self, filter: MemoryFilter, cursor: tuple[str, str] | None, operator: str, direction: str
    ) -> Iterator[Memory]:
        """Yield matching memories ordered by date, starting after a cursor, in pages of growing size."""
        condition, values = _conditions(replace(filter, states=()))
        states = {f"in_state_{n}": state.value for n, state in enumerate(filter.states or tuple(MemoryState))}
        page_size = FIRST_PAGE
        while True:
            follows = f"(r.created_at, r.id) {operator} (:made_at, :id)" if cursor else "1 = 1"
            # One query per state, because each can then be read in the order of an index.
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
                most=page_size,
                **values,
                **states,
                **(dict(zip(("made_at", "id"), cursor, strict=True)) if cursor else {}),
            )
            yield from self._in_order([row["seq"] for row in rows])
            if len(rows) < page_size:
                return
            cursor = rows[-1]["created_at"], rows[-1]["id"]
            page_size *= PAGE_GROWTH

    def _in_order(self, seqs: Sequence[int]) -> Iterator[Memory]:
        """Yield the memories with these sequence numbers, in the given order."""
        for start in range(0, len(seqs), PAGE):
            page = seqs[start : start + PAGE]
            found = {row["seq"]: row for row in self.rows_in("seq", page)}
            yield from (row_to_memory(found[seq]) for seq in page if seq in found)

    def most_confident(self, filter: MemoryFilter, limit: int) -> list[Memory]:
        """Return about `most` matching memories with the highest confidence, spread evenly over the kinds."""
        condition, values = _conditions(filter)
        # Steps from one kind to the next by index; DISTINCT would scan every memory.
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
                most=limit // len(kinds) + EXTRA_PER_KIND,
                **values,
            )
            found += map(row_to_memory, rows)
        return found

    def all(self) -> list[Memory]:
        """Return all active memories, oldest first."""
        return [row_to_memory(row) for row in self.rows("state = 'active'")]

    def learned_in_attempt(self, run_id: str, task_id: str, attempt: int) -> list[Memory]:
        """Return the memories that were first learned in an attempt."""
        rows = self.rows(
            "origin_task = :task_id AND origin_run = :run_id AND origin_attempt = :attempt",
            run_id=run_id,
            task_id=task_id,
            attempt=attempt,
        )
        return [row_to_memory(row) for row in rows]

    def learned_in_run(self, run_id: str, limit: int) -> list[Memory]:
        """Return memories learned in a run, by its attempts or by later extraction, newest first."""
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
        return [row_to_memory(row) for row in rows]

    def all_with_history(self) -> Iterator[Memory | MemoryEvent]:
        """Yield every memory in any state, oldest first, each followed by its history."""
        last = 0
        while rows := self.scope.query(
            "SELECT * FROM memory WHERE project_id = :project_id AND seq > :last ORDER BY seq LIMIT :page",
            last=last,
            page=PAGE,
        ):
            for row in rows:
                yield row_to_memory(row)
                yield from self.history(row["id"])
            last = rows[-1]["seq"]

    def texts_of_kinds(self, kinds: Sequence[str]) -> list[Row]:
        """Return id, kind, body, tags and date of active memories of these kinds, newest first."""
        condition, values = _one_of("kind", kinds)
        return self.scope.query(
            f"""
            SELECT id, kind, body, tags, created_at FROM memory
            WHERE project_id = :project_id AND state = 'active' AND {condition} ORDER BY seq DESC
            """,
            **values,
        )

    def by_title(self, title: str, state: MemoryState = MemoryState.ACTIVE) -> Memory | None:
        """Return the newest knowledge entry with a title, ignoring case, or None."""
        rows = self.rows(
            "kind = 'knowledge' AND title_key = :key AND state = :state", key=title_key(title), state=state.value
        )
        return row_to_memory(rows[-1]) if rows else None

    def links(self, id: str) -> tuple[list[tuple[str, Memory | None]], list[Memory]]:
        """Return the titles a memory links to, each with its memory, and the active memories that link to it."""
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
        return out, [row_to_memory(row) for row in rows]

    def attempts_shown(self, id: str, limit: int) -> list[Row]:
        """Return the latest attempts that were shown a memory, newest first."""
        return self.scope.query(
            f"""
            SELECT run_id, iteration, task_id, outcome, started_at, ended_at, handed_to FROM attempts
            WHERE project_id = :project_id AND shown {self.scope.database.ilike} :pattern ESCAPE '\\'
            ORDER BY seq DESC LIMIT :limit
            """,
            pattern=_like_pattern(f'"{id}"'),
            limit=limit,
        )

    def count(self, state: MemoryState = MemoryState.ACTIVE) -> int:
        """Return the number of memories in a state."""
        rows = self.scope.query(
            "SELECT COUNT(*) AS n FROM memory WHERE project_id = :project_id AND state = :state", state=state.value
        )
        return int(rows[0]["n"])

    def counts(self, column: str) -> dict[str, int]:
        """Count memories by `state`, or active memories by `kind`, `task_type` or `source`."""
        condition = "state = 'active'" if column != "state" else "1 = 1"
        rows = self.scope.query(
            f"""
            SELECT COALESCE({column}, '') AS name, COUNT(*) AS n FROM memory
            WHERE project_id = :project_id AND {condition} GROUP BY {column} ORDER BY COUNT(*) DESC, {column}
            """
        )
        return {row["name"]: row["n"] for row in rows}

    def count_validated(self) -> int:
        """Return the number of staged memories that passed validation."""
        rows = self.scope.query(
            """
            SELECT COUNT(*) AS n FROM memory
            WHERE project_id = :project_id AND state = 'staged' AND validated_at IS NOT NULL
            """
        )
        return int(rows[0]["n"])

    def counts_by_origin(self) -> list[Row]:
        """Count active memories by source and tags."""
        # `seq > 0` makes SQLite scan the table in order, which takes half as long as by the index on the state.
        return self.scope.query(
            """
            SELECT source, tags, COUNT(*) AS n FROM memory
            WHERE project_id = :project_id AND state = 'active' AND seq > 0 GROUP BY source, tags
            """
        )

    def count_stale(self) -> int:
        """Return the number of active memories whose files have changed."""
        # `|| ''` keeps the planner from using the index on the state, which matches nearly every row.
        rows = self.scope.query(
            "SELECT COUNT(*) AS n FROM memory WHERE project_id = :project_id AND state || '' = 'active' AND stale <> ''"
        )
        return int(rows[0]["n"])

    def averages(self) -> Row:
        """Return totals, averages and the latest change over active memories."""
        return self.scope.query(
            """
            SELECT COUNT(*) AS total, AVG(confidence) AS confidence, AVG(success_rate) AS success_rate,
                CAST(COALESCE(SUM(uses), 0) AS BIGINT) AS uses, MAX(updated_at) AS last_updated
            FROM memory WHERE project_id = :project_id AND state = 'active'
            """
        )[0]

    def most_used(self) -> Memory | None:
        """Return the active memory with the most uses, or None if none was used."""
        rows = self.scope.query(
            """
            SELECT * FROM memory WHERE project_id = :project_id AND state = 'active' AND uses > 0
            ORDER BY uses DESC, seq LIMIT 1
            """
        )
        return row_to_memory(rows[0]) if rows else None

    def rows(self, condition: str, **values: object) -> list[Row]:
        """Return rows of memories that match an SQL condition, oldest first."""
        return self.scope.query(
            f"SELECT * FROM memory WHERE project_id = :project_id AND {condition} ORDER BY seq", **values
        )

    def seqs_by_id(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the sequence numbers of memories by id."""
        return {row["id"]: row["seq"] for row in self.rows_in("id", ids, "id, seq")}

    def rows_in(
        self, column: str, values: Sequence[str] | Sequence[int], columns: str = "*", condition: str = ""
    ) -> Iterator[Row]:
        """Yield rows that have one of these values in a column."""
        unique_values = [value for value in dict.fromkeys(values) if value != ""]
        for start in range(0, len(unique_values), PAGE):
            page = unique_values[start : start + PAGE]
            size = (
                SMALL_PAGE if len(page) <= SMALL_PAGE else PAGE
            )  # only two sizes, so that both statements stay prepared
            bound = {f"v{n}": page[n] if n < len(page) else None for n in range(size)}
            placeholders = ", ".join(f":{name}" for name in bound)
            yield from self.scope.query(
                f"""
                SELECT {columns} FROM memory
                WHERE project_id = :project_id AND {column} IN ({placeholders}){condition}
                """,
                **bound,
            )

    def find_known(
        self, fingerprints: Sequence[str], ids: Sequence[str]
    ) -> tuple[dict[str, Memory], dict[str, tuple[Memory, str]]]:
        """Return memories by fingerprint, preferring live ones, and memories by id with their fingerprints."""
        by_mark: dict[str, Memory] = {}
        for row in self.rows_in("fingerprint", fingerprints):
            memory = row_to_memory(row)
            if row["fingerprint"] not in by_mark or state_rank(memory) < state_rank(by_mark[row["fingerprint"]]):
                by_mark[row["fingerprint"]] = memory
        by_id = {row["id"]: (row_to_memory(row), row["fingerprint"]) for row in self.rows_in("id", ids)}
        return by_mark, by_id

    def count_unknown(self, memories: Sequence[Memory]) -> int:
        """Return how many of these memories are not stored yet."""
        from ralph.memory.lifecycle.fingerprint import fingerprint

        marks = [fingerprint(memory) for memory in memories]
        known, _ = self.find_known(marks, [])
        return sum(mark not in known for mark in marks)

    # --- history ---------------------------------------------------------------------

    def history(self, id: str) -> list[MemoryEvent]:
        """Return the events of a memory, oldest first."""
        rows = self.scope.query(
            "SELECT * FROM memory_events WHERE project_id = :project_id AND memory_id = :id ORDER BY seq", id=id
        )
        return [row_to_memory_event(row) for row in rows]

    def events(self, since: int, limit: int) -> list[MemoryEvent]:
        """Return the events of all memories after an event, oldest first."""
        rows = self.scope.query(
            "SELECT * FROM memory_events WHERE project_id = :project_id AND seq > :since ORDER BY seq LIMIT :limit",
            since=since,
            limit=limit,
        )
        return [row_to_memory_event(row) for row in rows]

    def last_time(self, what: str) -> str:
        """Return the time of the latest event of this type, or an empty string."""
        rows = self.scope.query(
            "SELECT MAX(at) AS at FROM memory_events WHERE project_id = :project_id AND what = :what", what=what
        )
        return rows[0]["at"] or ""

    def last_event_seq(self) -> int:
        """Return the sequence number of the newest event, or 0."""
        # `|| ''` keeps the planner from using the index on the project, which would sort all events.
        rows = self.scope.query(
            "SELECT seq FROM memory_events WHERE project_id || '' = :project_id ORDER BY seq DESC LIMIT 1"
        )
        return int(rows[0]["seq"]) if rows else 0

    def version(self, id: str, seq: int) -> Memory:
        """Return a memory as it was right after an event of its history."""
        memory = self.get(id)
        events = self.history(id)
        if seq not in {event.seq for event in events}:
            raise NotFoundError("Event", f"{seq} of {id}")
        for event in reversed(events):
            if event.seq > seq:
                memory = with_old_fields(memory, event.was)
        return memory


def state_rank(memory: Memory) -> int:
    """Return the sort key of a memory's state among duplicates. Live states come first."""
    order = (
        MemoryState.ACTIVE,
        MemoryState.STAGED,
        MemoryState.SUPERSEDED,
        MemoryState.PRUNED,
        MemoryState.QUARANTINED,
        MemoryState.REJECTED,
    )
    return order.index(memory.state)


def _is_linkable(row: Row) -> bool:
    return bool(row["kind"] == "knowledge" and row["state"] == "active")


def _like_pattern(text: str) -> str:
    """Return the LIKE pattern that matches anything containing a text."""
    return "%" + text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"


def _conditions(filter: MemoryFilter) -> tuple[str, dict[str, object]]:
    """Return a filter as a condition on table `r`, and its values."""
    kinds, kind_values = _one_of("r.kind", filter.kinds)
    states, state_values = _one_of("r.state", [state.value for state in filter.states])
    sources, source_values = _one_of("r.source", [source.value for source in filter.sources])
    condition = f"{kinds} AND {states} AND {sources} AND r.confidence >= :min_confidence"
    values = {**kind_values, **state_values, **source_values, "min_confidence": filter.min_confidence}
    if filter.min_success_rate:
        condition += " AND COALESCE(r.success_rate, 0) >= :min_success_rate"
        values["min_success_rate"] = filter.min_success_rate
    if filter.after or filter.before:
        condition += " AND r.created_at BETWEEN :after AND :before"
        values |= {"after": filter.after, "before": filter.before or "9999"}
    for name in ("task_type", "feature"):
        if (value := getattr(filter, name)) is not None:
            condition += f" AND r.{name} = :{name}"
            values[name] = value
    if filter.is_stale:
        condition += " AND r.stale <> ''"
    if filter.is_validated is not None:
        condition += f" AND r.validated_at IS {'NOT ' if filter.is_validated else ''}NULL"
    if filter.tags:
        # Tags are stored as JSON, in which a quoted tag occurs only as a whole. LIKE would ignore its case.
        matches = [f"replace(r.tags, :tag_{n}, '') <> r.tags" for n in range(len(filter.tags))]
        condition += f" AND ({' OR '.join(matches)})"
        values |= {f"tag_{n}": json.dumps(tag, ensure_ascii=False) for n, tag in enumerate(filter.tags)}
    return condition, values


def _one_of(column: str, values: Sequence[str]) -> tuple[str, dict[str, object]]:
    if not values:
        return "1 = 1", {}
    name = column.rsplit(".", 1)[-1]
    bound: dict[str, object] = {f"{name}_{n}": value for n, value in enumerate(values)}
    return f"{column} IN ({', '.join(f':{key}' for key in bound)})", bound


def with_old_fields(memory: Memory, was: str | None) -> Memory:
    """Return a memory with the fields of an earlier version."""
    try:
        before = json.loads(was or "{}")
    except ValueError:
        raise StoreError(
            f"An event in the history of {memory.id} is damaged. Check the database with: ralph doctor",
            code="damaged-event",
        ) from None
    names = set(Memory.__slots__) - {"id"}  # type: ignore[attr-defined]
    return to_record(
        Memory, to_columns(memory) | {name: before[name] for name in names & before.keys()}, MEMORY_CONVERTERS
    )


_COLUMNS = ", ".join(f"r.{name}" for name in Memory.__slots__)  # type: ignore[attr-defined]
MEMORY_CONVERTERS: Converters = {
    "source": MemorySource,
    "state": MemoryState,
    "tags": from_json,
    "files": from_json,
    "origin_loops": from_json,
}


def row_to_memory(row: Row) -> Memory:
    """Return the memory in a row."""
    return to_record(Memory, row, MEMORY_CONVERTERS)


def row_to_memory_event(row: Row) -> MemoryEvent:
    """Return the event in a row."""
    return to_record(MemoryEvent, row, {})
