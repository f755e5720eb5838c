"""Preparation of an attempt: plan, context and prompt."""

from __future__ import annotations

from ralph.core.records import record
from ralph.loop import hats
from ralph.loop.choose_model import next_attempt
from ralph.loop.prompt import build_prompt
from ralph.memory.recall.gather import recollect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.core.config import Config
    from ralph.core.records import Prompt, Recollection, Task, TaskMetrics
    from ralph.loop.choose_model import Plan
    from ralph.store import Store


@record
class Prepared:
    """Plan, context and prompt of one attempt."""

    plan: Plan
    known: Recollection
    prompt: Prompt


def prepare(
    store: Store,
    config: Config,
    task: Task,
    metrics: TaskMetrics,
    *,
    run_id: str,
    iteration: int,
    attempt_number: int,
    model: str | None = None,
    with_memory: bool = True,
    takes_model: bool = True,
    conflicts: Sequence[str] = (),
) -> Prepared:
    """Return the plan, the context and the prompt of an attempt. Read-only."""
    plan = next_attempt(store, config, task, metrics, model=model, takes_model=takes_model)
    known = recollect(
        store,
        task,
        metrics,
        config,
        run_id=run_id,
        attempt_number=attempt_number,
        with_memory=with_memory,
        hat=plan.hat,
        trail=plan.trail,
    )
    prompt = build_prompt(
        known,
        iteration=iteration,
        choice=plan.choice,
        trouble=plan.trouble,
        budget_tokens=config.prompt.budget_tokens,
        memories_tokens=config.memories.budget,
        with_skill=config.memories.enabled and config.memories.skill_injection,
        hat=hats.instructions(plan.hat, plan.hats, config.hats),
        conflicts=conflicts,
        models=config.models.ladder,
        may_split=plan.may_split,
    )
    return Prepared(plan=plan, known=known, prompt=prompt)
