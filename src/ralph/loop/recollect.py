"""Gather what is known for an attempt. Reading changes nothing."""

from __future__ import annotations

import time

from ralph.memory.question import Context
from ralph.memory.task_type import type_of_work
from ralph.recall import Recall, matching_attempts, matching_failures, recall
from ralph.records import Outcome, Recollection, Status, now, replace, timestamp
from ralph.store.known_memories import Wanted
from ralph.text import paths_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.config import Config
    from ralph.records import Attempt, FailureReport, Task, TaskMetrics
    from ralph.store import Store

RECENT, MATCHED, ELSEWHERE = 5, 5, 2
REPORTS = 10
DAY = 86_400
NO_KIND = ("none",)
"""A kind that no memory has."""


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
    """Give all that the next attempt at a task should know.

    Without memory the task, its prerequisites, its feature and what other hats handed over are all there is.
    `trail` are the attempts at it so far, newest first.
    """
    needed = [store.tasks.get(other) for other in task.needs]
    attempts = store.attempts
    known = Recollection(
        task=task,
        run_id=run_id,
        attempt_number=attempt_number,
        with_memory=with_memory,
        metrics=metrics,
        prerequisites=tuple(
            (one, attempts.last_notes(one.id) if with_memory else "") for one in needed if one.status is Status.DONE
        ),
        parent=store.tasks.get(task.parent_id) if task.parent_id else None,
        feature=store.features.get(task.feature_id) if task.feature_id else None,
        # What was handed back with findings is among the failures, as far as those are shown.
        handed=tuple(one for one, _ in trail if one.handed_to and (one.outcome is Outcome.DONE or not with_memory)),
        recent_outcomes=tuple(attempts.recent_outcomes(config.models.window)),
    )
    return _with_memory(store, known, config, hat) if with_memory else known


def context_of(
    store: Store, task: Task, *, run_id: str = "", reports: Sequence[FailureReport] = (), hat: str = "creator"
) -> Context:
    """Give what a recall for a task asks: what it says, what it touches, what went wrong last."""
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


def known_for(store: Store, context: Context, config: Config) -> Recall:
    """Give the memories a prompt shows for a context, as far as the project's settings let them, and why not others."""
    only = config.memories.filter
    since = timestamp(time.time() - only.recent * DAY) if only.recent else ""
    wanted = Wanted(kinds=_kinds(only.types, config.hats.kinds.get(context.hat or "", ())), after=since)
    return recall(store, context, wanted, tags=only.tags, by_meaning=config.memories.meaning)


def _kinds(allowed: tuple[str, ...], of_hat: tuple[str, ...]) -> tuple[str, ...]:
    """Give the kinds that both the project and a hat let through; none named means all."""
    if not allowed or not of_hat:
        return allowed or of_hat
    return tuple(kind for kind in allowed if kind in of_hat) or NO_KIND


def _with_memory(store: Store, known: Recollection, config: Config, hat: str) -> Recollection:
    task, attempts = known.task, store.attempts
    tried = known.attempt_number > 1
    reports = attempts.reports(REPORTS, task=task.id) if tried else []
    interrupted = attempts.latest(3, task=task.id, outcome=Outcome.INTERRUPTED) if tried else []
    context = context_of(store, task, run_id=known.run_id, reports=reports, hat=hat)
    found = known_for(store, context, config) if config.injects else Recall()
    return replace(
        known,
        journal=(*attempts.recent(known.run_id, RECENT), *matching_attempts(store, context, MATCHED, known.run_id)),
        reports=tuple(reports),
        elsewhere=tuple(matching_failures(store, context, ELSEWHERE, task.id)),
        interruptions=tuple(entry for entry in interrupted if entry.notes),
        memories=found.shown,
        left_out=found.left_out,
    )
