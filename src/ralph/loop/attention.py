"""What needs a person: questions, changes to approve, tasks that gave up, contradicting rules, learnings to review."""

from __future__ import annotations

from enum import StrEnum

from ralph.core.paging import Page
from ralph.core.records import TaskStatus, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.core.records import Memory, StatedRule, Task
    from ralph.memory.learning_service import LearningService
    from ralph.memory.rule_service import Conflict, RuleService
    from ralph.store import Store


class AttentionKind(StrEnum):
    """Why something needs a person, most urgent first."""

    QUESTION = "question"
    """An agent asks about its task."""
    APPROVAL = "approval"
    """Work waits because it changes what gates depend on, or because nobody reviewed it."""
    BLOCKED = "blocked"
    """A task waits for a person for another reason."""
    FAILED = "failed"
    """A task has failed for good."""
    CONFLICT = "conflict"
    """Two rules contradict each other."""
    LEARNING = "learning"
    """A learning is staged."""


@record
class Statement:
    """One of two rules that contradict each other."""

    id: str
    """Memory or passage that states it."""
    text: str
    at: str


@record
class AttentionItem:
    """One thing that needs a person."""

    kind: AttentionKind
    id: str
    """Task or memory; of a conflict, that of the later statement."""
    title: str
    text: str
    """The question, the reason, or what the learning says."""
    at: str
    digest: str = ""
    """Of a change to approve: what is accepted with it."""
    diff: str = ""
    statements: tuple[Statement, ...] = ()
    """Of a conflict: the earlier and the later statement."""


@record
class Attention:
    """Everything that needs a person."""

    total: int
    counts: dict[str, int]
    """Number of tasks, conflicts and learnings, of which `items` may be only the first ones."""
    items: tuple[AttentionItem, ...]
    """Most urgent kind first."""


def find_attention(store: Store, rules: RuleService, learnings: LearningService, most: int) -> Attention:
    """Return what needs a person, with up to `most` tasks of each status, conflicts and learnings."""
    waiting = store.tasks.progress
    conflicts = _conflicts(store, rules)
    staged = learnings.counts()
    counts = {
        "tasks": sum(waiting.count_with_status(one) for one in (TaskStatus.BLOCKED, TaskStatus.FAILED)),
        "conflicts": len(conflicts),
        "learnings": staged["pending"] + staged["validated"] + staged["quarantined"],
    }
    return Attention(
        total=sum(counts.values()),
        counts=counts,
        items=(
            *find_waiting_tasks(store, most),
            *(_conflict_item(one) for one in conflicts[:most]),
            *(_learning_item(one) for one in (learnings.list(None, Page(limit=most)) if counts["learnings"] else ())),
        ),
    )


def find_waiting_tasks(store: Store, most: int) -> list[AttentionItem]:
    """Return tasks that need a person, up to `most` of each status, most urgent first."""
    waiting, urgency = store.tasks.progress, list(AttentionKind)
    tasks = [_task_item(store, one) for one in waiting.with_status(TaskStatus.BLOCKED, most)]
    tasks += [_failed_item(one) for one in waiting.with_status(TaskStatus.FAILED, most)]
    return sorted(tasks, key=lambda one: urgency.index(one.kind))


def _task_item(store: Store, task: Task) -> AttentionItem:
    if held := store.held_changes.waiting(task.id):
        return AttentionItem(
            kind=AttentionKind.APPROVAL,
            id=task.id,
            title=task.title,
            text=held.reason,
            at=held.created_at,
            digest=held.digest,
            diff=held.diff,
        )
    asked = store.questions.waiting(task.id)
    return AttentionItem(
        kind=AttentionKind.QUESTION if asked else AttentionKind.BLOCKED,
        id=task.id,
        title=task.title,
        text=asked.text if asked else task.reason,
        at=asked.asked_at if asked else task.updated_at,
    )


def _failed_item(task: Task) -> AttentionItem:
    return AttentionItem(kind=AttentionKind.FAILED, id=task.id, title=task.title, text=task.reason, at=task.updated_at)


def _conflicts(store: Store, rules: RuleService) -> Sequence[Conflict]:
    """Return contradicting rules, compared anew only after a change of the memory."""
    return store.figures.get("conflicts", store.memories.history.last_event_seq(), rules.conflicts)


def _conflict_item(conflict: Conflict) -> AttentionItem:
    return AttentionItem(
        kind=AttentionKind.CONFLICT,
        id=conflict.later.id,
        title="Two rules contradict each other",
        text="",
        at=conflict.later.at,
        statements=(_statement(conflict.earlier), _statement(conflict.later)),
    )


def _statement(stated: StatedRule) -> Statement:
    return Statement(id=stated.id, text=stated.rule.text, at=stated.at)


def _learning_item(memory: Memory) -> AttentionItem:
    return AttentionItem(
        kind=AttentionKind.LEARNING, id=memory.id, title=memory.title, text=memory.content, at=memory.created_at
    )
