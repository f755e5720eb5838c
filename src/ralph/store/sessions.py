"""Sessions of agents outside the loop, in the store."""

from __future__ import annotations

from ralph.errors import NotFoundError, UsageError
from ralph.records import AgentSession
from ralph.store.rows import from_json, to_columns, to_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.store.database import Row, Scope


_TELLING = "(prompts > 0 OR said <> '[]' OR summary <> '')"


class Sessions:
    """What agents were told and what they left, session by session."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def find(self, id: str) -> AgentSession | None:
        """Give a session by the agent's own name for it, if it is known."""
        rows = self._scope.query("SELECT * FROM sessions WHERE project_id = :project_id AND id = :id", id=id)
        return _session(rows[0]) if rows else None

    def get(self, id: str) -> AgentSession:
        """Give a session by its name, or by a beginning of it that no other has."""
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
                f"Several sessions begin with {id!r}: give more of the id, which is whole in: "
                "ralph journal list --format json"
            )
        return _session(rows[0])

    def put(self, session: AgentSession) -> None:
        """Keep a session as it is now; whoever read it to change it does both in one transaction."""
        columns = to_columns(session)
        if not self._scope.update("sessions", {"id": session.id}, columns):
            self._scope.insert("sessions", **columns)

    def drop(self, id: str) -> None:
        """Forget a session of which there is nothing to tell."""
        self._scope.execute(
            f"DELETE FROM sessions WHERE project_id = :project_id AND id = :id AND NOT {_TELLING}", id=id
        )

    def drop_idle(self, before: str) -> None:
        """Forget all sessions of which there is nothing to tell, and that did nothing since a moment."""
        self._scope.execute(
            f"DELETE FROM sessions WHERE project_id = :project_id AND last_at < :before AND NOT {_TELLING}",
            before=before,
        )

    def latest(self, limit: int) -> list[AgentSession]:
        """Give the latest sessions in which anything was asked, learned or said, the latest first."""
        return [one for one, _ in self.placed(limit)]

    def placed(self, limit: int, before: tuple[str, int] | None = None) -> list[tuple[AgentSession, tuple[str, int]]]:
        """Give the same, each with its place: asked for what is before it, one gets those that follow."""
        earlier = "AND (last_at < :at OR (last_at = :at AND seq < :seq))" if before else ""
        rows = self._scope.query(
            f"""
            SELECT * FROM sessions
            WHERE project_id = :project_id AND {_TELLING} {earlier}
            ORDER BY last_at DESC, seq DESC LIMIT :limit
            """,
            limit=limit,
            **({"at": before[0], "seq": before[1]} if before else {}),
        )
        return [(_session(row), (row["last_at"], row["seq"])) for row in rows]


def _session(row: Row) -> AgentSession:
    return to_record(AgentSession, row, {"shown": from_json, "learned": from_json, "said": from_json})
