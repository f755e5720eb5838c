"""Preparation of an attempt: plan, context and prompt."""

from __future__ import annotations

from ralph.core.records import record, replace
from ralph.loop import hats
from ralph.loop.choose_model import plan_attempt
from ralph.loop.previous_attempts import cut_off_attempt
from ralph.loop.prompt import build_prompt
from ralph.memory.recall.gather import gather_context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ralph.core.config import Config
    from ralph.core.records import Prompt, PromptContext, Task, TaskMetrics
    from ralph.loop.choose_model import AttemptPlan
    from ralph.store import Store


@record
class PreparedAttempt:
    """Plan, context and prompt of one attempt."""

    plan: AttemptPlan
    context: PromptContext
    prompt: Prompt


def prepare_attempt(
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
    guided: frozenset[str] = frozenset(),
    find_unfinished: Callable[[], tuple[str, ...]] = tuple,
    find_dead: Callable[[set[str]], set[str]] = lambda workers: set(),
) -> PreparedAttempt:
    """Return the plan, the context and the prompt of an attempt, which repeats no memory of `guided`. Read-only.

    `find_unfinished` returns what the working tree holds; it is called after an attempt that was cut off.
    `find_dead` is as for `gather_context`.
    """
    plan = plan_attempt(store, config, task, metrics, model=model, takes_model=takes_model)
    context = gather_context(
        store,
        task,
        metrics,
        config,
        run_id=run_id,
        attempt_number=attempt_number,
        with_memory=with_memory,
        hat=plan.hat,
        trail=plan.trail,
        guided=guided,
        find_dead=find_dead,
    )
    if cut_off_attempt(context):
        context = replace(context, unfinished=find_unfinished())
    prompt = build_prompt(
        context,
        iteration=iteration,
        choice=plan.choice,
        stuck_state=plan.stuck_state,
        budget_tokens=config.prompt.budget_tokens,
        memories_tokens=config.memories.budget,
        episodes_tokens=config.episodes.budget,
        rules_tokens=config.memories.rules,
        with_skill=config.memories.enabled and config.memories.skill_injection,
        hat_instructions=hats.hat_instructions(plan.hat, plan.hats, config.hats, can_split=plan.can_split),
        conflicts=conflicts,
        models=config.models.ladder,
        can_split=plan.can_split,
        role=hats.session_role(plan.hat, plan.hats),
    )
    return PreparedAttempt(plan=plan, context=context, prompt=prompt)
