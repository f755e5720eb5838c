"""Records a failed attempt that was made outside the loop."""

from __future__ import annotations

from ralph.core.errors import ConflictError
from ralph.core.records import AgentReply, SessionEnding, Sigils, TaskStatus, VerificationResult
from ralph.loop.options import RunOptions, apply_limits
from ralph.loop.outcome import OutcomeContext
from ralph.loop.settle import capture_attempt
from ralph.loop.workers import dead_workers, worker_name
from ralph.store.stats import OUTSIDE_AGENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.config import Config
    from ralph.core.records import Attempt, FailureReportSigil, Task
    from ralph.store import Store


def record_failure(
    store: Store, config: Config, id: str, report: FailureReportSigil, lease_seconds: float, at: str
) -> tuple[Attempt, Task]:
    """Record a failure of a pending task; return the attempt and the task as it is now."""
    attempts, tasks = store.attempts, store.tasks
    tasks.claims.release_expired()
    attempts.release_vanished(
        dead_workers({one.worker for one in attempts.running() if one.task_id == id and one.worker})
    )
    _require_pending(tasks.get(id))
    run = store.runs.start(OUTSIDE_AGENT)
    try:
        claim = attempts.begin(run.id, worker_name(), lease_seconds, agent=OUTSIDE_AGENT, task_id=id)
        if claim is None:
            _require_pending(tasks.get(id))
            raise _not_ready(store, id)
        capture = capture_attempt(
            claim.task,
            claim.attempt,
            AgentReply(text="", ending=SessionEnding.FINISHED, files=report.files),
            Sigils(failed_ids=(id,), report=report),
            VerificationResult(),
            OutcomeContext(
                metrics=claim.metrics,
                max_retries=config.execution.max_retries,
                run_options=apply_limits(RunOptions(), config.limits),
                used=store.stats.usage_of_task(claim.task),
            ),
            at=at,
        )
        attempts.finish(capture, claim.task.claim_token)
    finally:
        store.runs.end(run.id, "reported from outside the loop")
    return capture.attempt, tasks.get(id)


def _require_pending(task: Task) -> None:
    if task.status is TaskStatus.IN_PROGRESS:
        worker = f" by {task.claimed_by}" if task.claimed_by else ""
        raise ConflictError(f"{task.id} is in progress{worker}: its worker reports how it went.", code="task-claimed")
    if task.status is not TaskStatus.PENDING:
        raise ConflictError(
            f"{task.id} is {task.status}. To work on it again, first: ralph task reset {task.id}", code="task-closed"
        )


def _not_ready(store: Store, id: str) -> ConflictError:
    """Return why a pending task could not be claimed."""
    parts = store.tasks.graph.subtasks(id)
    if parts:
        return ConflictError(
            f"{id} is split into parts: report the failure for {parts[0].id} or another part.", code="task-has-parts"
        )
    task = store.tasks.get(id)
    needed = store.tasks.get_many(task.needs)
    waits = [other for other in task.needs if other in needed and needed[other].status is not TaskStatus.DONE]
    return ConflictError(
        f"{id} cannot start yet: {', '.join(waits) or 'a task above it'} comes first.", code="task-not-ready"
    )
