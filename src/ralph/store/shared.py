"""What a project and the memories that all projects share last agreed on.

Kept where the agreements with files are: for this, what is shared is one more place.
"""

from __future__ import annotations

from ralph.store.database import Scope
from ralph.store.known_memories import memory_in
from ralph.store.memories import Memories
from ralph.store.projects import SHARED_ID
from ralph.store.synced import RESTORED, Synced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.records import Memory

PLACE = "shared"


class Shared:
    """The shared memories of a database, as one project sees them."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._synced = Synced(scope, PLACE)
        self.memories = Memories(Scope(scope.database, SHARED_ID))

    def news(self) -> tuple[int, int] | None:
        """Give the newest event this project has seen and the newest there is; None when it has seen them all."""
        rows = self._scope.query(
            """
            SELECT (SELECT MAX(e.seq) FROM memory_events AS e WHERE e.project_id = :shared) AS newest,
                s.event_seq AS seen, s.files_mark AS mark
            FROM projects AS p LEFT JOIN synced_places AS s ON s.project_id = :project_id AND s.place = :place
            WHERE p.id = :shared
            """,
            shared=SHARED_ID,
            place=PLACE,
        )
        if not rows or rows[0]["newest"] is None:
            return None
        # In a store that is that of a backup nothing is agreed on any more.
        seen = 0 if rows[0]["mark"] == RESTORED else rows[0]["seen"] or 0
        return (seen, rows[0]["newest"]) if seen < rows[0]["newest"] else None

    def touched(self, since: int, until: int) -> list[tuple[Memory, str]]:
        """Give the shared memories to which something happened between two events, each with why that was last.

        They come in the order they were shared.
        """
        rows = self.memories.scope.query(
            """
            SELECT memory_id, why FROM memory_events
            WHERE project_id = :project_id AND seq > :since AND seq <= :until ORDER BY seq
            """,
            since=since,
            until=until,
        )
        whys = {row["memory_id"]: row["why"] for row in rows}
        found = sorted(self.memories.among("id", list(whys)), key=lambda row: row["seq"])
        return [(memory_in(row), whys[row["id"]]) for row in found]

    def agreed(self) -> dict[str, tuple[str, str]]:
        """Give this project's own id of each shared memory it has taken in, and a mark of its text then."""
        return self._synced.entries_under("")

    def agree(self, shared_id: str, own_id: str, mark: str) -> None:
        """Note that a memory of this project is a shared one with a text of this mark."""
        self._synced.agree(shared_id, {own_id: mark})

    def forget(self, shared_id: str) -> None:
        """Note that a memory is no longer shared."""
        self._synced.forget(shared_id)

    def note(self, seen: int) -> None:
        """Note that all is taken in up to an event."""
        self._synced.note_mark(seen, "")
