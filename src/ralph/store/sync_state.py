"""Sync state: the version on which the store and the files of a working copy last agreed."""

from __future__ import annotations

from ralph.core.records import now
from ralph.store.database import HELD_MARK, LAYOUT_MARK, split_files_mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ralph.store.database import ProjectScope, Row

WORKING_COPY_PREFIX = "w-"
"""Prefix of the names of working copies."""
HELD_PREFIX = "held "
HELD_FOR_PERSON_PREFIX = HELD_PREFIX * 2
"""Prefix of the text of a held entry: the file went back to an older version of it, and the memory is kept."""
RESTORED_MARK = "restored"
"""Value of `files_mark` after the store was restored from a backup, when no earlier sync state is valid."""


class SyncState:
    """Sync state of one working copy, identified by `place` among those of the same database."""

    def __init__(self, scope: ProjectScope, place: str = "") -> None:
        self._scope = scope
        self._place = place

    def last_sync(self) -> tuple[int, str, str, int]:
        """Return the latest memory event, the hash and the layout of the files, and the number of held entries."""
        rows = self._scope.query(
            "SELECT event_seq, files_mark FROM synced_places WHERE project_id = :project_id AND place = :place",
            place=self._place,
        )
        if not rows:
            return 0, "", "", 0
        return (int(rows[0]["event_seq"]), *split_files_mark(rows[0]["files_mark"]))

    def record_sync(self, event_seq: int, files_mark: str, layout: str = "", held_count: int = 0) -> None:
        """Record a complete sync up to this event; the arguments are what `last_sync` returns."""
        files_mark += LAYOUT_MARK + layout if layout else ""
        self._scope.execute(
            """
            INSERT INTO synced_places (project_id, place, event_seq, files_mark, seen_at)
            VALUES (:project_id, :place, :event_seq, :files_mark, :at)
            ON CONFLICT (project_id, place)
            DO UPDATE SET event_seq = excluded.event_seq, files_mark = excluded.files_mark, seen_at = excluded.seen_at
            """,
            place=self._place,
            event_seq=event_seq,
            files_mark=f"{files_mark}{HELD_MARK}{held_count}" if held_count else files_mark,
            at=now(),
        )

    def delete_stale_places(self, before: str) -> None:
        """Delete the sync state of working copies not synced since a time. If one returns, the store wins."""
        expired = """
            SELECT place FROM synced_places
            WHERE project_id = :project_id AND place LIKE :prefix AND seen_at < :before
        """
        with self._scope.transaction():
            for table in ("synced_files", "synced_entries", "synced_places"):
                self._scope.execute(
                    f"DELETE FROM {table} WHERE project_id = :project_id AND place IN ({expired})",
                    prefix=f"{WORKING_COPY_PREFIX}%",
                    before=before,
                )

    def has_changes_since(self, since: int, kinds: Sequence[str], folder: str) -> bool:
        """Return whether memories of these kinds, or in files of a folder, have changed since an event."""
        kind_values = {f"k{n}": kind for n, kind in enumerate(kinds)}
        rows = self._scope.query(
            f"""
            SELECT 1 FROM memory_events AS e JOIN memory AS m ON m.project_id = e.project_id AND m.id = e.memory_id
            WHERE (e.project_id = :project_id) = TRUE AND e.seq > :since AND (
                m.kind IN ({", ".join(f":{name}" for name in kind_values)})
                OR EXISTS (SELECT 1 FROM synced_entries AS s WHERE s.project_id = e.project_id AND s.place = :place
                    AND s.memory_id = e.memory_id AND s.path LIKE :folder)
            ) LIMIT 1
            """,
            since=since,
            place=self._place,
            folder=folder + "%",
            **kind_values,
        )
        return bool(rows)

    def changed_memories(self, since: int, limit: int) -> list[Row]:
        """Return up to `limit` memories with events after `since`; `is_new` are those without earlier ones."""
        # `= TRUE` keeps SQLite from using the index on the project, which would read all events.
        return self._scope.query(
            """
            SELECT m.id, m.kind, m.state, m.title, m.body, m.tags, m.feature, m.created_at, NOT EXISTS (
                SELECT 1 FROM memory_events AS o
                WHERE o.project_id = m.project_id AND o.memory_id = m.id AND o.seq <= :since
            ) AS is_new
            FROM memory AS m
            WHERE m.project_id = :project_id AND m.id IN (
                SELECT e.memory_id FROM memory_events AS e
                WHERE (e.project_id = :project_id) = TRUE AND e.seq > :since
            ) ORDER BY m.seq LIMIT :limit
            """,
            since=since,
            limit=limit,
        )

    def entries_of(self, ids: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Return path and synced text of memories that are in a file, by id."""
        if not ids:
            return {}
        names = {f"id{n}": id for n, id in enumerate(ids)}
        rows = self._scope.query(
            f"""
            SELECT memory_id, path, agreed FROM synced_entries
            WHERE project_id = :project_id AND place = :place
                AND memory_id IN ({", ".join(f":{name}" for name in names)})
            """,
            place=self._place,
            **names,
        )
        return {row["memory_id"]: (row["path"], row["agreed"]) for row in rows}

    def files(self) -> dict[str, tuple[int, int]]:
        """Return size and modification time in nanoseconds of synced files, by path."""
        rows = self._scope.query(
            "SELECT path, bytes, changed_ns FROM synced_files WHERE project_id = :project_id AND place = :place",
            place=self._place,
        )
        return {row["path"]: (row["bytes"], row["changed_ns"]) for row in rows}

    def entries(self, path: str) -> dict[str, str]:
        """Return the synced text of each memory in a file, by memory id."""
        rows = self._scope.query(
            """
            SELECT memory_id, agreed FROM synced_entries
            WHERE project_id = :project_id AND place = :place AND path = :path
            """,
            place=self._place,
            path=path,
        )
        return {row["memory_id"]: row["agreed"] for row in rows}

    def entries_under(self, folder: str) -> dict[str, tuple[str, str]]:
        """Return memory id and synced text of each file in a folder with one memory per file, by path."""
        rows = self._scope.query(
            "SELECT path, memory_id, agreed FROM synced_entries WHERE project_id = :project_id AND place = :place",
            place=self._place,
        )
        return {row["path"]: (row["memory_id"], row["agreed"]) for row in rows if row["path"].startswith(folder)}

    def held_entries(self) -> list[tuple[str, str]]:
        """Return path and memory id of the held entries."""
        rows = self._scope.query(
            """
            SELECT path, memory_id FROM synced_entries
            WHERE project_id = :project_id AND place = :place AND agreed LIKE :held ORDER BY path, memory_id
            """,
            place=self._place,
            held=f"{HELD_PREFIX}%",
        )
        return [(row["path"], row["memory_id"]) for row in rows]

    def save_entries(self, path: str, agreed: Mapping[str, str | None]) -> None:
        """Store the synced text of memories in a file. None removes a memory."""
        for memory_id, text in agreed.items():
            if text is None:
                self._scope.execute(
                    """
                    DELETE FROM synced_entries
                    WHERE project_id = :project_id AND place = :place AND path = :path AND memory_id = :memory_id
                    """,
                    place=self._place,
                    path=path,
                    memory_id=memory_id,
                )
            else:
                self._scope.execute(
                    """
                    INSERT INTO synced_entries (project_id, place, path, memory_id, agreed)
                    VALUES (:project_id, :place, :path, :memory_id, :agreed)
                    ON CONFLICT (project_id, place, path, memory_id) DO UPDATE SET agreed = excluded.agreed
                    """,
                    place=self._place,
                    path=path,
                    memory_id=memory_id,
                    agreed=text,
                )

    def save_file(self, path: str, size: tuple[int, int]) -> None:
        """Store size and modification time of a synced file."""
        self._scope.execute(
            """
            INSERT INTO synced_files (project_id, place, path, bytes, changed_ns)
            VALUES (:project_id, :place, :path, :bytes, :changed_ns)
            ON CONFLICT (project_id, place, path)
            DO UPDATE SET bytes = excluded.bytes, changed_ns = excluded.changed_ns
            """,
            place=self._place,
            path=path,
            bytes=size[0],
            changed_ns=size[1],
        )

    def delete_file(self, path: str) -> None:
        """Delete the sync state of a file."""
        for table in ("synced_files", "synced_entries"):
            self._scope.execute(
                f"DELETE FROM {table} WHERE project_id = :project_id AND place = :place AND path = :path",
                place=self._place,
                path=path,
            )
