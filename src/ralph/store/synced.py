"""What the store and the files of a working copy last agreed on."""

from __future__ import annotations

from ralph.records import now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ralph.store.database import Scope


WORKING_COPY = "w-"
"""How the names of working copies begin."""
HELD = "held "
"""Before an agreed text: it is gone from the file with too many others to be believed, and stays for good."""
RESTORED = "restored"
"""Instead of the mark of all files: the store is that of a backup, and nothing is agreed on."""


class Synced:
    """The agreements with one working copy; `place` tells it from others on the same database."""

    def __init__(self, scope: Scope, place: str = "") -> None:
        self._scope = scope
        self._place = place

    def mark(self) -> tuple[int, str]:
        """Give the newest event of any memory, and a mark of all files, as of when all was in step."""
        rows = self._scope.query(
            "SELECT event_seq, files_mark FROM synced_places WHERE project_id = :project_id AND place = :place",
            place=self._place,
        )
        return (int(rows[0]["event_seq"]), str(rows[0]["files_mark"])) if rows else (0, "")

    def note_mark(self, event_seq: int, files_mark: str) -> None:
        """Note that all is in step up to this event, with files that have this mark."""
        self._scope.execute(
            """
            INSERT INTO synced_places (project_id, place, event_seq, files_mark, seen_at)
            VALUES (:project_id, :place, :event_seq, :files_mark, :at)
            ON CONFLICT (project_id, place)
            DO UPDATE SET event_seq = excluded.event_seq, files_mark = excluded.files_mark, seen_at = excluded.seen_at
            """,
            place=self._place,
            event_seq=event_seq,
            files_mark=files_mark,
            at=now(),
        )

    def forget_places(self, before: str) -> None:
        """Forget working copies that were last in step before a moment; should one come back, the store stands."""
        gone = (
            "SELECT place FROM synced_places WHERE project_id = :project_id AND place LIKE :named AND seen_at < :before"
        )
        with self._scope.transaction():
            for table in ("synced_files", "synced_entries", "synced_places"):
                self._scope.execute(
                    f"DELETE FROM {table} WHERE project_id = :project_id AND place IN ({gone})",
                    named=f"{WORKING_COPY}%",
                    before=before,
                )

    def has_touched(self, since: int, kinds: Sequence[str], folder: str) -> bool:
        """Say whether anything happened after an event to memories of some kinds, or to those in some files."""
        marks = {f"k{n}": kind for n, kind in enumerate(kinds)}
        rows = self._scope.query(
            f"""
            SELECT 1 FROM memory_events AS e JOIN memory AS m ON m.project_id = e.project_id AND m.id = e.memory_id
            WHERE e.project_id = :project_id AND e.seq > :since AND (
                m.kind IN ({", ".join(f":{name}" for name in marks)})
                OR EXISTS (SELECT 1 FROM synced_entries AS s WHERE s.project_id = e.project_id AND s.place = :place
                    AND s.memory_id = e.memory_id AND s.path LIKE :folder)
            ) LIMIT 1
            """,
            since=since,
            place=self._place,
            folder=folder + "%",
            **marks,
        )
        return bool(rows)

    def files(self) -> dict[str, tuple[int, int]]:
        """Give size and date of the files that were in step, by path."""
        rows = self._scope.query(
            "SELECT path, bytes, changed_ns FROM synced_files WHERE project_id = :project_id AND place = :place",
            place=self._place,
        )
        return {row["path"]: (row["bytes"], row["changed_ns"]) for row in rows}

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

    def held(self) -> dict[str, bool]:
        """Give the ids of the memories that were in a file when all was in step, and whether they are held since."""
        rows = self._scope.query(
            "SELECT memory_id, agreed FROM synced_entries WHERE project_id = :project_id AND place = :place",
            place=self._place,
        )
        return {row["memory_id"]: str(row["agreed"]).startswith(HELD) for row in rows}

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

    def note(self, path: str, size: tuple[int, int]) -> None:
        """Note size and date of a file that is in step."""
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

    def forget(self, path: str) -> None:
        """Forget a file that is gone."""
        for table in ("synced_files", "synced_entries"):
            self._scope.execute(
                f"DELETE FROM {table} WHERE project_id = :project_id AND place = :place AND path = :path",
                place=self._place,
                path=path,
            )
