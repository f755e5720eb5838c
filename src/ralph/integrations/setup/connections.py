"""Checks of the connected agents for `ralph doctor`: entries present, programs runnable, hooks enabled.

The checks change nothing. Agents that were never connected are not reported.
"""

from __future__ import annotations

import os
import shlex
from shutil import which
from typing import Any

from ralph.core.errors import RalphError
from ralph.core.records import replace
from ralph.integrations.doctor import Finding
from ralph.integrations.setup import originals_for, setup_options
from ralph.integrations.setup.agents import RECIPES, all_file_edits, display_name, file_edits, is_missing
from ralph.integrations.setup.edits import JsonEdit
from ralph.integrations.setup.entries import OurEntries
from ralph.integrations.setup.jsontext import InvalidJsonError, JsonDialect, JsonText
from ralph.integrations.setup.reading import read_settings_file
from ralph.integrations.setup.text_edits import FileEdit, SectionEdit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ralph.integrations.setup.agents import SetupOptions
    from ralph.integrations.setup.text_edits import Edit


def check_connections(root: Path, environment: Mapping[str, str] = os.environ) -> list[Finding]:
    """Return findings about each agent that is connected to this project or for the user."""
    here = setup_options(root, environment=environment)
    found: list[Finding] = []
    for agent, recipe in RECIPES.items():
        for options in (here, replace(here, root=None)) if recipe.has_user_settings else (here,):
            try:
                found += _check_connection(agent, options, root)
            except RalphError as error:
                says = str(error).removesuffix(" Nothing was changed.")
                mend = f"fix or remove that file, then run: {_command(agent, options)}"
                found.append(Finding(about=agent, is_fine=False, says=says, mend=mend))
    return found


def _check_connection(agent: str, options: SetupOptions, root: Path) -> Iterator[Finding]:
    store = originals_for(agent, options)
    known, damage = store.read(), store.damage_message
    places = [
        (edit, display_name(edit.path, options), _find_entries(edit, is_known=bool(known)))
        for edit in all_file_edits(agent, options)
    ]
    hooks = [one for _, _, found in places for one in found.hooks]
    server = next((found.server for _, _, found in places if found.server), ())
    if not known and not damage and not hooks and not server:
        return
    problems = [
        *filter(None, [damage.removesuffix(".")]),
        *_missing_entries([name for _, name, found in places if name in known and not found]),
        *_missing_hooks(agent, options, hooks),
        *_missing_programs(hooks, server, options.environment),
    ]
    mend = _command(agent, options)
    for says in problems:
        # A bare name was written by a person, and setup only replaces it with --force.
        is_by_hand = bool(server) and os.sep not in str(server[0]) and says.startswith("its MCP server starts")
        yield Finding(about=agent, is_fine=False, says=says, mend=f"{mend} --force" if is_by_hand else mend)
    off = list(_disabled_hooks(agent, replace(options, root=root))) if hooks else []
    for says, how in off:
        yield Finding(about=agent, is_fine=False, says=says, mend=how)
    if not problems and not off:
        skill = any(isinstance(edit, FileEdit) and edit.is_prose and found for edit, _, found in places)
        section = any(isinstance(edit, SectionEdit) and found for edit, _, found in places)
        parts = [
            *(_count_hooks(agent, hooks), "MCP server" if server else ""),
            *("skill" if skill else "", "section" if section else ""),
        ]
        where = "connected" if options.root else "connected for all your projects"
        says = f"{where}: {', '.join(filter(None, parts)) or 'nothing'}"
        if is_missing(agent, options.environment):
            program = RECIPES[agent].program
            mend = f"install {program}, or add its directory to the PATH"
            yield Finding(about=agent, is_fine=True, says=f"{says}; {program} is not in the PATH", mend=mend)
        else:
            yield Finding(about=agent, is_fine=True, says=says)


def _find_entries(edit: Edit, *, is_known: bool) -> OurEntries:
    try:
        now = read_settings_file(edit.path)
        return edit.find_entries(now[0]) if now else OurEntries()
    except RalphError:
        if is_known:
            raise
        return OurEntries()  # problems in files that setup never wrote are not ours to report


def _command(agent: str, options: SetupOptions) -> str:
    return f"ralph setup {agent}" if options.root else f"ralph setup {agent} --user"


def _missing_entries(names: list[str]) -> Iterator[str]:
    if names:
        yield f"the entries written by setup are missing from {', '.join(names)}"


def _count_hooks(agent: str, hooks: list[str]) -> str:
    if not hooks:
        return ""
    # opencode has no hooks of its own: a plugin calls ours.
    return "plugin" if agent == "opencode" else f"{len(hooks)} hook{'s' * (len(hooks) > 1)}"


def _missing_hooks(agent: str, options: SetupOptions, hooks: list[str]) -> Iterator[str]:
    expected = sum(len(edit.hooks) for edit in file_edits(agent, options) if isinstance(edit, JsonEdit))
    if 0 < len(hooks) < expected:
        yield f"only {len(hooks)} of its {expected} hooks are installed"


def _missing_programs(hooks: list[str], server: tuple[str, ...], environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the programs of hooks and server that cannot be started."""
    of_hooks = dict.fromkeys(map(_program_of, hooks))
    for command in dict.fromkeys([*of_hooks, *server[:1]]):
        if not _is_runnable(command, environment):
            callers = ["hooks"] * (command in of_hooks) + ["MCP server"] * (command in server[:1])
            state = "is not executable" if os.path.exists(command) else "does not exist"  # noqa: PTH110
            verb = "starts" if callers == ["MCP server"] else "start"
            yield f"its {' and '.join(callers)} {verb} {command}, which {state}"


def _program_of(command: str) -> str:
    try:
        return shlex.split(command)[0]
    except (ValueError, IndexError):
        return command


def _is_runnable(command: str, environment: Mapping[str, str]) -> bool:
    return which(command, path=environment.get("PATH", "")) is not None


# --- disabled hooks ------------------------------------------------------------------------


def _disabled_hooks(agent: str, options: SetupOptions) -> Iterator[tuple[str, str]]:
    """Yield the settings that disable our hooks, and how to fix them. `options.root` is the current project."""
    if agent == "claude":
        yield from _disabled_in_claude(options)
    elif agent == "gemini":
        yield from _disabled_in_gemini(options)


def _disabled_in_claude(options: SetupOptions) -> Iterator[tuple[str, str]]:
    assert options.root
    folder = options.root / ".claude"
    # The first file with this setting takes precedence.
    for path in (
        folder / "settings.local.json",
        folder / "settings.json",
        options.user_directory("CLAUDE_CONFIG_DIR", ".claude") / "settings.json",
    ):
        value = _settings(path, JsonDialect.JSON).get("disableAllHooks")
        if value is not None:
            if value is True:
                yield f"{path} disables all hooks", f'remove "disableAllHooks" from {path}'
            return


def _disabled_in_gemini(options: SetupOptions) -> Iterator[tuple[str, str]]:
    assert options.root
    paths = [
        folder / ".gemini" / "settings.json" for folder in (options.root, options.user_directory("GEMINI_CLI_HOME", ""))
    ]
    settings = [(path, _settings(path, JsonDialect.COMMENTS).get("hooksConfig")) for path in paths]
    switches = [(path, found) for path, found in settings if isinstance(found, dict)]
    decisive = next(((path, found) for path, found in switches if "enabled" in found), None)
    if decisive and decisive[1]["enabled"] is False:
        yield f"{decisive[0]} disables all hooks", f'remove "enabled" from "hooksConfig" in {decisive[0]}'
    for path, found in switches:
        if isinstance(found.get("disabled"), list) and "ralph" in found["disabled"]:
            yield f"{path} disables our hooks", f'remove "ralph" from "hooksConfig.disabled" in {path}'


def _settings(path: Path, dialect: JsonDialect) -> dict[str, Any]:
    """Return the content of a settings file; empty if its agent does not accept it, and then does not use it."""
    try:
        found = read_settings_file(path)
        text = JsonText((found[0] if found else b"{}").decode("utf-8-sig"))
    except (InvalidJsonError, UnicodeDecodeError, RalphError):
        return {}
    return text.value if isinstance(text.value, dict) and not text.problem_in(dialect) else {}
