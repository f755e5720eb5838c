"""Aggregates over the attempts and memories of a project."""

from __future__ import annotations

from ralph.core.records import FAILED_OUTCOMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.memory.lifecycle.lift import Trial
    from ralph.store.database import ProjectScope, Row

_COLUMNS = {
    "model": "COALESCE(model, '')",
    "hat": "hat",
    "task_kind": "task_kind",
    "difficulty": "COALESCE(difficulty, '')",
    "outcome": "CASE WHEN excused = 1 THEN 'interrupted' ELSE COALESCE(outcome, '') END",
    "is_handover": "CASE WHEN handed_to <> '' AND outcome = 'done' THEN 1 ELSE 0 END",
    "with_memory": "with_memory",
}
"""Columns by which attempts can be grouped, with their SQL expressions."""
_MEASURES = {
    "attempts": ("1", "BIGINT"),
    "seconds": ("seconds", "DOUBLE PRECISION"),
    "cost_usd": ("cost_usd", "DOUBLE PRECISION"),
    "tokens_in": ("COALESCE(tokens_in, 0)", "BIGINT"),
    "tokens_out": ("COALESCE(tokens_out, 0)", "BIGINT"),
}
"""Summed values, with their SQL expressions and the type of the sum."""
_ZEROS = {name: 0 if kind == "BIGINT" else 0.0 for name, (_, kind) in _MEASURES.items()}

_SUMS = ", ".join(f"CAST(SUM({name}) AS {kind}) AS {name}" for name, (_, kind) in _MEASURES.items())
_SELECTED = ", ".join(
    f"{sql} AS {name}" for name, sql in (*_COLUMNS.items(), *((name, sql) for name, (sql, _) in _MEASURES.items()))
)


class StatsStore:
    """Aggregates over the attempts and memories of a project."""

    def __init__(self, scope: ProjectScope) -> None:
        self._scope = scope

    def group_by(self, *columns: str, **filters: str | int) -> list[Row]:
        """Return attempts, seconds, cost and tokens, grouped by columns and filtered by `filters`.

        Columns are model, hat, task_kind, difficulty, outcome, is_handover and with_memory. Unknown values, such as
        the outcome of a running attempt, are empty strings.
        """
        unknown = {*columns, *filters} - _COLUMNS.keys()
        assert not unknown, unknown
        names = "".join(f"{name}, " for name in columns)
        conditions = "".join(f" AND {_COLUMNS[name]} = :{name}" for name in filters)
        order = f"GROUP BY {', '.join(columns)} ORDER BY {', '.join(columns)}" if columns else ""
        rows = self._scope.query(
            f"""
            SELECT {names}{_SUMS} FROM (
                SELECT {_SELECTED} FROM attempts WHERE project_id = :project_id{conditions}
            ) AS one {order}
            """,
            **filters,
        )
        return [row for row in rows if row["attempts"]]

    def by_run(self, runs: Sequence[str]) -> dict[str, Row]:
        """Return the totals of each run: attempts, done, failed, seconds, cost and tokens."""
        if not runs:
            return {}
        values = {f"run_{n}": run for n, run in enumerate(runs)}
        rows = self._scope.query(
            f"""
            SELECT run_id, outcome, is_handover, {_SUMS} FROM (
                SELECT run_id, {_SELECTED} FROM attempts
                WHERE project_id = :project_id AND run_id IN ({", ".join(f":{key}" for key in values)})
            ) AS one GROUP BY run_id, outcome, is_handover
            """,
            **values,
        )
        return {run: add_up([row for row in rows if row["run_id"] == run]) for run in runs}

    def run_by_model(self, run: str) -> list[Row]:
        """Return the totals of a run, grouped by model, outcome and handover."""
        return self._scope.query(
            f"""
            SELECT model, outcome, is_handover, {_SUMS} FROM (
                SELECT {_SELECTED} FROM attempts WHERE project_id = :project_id AND run_id = :run
            ) AS one GROUP BY model, outcome, is_handover
            """,
            run=run,
        )

    def holdout_trials(self) -> list[Trial]:
        """Return the attempts of the holdout experiment, except interrupted ones."""
        from ralph.memory.lifecycle.lift import Trial

        rows = self._scope.query(
            """
            SELECT task_id, with_memory, holdout, outcome, handed_to, tokens_in, tokens_out, cost_usd,
                CASE WHEN shown = '[]' THEN 0 ELSE 1 END AS is_shown
            FROM attempts
            WHERE project_id = :project_id AND holdout > 0 AND outcome <> 'interrupted' AND excused = 0
                AND task_id IS NOT NULL
            ORDER BY seq
            """
        )
        return [
            Trial(
                task_id=row["task_id"],
                with_memory=bool(row["with_memory"]),
                holdout=row["holdout"],
                done=row["outcome"] == "done" and not row["handed_to"],
                tokens=(row["tokens_in"] or 0) + (row["tokens_out"] or 0),
                cost_usd=row["cost_usd"],
                is_handover=row["outcome"] == "done" and bool(row["handed_to"]),
                is_shown=bool(row["is_shown"]),
            )
            for row in rows
        ]

    # --- memories --------------------------------------------------------------------

    def memories_by_kind(self) -> list[Row]:
        """Return counts, uses, outcomes and average confidence of active memories, by kind."""
        # `seq > 0` makes SQLite scan the table in order, which takes half as long as by the index on the state.
        return self._scope.query(
            """
            SELECT kind, COUNT(*) AS memories, CAST(SUM(uses) AS BIGINT) AS shown,
                CAST(SUM(wins) AS BIGINT) AS wins, CAST(SUM(losses) AS BIGINT) AS losses, AVG(confidence) AS confidence
            FROM memory WHERE project_id = :project_id AND state = 'active' AND seq > 0
            GROUP BY kind ORDER BY COUNT(*) DESC, kind
            """
        )

    def memories_by_hour(self) -> list[Row]:
        """Return the number and average confidence of active memories, by hour of creation."""
        return self._scope.query(
            """
            SELECT hour, COUNT(*) AS memories, AVG(confidence) AS confidence FROM (
                SELECT SUBSTR(created_at, 1, 13) AS hour, confidence FROM memory
                WHERE project_id = :project_id AND state = 'active'
            ) AS one GROUP BY hour ORDER BY hour
            """
        )

    def memories_by_success(self, limit: int, *, helped: bool) -> list[Row]:
        """Return active memories with the best success rate, or those with the worst unless `helped`.

        One win and one loss are added to each, so that a few outcomes weigh less than many.
        """
        condition, order = ("wins > losses", "DESC") if helped else ("losses > wins", "ASC")
        return self._scope.query(
            f"""
            SELECT id, kind, title, wins, losses, confidence FROM memory
            WHERE project_id = :project_id AND state = 'active' AND {condition}
            ORDER BY (wins + 1.0) / (wins + losses + 2.0) {order}, seq LIMIT :limit
            """,
            limit=limit,
        )


def add_up(rows: Sequence[Row]) -> Row:
    """Add up rows grouped by outcome and handover: attempts, done, failed, seconds, cost and tokens.

    A handover does not count as done.
    """
    done = (row["attempts"] for row in rows if row["outcome"] == "done" and not row["is_handover"])
    failed = (row["attempts"] for row in rows if row["outcome"] in FAILED_OUTCOMES)
    sums = {name: sum((row[name] for row in rows), start=zero) for name, zero in _ZEROS.items()}
    return {**sums, "done": sum(done), "failed": sum(failed)}
