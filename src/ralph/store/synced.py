"""What the store and the files of a working copy last agreed on."""

from __future__ import annotations

from ralph.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ralph.store.database import Scope


@record
class SyncedFile:
    """A file as it was when it was last in step."""

    path: str
    bytes: int
    changed_ns: int
    digest: str
    synced_ns: int


class Synced:
    """The agreements with one working copy; `place` tells it from others on the same database."""

    def __init__(self, scope: Scope, place: str = "") -> None:
        self._scope = scope
        self._place = place

    def event(self) -> int:
        """Give the newest event of any memory when all was last in step; -1 when it never was."""
        rows = self._scope.query(
            "SELECT event_seq FROM synced_places WHERE project_id = :project_id AND place = :place", place=self._place
        )
        return int(rows[0]["event_seq"]) if rows else -1

    def note_event(self, seq: int) -> None:
        """Note that all is in step up to this event."""
        self._scope.execute(
            """
            INSERT INTO synced_places (project_id, place, event_seq) VALUES (:project_id, :place, :seq)
            ON CONFLICT (project_id, place) DO UPDATE SET event_seq = excluded.event_seq
            """,
            place=self._place,
            seq=seq,
        )

    def files(self) -> dict[str, SyncedFile]:
        """Give the files that were in step, by path."""
        from ralph.store.rows import to_record

        rows = self._scope.query(
            "SELECT * FROM synced_files WHERE project_id = :project_id AND place = :place", place=self._place
        )
        return {row["path"]: to_record(SyncedFile, row, {}) for row in rows}

    def entries(self, path: str) -> dict[str, str]:
        """Give what was agreed on for each memory in a file, by the memory's id."""
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
        """Give memory id and agreed text of each file in a folder that holds one memory, by path."""
        rows = self._scope.query(
            "SELECT path, memory_id, agreed FROM synced_entries WHERE project_id = :project_id AND place = :place",
            place=self._place,
        )
        return {row["path"]: (row["memory_id"], row["agreed"]) for row in rows if row["path"].startswith(folder)}

    def agree(self, path: str, agreed: Mapping[str, str | None]) -> None:
        """Note what is agreed on for memories in a file from now on; None: they are no longer in it."""
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

    def note(self, file: SyncedFile) -> None:
        """Note how a file is now that it is in step."""
        from ralph.records import fields_of

        self._scope.execute(
            """
            INSERT INTO synced_files (project_id, place, path, bytes, changed_ns, digest, synced_ns)
            VALUES (:project_id, :place, :path, :bytes, :changed_ns, :digest, :synced_ns)
            ON CONFLICT (project_id, place, path) DO UPDATE SET bytes = excluded.bytes,
                changed_ns = excluded.changed_ns, digest = excluded.digest, synced_ns = excluded.synced_ns
            """,
            place=self._place,
            **fields_of(file),
        )

    def forget(self, path: str) -> None:
        """Forget a file that is gone."""
        for table in ("synced_files", "synced_entries"):
            self._scope.execute(
                f"DELETE FROM {table} WHERE project_id = :project_id AND place = :place AND path = :path",
                place=self._place,
                path=path,
            )
