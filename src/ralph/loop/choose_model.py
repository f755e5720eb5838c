"""Choice of hat and model for the next attempt at a task."""

from __future__ import annotations

from ralph.core.records import record
from ralph.loop import hats
from ralph.loop.metrics import load_task_history
from ralph.loop.strategy import choose_model, strategy_name
from ralph.loop.stuck import EscalationStep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.core.config import Config
    from ralph.core.records import Attempt, Task, TaskMetrics
    from ralph.loop.metrics import TaskHistory
    from ralph.loop.strategy import ModelChoice
    from ralph.loop.stuck import StuckState
    from ralph.store import Store

MAX_SPLIT_DEPTH = 3
"""Depth at which a task is not split any further, in levels of parents."""


@record
class AttemptPlan:
    """Hat and model of the next attempt at a task, with the reasons."""

    hat: str
    hats: tuple[str, ...]
    """All hats the task passes through, in order."""
    choice: ModelChoice
    stuck_state: StuckState
    can_split: bool
    """Whether the task may be split: it is stuck or being planned, and not nested too deeply."""
    trail: tuple[tuple[Attempt, str], ...]


def plan_attempt(
    store: Store,
    config: Config,
    task: Task,
    metrics: TaskMetrics,
    *,
    model: str | None = None,
    takes_model: bool = True,
) -> AttemptPlan:
    """Return the hat and the model of the next attempt at a task. Read-only."""
    history = load_task_history(store, config, task, metrics, takes_model=takes_model)
    order = hats.hat_order(config.hats, strategy_name(config.models, config.agent.model))
    hat = current_hat(store, task, history, order)
    choice = choose_model(
        config.models,
        history.evidence,
        configured=config.agent.model,
        flag=model,
        hat=hat,
        takes_model=takes_model,
    )
    is_asked_to_split = history.stuck_state.step is EscalationStep.DECOMPOSE or hat == "planner"
    return AttemptPlan(
        hat=hat,
        hats=order,
        choice=choice,
        stuck_state=history.stuck_state,
        can_split=is_asked_to_split and store.tasks.graph.depth(task.id) < MAX_SPLIT_DEPTH,
        trail=history.trail,
    )


def current_hat(store: Store, task: Task, history: TaskHistory, order: Sequence[str]) -> str:
    """Return the hat whose turn it is: the one the task was last handed to.

    A subtask made by a planner starts with the hat after the planner.
    """
    current = next((attempt.handed_to for attempt, _ in history.trail if attempt.handed_to in order), None)
    if current:
        return current
    if task.parent_id and "planner" in order[:-1] and store.attempts.settled.was_planned(task.parent_id):
        return order[order.index("planner") + 1]
    return order[0]
