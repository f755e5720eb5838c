"""Coding agents that Ralph can run: the `Agent` protocol, and how to open one of the registry in `ralph.core.agents`.

An agent never raises for what happens in a session: a crash, a timeout or an output flood is an `AgentReply` with the
corresponding ending. It raises `AgentUnavailableError` only when the session cannot be started at all, so that a run
stops before it wastes attempts.

"""

from __future__ import annotations

import importlib

from ralph.core.agents import AGENTS, RUNNABLE_AGENTS
from ralph.core.errors import AgentUnavailableError
from ralph.core.records import record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import Protocol

    from ralph.agents.supervisor.sandbox import Sandbox
    from ralph.core.agents import AgentSpec
    from ralph.core.config import AgentConfig, ModelsConfig
    from ralph.core.records import AgentReply
else:
    Protocol = object  # importing typing takes milliseconds, and `ralph status` loads this module


@record
class Limits:
    """What a session may use and reach: time, silence, output, and the rest of the machine."""

    seconds: float = 1800.0
    idle_seconds: float = 600.0
    output_bytes: int = 32 * 1024 * 1024
    memory_bytes: int = 0
    """Maximum memory of all processes together; 0 means no limit."""
    processes: int = 0
    """Maximum number of processes at a time; 0 means no limit."""
    sandbox: Sandbox | None = None
    """What confines the program; None if nothing does."""


@record
class SessionOptions:
    """Everything an agent receives besides its prompt."""

    directory: Path
    model: str | None
    limits: Limits
    environment: Mapping[str, str]
    """Variables added to those the agent inherits."""
    should_stop: Callable[[], bool]
    """Polled several times a second; once true, the session is terminated with ending `stopped`."""
    on_output: Callable[[str], None]
    """Called with output text as it arrives, for live display."""
    read_only: bool = False
    """Whether the session may only review; any changes it makes are reverted."""
    max_cost_usd: float = 0.0
    """Cost after which the session ends, for agents that can tell; 0 means no limit."""


class Agent(Protocol):
    """A program that works on a prompt in a directory and replies in text."""

    name: str
    reports_files: bool
    """Whether replies list the changed files; otherwise they are taken from git."""
    reports_cost: bool
    """Whether replies include their cost."""
    reports_tokens: bool
    """Whether replies include token counts, from which the cost can be calculated."""
    accepts_model: bool
    """Whether a model can be selected."""

    def check(self) -> None:
        """Raise `AgentUnavailableError` if the agent cannot be started on this machine."""

    def work(self, prompt: str, session: SessionOptions) -> AgentReply:
        """Run one session to its end and leave no process behind."""


MODEL_PLACEHOLDER = "{model}"
"""Placeholder for the model name in a program's arguments."""


def open_agent(config: AgentConfig, directory: Path, models: ModelsConfig | None = None) -> Agent:
    """Return the configured agent, ready to work in the directory.

    `models` are the models and the strategy of the configuration. Without them the agent uses its own default model.
    """
    spec = _find_spec(config.name)
    module = importlib.import_module(f"ralph.agents.{spec.module}")
    agent: Agent = module.build(config, directory, accepts_model=_knows_models(spec, config, models))
    return agent


def open_fallbacks(config: AgentConfig, directory: Path) -> list[Agent]:
    """Return the agents that take over while the configured one cannot use its model; each uses its own model."""
    names = [name for name in dict.fromkeys(config.fallback) if name != config.name]
    return [open_agent(replace(config, name=name, command=(), model=""), directory) for name in names]


def agent_accepts_model(config: AgentConfig, directory: Path | str, models: ModelsConfig) -> bool:
    """Return whether the configured agent accepts a model name, without loading its implementation if possible."""
    spec = _find_spec(config.name)
    if spec.module == "command":
        return has_model_placeholder(config.command)
    if spec.module == "rehearsal":
        from pathlib import Path

        return open_agent(config, Path(directory)).accepts_model
    return _knows_models(spec, config, models)


def has_model_placeholder(command: Sequence[str]) -> bool:
    """Return whether the arguments of a program have a placeholder for the model."""
    return any(MODEL_PLACEHOLDER in part for part in command[1:])


def _find_spec(name: str) -> AgentSpec:
    if name not in RUNNABLE_AGENTS:
        raise AgentUnavailableError(f"Unknown agent: {name!r}. Choose one of: {', '.join(RUNNABLE_AGENTS)}.")
    return AGENTS[name]


def _knows_models(spec: AgentSpec, config: AgentConfig, models: ModelsConfig | None) -> bool:
    """Return whether Ralph chooses the model: one is configured, or a strategy whose models the agent knows.

    Otherwise the agent uses its own default, which is what its person chose.
    """
    if config.model or (models is not None and models.is_customized):
        return True
    return spec.knows_default_models and models is not None and bool(models.strategy)
