"""Reflection: the configured agent looks back at past work in a read-only session and proposes what to remember."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ralph.agents import Limits, SessionOptions, open_agent
from ralph.agents.supervisor.sandbox import sandbox_of
from ralph.core.errors import RalphError, UsageError
from ralph.core.records import SessionEnding, now, record, replace
from ralph.core.text import CHARACTERS_PER_TOKEN, count_tokens, format_usd, one_line
from ralph.loop.environment import store_variables
from ralph.loop.git.read_only import ReadOnlyWorktree
from ralph.loop.git.settings import GitSettings
from ralph.loop.git.worktrees import SESSION_ACTION
from ralph.loop.limits import NO_LIMIT
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

MAX_SECONDS = 600.0
"""Timeout of a reflection, if that of sessions is longer, in seconds."""
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
    if options.agent:
        config = replace(config, agent=replace(config.agent, name=options.agent))
    if options.model:
        config = replace(config, agent=replace(config.agent, model=options.model))
    agent = open_agent(config.agent, directory, config.models)
    if options.model and not agent.accepts_model:
        raise UsageError(
            f"The {agent.name} agent takes no model. Put {{model}} into its command, or leave out the model.",
            code="no-model",
        )
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
        reply, changed = _run_session(store, config, directory, agent, prompt, max_cost, should_stop, is_only_run)
    finally:
        # A session that broke off may have cost what was expected.
        cost = _cost(config, agent, reply) if reply else expected
        is_seen = reply is not None and reply.ending is SessionEnding.FINISHED
        state = settle(store, expected or 0.0, cost or 0.0, began if is_seen else "")
    result = replace(result, cost_usd=cost, spent_usd=state.spent_usd, limit_usd=limit)
    return _with_answer(store, result, reply, changed, material)


def _with_answer(
    store: Store, result: ReflectionResult, reply: AgentReply, changed: tuple[str, ...], material: ReflectionMaterial
) -> ReflectionResult:
    """Validate and stage the answer of a session that finished and changed nothing."""
    if reply.ending is not SessionEnding.FINISHED:
        return replace(result, problem=f"the session did not finish: {reply.detail or reply.ending.value}")
    if changed:
        return replace(
            result, problem=f"the session changed files, which is undone: {one_line(', '.join(changed), 120)}"
        )
    answer = read_answer(reply.text, material)
    if answer.problem:
        return replace(result, problem=answer.problem)
    added, proposals, known = stage_answer(store, answer, result.agent)
    return replace(result, added=tuple(added), proposals=tuple(proposals), refused=(*answer.refused, *known))


def _run_session(
    store: Store,
    config: Config,
    directory: Path,
    agent: Agent,
    prompt: str,
    max_cost_usd: float,
    should_stop: Callable[[], bool],
    is_only_run: bool,
) -> tuple[AgentReply, tuple[str, ...]]:
    """Run a read-only session, as for a review; return its reply, and the files whose changes were undone."""
    limits = config.agent
    session = SessionOptions(
        directory=directory,
        model=config.agent.model if config.agent.model and agent.accepts_model else None,
        limits=Limits(
            seconds=min(limits.seconds or NO_LIMIT, MAX_SECONDS),
            idle_seconds=limits.idle_seconds or NO_LIMIT,
            output_bytes=int(limits.output_mb * 1024 * 1024) or sys.maxsize,
            memory_bytes=limits.memory_mb * 1024 * 1024,
            processes=limits.processes,
            sandbox=sandbox_of(config, directory, agent=agent.name, is_read_only=True),
        ),
        environment={"RALPH_READ_ONLY": "1", "GIT_REFLOG_ACTION": SESSION_ACTION, **store_variables(config)},
        should_stop=should_stop,
        on_output=lambda _: None,
        read_only=True,
        max_cost_usd=max_cost_usd,
    )
    with ReadOnlyWorktree(directory, GitSettings(directory), reverts=is_only_run) as frozen:
        store.database.release_connection()
        reply = agent.work(prompt, session)
    return reply, frozen.reverted


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


def _cost(config: Config, agent: Agent, reply: AgentReply) -> float | None:
    """Return what a session cost, or None if that is unknown."""
    if reply.cost_usd:
        return reply.cost_usd
    tokens = session_cost(config.models, config.agent.model, reply.tokens_in, reply.tokens_out)
    return tokens if tokens is not None else 0.0 if agent.reports_cost else None
