"""Page of models and agents: what they achieve and cost, and what the strategy would choose now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ralph.core.paging import Page
from ralph.core.records import TaskStatus, record
from ralph.loop.performance import read_performance
from ralph.loop.strategy import model_note, strategy_name
from ralph.project import Project
from ralph.web.pages.page import PageView, run_command

if TYPE_CHECKING:
    from ralph.core.records import Task
    from ralph.loop.choose_model import AttemptPlan

MAX_CHOICES = 8
"""Maximum number of open tasks for which the choice of a model is shown."""
MAX_TYPES = 8
"""Maximum number of task types in the comparison of models."""


@record
class NextChoice:
    """What the strategy would choose for the next attempt at a task."""

    task: Task
    plan: AttemptPlan


def show_models(project: Project) -> PageView:
    """Show success, cost and time by model, agent, task type and difficulty, and what the strategy would choose now."""
    performance = read_performance(project.store)
    models, agent = project.config.models, project.config.agent
    decisions = project.stats.decisions()
    open_tasks = project.tasks.list(Page(limit=MAX_CHOICES), status=TaskStatus.PENDING)
    return PageView(
        template="models.html",
        values={
            "performance": performance,
            "types": performance.task_types[:MAX_TYPES],
            "strategy": strategy_name(models, agent.model),
            "strategy_note": model_note(models, agent.model),
            "choices": [NextChoice(task=task, plan=project.prompts.plan(task.id)) for task in open_tasks],
            "decisions": decisions,
            "titles": project.store.tasks.titles([one.task_id for one in decisions]),
            "run_command": run_command(project),
        },
    )
