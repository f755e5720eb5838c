"""Any program that reads a prompt from stdin and answers on stdout."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ralph.agents import MODEL_PLACEHOLDER, has_model_placeholder
from ralph.agents.supervisor.executables import find_program
from ralph.agents.supervisor.process import run_program
from ralph.core.agents import FALLBACK_AGENTS
from ralph.core.environment import allowed_environment
from ralph.core.errors import AgentUnavailableError
from ralph.core.records import AgentReply

if TYPE_CHECKING:
    from pathlib import Path

    from ralph.agents import SessionOptions
    from ralph.core.config import AgentConfig


def build(config: AgentConfig, directory: Path, *, accepts_model: bool) -> CommandAgent:
    """Return the configured program as an agent; it accepts a model if its arguments have a place for one."""
    return CommandAgent(config, directory)


class CommandAgent:
    """A user-supplied program as the agent."""

    name = "command"
    reports_files = False
    reports_cost = False
    reports_tokens = False

    def __init__(self, config: AgentConfig, directory: Path) -> None:
        self._command = config.command
        self._variable_names = config.environment
        self._directory = directory
        self.accepts_model = has_model_placeholder(config.command)

    def check(self) -> None:
        """Raise `AgentUnavailableError` if the program cannot be started."""
        self._program()

    def work(self, prompt: str, session: SessionOptions) -> AgentReply:
        """Send the prompt and return the program's output as the reply.

        `{model}` in the arguments is replaced by the name of the model.

        """
        arguments = [part.replace(MODEL_PLACEHOLDER, session.model or "") for part in self._command[1:]]
        ended = run_program(
            [self._program(), *arguments],
            directory=session.directory,
            limits=session.limits,
            stdin=prompt,
            environment={
                **allowed_environment(agent=self.name, variable_names=self._variable_names),
                **session.environment,
            },
            should_stop=session.should_stop,
            on_output=session.on_output,
        )
        return AgentReply(
            text=ended.text,
            ending=ended.ending,
            detail=ended.detail,
            exit_code=ended.exit_code,
            seconds=ended.seconds,
        )

    def _program(self) -> str:
        if not self._command:
            raise AgentUnavailableError(
                f"No agent is set. {_installed_agents()} Any program can be one: ralph run -- sh agent.sh",
                code="no-agent-program",
            )
        return str(find_program(self._command[0], self._directory, os.environ.get("PATH", os.defpath)))


def _installed_agents() -> str:
    """Return a sentence about the agents that are installed here."""
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    found = [name for name in FALLBACK_AGENTS if any(os.access(os.path.join(one, name), os.X_OK) for one in path)]  # noqa: PTH118
    if not found:
        return "Choose one with --agent, such as --agent claude."
    return f"Installed here: {', '.join(found)}. Choose one with --agent {found[0]}."
