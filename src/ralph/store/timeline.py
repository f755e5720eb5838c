"""Sessions, attempts and commits of past work in the order in which they ended."""

from __future__ import annotations

from ralph.core.records import Episode, record
from ralph.store.episodes import row_to_episode
from ralph.store.memory_queries import like_pattern, one_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ralph.store.database import ProjectScope, Row

MAX_AGENTS = 50
"""Number of agents and authors listed, those with the most passages."""
_SAME_SOURCE = "o.project_id = :project_id AND o.kind = r.kind AND o.source = r.source"


@record
class TimelineFilter:
    """Which sources of past work to list; empty fields match all."""

    kinds: tuple[str, ...] = ()
    agent: str = ""
    """Name of the agent; of commits, the author."""
    matching: str = ""
    """Text that any of its passages contains, ignoring case."""
    after: str = ""
    before: str = ""


@record
class TimelineEntry:
    """Session, attempt or commit, by its first and its last passage."""

    first: Episode
    last: Episode
    passages: int


class Timeline:
    """Sources of past work of a project."""

    def __init__(self, scope: ProjectScope) -> None:
        self._scope = scope

    def page(
        self, filter: TimelineFilter, limit: int, before: tuple[str, int] | None = None
    ) -> list[tuple[TimelineEntry, tuple[str, int]]]:
        """Return the sources that match a filter, last ended first, each with its cursor."""
        condition, values = self._condition(filter)
        if before:
            condition += " AND (r.at < :at OR (r.at = :at AND r.seq < :seq))"
            values |= {"at": before[0], "seq": before[1]}
        last = self._scope.query(
            f"""
            SELECT * FROM episodes AS r
            WHERE {condition} AND {self._has_no("(o.position, o.seq) > (r.position, r.seq)")}
            ORDER BY r.at DESC, r.seq DESC LIMIT :limit
            """,
            limit=limit,
            **values,
        )
        first = self._first_passages(last)
        counts = self._counts(last)
        return [
            (
                TimelineEntry(
                    first=row_to_episode(first.get(_key(row), row)),
                    last=row_to_episode(row),
                    passages=counts.get(_key(row), 1),
                ),
                (row["at"], row["seq"]),
            )
            for row in last
        ]

    def agents(self) -> list[str]:
        """Return agents and authors, those with the most passages first."""
        rows = self._scope.query(
            """
            SELECT agent FROM episodes WHERE project_id = :project_id AND agent <> ''
            GROUP BY agent ORDER BY COUNT(*) DESC, agent LIMIT :limit
            """,
            limit=MAX_AGENTS,
        )
        return [row["agent"] for row in rows]

    def _condition(self, filter: TimelineFilter) -> tuple[str, dict[str, Any]]:
        kinds, values = one_of("r.kind", filter.kinds)
        conditions = ["r.project_id = :project_id", kinds]
        for name, sql in (("agent", "r.agent = :agent"), ("after", "r.at >= :after"), ("before", "r.at < :before")):
            if value := getattr(filter, name):
                conditions.append(sql)
                values[name] = value
        if filter.matching:
            contains = f"o.body {self._scope.database.ilike} :matching ESCAPE '\\'"
            conditions.append(f"EXISTS (SELECT 1 FROM episodes AS o WHERE {_SAME_SOURCE} AND {contains})")
            values["matching"] = like_pattern(filter.matching)
        return " AND ".join(conditions), values

    def _has_no(self, other: str) -> str:
        return f"NOT EXISTS (SELECT 1 FROM episodes AS o WHERE {_SAME_SOURCE} AND {other})"

    def _first_passages(self, last: Sequence[Row]) -> dict[tuple[str, str], Row]:
        if not last:
            return {}
        sources, values = one_of("r.source", [row["source"] for row in last])
        rows = self._scope.query(
            f"""
            SELECT * FROM episodes AS r WHERE r.project_id = :project_id AND {sources}
                AND {self._has_no("(o.position, o.seq) < (r.position, r.seq)")}
            """,
            **values,
        )
        return {_key(row): row for row in rows}

    def _counts(self, last: Sequence[Row]) -> dict[tuple[str, str], int]:
        if not last:
            return {}
        sources, values = one_of("source", [row["source"] for row in last])
        rows = self._scope.query(
            f"""
            SELECT kind, source, COUNT(*) AS n FROM episodes WHERE project_id = :project_id AND {sources}
            GROUP BY kind, source
            """,
            **values,
        )
        return {_key(row): row["n"] for row in rows}


def _key(row: Row) -> tuple[str, str]:
    return row["kind"], row["source"]
