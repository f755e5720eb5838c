"""Writing memories together with their history and search index."""

from __future__ import annotations

import json

from ralph.core.records import Memory, now, record_fields
from ralph.memory.lifecycle.knowledge import links_in, title_key
from ralph.store.memory_queries import MEMORY_COLUMN_NAMES, MemoryReader, row_to_memory
from ralph.store.rows import to_columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.core.records import MemoryEvent
    from ralph.store.database import Row
    from ralph.store.memories import ChangeInfo

_INDEXED_FIELDS = ("title", "content", "tags", "files")
UNUSED_TRUST = "project"
"""Value of the required column `trust`, which no record has any more. Older rows may have another value."""


class MemoryWriter(MemoryReader):
    """Writes to the memory tables of a project, each in the open transaction."""

    def _insert_one(self, memory: Memory, mark: str, change: ChangeInfo) -> int:
        """Insert a memory and return the sequence number of its event."""
        columns = _columns(memory, mark)
        self.scope.insert("memory", **columns)
        self._index([columns], is_new=True)
        self._link(memory)
        return self._event(memory.id, "added", None, None, change)

    def _insert_all(self, fresh: Sequence[tuple[Memory, str, Sequence[MemoryEvent]]], change: ChangeInfo) -> None:
        at = now()
        rows = [_columns(memory, mark) for memory, mark, _ in fresh]
        self.scope.insert_many("memory", rows)
        self._index(rows, is_new=True)
        for memory, _, events in fresh:
            self._link(memory)
            self._insert_history(memory.id, events)
        self.scope.insert_many(
            "memory_events",
            [
                _event_columns(memory.id, "imported" if events else "added", None, None, change, at)
                for memory, _, events in fresh
            ],
        )

    def _insert_history(self, id: str, events: Sequence[MemoryEvent]) -> None:
        """Insert the imported history of a memory, with new sequence numbers."""
        numbers: dict[int | None, int] = {}
        for event in events:
            undoes = numbers.get(event.undoes)
            rows = self.scope.query(
                """
                INSERT INTO memory_events (project_id, memory_id, what, was, became, who, why, at, change_id, undoes)
                VALUES (:project_id, :id, :what, :was, :became, :who, :why, :at, :change_id, :undoes) RETURNING seq
                """,
                id=id,
                **{**record_fields(event), "undoes": undoes, "memory_id": None, "seq": None},
            )
            numbers[event.seq] = rows[0]["seq"]

    def _record(self, before: Memory, after: Memory, what: str, change: ChangeInfo, undoes: int | None = None) -> int:
        """Write the new version of a memory with its event, and return the event's sequence number."""
        columns = _columns(after)
        is_same_text = (before.title, before.content) == (after.title, after.content)
        self.scope.update("memory", {"id": after.id}, columns)
        if any(getattr(before, name) != getattr(after, name) for name in _INDEXED_FIELDS):
            self._index([columns])
        if not is_same_text:
            seqs = self.seqs_by_id([after.id])
            self.scope.execute(
                "DELETE FROM memory_vectors WHERE project_id = :project_id AND seq = :seq", seq=seqs[after.id]
            )
        if before.content != after.content:
            self.scope.execute(
                "DELETE FROM memory_links WHERE project_id = :project_id AND memory_id = :id", id=after.id
            )
            self._link(after)
        return self._event(after.id, what, before, after, change, undoes)

    def _event(
        self,
        id: str,
        what: str,
        before: Memory | None,
        after: Memory | None,
        change: ChangeInfo,
        undoes: int | None = None,
    ) -> int:
        return self.scope.insert_returning_seq(
            "memory_events", **_event_columns(id, what, before, after, change, now(), undoes)
        )

    def _index(self, rows: Sequence[Row], *, is_new: bool = False) -> None:
        """Update the search index for rows of memories."""
        from ralph.store.index import write_index

        if len(rows) == 1:
            found = self.scope.query(
                "SELECT id, seq FROM memory WHERE project_id = :project_id AND id = :id", id=rows[0]["id"]
            )
            seqs = {row["id"]: row["seq"] for row in found}
        else:
            seqs = self.seqs_by_id([row["id"] for row in rows])
        for row in rows:
            row["seq"] = seqs[row["id"]]
            row["project_id"] = self.scope.project_id
        write_index(self.scope.database, "memory", rows, is_new=is_new)

    def _link(self, memory: Memory) -> None:
        """Store the titles that a memory links to."""
        if "[[" not in memory.content:
            return
        keys = dict.fromkeys(title_key(title) for title in links_in(memory.content))
        self.scope.insert_many("memory_links", [{"memory_id": memory.id, "title_key": key} for key in keys])


def _columns(memory: Memory, mark: str = "") -> dict[str, object]:
    from ralph.memory.lifecycle.fingerprint import fingerprint
    from ralph.memory.lifecycle.supersession import rule_of_memory

    return to_columns(memory, MEMORY_COLUMN_NAMES) | {
        "trust": UNUSED_TRUST,
        "title_key": title_key(memory.title),
        "fingerprint": mark or fingerprint(memory),
        "rule": rule_of_memory(memory),
    }


def row_fingerprint(row: Row) -> str:
    """Return the fingerprint of the memory in a row."""
    from ralph.memory.lifecycle.fingerprint import fingerprint

    return fingerprint(row_to_memory(row))


def _event_columns(
    id: str,
    what: str,
    before: Memory | None,
    after: Memory | None,
    change: ChangeInfo,
    at: str,
    undoes: int | None = None,
) -> dict[str, object]:
    old = to_columns(before, MEMORY_COLUMN_NAMES) if before else {}
    new = to_columns(after, MEMORY_COLUMN_NAMES) if after else {}
    changed = [name for name in new if new[name] != old.get(name)]
    return {
        "memory_id": id,
        "what": what,
        "was": _json({name: old[name] for name in changed}) if before else None,
        "became": _json({name: new[name] for name in changed}) if before else None,
        "who": change.who,
        "why": change.why,
        "at": at,
        "change_id": change.id,
        "undoes": undoes,
    }


def _json(fields: dict[str, object]) -> str:
    return json.dumps(fields, ensure_ascii=False)
