"""Store for agent sessions outside the loop."""

from __future__ import annotations

from ralph.core.errors import NotFoundError, UsageError
from ralph.core.records import AgentSession
from ralph.store.memory_queries import like_pattern
from ralph.store.rows import from_json, to_columns, to_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.store.database import ProjectScope, Row
    from ralph.store.episodes import EpisodeFilter

_IS_NOT_EMPTY = "(prompts > 0 OR said <> '[]' OR summary <> '')"


class SessionStore:
    """Agent sessions of a project."""

    def __init__(self, scope: ProjectScope) -> None:
        self._scope = scope

    def find(self, id: str) -> AgentSession | None:
        """Return a session by its id, or None."""
        rows = self._scope.query("SELECT * FROM sessions WHERE project_id = :project_id AND id = :id", id=id)
        return _session(rows[0]) if rows else None

    def get(self, id: str) -> AgentSession:
        """Return a session by its id or a unique prefix of it."""
        if found := self.find(id):
            return found
        rows = self._scope.query(
            "SELECT * FROM sessions WHERE project_id = :project_id AND substr(id, 1, :length) = :id LIMIT 2",
            id=id,
            length=len(id),
        )
        if not rows or not id:
            raise NotFoundError("Session", id)
        if len(rows) > 1:
            raise UsageError(
                f"Session id {id!r} is ambiguous. Get the full ids with: ralph journal list --format json",
                code="ambiguous-session",
            )
        return _session(rows[0])

    def ids_with_prefix(self, prefix: str, limit: int) -> list[str]:
        """Return ids of sessions that start with a prefix."""
        rows = self._scope.query(
            "SELECT id FROM sessions WHERE project_id = :project_id AND substr(id, 1, :length) = :id LIMIT :limit",
            id=prefix,
            length=len(prefix),
            limit=limit,
        )
        return [row["id"] for row in rows]

    def save(self, session: AgentSession) -> None:
        """Insert or update a session. Read and write it in one transaction to modify it."""
        columns = to_columns(session)
        if not self._scope.update("sessions", {"id": session.id}, columns):
            self._scope.insert("sessions", **columns)

    def delete_if_empty(self, id: str) -> None:
        """Delete a session if it is empty."""
        self._scope.execute(
            f"DELETE FROM sessions WHERE project_id = :project_id AND id = :id AND NOT {_IS_NOT_EMPTY}", id=id
        )

    def delete_empty(self, before: str) -> None:
        """Delete empty sessions without activity since a time."""
        self._scope.execute(
            f"DELETE FROM sessions WHERE project_id = :project_id AND last_at < :before AND NOT {_IS_NOT_EMPTY}",
            before=before,
        )

    def count_matching(self, filter: EpisodeFilter) -> int:
        """Return the number of sessions that a filter of episodes matches."""
        condition, values = self._matching(filter)
        return int(self._scope.query(f"SELECT COUNT(*) AS n FROM sessions WHERE {condition}", **values)[0]["n"])

    def delete_matching(self, filter: EpisodeFilter) -> int:
        """Delete the sessions that a filter of episodes matches, and return their number."""
        condition, values = self._matching(filter)
        return self._scope.execute(f"DELETE FROM sessions WHERE {condition}", **values)

    def _matching(self, filter: EpisodeFilter) -> tuple[str, dict[str, object]]:
        conditions = ["project_id = :project_id", "1 = 1" if "session" in (filter.kinds or ("session",)) else "1 = 0"]
        values: dict[str, object] = {}
        if filter.within:
            conditions.append("id = :within")
            values["within"] = filter.within
        if filter.before:
            conditions.append("last_at < :before")
            values["before"] = filter.before
        if filter.after:
            conditions.append("last_at >= :after")
            values["after"] = filter.after
        if filter.matching:
            like = f"{self._scope.database.ilike} :matching ESCAPE '\\'"
            conditions.append(f"(title {like} OR summary {like})")
            values["matching"] = like_pattern(filter.matching)
        return " AND ".join(conditions), values

    def latest(self, limit: int) -> list[AgentSession]:
        """Return the latest sessions that are not empty, newest first."""
        return [session for session, _ in self.page(limit)]

    def page(self, limit: int, before: tuple[str, int] | None = None) -> list[tuple[AgentSession, tuple[str, int]]]:
        """Return the latest sessions, each with its cursor. Pass a cursor as `before` to get the next page."""
        paging = "AND (last_at < :at OR (last_at = :at AND seq < :seq))" if before else ""
        rows = self._scope.query(
            f"""
            SELECT * FROM sessions
            WHERE project_id = :project_id AND {_IS_NOT_EMPTY} {paging}
            ORDER BY last_at DESC, seq DESC LIMIT :limit
            """,
            limit=limit,
            **({"at": before[0], "seq": before[1]} if before else {}),
        )
        return [(_session(row), (row["last_at"], row["seq"])) for row in rows]


def _session(row: Row) -> AgentSession:
    return to_record(AgentSession, row, {"shown": from_json, "learned": from_json, "said": from_json})
