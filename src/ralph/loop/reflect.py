"""Reflection: the configured agent looks back at past work in a read-only session and proposes what to remember."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ralph.core.errors import RalphError
from ralph.core.records import SessionEnding, now, record, replace
from ralph.core.text import CHARACTERS_PER_TOKEN, count_tokens, format_usd
from ralph.loop.ask import ask_read_only, cost_of, open_asked_agent, session_problem
from ralph.loop.strategy import session_cost
from ralph.memory.capture.reflection import MAX_MATERIAL_LENGTH, build_reflection_prompt, read_answer
from ralph.memory.reflection import default_since, gather_material, read_state, reserve, settle, stage_answer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ralph.agents import Agent
    from ralph.core.config import Config
    from ralph.core.records import AgentReply, Memory
    from ralph.memory.capture.reflection import Proposal, ReflectionMaterial
    from ralph.store import Store

AGENT_TOKENS = 20_000
"""Tokens that agents send to their model besides the prompt, by which the cost of a session is estimated."""
ANSWER_TOKENS = 4_000
"""Tokens of an answer, by which the cost of a session is estimated."""
CENTS_PER_USD = 100


@record
class ReflectionOptions:
    """What a reflection looks at, with which agent, and what it may cost."""

    since: str = ""
    """Time since when past work is looked at; empty for a day."""
    agent: str = ""
    model: str = ""
    max_cost_usd: float | None = None
    """What this reflection may cost; None for what is left of the settings' limit per day."""
    only_new: bool = False
    """Whether past work that was reflected on before is left out, and an unknown cost is no cost within the limit."""
    dry_run: bool = False


@record
class ReflectionResult:
    """What a reflection came to."""

    agent: str
    passages: int
    failures: int
    memories: int
    """Numbers of what the agent was shown."""
    added: tuple[Memory, ...] = ()
    """Memories that wait in the staging area."""
    proposals: tuple[Proposal, ...] = ()
    """Merges, corrections and removals that wait for a person."""
    refused: tuple[str, ...] = ()
    """Why other proposals do not count."""
    problem: str = ""
    """Why nothing of the answer counts."""
    cost_usd: float | None = None
    """None if it is unknown, or no session was started."""
    spent_usd: float = 0.0
    """What reflections have cost today."""
    limit_usd: float | None = None
    """What they may cost per day."""
    prompt: str = ""
    """The prompt, if no session was started."""

    @property
    def is_over_budget(self) -> bool:
        """Whether more than the limit of the day is spent."""
        return self.limit_usd is not None and self.spent_usd > self.limit_usd


def reflect(
    store: Store,
    config: Config,
    directory: Path,
    options: ReflectionOptions,
    *,
    should_stop: Callable[[], bool] = lambda: False,
    is_only_run: bool = True,
) -> ReflectionResult | None:
    """Let the configured agent reflect on past work, and stage what it proposes; None if there is nothing new.

    Raises `RalphError` if it may not cost that much. Files are not reverted unless `is_only_run`.
    """
    config, agent = open_asked_agent(config, directory, options.agent, options.model)
    began = now()
    since = options.since or default_since(read_state(store), only_new=options.only_new)
    length = min(MAX_MATERIAL_LENGTH, config.prompt.budget_tokens * CHARACTERS_PER_TOKEN)
    material = gather_material(store, since, length)
    if material.is_empty:
        return None
    prompt = build_reflection_prompt(material)
    result = ReflectionResult(
        agent=agent.name,
        passages=len(material.passages),
        failures=len(material.failures),
        memories=len(material.memories),
    )
    if options.dry_run:
        return replace(result, prompt=prompt, spent_usd=read_state(store).spent_usd)
    agent.check()
    expected, limit = _expected_cost(config, agent, prompt, options), None
    if options.max_cost_usd is None:
        limit = config.learning.reflect_cents / CENTS_PER_USD
    elif (expected or 0.0) > options.max_cost_usd:
        raise RalphError(
            f"Nothing was reflected on: it costs about {format_usd(expected or 0.0)}, more than"
            f" {format_usd(options.max_cost_usd)}.",
            code="reflection-budget",
        )
    spent = reserve(store, expected or 0.0, limit)
    max_cost = limit - spent if limit is not None else options.max_cost_usd or 0.0
    reply: AgentReply | None = None
    try:
        reply, changed = ask_read_only(
            store,
            config,
            directory,
            agent,
            prompt,
            max_cost_usd=max_cost,
            should_stop=should_stop,
            is_only_run=is_only_run,
        )
    finally:
        # A session that broke off may have cost what was expected.
        cost = cost_of(config, agent, reply) if reply else expected
        is_seen = reply is not None and reply.ending is SessionEnding.FINISHED
        state = settle(store, expected or 0.0, cost or 0.0, began if is_seen else "")
    result = replace(result, cost_usd=cost, spent_usd=state.spent_usd, limit_usd=limit)
    return _with_answer(store, result, reply, changed, material)


def _with_answer(
    store: Store, result: ReflectionResult, reply: AgentReply, changed: tuple[str, ...], material: ReflectionMaterial
) -> ReflectionResult:
    """Validate and stage the answer of a session that finished and changed nothing."""
    if problem := session_problem(reply, changed):
        return replace(result, problem=problem)
    answer = read_answer(reply.text, material)
    if answer.problem:
        return replace(result, problem=answer.problem)
    added, proposals, known = stage_answer(store, answer, result.agent)
    return replace(result, added=tuple(added), proposals=tuple(proposals), refused=(*answer.refused, *known))


def _expected_cost(config: Config, agent: Agent, prompt: str, options: ReflectionOptions) -> float | None:
    """Return about what a session costs, or None if that is unknown; raise if a limit could not be kept therefore."""
    expected = session_cost(config.models, config.agent.model, count_tokens(prompt) + AGENT_TOKENS, ANSWER_TOKENS)
    is_known = agent.reports_cost or (agent.reports_tokens and expected is not None)
    if not is_known and (options.only_new or options.max_cost_usd is not None):
        raise RalphError(
            f"Nothing was reflected on: what a session of the {agent.name} agent costs is unknown, so that no limit"
            " can be kept. Without a limit: ralph learn reflect",
            code="reflection-cost-unknown",
        )
    return expected
