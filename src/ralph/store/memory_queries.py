"""Read access to memories by id and filter, and to their history.

Nothing here writes; `memories` does, together with the history.
"""

from __future__ import annotations

import json

from ralph.core.errors import ConflictError, NotFoundError, StoreError
from ralph.core.records import Memory, MemoryEvent, MemorySource, MemoryState, record
from ralph.store.rows import from_json, to_columns, to_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ralph.store.database import ProjectScope, Row
    from ralph.store.rows import Converters

PAGE = 500
"""Number of rows read per query."""
SMALL_PAGE = 12
"""Number of values up to which a smaller prepared statement is used."""


FIGURE = "kind = 'estimate' AND content <> ''"
"""Condition that matches imported estimates: figures, which are kept like memories but not listed among them."""


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
    with_figures: bool = False
    """Whether active estimates match if no kinds are given."""


LAST_EVENT = "SELECT seq FROM memory_events WHERE (project_id = :project_id) = TRUE ORDER BY seq DESC LIMIT 1"
"""Number of the newest event. `= TRUE` keeps SQLite from sorting all events by the index on the project."""
EVENTS_SINCE = """
    SELECT * FROM memory_events WHERE (project_id = :project_id) = TRUE AND seq > :since ORDER BY seq LIMIT :limit
"""


MEMORIES_WITH_RULES = """
    SELECT * FROM memory
    WHERE project_id = :project_id AND (rule <> '' OR pinned_at IS NOT NULL) AND state || '' = 'active'
    ORDER BY seq DESC LIMIT :limit
"""
"""Active memories that state a rule or are pinned. `|| ''` keeps the planner from using the index on the state, which
matches nearly every row."""

RULES_BY_PEOPLE = """
    SELECT DISTINCT e.memory_id FROM memory AS r
    JOIN memory_events AS e ON e.project_id = r.project_id AND e.memory_id = r.id
    WHERE r.project_id = :project_id AND r.rule <> '' AND r.state || '' = 'active'
        AND (e.who IN ('person', 'file') OR (e.who = 'ralph' AND e.why LIKE :shared))
"""
"""Active memories that state a rule and that a person has added or changed, or shared from another project."""
SHARED_FROM = "shared from "
"""Beginning of why a memory was added that a person shares with other projects."""

HAS_RULES = """
    SELECT 1 AS one WHERE EXISTS (
        SELECT 1 FROM memory
        WHERE project_id = :project_id AND (rule <> '' OR pinned_at IS NOT NULL)
            AND (files = '[]' OR pinned_at IS NOT NULL OR rule NOT LIKE '%, 0]]') AND state || '' = 'active'
    ) OR EXISTS (SELECT 1 FROM episodes WHERE project_id = :project_id AND rules <> '')
"""
"""Whether memories or passages may state rules for all work. Most projects have none, and load nothing for them.

A rule that does not end with the place 0 is of a list, which may only mention its files."""


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

    def all(self) -> list[Memory]:
        """Return all active memories, oldest first."""
        return [row_to_memory(row) for row in self.rows(f"state = 'active' AND NOT ({FIGURE})")]

    def with_rules(self, limit: int) -> list[tuple[Memory, str]]:
        """Return the newest active memories that state a rule or are pinned, each with its rule as JSON."""
        rows = self.scope.query(MEMORIES_WITH_RULES, limit=limit)
        return [(row_to_memory(row), row["rule"]) for row in rows]

    def with_rules_by_people(self) -> set[str]:
        """Return the ids of active memories that state a rule and that a person has added, changed or shared."""
        return {row["memory_id"] for row in self.scope.query(RULES_BY_PEOPLE, shared=f"{SHARED_FROM}%")}

    def has_rules(self) -> bool:
        """Return whether any memory or passage may state a rule, or is pinned."""
        return bool(self.scope.query(HAS_RULES))

    def superseded_by(self, id: str) -> list[Memory]:
        """Return the memories whose place one takes, newest first."""
        return [row_to_memory(row) for row in reversed(self.rows("superseded_by = :id", id=id))]

    def find(self, filter: MemoryFilter) -> Iterator[Memory]:
        """Yield matching memories, last inserted first."""
        condition, values = filter_conditions(filter)
        rows = self.scope.query(
            f"""
            SELECT r.seq FROM memory AS r WHERE r.project_id = :project_id AND {condition}
            ORDER BY seq DESC
            """,
            **values,
        )
        yield from self._in_order([row["seq"] for row in rows])

    def _in_order(self, seqs: Sequence[int]) -> Iterator[Memory]:
        """Yield the memories with these sequence numbers, in the given order."""
        for start in range(0, len(seqs), PAGE):
            page = seqs[start : start + PAGE]
            found = {row["seq"]: row for row in self.rows_in("seq", page)}
            yield from (row_to_memory(found[seq]) for seq in page if seq in found)

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


PEOPLE = ("person", "file")
"""Authors of changes in the history of a memory that are people's; "file" is one made in a file outside of sessions."""


class MemoryHistory(MemoryReader):
    """History of the memories of a project."""

    def is_by_person(self, id: str) -> bool:
        """Return whether a person has added or changed a memory, by a command or in a file."""
        return any(event.who in PEOPLE for event in self.of(id))

    def of(self, id: str) -> list[MemoryEvent]:
        """Return the events of a memory, oldest first."""
        rows = self.scope.query(
            "SELECT * FROM memory_events WHERE project_id = :project_id AND memory_id = :id ORDER BY seq", id=id
        )
        return [row_to_memory_event(row) for row in rows]

    def since(self, since: int, limit: int) -> list[MemoryEvent]:
        """Return the events of all memories after an event, oldest first."""
        rows = self.scope.query(EVENTS_SINCE, since=since, limit=limit)
        return [row_to_memory_event(row) for row in rows]

    def last_time(self, what: str) -> str:
        """Return the time of the latest event of this type, or an empty string."""
        rows = self.scope.query(
            "SELECT MAX(at) AS at FROM memory_events WHERE project_id = :project_id AND what = :what", what=what
        )
        return rows[0]["at"] or ""

    def last_event_seq(self) -> int:
        """Return the sequence number of the newest event, or 0."""
        rows = self.scope.query(LAST_EVENT)
        return int(rows[0]["seq"]) if rows else 0

    def version(self, id: str, seq: int) -> Memory:
        """Return a memory as it was right after an event of its history."""
        for event, memory in self.versions(id):
            if event.seq == seq:
                return memory
        raise NotFoundError("Event", f"{seq} of {id}")

    def versions(self, id: str) -> Iterator[tuple[MemoryEvent, Memory]]:
        """Yield each event of a memory with the memory as it was right after it, newest first."""
        memory = self.get(id)
        for event in reversed(self.of(id)):
            yield event, memory
            memory = with_old_fields(memory, event.was)

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
                yield from self.of(row["id"])
            last = rows[-1]["seq"]

    def attempts_shown(self, id: str, limit: int) -> list[Row]:
        """Return the latest attempts that were shown a memory, newest first."""
        return self.scope.query(
            f"""
            SELECT run_id, iteration, task_id, outcome, started_at, ended_at, handed_to FROM attempts
            WHERE project_id = :project_id AND shown {self.scope.database.ilike} :pattern ESCAPE '\\'
            ORDER BY seq DESC LIMIT :limit
            """,
            pattern=like_pattern(f'"{id}"'),
            limit=limit,
        )


def filter_conditions(filter: MemoryFilter) -> tuple[str, dict[str, object]]:
    """Return a filter as a condition on table `r`, and its values."""
    kinds, kind_values = one_of("r.kind", filter.kinds)
    states, state_values = one_of("r.state", [state.value for state in filter.states])
    sources, source_values = one_of("r.source", [source.value for source in filter.sources])
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
    if not filter.kinds and not filter.with_figures:
        condition += " AND NOT (r.kind = 'estimate' AND r.content <> '' AND r.state = 'active')"
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


def one_of(column: str, values: Sequence[str] | Sequence[int]) -> tuple[str, dict[str, object]]:
    """Return the condition that a column has one of these values, and the values. None means any value."""
    if not values:
        return "1 = 1", {}
    name = column.rsplit(".", 1)[-1]
    bound: dict[str, object] = {f"{name}_{n}": value for n, value in enumerate(values)}
    return f"{column} IN ({', '.join(f':{key}' for key in bound)})", bound


def like_pattern(text: str) -> str:
    """Return the LIKE pattern that matches anything containing a text."""
    return "%" + text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"


def with_old_fields(memory: Memory, was: str | None) -> Memory:
    """Return a memory with the fields of an earlier version."""
    try:
        before = json.loads(was or "{}")
    except ValueError:
        raise StoreError(
            f"An event in the history of {memory.id} is damaged. Check the database with: ralph doctor",
            code="damaged-event",
        ) from None
    current = to_columns(memory, MEMORY_COLUMN_NAMES)
    old = {column: before[column] for column in current.keys() & before.keys() - {"id"}}
    return to_record(Memory, current | old, MEMORY_CONVERTERS, MEMORY_COLUMN_NAMES)


MEMORY_COLUMN_NAMES = {"content": "body", "structured_content": "content"}
"""Columns, and keys in the history, of fields that are named otherwise."""
MEMORY_COLUMNS = ", ".join(f"r.{MEMORY_COLUMN_NAMES.get(name, name)}" for name in Memory.__slots__)  # type: ignore[attr-defined]
MEMORY_CONVERTERS: Converters = {
    "source": MemorySource,
    "state": MemoryState,
    "tags": from_json,
    "files": from_json,
    "origin_loops": from_json,
}


def row_to_memory(row: Row) -> Memory:
    """Return the memory in a row."""
    return to_record(Memory, row, MEMORY_CONVERTERS, MEMORY_COLUMN_NAMES)


def row_to_memory_event(row: Row) -> MemoryEvent:
    """Return the event in a row."""
    return to_record(MemoryEvent, row, {})


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


def require_latest(id: str, only: int, events: Sequence[MemoryEvent], undoable: Sequence[MemoryEvent]) -> None:
    """Raise unless an event is the latest one that can be undone."""
    if all(event.seq != only for event in events):
        raise NotFoundError("Event", f"{only} of {id}")
    if all(event.seq != only for event in undoable):
        raise ConflictError(
            f"Event {only} of {id} is already undone or cannot be undone. Nothing was changed.", code="not-undoable"
        )
    latest = undoable[-1]
    if latest.seq != only:
        raise ConflictError(
            f"{id} was changed again after event {only} ({latest.what} by {latest.who}, event {latest.seq}). "
            f"Nothing was undone. Check its history with: ralph memory history {id}",
            code="changed-since",
        )
