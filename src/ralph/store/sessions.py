"""Store for agent sessions outside the loop."""

from __future__ import annotations

from ralph.core.errors import NotFoundError, UsageError
from ralph.core.records import AgentSession
from ralph.store.rows import from_json, to_columns, to_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.store.database import ProjectScope, Row

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
