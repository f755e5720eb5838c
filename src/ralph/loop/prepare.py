"""Everything between a task and its prompt: choose the model, recall what is known, put it into words."""

from __future__ import annotations

from ralph.loop.prompt import build_prompt
from ralph.loop.recollect import recollect
from ralph.loop.strategy import choose_model
from ralph.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.config import Config
    from ralph.loop.strategy import Choice
    from ralph.records import Prompt, Recollection, Task, TaskMetrics
    from ralph.store import Store


@record
class Prepared:
    """What an agent session is started with."""

    choice: Choice
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
) -> Prepared:
    """Give the model, the recollection and the prompt of an attempt. Changes nothing."""
    choice = choose_model(config.agent.model, model)
    known = recollect(
        store, task, metrics, config, run_id=run_id, attempt_number=attempt_number, with_memory=with_memory
    )
    prompt = build_prompt(
        known,
        iteration=iteration,
        model=choice.model,
        model_reason=choice.reason,
        stuck_after=config.execution.stuck_after,
        budget_tokens=config.prompt.budget_tokens,
        memories_tokens=config.memories.budget,
        with_skill=config.memories.enabled and config.memories.skill_injection,
    )
    return Prepared(choice=choice, known=known, prompt=prompt)
