"""Gather what is known for an attempt. Reading changes nothing."""

from __future__ import annotations

import time

from ralph.memory.rank import allowed, path_words, rank, score
from ralph.memory.words import query_words
from ralph.records import LeftOut, Outcome, Recollection, State, Status, now, replace, timestamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.config import Config
    from ralph.records import Attempt, Feature, Memory, Recalled, Task, TaskMetrics
    from ralph.store import Store

RECENT, MATCHED = 5, 5
JOURNAL_WORDS = 10
MEMORY_WORDS = 12
CANDIDATES = 12
MOST_CANDIDATES = 200
"""When only some tags are allowed, more have to be looked at."""
REPORTS = 10
RATE_OVER = 20
DAY = 86_400


def recall(
    store: Store,
    task: Task,
    metrics: TaskMetrics,
    config: Config,
    *,
    run_id: str = "",
    attempt_number: int = 1,
    with_memory: bool = True,
) -> Recollection:
    """Give all that the next attempt at a task should know.

    Without memory the task, its prerequisites and its feature are all there is.
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
        recent_outcomes=tuple(attempts.recent_outcomes(RATE_OVER)),
    )
    return _with_memory(store, known, config) if with_memory else known


def explain(
    store: Store, config: Config, task: Task, memory: Memory
) -> tuple[Recalled | None, int | None, LeftOut | None]:
    """Give how a memory scores for a task, its place among all that are found, and why it is left out, if it is."""
    feature = store.features.get(task.feature_id) if task.feature_id else None
    text = f"{task.title} {task.body}" + (f" {feature.name}" if feature else "")
    reason = f"it is {memory.state}: {memory.state_reason}".rstrip(": ")
    if memory.state is not State.ACTIVE:
        return None, None, LeftOut(what=memory.title, why=reason)
    found = store.memories.search(query_words(text, MEMORY_WORDS), MOST_CANDIDATES)
    scored = score(found, text, (), now())
    place = next((place for place, one in enumerate(scored, 1) if one.memory.id == memory.id), None)
    if place is None:
        return None, None, LeftOut(what=memory.title, why="it has no telling word in common with the task")
    mine = scored[place - 1]
    shown, left = _memories(store, _bare(task, feature, store), config, [], text)
    if any(one.memory.id == memory.id for one in shown):
        return mine, place, None
    why = next((one for one in left if one.what == memory.title), None)
    return mine, place, why or LeftOut(what=memory.title, why=f"not among the best {CANDIDATES} that were found")


def _bare(task: Task, feature: Feature | None, store: Store) -> Recollection:
    return Recollection(task=task, metrics=store.attempts.metrics(task.id), feature=feature)


def _with_memory(store: Store, known: Recollection, config: Config) -> Recollection:
    task, attempts = known.task, store.attempts
    text = f"{task.title} {task.body}"
    recent = attempts.recent(known.run_id, RECENT)
    matched = attempts.search(query_words(text, JOURNAL_WORDS), MATCHED, not_run=known.run_id)
    tried = known.attempt_number > 1
    reports = attempts.reports(REPORTS, task=task.id) if tried else []
    interrupted = attempts.latest(3, task=task.id, outcome=Outcome.INTERRUPTED) if tried else []
    # After a failure, what was learned of such failures matters too.
    about = f"{text} {reports[0].category.replace('_', ' ')}" if reports else text
    memories, left = _memories(store, known, config, recent, about) if config.injects else ([], [])
    return replace(
        known,
        journal=(*recent, *matched),
        reports=tuple(reports),
        interruptions=tuple(entry for entry in interrupted if entry.notes),
        memories=tuple(memories),
        left_out=tuple(left),
    )


def _memories(
    store: Store, known: Recollection, config: Config, recent: list[Attempt], text: str
) -> tuple[list[Recalled], list[LeftOut]]:
    if known.feature:
        text = f"{text} {known.feature.name}"
    only = config.memories.filter
    since = timestamp(time.time() - only.recent * DAY) if only.recent else ""
    words = query_words(text, MEMORY_WORDS)
    limit = CANDIDATES if not only.tags else MOST_CANDIDATES
    found = store.memories.search(words, limit, kinds=only.types, since=since)
    kept, filtered = allowed(found, only)
    files = recent[-1].files if recent else ()
    ranked, left = rank(kept, text, path_words(files), now())
    return ranked, [*left, *filtered]
