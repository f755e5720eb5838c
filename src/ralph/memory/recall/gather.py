"""Context for the prompt of an attempt, gathered from the store. Read-only."""

from __future__ import annotations

import time

from ralph.core.records import Outcome, Recollection, Status, now, replace, timestamp
from ralph.core.text import paths_in
from ralph.memory.lifecycle.task_type import type_of_work
from ralph.memory.recall.candidates import Recall, matching_attempts, matching_failures, recall
from ralph.memory.recall.query import Context
from ralph.store.memory_queries import Wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.core.config import Config
    from ralph.core.records import Attempt, FailureReport, Task, TaskMetrics
    from ralph.store import Store

RECENT, MATCHED, ELSEWHERE = 5, 5, 2
"""Number of journal entries of this run, of matching entries of other runs, and of failures of other tasks."""
REPORTS = 10
"""Maximum number of failure reports of the task itself."""
DAY = 86_400
NO_KIND = ("none",)
"""Filter that matches no memory."""


def recollect(
    store: Store,
    task: Task,
    metrics: TaskMetrics,
    config: Config,
    *,
    run_id: str = "",
    attempt_number: int = 1,
    with_memory: bool = True,
    hat: str = "creator",
    trail: Sequence[tuple[Attempt, str]] = (),
) -> Recollection:
    """Return the context for the next attempt at a task.

    Without memory it holds only the task, its prerequisites, its feature and the hand-overs of other hats.
    `trail` holds the earlier attempts, newest first.
    """
    prerequisites = [store.tasks.get(other) for other in task.needs]
    attempts = store.attempts
    known = Recollection(
        task=task,
        run_id=run_id,
        attempt_number=attempt_number,
        with_memory=with_memory,
        metrics=metrics,
        prerequisites=tuple(
            (one, attempts.last_notes(one.id) if with_memory else "")
            for one in prerequisites
            if one.status is Status.DONE
        ),
        parent=store.tasks.get(task.parent_id) if task.parent_id else None,
        feature=store.features.get(task.feature_id) if task.feature_id else None,
        # Attempts handed back with findings are shown among the failures.
        handed=tuple(one for one, _ in trail if one.handed_to and (one.outcome is Outcome.DONE or not with_memory)),
        recent_outcomes=tuple(attempts.recent_outcomes(config.models.window)),
    )
    return _add_memory(store, known, config, hat) if with_memory else known


def context_of(
    store: Store, task: Task, *, run_id: str = "", reports: Sequence[FailureReport] = (), hat: str = "creator"
) -> Context:
    """Return the recall query for a task: its text, its files and its latest failure."""
    feature = store.features.get(task.feature_id) if task.feature_id else None
    recent = store.attempts.recent(run_id, 1) if run_id else []
    last = reports[0] if reports else None
    files = (*paths_in(task.body), *(last.files if last else ()))
    return Context(
        title=task.title,
        body=task.body,
        files=tuple(dict.fromkeys(files)),
        recent=recent[-1].files if recent else (),
        errors=(f"{last.category.replace('_', ' ')}\n{last.why}\n{last.trace}",) if last else (),
        failure=last.fingerprint if last else None,
        hat=hat,
        feature=feature.name if feature else None,
        task_type=type_of_work(task.title, task.body),
        at=now(),
    )


def next_context(store: Store, task_id: str) -> Context:
    """Return the recall query of the next attempt at a task."""
    reports = store.attempts.reports(REPORTS, task=task_id)
    return context_of(store, store.tasks.get(task_id), run_id=running_id(store), reports=reports)


def running_id(store: Store) -> str:
    """Return the id of the active run, or an empty string."""
    runs = store.attempts.runs(1)
    return runs[0].id if runs and runs[0].ended_at is None else ""


def known_for(store: Store, context: Context, config: Config) -> Recall:
    """Recall the memories to show for a context, filtered by the project's settings."""
    settings = config.memories.filter
    since = timestamp(time.time() - settings.recent * DAY) if settings.recent else ""
    filter = Wanted(kinds=_combine_kinds(settings.types, config.hats.kinds.get(context.hat or "", ())), after=since)
    return recall(store, context, filter, tags=settings.tags, by_meaning=config.memories.meaning)


def _combine_kinds(allowed: tuple[str, ...], hat_kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Return the kinds allowed by both the project and the hat; an empty tuple allows all."""
    if not allowed or not hat_kinds:
        return allowed or hat_kinds
    return tuple(kind for kind in allowed if kind in hat_kinds) or NO_KIND


def _add_memory(store: Store, known: Recollection, config: Config, hat: str) -> Recollection:
    task, attempts = known.task, store.attempts
    is_retry = known.attempt_number > 1
    reports = attempts.reports(REPORTS, task=task.id) if is_retry else []
    interrupted = attempts.latest(3, task=task.id, outcome=Outcome.INTERRUPTED) if is_retry else []
    context = context_of(store, task, run_id=known.run_id, reports=reports, hat=hat)
    recalled = known_for(store, context, config) if config.injects else Recall()
    return replace(
        known,
        journal=(*attempts.recent(known.run_id, RECENT), *matching_attempts(store, context, MATCHED, known.run_id)),
        reports=tuple(reports),
        elsewhere=tuple(matching_failures(store, context, ELSEWHERE, task.id)),
        interruptions=tuple(entry for entry in interrupted if entry.notes),
        memories=recalled.shown,
        left_out=recalled.left_out,
    )
