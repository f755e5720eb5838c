"""Agents that speak the Agent Client Protocol (ACP), their presets and permissions.

The program runs behind our guard and within our limits; `acp_session` implements the conversation. The SDK is an
optional dependency and is loaded when a session starts.

"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ralph.agents.claude import claude_environment, strip_file_mentions
from ralph.agents.opencode import opencode_variables
from ralph.agents.programs import AgentProgram
from ralph.agents.supervisor.process import guarded_process
from ralph.core.agents import AGENTS
from ralph.core.config import PERMISSIONS
from ralph.core.environment import allowed_environment
from ralph.core.errors import AgentUnavailableError
from ralph.core.extras import install_hint
from ralph.core.records import record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ralph.agents import SessionOptions
    from ralph.core.config import AgentConfig
    from ralph.core.records import AgentReply

READ_TOOL_KINDS = frozenset({"read", "search", "think", "fetch"})
EDIT_TOOL_KINDS = READ_TOOL_KINDS | {"edit", "delete", "move", "switch_mode"}
"""Tool kinds that execute nothing. "other" can be anything and counts as execution."""


@record
class AcpPreset:
    """An ACP agent whose command is known."""

    command: tuple[str, ...]
    package: str = ""
    """Name of the npm package."""
    installer: str = ""
    """Command that installs it, where there is no such package."""
    defaults: Mapping[str, str] = {}
    """Default environment variables; the user's own values take precedence."""
    modes: Mapping[str, str] = {}
    """Session mode by permission, where the default depends on the user's own settings."""
    tools: Mapping[str, tuple[str, ...]] = {}
    """Names of allowed tools by permission, for an agent that does not say what kind its tools are of."""
    permission_variables: Mapping[str, Mapping[str, str]] = {}
    """Environment variables to add, by permission."""
    adapt_environment: Callable[[Mapping[str, str]], Mapping[str, str]] = lambda variables: variables
    """Function that adapts the environment of a session."""
    escape_prompt: Callable[[str, Path], str] = lambda prompt, directory: prompt
    """Function that escapes the prompt so that the agent takes all of it as plain text."""


_DEFAULT_MODES = dict.fromkeys(PERMISSIONS, "default")
_GOOSE_READ_TOOLS = ("tree", "analyze", "load", "load_skill", "todo__todo_write")
_COPILOT_AGENT_MODE = "https://agentclientprotocol.com/protocol/session-modes#agent"

ACP_PRESETS = {
    "claude-acp": AcpPreset(
        command=("claude-agent-acp",),
        package="@agentclientprotocol/claude-agent-acp",
        modes=_DEFAULT_MODES,
        adapt_environment=claude_environment,
        escape_prompt=strip_file_mentions,
    ),
    "gemini-acp": AcpPreset(command=("gemini", "--acp"), package="@google/gemini-cli", modes=_DEFAULT_MODES),
    "codex-acp": AcpPreset(
        command=("codex-acp",),
        package="@agentclientprotocol/codex-acp",
        modes={"all": "agent-full-access", "edit": "workspace-write", "read": "read-only"},
    ),
    "opencode-acp": AcpPreset(
        command=("opencode", "acp"),
        package="opencode-ai",
        permission_variables={permissions: opencode_variables(permissions) for permissions in PERMISSIONS},
    ),
    "copilot": AcpPreset(
        command=("copilot", "--acp"),
        package="@github/copilot",
        defaults={"COPILOT_AUTO_UPDATE": "false"},
        modes=dict.fromkeys(PERMISSIONS, _COPILOT_AGENT_MODE),
        # The user's own value could allow everything unasked.
        permission_variables={permissions: {"COPILOT_ALLOW_ALL": "false"} for permissions in PERMISSIONS},
    ),
    "qwen": AcpPreset(command=("qwen", "--acp"), package="@qwen-code/qwen-code", modes=_DEFAULT_MODES),
    "cline": AcpPreset(
        command=("cline", "--acp"), package="cline", modes={"all": "act", "edit": "act", "read": "plan"}
    ),
    "droid": AcpPreset(
        command=("droid", "exec", "-o", "acp"),
        package="droid",
        defaults={"DROID_DISABLE_AUTO_UPDATE": "true"},
        modes=dict.fromkeys(PERMISSIONS, "normal"),
        escape_prompt=strip_file_mentions,
    ),
    "auggie": AcpPreset(
        command=("auggie", "--acp"),
        package="@augmentcode/auggie",
        defaults={"AUGMENT_DISABLE_AUTO_UPDATE": "1"},
        modes={"all": "default", "edit": "default", "read": "ask"},
    ),
    "goose": AcpPreset(
        command=("goose", "acp"),
        installer="curl -fsSL https://github.com/aaif-goose/goose/releases/download/stable/download_cli.sh | bash",
        modes=dict.fromkeys(PERMISSIONS, "approve"),
        tools={"read": _GOOSE_READ_TOOLS, "edit": (*_GOOSE_READ_TOOLS, "write", "edit")},
    ),
}
_UNKNOWN_PRESET = AcpPreset(command=())


def build(config: AgentConfig, directory: Path, *, accepts_model: bool) -> AcpAgent:
    """Return the configured agent."""
    return AcpAgent(config, directory, accepts_model=accepts_model)


class AcpAgent:
    """An agent that is controlled over the Agent Client Protocol."""

    reports_files = False

    def __init__(self, config: AgentConfig, directory: Path, *, accepts_model: bool = False) -> None:
        self.name = config.name
        self._preset = ACP_PRESETS.get(config.name, _UNKNOWN_PRESET)
        self.reports_cost = AGENTS[config.name].reports_cost
        self.reports_tokens = AGENTS[config.name].reports_tokens
        self.accepts_model = accepts_model
        self._program = AgentProgram(
            title=config.name,
            package=self._preset.package,
            installer=self._preset.installer,
            default_name=self._preset.command[0] if self._preset.command else "",
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

    def work(self, prompt: str, session: SessionOptions) -> AgentReply:
        """Send the prompt, answer permission requests and return all messages as the reply."""
        started = time.monotonic()
        permissions = "read" if session.read_only else self._permissions
        preset = self._preset
        inherited = allowed_environment(agent=self.name, variable_names=self._variable_names)
        variables = {**preset.defaults, **inherited, **preset.permission_variables.get(permissions, {})}
        with guarded_process(
            [self._path(), *self._program.command[1:]],
            directory=session.directory,
            environment=preset.adapt_environment({**variables, **session.environment}),
            sandbox=session.limits.sandbox,
        ) as program:
            # Loading takes a while; the program starts up meanwhile.
            _load_sdk()
            from ralph.agents.acp_session import AcpSession, ToolRules

            text = preset.escape_prompt(prompt, session.directory)
            rules = ToolRules(kinds=_allowed_kinds(permissions), names=frozenset(preset.tools.get(permissions, ())))
            talk = AcpSession(program, text, session, rules, preset.modes.get(permissions, ""))
            talk.run()
        program.check_started()
        return talk.reply(time.monotonic() - started)

    def _path(self) -> str:
        if not self._program.command:
            message = "No ACP program is configured. Set command under [agent] in .ralph.toml."
            raise AgentUnavailableError(message, code="no-agent-program")
        return self._program.path(self._directory)


def _missing_sdk_message() -> str:
    return f"The Agent Client Protocol SDK is not installed: {install_hint('acp')}"


def _load_sdk() -> None:
    try:
        import acp.connection  # noqa: F401
    except ImportError as error:
        raise AgentUnavailableError(_missing_sdk_message()) from error


def _command(preset: AcpPreset, configured: tuple[str, ...]) -> tuple[str, ...]:
    """Return the full command: a configured program replaces the default one, its arguments are appended."""
    if not configured or not preset.command:
        return configured or preset.command
    return configured[0], *preset.command[1:], *configured[1:]


def _allowed_kinds(permissions: str) -> frozenset[str] | None:
    """Return the tool kinds that may be used, or None for all."""
    return {"all": None, "edit": EDIT_TOOL_KINDS}.get(permissions, READ_TOOL_KINDS)
