"""Sync state between a project and the memories shared by all projects.

It is stored like the sync state of files, with the shared memories as one more place.
"""

from __future__ import annotations

from ralph.store.database import ProjectScope
from ralph.store.memories import MemoryStore
from ralph.store.memory_queries import row_to_memory
from ralph.store.projects import SHARED_ID
from ralph.store.sync_state import RESTORED_MARK, SyncState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.records import Memory

SHARED_PLACE = "shared"


class SharedMemories:
    """Shared memories of a database, as seen by one project."""

    def __init__(self, scope: ProjectScope) -> None:
        self._scope = scope
        self._synced = SyncState(scope, SHARED_PLACE)
        self.memories = MemoryStore(ProjectScope(scope.database, SHARED_ID))

    def unseen_range(self) -> tuple[int, int] | None:
        """Return the latest event this project has seen and the latest there is, or None if it has seen all."""
        rows = self._scope.query(
            """
            SELECT (SELECT MAX(e.seq) FROM memory_events AS e WHERE e.project_id = :shared) AS newest,
                s.event_seq AS seen, s.files_mark AS mark
            FROM projects AS p LEFT JOIN synced_places AS s ON s.project_id = :project_id AND s.place = :place
            WHERE p.id = :shared
            """,
            shared=SHARED_ID,
            place=SHARED_PLACE,
        )
        if not rows or rows[0]["newest"] is None:
            return None
        # After a restore from a backup, no earlier sync state is valid.
        seen = 0 if rows[0]["mark"] == RESTORED_MARK else rows[0]["seen"] or 0
        return (seen, rows[0]["newest"]) if seen < rows[0]["newest"] else None

    def changed_between(self, since: int, until: int) -> list[tuple[Memory, str]]:
        """Return shared memories changed after `since` up to `until`, each with the reason of its last change.

        They are ordered by when they were shared.
        """
        rows = self.memories.scope.query(
            """
            SELECT memory_id, why FROM memory_events
            WHERE project_id = :project_id AND seq > :since AND seq <= :until ORDER BY seq
            """,
            since=since,
            until=until,
        )
        reasons = {row["memory_id"]: row["why"] for row in rows}
        found = sorted(self.memories.rows_in("id", list(reasons)), key=lambda row: row["seq"])
        return [(row_to_memory(row), reasons[row["id"]]) for row in found]

    def synced_ids(self) -> dict[str, tuple[str, str]]:
        """Return this project's own id of each synced shared memory, and the hash of its synced text."""
        return self._synced.entries_under("")

    def save_synced(self, shared_id: str, own_id: str, mark: str) -> None:
        """Record that a memory of this project is in sync with a shared one, with this hash of the text."""
        self._synced.save_entries(shared_id, {own_id: mark})

    def delete_synced(self, shared_id: str) -> None:
        """Delete the sync state of a memory that is no longer shared."""
        self._synced.delete_file(shared_id)

    def record_sync(self, seen: int) -> None:
        """Record that the project is in sync up to an event."""
        self._synced.record_sync(seen, "")
