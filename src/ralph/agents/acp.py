"""Agents that speak the Agent Client Protocol (ACP), their presets and permissions.

The program runs behind our guard and within our limits; `acp_session` implements the conversation. The SDK is an
optional dependency and is loaded when a session starts.

"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ralph.agents.claude import claude_environment, without_mentions
from ralph.agents.headless import opencode_variables
from ralph.agents.programs import Program
from ralph.agents.supervisor.process import guarded
from ralph.core.config import PERMISSIONS
from ralph.core.environment import allowed
from ralph.core.errors import AgentUnavailableError
from ralph.core.extras import how_to_install
from ralph.core.records import record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ralph.agents import Session
    from ralph.core.config import AgentConfig
    from ralph.core.records import Reply

READING = frozenset({"read", "search", "think", "fetch"})
EDITING = READING | {"edit", "delete", "move", "switch_mode"}
"""Tool kinds that execute nothing. "other" can be anything and counts as execution."""


@record
class Preset:
    """An ACP agent whose command is known."""

    command: tuple[str, ...]
    package: str
    """Name of the npm package."""
    reports_cost: bool = False
    reports_tokens: bool = True
    modes: Mapping[str, str] = {}
    """Session mode by permission, where the default depends on the user's own settings."""
    variables: Mapping[str, Mapping[str, str]] = {}
    """Environment variables to add, by permission."""
    environment: Callable[[Mapping[str, str]], Mapping[str, str]] = lambda variables: variables
    """Function that adapts the environment of a session."""
    as_text: Callable[[str, Path], str] = lambda prompt, directory: prompt
    """Function that escapes the prompt so that the agent takes all of it as plain text."""


_DEFAULT_MODES = dict.fromkeys(PERMISSIONS, "default")

PRESETS = {
    "claude-acp": Preset(
        command=("claude-agent-acp",),
        package="@agentclientprotocol/claude-agent-acp",
        reports_cost=True,
        modes=_DEFAULT_MODES,
        environment=claude_environment,
        as_text=without_mentions,
    ),
    "gemini-acp": Preset(command=("gemini", "--acp"), package="@google/gemini-cli", modes=_DEFAULT_MODES),
    "codex-acp": Preset(
        command=("codex-acp",),
        package="@agentclientprotocol/codex-acp",
        modes={"all": "agent-full-access", "edit": "workspace-write", "read": "read-only"},
    ),
    "opencode-acp": Preset(
        command=("opencode", "acp"),
        package="opencode-ai",
        reports_tokens=False,
        variables={permissions: opencode_variables(permissions) for permissions in PERMISSIONS},
    ),
}
_UNKNOWN_PRESET = Preset(command=(), package="", reports_tokens=False)


class AcpAgent:
    """An agent that is controlled over the Agent Client Protocol."""

    knows_files = False

    def __init__(self, config: AgentConfig, directory: Path, *, takes_model: bool = False) -> None:
        self.name = config.name
        self._preset = PRESETS.get(config.name, _UNKNOWN_PRESET)
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
        self._variable_names = config.environment
        self._directory = directory

    def check(self) -> None:
        """Raise `AgentUnavailableError` if the program or the SDK is not installed."""
        from importlib.util import find_spec

        if find_spec("acp") is None:
            raise AgentUnavailableError(_missing_sdk_message())
        self._path()

    def work(self, prompt: str, session: Session) -> Reply:
        """Send the prompt, answer permission requests and return all messages as the reply."""
        started = time.monotonic()
        permissions = "read" if session.read_only else self._permissions
        preset = self._preset
        variables = allowed(agent=self.name, named=self._variable_names)
        with guarded(
            [self._path(), *self._program.command[1:]],
            directory=session.directory,
            environment=preset.environment(
                {**variables, **preset.variables.get(permissions, {}), **session.environment}
            ),
        ) as program:
            # Loading takes a while; the program starts up meanwhile.
            _load_sdk()
            from ralph.agents.acp_session import Talk

            text = preset.as_text(prompt, session.directory)
            talk = Talk(program, text, session, _allowed_tools(permissions), preset.modes.get(permissions, ""))
            talk.until_the_end()
        program.check_started()
        return talk.reply(time.monotonic() - started)

    def _path(self) -> str:
        if not self._program.command:
            raise AgentUnavailableError("No ACP program is configured. Set command under [agent] in .ralph.toml.")
        return self._program.path(self._directory)


def _missing_sdk_message() -> str:
    return f"The Agent Client Protocol SDK is not installed: {how_to_install('acp')}"


def _load_sdk() -> None:
    try:
        import acp.connection  # noqa: F401
    except ImportError as error:
        raise AgentUnavailableError(_missing_sdk_message()) from error


def _command(preset: Preset, configured: tuple[str, ...]) -> tuple[str, ...]:
    """Return the full command: a configured program replaces the default one, its arguments are appended."""
    if not configured or not preset.command:
        return configured or preset.command
    return configured[0], *preset.command[1:], *configured[1:]


def _allowed_tools(permissions: str) -> frozenset[str] | None:
    """Return the tool kinds that may be used, or None for all."""
    return {"all": None, "edit": EDITING}.get(permissions, READING)
