"""Look at the agents that are connected: is what setup wrote there, does it call what is there, is it switched off?

Looking changes nothing. An agent that was never connected is not spoken of.
"""

from __future__ import annotations

import os
import shlex
from typing import Any

from ralph.doctor import Finding
from ralph.errors import RalphError
from ralph.records import replace
from ralph.setup import kept_for, wish_for
from ralph.setup.agents import AGENTS, PROGRAMS, edits_for, places_for
from ralph.setup.edits import FileEdit, Found, JsonEdit
from ralph.setup.reading import settings_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ralph.setup.agents import Wish
    from ralph.setup.edits import Edit

WITHOUT_PROGRAM = ("cursor",)
"""What is started from a menu need not be in the PATH."""


def examine_connections(root: Path, environment: Mapping[str, str] = os.environ) -> list[Finding]:
    """Give what a look at each agent shows that is connected, in this project or for the person."""
    here = wish_for(root, environment=environment)
    found: list[Finding] = []
    for agent in AGENTS:
        for wish in (here, replace(here, root=None)):
            try:
                found += _connection(agent, wish, root)
            except RalphError as error:
                says = str(error).removesuffix(" Nothing was changed.")
                mend = f"mend or move away that file, then: {_command(agent, wish)}"
                found.append(Finding(about=agent, is_fine=False, says=says, mend=mend))
    return found


def _connection(agent: str, wish: Wish, root: Path) -> Iterator[Finding]:
    kept = kept_for(agent, wish)
    known, damage = kept.read(), kept.damage
    places = [(edit, _name(edit, wish), _found(edit, is_known=bool(known))) for edit in places_for(agent, wish)]
    hooks = [one for _, _, found in places for one in found.hooks]
    server = next((found.server for _, _, found in places if found.server), ())
    if not known and not damage and not hooks and not server:
        return
    faults = [
        *filter(None, [damage.removesuffix(".")]),
        *_gone([name for _, name, found in places if name in known and not found]),
        *_missing_hooks(agent, wish, hooks),
        *_missing_programs(hooks, server, wish.environment),
    ]
    mend = _command(agent, wish)
    for says in faults:
        # A bare name is by somebody's hand, which setup replaces only when told to.
        is_by_hand = bool(server) and os.sep not in str(server[0]) and says.startswith("its MCP server should")
        yield Finding(about=agent, is_fine=False, says=says, mend=f"{mend} --force" if is_by_hand else mend)
    off = list(_switched_off(agent, replace(wish, root=root))) if hooks else []
    for says, how in off:
        yield Finding(about=agent, is_fine=False, says=says, mend=how)
    if not faults and not off:
        skill = any(isinstance(edit, FileEdit) and edit.is_prose and found for edit, _, found in places)
        parts = [_counted(agent, hooks), "MCP server" if server else "", "skill" if skill else ""]
        where = "connected" if wish.root else "connected for all your projects"
        says = f"{where}: {', '.join(filter(None, parts)) or 'nothing'}{_note(agent, wish.environment)}"
        yield Finding(about=agent, is_fine=True, says=says)


def _found(edit: Edit, *, is_known: bool) -> Found:
    try:
        now = settings_in(edit.path)
        return edit.found(now[0]) if now else Found()
    except RalphError:
        if is_known:
            raise
        return Found()  # what is wrong with files that setup never wrote is for others to say


def _name(edit: Edit, wish: Wish) -> str:
    is_inside = wish.root and edit.path.is_relative_to(wish.root)
    return str(edit.path.relative_to(wish.root)) if wish.root and is_inside else str(edit.path)


def _command(agent: str, wish: Wish) -> str:
    return f"ralph setup {agent}" if wish.root else f"ralph setup {agent} --user"


def _gone(names: list[str]) -> Iterator[str]:
    if names:
        yield f"what setup wrote is gone from {', '.join(names)}"


def _counted(agent: str, hooks: list[str]) -> str:
    if not hooks:
        return ""
    # opencode has no hooks of its own: a plugin calls ours.
    return "plugin" if agent == "opencode" else f"{len(hooks)} hook{'s' * (len(hooks) > 1)}"


def _missing_hooks(agent: str, wish: Wish, hooks: list[str]) -> Iterator[str]:
    wanted = sum(len(edit.hooks) for edit in edits_for(agent, wish) if isinstance(edit, JsonEdit))
    if 0 < len(hooks) < wanted:
        yield f"only {len(hooks)} of its {wanted} hooks are there"


def _missing_programs(hooks: list[str], server: tuple[str, ...], environment: Mapping[str, str]) -> Iterator[str]:
    """Say which programs are called that cannot be started."""
    of_hooks = dict.fromkeys(map(_program_of, hooks))
    for command in dict.fromkeys([*of_hooks, *server[:1]]):
        if not _is_there(command, environment):
            callers = ["hooks"] * (command in of_hooks) + ["MCP server"] * (command in server[:1])
            state = "cannot be run" if os.path.exists(command) else "is not there"  # noqa: PTH110
            yield f"its {' and '.join(callers)} should start {command}, which {state}"


def _program_of(command: str) -> str:
    try:
        return shlex.split(command)[0]
    except (ValueError, IndexError):
        return command


def _is_there(command: str, environment: Mapping[str, str]) -> bool:
    from shutil import which

    return which(command, path=environment.get("PATH", "")) is not None


def _note(agent: str, environment: Mapping[str, str]) -> str:
    if agent in WITHOUT_PROGRAM or _is_there(PROGRAMS[agent], environment):
        return ""
    return f"; there is no {PROGRAMS[agent]} in the PATH"


# --- switches that turn hooks off ----------------------------------------------------------


def _switched_off(agent: str, wish: Wish) -> Iterator[tuple[str, str]]:
    """Give what switches our hooks off, and how to undo it; `wish.root` is the project one is in."""
    if agent == "claude":
        yield from _off_in_claude(wish)
    elif agent == "gemini":
        yield from _off_in_gemini(wish)


def _off_in_claude(wish: Wish) -> Iterator[tuple[str, str]]:
    assert wish.root
    folder = wish.root / ".claude"
    # The first file that says anything about it decides.
    for path in (
        folder / "settings.local.json",
        folder / "settings.json",
        wish.folder("CLAUDE_CONFIG_DIR", ".claude") / "settings.json",
    ):
        value = _settings(path).get("disableAllHooks")
        if value is not None:
            if value is True:
                yield f"{path} switches all hooks off", f'take "disableAllHooks" out of {path}'
            return


def _off_in_gemini(wish: Wish) -> Iterator[tuple[str, str]]:
    assert wish.root
    paths = [folder / ".gemini" / "settings.json" for folder in (wish.root, wish.folder("GEMINI_CLI_HOME", ""))]
    switches = [(path, found) for path in paths if isinstance(found := _settings(path).get("hooksConfig"), dict)]
    decides = next(((path, found) for path, found in switches if "enabled" in found), None)
    if decides and decides[1]["enabled"] is False:
        yield f"{decides[0]} switches all hooks off", f'take "enabled" out of "hooksConfig" in {decides[0]}'
    for path, found in switches:
        if isinstance(found.get("disabled"), list) and "ralph" in found["disabled"]:
            yield f"{path} switches our hooks off", f'take "ralph" out of "hooksConfig.disabled" in {path}'


def _settings(path: Path) -> dict[str, Any]:
    """Give what a settings file holds; nothing when it cannot be understood, which is for its agent to say."""
    from ralph.setup.jsontext import InvalidJsonError, JsonText

    try:
        found = settings_in(path)
        value = JsonText((found[0] if found else b"{}").decode("utf-8-sig")).value
    except (InvalidJsonError, UnicodeDecodeError, RalphError):
        return {}
    return value if isinstance(value, dict) else {}
