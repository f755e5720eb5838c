"""History of memories: events, earlier versions and uses."""

from __future__ import annotations

from ralph.core.errors import NotFoundError
from ralph.core.records import MemoryEvent
from ralph.store.memory_queries import PAGE, MemoryReader, like_pattern, row_to_memory, with_old_fields
from ralph.store.rows import to_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ralph.core.records import Memory
    from ralph.store.database import Row


class MemoryHistory(MemoryReader):
    """History of the memories of a project."""

    def of(self, id: str) -> list[MemoryEvent]:
        """Return the events of a memory, oldest first."""
        rows = self.scope.query(
            "SELECT * FROM memory_events WHERE project_id = :project_id AND memory_id = :id ORDER BY seq", id=id
        )
        return [row_to_memory_event(row) for row in rows]

    def since(self, since: int, limit: int) -> list[MemoryEvent]:
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
        events = self.of(id)
        if seq not in {event.seq for event in events}:
            raise NotFoundError("Event", f"{seq} of {id}")
        for event in reversed(events):
            if event.seq > seq:
                memory = with_old_fields(memory, event.was)
        return memory

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


def row_to_memory_event(row: Row) -> MemoryEvent:
    """Return the event in a row."""
    return to_record(MemoryEvent, row, {})
