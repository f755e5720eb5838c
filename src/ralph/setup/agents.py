"""What each agent gets: which files, which hooks under which names, where servers and skills go.

A new agent is a function here and a name in `AGENTS`. What the agents want was read from their own documentation and
tried with the programs; docs/setup.md says with which versions.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

from ralph import skill
from ralph.records import record, replace
from ralph.setup.edits import FileEdit, JsonEdit, TomlEdit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ralph.setup.edits import Edit

SECONDS = 10
"""More than `ralph hook` ever takes: it answers within 8 seconds, whatever happens."""
CODEX_END_SECONDS = 3
"""Codex allows no more at the end of a session, and says so at every start."""
VARIABLES = ("RALPH_SESSION", "RALPH_TASK_ID", "RALPH_RUN_ID", "RALPH_ATTEMPT", "RALPH_STORE")
"""What the server has to know of the loop; Codex hands on only variables that are named."""
CONFIG_NAMES = ("opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc")

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
    "afterAgentResponse": "stop",  # the one that is told what the agent said
    "preCompact": "pre-compact",
    "sessionEnd": "session-end",
}


@record
class Wish:
    """What a person wants connected, and for where."""

    root: Path | None
    """The project; None for all projects of the person."""
    home: Path
    environment: Mapping[str, str]
    program: tuple[str, ...]
    with_hooks: bool = True
    with_server: bool = True

    def folder(self, variable: str, name: str) -> Path:
        """Give the folder of an agent's settings for all projects."""
        return Path(self.environment[variable]) if self.environment.get(variable) else self.home / name

    def hooks(self, agent: str, events: Mapping[str, str], timeout: int, **more: Any) -> dict[str, dict[str, Any]]:
        """Give a hook for each event, or none when none are wanted."""
        if not self.with_hooks:
            return {}
        start = shlex.join(self.program)
        return {
            event: {**more, "command": f"{start} hook {name} --agent {agent}", "timeout": timeout}
            for event, name in events.items()
        }

    def server(self, *before: str, **more: Any) -> dict[str, Any]:
        """Give the entry for our MCP server; `before` are words before its name."""
        command, *arguments = self.program
        return {"command": command, "args": [*arguments, *before, "mcp"], **more}


def program(executable: str = sys.executable) -> tuple[str, ...]:
    """Give the words that start this very ralph, with its whole path.

    What is found by its name may be another one, or a shim that takes longer to find the program than to run it.
    """
    beside = os.path.join(os.path.dirname(executable), "ralph")  # noqa: PTH118, PTH120
    # -P: else a ralph.py in the directory that an agent works in would run in our place.
    return (beside,) if os.access(beside, os.X_OK) else (executable, "-P", "-m", "ralph")


def _skill(folder: Path) -> FileEdit:
    path = folder / skill.NAME / "SKILL.md"
    return FileEdit(
        path=path, content=skill.FILE.encode(), says="the skill that says how to use the memory", is_prose=True
    )


def _claude(wish: Wish) -> list[Edit]:
    hooks = wish.hooks("claude", _CLAUDE, SECONDS, type="command")
    # Without it each tool is asked for, and where nobody can be asked, it is refused.
    words: dict[tuple[str, ...], str] = {("permissions", "allow"): "mcp__ralph"}
    if wish.root is None:
        folder = wish.folder("CLAUDE_CONFIG_DIR", ".claude")
        servers = (folder if wish.environment.get("CLAUDE_CONFIG_DIR") else wish.home) / ".claude.json"
        settings = folder / "settings.json"
    else:
        folder, servers = wish.root / ".claude", wish.root / ".mcp.json"
        settings = folder / "settings.local.json"
        # In a terminal Claude Code asks before it starts a server of .mcp.json; whoever runs setup has just agreed.
        words[("enabledMcpjsonServers",)] = "ralph"
    return [
        JsonEdit(
            path=settings,
            agent="claude",
            hooks=hooks,
            words=words,
            with_words=wish.with_server,
            says_without_words=_about(hooks),
            says=_about(hooks, "leave to use the tools of the MCP server ralph unasked" if wish.with_server else ""),
        ),
        JsonEdit(
            path=servers,
            agent="claude",
            servers="mcpServers",
            server=wish.server(),
            with_server=wish.with_server,
            says="the MCP server ralph",
        ),
        _skill(folder / "skills"),
    ]


def _codex(wish: Wish) -> list[Edit]:
    hooks = wish.hooks("codex", _CLAUDE, SECONDS, type="command")
    if hooks:
        hooks["SessionEnd"]["timeout"] = CODEX_END_SECONDS
    folder = wish.root / ".codex" if wish.root else wish.folder("CODEX_HOME", ".codex")
    return [
        JsonEdit(path=folder / "hooks.json", agent="codex", hooks=hooks, says=_about(hooks)),
        TomlEdit(
            path=folder / "config.toml",
            server=wish.server(env_vars=list(VARIABLES)),
            is_wanted=wish.with_server,
            says="the MCP server ralph",
        ),
        _skill((wish.root or wish.home) / ".agents" / "skills"),
    ]


def _gemini(wish: Wish) -> list[Edit]:
    hooks = wish.hooks("gemini", _GEMINI, SECONDS * 1000, name="ralph", type="command")
    folder = (wish.root or wish.folder("GEMINI_CLI_HOME", "")) / ".gemini"
    settings = JsonEdit(
        path=folder / "settings.json",
        agent="gemini",
        hooks=hooks,
        servers="mcpServers",
        with_server=wish.with_server,
        server=wish.server(trust=True),  # else each tool is asked for, and where nobody can be asked, it is left out
        says=_about(hooks, "the MCP server ralph with leave to use its tools unasked" if wish.with_server else ""),
    )
    return [settings, _skill(folder / "skills")]


def _cursor(wish: Wish) -> list[Edit]:
    hooks = wish.hooks("cursor", _CURSOR, SECONDS)
    folder = (wish.root or wish.home) / ".cursor"
    # Cursor does not say in which directory it starts a server; it does say where the project is.
    server = wish.server("-C", "${workspaceFolder}") if wish.root else wish.server()
    return [
        JsonEdit(
            path=folder / "hooks.json",
            agent="cursor",
            hooks=hooks,
            in_groups=False,
            defaults={"version": 1} if hooks else {},
            says=_about(hooks),
        ),
        JsonEdit(
            path=folder / "mcp.json",
            agent="cursor",
            servers="mcpServers",
            server=server,
            with_server=wish.with_server,
            says="the MCP server ralph",
        ),
        _skill(folder / "skills"),
    ]


def _opencode(wish: Wish) -> list[Edit]:
    if wish.root:
        folder = wish.root / ".opencode"
        config = next((wish.root / name for name in CONFIG_NAMES if (wish.root / name).exists()), None)
        config = config or wish.root / CONFIG_NAMES[0]
    else:
        folder = wish.folder("XDG_CONFIG_HOME", ".config") / "opencode"
        config = next(
            (folder / name for name in CONFIG_NAMES[:2] if (folder / name).exists()), folder / "opencode.json"
        )
    edits: list[Edit] = [
        JsonEdit(
            path=config,
            agent="opencode",
            servers="mcp",
            server={"type": "local", "command": [*wish.program, "mcp"], "enabled": True},
            with_server=wish.with_server,
            says="the MCP server ralph",
        ),
    ]
    template = Path(__file__).with_name("opencode.js").read_text(encoding="utf-8")
    written = template.replace("__PROGRAM__", json.dumps(list(wish.program), ensure_ascii=False))
    plugin = FileEdit(
        path=folder / "plugin" / "ralph.js",
        content=written.encode(errors="surrogateescape"),
        is_wanted=wish.with_hooks,
        says="the plugin that calls the hooks",
        is_private=True,
    )
    return [*edits, plugin, _skill(folder / "skills")]


def _about(hooks: Mapping[str, Any], more: str = "") -> str:
    return ", and ".join(filter(None, (f"hooks for {', '.join(hooks)}" if hooks else "", more)))


AGENTS: dict[str, Callable[[Wish], list[Edit]]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "cursor": _cursor,
    "opencode": _opencode,
}
PROGRAMS = {"claude": "claude", "codex": "codex", "gemini": "gemini", "cursor": "Cursor", "opencode": "opencode"}
"""What a person starts."""
THEN = {
    "codex": "Codex asks once whether the hooks may run: look at them with /hooks and trust them.",
    "gemini": "Gemini uses the settings of a folder that you trust.",
}
"""What a person has to know besides."""


def edits_for(agent: str, wish: Wish) -> list[Edit]:
    """Give what is to be done to which files to connect an agent."""
    return AGENTS[agent](wish)


def places_for(agent: str, wish: Wish) -> list[Edit]:
    """Give all files that setup may have written for an agent, with what it does to them."""
    edits = edits_for(agent, wish)
    first = edits[0]
    if agent == "opencode" and isinstance(first, JsonEdit):
        folder = wish.root or first.path.parent
        others = [folder / name for name in CONFIG_NAMES if folder / name != first.path]
        edits += [replace(first, path=path) for path in others]
    return edits
