"""What the next attempt at a task would be told, and why."""

from __future__ import annotations

import sys

from ralph.core.records import MemoryState, now, record
from ralph.loop.git.unfinished import unfinished_changes
from ralph.loop.prepare import prepare_attempt
from ralph.loop.prompt import RULES_SECTION
from ralph.loop.run_log import is_run_over
from ralph.loop.workers import dead_workers
from ralph.memory.lifecycle.confidence import days_between
from ralph.memory.recall.gather import filter_for_prompt, next_context, recall_for_prompt, running_id
from ralph.memory.recall.select import SAID_BY_GUIDE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from ralph.core.config import Config
    from ralph.core.records import Episode, Memory, OmittedItem, Prompt, RecalledMemory
    from ralph.loop.choose_model import AttemptPlan
    from ralph.loop.prepare import PreparedAttempt
    from ralph.memory.queries import MemoryQueries
    from ralph.memory.recall.query import RecallContext
    from ralph.store import Store


@record
class Explanation:
    """Why a memory is, or is not, shown for a task or for what a person types into a session."""

    memory: Memory
    task_id: str
    """Empty for what a person types."""
    score: float | None
    because: tuple[tuple[str, float], ...]
    relevance: float | None
    """Estimated probability that it is relevant."""
    evidence: str
    """What the estimate rests on, in words."""
    rank: int | None
    """Its position in the ranking, from 1."""
    ranked: int
    """Number of memories in the ranking."""
    is_shown: bool
    reason: str
    """Why it is not shown; empty when it is."""
    is_rule: bool = False
    """Whether it is told in every prompt, as a standing rule."""


@record
class EpisodeExplanation:
    """Why an episode is, or is not, quoted for a task. Fields are as in `Explanation`."""

    episode: Episode
    task_id: str
    score: float | None
    because: tuple[tuple[str, float], ...]
    relevance: float | None
    evidence: str
    rank: int | None
    ranked: int
    is_shown: bool
    reason: str
    is_rule: bool = False


class PromptService:
    """Previews of the prompts of one opened project. Changes nothing."""

    def __init__(
        self, store: Store, config: Config, memory: MemoryQueries, takes_model: Callable[[], bool], directory: Path
    ) -> None:
        self._directory = directory
        self._store = store
        self._config = config
        self._memory = memory
        self._takes_model = takes_model

    def preview(self, task_id: str, *, model: str | None = None, with_memory: bool = True) -> Prompt:
        """Return the prompt that the next attempt at a task would get."""
        runs = self._store.runs.latest(1)
        active = runs[0] if runs and not is_run_over(runs[0]) else None
        return self._prepare(
            task_id,
            run_id=active.id if active else "",
            iteration=(active.iterations if active else 0) + 1,
            model=model,
            with_memory=with_memory,
            takes_model=self._takes_model(),
        ).prompt

    def plan(self, task_id: str) -> AttemptPlan:
        """Return the hat and the model that the next attempt at a task would get, with the reasons."""
        from ralph.loop.choose_model import plan_attempt

        task, metrics = self._store.tasks.get(task_id), self._store.stats.metrics(task_id)
        return plan_attempt(self._store, self._config, task, metrics, takes_model=self._takes_model())

    def explain(self, memory_id: str, task_id: str) -> Explanation:
        """Return how a memory scores for a task, its rank, and why it is not shown."""
        return self.explain_all([self._memory.get(memory_id)], task_id)[0]

    def ranking(self, task_id: str, limit: int) -> list[Explanation]:
        """Return the memories that match a task, in the order of its next prompt, shown or not."""
        found = [one.memory for one in self._memory.search("", limit=limit, task_id=task_id)]
        return sorted(self.explain_all(found, task_id), key=lambda one: one.rank or sys.maxsize)

    def explain_all(self, memories: Sequence[Memory], task_id: str) -> list[Explanation]:
        """Return for each memory how it scores for a task, and why the next prompt does not show it."""
        context = next_context(self._store, task_id)
        prepared = self._prepare(task_id, run_id=running_id(self._store), iteration=1)
        shown, left_out = prepared.context.memories, prepared.context.left_out
        if not self._config.injects_memories:
            recalled = recall_for_prompt(self._store, context, self._config)
            shown, left_out = recalled.shown, recalled.left_out
        no_room = {
            left.id: left.why for section in prepared.prompt.sections for left in section.left_out if not left.place
        }
        told = _ids_of_rules(prepared.prompt)
        guided = self._guided()
        ranked: dict[str, tuple[RecalledMemory | OmittedItem, str]] = {left.id: (left, left.why) for left in left_out}
        for one in shown:
            fits = one.memory.id in prepared.prompt.shown
            reason = "" if fits else no_room.get(one.memory.id, "no room left for it")
            ranked[one.memory.id] = (one, reason)
        explanations = []
        for memory in memories:
            found, reason = ranked.get(memory.id) or (None, _why_unranked(memory, context))
            reason = "" if memory.id in told else self._why_excluded(memory, guided) or reason
            is_rule = memory.id in told
            explanations.append(_explanation(memory, found, reason, len(ranked), task_id=task_id, is_rule=is_rule))
        return explanations

    def explain_typed(self, memory_id: str, text: str) -> Explanation:
        """Return how a memory scores for what a person types into a new session, and why it is not added to that."""
        from ralph.memory.recall.candidates import recall_memories
        from ralph.memory.recall.select import SESSION_CUT
        from ralph.memory.sessions import MAX_PROMPT_MEMORIES, session_query

        memory, context, config = self._memory.get(memory_id), session_query(text), self._config
        recalled = recall_memories(
            self._store,
            context,
            filter_for_prompt(context, config),
            MAX_PROMPT_MEMORIES,
            config.memories.filter.tags,
            cut=SESSION_CUT,
            by_meaning=config.memories.meaning,
            may_load=config.memories.meaning_in_hooks,  # as the hook of the session
        )
        ranked: dict[str, tuple[RecalledMemory | OmittedItem, str]] = {
            left.id: (left, left.why) for left in recalled.left_out
        }
        ranked |= {one.memory.id: (one, "") for one in recalled.shown}
        found, reason = ranked.get(memory.id) or (None, _why_unranked(memory, context))
        reason = self._why_excluded(memory, self._guided()) or reason
        return _explanation(memory, found, reason, len(ranked))

    def explain_episodes(self, episodes: Sequence[Episode], task_id: str) -> list[EpisodeExplanation]:
        """Return for each episode how it scores for a task, and why the next prompt does not quote it."""
        from ralph.memory.recall.episodes import (
            MAX_RECALLED,
            PASSAGE_CUT,
            exclusion_reasons,
            rank_episodes,
            to_recalled,
        )
        from ralph.memory.recall.evidence import words_as_written

        context = next_context(self._store, task_id)
        prompt = self._prepare(task_id, run_id=running_id(self._store), iteration=1).prompt
        told = _ids_of_rules(prompt)
        no_room = {left.id: left.why for section in prompt.sections for left in section.left_out}
        ranked = rank_episodes(self._store, context, by_meaning=self._config.memories.meaning)
        minimum = PASSAGE_CUT.minimum_for(ranked)
        written = words_as_written(context)
        excluded = exclusion_reasons(ranked, context, written, minimum)
        places = {hit.row["id"]: place for place, hit in enumerate(ranked, 1)}
        explanations = []
        for episode in episodes:
            place = places.get(episode.id)
            hit = ranked[place - 1] if place else None
            recalled = to_recalled(hit, written) if hit else None
            reason = "" if hit else _why_episode_unranked(episode, context)
            if place and episode.id not in prompt.episodes:
                top = f"not among the {MAX_RECALLED} best that have enough in common with the task"
                reason = excluded[place - 1] or no_room.get(episode.id, top)
            reason = "" if episode.id in told else self._why_no_past_work() or reason
            explanations.append(
                EpisodeExplanation(
                    episode=episode,
                    task_id=task_id,
                    score=recalled.score if recalled else None,
                    because=recalled.because if recalled else (),
                    relevance=recalled.relevance if recalled else None,
                    evidence=recalled.evidence if recalled else "",
                    rank=place,
                    ranked=len(ranked),
                    is_shown=not reason,
                    reason=reason,
                    is_rule=episode.id in told,
                )
            )
        return explanations

    def _prepare(
        self,
        task_id: str,
        *,
        run_id: str,
        iteration: int,
        model: str | None = None,
        with_memory: bool = True,
        takes_model: bool = True,
    ) -> PreparedAttempt:
        metrics = self._store.stats.metrics(task_id)
        return prepare_attempt(
            self._store,
            self._config,
            self._store.tasks.get(task_id),
            metrics,
            run_id=run_id,
            iteration=iteration,
            attempt_number=metrics.total_attempts + 1,
            model=model,
            with_memory=with_memory,
            takes_model=takes_model,
            guided=self._guided(),
            find_unfinished=lambda: unfinished_changes(self._directory),
            find_dead=dead_workers,
        )

    def _guided(self) -> frozenset[str]:
        return self._memory.guided(self._config.agent.name)

    def _why_excluded(self, memory: Memory, guided: Collection[str]) -> str:
        """Return why no prompt at all shows a memory; empty when one might."""
        only = self._config.memories.filter
        if memory.state is not MemoryState.ACTIVE:
            return f"is {memory.state}: {memory.state_reason}".rstrip(": ")
        if not self._config.injects_memories:
            return f"the settings put no memories into prompts ({self._no_memories_setting()})"
        if only.types and memory.kind not in only.types:
            return f"the settings allow only some types (memories.filter.types = {', '.join(only.types)})"
        if only.recent and days_between(memory.created_at, now()) > only.recent:
            return f"the settings allow only recent ones (memories.filter.recent = {only.recent})"
        if memory.id in guided:
            return SAID_BY_GUIDE
        return ""

    def _why_no_past_work(self) -> str:
        """Return why no prompt at all quotes episodes; empty when one might."""
        if self._config.injects_episodes:
            return ""
        setting = "episodes.budget = 0" if self._config.injects_memories else self._no_memories_setting()
        return f"the settings put no past work into prompts ({setting})"

    def _no_memories_setting(self) -> str:
        settings = self._config.memories
        return f"memories.inject = {settings.inject}" if settings.enabled else "memories.enabled = false"


def _explanation(
    memory: Memory,
    found: RecalledMemory | OmittedItem | None,
    reason: str,
    ranked: int,
    *,
    task_id: str = "",
    is_rule: bool = False,
) -> Explanation:
    return Explanation(
        memory=memory,
        task_id=task_id,
        score=found.score if found else None,
        because=found.because if found else (),
        relevance=found.relevance if found else None,
        evidence=found.evidence if found else "",
        rank=found.place if found else None,
        ranked=ranked,
        is_shown=not reason,
        reason=reason,
        is_rule=is_rule,
    )


def _ids_of_rules(prompt: Prompt) -> set[str]:
    """Return the memories and episodes that a prompt tells as standing rules."""
    return {id for section in prompt.sections if section.name == RULES_SECTION for id in section.shown}


def _why_unranked(memory: Memory, context: RecallContext) -> str:
    """Return why a memory is not in the ranking for a context."""
    if memory.structured_content:
        return _why_not_learned_for(memory, context)
    from ralph.memory.recall.candidates import MAX_CANDIDATES

    text = "\n".join((memory.title, memory.content, *memory.tags))
    return _why_not_found(text, memory.files, context, MAX_CANDIDATES)


def _why_not_learned_for(memory: Memory, context: RecallContext) -> str:
    """Return why what a previous loop taught, which is found by type, error and files, is not for a context."""
    from ralph.memory.lifecycle.task_type import classify_objective
    from ralph.memory.recall.learnings import MAX_PER_KIND, MIN_CONFIDENCE

    if memory.confidence < MIN_CONFIDENCE:
        return f"has a confidence of {memory.confidence:.2f}, below {MIN_CONFIDENCE}"
    wanted = context.task_type or classify_objective(context.title or context.body)
    if memory.task_type != wanted:
        return f"was learned from {memory.task_type} tasks, and this is a {wanted} task"
    return f"not among the {MAX_PER_KIND.get(memory.kind, 0)} best of its kind for {wanted} tasks"


def _why_episode_unranked(episode: Episode, context: RecallContext) -> str:
    """Return why an episode is not in the ranking for a context."""
    from ralph.memory.recall.episodes import MAX_CANDIDATES

    return _why_not_found(episode.text, episode.files, context, MAX_CANDIDATES)


def _why_not_found(text: str, files: Sequence[str], context: RecallContext, most: int) -> str:
    from ralph.core.tokenize import tokenize, tokenize_path
    from ralph.memory.recall.query import build_query

    held = {*tokenize(text), *(word for path in files for word in tokenize_path(path))}
    if held.isdisjoint(build_query(context).words):
        return "has no distinctive word in common with the task"
    return f"not among the {most} that have the most words in common with the task"
