"""What the runs of this project teach: extraction from their attempts, staging, validation and promotion."""

from __future__ import annotations

from ralph.core.records import FAILED_OUTCOMES, LIMIT_CATEGORIES, AttemptOutcome, MemorySource, MemoryState, now, record
from ralph.memory.capture.extract import extract_learnings, is_known_strategy
from ralph.memory.capture.statements import NO_REASON
from ralph.memory.lifecycle.loop_history import LoopHistory, LoopIteration
from ralph.memory.lifecycle.staging import needs_more_data, rejection_reason
from ralph.memory.lifecycle.task_type import task_type_of
from ralph.store.memory_queries import MemoryFilter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ralph.core.records import Attempt, FailureReport, Memory
    from ralph.store import Store
    from ralph.store.memories import ChangeInfo


@record
class LearningCounts:
    """Numbers of learnings by what happened to them."""

    extracted: int = 0
    merged: int = 0
    """Extracted learnings that supported an existing one."""
    validated: int = 0
    rejected: int = 0
    waiting: int = 0
    """Estimates that need more data before they are validated."""
    promoted: int = 0


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
        learnings=tuple(
            filter(is_known_strategy, [*(memory.content for memory in learned), *attempt.notes.splitlines()])
        ),
        files=attempt.files,
        error=_error(attempt, report) if failed else "",
    )


def _error(attempt: Attempt, report: FailureReport | None) -> str:
    """Return the error of a failed attempt, or an empty string if it gave no reason to learn from."""
    if report and report.category in LIMIT_CATEGORIES:
        return ""
    error = (report.trace or report.why) if report else attempt.reason
    return "" if error == NO_REASON else error


def stage_learnings(store: Store, histories: Iterable[LoopHistory], change: ChangeInfo) -> LearningCounts:
    """Extract learnings from histories and stage them; known ones gain support instead."""
    with store.transaction():
        at = now()
        results = [store.memories.add(one, change) for history in histories for one in extract_learnings(history, at)]
    return LearningCounts(extracted=len(results), merged=sum(result.what != "added" for result in results))


def staged_learnings(store: Store) -> list[Memory]:
    """Return staged memories, oldest first."""
    return list(store.memories.find(MemoryFilter(states=(MemoryState.STAGED,))))[::-1]


def validate_learnings(store: Store, change: ChangeInfo, *, only_extracted: bool = False) -> LearningCounts:
    """Validate or reject pending learnings by the rules."""
    validated = rejected = waiting = 0
    with store.transaction():
        at = now()
        for memory in staged_learnings(store):
            if memory.validated_at or (only_extracted and memory.source is not MemorySource.AUTOMATIC):
                continue
            reason = rejection_reason(memory)
            if reason and needs_more_data(memory):
                waiting += 1
            elif reason:
                rejected += 1
                store.memories.update(
                    memory.id, "rejected", change, state=MemoryState.REJECTED, state_reason=reason, updated_at=at
                )
            else:
                validated += 1
                store.memories.update(memory.id, "validated", change, validated_at=at, updated_at=at)
    return LearningCounts(validated=validated, rejected=rejected, waiting=waiting)


def promote_learnings(
    store: Store, change: ChangeInfo, ids: Sequence[str] = (), *, only_extracted: bool = False
) -> LearningCounts:
    """Activate validated learnings: all of them, or those with the given ids."""
    with store.transaction():
        at = now()
        ready = [
            one
            for one in staged_learnings(store)
            if one.validated_at
            and (not ids or one.id in ids)
            and (not only_extracted or one.source is MemorySource.AUTOMATIC)
        ]
        for memory in ready:
            store.memories.update(memory.id, "promoted", change, state=MemoryState.ACTIVE, updated_at=at)
    return LearningCounts(promoted=len(ready))


def learn_from_histories(
    store: Store, histories: Sequence[LoopHistory], change: ChangeInfo, *, review: bool
) -> LearningCounts:
    """Stage, validate and promote learnings; with `review`, leave the promotion to a person."""
    with store.transaction():
        staging = stage_learnings(store, histories, change)
        # Learnings that a person staged wait for a person.
        validation = validate_learnings(store, change, only_extracted=True)
        promoted = 0 if review else promote_learnings(store, change, only_extracted=True).promoted
    return LearningCounts(
        extracted=staging.extracted,
        merged=staging.merged,
        validated=validation.validated,
        rejected=validation.rejected,
        waiting=validation.waiting,
        promoted=promoted,
    )
