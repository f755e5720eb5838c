"""Search for tasks and runs by parts of their names, for menus in which people type a few letters."""

from __future__ import annotations

from ralph.core.records import record
from ralph.store.memory_queries import like_pattern
from ralph.store.stats import OUTSIDE_AGENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.store.database import ProjectScope

MAX_WORDS = 8
"""Number of words of a query that count."""


@record
class TaskTitle:
    """What a menu shows of a task."""

    id: str
    title: str
    status: str


@record
class RunName:
    """What a menu shows of a run."""

    id: str
    agent: str
    ending: str
    started_at: str


class TitleSearch:
    """Tasks and runs of a project by parts of their names, ignoring case."""

    def __init__(self, scope: ProjectScope) -> None:
        self._scope = scope

    def tasks(self, text: str, limit: int) -> list[TaskTitle]:
        """Return the newest tasks whose title contains every word of a text, or whose id starts with it."""
        contains, values = self._contains("title", text)
        rows = self._scope.query(
            f"""
            SELECT id, title, status FROM tasks
            WHERE project_id = :project_id AND (substr(id, 1, length(:id)) = :id OR {contains})
            ORDER BY seq DESC LIMIT :limit
            """,
            id=text.strip(),
            limit=limit,
            **values,
        )
        return [TaskTitle(**row) for row in rows]

    def runs(self, text: str, limit: int) -> list[RunName]:
        """Return the latest runs whose id, agent or ending contain every word of a text."""
        contains, values = self._contains("id || ' ' || agent || ' ' || ending", text)
        rows = self._scope.query(
            f"""
            SELECT id, agent, ending, started_at FROM runs
            WHERE project_id = :project_id AND agent <> :outside AND {contains} ORDER BY seq DESC LIMIT :limit
            """,
            outside=OUTSIDE_AGENT,
            limit=limit,
            **values,
        )
        return [RunName(**row) for row in rows]

    def _contains(self, column: str, text: str) -> tuple[str, dict[str, object]]:
        words = text.split()[:MAX_WORDS]
        ilike = self._scope.database.ilike
        condition = " AND ".join(f"{column} {ilike} :word_{n} ESCAPE '\\'" for n in range(len(words)))
        return f"({condition})" if words else "1 = 1", {f"word_{n}": like_pattern(word) for n, word in enumerate(words)}
