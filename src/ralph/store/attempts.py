"""Store for runs and attempts: the journal, outcomes, metrics and failure reports.

The row of an attempt is inserted when its task is claimed and completed when the attempt ends, so that even a
worker that is killed leaves a trace. Statistics are computed by queries.
"""

from __future__ import annotations

from ralph.core.errors import ClaimLostError, NotFoundError, StoreError
from ralph.core.records import (
    Attempt,
    AttemptOutcome,
    Difficulty,
    ErrorType,
    FailureReport,
    ResourceUsage,
    Run,
    Task,
    TaskMetrics,
    TaskStatus,
    new_run_id,
    now,
    record,
    replace,
)
from ralph.memory.lifecycle.task_type import task_type_of
from ralph.store.memories import ChangeInfo, MemoryStore
from ralph.store.rows import from_json, to_columns, to_record
from ralph.store.tasks import TaskStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ralph.core.records import AttemptResult
    from ralph.store.database import ProjectScope, Row, WordMatches
    from ralph.store.memories import AddResult
    from ralph.store.rows import Converters
    from ralph.store.run_events import RunEventFeed

WORKER_VANISHED = "the worker vanished"
"""Reason stored with attempts whose worker disappeared."""
OUTSIDE_AGENT = "outside"
"""Agent name of runs that hold only reported work from outside the loop."""
MAX_COUNTED = 1_000
"""Maximum number of attempts that `count_since` looks at."""
SUCCESS_RATE_WINDOW = 100
"""Number of latest attempts from which the usual success rate is computed."""
SUCCESS_RATE_PRIOR = 4
"""Weight of the prior in the usual success rate, in attempts."""

_USED = """
    COUNT(CASE WHEN outcome = 'done' AND handed_to = '' THEN 1 END) AS done, COALESCE(SUM(seconds), 0) AS seconds,
    COALESCE(SUM(cost_usd), 0) AS cost_usd, COALESCE(SUM(tokens_in), 0) + COALESCE(SUM(tokens_out), 0) AS tokens
"""


class TaskWasSplitError(Exception):
    """The task being claimed was split into subtasks by someone else."""


@record
class ClaimedAttempt:
    """A claimed task, its open attempt, and the metrics of the attempts before it."""

    task: Task
    attempt: Attempt
    metrics: TaskMetrics


class AttemptStore:
    """Runs, attempts and failure reports of a project."""

    def __init__(self, scope: ProjectScope) -> None:
        self._scope = scope

    @property
    def _events(self) -> RunEventFeed:
        from ralph.store.run_events import RunEventFeed

        return RunEventFeed(self._scope)

    # --- runs ----------------------------------------------------------------------

    def start_run(self, agent: str, options: str = "") -> Run:
        """Create a run. `options` are its options as JSON."""
        run = Run(id=new_run_id(), agent=agent, started_at=now(), options=options)
        with self._scope.transaction():
            self._scope.insert("runs", **to_columns(run))
            self._events.publish_run("run_started", run.id)
        return run

    def resume_run(self, id: str, options: str) -> Run:
        """Reopen a run that has ended. Its iterations continue to be numbered."""
        with self._scope.transaction():
            self.run(id)
            self._scope.execute(
                """
                UPDATE runs SET ended_at = NULL, ending = '', options = :options
                WHERE project_id = :project_id AND id = :id
                """,
                id=id,
                options=options,
            )
            self._events.publish_run("run_started", id)
        return self.run(id)

    def end_run(self, id: str, ending: str, seconds: float | None = None) -> None:
        """Record why a run stopped and its total working time in seconds."""
        with self._scope.transaction():
            self._scope.execute(
                """
                UPDATE runs SET ended_at = :at, ending = :ending, seconds = COALESCE(:seconds, seconds)
                WHERE project_id = :project_id AND id = :id
                """,
                id=id,
                at=now(),
                ending=ending,
                seconds=seconds,
            )
            self._events.publish_run("run_ended", id)
            self._events.trim()
        from ralph.store.index import reindex_outdated

        reindex_outdated(self._scope)
        self._scope.database.optimize_indexes()

    def runs(self, limit: int, before: str = "") -> list[Run]:
        """Return the latest runs, newest first, or those before a run. Finished runs without iterations are skipped."""
        paging = "AND seq < (SELECT seq FROM runs WHERE project_id = :project_id AND id = :before)" if before else ""
        rows = self._scope.query(
            f"""
            SELECT * FROM runs WHERE project_id = :project_id AND (iterations > 0 OR ended_at IS NULL)
                AND agent <> :outside {paging}
            ORDER BY seq DESC LIMIT :limit
            """,
            limit=limit,
            outside=OUTSIDE_AGENT,
            **({"before": before} if before else {}),
        )
        return [_run(row) for row in rows]

    def run(self, id: str) -> Run:
        """Return a run, or raise `NotFoundError`."""
        rows = self._scope.query("SELECT * FROM runs WHERE project_id = :project_id AND id = :id", id=id)
        if not rows:
            raise NotFoundError("Run", id)
        return _run(rows[0])

    # --- life of an attempt ----------------------------------------------------------

    def begin(
        self,
        run: str,
        worker: str,
        lease_seconds: float,
        *,
        agent: str,
        task_id: str | None = None,
        with_memory: bool = True,
        holdout: float = 0.0,
    ) -> ClaimedAttempt | None:
        """Claim the first ready task and open an attempt in one step. Return None if no task is ready.

        Attempts that vanished workers left open are closed as interrupted.
        """
        closed: list[Attempt] = []

        def open_attempt(task: Task) -> ClaimedAttempt:
            updated_runs = self._scope.query(
                "UPDATE runs SET iterations = iterations + 1 WHERE project_id = :project_id AND id = :id"
                " RETURNING iterations",
                id=run,
            )
            if not updated_runs:
                raise StoreError(
                    f"{run} is no longer in the database. Start a new one with: ralph run", code="run-deleted"
                )
            earlier = self._scope.query(
                """
                SELECT MAX(number) AS n, COUNT(*) - COUNT(outcome) AS open, (
                    SELECT COUNT(*) FROM tasks AS c WHERE c.project_id = :project_id AND c.parent_id = :id
                ) AS parts FROM attempts WHERE project_id = :project_id AND task_id = :id
                """,
                id=task.id,
            )[0]
            if earlier["parts"]:
                raise TaskWasSplitError  # it was split between the readiness check and the claim
            if earlier["open"]:
                closed.extend(self._close_open(task.id))
            attempt = Attempt(
                run_id=run,
                iteration=updated_runs[0]["iterations"],
                task_id=task.id,
                number=(earlier["n"] or 0) + 1,
                feature_id=task.feature_id,
                agent=agent,
                with_memory=with_memory,
                holdout=holdout,
                task_kind=task_type_of(task.title, task.body),
                worker=worker,
                started_at=now(),
            )
            self._scope.insert("attempts", **to_columns(attempt))
            return ClaimedAttempt(task=task, attempt=attempt, metrics=self.metrics(task.id))

        self._close_vanished()
        while True:
            try:
                begun = TaskStore(self._scope).claim_and(worker, lease_seconds, task_id, open_attempt)
                break
            except TaskWasSplitError:
                closed.clear()
        if closed:
            # A claim does not hold the project's write lock, which events need, so they follow in a transaction.
            with self._scope.transaction():
                for attempt in closed:
                    self._events.publish_attempt("attempt_ended", attempt)
        return begun

    def record_start(self, attempt: Attempt) -> None:
        """Store how an attempt starts, so that others can see it and it survives the worker."""
        names = ("hat", "model", "model_reason", "shown", "with_memory")
        values = to_columns(attempt)
        with self._scope.transaction():
            self._scope.update_where(
                "attempts",
                ", ".join(f"{name} = :{name}" for name in names),
                "run_id = :run AND iteration = :iteration AND outcome IS NULL",
                run=attempt.run_id,
                iteration=attempt.iteration,
                **{name: values[name] for name in names},
            )
            self._events.publish_attempt("attempt_started", attempt)

    def finish(self, capture: AttemptResult, token: int, *, is_retry: bool = False) -> tuple[AddResult, ...]:
        """Settle an attempt in one transaction: its row, report, memories and task status.

        Return the results of adding the memories. If the claim was lost, the attempt and its memories are still
        stored, but the task is left alone and `ClaimLostError` is raised.

        `is_again` marks a retry of a call whose response was lost: if the first call succeeded, nothing is stored
        twice.
        """
        attempt, task_id = capture.attempt, capture.attempt.task_id
        assert task_id is not None
        with self._scope.transaction():
            if is_retry and (stored := self._stored_outcome(attempt)):
                if stored is not attempt.outcome:
                    raise ClaimLostError(task_id)
                return ()
            tasks, memories = TaskStore(self._scope), MemoryStore(self._scope)
            has_claim = tasks.try_settle(task_id, token, capture.task_status, capture.task_reason)
            lost = ClaimLostError(task_id)
            if not has_claim:
                attempt = as_interrupted(attempt, str(lost))
            # A task deleted meanwhile took its attempt with it; the memories are still added.
            if self._write(attempt):
                for line in capture.log if has_claim else (str(lost),):
                    tasks.log(task_id, line, "ralph")
                if capture.report and has_claim:
                    self._scope.insert("failures", **to_columns(capture.report))
                    self._index("failure", attempt)
                if capture.subtasks and has_claim:
                    tasks.split(task_id, capture.subtasks)
            change = ChangeInfo(who=attempt.agent, why=f"{attempt.run_id} iteration {attempt.iteration}")
            learned = tuple(memories.add(memory, change) for memory in capture.memories)
            if has_claim and capture.affects_credit:
                self._credit_memories(attempt, memories)
            self._events.publish_attempt("attempt_ended", attempt)
        if not has_claim:
            raise lost
        return learned

    def _usual_success_rate(self, attempt: Attempt) -> float:
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

    def _credit_memories(self, attempt: Attempt, memories: MemoryStore) -> None:
        """Credit an outcome once to each memory shown in this attempt or to the hats that handed over to it."""
        if attempt.outcome is AttemptOutcome.INTERRUPTED or (
            attempt.outcome is AttemptOutcome.DONE and attempt.handed_to
        ):
            return
        rows = self._scope.query(
            """
            SELECT shown FROM attempts WHERE project_id = :project_id AND task_id = :task AND number < :number
                AND outcome = 'done' AND handed_to <> '' AND number > COALESCE((
                    SELECT MAX(b.number) FROM attempts AS b WHERE b.project_id = :project_id AND b.task_id = :task
                        AND b.number < :number AND (b.outcome IN ('failed', 'retried', 'blocked', 'error')
                            OR (b.outcome = 'done' AND b.handed_to = ''))
                ), 0)
            """,
            task=attempt.task_id,
            number=attempt.number,
        )
        shown = dict.fromkeys((*(id for row in rows for id in from_json(row["shown"])), *attempt.shown))
        if shown:
            won, usual = attempt.outcome is AttemptOutcome.DONE, self._usual_success_rate(attempt)
            memories.credit_outcome(tuple(shown), attempt.ended_at or now(), won=won, usual_rate=usual)

    def _stored_outcome(self, attempt: Attempt) -> AttemptOutcome | None:
        """Return the outcome this attempt was settled with before, which differs if its claim was lost."""
        rows = self._scope.query(
            """
            SELECT outcome FROM attempts WHERE project_id = :project_id AND run_id = :run AND iteration = :iteration
                AND outcome IS NOT NULL AND ended_at = :ended_at AND worker = :worker
            """,
            run=attempt.run_id,
            iteration=attempt.iteration,
            ended_at=attempt.ended_at,
            worker=attempt.worker,
        )
        return AttemptOutcome(rows[0]["outcome"]) if rows else None

    def _write(self, attempt: Attempt) -> bool:
        key = {"run_id": attempt.run_id, "iteration": attempt.iteration}
        exists = self._scope.update("attempts", key, to_columns(attempt))
        if exists and attempt.notes:
            self._index("attempt", attempt)
        return exists

    def _index(self, index: str, attempt: Attempt) -> None:
        from ralph.store.index import index_rows

        condition = "r.run_id = :run_id AND r.iteration = :iteration"
        index_rows(self._scope, index, condition, run_id=attempt.run_id, iteration=attempt.iteration)

    def _close_open(self, task_id: str) -> list[Attempt]:
        """Close and return open attempts of earlier workers at a task that was just claimed."""
        rows = self._scope.query(
            "SELECT * FROM attempts WHERE project_id = :project_id AND outcome IS NULL AND task_id = :id", id=task_id
        )
        for row in rows:
            closed = as_interrupted(row_to_attempt(row), WORKER_VANISHED)
            self._scope.update_where(
                "attempts",
                "outcome = :outcome, reason = :reason, error_type = NULL, ended_at = :ended_at",
                # Its worker may be settling it at this moment.
                "run_id = :run AND iteration = :iteration AND outcome IS NULL",
                run=closed.run_id,
                iteration=closed.iteration,
                outcome=AttemptOutcome.INTERRUPTED.value,
                reason=closed.reason,
                ended_at=closed.ended_at,
            )
        return [row_to_attempt(row) for row in rows]

    def _close_vanished(self) -> None:
        """Close attempts whose worker vanished or lost its claim."""
        if not self._vanished():
            return
        with self._scope.transaction():
            for row in self._vanished():
                self._write(as_interrupted(row_to_attempt(row), WORKER_VANISHED))
                self._events.publish_attempt("attempt_ended", row_to_attempt(row))

    def _vanished(self) -> list[Row]:
        return self._scope.query(
            """
            SELECT a.* FROM attempts AS a CROSS JOIN tasks AS t
            WHERE a.project_id = :project_id AND a.outcome IS NULL
                AND t.project_id = a.project_id AND t.id = a.task_id
                AND (t.status <> 'in_progress' OR t.claimed_by IS NULL)
            """
        )

    def release_vanished(self, vanished: Collection[str]) -> list[str]:
        """Release the claims of workers known to be gone, and return the ids of their tasks."""
        recovered = []
        with self._scope.transaction():
            tasks = TaskStore(self._scope)
            for task in tasks.claimed():
                if task.claimed_by in vanished:
                    tasks.log(task.id, f"Released: {WORKER_VANISHED} ({task.claimed_by}).", "ralph")
                    # Has no effect if the lease ran out as well: ending the previous claim already released it.
                    tasks.try_settle(task.id, task.claim_token, TaskStatus.PENDING)
                    recovered.append(task.id)
            self._close_vanished()
        return recovered

    # --- journal -------------------------------------------------------------------

    def recent(self, run: str, limit: int) -> list[Attempt]:
        """Return the latest finished attempts of a run, oldest first."""
        rows = self._scope.query(
            """
            SELECT * FROM attempts WHERE project_id = :project_id AND run_id = :run AND outcome IS NOT NULL
            ORDER BY iteration DESC LIMIT :limit
            """,
            run=run,
            limit=limit,
        )
        return [row_to_attempt(row) for row in reversed(rows)]

    def search_journal(self, words: Mapping[str, float], limit: int, exclude_run: str = "") -> WordMatches:
        """Return rows of finished attempts whose notes, files or task contain the words, except those of a run."""
        return self._scope.database.search_words(
            "attempt",
            words,
            limit,
            "r.project_id = :project_id AND r.run_id <> :not_run AND r.outcome IS NOT NULL",
            project_id=self._scope.project_id,
            not_run=exclude_run,
        )

    def tasks_with_failure(self, fingerprint: str) -> set[str]:
        """Return the ids of tasks that had a failure with this fingerprint."""
        rows = self._scope.query(
            "SELECT DISTINCT task_id FROM failures WHERE project_id = :project_id AND fingerprint = :fingerprint",
            fingerprint=fingerprint,
        )
        return {row["task_id"] for row in rows}

    def same_failures(self, fingerprint: str, limit: int, exclude_task: str = "") -> list[FailureReport]:
        """Return the latest reports of the same failure, newest first, except those of a task."""
        rows = self._scope.query(
            """
            SELECT * FROM failures
            WHERE project_id = :project_id AND fingerprint = :fingerprint AND task_id <> :not_task
            ORDER BY seq DESC LIMIT :limit
            """,
            fingerprint=fingerprint,
            not_task=exclude_task,
            limit=limit,
        )
        return [row_to_failure_report(row) for row in rows]

    def search_failures(self, words: Mapping[str, float], limit: int, exclude_task: str = "") -> WordMatches:
        """Return rows of failure reports that contain the words, except those of a task."""
        return self._scope.database.search_words(
            "failure",
            words,
            limit,
            "r.project_id = :project_id AND r.task_id <> :not_task",
            project_id=self._scope.project_id,
            not_task=exclude_task,
        )

    def latest(
        self, limit: int, *, run: str | None = None, task: str | None = None, outcome: AttemptOutcome | None = None
    ) -> list[Attempt]:
        """Return the latest attempts, including running ones, newest first."""
        return [attempt for attempt, _ in self.page(limit, run=run, task=task, outcome=outcome)]

    def page(
        self,
        limit: int,
        before: int | None = None,
        *,
        run: str | None = None,
        task: str | None = None,
        outcome: AttemptOutcome | None = None,
    ) -> list[tuple[Attempt, int]]:
        """Return attempts, newest first, each with its cursor. Pass a cursor as `before` to get the next page."""
        # The order is the same in each case; the column decides which index is used.
        order = "number" if task else "iteration" if run else "seq"
        conditions, values = _conditions(
            order, before, run_id=run, task_id=task, outcome=outcome.value if outcome else None
        )
        rows = self._scope.query(
            f"SELECT * FROM attempts WHERE project_id = :project_id{conditions} ORDER BY {order} DESC LIMIT :limit",
            **values,
            limit=limit,
        )
        return [(row_to_attempt(row), int(row[order])) for row in rows]

    def get(self, run: str, iteration: int) -> Attempt:
        """Return an attempt by its run and iteration."""
        rows = self._scope.query(
            "SELECT * FROM attempts WHERE project_id = :project_id AND run_id = :run AND iteration = :iteration",
            run=run,
            iteration=iteration,
        )
        if not rows:
            raise NotFoundError("Journal entry", f"{run}/{iteration}")
        return row_to_attempt(rows[0])

    def attempts_since_reset(self, task: Task, limit: int) -> list[tuple[Attempt, str]]:
        """Return finished attempts at a task since it was last done or reset, newest first.

        Each comes with the fingerprint of its failure, or an empty string.
        """
        rows = self._scope.query(
            """
            SELECT a.*, COALESCE(f.fingerprint, '') AS fingerprint FROM attempts AS a
            LEFT JOIN failures AS f
                ON f.project_id = a.project_id AND f.run_id = a.run_id AND f.iteration = a.iteration
            WHERE a.project_id = :project_id AND a.task_id = :task AND a.outcome IS NOT NULL
                AND a.number > :reset_after AND a.number > COALESCE((
                    SELECT MAX(d.number) FROM attempts AS d WHERE d.project_id = :project_id AND d.task_id = :task
                        AND d.outcome = 'done' AND d.handed_to = ''), 0)
            ORDER BY a.number DESC LIMIT :limit
            """,
            task=task.id,
            reset_after=task.reset_after,
            limit=limit,
        )
        return [(row_to_attempt(row), str(row["fingerprint"])) for row in rows]

    def usage_of_task(self, task: Task) -> ResourceUsage:
        """Return the resources a task has used since a person last reset it."""
        rows = self._scope.query(
            f"""
            SELECT COUNT(*) AS iterations, {_USED}
            FROM attempts WHERE project_id = :project_id AND task_id = :task AND number > :reset_after
                AND outcome IS NOT NULL
            """,
            task=task.id,
            reset_after=task.reset_after,
        )
        return to_record(ResourceUsage, rows[0], {})

    def usage_of_run(self, run: str) -> ResourceUsage:
        """Return the resources used by the attempts of a run."""
        rows = self._scope.query(
            f"""
            SELECT COUNT(*) AS iterations, {_USED}
            FROM attempts WHERE project_id = :project_id AND run_id = :run
            """,
            run=run,
        )
        return to_record(ResourceUsage, rows[0], {})

    def was_planned(self, task: str) -> bool:
        """Return whether a planner has completed its part of a task."""
        return bool(
            self._scope.query(
                """
                SELECT 1 FROM attempts WHERE project_id = :project_id AND task_id = :task AND hat = 'planner'
                    AND outcome = 'done' LIMIT 1
                """,
                task=task,
            )
        )

    def completion_notes(self, task: str) -> str:
        """Return the notes of the attempt that completed a task, or an empty string."""
        rows = self._scope.query(
            """
            SELECT notes FROM attempts WHERE project_id = :project_id AND task_id = :task AND outcome = 'done'
                AND handed_to = ''
            ORDER BY number DESC LIMIT 1
            """,
            task=task,
        )
        return str(rows[0]["notes"]) if rows else ""

    # --- statistics ------------------------------------------------------------------

    def metrics(self, task: str) -> TaskMetrics:
        """Return the metrics of a task."""
        rows = self._scope.query(
            "SELECT *, difficulty_estimate AS difficulty FROM strategy_metrics"
            " WHERE project_id = :project_id AND task_id = :task",
            task=task,
        )
        if not rows:
            raise NotFoundError("Task", task)
        return _metrics(rows[0])

    def failing_tasks(self, limit: int = 20) -> tuple[list[TaskMetrics], int]:
        """Return metrics of open tasks that failed since they last succeeded or were reset, worst first.

        The second value is the total number of such tasks.
        """
        rows = self._scope.query(
            """
            SELECT m.*, m.difficulty_estimate AS difficulty, worst.in_all FROM (
                SELECT t.id, t.seq, s.failures_since_reset AS failures, COUNT(*) OVER () AS in_all FROM tasks AS t
                JOIN strategy_metrics AS s ON s.project_id = t.project_id AND s.task_id = t.id
                WHERE t.project_id = :project_id AND t.status IN ('pending', 'in_progress')
                    AND s.failures_since_reset > 0 AND NOT EXISTS (
                        SELECT 1 FROM tasks AS c WHERE c.project_id = t.project_id AND c.parent_id = t.id
                    )
                ORDER BY s.failures_since_reset DESC, t.seq LIMIT :limit
            ) AS worst JOIN strategy_metrics AS m ON m.project_id = :project_id AND m.task_id = worst.id
            ORDER BY worst.failures DESC, worst.seq
            """,
            limit=limit,
        )
        return [_metrics(row) for row in rows], rows[0]["in_all"] if rows else 0

    def running(self) -> list[Attempt]:
        """Return the attempts that have not ended."""
        rows = self._scope.query(
            # `+ 0` keeps SQLite from reading all attempts in index order to find these few.
            "SELECT * FROM attempts WHERE project_id = :project_id AND outcome IS NULL ORDER BY seq + 0"
        )
        return [row_to_attempt(row) for row in rows]

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

    def totals(self) -> Row:
        """Return attempts, time, cost and tokens of the whole project. A handover does not count as done."""
        from ralph.store.aggregates import StatsStore, add_up

        return add_up(StatsStore(self._scope).group_by("outcome", "is_handover"))

    # --- failure reports -----------------------------------------------------------

    def reports(self, limit: int, *, task: str | None = None, category: str | None = None) -> list[FailureReport]:
        """Return failure reports, newest first."""
        return [report for report, _ in self.page_reports(limit, task=task, category=category)]

    def page_reports(
        self,
        limit: int,
        before: int | None = None,
        *,
        task: str | None = None,
        category: str | None = None,
        fingerprint: str | None = None,
    ) -> list[tuple[FailureReport, int]]:
        """Return failure reports, newest first, each with its cursor, as in `placed`."""
        conditions, values = _conditions("seq", before, task_id=task, category=category, fingerprint=fingerprint)
        rows = self._scope.query(
            f"SELECT * FROM failures WHERE project_id = :project_id{conditions} ORDER BY seq DESC LIMIT :limit",
            **values,
            limit=limit,
        )
        return [(row_to_failure_report(row), int(row["seq"])) for row in rows]

    def report_of(self, attempt: Attempt) -> FailureReport | None:
        """Return the failure report of an attempt, or None."""
        rows = self._scope.query(
            "SELECT * FROM failures WHERE project_id = :project_id AND run_id = :run AND iteration = :iteration",
            run=attempt.run_id,
            iteration=attempt.iteration,
        )
        return row_to_failure_report(rows[0]) if rows else None

    def report_counts(self) -> list[Row]:
        """Count failures by category, most frequent first."""
        return self._scope.query(
            """
            SELECT category, COUNT(*) AS failures, COUNT(DISTINCT task_id) AS tasks, MAX(created_at) AS latest
            FROM failures WHERE project_id = :project_id GROUP BY category ORDER BY COUNT(*) DESC, category
            """
        )

    def report_groups(self, limit: int) -> list[tuple[Row, FailureReport]]:
        """Group failures by fingerprint, most frequent first, each with its latest report."""
        rows = self._scope.query(
            """
            SELECT f.*, g.failures, g.tasks, g.first FROM (
                SELECT COUNT(*) AS failures, COUNT(DISTINCT task_id) AS tasks, MIN(created_at) AS first,
                    MAX(seq) AS latest FROM failures
                WHERE project_id = :project_id AND fingerprint <> '' GROUP BY fingerprint
                ORDER BY COUNT(*) DESC, MAX(seq) DESC LIMIT :limit
            ) AS g JOIN failures AS f ON f.project_id = :project_id AND f.seq = g.latest
            ORDER BY g.failures DESC, f.seq DESC
            """,
            limit=limit,
        )
        return [(row, row_to_failure_report(row)) for row in rows]

    # --- changes since an event --------------------------------------------------------

    def changed_between(self, since: int, until: int) -> list[Attempt]:
        """Return the attempts changed by the events after `since`, up to and including `until`."""
        rows = self._scope.query(
            """
            SELECT a.* FROM (
                SELECT DISTINCT run_id, iteration FROM run_events
                WHERE project_id = :project_id AND seq > :since AND seq <= :until AND iteration IS NOT NULL
            ) AS e JOIN attempts AS a
                ON a.project_id = :project_id AND a.run_id = e.run_id AND a.iteration = e.iteration
            """,
            since=since,
            until=until,
        )
        return [row_to_attempt(row) for row in rows]

    def runs_changed_between(self, since: int, until: int) -> list[Run]:
        """Return the runs changed by the events after `since`, up to and including `until`."""
        rows = self._scope.query(
            """
            SELECT * FROM runs WHERE project_id = :project_id AND id IN (
                SELECT run_id FROM run_events WHERE project_id = :project_id AND seq > :since AND seq <= :until
            )
            """,
            since=since,
            until=until,
        )
        return [_run(row) for row in rows]


def as_interrupted(attempt: Attempt, reason: str) -> Attempt:
    """Return the attempt with the outcome `interrupted`."""
    return replace(
        attempt, outcome=AttemptOutcome.INTERRUPTED, reason=reason, error_type=None, ended_at=attempt.ended_at or now()
    )


def _conditions(order: str, before: int | None, **filters: str | None) -> tuple[str, dict[str, object]]:
    """Return SQL conditions for the filters that are set and the cursor, and their values."""
    values: dict[str, object] = {name: value for name, value in filters.items() if value is not None}
    conditions = "".join(f" AND {name} = :{name}" for name in values)
    if before is not None:
        conditions += f" AND {order} < :before"
        values["before"] = before
    return conditions, values


def _run(row: Row) -> Run:
    return to_record(Run, row, {})


def _metrics(row: Row) -> TaskMetrics:
    return to_record(TaskMetrics, row, {"difficulty": Difficulty})


_ATTEMPT: Converters = {
    "outcome": AttemptOutcome,
    "error_type": ErrorType,
    "difficulty": Difficulty,
    "files": from_json,
    "shown": from_json,
    "with_memory": bool,
    "excused": bool,
}


def row_to_attempt(row: Row) -> Attempt:
    """Return the attempt in a row."""
    return to_record(Attempt, row, _ATTEMPT)


def row_to_failure_report(row: Row) -> FailureReport:
    """Return the failure report in a row."""
    return to_record(FailureReport, row, {"files": from_json})
