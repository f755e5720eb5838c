"""Store for attempts: claims, outcomes and the journal.

The row of an attempt is inserted when its task is claimed and completed when the attempt ends, so that even a
worker that is killed leaves a trace.
"""

from __future__ import annotations

from ralph.core.errors import ClaimLostError, NotFoundError, StoreError
from ralph.core.records import (
    EPISODE_PREFIX,
    Attempt,
    AttemptOutcome,
    Difficulty,
    ErrorType,
    FailureCause,
    Task,
    TaskMetrics,
    TaskStatus,
    now,
    record,
)
from ralph.memory.lifecycle.task_type import task_type_of
from ralph.store.rows import from_json, page_conditions, to_columns, to_record
from ralph.store.run_events import RunEventFeed
from ralph.store.stats import StatsStore
from ralph.store.tasks import TaskStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ralph.core.records import AttemptResult
    from ralph.store.database import ProjectScope, Row, WordMatches
    from ralph.store.memories import AddResult, MemoryStore
    from ralph.store.rows import Converters
    from ralph.store.settled import SettledAttempts

WORKER_VANISHED = "the worker vanished"
"""Reason stored with attempts whose worker disappeared."""


class TaskWasSplitError(Exception):
    """The task being claimed was split into subtasks by someone else."""


@record
class ClaimedAttempt:
    """A claimed task, its open attempt, and the metrics of the attempts before it."""

    task: Task
    attempt: Attempt
    metrics: TaskMetrics


class AttemptStore:
    """Attempts of a project."""

    def __init__(self, scope: ProjectScope) -> None:
        self._scope = scope
        self._events = RunEventFeed(scope)
        self._tasks = TaskStore(scope)

    @property
    def settled(self) -> SettledAttempts:
        """Attempts that have ended."""
        from ralph.store.settled import SettledAttempts

        return SettledAttempts(self._scope)

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
            return ClaimedAttempt(task=task, attempt=attempt, metrics=StatsStore(self._scope).metrics(task.id))

        self.close_vanished()
        while True:
            try:
                claimed = self._tasks.claims.claim(worker, lease_seconds, task_id, open_attempt)
                break
            except TaskWasSplitError:
                closed.clear()
        if closed:
            # A claim does not hold the project's write lock, which events need, so they follow in a transaction.
            with self._scope.transaction():
                for attempt in closed:
                    self._events.publish_attempt("attempt_ended", attempt)
        return claimed

    def record_start(self, attempt: Attempt) -> None:
        """Store how an attempt starts, so that others can see it and it survives the worker."""
        names = ("hat", "model", "model_reason", "shown", "with_memory", "start_commit")
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

        `is_retry` marks a retry of a call whose response was lost: if the first call succeeded, nothing is stored
        twice.
        """
        from ralph.store.episodes import EpisodeStore
        from ralph.store.held_changes import HeldChangeStore
        from ralph.store.memories import ChangeInfo, MemoryStore
        from ralph.store.questions import QuestionStore

        attempt, task_id = capture.attempt, capture.attempt.task_id
        assert task_id is not None
        with self._scope.transaction():
            if is_retry and (stored := self._stored_outcome(attempt)):
                if stored is not attempt.outcome:
                    raise ClaimLostError(task_id)
                return ()
            tasks, memories = self._tasks, MemoryStore(self._scope)
            has_claim = self._tasks.claims.settle(task_id, token, capture.task_status, capture.task_reason)
            lost = ClaimLostError(task_id)
            if not has_claim:
                from ralph.store.interrupted import as_interrupted

                attempt = as_interrupted(attempt, str(lost))
            # A task deleted meanwhile took its attempt with it; the memories are still added.
            if self._write(attempt):
                for line in capture.log if has_claim else (str(lost),):
                    tasks.log(task_id, line, "ralph")
                if capture.report and has_claim:
                    self._scope.insert("failures", **to_columns(capture.report))
                    self._index("failure", attempt)
                if capture.held and has_claim:
                    HeldChangeStore(self._scope).add(capture.held)
                if capture.question and has_claim:
                    QuestionStore(self._scope).add(capture.question)
                if capture.task_status is TaskStatus.DONE and has_claim:
                    HeldChangeStore(self._scope).discard(task_id)
                if capture.subtasks and has_claim:
                    tasks.split(task_id, capture.subtasks)
            change = ChangeInfo(who=attempt.agent, why=f"{attempt.run_id} iteration {attempt.iteration}")
            learned = tuple(memories.add(memory, change, told=attempt.shown) for memory in capture.memories)
            if capture.episodes:
                EpisodeStore(self._scope).add(capture.episodes)
            if has_claim and capture.affects_credit:
                self._credit_memories(attempt, memories)
            self._events.publish_attempt("attempt_ended", attempt)
        if not has_claim:
            raise lost
        return learned

    def agent_sessions(self) -> set[str]:
        """Return the ids that agents gave to the sessions of attempts."""
        rows = self._scope.query(
            "SELECT DISTINCT agent_session FROM attempts WHERE project_id = :project_id AND agent_session <> ''"
        )
        return {row["agent_session"] for row in rows}

    def _credit_memories(self, attempt: Attempt, memories: MemoryStore) -> None:
        """Credit an outcome once to all that was shown in this attempt, or to the hats that handed over to it."""
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
            won, usual = attempt.outcome is AttemptOutcome.DONE, StatsStore(self._scope).usual_success_rate(attempt)
            memories.credit_outcome(tuple(shown), attempt.ended_at or now(), won=won, usual_rate=usual)
            if episodes := [id for id in shown if id.startswith(EPISODE_PREFIX)]:
                from ralph.store.episodes import EpisodeStore

                EpisodeStore(self._scope).credit_outcome(episodes, won=won)

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
        from ralph.store.interrupted import as_interrupted

        for row in rows:
            closed = as_interrupted(row_to_attempt(row), WORKER_VANISHED)
            self._scope.update_where(
                "attempts",
                "outcome = :outcome, reason = :reason, error_type = NULL, cause = :cause, ended_at = :ended_at",
                # Its worker may be settling it at this moment.
                "run_id = :run AND iteration = :iteration AND outcome IS NULL",
                run=closed.run_id,
                iteration=closed.iteration,
                outcome=AttemptOutcome.INTERRUPTED.value,
                reason=closed.reason,
                cause=FailureCause.RALPH.value,
                ended_at=closed.ended_at,
            )
        return [row_to_attempt(row) for row in rows]

    def close_vanished(self) -> None:
        """Close attempts whose worker vanished or lost its claim."""
        if not self._vanished():
            return
        from ralph.store.interrupted import as_interrupted

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
            for task in self._tasks.claims.claimed():
                if task.claimed_by in vanished:
                    self._tasks.log(task.id, f"Released: {WORKER_VANISHED} ({task.claimed_by}).", "ralph")
                    # Has no effect if the lease ran out as well: ending the previous claim already released it.
                    self._tasks.claims.settle(task.id, task.claim_token, TaskStatus.PENDING)
                    recovered.append(task.id)
            self.close_vanished()
        return recovered

    # --- journal ---------------------------------------------------------------------

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

    def search(self, words: Mapping[str, float], limit: int, exclude_run: str = "") -> WordMatches:
        """Return rows of finished attempts whose notes, files or task contain the words, except those of a run."""
        return self._scope.database.words.search(
            "attempt",
            words,
            limit,
            "r.project_id = :project_id AND r.run_id <> :not_run AND r.outcome IS NOT NULL",
            below=self._start_of_latest(exclude_run),
            project_id=self._scope.project_id,
            not_run=exclude_run,
        )

    def _start_of_latest(self, run: str) -> int | None:
        """Return the first `seq` of a run that made all of the latest attempts, or None if others made some of them.

        Searching only what is older keeps a search as fast as at the start of the run.
        """
        newest = self._scope.query(
            "SELECT seq, run_id, iteration FROM attempts WHERE project_id = :project_id ORDER BY seq DESC LIMIT 1"
        )
        first = self._scope.query(
            """
            SELECT seq, run_id, iteration FROM attempts WHERE project_id = :project_id AND run_id = :run
            ORDER BY iteration LIMIT 1
            """,
            run=run,
        )
        if not first or newest[0]["run_id"] != run:
            return None
        between = newest[0]["seq"] - first[0]["seq"], newest[0]["iteration"] - first[0]["iteration"]
        return int(first[0]["seq"]) if between[0] == between[1] else None

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
        conditions, values = page_conditions(
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

    def running(self) -> list[Attempt]:
        """Return the attempts that have not ended."""
        rows = self._scope.query(
            # `+ 0` keeps SQLite from reading all attempts in index order to find these few.
            "SELECT * FROM attempts WHERE project_id = :project_id AND outcome IS NULL ORDER BY seq + 0"
        )
        return [row_to_attempt(row) for row in rows]

    def since_reset(self, task: Task, limit: int) -> list[tuple[Attempt, str]]:
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


_ATTEMPT: Converters = {
    "outcome": AttemptOutcome,
    "error_type": ErrorType,
    "cause": FailureCause,
    "difficulty": Difficulty,
    "files": from_json,
    "shown": from_json,
    "commits": from_json,
    "with_memory": bool,
    "excused": bool,
}


def row_to_attempt(row: Row) -> Attempt:
    """Return the attempt in a row."""
    return to_record(Attempt, row, _ATTEMPT)
