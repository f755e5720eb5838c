"""Read-only sessions that ask an agent something: what to remember of past work, or which tasks a spec takes.

Such a session may read the project and nothing else: what it changes is undone, and nothing of its answer counts then.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ralph.agents import Limits, SessionOptions, open_agent
from ralph.agents.supervisor.sandbox import sandbox_of
from ralph.core.errors import UsageError
from ralph.core.records import SessionEnding, replace
from ralph.core.text import one_line
from ralph.loop.environment import store_variables
from ralph.loop.git.read_only import ReadOnlyWorktree
from ralph.loop.git.settings import GitSettings
from ralph.loop.git.worktrees import SESSION_ACTION
from ralph.loop.limits import NO_LIMIT
from ralph.loop.strategy import session_cost

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ralph.agents import Agent
    from ralph.core.config import Config
    from ralph.core.records import AgentReply
    from ralph.store import Store

MAX_SECONDS = 600.0
"""Timeout of such a session, if that of others is longer, in seconds."""


def open_asked_agent(config: Config, directory: Path, name: str = "", model: str = "") -> tuple[Config, Agent]:
    """Return the configured agent, or the one with a name, and the settings with its name and model."""
    if name:
        config = replace(config, agent=replace(config.agent, name=name))
    if model:
        config = replace(config, agent=replace(config.agent, model=model))
    agent = open_agent(config.agent, directory, config.models)
    if model and not agent.accepts_model:
        raise UsageError(
            f"The {agent.name} agent takes no model. Put {{model}} into its command, or leave out the model.",
            code="no-model",
        )
    return config, agent


def ask_read_only(
    store: Store,
    config: Config,
    directory: Path,
    agent: Agent,
    prompt: str,
    *,
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


def session_problem(reply: AgentReply, changed: tuple[str, ...]) -> str:
    """Return why nothing of an answer counts, whatever it says; empty if the session finished and changed nothing."""
    if reply.ending is not SessionEnding.FINISHED:
        return f"the session did not finish: {reply.detail or reply.ending.value}"
    if changed:
        return f"the session changed files, which is undone: {one_line(', '.join(changed), 120)}"
    return ""


def cost_of(config: Config, agent: Agent, reply: AgentReply) -> float | None:
    """Return what a session cost, or None if that is unknown."""
    if reply.cost_usd:
        return reply.cost_usd
    tokens = session_cost(config.models, config.agent.model, reply.tokens_in, reply.tokens_out)
    return tokens if tokens is not None else 0.0 if agent.reports_cost else None
