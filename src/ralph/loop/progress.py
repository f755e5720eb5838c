"""Events that a run emits to the terminal, the dashboard and `ralph watch`."""

from __future__ import annotations

from ralph.core.records import now, record, record_fields
from ralph.loop.outcome import most_informative_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ralph.core.records import Attempt, AttemptResult, GateResult, Prompt, PromptContext, Review, Task
    from ralph.loop.options import RunOptions
    from ralph.loop.reflect import ReflectionResult

    EventHandler = Callable[["ProgressEvent"], None]


@record
class ProgressEvent:
    """Event of a run.

    `what` is one of run_started, recovered, attempt_started, recalled, output, gate_started, gate_ended,
    review_started, review_ended, committed, merged, ignored, learned, heard, stale, attempt_ended, interrupted,
    waiting, waiting_for_limit, paused, budget_nearly_used, note, warning, extracted, consolidated, reflected,
    run_ended. With several workers, `details["worker"]` is the worker's number. `details["run"]` says how far the
    run is whenever an attempt starts or ends.
    """

    what: str
    at: str
    details: dict[str, object]


def progress_event(what: str, **details: object) -> ProgressEvent:
    """Return an event that happened now."""
    return ProgressEvent(what=what, at=now(), details=details)


def ignore_output_errors(emit: EventHandler) -> EventHandler:
    """Wrap an event handler so that it is disabled after an I/O error: a closed terminal must not end a session."""
    is_open = True

    def handle(event: ProgressEvent) -> None:
        nonlocal is_open
        if is_open:
            try:
                emit(event)
            except (OSError, ValueError):
                is_open = False

    return handle


def run_started_event(
    run_id: str,
    agent: str,
    model: str,
    ready: int,
    run_options: RunOptions,
    gates: Sequence[str],
    *,
    is_verified: bool,
    is_reviewed: bool,
    is_resumed: bool,
    used: Sequence[str],
    progress: Mapping[str, object],
    commit_note: str = "",
) -> ProgressEvent:
    """Return the event of a run that starts or resumes; `gates` are the configured ones, run or not.

    `commit_note` says why work is not committed, or by whom it is.
    """
    return progress_event(
        "run_started",
        run_id=run_id,
        agent=agent,
        model=model,
        ready=ready,
        only=run_options.only,
        gates=list(gates) if is_verified else [],
        gates_left_out=0 if is_verified else len(gates),
        is_reviewed=is_reviewed,
        workers=max(1, run_options.parallel),
        holdout=run_options.holdout,
        is_resumed=is_resumed,
        used=list(used),
        run=progress,
        commit_note=commit_note,
    )


def attempt_started_event(task: Task, attempt: Attempt, *, is_default_model: bool) -> ProgressEvent:
    """Return the event of a session that is about to start."""
    return progress_event(
        "attempt_started",
        iteration=attempt.iteration,
        task_id=task.id,
        title=task.title,
        attempt=attempt.number,
        agent=attempt.agent,
        model=attempt.model,
        model_reason=attempt.model_reason,
        is_default_model=is_default_model,
        hat=attempt.hat,
        with_memory=attempt.with_memory,
    )


def recalled_event(context: PromptContext, prompt: Prompt) -> ProgressEvent:
    """Return the event that lists what the prompt shows."""
    titles = {one.memory.id: one.memory.title for one in context.memories}
    titles |= {one.stated.id: one.stated.rule.text for one in context.rules if one.stated.id not in titles}
    return progress_event(
        "recalled",
        memories=[{"id": id, "title": titles[id]} for id in prompt.shown],
        past_work=len(prompt.episodes),
        journal=len(context.journal),
        previous_attempts=len(context.reports),
        advice=sum(bool(one.feedback) for one in context.attempts),
        tokens=prompt.tokens,
    )


def gate_event(command: str, result: GateResult | None, *, should_fail: bool = False) -> ProgressEvent:
    """Return the event of a gate that starts or, with a result, has ended.

    It `should_fail` when it runs with mutated tests, or with new tests but without the work.
    """
    if result is None:
        return progress_event("gate_started", command=command)
    return progress_event(
        "gate_ended",
        command=command,
        passed=result.passed,
        should_fail=should_fail,
        seconds=round(result.seconds, 3),
        detail="" if result.passed or should_fail else most_informative_line(result),
    )


def review_ended_event(review: Review) -> ProgressEvent:
    """Return the event of a review that has ended."""
    return progress_event(
        "review_ended", passed=review.passed, reason=review.reason, seconds=round(review.reply.seconds, 3)
    )


def reflected_event(result: ReflectionResult) -> ProgressEvent:
    """Return the event of an agent that has reflected on past work."""
    return progress_event(
        "reflected",
        agent=result.agent,
        added=len(result.added),
        proposals=len(result.proposals),
        refused=len(result.refused),
        problem=result.problem,
        cost_usd=result.cost_usd,
        spent_usd=result.spent_usd,
        limit_usd=result.limit_usd,
    )


def attempt_ended_event(attempt: Attempt, result: AttemptResult, used: Sequence[str]) -> ProgressEvent:
    """Return the event of an attempt that has ended, with its task's status and the usage of limits."""
    fields = {
        name: value
        for name, value in record_fields(attempt).items()
        if name not in ("run_id", "number", "feature_id", "agent", "worker", "shown", "started_at", "change_mark")
    }
    return progress_event(
        "attempt_ended",
        **fields,
        attempt=attempt.number,
        task_status=result.task_status,
        task_reason=result.task_reason,
        spent_limit=result.spent_limit,
        is_out_of_retries=result.is_out_of_retries,
        failed_check=result.failed_check,
        question=result.question.text if result.question else "",
        parts=[part.title for part in result.subtasks],
        used=[*used, *result.limits_used],
    )
