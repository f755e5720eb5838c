"""Coding agents that Ralph can run: the `Agent` protocol and the registry of implementations.

An agent never raises for what happens in a session: a crash, a timeout or an output flood is a `AgentReply` with the
corresponding ending. It raises `AgentUnavailableError` only when the session cannot be started at all, so that a run
stops before it wastes attempts.

"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ralph.core.errors import AgentUnavailableError
from ralph.core.records import record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ralph.core.config import AgentConfig, ModelsConfig
    from ralph.core.records import AgentReply


@record
class Limits:
    """Time, silence and output limits of a session."""

    seconds: float = 1800.0
    idle_seconds: float = 600.0
    output_bytes: int = 32 * 1024 * 1024


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


@record
class AgentSpec:
    """The implementation that runs an agent."""

    module: str
    """Name of the implementing module."""
    knows_default_models: bool = False
    """Whether the agent knows the models of Ralph's default ladder."""


AGENT_SPECS = {
    "command": AgentSpec(module="command"),
    "rehearsal": AgentSpec(module="rehearsal"),
    "claude": AgentSpec(module="claude", knows_default_models=True),
    "codex": AgentSpec(module="headless"),
    "gemini": AgentSpec(module="headless"),
    "opencode": AgentSpec(module="headless"),
    "acp": AgentSpec(module="acp"),
    "claude-acp": AgentSpec(module="acp", knows_default_models=True),
    "codex-acp": AgentSpec(module="acp"),
    "gemini-acp": AgentSpec(module="acp"),
    "opencode-acp": AgentSpec(module="acp"),
}
MODEL_PLACEHOLDER = "{model}"
"""Placeholder for the model name in a program's arguments."""


def open_agent(config: AgentConfig, directory: Path, models: ModelsConfig | None = None) -> Agent:
    """Return the configured agent, ready to work in the directory.

    `models` are the models named in the configuration. Without them, an agent that does not know Ralph's default models
    runs with its own default.

    """
    driver = _find_driver(config.name)
    takes_model = _accepts_model(driver, config, models)
    if driver.module == "command":
        from ralph.agents.command import CommandAgent

        return CommandAgent(config.command, directory, config.environment)
    if driver.module == "rehearsal":
        from ralph.agents.rehearsal import RehearsalAgent

        return RehearsalAgent.from_project(directory)
    if driver.module == "claude":
        from ralph.agents.claude import ClaudeAgent

        return ClaudeAgent(config, directory)
    if driver.module == "headless":
        from ralph.agents.headless import HeadlessAgent

        return HeadlessAgent(config, directory, accepts_model=takes_model)
    from ralph.agents.acp import AcpAgent

    return AcpAgent(config, directory, accepts_model=takes_model)


def agent_accepts_model(config: AgentConfig, directory: Path | str, models: ModelsConfig) -> bool:
    """Return whether the configured agent accepts a model name, without loading its implementation."""
    driver = _find_driver(config.name)
    if driver.module == "command":
        return any(MODEL_PLACEHOLDER in part for part in config.command[1:])
    if driver.module == "rehearsal":
        from pathlib import Path

        return open_agent(config, Path(directory)).accepts_model
    return _accepts_model(driver, config, models)


def _find_driver(name: str) -> AgentSpec:
    if name not in AGENT_SPECS:
        raise AgentUnavailableError(f"Unknown agent: {name!r}. Choose one of: {', '.join(AGENT_SPECS)}.")
    return AGENT_SPECS[name]


def _accepts_model(driver: AgentSpec, config: AgentConfig, models: ModelsConfig | None) -> bool:
    """Return whether the agent knows the models in use: Ralph's defaults or those from the configuration."""
    return driver.knows_default_models or bool(config.model) or (models is not None and models.is_customized)
