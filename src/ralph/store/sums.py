"""What the attempts and memories of a project add up to.

Of attempts there are many: the older ones are summed once and that is kept, and only the latest are read each time. An
attempt that is summed must not change any more without a word to `changed` or `drop`.
"""

from __future__ import annotations

from ralph.records import FAILURES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.memory.lift import Trial
    from ralph.store.database import Row, Scope

LATEST = 500
"""So many of the newest attempts are never summed: one that began beside them may be seen only after them."""
AT_ONCE = 500
"""It is not worth the while to sum fewer."""

_COLUMNS = {
    "model": "COALESCE(model, '')",
    "hat": "hat",
    "task_kind": "task_kind",
    "difficulty": "COALESCE(difficulty, '')",
    "outcome": "CASE WHEN excused = 1 THEN 'interrupted' ELSE COALESCE(outcome, '') END",
    "is_handover": "CASE WHEN handed_to <> '' AND outcome = 'done' THEN 1 ELSE 0 END",
    "with_memory": "with_memory",
}
"""What sums can be asked by, and what each is of an attempt."""
_MEASURES = {
    "attempts": ("1", "BIGINT"),
    "seconds": ("seconds", "DOUBLE PRECISION"),
    "cost_usd": ("cost_usd", "DOUBLE PRECISION"),
    "tokens_in": ("COALESCE(tokens_in, 0)", "BIGINT"),
    "tokens_out": ("COALESCE(tokens_out, 0)", "BIGINT"),
}
"""What is added up, what each is of an attempt, and what the sum of it is."""
_NOTHING = {name: 0 if kind == "BIGINT" else 0.0 for name, (_, kind) in _MEASURES.items()}

_SUMS = ", ".join(f"CAST(SUM({name}) AS {kind}) AS {name}" for name, (_, kind) in _MEASURES.items())
_ONE = ", ".join(
    f"{of} AS {name}" for name, of in (*_COLUMNS.items(), *((name, of) for name, (of, _) in _MEASURES.items()))
)
_ALL = ", ".join((*_COLUMNS, *_MEASURES))
_UNTIL = "COALESCE((SELECT until_seq FROM attempt_summed WHERE project_id = :project_id), 0)"
_LATER = f"seq > {_UNTIL} AND seq < {2**63 - 1}"
"""Those not summed yet. With an end that is none PostgreSQL takes them for few, which they are, and uses the index."""


class Sums:
    """What the attempts and memories of this project add up to."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def by(self, *columns: str, **wanted: str | int) -> list[Row]:
        """Give attempts, seconds, cost and tokens of all attempts, for each value of some columns.

        The columns are model, hat, task_kind, difficulty, outcome, is_handover and with_memory; by those in `wanted`
        attempts are picked. What an attempt does not say is empty: a model, a difficulty, the outcome of one that runs.
        """
        unknown = {*columns, *wanted} - _COLUMNS.keys()
        assert not unknown, unknown
        names = "".join(f"{name}, " for name in columns)
        kept = "".join(f" AND {name} = :{name}" for name in wanted)
        latest = "".join(f" AND {_COLUMNS[name]} = :{name}" for name in wanted)
        order = f"GROUP BY {', '.join(columns)} ORDER BY {', '.join(columns)}" if columns else ""
        # One statement, so that what is kept and what is read are of the same moment.
        rows = self._scope.query(
            f"""
            SELECT {names}{_SUMS} FROM (
                SELECT {_ALL} FROM attempt_sums WHERE project_id = :project_id{kept}
                UNION ALL
                SELECT {_ONE} FROM attempts WHERE project_id = :project_id AND {_LATER}{latest}
            ) AS one {order}
            """,
            **wanted,
        )
        return [row for row in rows if row["attempts"]]

    def of_runs(self, runs: Sequence[str]) -> dict[str, Row]:
        """Give what the attempts of some runs add up to: attempts, done, failed, seconds, cost and tokens."""
        if not runs:
            return {}
        keys = {f"run_{place}": run for place, run in enumerate(runs)}
        rows = self._scope.query(
            f"""
            SELECT run_id, outcome, is_handover, {_SUMS} FROM (
                SELECT run_id, {_ONE} FROM attempts
                WHERE project_id = :project_id AND run_id IN ({", ".join(f":{key}" for key in keys)})
            ) AS one GROUP BY run_id, outcome, is_handover
            """,
            **keys,
        )
        return {run: total([row for row in rows if row["run_id"] == run]) for run in runs}

    def of_models(self, run: str) -> list[Row]:
        """Give what the attempts of a run add up to, for each model, outcome and whether they handed over."""
        return self._scope.query(
            f"""
            SELECT model, outcome, is_handover, {_SUMS} FROM (
                SELECT {_ONE} FROM attempts WHERE project_id = :project_id AND run_id = :run
            ) AS one GROUP BY model, outcome, is_handover
            """,
            run=run,
        )

    def trials(self) -> list[Trial]:
        """Give the attempts chance left memory out of, or could have; none that was cut off."""
        from ralph.memory.lift import Trial

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

    def of_kinds(self) -> list[Row]:
        """Give how many memories in use there are of each kind, how often shown, with what outcome, and how sure."""
        # `seq > 0` lets the rows be read as they lie, which takes half as long.
        return self._scope.query(
            """
            SELECT kind, COUNT(*) AS memories, CAST(SUM(uses) AS BIGINT) AS shown,
                CAST(SUM(wins) AS BIGINT) AS wins, CAST(SUM(losses) AS BIGINT) AS losses, AVG(confidence) AS confidence
            FROM memory WHERE project_id = :project_id AND state = 'active' AND seq > 0
            GROUP BY kind ORDER BY COUNT(*) DESC, kind
            """
        )

    def of_hours(self) -> list[Row]:
        """Give how many of the memories in use were learned in each hour, and how sure they are on average."""
        return self._scope.query(
            """
            SELECT hour, COUNT(*) AS memories, AVG(confidence) AS confidence FROM (
                SELECT SUBSTR(created_at, 1, 13) AS hour, confidence FROM memory
                WHERE project_id = :project_id AND state = 'active'
            ) AS one GROUP BY hour ORDER BY hour
            """
        )

    def credited(self, limit: int, *, helped: bool) -> list[Row]:
        """Give the memories in use after which attempts went well most often, or least often, surest first.

        A few outcomes say less than many: each counts as if it had gone well once more, and badly once more.
        """
        side, order = ("wins > losses", "DESC") if helped else ("losses > wins", "ASC")
        return self._scope.query(
            f"""
            SELECT id, kind, title, wins, losses, confidence FROM memory
            WHERE project_id = :project_id AND state = 'active' AND {side}
            ORDER BY (wins + 1.0) / (wins + losses + 2.0) {order}, seq LIMIT :limit
            """,
            limit=limit,
        )

    # --- keeping ---------------------------------------------------------------------

    def refresh(self) -> bool:
        """Sum the attempts that have ended since the last time, if they are many; say whether that was done."""
        until, upto = self._due()
        if upto is None:
            return False
        with self._scope.transaction():
            until, upto = self._due()  # another run may have been quicker
            if upto is None:
                return False
            added = ", ".join(f"{name} = attempt_sums.{name} + excluded.{name}" for name in _MEASURES)
            self._scope.execute(
                f"""
                INSERT INTO attempt_sums (project_id, {_ALL})
                SELECT :project_id, {", ".join(_COLUMNS)}, {_SUMS} FROM (
                    SELECT {_ONE} FROM attempts
                    WHERE project_id = :project_id AND seq > :until AND seq <= :upto AND outcome IS NOT NULL
                ) AS one WHERE 1 = 1 GROUP BY {", ".join(_COLUMNS)}
                ON CONFLICT (project_id, {", ".join(_COLUMNS)}) DO UPDATE SET {added}
                """,
                until=until,
                upto=upto,
            )
            self._scope.execute(
                """
                INSERT INTO attempt_summed (project_id, until_seq, tasks, tasks_until_seq)
                SELECT :project_id, :upto, COUNT(*), COALESCE(MAX(seq), 0) FROM tasks WHERE project_id = :project_id
                ON CONFLICT (project_id) DO UPDATE SET until_seq = excluded.until_seq, tasks = excluded.tasks,
                    tasks_until_seq = excluded.tasks_until_seq
                """,
                upto=upto,
            )
        return True

    def _due(self) -> tuple[int, int | None]:
        """Give the number of the last attempt that is summed, and of the one to sum up to if that is worth the while.

        An attempt that runs, and all that began after it, have to wait.
        """
        # `+ 0`: by an index in that order SQLite would read all attempts to find the few that run.
        row = self._scope.query(
            f"""
            SELECT {_UNTIL} AS until, (
                SELECT MIN(seq + 0) FROM attempts WHERE project_id = :project_id AND outcome IS NULL
            ) AS running, (
                SELECT seq FROM attempts WHERE project_id = :project_id ORDER BY seq DESC LIMIT 1 OFFSET {LATEST}
            ) AS newest
            """
        )[0]
        until, newest = row["until"], row["newest"]
        if newest is not None and row["running"] is not None:
            newest = min(newest, row["running"] - 1)
        if newest is None or newest <= until:
            return until, None
        enough = self._scope.query(
            f"""
            SELECT seq FROM attempts WHERE project_id = :project_id AND seq > :until AND seq <= :newest
            ORDER BY seq LIMIT 1 OFFSET {AT_ONCE - 1}
            """,
            until=until,
            newest=newest,
        )
        return until, newest if enough else None

    def changed(self, run: str, iteration: int) -> None:
        """Make the sums anew, next time, if an attempt that has just changed is in them."""
        rows = self._scope.query(
            f"""
            SELECT 1 AS one FROM attempts WHERE project_id = :project_id AND run_id = :run AND iteration = :iteration
                AND seq <= {_UNTIL}
            """,
            run=run,
            iteration=iteration,
        )
        if rows:
            self.drop()

    def drop(self) -> None:
        """Forget the sums, because attempts have gone; they are made anew next time."""
        with self._scope.transaction():
            for table in ("attempt_sums", "attempt_summed"):
                self._scope.execute(f"DELETE FROM {table} WHERE project_id = :project_id")


def total(rows: Sequence[Row]) -> Row:
    """Give rows by outcome and hand-over put together: attempts, done, failed, seconds, cost and tokens.

    Whoever handed over has got nothing done yet.
    """
    done = (row["attempts"] for row in rows if row["outcome"] == "done" and not row["is_handover"])
    failed = (row["attempts"] for row in rows if row["outcome"] in FAILURES)
    added = {name: sum((row[name] for row in rows), start=zero) for name, zero in _NOTHING.items()}
    return {**added, "done": sum(done), "failed": sum(failed)}
