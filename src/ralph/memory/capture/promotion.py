"""What the runs of this project teach: extraction from their attempts, staging, validation and promotion."""

from __future__ import annotations

from ralph.core.records import AttemptOutcome, FailureCause, MemorySource, MemoryState, now, record
from ralph.core.text import without_gate_prefix
from ralph.memory.capture.extract import extract_learnings, is_known_strategy
from ralph.memory.lifecycle.error_category import normalized_error
from ralph.memory.lifecycle.gate_fixes import fixed_error
from ralph.memory.lifecycle.learnings import parse_content
from ralph.memory.lifecycle.loop_history import LoopHistory, LoopIteration
from ralph.memory.lifecycle.staging import needs_more_data, rejection_reason
from ralph.memory.lifecycle.task_type import task_type_of
from ralph.store.memory_queries import MemoryFilter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ralph.core.records import Attempt, Memory, Task
    from ralph.store import Store
    from ralph.store.memories import ChangeInfo

MAX_FILE_ATTEMPTS = 1_000
"""Number of the latest attempts whose files show the conventions of a project."""


@record
class LearningCounts:
    """Numbers of learnings by what happened to them."""

    extracted: int = 0
    merged: int = 0
    """Extracted learnings that supported an existing one."""
    validated: int = 0
    rejected: int = 0
    waiting: int = 0
    """Learnings that need more evidence before they are validated."""
    promoted: int = 0


def run_histories(store: Store, run_id: str) -> list[LoopHistory]:
    """Return the history of a run, one for each type of task it worked on; the first one has the files."""
    run = store.runs.get(run_id)
    groups: dict[str, tuple[str, list[LoopIteration]]] = {}
    tasks: dict[str, Task] = {}
    for attempts in _passes(store.attempts.recent(run_id, max(run.iterations, 1))):
        task_id = attempts[-1].task_id or ""
        task = tasks[task_id] = tasks.get(task_id) or store.tasks.get(task_id)
        _, iterations = groups.setdefault(
            task_type_of(task.title, task.body), (f"{task.title}\n{task.body}", list[LoopIteration]())
        )
        iterations.append(_iteration(store, attempts))
    files = store.stats.changed_files(MAX_FILE_ATTEMPTS) if groups else ()
    return [
        LoopHistory(
            loop_id=run_id,
            objective=objective,
            task_type=kind,
            is_own=True,
            files=() if number else files,
            iterations=tuple(iterations),
            is_complete=run.ended_at is not None,
        )
        for number, (kind, (objective, iterations)) in enumerate(groups.items())
    ]


def _passes(attempts: Iterable[Attempt]) -> Iterator[list[Attempt]]:
    """Yield the attempts of each pass at a task: those of the hats that handed over, up to the one that ended it."""
    open_passes: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        if attempt.task_id is None or attempt.outcome in (None, AttemptOutcome.INTERRUPTED):
            continue
        open_passes.setdefault(attempt.task_id, []).append(attempt)
        if not (attempt.outcome is AttemptOutcome.DONE and attempt.handed_to):
            yield open_passes.pop(attempt.task_id)


def _iteration(store: Store, attempts: Sequence[Attempt]) -> LoopIteration:
    last = attempts[-1]
    failed = last.cause is FailureCause.PROJECT
    report = store.failures.of_attempt(last) if failed else None
    learned = (
        memory.content
        for one in attempts
        for memory in store.memories.listing.learned_in_attempt(one.run_id, one.task_id or "", one.number or 0)
    )
    notes = (line for one in attempts for line in one.notes.splitlines())
    return LoopIteration(
        number=last.iteration,
        succeeded=last.outcome is AttemptOutcome.DONE,
        failed=failed,
        task=last.task_id or "",
        seconds=sum(one.seconds for one in attempts),
        # What an attempt stated is a memory already; only its strategies are extracted here.
        learnings=tuple(filter(is_known_strategy, [*learned, *notes])),
        files=tuple(dict.fromkeys(path for one in attempts for path in one.files)),
        error=without_gate_prefix((report.trace or report.why) if report else last.reason) if failed else "",
    )


def stage_learnings(store: Store, histories: Iterable[LoopHistory], change: ChangeInfo) -> LearningCounts:
    """Extract learnings from histories and stage them; known ones gain support instead."""
    with store.transaction():
        at = now()
        fixed = _fixed_errors(store)
        learnings = (one for history in histories for one in extract_learnings(history, at))
        results = [store.memories.add(one, change) for one in learnings if not fixed.intersection(_error_of(one))]
    return LearningCounts(extracted=len(results), merged=sum(result.what != "added" for result in results))


def _fixed_errors(store: Store) -> set[str]:
    """Return the errors of gates that memories say how to fix."""
    fixes = store.memories.find(MemoryFilter(kinds=("fix",)))
    return set(filter(None, map(fixed_error, fixes)))


def _error_of(learning: Memory) -> tuple[str, ...]:
    """Return the error that an antipattern quotes: a memory that says how to fix it says more."""
    if learning.kind != "antipattern":
        return ()
    description = str((parse_content(learning.structured_content) or {}).get("description", ""))
    return (normalized_error(description.removeprefix("Avoid: "), with_names=True),)


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
            if needs_more_data(memory):
                waiting += 1
            elif reason := rejection_reason(memory):
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
