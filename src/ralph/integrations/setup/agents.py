"""Settings of each supported agent: files, hook events, MCP servers and skills.

To add an agent, add a function here and an entry in `RECIPES`. docs/setup.md lists the tested versions.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from shutil import which

from ralph.core import skill
from ralph.core.errors import UsageError
from ralph.core.records import record, replace
from ralph.integrations.setup.edits import JsonEdit, TomlEdit
from ralph.integrations.setup.jsontext import JsonDialect
from ralph.integrations.setup.text_edits import FileEdit, SectionEdit

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
KILO_CONFIG_NAMES = (".kilo/kilo.jsonc", "kilo.jsonc", ".kilo/kilo.json", "kilo.json")
"""Possible settings files of Kilo Code, by precedence."""

_CLAUDE = {
    "SessionStart": "session-start",
    "UserPromptSubmit": "user-prompt-submit",
    "PreCompact": "pre-compact",
    "PostCompact": "post-compact",
    "Stop": "stop",
    "SubagentStop": "subagent-stop",
    "SessionEnd": "session-end",
}
_COPILOT = {event: name for event, name in _CLAUDE.items() if event != "PostCompact"}
"""Events of Copilot CLI. With these names it calls hooks with the same fields as Claude Code."""
_QWEN = _COPILOT
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
            dialect=JsonDialect.JSON,
            description_without_items=_describe(hooks),
            description=_describe(hooks, "allow the tools of the MCP server ralph" if options.with_server else ""),
        ),
        JsonEdit(
            path=servers,
            agent="claude",
            dialect=JsonDialect.JSON,
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
        JsonEdit(
            path=folder / "hooks.json",
            agent="codex",
            dialect=JsonDialect.JSON,
            hooks=hooks,
            description=_describe(hooks),
        ),
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
    return _gemini_edits("gemini", folder, hooks, options)


def _qwen(options: SetupOptions) -> list[Edit]:
    # Older releases count milliseconds, newer ones seconds but for values of 1,000 and more.
    hooks = options.hook_entries("qwen", _QWEN, HOOK_TIMEOUT_SECONDS * 1000, name="ralph", type="command")
    folder = options.root / ".qwen" if options.root else options.user_directory("QWEN_HOME", ".qwen")
    return _gemini_edits("qwen", folder, hooks, options)


def _gemini_edits(agent: str, folder: Path, hooks: dict[str, dict[str, Any]], options: SetupOptions) -> list[Edit]:
    """Return the edits of an agent with the settings of the Gemini CLI, of which there are several."""
    settings = JsonEdit(
        path=folder / "settings.json",
        agent=agent,
        dialect=JsonDialect.COMMENTS,
        hooks=hooks,
        servers_key="mcpServers",
        with_server=options.with_server,
        # Without trust, they ask before each tool call and omit the tools in headless mode.
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


def _copilot(options: SetupOptions) -> list[Edit]:
    hooks = options.hook_entries("copilot", _COPILOT, HOOK_TIMEOUT_SECONDS, type="command")
    if options.root:
        # Not .mcp.json, which it reads too: Claude Code would ask about the server.
        folder, servers, dialect = options.root / ".github", options.root / ".github" / "mcp.json", JsonDialect.JSON
    else:
        folder = options.user_directory("COPILOT_HOME", ".copilot")
        servers, dialect = folder / "mcp-config.json", JsonDialect.JSONC
    return [
        JsonEdit(
            path=folder / "hooks" / "ralph.json",
            agent="copilot",
            dialect=JsonDialect.JSON,
            hooks=hooks,
            has_hook_groups=False,
            defaults={"version": 1} if hooks else {},
            description=_describe(hooks),
        ),
        _server(servers, "copilot", options, dialect),
        _skill(folder / "skills"),
    ]


def _windsurf(options: SetupOptions) -> list[Edit]:
    if options.root:  # it has servers only for all projects
        return [_skill(options.root / ".windsurf" / "skills")]
    folder = options.home / ".codeium" / "windsurf"
    return [_server(folder / "mcp_config.json", "windsurf", options), _skill(folder / "skills")]


def _cline(options: SetupOptions) -> list[Edit]:
    if options.root:  # it has servers only for all projects
        return [_skill(options.root / ".cline" / "skills")]
    folder = options.home / ".cline"
    servers = folder / "data" / "settings" / "cline_mcp_settings.json"
    return [_server(servers, "cline", options, JsonDialect.JSON), _skill(folder / "skills")]


def _antigravity(options: SetupOptions) -> list[Edit]:
    if options.root:
        folder = options.root / ".agents"
        return [_server(folder / "mcp_config.json", "antigravity", options), _skill(folder / "skills")]
    folder = options.home / ".gemini"
    servers = _server(folder / "config" / "mcp_config.json", "antigravity", options)
    return [servers, _skill(folder / "antigravity" / "skills")]


def _server(
    path: Path, agent: str, options: SetupOptions, dialect: JsonDialect = JsonDialect.JSONC, **more: Any
) -> JsonEdit:
    """Return the edit of a file whose servers have the form that most agents share."""
    return JsonEdit(
        path=path,
        agent=agent,
        dialect=dialect,
        servers_key="mcpServers",
        server=options.server_entry(**more),
        with_server=options.with_server,
        description="add the MCP server ralph",
    )


def _opencode(options: SetupOptions) -> list[Edit]:
    folder = _opencode_directory(options)
    template = Path(__file__).with_name("opencode.js").read_text(encoding="utf-8")
    written = template.replace("__PROGRAM__", json.dumps(list(options.program), ensure_ascii=False))
    plugin = FileEdit(
        path=folder / "plugin" / "ralph.js",
        content=written.encode(),
        is_wanted=options.with_hooks,
        description="add the plugin that calls the hooks",
        is_private=True,
    )
    config = _first_existing(_config_paths("opencode", options))
    return [_opencode_server(config, "opencode", options), plugin, _skill(folder / "skills")]


def _kilo(options: SetupOptions) -> list[Edit]:
    folder = options.root / ".kilo" if options.root else options.user_directory("XDG_CONFIG_HOME", ".config") / "kilo"
    config = _first_existing(_config_paths("kilo", options))
    return [_opencode_server(config, "kilo", options), _skill(folder / "skills")]


def _opencode_directory(options: SetupOptions) -> Path:
    if options.root:
        return options.root / ".opencode"
    return options.user_directory("XDG_CONFIG_HOME", ".config") / "opencode"


def _opencode_server(config: Path, agent: str, options: SetupOptions) -> JsonEdit:
    """Return the edit of the settings of opencode, or of an agent that is made of it."""
    return JsonEdit(
        path=config,
        agent=agent,
        servers_key="mcp",
        server={"type": "local", "command": [*options.program, "mcp"], "enabled": True},
        with_server=options.with_server,
        description="add the MCP server ralph",
    )


def _config_paths(agent: str, options: SetupOptions) -> list[Path]:
    """Return the possible settings files of an agent that has several, by precedence."""
    if agent == "opencode":
        folder = options.root or _opencode_directory(options)
        return [folder / name for name in OPENCODE_CONFIG_NAMES[: None if options.root else 2]]
    if agent == "kilo":
        user = options.user_directory("XDG_CONFIG_HOME", ".config") / "kilo"
        names = [options.root / name if options.root else user / Path(name).name for name in KILO_CONFIG_NAMES]
        return list(dict.fromkeys(names))
    return []


def _first_existing(paths: list[Path]) -> Path:
    return next((path for path in paths if path.exists()), paths[0])


def _agents_md(options: SetupOptions) -> list[Edit]:
    """Return the edit of AGENTS.md, which has no path of this machine because it is usually committed."""
    if options.root is None:
        raise UsageError("AGENTS.md belongs to a project: use this without --user.", code="no-user-setup")
    return [
        SectionEdit(
            path=options.root / "AGENTS.md",
            content=skill.GUIDE_SECTION,
            description="add a section that explains how to use the memory",
        )
    ]


def _describe(hooks: Mapping[str, Any], more: str = "") -> str:
    return ", and ".join(filter(None, (f"add hooks for {', '.join(hooks)}" if hooks else "", more)))


@record
class Recipe:
    """How `ralph setup` connects one agent."""

    edits: Callable[[SetupOptions], list[Edit]]
    program: str
    """What to start afterwards."""
    has_hooks: bool = True
    """Whether the agent calls our hooks."""
    has_command: bool = True
    """Whether the program is in the PATH; others are started from a menu."""
    instructions: str = ""
    """What else to do after setup; `{command}` is the command of the MCP server."""
    has_project_server: bool = True
    """Whether the agent has MCP servers for one project, and not only for all of them."""
    has_user_settings: bool = True
    """Whether it can be connected for all projects."""


RECIPES: dict[str, Recipe] = {
    "claude": Recipe(edits=_claude, program="claude"),
    "codex": Recipe(
        edits=_codex,
        program="codex",
        instructions="Codex asks once whether to trust the hooks; review them with /hooks.",
    ),
    "gemini": Recipe(
        edits=_gemini, program="gemini", instructions="Gemini only reads the settings of trusted folders."
    ),
    "cursor": Recipe(edits=_cursor, program="Cursor", has_command=False),
    "opencode": Recipe(edits=_opencode, program="opencode"),
    "copilot": Recipe(
        edits=_copilot,
        program="copilot",
        instructions="Copilot CLI only uses the hooks and servers of folders that you trust; it asks when it starts.",
    ),
    "qwen": Recipe(edits=_qwen, program="qwen"),
    "cline": Recipe(edits=_cline, program="cline", has_hooks=False, has_project_server=False),
    "windsurf": Recipe(
        edits=_windsurf, program="Windsurf", has_hooks=False, has_command=False, has_project_server=False
    ),
    "kilo": Recipe(edits=_kilo, program="kilo", has_hooks=False),
    "antigravity": Recipe(edits=_antigravity, program="Antigravity", has_hooks=False, has_command=False),
    "agents-md": Recipe(
        edits=_agents_md,
        program="your agent",
        has_hooks=False,
        has_command=False,
        has_project_server=False,
        has_user_settings=False,
        instructions="To let it search and remember with tools, add this MCP server (stdio) to its settings: {command}",
    ),
}
"""What `ralph setup` can connect, by name."""


def display_name(path: Path, options: SetupOptions) -> str:
    """Return a path as it is shown to the user: relative to the project if it is inside."""
    return str(path.relative_to(options.root) if options.root and path.is_relative_to(options.root) else path)


def file_edits(agent: str, options: SetupOptions) -> list[Edit]:
    """Return the file edits that connect an agent."""
    return RECIPES[agent].edits(options)


def all_file_edits(agent: str, options: SetupOptions) -> list[Edit]:
    """Return edits of all files that setup may have written for an agent."""
    edits = file_edits(agent, options)
    first = edits[0]
    others = [path for path in _config_paths(agent, options) if path != first.path]
    return [*edits, *(replace(first, path=path) for path in others)]


def is_missing(agent: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the program of an agent is not in the PATH, where it is started from."""
    recipe = RECIPES[agent]
    return recipe.has_command and which(recipe.program, path=environment.get("PATH", "")) is None
