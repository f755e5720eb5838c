"""Context for the prompt of an attempt, gathered from the store. Read-only."""

from __future__ import annotations

import time

from ralph.core.records import AttemptOutcome, PromptContext, TaskStatus, now, replace, timestamp
from ralph.core.text import find_paths, without_gate_prefix
from ralph.memory.lifecycle.task_type import task_type_of
from ralph.memory.recall.candidates import RecallResult, find_similar_attempts, find_similar_failures, recall_memories
from ralph.memory.recall.query import RecallContext
from ralph.memory.recall.standing import standing_rules
from ralph.store.memory_queries import MemoryFilter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ralph.core.config import Config
    from ralph.core.records import Attempt, FailureReport, RecalledEpisode, Task, TaskMetrics
    from ralph.store import Store

RECENT_ENTRIES, MATCHED_ENTRIES, SIMILAR_FAILURES = 5, 5, 2
"""Number of journal entries of this run, of matching entries of other runs, and of failures of other tasks."""
MAX_REPORTS = 10
"""Maximum number of failure reports of the task itself."""
MAX_ATTEMPTS = 100
"""Maximum number of earlier attempts at the task."""
AGENT_FAILURES = ("crash", "no_sigil")
"""Categories of failures that are the agent's, if they were excused."""
DAY_SECONDS = 86_400
MATCH_NOTHING = ("none",)
"""Filter that matches no memory."""


def gather_context(
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
    guided: frozenset[str] = frozenset(),
    find_dead: Callable[[set[str]], set[str]] = lambda workers: set(),
) -> PromptContext:
    """Return the context for the next attempt at a task.

    Without memory it holds only the task, its prerequisites, its feature and the hand-overs of other hats.
    `trail` holds the earlier attempts, newest first. Memories of `guided` are not repeated. `find_dead` returns those
    of some workers that are gone: their open attempts will be closed as interrupted before the next one begins.
    """
    prerequisites = [store.tasks.get(other) for other in task.needs]
    attempts = store.attempts
    known = PromptContext(
        task=task,
        run_id=run_id,
        attempt_number=attempt_number,
        with_memory=with_memory,
        metrics=metrics,
        prerequisites=tuple(
            (one, attempts.completion_notes(one.id) if with_memory else "")
            for one in prerequisites
            if one.status is TaskStatus.DONE
        ),
        parents=tuple(store.tasks.graph.with_ancestors(task.id)[1:]) if task.parent_id else (),
        feature=store.features.get(task.feature_id) if task.feature_id else None,
        questions=tuple(store.questions.of_task(task.id)),
        # Attempts handed back with findings are shown among the failures.
        handovers=tuple(
            one for one, _ in trail if one.handed_to and (one.outcome is AttemptOutcome.DONE or not with_memory)
        ),
        recent_outcomes=tuple(store.stats.recent_outcomes(config.models.window)),
    )
    return _add_memory(store, known, config, hat, guided, find_dead) if with_memory else known


def recall_query(
    store: Store, task: Task, *, run_id: str = "", reports: Sequence[FailureReport] = (), hat: str = "creator"
) -> RecallContext:
    """Return the recall query for a task: its text, its files and its latest failure."""
    feature = store.features.get(task.feature_id) if task.feature_id else None
    recent = store.attempts.recent(run_id, 1) or [one for one in store.attempts.latest(RECENT_ENTRIES) if one.outcome]
    last = reports[0] if reports else None
    files = (*find_paths(task.body), *(last.files if last else ()))
    return RecallContext(
        title=task.title,
        body=task.body,
        files=tuple(dict.fromkeys(files)),
        recent=recent[0].files if recent else (),
        errors=(_error_text(last),) if last else (),
        failure=last.fingerprint if last else None,
        hat=hat,
        feature=feature.name if feature else None,
        task_type=task_type_of(task.title, task.body),
        at=now(),
    )


def _error_text(report: FailureReport) -> str:
    return f"{report.category.replace('_', ' ')}\n{without_gate_prefix(report.why)}\n{report.trace}"


def next_context(store: Store, task_id: str) -> RecallContext:
    """Return the recall query of the next attempt at a task."""
    reports = store.failures.latest(MAX_REPORTS, task=task_id)
    return recall_query(store, store.tasks.get(task_id), run_id=running_id(store), reports=reports)


def running_id(store: Store) -> str:
    """Return the id of the active run, or an empty string."""
    runs = store.runs.latest(1)
    return runs[0].id if runs and runs[0].ended_at is None else ""


def recall_for_prompt(store: Store, context: RecallContext, config: Config) -> RecallResult:
    """Recall the memories to show for a context, filtered by the project's settings."""
    filter, tags = filter_for_prompt(context, config), config.memories.filter.tags
    recalled = recall_memories(store, context, filter, tags=tags, by_meaning=config.memories.meaning)
    return _with_learnings(store, context, recalled, filter)


def filter_for_prompt(context: RecallContext, config: Config) -> MemoryFilter:
    """Return the filter of the project's settings for a context, without the tags."""
    settings = config.memories.filter
    since = timestamp(time.time() - settings.recent * DAY_SECONDS) if settings.recent else ""
    kinds = _combine_kinds(settings.types, config.hats.kinds.get(context.hat or "", ()))
    return MemoryFilter(kinds=kinds, after=since)


def _with_learnings(store: Store, context: RecallContext, recalled: RecallResult, filter: MemoryFilter) -> RecallResult:
    """Add what previous loops taught about tasks like this one to what was recalled by words."""
    from ralph.memory.recall.learnings import recall_learnings

    known = {*context.guided, *(one.memory.id for one in recalled.shown)}
    learnings = [one for one in recall_learnings(store, context, filter.kinds) if one.memory.id not in known]
    added = {one.memory.id for one in learnings}
    return RecallResult(
        shown=(*recalled.shown, *learnings), left_out=tuple(one for one in recalled.left_out if one.id not in added)
    )


def recall_past_work(store: Store, context: RecallContext, config: Config) -> list[RecalledEpisode]:
    """Recall the episodes to show for a context."""
    if store.episodes.is_empty():
        return []
    from ralph.memory.recall.episodes import recall_episodes

    found = recall_episodes(store, context, by_meaning=config.memories.meaning)
    if config.memories.rules:
        return found
    return [replace(one, episode=replace(one.episode, rules="")) for one in found]


def _combine_kinds(allowed: tuple[str, ...], hat_kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Return the kinds allowed by both the project and the hat; an empty tuple allows all."""
    if not allowed or not hat_kinds:
        return allowed or hat_kinds
    return tuple(kind for kind in allowed if kind in hat_kinds) or MATCH_NOTHING


def _estimate(store: Store, task: Task, metrics: TaskMetrics | None) -> str:
    """Return what tasks of the same type took so far as text, or an empty string."""
    from ralph.memory.estimates import estimate_for

    difficulty = metrics.difficulty if metrics else None
    estimate = estimate_for(store, task_type_of(task.title, task.body), difficulty or "")
    return estimate.text if estimate else ""


def _earlier_attempts(store: Store, task_id: str, find_dead: Callable[[set[str]], set[str]]) -> list[Attempt]:
    """Return the finished attempts at a task, newest first, with those that vanished workers left open."""
    found = store.attempts.latest(MAX_ATTEMPTS, task=task_id)
    open_workers = {one.worker for one in found if one.outcome is None and one.worker}
    if dead := find_dead(open_workers) if open_workers else set():
        from ralph.store.attempts import WORKER_VANISHED
        from ralph.store.interrupted import as_interrupted

        found = [
            as_interrupted(one, WORKER_VANISHED) if not one.outcome and one.worker in dead else one for one in found
        ]
    return [one for one in found if one.outcome is not None]


def _without_agent_failures(
    attempts: list[Attempt], reports: list[FailureReport]
) -> tuple[list[Attempt], list[FailureReport]]:
    """Return attempts and failure reports without those that were blamed on the agent: they say nothing of the task."""
    categories = {one.attempt_number: one.category for one in reports}
    blamed = {one.number for one in attempts if one.excused and categories.get(one.number or 0) in AGENT_FAILURES}
    told = [one for one in attempts if one.number not in blamed or one.files]
    return told, [one for one in reports if one.attempt_number not in blamed]


def _is_reported(recalled: RecalledEpisode, reports: Sequence[FailureReport]) -> bool:
    """Return whether a failure report of the task says what a passage does, word for word."""
    said = " ".join(recalled.episode.text.split())
    return any(said in " ".join(text.split()) for report in reports for text in (report.tried, report.why))


def _add_memory(
    store: Store,
    known: PromptContext,
    config: Config,
    hat: str,
    guided: frozenset[str],
    find_dead: Callable[[set[str]], set[str]],
) -> PromptContext:
    task, attempts = known.task, store.attempts
    is_retry = known.attempt_number > 1
    reports = store.failures.latest(MAX_REPORTS, task=task.id) if is_retry else []
    earlier = _earlier_attempts(store, task.id, find_dead) if is_retry else []
    earlier, reports = _without_agent_failures(earlier, reports)
    context = replace(recall_query(store, task, run_id=known.run_id, reports=reports, hat=hat), guided=guided)
    recalled = recall_for_prompt(store, context, config) if config.injects_memories else RecallResult()
    past = recall_past_work(store, context, config) if config.injects_episodes else []
    rules = standing_rules(store, config, guided)
    return replace(
        known,
        journal=(
            *attempts.recent(known.run_id, RECENT_ENTRIES),
            *find_similar_attempts(store, context, MATCHED_ENTRIES, known.run_id),
        ),
        reports=tuple(reports),
        similar_reports=tuple(find_similar_failures(store, context, SIMILAR_FAILURES, task.id)),
        attempts=tuple(earlier),
        estimate=_estimate(store, task, known.metrics),
        rules=tuple(rules),
        memories=recalled.shown,
        episodes=tuple(one for one in past if not _is_reported(one, reports)),
        left_out=recalled.left_out,
    )
