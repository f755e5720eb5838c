"""Runs of this project as loop histories, from which learnings are extracted."""

from __future__ import annotations

from ralph.core.records import FAILED_OUTCOMES, AttemptOutcome
from ralph.memory.capture.extract import is_known_strategy
from ralph.memory.capture.statements import NO_REASON
from ralph.memory.lifecycle.loop_history import LoopHistory, LoopIteration
from ralph.memory.lifecycle.task_type import task_type_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.records import Attempt, FailureReport
    from ralph.store import Store


def run_histories(store: Store, run_id: str) -> list[LoopHistory]:
    """Return the history of a run, one for each type of task it worked on."""
    run = store.runs.get(run_id)
    groups: dict[str, tuple[list[str], list[LoopIteration]]] = {}
    for attempt in store.attempts.recent(run_id, max(run.iterations, 1)):
        if attempt.task_id is None or attempt.outcome is AttemptOutcome.INTERRUPTED or attempt.handed_to:
            continue
        task = store.tasks.get(attempt.task_id)
        objective = f"{task.title}\n{task.body}"
        kind = task_type_of(task.title, task.body)
        objectives, iterations = groups.setdefault(kind, ([], []))
        iterations.append(_iteration(store, attempt))
        if objective not in objectives:
            objectives.append(objective)
    return [
        LoopHistory(
            loop_id=run_id,
            objective=objectives[0],
            task_type=kind,
            tasks=len(objectives),
            iterations=tuple(iterations),
            is_complete=run.ended_at is not None,
        )
        for kind, (objectives, iterations) in groups.items()
    ]


def _iteration(store: Store, attempt: Attempt) -> LoopIteration:
    failed = attempt.outcome in FAILED_OUTCOMES
    report = store.failures.of_attempt(attempt) if failed else None
    learned = store.memories.listing.learned_in_attempt(attempt.run_id, attempt.task_id or "", attempt.number or 0)
    return LoopIteration(
        number=attempt.iteration,
        succeeded=attempt.outcome is AttemptOutcome.DONE,
        failed=failed,
        seconds=attempt.seconds,
        # What an attempt stated is a memory already; only its strategies are extracted here.
        learnings=tuple(filter(is_known_strategy, [*(memory.body for memory in learned), *attempt.notes.splitlines()])),
        files=attempt.files,
        error=_error(attempt, report) if failed else "",
    )


def _error(attempt: Attempt, report: FailureReport | None) -> str:
    """Return the error of a failed attempt, or an empty string if it gave no reason."""
    error = (report.trace or report.why) if report else attempt.reason
    return "" if error == NO_REASON else error
