"""Records a failed attempt that was made outside the loop."""

from __future__ import annotations

from ralph.core.errors import ConflictError
from ralph.core.records import AgentReply, SessionEnding, Sigils, TaskStatus, VerificationResult, replace
from ralph.loop.options import RunOptions, apply_limits
from ralph.loop.outcome import OutcomeContext
from ralph.loop.settle import capture_attempt
from ralph.loop.workers import dead_workers, worker_name
from ralph.store.attempts import ClaimedAttempt
from ralph.store.stats import OUTSIDE_AGENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.config import Config
    from ralph.core.records import Attempt, FailureReportSigil, HeldChange, Task
    from ralph.store import Store


def record_failure(
    store: Store, config: Config, id: str, report: FailureReportSigil, lease_seconds: float, at: str
) -> tuple[Attempt, Task]:
    """Record a failure of a task that is pending or claimed here; return the attempt and the task as it is now."""
    attempts, tasks = store.attempts, store.tasks
    tasks.claims.release_expired()
    attempts.release_vanished(
        dead_workers({one.worker for one in attempts.running() if one.task_id == id and one.worker})
    )
    claim = own_claim(store, tasks.get(id))
    run_id = claim.attempt.run_id if claim else ""
    held = _unfinished_change(store, claim) if claim else None
    try:
        if claim is None:
            require_pending(tasks.get(id))
            run_id = store.runs.start(OUTSIDE_AGENT).id
            claim = attempts.begin(run_id, worker_name(), lease_seconds, agent=OUTSIDE_AGENT, task_id=id)
        if claim is None:
            require_pending(tasks.get(id))
            raise not_ready_error(store, id)
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
        attempts.finish(replace(capture, held=held), claim.task.claim_token)
    finally:
        if run_id:
            store.runs.end(run_id, "reported from outside the loop")
    return capture.attempt, tasks.get(id)


def own_claim(store: Store, task: Task) -> ClaimedAttempt | None:
    """Return the claim on a task that an agent outside the loop got from this process, with its open attempt."""
    if task.status is not TaskStatus.IN_PROGRESS:
        return None
    for attempt in store.attempts.running():
        if (attempt.task_id, attempt.agent, attempt.worker) == (task.id, OUTSIDE_AGENT, task.claimed_by):
            is_ours = attempt.worker == worker_name()
            return ClaimedAttempt(task=task, attempt=attempt, metrics=store.stats.metrics(task.id)) if is_ours else None
    return None


def _unfinished_change(store: Store, claim: ClaimedAttempt) -> HeldChange | None:
    from ralph.loop.outside import unfinished_change

    return unfinished_change(store, claim)


def require_pending(task: Task) -> None:
    """Raise `ConflictError` unless a task is pending."""
    if task.status is TaskStatus.IN_PROGRESS:
        worker = f" by {task.claimed_by}" if task.claimed_by else ""
        raise ConflictError(f"{task.id} is in progress{worker}: its worker reports how it went.", code="task-claimed")
    if task.status is not TaskStatus.PENDING:
        raise ConflictError(
            f"{task.id} is {task.status}. To work on it again, first: ralph task reset {task.id}", code="task-closed"
        )


def not_ready_error(store: Store, id: str) -> ConflictError:
    """Return why a pending task could not be claimed."""
    parts = store.tasks.graph.subtasks(id)
    if parts:
        return ConflictError(f"{id} is split into parts: name {parts[0].id} or another part.", code="task-has-parts")
    task = store.tasks.get(id)
    needed = store.tasks.get_many(task.needs)
    waits = [other for other in task.needs if other in needed and needed[other].status is not TaskStatus.DONE]
    return ConflictError(
        f"{id} cannot start yet: {', '.join(waits) or 'a task above it'} comes first.", code="task-not-ready"
    )
