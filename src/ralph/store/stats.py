"""Statistics over the attempts of a project."""

from __future__ import annotations

from ralph.core.errors import NotFoundError
from ralph.core.records import FAILED_OUTCOMES, AttemptOutcome, Difficulty, ResourceUsage, TaskMetrics
from ralph.store.rows import from_json, to_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.core.records import Attempt, Task
    from ralph.memory.lifecycle.estimates import FinishedTask
    from ralph.memory.lifecycle.lift import Trial
    from ralph.store.database import ProjectScope, Row

OUTSIDE_AGENT = "outside"
"""Agent name of runs that hold only reported work from outside the loop."""

MAX_COUNTED = 1_000
"""Maximum number of attempts that `count_since` looks at."""
SUCCESS_RATE_WINDOW = 100
"""Number of latest attempts from which the usual success rate is computed."""
SUCCESS_RATE_PRIOR = 4
"""Weight of the prior in the usual success rate, in attempts."""
MAX_FINISHED_TASKS = 20
"""Number of latest finished tasks that the estimate in a prompt is computed from."""
SCANNED_PER_TASK = 5
"""Number of latest attempts that are looked at for each finished task that is asked for."""
USAGE = """
    COUNT(CASE WHEN outcome = 'done' AND handed_to = '' THEN 1 END) AS done, COALESCE(SUM(seconds), 0) AS seconds,
    COALESCE(SUM(cost_usd), 0) AS cost_usd, COALESCE(SUM(tokens_in), 0) + COALESCE(SUM(tokens_out), 0) AS tokens
"""
"""Columns of `ResourceUsage` over attempts."""

_COLUMNS = {
    "agent": "agent",
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

_IN_TRIAL = """
    project_id = :project_id AND holdout > 0 AND outcome <> 'interrupted' AND excused = 0 AND task_id IS NOT NULL
"""


class StatsStore:
    """Statistics over the attempts of a project."""

    def __init__(self, scope: ProjectScope) -> None:
        self._scope = scope

    def group_by(self, *columns: str, **filters: str | int) -> list[Row]:
        """Return attempts, seconds, cost and tokens, grouped by columns and filtered by `filters`.

        Columns are agent, model, hat, task_kind, difficulty, outcome, is_handover and with_memory. Unknown values,
        such as the outcome of a running attempt, are empty strings.
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

    def holdout_version(self) -> tuple[int, int]:
        """Return values of which one changes whenever `holdout_trials` does."""
        row = self._scope.query(
            f"SELECT COUNT(*) AS n, CAST(COALESCE(SUM(seq), 0) AS BIGINT) AS numbers FROM attempts WHERE {_IN_TRIAL}"
        )[0]
        return row["n"], row["numbers"]

    def holdout_trials(self) -> list[Trial]:
        """Return the attempts of the holdout experiment, except interrupted ones."""
        from ralph.memory.lifecycle.lift import Trial

        rows = self._scope.query(
            f"""
            SELECT task_id, with_memory, holdout,
                CASE WHEN outcome = 'done' AND handed_to = '' THEN 1 ELSE 0 END AS done,
                COALESCE(tokens_in, 0) + COALESCE(tokens_out, 0) AS tokens, cost_usd,
                CASE WHEN outcome = 'done' AND handed_to <> '' THEN 1 ELSE 0 END AS is_handover,
                CASE WHEN shown = '[]' THEN 0 ELSE 1 END AS is_shown
            FROM attempts WHERE {_IN_TRIAL} ORDER BY seq
            """
        )
        return [Trial._make(row.values()) for row in rows]

    # --- tasks and recent attempts ---------------------------------------------------

    def totals(self) -> Row:
        """Return attempts, time, cost and tokens of the whole project. A handover does not count as done."""
        return add_up(self.group_by("outcome", "is_handover"))

    def metrics(self, task: str) -> TaskMetrics:
        """Return the metrics of a task."""
        # The view `strategy_metrics` has the same values, but SQLite would look for the last success at every attempt.
        rows = self._scope.query(
            """
            SELECT t.id AS task_id, COUNT(a.number) AS total_attempts, MAX(a.started_at) AS last_attempt_at,
                MAX(CASE WHEN a.number = success.latest THEN a.started_at END) AS last_success_at,
                MAX(CASE WHEN a.number = success.latest THEN a.model END) AS suggested_model,
                COUNT(CASE WHEN a.outcome IN ('failed', 'retried', 'blocked', 'error') AND a.excused = 0
                    AND a.number > success.latest THEN 1 END) AS consecutive_failures,
                COUNT(CASE WHEN a.outcome IN ('failed', 'retried', 'blocked', 'error') AND a.excused = 0
                    AND a.number > success.latest AND a.number > t.reset_after THEN 1 END) AS failures_since_reset,
                (SELECT difficulty FROM attempts WHERE project_id = :project_id AND task_id = :task
                    AND difficulty IS NOT NULL ORDER BY number DESC LIMIT 1) AS difficulty
            FROM tasks AS t CROSS JOIN (
                SELECT COALESCE(MAX(number), 0) AS latest FROM attempts
                WHERE project_id = :project_id AND task_id = :task AND outcome = 'done' AND handed_to = ''
            ) AS success
            LEFT JOIN attempts AS a ON a.project_id = t.project_id AND a.task_id = t.id
            WHERE t.project_id = :project_id AND t.id = :task GROUP BY t.id
            """,
            task=task,
        )
        if not rows:
            raise NotFoundError("Task", task)
        return _metrics(rows[0])

    def failing_tasks(self, limit: int = 20) -> tuple[list[TaskMetrics], int]:
        """Return metrics of open tasks that failed since they last succeeded or were reset, worst first.

        The second value is the total number of such tasks.
        """
        # The view has the same number of failures, but would be asked for all open tasks; attempts are fewer.
        rows = self._scope.query(
            """
            SELECT m.*, m.difficulty_estimate AS difficulty, worst.in_all FROM (
                SELECT one.*, COUNT(*) OVER () AS in_all FROM (
                    SELECT t.id, t.seq, COUNT(*) AS failures FROM attempts AS a CROSS JOIN tasks AS t
                    WHERE a.project_id = :project_id AND a.outcome IN ('failed', 'retried', 'blocked', 'error')
                        AND a.excused = 0 AND t.project_id = :project_id AND t.id = a.task_id
                        AND t.status IN ('pending', 'in_progress') AND a.number > t.reset_after
                        AND a.number > COALESCE((SELECT MAX(d.number) FROM attempts AS d
                            WHERE d.project_id = :project_id AND d.task_id = a.task_id AND d.outcome = 'done'
                                AND d.handed_to = ''), 0)
                        AND (SELECT 1 FROM tasks AS c WHERE c.project_id = :project_id AND c.parent_id = t.id
                            LIMIT 1) IS NULL
                    GROUP BY t.id, t.seq
                ) AS one ORDER BY failures DESC, seq LIMIT :limit
            ) AS worst JOIN strategy_metrics AS m ON m.project_id = :project_id AND m.task_id = worst.id
            ORDER BY worst.failures DESC, worst.seq
            """,
            limit=limit,
        )
        return [_metrics(row) for row in rows], rows[0]["in_all"] if rows else 0

    def recent_outcomes(self, limit: int) -> list[AttemptOutcome]:
        """Return the outcomes of the latest attempts, newest first. Handovers are skipped."""
        rows = self._scope.query(
            """
            SELECT outcome FROM attempts WHERE project_id = :project_id AND outcome IS NOT NULL
                AND excused = 0 AND (outcome <> 'done' OR handed_to = '')
            ORDER BY seq DESC LIMIT :limit
            """,
            limit=limit,
        )
        return [AttemptOutcome(row["outcome"]) for row in rows]

    def usual_success_rate(self, attempt: Attempt) -> float:
        """Return the recent success rate of other attempts with the same model.

        With few such attempts it is close to the rate of all models, and with few attempts at all close to 0.5.
        """
        rows = self._scope.query(
            """
            SELECT outcome, model FROM attempts WHERE project_id = :project_id AND outcome IS NOT NULL
                AND outcome <> 'interrupted' AND excused = 0 AND (outcome <> 'done' OR handed_to = '')
                AND agent <> :outside AND (run_id <> :run OR iteration <> :iteration)
            ORDER BY seq DESC LIMIT :limit
            """,
            run=attempt.run_id,
            iteration=attempt.iteration,
            outside=OUTSIDE_AGENT,
            limit=SUCCESS_RATE_WINDOW,
        )
        won = [row["outcome"] == "done" for row in rows]
        overall = (sum(won) + SUCCESS_RATE_PRIOR / 2) / (len(won) + SUCCESS_RATE_PRIOR)
        won_by_model = [row["outcome"] == "done" for row in rows if row["model"] == attempt.model]
        return float((sum(won_by_model) + SUCCESS_RATE_PRIOR * overall) / (len(won_by_model) + SUCCESS_RATE_PRIOR))

    def count_since(self, since: str) -> int:
        """Return the number of attempts started after a time, counting at most `MAX_COUNTED`."""
        rows = self._scope.query(
            f"""
            SELECT COUNT(*) AS n FROM (
                SELECT started_at FROM attempts WHERE project_id = :project_id ORDER BY seq DESC LIMIT {MAX_COUNTED}
            ) AS latest WHERE started_at > :moment
            """,
            moment=since,
        )
        return int(rows[0]["n"])

    def usage_of_task(self, task: Task) -> ResourceUsage:
        """Return the resources a task has used since a person last reset it."""
        rows = self._scope.query(
            f"""
            SELECT COUNT(*) AS iterations, {USAGE}
            FROM attempts WHERE project_id = :project_id AND task_id = :task AND number > :reset_after
                AND outcome IS NOT NULL
            """,
            task=task.id,
            reset_after=task.reset_after,
        )
        return to_record(ResourceUsage, rows[0], {})

    def changed_files(self, limit: int) -> tuple[str, ...]:
        """Return the distinct files that the latest attempts changed, oldest first."""
        rows = self._scope.query(
            """
            SELECT files FROM attempts WHERE project_id = :project_id AND files <> '[]' ORDER BY seq DESC LIMIT :limit
            """,
            limit=limit,
        )
        return tuple(dict.fromkeys(path for row in reversed(rows) for path in from_json(row["files"])))

    def finished_tasks(self, task_type: str = "", limit: int = MAX_FINISHED_TASKS) -> list[FinishedTask]:
        """Return what the latest done tasks took over all their attempts, latest first; all types unless one is given.

        Attempts that were interrupted or excused are left out.
        """
        condition = " AND task_kind = :task_type" if task_type else " AND task_kind <> ''"
        rows = self._scope.query(
            f"""
            SELECT finished.seq AS finished_seq, finished.task_kind, a.task_id, a.outcome, a.seconds, a.cost_usd,
                a.files, a.difficulty, a.run_id, a.ended_at
            FROM (
                SELECT task_id, task_kind, MAX(number) AS number, MAX(seq) AS seq FROM (
                    SELECT seq, task_id, number, task_kind, outcome, handed_to FROM attempts
                    WHERE project_id = :project_id ORDER BY seq DESC LIMIT :scanned
                ) AS latest
                WHERE outcome = 'done' AND handed_to = '' AND task_id IS NOT NULL{condition}
                GROUP BY task_id, task_kind ORDER BY MAX(seq) DESC LIMIT :limit
            ) AS finished JOIN attempts AS a ON a.project_id = :project_id AND a.task_id = finished.task_id
            WHERE a.number <= finished.number AND a.outcome <> 'interrupted' AND a.excused = 0
            ORDER BY finished.seq DESC, a.number
            """,
            limit=limit,
            scanned=limit * SCANNED_PER_TASK,
            **({"task_type": task_type} if task_type else {}),
        )
        tasks: dict[int, list[Row]] = {}
        for row in rows:
            tasks.setdefault(row["finished_seq"], []).append(row)
        return list(map(_finished_task, tasks.values()))

    def holdout_days(self) -> list[str]:
        """Return the day of each attempt of `holdout_trials`."""
        rows = self._scope.query(
            f"SELECT SUBSTR(started_at, 1, 10) AS day FROM attempts WHERE {_IN_TRIAL} ORDER BY seq"
        )
        return [row["day"] for row in rows]

    def failures_by_cause(self) -> list[Row]:
        """Count unsuccessful attempts by cause, most frequent first."""
        return self._scope.query(
            """
            SELECT COALESCE(cause, '') AS cause, COUNT(*) AS attempts, COUNT(DISTINCT task_id) AS tasks,
                CAST(SUM(seconds) AS DOUBLE PRECISION) AS seconds, CAST(SUM(cost_usd) AS DOUBLE PRECISION) AS cost_usd,
                MAX(started_at) AS latest
            FROM attempts WHERE project_id = :project_id AND outcome IS NOT NULL AND outcome <> 'done'
            GROUP BY COALESCE(cause, '') ORDER BY COUNT(*) DESC, COALESCE(cause, '')
            """
        )


def add_up(rows: Sequence[Row]) -> Row:
    """Add up rows grouped by outcome and handover: attempts, done, failed, seconds, cost and tokens.

    A handover does not count as done.
    """
    done = (row["attempts"] for row in rows if row["outcome"] == "done" and not row["is_handover"])
    failed = (row["attempts"] for row in rows if row["outcome"] in FAILED_OUTCOMES)
    sums = {name: sum((row[name] for row in rows), start=zero) for name, zero in _ZEROS.items()}
    return {**sums, "done": sum(done), "failed": sum(failed)}


def _finished_task(rows: Sequence[Row]) -> FinishedTask:
    from ralph.memory.lifecycle.estimates import FinishedTask

    return FinishedTask(
        task_type=rows[0]["task_kind"],
        attempts=len(rows),
        done=sum(row["outcome"] == "done" for row in rows),
        seconds=sum(row["seconds"] for row in rows),
        cost_usd=sum(row["cost_usd"] for row in rows),
        files=len({path for row in rows for path in from_json(row["files"])}),
        difficulty=next((row["difficulty"] for row in reversed(rows) if row["difficulty"]), ""),
        runs=tuple(dict.fromkeys(row["run_id"] for row in rows)),
        ended_at=rows[-1]["ended_at"],
    )


def _metrics(row: Row) -> TaskMetrics:
    return to_record(TaskMetrics, row, {"difficulty": Difficulty})
