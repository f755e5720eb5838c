"""Settings of each supported agent: files, hook events, MCP servers and skills.

To add an agent, add a function here and an entry in `EDITS_BY_AGENT`. docs/setup.md lists the tested versions.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

from ralph.core import skill
from ralph.core.records import record, replace
from ralph.integrations.setup.edits import JsonEdit, TomlEdit
from ralph.integrations.setup.text_edits import FileEdit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ralph.integrations.setup.text_edits import Edit

HOOK_TIMEOUT_SECONDS = 10
"""Timeout of a hook, in seconds. `ralph hook` always answers within 8."""
CODEX_SESSION_END_TIMEOUT_SECONDS = 3
"""Timeout of the SessionEnd hook of Codex, in seconds. Codex warns at every start about a longer one."""
SERVER_ENV_VARIABLES = ("RALPH_SESSION", "RALPH_TASK_ID", "RALPH_RUN_ID", "RALPH_ATTEMPT", "RALPH_STORE")
"""Environment variables that the MCP server needs. Codex passes on only those that are listed."""
OPENCODE_CONFIG_NAMES = ("opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc")
"""Possible settings files of opencode, by precedence."""

_CLAUDE = {
    "SessionStart": "session-start",
    "UserPromptSubmit": "user-prompt-submit",
    "PreCompact": "pre-compact",
    "PostCompact": "post-compact",
    "Stop": "stop",
    "SubagentStop": "subagent-stop",
    "SessionEnd": "session-end",
}
_GEMINI = {
    "SessionStart": "session-start",
    "BeforeAgent": "user-prompt-submit",
    "AfterAgent": "stop",
    "PreCompress": "pre-compact",
    "SessionEnd": "session-end",
}
_CURSOR = {
    "sessionStart": "session-start",
    "beforeSubmitPrompt": "user-prompt-submit",
    "afterAgentResponse": "stop",  # the only event with the text of the response
    "preCompact": "pre-compact",
    "sessionEnd": "session-end",
}


@record
class SetupOptions:
    """Options of a setup: what to connect, and where."""

    root: Path | None
    """Root of the project, or None for all projects of the user."""
    home: Path
    environment: Mapping[str, str]
    program: tuple[str, ...]
    with_hooks: bool = True
    with_server: bool = True

    def user_directory(self, variable: str, name: str) -> Path:
        """Return the user settings directory of an agent."""
        return Path(self.environment[variable]) if self.environment.get(variable) else self.home / name

    def hook_entries(
        self, agent: str, events: Mapping[str, str], timeout: int, **more: Any
    ) -> dict[str, dict[str, Any]]:
        """Return a hook for each event, or none if hooks are off."""
        if not self.with_hooks:
            return {}
        start = shlex.join(self.program)
        return {
            event: {**more, "command": f"{start} hook {name} --agent {agent}", "timeout": timeout}
            for event, name in events.items()
        }

    def server_entry(self, *before: str, **more: Any) -> dict[str, Any]:
        """Return the entry of our MCP server. `before` holds arguments to put before `mcp`."""
        command, *arguments = self.program
        return {"command": command, "args": [*arguments, *before, "mcp"], **more}


def ralph_command(executable: str = sys.executable) -> tuple[str, ...]:
    """Return the command that starts this installation of ralph, with its absolute path.

    A bare name could start another installation, or a slow shim.
    """
    beside = os.path.join(os.path.dirname(executable), "ralph")  # noqa: PTH118, PTH120
    # Without -P, Python would run a ralph.py from the working directory of the agent.
    return (beside,) if os.access(beside, os.X_OK) else (executable, "-P", "-m", "ralph")


def _skill(folder: Path) -> FileEdit:
    path = folder / skill.SKILL_NAME / "SKILL.md"
    return FileEdit(
        path=path,
        content=skill.SKILL_FILE.encode(),
        description="add the skill that explains how to use the memory",
        is_prose=True,
    )


def _claude(options: SetupOptions) -> list[Edit]:
    hooks = options.hook_entries("claude", _CLAUDE, HOOK_TIMEOUT_SECONDS, type="command")
    # Without this permission, Claude Code asks before each tool call and denies it in headless mode.
    words: dict[tuple[str, ...], str] = {("permissions", "allow"): "mcp__ralph"}
    if options.root is None:
        folder = options.user_directory("CLAUDE_CONFIG_DIR", ".claude")
        servers = (folder if options.environment.get("CLAUDE_CONFIG_DIR") else options.home) / ".claude.json"
        settings = folder / "settings.json"
    else:
        folder, servers = options.root / ".claude", options.root / ".mcp.json"
        settings = folder / "settings.local.json"
        # Claude Code asks before it starts a server from .mcp.json. Running setup counts as approval.
        words[("enabledMcpjsonServers",)] = "ralph"
    return [
        JsonEdit(
            path=settings,
            agent="claude",
            hooks=hooks,
            list_items=words,
            with_list_items=options.with_server,
            description_without_items=_describe(hooks),
            description=_describe(hooks, "allow the tools of the MCP server ralph" if options.with_server else ""),
        ),
        JsonEdit(
            path=servers,
            agent="claude",
            servers_key="mcpServers",
            server=options.server_entry(),
            with_server=options.with_server,
            description="add the MCP server ralph",
        ),
        _skill(folder / "skills"),
    ]


def _codex(options: SetupOptions) -> list[Edit]:
    hooks = options.hook_entries("codex", _CLAUDE, HOOK_TIMEOUT_SECONDS, type="command")
    if hooks:
        hooks["SessionEnd"]["timeout"] = CODEX_SESSION_END_TIMEOUT_SECONDS
    folder = options.root / ".codex" if options.root else options.user_directory("CODEX_HOME", ".codex")
    return [
        JsonEdit(path=folder / "hooks.json", agent="codex", hooks=hooks, description=_describe(hooks)),
        TomlEdit(
            path=folder / "config.toml",
            server=options.server_entry(env_vars=list(SERVER_ENV_VARIABLES)),
            is_wanted=options.with_server,
            description="add the MCP server ralph",
        ),
        _skill((options.root or options.home) / ".agents" / "skills"),
    ]


def _gemini(options: SetupOptions) -> list[Edit]:
    hooks = options.hook_entries("gemini", _GEMINI, HOOK_TIMEOUT_SECONDS * 1000, name="ralph", type="command")
    folder = (options.root or options.user_directory("GEMINI_CLI_HOME", "")) / ".gemini"
    settings = JsonEdit(
        path=folder / "settings.json",
        agent="gemini",
        hooks=hooks,
        servers_key="mcpServers",
        with_server=options.with_server,
        # Without trust, Gemini asks before each tool call and omits the tools in headless mode.
        server=options.server_entry(trust=True),
        description=_describe(hooks, "add the MCP server ralph and trust its tools" if options.with_server else ""),
    )
    return [settings, _skill(folder / "skills")]


def _cursor(options: SetupOptions) -> list[Edit]:
    hooks = options.hook_entries("cursor", _CURSOR, HOOK_TIMEOUT_SECONDS)
    folder = (options.root or options.home) / ".cursor"
    # The working directory of MCP servers is undefined in Cursor, but it substitutes the workspace folder.
    server = options.server_entry("-C", "${workspaceFolder}") if options.root else options.server_entry()
    return [
        JsonEdit(
            path=folder / "hooks.json",
            agent="cursor",
            hooks=hooks,
            has_hook_groups=False,
            defaults={"version": 1} if hooks else {},
            description=_describe(hooks),
        ),
        JsonEdit(
            path=folder / "mcp.json",
            agent="cursor",
            servers_key="mcpServers",
            server=server,
            with_server=options.with_server,
            description="add the MCP server ralph",
        ),
        _skill(folder / "skills"),
    ]


def _opencode(options: SetupOptions) -> list[Edit]:
    if options.root:
        folder = options.root / ".opencode"
        config = next((options.root / name for name in OPENCODE_CONFIG_NAMES if (options.root / name).exists()), None)
        config = config or options.root / OPENCODE_CONFIG_NAMES[0]
    else:
        folder = options.user_directory("XDG_CONFIG_HOME", ".config") / "opencode"
        config = next(
            (folder / name for name in OPENCODE_CONFIG_NAMES[:2] if (folder / name).exists()), folder / "opencode.json"
        )
    edits: list[Edit] = [
        JsonEdit(
            path=config,
            agent="opencode",
            servers_key="mcp",
            server={"type": "local", "command": [*options.program, "mcp"], "enabled": True},
            with_server=options.with_server,
            description="add the MCP server ralph",
        ),
    ]
    template = Path(__file__).with_name("opencode.js").read_text(encoding="utf-8")
    written = template.replace("__PROGRAM__", json.dumps(list(options.program), ensure_ascii=False))
    plugin = FileEdit(
        path=folder / "plugin" / "ralph.js",
        content=written.encode(),
        is_wanted=options.with_hooks,
        description="add the plugin that calls the hooks",
        is_private=True,
    )
    return [*edits, plugin, _skill(folder / "skills")]


def _describe(hooks: Mapping[str, Any], more: str = "") -> str:
    return ", and ".join(filter(None, (f"add hooks for {', '.join(hooks)}" if hooks else "", more)))


EDITS_BY_AGENT: dict[str, Callable[[SetupOptions], list[Edit]]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "cursor": _cursor,
    "opencode": _opencode,
}
PROGRAM_NAMES = {"claude": "claude", "codex": "codex", "gemini": "gemini", "cursor": "Cursor", "opencode": "opencode"}
"""Name of the program to start, by agent."""
EXTRA_INSTRUCTIONS = {
    "codex": "Codex asks once whether to trust the hooks; review them with /hooks.",
    "gemini": "Gemini only reads the settings of trusted folders.",
}
"""Additional instructions after setup, by agent."""


def display_name(path: Path, options: SetupOptions) -> str:
    """Return a path as it is shown to the user: relative to the project if it is inside."""
    return str(path.relative_to(options.root) if options.root and path.is_relative_to(options.root) else path)


def file_edits(agent: str, options: SetupOptions) -> list[Edit]:
    """Return the file edits that connect an agent."""
    return EDITS_BY_AGENT[agent](options)


def all_file_edits(agent: str, options: SetupOptions) -> list[Edit]:
    """Return edits of all files that setup may have written for an agent."""
    edits = file_edits(agent, options)
    first = edits[0]
    if agent == "opencode" and isinstance(first, JsonEdit):
        folder = options.root or first.path.parent
        others = [folder / name for name in OPENCODE_CONFIG_NAMES if folder / name != first.path]
        edits += [replace(first, path=path) for path in others]
    return edits
