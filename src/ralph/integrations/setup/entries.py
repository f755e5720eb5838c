"""Recognition of our own entries in the settings of agents."""

from __future__ import annotations

import re
import shlex

from ralph.core.errors import UsageError
from ralph.core.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

SERVER_NAME = "ralph"
"""Name of our MCP server in the settings of every agent."""
_MODULE_START = ["-P", "-m", SERVER_NAME]
"""Arguments of Python that start ralph, where no program is installed next to it."""


@record
class OurEntries:
    """Our entries in a settings file."""

    hooks: tuple[str, ...] = ()
    """Command of each hook."""
    server: tuple[str, ...] = ()
    """Command of the server."""
    has_other: bool = False
    """Whether there are other entries of ours."""

    def __bool__(self) -> bool:
        """Return whether there are any entries."""
        return bool(self.hooks or self.server or self.has_other)


@record
class FileHistory:
    """What is known about a settings file before setup."""

    original: bytes | None
    """Content before setup, or None if there was no file."""
    is_known: bool
    """Whether the original was kept."""
    is_unchanged: bool = False
    """Whether the file is as setup wrote it."""


UNKNOWN_HISTORY = FileHistory(original=b"{}", is_known=False)
"""History of a file whose original was not kept: assume that it existed without our entries."""


def is_our_server(entry: object) -> bool:
    """Return whether a server entry starts our MCP server."""
    words = server_command(entry) if isinstance(entry, dict) else []
    return bool(words) and all(isinstance(word, str) for word in words) and words[-1] == "mcp" and _starts_ralph(words)


def server_command(entry: Mapping[str, Any]) -> list[Any]:
    """Return the command of a server entry."""
    command, arguments = entry.get("command"), entry.get("args", [])
    return command if isinstance(command, list) else [command, *(arguments if isinstance(arguments, list) else [])]


def _starts_ralph(words: list[str]) -> bool:
    return re.split(r"[/\\]", words[0])[-1] in (SERVER_NAME, f"{SERVER_NAME}.exe") or words[1:4] == _MODULE_START


def is_written_by_setup(entry: object, original: object, wanted: Mapping[str, Any], history: FileHistory) -> bool:
    """Return whether setup wrote a server entry. `original` is the entry before setup, `wanted` what setup writes."""
    if not isinstance(entry, dict) or not is_our_server(entry) or entry == original:
        return False
    if history.is_known and (original is None or history.is_unchanged):
        return True
    return set(entry) <= set(wanted) and server_command(entry) == server_command(wanted)


def invalid_settings(problem: str) -> UsageError:
    """Return the error for settings that setup cannot edit. `problem` names the file."""
    return UsageError(f"{problem}. Fix it first. Nothing was changed.", code="invalid-settings")


def foreign_server(path: Path) -> UsageError:
    """Return the error for a server of our name that starts another program."""
    return UsageError(
        f'{path} has a server "{SERVER_NAME}" that setup did not write. Rename it, or use --force to replace it.',
        code="foreign-server",
    )


FOREIGN_SERVER = (
    f'has a server "{SERVER_NAME}" that setup did not write, which is left unchanged',
    "--force replaces it.",
)
FOREIGN_HOOKS = (
    "has hooks that call ralph that setup did not write, which are left unchanged",
    "They run in addition to ours. Remove them.",
)


def is_our_hook(hook: object, agent: str) -> bool:
    """Return whether setup wrote a hook, which then calls ralph by its absolute path."""
    words = _hook_command(hook)
    start, action = words[:-4], words[-4:]
    is_hook = bool(start) and action[0] == "hook" and action[2:] == ["--agent", agent]
    return is_hook and start[1:] in ([], _MODULE_START) and _starts_ralph(start) and bool(re.search(r"[/\\]", start[0]))


def is_manual_hook(hook: object, agent: str) -> bool:
    """Return whether a person wrote a hook that calls ralph."""
    words = _hook_command(hook)
    return words[1:2] == ["hook"] and _starts_ralph(words) and not is_our_hook(hook, agent)


def _hook_command(hook: object) -> list[str]:
    command = hook.get("command") if isinstance(hook, dict) else None
    try:
        return shlex.split(command) if isinstance(command, str) else []
    except ValueError:
        return []
