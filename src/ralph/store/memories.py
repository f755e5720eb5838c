"""Memories in the store, and the history of each.

Nothing is changed or removed without an event that says who, when and why.
"""

from __future__ import annotations

import json

from ralph.errors import NotFound
from ralph.records import Memory, MemoryEvent, Source, State, memory_id, now, replace
from ralph.store.rows import from_json, to_columns, to_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.store.database import Row, Scope
    from ralph.store.rows import Convert


class Memories:
    """What this project knows."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def add(self, memory: Memory, *, who: str, why: str) -> Memory:
        """Keep a memory; one that says the same as an active one brings its text and tags up to date instead."""
        with self._scope.transaction():
            known = self._same(memory)
            if known is None:
                while self._taken(memory.id):
                    memory = replace(memory, id=memory_id())
                self._scope.insert("memory", **_columns(memory))
                self._event(memory.id, "added", None, memory, who, why)
                return memory
            merged = replace(
                known,
                body=memory.body,
                tags=tuple(dict.fromkeys(known.tags + memory.tags)),
                files=tuple(dict.fromkeys(known.files + memory.files)),
                updated_at=memory.updated_at,
            )
            self._write(merged)
            self._event(merged.id, "learned again", known, merged, who, why)
            return merged

    def _same(self, memory: Memory) -> Memory | None:
        """Give the active memory of the same kind and title, in any case."""
        rows = self._scope.query(
            """
            SELECT * FROM memory WHERE project_id = :project_id AND state = 'active' AND kind = :kind
                AND title_key = :title_key ORDER BY seq LIMIT 1
            """,
            kind=memory.kind,
            title_key=_title_key(memory.title),
        )
        return _memory(rows[0]) if rows else None

    def _taken(self, id: str) -> bool:
        return bool(self._scope.query("SELECT 1 FROM memory WHERE project_id = :project_id AND id = :id", id=id))

    def _write(self, memory: Memory) -> None:
        self._scope.update("memory", {"id": memory.id}, _columns(memory))

    def _event(self, id: str, what: str, was: Memory | None, became: Memory, who: str, why: str) -> None:
        self._scope.insert(
            "memory_events",
            memory_id=id,
            what=what,
            was=json.dumps(to_columns(was), ensure_ascii=False) if was else None,
            became=json.dumps(to_columns(became), ensure_ascii=False),
            who=who,
            why=why,
            at=now(),
        )

    def unlink(self, task_id: str) -> None:
        """Keep what a task taught when the task goes."""
        rows = self._scope.query(
            "SELECT * FROM memory WHERE project_id = :project_id AND origin_task = :id", id=task_id
        )
        for known in map(_memory, rows):
            free = replace(known, origin_task=None, origin_attempt=None)
            self._write(free)
            self._event(known.id, "unlinked", known, free, "ralph", f"{task_id} was deleted")

    def get(self, id: str) -> Memory:
        """Give one memory, or say that there is none."""
        rows = self._scope.query("SELECT * FROM memory WHERE project_id = :project_id AND id = :id", id=id)
        if not rows:
            raise NotFound("Memory", id)
        return _memory(rows[0])

    def history(self, id: str) -> list[MemoryEvent]:
        """Give all that happened to a memory, oldest first."""
        rows = self._scope.query(
            "SELECT * FROM memory_events WHERE project_id = :project_id AND memory_id = :id ORDER BY seq", id=id
        )
        return [to_record(MemoryEvent, row, {}) for row in rows]

    def search(
        self, words: Sequence[str], limit: int, *, kinds: Sequence[str] = (), since: str = ""
    ) -> list[tuple[Memory, float]]:
        """Give active memories that hold any of the words, best first, each with the share of the words it holds.

        With `kinds` or `since`, only those of these kinds or made from then on.
        """
        marks = {f"k{n}": kind for n, kind in enumerate(kinds)}
        narrowed = f" AND r.kind IN ({', '.join(f':{name}' for name in marks)})" if marks else ""
        rows = self._scope.database.search(
            "memory",
            words,
            limit,
            f"r.project_id = :project_id AND r.state = 'active' AND r.created_at >= :since{narrowed}",
            project_id=self._scope.project_id,
            since=since,
            **marks,
        )
        return [(_memory(row), row["score"]) for row in rows]

    def all(self) -> list[Memory]:
        """Give all active memories, oldest first."""
        rows = self._scope.query(
            "SELECT * FROM memory WHERE project_id = :project_id AND state = 'active' ORDER BY seq"
        )
        return [_memory(row) for row in rows]

    def count(self) -> int:
        """Give the number of active memories."""
        rows = self._scope.query("SELECT COUNT(*) AS n FROM memory WHERE project_id = :project_id AND state = 'active'")
        return int(rows[0]["n"])


def _title_key(title: str) -> str:
    """Give what titles are compared by: databases disagree on upper and lower case beyond ASCII."""
    return " ".join(title.casefold().split())


def _columns(memory: Memory) -> dict[str, object]:
    return to_columns(memory) | {"title_key": _title_key(memory.title)}


_MEMORY: Convert = {
    "source": Source,
    "state": State,
    "tags": from_json,
    "files": from_json,
    "origin_loops": from_json,
}


def _memory(row: Row) -> Memory:
    return to_record(Memory, row, _MEMORY)
