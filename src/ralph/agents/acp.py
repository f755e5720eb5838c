"""Drive any agent that speaks the Agent Client Protocol (ACP): which there are, and what each may do.

The program runs behind our guard and within our limits; `acp_session` does the talking. The SDK is an extra, loaded
with it when a session begins.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ralph.agents.claude import claude_environment, without_mentions
from ralph.agents.headless import opencode_variables
from ralph.agents.process import guarded
from ralph.agents.programs import Program
from ralph.config import PERMISSIONS
from ralph.environment import allowed
from ralph.errors import AgentUnavailableError
from ralph.extras import how_to_install
from ralph.records import record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ralph.agents import Session
    from ralph.config import AgentConfig
    from ralph.records import Reply

READING = frozenset({"read", "search", "think", "fetch"})
EDITING = READING | {"edit", "delete", "move", "switch_mode"}
"""All kinds of tools that run nothing. "other" may be anything, and counts as running something."""


@record
class Preset:
    """An agent whose command is known."""

    command: tuple[str, ...]
    package: str
    """What npm knows it by."""
    reports_cost: bool = False
    reports_tokens: bool = True
    modes: Mapping[str, str] = {}
    """The mode of a session for each of the permissions, where the usual one depends on a person's settings."""
    variables: Mapping[str, Mapping[str, str]] = {}
    """What to add to its environment for each of the permissions."""
    environment: Callable[[Mapping[str, str]], Mapping[str, str]] = lambda given: given
    """Gives the variables of a session, made of those that it is given."""
    as_text: Callable[[str, Path], str] = lambda prompt, directory: prompt
    """Gives the prompt such that the agent takes it for text, all of it, in a directory."""


_ASKS = dict.fromkeys(PERMISSIONS, "default")

PRESETS = {
    "claude-acp": Preset(
        command=("claude-agent-acp",),
        package="@agentclientprotocol/claude-agent-acp",
        reports_cost=True,
        modes=_ASKS,
        environment=claude_environment,
        as_text=without_mentions,
    ),
    "gemini-acp": Preset(command=("gemini", "--acp"), package="@google/gemini-cli", modes=_ASKS),
    "codex-acp": Preset(
        command=("codex-acp",),
        package="@agentclientprotocol/codex-acp",
        modes={"all": "agent-full-access", "edit": "workspace-write", "read": "read-only"},
    ),
    "opencode-acp": Preset(
        command=("opencode", "acp"),
        package="opencode-ai",
        reports_tokens=False,
        variables={may: opencode_variables(may) for may in PERMISSIONS},
    ),
}
_UNKNOWN = Preset(command=(), package="", reports_tokens=False)


class AcpAgent:
    """An agent that is spoken to over the Agent Client Protocol."""

    knows_files = False

    def __init__(self, config: AgentConfig, directory: Path, *, takes_model: bool = False) -> None:
        self.name = config.name
        self._preset = PRESETS.get(config.name, _UNKNOWN)
        self.reports_cost = self._preset.reports_cost
        self.reports_tokens = self._preset.reports_tokens
        self.takes_model = takes_model
        self._program = Program(
            title=config.name,
            package=self._preset.package,
            usual=self._preset.command[0] if self._preset.command else "",
            command=_command(self._preset, config.command),
        )
        self._permissions = config.permissions
        self._named = config.environment
        self._directory = directory

    def check(self) -> None:
        """Raise `AgentUnavailableError`, with what to do, when the program or the SDK is not there."""
        from importlib.util import find_spec

        if find_spec("acp") is None:
            raise AgentUnavailableError(_no_sdk())
        self._path()

    def work(self, prompt: str, session: Session) -> Reply:
        """Give the agent the prompt, answer what it asks, and take all of its messages for the answer."""
        began = time.monotonic()
        may = "read" if session.read_only else self._permissions
        preset = self._preset
        given = allowed(agent=self.name, named=self._named)
        with guarded(
            [self._path(), *self._program.command[1:]],
            directory=session.directory,
            environment=preset.environment({**given, **preset.variables.get(may, {}), **session.environment}),
        ) as program:
            # It takes a while, in which the program starts too.
            _load_sdk()
            from ralph.agents.acp_session import Talk

            text = preset.as_text(prompt, session.directory)
            talk = Talk(program, text, session, _allowed(may), preset.modes.get(may, ""))
            talk.until_the_end()
        program.check_started()
        return talk.reply(time.monotonic() - began)

    def _path(self) -> str:
        if not self._program.command:
            raise AgentUnavailableError("Say which program speaks ACP: command under [agent] in .ralph.toml.")
        return self._program.path(self._directory)


def _no_sdk() -> str:
    return f"The Agent Client Protocol is not there: {how_to_install('acp')}"


def _load_sdk() -> None:
    try:
        import acp.connection  # noqa: F401
    except ImportError as error:
        raise AgentUnavailableError(_no_sdk()) from error


def _command(preset: Preset, configured: tuple[str, ...]) -> tuple[str, ...]:
    """Give the whole command: the configured program stands for the usual one, and what follows it is added."""
    if not configured or not preset.command:
        return configured or preset.command
    return configured[0], *preset.command[1:], *configured[1:]


def _allowed(permissions: str) -> frozenset[str] | None:
    """Give the kinds of tools that may be used; None for all."""
    return {"all": None, "edit": EDITING}.get(permissions, READING)
