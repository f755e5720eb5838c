"""Say who makes the next attempt at a task: which hat, with which model, and why."""

from __future__ import annotations

from ralph.loop import hats
from ralph.loop.evidence import gather
from ralph.loop.strategy import choose_model, strategy_name
from ralph.loop.stuck import Step
from ralph.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.config import Config
    from ralph.loop.evidence import Gathered
    from ralph.loop.strategy import Choice
    from ralph.loop.stuck import Trouble
    from ralph.records import Attempt, Task, TaskMetrics
    from ralph.store import Store

DEEPEST = 3
"""A task with so many above it is not split any further."""


@record
class Plan:
    """Who makes the next attempt at a task, and why."""

    hat: str
    hats: tuple[str, ...]
    """All that the task passes through."""
    choice: Choice
    trouble: Trouble
    may_split: bool
    """Whether the task may become several: it is stuck or planned, and not too deep below others."""
    trail: tuple[tuple[Attempt, str], ...]


def next_attempt(
    store: Store,
    config: Config,
    task: Task,
    metrics: TaskMetrics,
    *,
    model: str | None = None,
    takes_model: bool = True,
) -> Plan:
    """Give the hat and the model of the next attempt at a task. Changes nothing."""
    gathered = gather(store, config, task, metrics)
    order = hats.order_for(config.hats, strategy_name(config.models, config.agent.model))
    hat = hat_of(store, task, gathered, order)
    choice = choose_model(
        config.models,
        gathered.evidence,
        configured=config.agent.model,
        flag=model,
        hat=hat,
        takes_model=takes_model,
    )
    asked_to_split = gathered.trouble.step is Step.DECOMPOSE or hat == "planner"
    return Plan(
        hat=hat,
        hats=order,
        choice=choice,
        trouble=gathered.trouble,
        may_split=asked_to_split and store.tasks.depth(task.id) < DEEPEST,
        trail=gathered.trail,
    )


def hat_of(store: Store, task: Task, gathered: Gathered, order: Sequence[str]) -> str:
    """Give the hat whose turn it is: the one that was handed the task last.

    A part of a task that a planner has split starts behind the planner.
    """
    handed = next((attempt.handed_to for attempt, _ in gathered.trail if attempt.handed_to in order), None)
    if handed:
        return handed
    if task.parent_id and "planner" in order[:-1] and store.attempts.was_planned(task.parent_id):
        return order[order.index("planner") + 1]
    return order[0]
