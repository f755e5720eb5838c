"""Store for import cursors: how far sources of past work are imported, and which episodes were forgotten."""

from __future__ import annotations

from ralph.core.records import EpisodeKind, now, record
from ralph.store.memory_queries import one_of
from ralph.store.rows import to_columns, to_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.store.database import ProjectScope

PAGE = 500
"""Number of cursors read or deleted per statement."""
FORGOTTEN = "forgotten:"
"""Prefix of the cursors of what was forgotten: ids of episodes, and sources of which none is left."""

REFLECTION = "reflection"
"""Cursor of what an agent was last shown to reflect on, what that cost, and what it proposed, which waits."""


@record
class ImportCursor:
    """How far a source is imported."""

    source: str
    position: int = 0
    """Bytes or records that were read."""
    mark: str = ""
    """What identifies its content so far: the last commit, or a hash of the beginning of a file."""
    at: str = ""


class ImportCursors:
    """Import cursors of a project."""

    def __init__(self, scope: ProjectScope) -> None:
        self._scope = scope

    def get(self, source: str) -> ImportCursor:
        """Return how far a source is imported."""
        rows = self._scope.query(
            "SELECT * FROM import_cursors WHERE project_id = :project_id AND source = :source", source=source
        )
        return to_record(ImportCursor, rows[0], {}) if rows else ImportCursor(source=source)

    def all(self) -> dict[str, ImportCursor]:
        """Return how far each source is imported, by source."""
        rows = self._scope.query(
            "SELECT * FROM import_cursors WHERE project_id = :project_id AND source NOT LIKE :forgotten",
            forgotten=f"{FORGOTTEN}%",
        )
        return {row["source"]: to_record(ImportCursor, row, {}) for row in rows}

    def save(self, source: str, position: int, mark: str) -> None:
        """Record how far a source is imported, once its episodes are stored."""
        self._save([ImportCursor(source=source, position=position, mark=mark)])

    def delete(self, sources: Sequence[str]) -> None:
        """Delete cursors, so that their sources are imported from the beginning."""
        for start in range(0, len(sources), PAGE):
            condition, values = one_of("source", sources[start : start + PAGE])
            self._scope.execute(f"DELETE FROM import_cursors WHERE project_id = :project_id AND {condition}", **values)

    # --- what was forgotten ----------------------------------------------------------

    def forget(self, names: Sequence[str]) -> None:
        """Record ids of episodes, or names of whole sessions, that no import may bring back."""
        self._save([ImportCursor(source=f"{FORGOTTEN}{name}") for name in names])

    def unforget(self, names: Sequence[str]) -> None:
        """Allow that what was forgotten is imported again."""
        self.delete([f"{FORGOTTEN}{name}" for name in names])

    def forgotten(self, ids: Sequence[str]) -> set[str]:
        """Return those of these ids whose episodes were forgotten."""
        return {source.removeprefix(FORGOTTEN) for source in self._times([f"{FORGOTTEN}{id}" for id in ids])}

    def forgotten_at(self, session: str) -> str:
        """Return when all episodes of a session were forgotten; empty if they were not."""
        return "".join(self._times([f"{FORGOTTEN}{whole_session(session)}"]).values())

    def _times(self, sources: Sequence[str]) -> dict[str, str]:
        times: dict[str, str] = {}
        for start in range(0, len(sources), PAGE):
            condition, values = one_of("source", sources[start : start + PAGE])
            sql = f"SELECT source, at FROM import_cursors WHERE project_id = :project_id AND {condition}"
            times |= {row["source"]: row["at"] for row in self._scope.query(sql, **values)}
        return times

    def _save(self, cursors: Sequence[ImportCursor]) -> None:
        rows = [{**to_columns(one), "project_id": self._scope.project_id, "at": now()} for one in cursors]
        self._scope.database.execute_many(
            """
            INSERT INTO import_cursors (project_id, source, position, mark, at)
            VALUES (:project_id, :source, :position, :mark, :at)
            ON CONFLICT (project_id, source)
            DO UPDATE SET position = excluded.position, mark = excluded.mark, at = excluded.at
            """,
            rows,
        )


def whole_session(session: str) -> str:
    """Return the name under which a whole session is forgotten."""
    return f"{EpisodeKind.SESSION}:{session}"
