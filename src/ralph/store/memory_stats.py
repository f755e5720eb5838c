"""Statistics over the memories of a project."""

from __future__ import annotations

from ralph.core.records import MemoryState
from ralph.store.memory_queries import FIGURE, filter_conditions, row_to_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.records import Memory
    from ralph.store.database import ProjectScope, Row
    from ralph.store.memory_queries import MemoryFilter


class MemoryStatistics:
    """Statistics over the memories of a project."""

    def __init__(self, scope: ProjectScope) -> None:
        self._scope = scope

    def count(self, state: MemoryState = MemoryState.ACTIVE) -> int:
        """Return the number of memories in a state."""
        # Subtracted, because the first count needs nothing but the index on the state.
        rows = self._scope.query(
            f"""
            SELECT COUNT(*) - (
                SELECT COUNT(*) FROM memory WHERE project_id = :project_id AND state = :state AND state = 'active'
                    AND {FIGURE}
            ) AS n FROM memory WHERE project_id = :project_id AND state = :state
            """,
            state=state.value,
        )
        return int(rows[0]["n"])

    def counts(self, column: str) -> dict[str, int]:
        """Count memories by `state`, or active memories by `kind`, `task_type` or `source`."""
        condition = f"state = 'active' AND NOT ({FIGURE})" if column != "state" else "1 = 1"
        rows = self._scope.query(
            f"""
            SELECT COALESCE({column}, '') AS name, COUNT(*) AS n FROM memory
            WHERE project_id = :project_id AND {condition} GROUP BY {column} ORDER BY COUNT(*) DESC, {column}
            """
        )
        return {row["name"]: row["n"] for row in rows}

    def counts_of(self, column: str, filter: MemoryFilter) -> dict[str, int]:
        """Count the memories that match a filter by a column."""
        condition, values = filter_conditions(filter)
        rows = self._scope.query(
            f"""
            SELECT {column} AS name, COUNT(*) AS n FROM memory AS r WHERE r.project_id = :project_id AND {condition}
            GROUP BY {column} ORDER BY COUNT(*) DESC, {column}
            """,
            **values,
        )
        return {row["name"]: row["n"] for row in rows}

    def count_validated(self) -> int:
        """Return the number of staged memories that passed validation."""
        rows = self._scope.query(
            """
            SELECT COUNT(*) AS n FROM memory
            WHERE project_id = :project_id AND state = 'staged' AND validated_at IS NOT NULL
            """
        )
        return int(rows[0]["n"])

    def counts_by_origin(self) -> list[Row]:
        """Count active memories by source and tags."""
        # `seq > 0` makes SQLite scan the table in order, which takes half as long as by the index on the state.
        return self._scope.query(
            f"""
            SELECT source, tags, COUNT(*) AS n FROM memory
            WHERE project_id = :project_id AND state = 'active' AND NOT ({FIGURE}) AND seq > 0 GROUP BY source, tags
            """
        )

    def count_stale(self) -> int:
        """Return the number of active memories whose files have changed."""
        # `|| ''` keeps the planner from using the index on the state, which matches nearly every row.
        rows = self._scope.query(
            "SELECT COUNT(*) AS n FROM memory WHERE project_id = :project_id AND state || '' = 'active' AND stale <> ''"
        )
        return int(rows[0]["n"])

    def averages(self) -> Row:
        """Return totals, averages and the latest change over active memories."""
        return self._scope.query(
            f"""
            SELECT COUNT(*) AS total, AVG(confidence) AS confidence, AVG(success_rate) AS success_rate,
                CAST(COALESCE(SUM(uses), 0) AS BIGINT) AS uses, MAX(updated_at) AS last_updated
            FROM memory WHERE project_id = :project_id AND state = 'active' AND NOT ({FIGURE})
            """
        )[0]

    def most_used(self) -> Memory | None:
        """Return the active memory with the most uses, or None if none was used."""
        rows = self._scope.query(
            f"""
            SELECT * FROM memory WHERE project_id = :project_id AND state = 'active' AND NOT ({FIGURE}) AND uses > 0
            ORDER BY uses DESC, seq LIMIT 1
            """
        )
        return row_to_memory(rows[0]) if rows else None

    def by_kind(self) -> list[Row]:
        """Return counts, uses, outcomes and average confidence of active memories, by kind."""
        # `seq > 0` makes SQLite scan the table in order, which takes half as long as by the index on the state.
        return self._scope.query(
            f"""
            SELECT kind, COUNT(*) AS memories, CAST(SUM(uses) AS BIGINT) AS shown,
                CAST(SUM(wins) AS BIGINT) AS wins, CAST(SUM(losses) AS BIGINT) AS losses, AVG(confidence) AS confidence
            FROM memory WHERE project_id = :project_id AND state = 'active' AND NOT ({FIGURE}) AND seq > 0
            GROUP BY kind ORDER BY COUNT(*) DESC, kind
            """
        )

    def count_shown(self) -> int:
        """Return how often active memories were shown in all."""
        rows = self._scope.query(
            f"""
            SELECT CAST(COALESCE(SUM(uses), 0) AS BIGINT) AS n FROM memory
            WHERE project_id = :project_id AND state = 'active' AND NOT ({FIGURE}) AND seq > 0
            """
        )
        return int(rows[0]["n"])

    def by_hour(self) -> list[Row]:
        """Return the number and average confidence of active memories, by hour of creation."""
        return self._scope.query(
            f"""
            SELECT hour, COUNT(*) AS memories, AVG(confidence) AS confidence FROM (
                SELECT SUBSTR(created_at, 1, 13) AS hour, confidence FROM memory
                WHERE project_id = :project_id AND state = 'active' AND NOT ({FIGURE})
            ) AS one GROUP BY hour ORDER BY hour
            """
        )

    def by_success(self, limit: int, *, helped: bool) -> list[Row]:
        """Return active memories with the best success rate, or those with the worst unless `helped`.

        One win and one loss are added to each, so that a few outcomes weigh less than many.
        """
        condition, order = ("wins > losses", "DESC") if helped else ("losses > wins", "ASC")
        return self._scope.query(
            f"""
            SELECT id, kind, title, wins, losses, confidence FROM memory
            WHERE project_id = :project_id AND state = 'active' AND NOT ({FIGURE}) AND {condition}
            ORDER BY (wins + 1.0) / (wins + losses + 2.0) {order}, seq LIMIT :limit
            """,
            limit=limit,
        )
