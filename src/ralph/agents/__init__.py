"""The agents Ralph can drive, by name, and what every one of them promises.

An agent never raises for what its session does: a crash, a time-out or a flood
is a `Reply` with that ending. It raises `AgentUnavailableError` only when the session
cannot be started at all, so that a run stops before it wastes attempts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ralph.errors import AgentUnavailableError
from ralph.records import record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ralph.config import AgentConfig, ModelsConfig
    from ralph.records import Reply


@record
class Limits:
    """How long, how silent and how loud a session may be."""

    seconds: float = 1800.0
    idle_seconds: float = 600.0
    output_bytes: int = 32 * 1024 * 1024


@record
class Session:
    """What an agent is given besides its prompt."""

    directory: Path
    model: str | None
    limits: Limits
    environment: Mapping[str, str]
    """Variables to add to those of ours that it gets."""
    should_stop: Callable[[], bool]
    """Asked several times a second; once true, the session is ended and the reply says `stopped`."""
    heard: Callable[[str], None]
    """Called with the text as it arrives, for people watching."""
    read_only: bool = False
    """It is to look and to judge; what it changes all the same is taken back."""


class Agent(Protocol):
    """Something that works on a prompt in a directory and answers in text."""

    name: str
    knows_files: bool
    """Whether its replies say which files it changed; otherwise git is asked."""
    reports_cost: bool
    """Whether its replies say what they cost."""
    reports_tokens: bool
    """Whether its replies say how many tokens they took; then the cost follows from the prices."""
    takes_model: bool
    """Whether it can be told which model to use."""

    def check(self) -> None:
        """Raise `AgentUnavailableError`, with what to do, when it cannot be started here."""

    def work(self, prompt: str, session: Session) -> Reply:
        """Run one session to its end, whatever that is; leave no process behind."""


@record
class Driven:
    """How an agent is driven."""

    by: str
    """The module that does it."""
    has_usual_models: bool = False
    """Whether the ladder that is there without any settings means something to it."""


DRIVEN = {
    "command": Driven(by="command"),
    "rehearsal": Driven(by="rehearsal"),
    "claude": Driven(by="claude", has_usual_models=True),
    "codex": Driven(by="headless"),
    "gemini": Driven(by="headless"),
    "opencode": Driven(by="headless"),
    "acp": Driven(by="acp"),
    "claude-acp": Driven(by="acp", has_usual_models=True),
    "codex-acp": Driven(by="acp"),
    "gemini-acp": Driven(by="acp"),
    "opencode-acp": Driven(by="acp"),
}
MODEL_MARK = "{model}"
"""Stands for the model's name in the arguments of a program."""


def open_agent(config: AgentConfig, directory: Path, models: ModelsConfig | None = None) -> Agent:
    """Give the configured agent, ready to work in the directory.

    `models` are those a person named; one that knows others than Ralph does by itself is told none without them.
    """
    driven = _driven(config.name)
    takes_model = _is_told_model(driven, config, models)
    if driven.by == "command":
        from ralph.agents.command import CommandAgent

        return CommandAgent(config.command, directory, config.environment)
    if driven.by == "rehearsal":
        from ralph.agents.rehearsal import RehearsalAgent

        return RehearsalAgent.from_project(directory)
    if driven.by == "claude":
        from ralph.agents.claude import ClaudeAgent

        return ClaudeAgent(config, directory)
    if driven.by == "headless":
        from ralph.agents.headless import HeadlessAgent

        return HeadlessAgent(config, directory, takes_model=takes_model)
    from ralph.agents.acp import AcpAgent

    return AcpAgent(config, directory, takes_model=takes_model)


def takes_model(config: AgentConfig, directory: Path | str, models: ModelsConfig) -> bool:
    """Say whether the configured agent can be told which model to use; loads no more than that takes."""
    driven = _driven(config.name)
    if driven.by == "command":
        return any(MODEL_MARK in part for part in config.command[1:])
    if driven.by == "rehearsal":
        from pathlib import Path

        return open_agent(config, Path(directory)).takes_model
    return _is_told_model(driven, config, models)


def _driven(name: str) -> Driven:
    if name not in DRIVEN:
        raise AgentUnavailableError(f"Unknown agent {name!r}. Known: {', '.join(DRIVEN)}.")
    return DRIVEN[name]


def _is_told_model(driven: Driven, config: AgentConfig, models: ModelsConfig | None) -> bool:
    """Say whether an agent knows the model that is chosen: the usual ones, or what a person named."""
    return driven.has_usual_models or bool(config.model) or (models is not None and models.is_own)
