"""Page of the impact of memory: its lift, what helps and harms, what recall costs, and a replay of past tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ralph.core.paging import Page
from ralph.core.records import EPISODE_PREFIX, record
from ralph.loop.attempt_details import latest_details
from ralph.loop.performance import lift_over_time
from ralph.loop.prompt import KNOWLEDGE_SECTION, PAST_WORK_SECTION, RULES_SECTION
from ralph.project import Project
from ralph.store.memory_queries import row_to_memory
from ralph.web.endpoints import QueryParams
from ralph.web.pages.lift import lift_values
from ralph.web.pages.page import PageView
from ralph.web.paging import Name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ralph.core.records import Attempt, Memory
    from ralph.loop.prompts import Explanation

MEASURED_PROMPTS = 100
"""Number of latest prompts from which the cost of recall is computed."""
SCANNED_ATTEMPTS = 500
"""Number of latest attempts whose tasks the replay offers."""
RANKED_MEMORIES = 30
"""Number of best-ranked memories that the replay looks at."""
RECALL_SECTIONS = (RULES_SECTION, KNOWLEDGE_SECTION, PAST_WORK_SECTION)
"""Sections of a prompt that come from memory."""


class ImpactPageQuery(QueryParams):
    """Past task to replay."""

    task: Name = ""


@record
class RecallCost:
    """Tokens that recall adds to prompts, as means over the latest ones."""

    prompts: int
    tokens: float
    prompt_tokens: float
    sections: tuple[tuple[str, float], ...]

    @property
    def share(self) -> float:
        """Return the share of the prompt that comes from memory."""
        return self.tokens / self.prompt_tokens if self.prompt_tokens else 0.0


@record
class ReplayRow:
    """Memory that a past attempt was shown, or that its task would be shown now."""

    memory: Memory
    was_shown: bool
    explanation: Explanation
    is_new: bool
    """Whether it was learned after the attempt began."""


@record
class Replay:
    """What a past task would be shown under the current ranking."""

    task_id: str
    title: str
    attempt: Attempt | None
    """Latest attempt at it whose prompt could have memories."""
    rows: tuple[ReplayRow, ...]
    deleted: int
    """Number of memories that were shown and do not exist any more."""


def show_impact(project: Project, query: ImpactPageQuery) -> PageView:
    """Show the lift of memory over time, what helps and harms most, what recall costs, and replays of past tasks."""
    memory = project.stats.memory()
    return PageView(
        template="impact.html",
        values={
            **lift_values(project, project.stats.lift()),
            "points": [
                {"at": one.day, "difference": one.difference, "low": one.low, "high": one.high}
                for one in lift_over_time(project.store)
            ],
            "memory": memory,
            "recall": _recall_cost(project),
            "past": _past_tasks(project),
            "asked": query.task,
            "replay": _replay(project, query.task) if query.task else None,
        },
    )


def _recall_cost(project: Project) -> RecallCost | None:
    """Return what recall adds to the latest prompts; None if none is kept."""
    kept = latest_details(project.directory, MEASURED_PROMPTS)
    prompts = [one.prompt for one in kept if one.prompt]
    if not prompts:
        return None
    sections = dict.fromkeys(RECALL_SECTIONS, 0)
    for prompt in prompts:
        for section in prompt.sections:
            if section.name in sections:
                sections[section.name] += section.tokens
    return RecallCost(
        prompts=len(prompts),
        tokens=sum(sections.values()) / len(prompts),
        prompt_tokens=sum(one.tokens for one in prompts) / len(prompts),
        sections=tuple((name, tokens / len(prompts)) for name, tokens in sections.items()),
    )


def _past_tasks(project: Project) -> list[tuple[str, str]]:
    """Return the ids and titles of the tasks of the latest attempts, latest first."""
    attempts = project.journal.attempts(Page(limit=SCANNED_ATTEMPTS))
    ids = list(dict.fromkeys(one.task_id for one in attempts if one.task_id))
    titles = project.store.tasks.titles(ids)
    return [(id, titles[id]) for id in ids if id in titles]


def _replay(project: Project, task_id: str) -> Replay:
    """Return what a task would be shown now, beside what its latest attempt was shown."""
    task = project.tasks.get(task_id).task
    attempts = project.journal.attempts(Page(limit=RANKED_MEMORIES), task=task_id)
    attempt = next((one for one in attempts if one.with_memory and one.outcome), None)
    then = [id for id in attempt.shown if not id.startswith(EPISODE_PREFIX)] if attempt else []
    ranked = [one.memory.id for one in project.prompts.ranking(task_id, RANKED_MEMORIES) if one.is_shown]
    told = [id for id in project.prompts.preview(task_id).shown if not id.startswith(EPISODE_PREFIX)]
    memories = _memories(project, dict.fromkeys((*told, *ranked, *then)))
    rows = [
        ReplayRow(
            memory=one.memory,
            was_shown=one.memory.id in then,
            explanation=one,
            is_new=attempt is not None and one.memory.created_at > attempt.started_at,
        )
        for one in project.prompts.explain_all(memories, task_id)
    ]
    rows.sort(key=lambda row: (not row.explanation.is_shown, row.explanation.rank or 0))
    known = {one.id for one in memories}
    return Replay(
        task_id=task_id,
        title=task.title,
        attempt=attempt,
        rows=tuple(rows),
        deleted=sum(id not in known for id in then),
    )


def _memories(project: Project, ids: Iterable[str]) -> list[Memory]:
    return [row_to_memory(row) for row in project.store.memories.rows_in("id", list(ids))]
