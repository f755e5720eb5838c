"""Events that a run emits to the terminal, the dashboard and `ralph watch`."""

from __future__ import annotations

from ralph.core.records import fields_of, now, record
from ralph.loop.settle import telling_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ralph.core.records import Attempt, Capture, GateResult, Prompt, Recollection, Review, Task
    from ralph.loop.options import Order

    Tell = Callable[["Event"], None]


@record
class Event:
    """Event of a run.

    `what` is one of run_started, recovered, attempt_started, recalled, output, gate_started, gate_ended,
    review_started, review_ended, merged, ignored, learned, heard, stale, attempt_ended, interrupted, waiting, note,
    warning, extracted, consolidated, run_ended. With several workers, `details["worker"]` is the worker's number.
    """

    what: str
    at: str
    details: dict[str, object]


def event(what: str, **details: object) -> Event:
    """Return an event that happened now."""
    return Event(what=what, at=now(), details=details)


def forgiving(tell: Tell) -> Tell:
    """Wrap an event handler so that it is disabled after an I/O error: a closed terminal must not end a session."""
    is_open = True

    def handle(event: Event) -> None:
        nonlocal is_open
        if is_open:
            try:
                tell(event)
            except (OSError, ValueError):
                is_open = False

    return handle


def run_started(
    run_id: str,
    agent: str,
    ready: int,
    order: Order,
    gates: Sequence[str],
    *,
    is_verified: bool,
    is_reviewed: bool,
    is_resumed: bool,
    used: Sequence[str],
) -> Event:
    """Return the event of a run that starts or resumes; `gates` are the configured ones, run or not."""
    return event(
        "run_started",
        run_id=run_id,
        agent=agent,
        ready=ready,
        only=order.only,
        gates=list(gates) if is_verified else [],
        gates_left_out=0 if is_verified else len(gates),
        is_reviewed=is_reviewed,
        workers=max(1, order.parallel),
        holdout=order.holdout,
        is_resumed=is_resumed,
        used=list(used),
    )


def attempt_started(task: Task, attempt: Attempt) -> Event:
    """Return the event of a session that is about to start."""
    return event(
        "attempt_started",
        iteration=attempt.iteration,
        task_id=task.id,
        title=task.title,
        attempt=attempt.number,
        model=attempt.model,
        model_reason=attempt.model_reason,
        hat=attempt.hat,
        with_memory=attempt.with_memory,
    )


def recalled(known: Recollection, prompt: Prompt) -> Event:
    """Return the event that lists what the prompt shows."""
    titles = {one.memory.id: one.memory.title for one in known.memories}
    return event(
        "recalled",
        memories=[{"id": id, "title": titles[id]} for id in prompt.shown],
        journal=len(known.journal),
        previous_attempts=len(known.reports),
        advice=len(known.interruptions),
        tokens=prompt.tokens,
    )


def gate(command: str, result: GateResult | None) -> Event:
    """Return the event of a gate that starts or, with a result, has ended."""
    if result is None:
        return event("gate_started", command=command)
    return event(
        "gate_ended",
        command=command,
        passed=result.passed,
        seconds=round(result.seconds, 3),
        detail="" if result.passed else telling_line(result),
    )


def reviewed(review: Review) -> Event:
    """Return the event of a review that has ended."""
    return event("review_ended", passed=review.passed, reason=review.reason, seconds=round(review.reply.seconds, 3))


def attempt_ended(attempt: Attempt, capture: Capture, used: Sequence[str]) -> Event:
    """Return the event of an attempt that has ended, with its task's status and the usage of limits."""
    fields = {
        name: value
        for name, value in fields_of(attempt).items()
        if name not in ("run_id", "number", "feature_id", "agent", "worker", "shown", "started_at", "change_mark")
    }
    return event(
        "attempt_ended",
        **fields,
        attempt=attempt.number,
        task_status=capture.task_status,
        task_reason=capture.task_reason,
        parts=[part.title for part in capture.subtasks],
        used=[*used, *capture.used],
    )
