"""Edits of settings files, and how to revert them: pure functions from bytes to bytes.

Only our own entries change. The rest of a file stays the same, byte for byte.
"""

from __future__ import annotations

import re
from copy import deepcopy

import tomlkit
from tomlkit.items import InlineTable, Table

from ralph.core.agents import agent_title
from ralph.core.config import parse_toml
from ralph.core.records import record
from ralph.integrations.setup.entries import (
    FOREIGN_HOOKS,
    FOREIGN_SERVER,
    SERVER_NAME,
    UNKNOWN_HISTORY,
    FileHistory,
    OurEntries,
    foreign_server,
    invalid_settings,
    is_manual_hook,
    is_our_hook,
    is_our_server,
    is_written_by_setup,
    server_command,
)
from ralph.integrations.setup.jsontext import InvalidJsonError, JsonDialect, JsonText

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import Any

    from tomlkit import TOMLDocument

    from ralph.core.errors import UsageError

_BOM = "\ufeff"
HOOKS_KEY = "hooks"
"""Key of the hooks in JSON settings."""
SERVERS_TABLE = "mcp_servers"
"""Table of the servers in the TOML settings of Codex."""
ENV_VARS_KEY = "env_vars"
"""Key of the environment variables of a server in the settings of Codex."""
_USER_KEYS = ("trust",)
"""Keys of our server entry that keep the value set by the user."""


@record
class JsonEdit:
    """An edit of hooks, an MCP server and list items in JSON settings."""

    path: Path
    agent: str
    description: str
    is_private: bool = True
    """Whether the file contains paths of this machine and must not be committed."""
    hooks: Mapping[str, Mapping[str, Any]] = {}
    """Hooks by the agent's name of the event."""
    has_hook_groups: bool = True
    """Whether the hooks of an event are nested in groups."""
    servers_key: str = ""
    """Key of the servers."""
    server: Mapping[str, Any] | None = None
    with_server: bool = True
    """Whether to add the server (True) or to remove it (False)."""
    list_items: Mapping[tuple[str, ...], str] = {}
    """Items to have in a list, by the path of the list."""
    with_list_items: bool = True
    """Whether to add the items (True) or to remove them (False)."""
    description_without_items: str = ""
    defaults: Mapping[str, Any] = {}
    """Required keys with the values to set if they are missing."""
    dialect: JsonDialect = JsonDialect.JSONC
    """What the agent accepts in this file; the most lenient where that is not known."""

    @property
    def is_wanted(self) -> bool:
        """Whether the file should contain any entries of ours."""
        return bool(self.hooks or (self.server and self.with_server) or (self.list_items and self.with_list_items))

    def with_entries(
        self, before: bytes | None, history: FileHistory = UNKNOWN_HISTORY, *, force: bool = False
    ) -> bytes:
        """Return the file with our entries added or updated, and unwanted ones removed."""
        mark, text = self._read_accepted(before)
        value = deepcopy(text.value)
        is_ours, original = self._has_our_entries(value, history), self._original(history)
        for key, default in self.defaults.items():
            value.setdefault(key, default)
        self._put_hooks(value)
        self._put_server(value, history, force=force)
        for path, item in self.list_items.items():
            if self.with_list_items:
                items = self._container(value, path, list)
                items += [] if item in items else [item]
            elif is_ours:
                _remove_item(value, path, item, original)
        return (mark + text.updated(value).text).encode()

    def without_entries(self, now: bytes, history: FileHistory = UNKNOWN_HISTORY) -> bytes | None:
        """Return the file without our entries, or None if setup created it and nothing else is left.

        If it is not known what setup wrote, only unmistakable entries are removed.
        """
        mark, text = self._read(now)
        value, original = deepcopy(text.value), self._original(history)
        is_ours = self._has_our_entries(value, history)
        for event, holder, item, _ in list(self._our_hooks(value)):
            _remove(holder, item)
            _prune(value, (HOOKS_KEY, event), original)
        if self._is_ours(self._server_in(value), history):
            if (server := self._server_in(original)) is not None:
                value[self.servers_key][SERVER_NAME] = server
            else:
                del value[self.servers_key][SERVER_NAME]
                _prune(value, (self.servers_key,), original)
        for path, item in self.list_items.items():
            if is_ours:
                _remove_item(value, path, item, original)
        if history.original is not None and not value.get(HOOKS_KEY):  # hooks of others need the defaults, too
            for key in [key for key, one in self.defaults.items() if key not in original and value.get(key) == one]:
                del value[key]
        if history.original is None and all(self.defaults.get(key) == one for key, one in value.items()):
            return None
        if value == text.value:
            return now
        if history.original is not None and not value and not history.original.removeprefix(_BOM.encode()).strip():
            return history.original  # an empty file
        return (mark + text.updated(value).text).encode()

    def find_entries(self, now: bytes) -> OurEntries:
        """Return our entries in the file."""
        value = self._read_accepted(now)[1].value
        server = self._server_in(value)
        items = [(_get(value, path), item) for path, item in self.list_items.items()]
        return OurEntries(
            hooks=tuple(str(hook["command"]) for *_, hook in self._our_hooks(value)),
            server=tuple(server_command(server)) if is_our_server(server) else (),
            has_other=any(isinstance(there, list) and item in there for there, item in items),
        )

    def has_foreign_server(self, now: bytes, history: FileHistory) -> bool:
        """Return whether a person wrote an entry that starts our server."""
        server = self._server_in(self._read(now)[1].value)
        return is_our_server(server) and not self._is_ours(server, history)

    def foreign_entries(self, now: bytes, history: FileHistory) -> Iterator[tuple[str, str]]:
        """Yield what a person wrote that calls ralph, with advice."""
        if self.has_foreign_server(now, history):
            yield FOREIGN_SERVER
        groups = [group for _, entries in _events(self._read(now)[1].value) for group in entries]
        if any(is_manual_hook(hook, self.agent) for group in groups for hook in (group, *_group_hooks(group))):
            yield FOREIGN_HOOKS

    def _read_accepted(self, raw: bytes | None) -> tuple[str, JsonText]:
        """Return the same as `_read`. Raise an error for a text that the agent does not accept."""
        mark, text = self._read(raw)
        if problem := text.problem_in(self.dialect):
            raise invalid_settings(f"{self.path} has {problem}, with which {agent_title(self.agent)} does not use it")
        return mark, text

    def _read(self, raw: bytes | None) -> tuple[str, JsonText]:
        """Return a byte order mark, if there is one, and the text after it."""
        try:
            text = (raw or b"").decode()
        except UnicodeDecodeError as error:
            raise invalid_settings(f"{self.path} is not valid UTF-8") from error
        mark = _BOM if text.startswith(_BOM) else ""
        text = text.removeprefix(_BOM)
        try:
            read = JsonText(text if text.strip() else "{}\n")
        except InvalidJsonError as error:
            raise invalid_settings(f"{self.path} is not valid JSON ({error})") from error
        if not isinstance(read.value, dict):
            raise invalid_settings(f"{self.path} is not a JSON object")
        return mark, read

    def _original(self, history: FileHistory) -> dict[str, Any]:
        return self._read(history.original)[1].value if history.original is not None else {}

    def _has_our_entries(self, value: dict[str, Any], history: FileHistory) -> bool:
        """Return whether setup has changed the file. A list item alone may be from a person."""
        return history.is_known or next(self._our_hooks(value), None) is not None

    def _server_in(self, value: dict[str, Any]) -> Any:
        return _get(value, (self.servers_key, SERVER_NAME)) if self.servers_key else None

    def _is_ours(self, server: object, history: FileHistory) -> bool:
        """Return whether setup wrote a server entry."""
        return is_written_by_setup(server, self._server_in(self._original(history)), self.server or {}, history)

    def _container(self, value: dict[str, Any], path: tuple[str, ...], kind: type) -> Any:
        """Return the container at a path; create it if it is missing. Raise an error if it has another type."""
        place: Any = value
        for length, key in enumerate(path, start=1):
            wanted = kind if length == len(path) else dict
            place = place.setdefault(key, wanted())
            if not isinstance(place, wanted):
                name = "an object" if wanted is dict else "a list"
                where = ".".join(path[:length])
                raise invalid_settings(f'"{where}" in {self.path} is not {name}')
        return place

    def _put_hooks(self, value: dict[str, Any]) -> None:
        renewed = set()
        for event, holder, item, hook in list(self._our_hooks(value)):
            if event in self.hooks and event not in renewed:
                renewed.add(event)
                hook.update(self.hooks[event])
            else:
                _remove(holder, item)
                _prune(value, (HOOKS_KEY, event), {})
        for event, wanted in self.hooks.items():
            entries = self._container(value, (HOOKS_KEY, event), list)
            if self.has_hook_groups and any(not isinstance(_hooks_of(one), list) for one in entries):
                raise invalid_settings(f'"{HOOKS_KEY}.{event}" in {self.path} has an entry without a list of hooks')
            if event not in renewed:
                entries.append({HOOKS_KEY: [dict(wanted)]} if self.has_hook_groups else dict(wanted))

    def _our_hooks(self, value: dict[str, Any]) -> Iterator[tuple[str, list[Any], Any, dict[str, Any]]]:
        """Yield our hooks: the event, a list, the item of the list to remove with the hook, and the hook.

        The item is the hook itself, or its group if it contains nothing else.
        """
        for event, entries in _events(value):
            for entry in entries:
                hooks = _group_hooks(entry) if self.has_hook_groups else [entry]
                for hook in hooks:
                    if is_our_hook(hook, self.agent):
                        yield (event, entries, entry, hook) if len(hooks) == 1 else (event, hooks, hook, hook)

    def _put_server(self, value: dict[str, Any], history: FileHistory, *, force: bool) -> None:
        if not self.servers_key or self.server is None:
            return
        there = self._server_in(value)
        is_ours = self._is_ours(there, history)
        if not self.with_server:
            if is_ours:
                del value[self.servers_key][SERVER_NAME]
                _prune(value, (self.servers_key,), {})
            return
        servers = self._container(value, (self.servers_key,), dict)
        if is_ours:  # keep what the user added to our entry
            there.update({key: one for key, one in self.server.items() if key not in _USER_KEYS or key not in there})
        elif SERVER_NAME not in servers or force:
            servers[SERVER_NAME] = dict(self.server)
        elif not is_our_server(there):
            raise foreign_server(self.path)


def _events(value: dict[str, Any]) -> list[tuple[str, list[Any]]]:
    """Return the events that have a list of hooks."""
    events = value.get(HOOKS_KEY)
    return [pair for pair in events.items() if isinstance(pair[1], list)] if isinstance(events, dict) else []


def _hooks_of(group: object) -> Any:
    return group.get(HOOKS_KEY) if isinstance(group, dict) else None


def _group_hooks(group: object) -> list[Any]:
    """Return the hooks of a group; empty if it is not a group."""
    hooks = _hooks_of(group)
    return hooks if isinstance(hooks, list) else []


def _get(value: Any, path: tuple[str, ...]) -> Any:
    """Return the value at a path, or None if there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _remove(items: list[Any], item: object) -> None:
    items[:] = [other for other in items if other is not item]


def _remove_item(value: dict[str, Any], path: tuple[str, ...], item: str, original: dict[str, Any]) -> None:
    """Remove an item from a list, unless it was there before setup."""
    there, had = _get(value, path), _get(original, path)
    if isinstance(there, list) and item in there and not (isinstance(had, list) and item in had):
        there.remove(item)
        _prune(value, path, original)


def _prune(value: dict[str, Any], path: tuple[str, ...], original: dict[str, Any]) -> None:
    """Remove containers that became empty, except those that existed before setup."""
    while path and _get(value, path) in ({}, []) and _get(original, path) is None:
        *holder, key = path
        path = tuple(holder)
        del _get(value, path)[key]


@record
class TomlEdit:
    """An edit of an MCP server table in the TOML settings of Codex."""

    path: Path
    description: str
    is_private: bool = True
    server: Mapping[str, Any]
    is_wanted: bool = True
    """Whether to add the server (True) or to remove it (False)."""

    def with_entries(
        self, before: bytes | None, history: FileHistory = UNKNOWN_HISTORY, *, force: bool = False
    ) -> bytes:
        """Return the file with our table appended or updated."""
        text, value = self._read(before)
        there = self._server_in(value)
        is_ours = self._is_ours(there, history)
        if there is not None and not is_ours and not force:
            if is_our_server(there):
                return before or b""
            raise foreign_server(self.path)
        wanted = self._with_user_keys(there) if is_ours else dict(self.server)
        return text.encode() if there == wanted else self._edited(text, wanted)

    def _with_user_keys(self, there: Mapping[str, Any]) -> dict[str, Any]:
        wanted = {**there, **self.server}
        if isinstance(named := there.get(ENV_VARS_KEY), list):
            wanted[ENV_VARS_KEY] = [*named, *(one for one in self.server.get(ENV_VARS_KEY, ()) if one not in named)]
        return wanted

    def without_entries(self, now: bytes, history: FileHistory = UNKNOWN_HISTORY) -> bytes | None:
        """Return the file without our table, or None if setup created it and nothing else is left."""
        text, value = self._read(now)
        if self._is_ours(self._server_in(value), history):
            now = self._edited(text, self._original_server(history))
        return None if history.original is None and not now.strip() else now

    def find_entries(self, now: bytes) -> OurEntries:
        """Return our entries in the file."""
        there = self._server_in(self._read(now)[1])
        return OurEntries(server=tuple(server_command(there)) if is_our_server(there) else ())

    def has_foreign_server(self, now: bytes, history: FileHistory) -> bool:
        """Return whether a person wrote an entry that starts our server."""
        there = self._server_in(self._read(now)[1])
        return is_our_server(there) and not self._is_ours(there, history)

    def foreign_entries(self, now: bytes, history: FileHistory) -> Iterator[tuple[str, str]]:
        """Yield what a person wrote that calls ralph, with advice."""
        if self.has_foreign_server(now, history):
            yield FOREIGN_SERVER

    def _original_server(self, history: FileHistory) -> Any:
        is_there = history.is_known and history.original is not None
        return self._server_in(self._read(history.original)[1]) if is_there else None

    def _is_ours(self, entry: object, history: FileHistory) -> bool:
        return is_written_by_setup(entry, self._original_server(history), self.server, history)

    def _read(self, raw: bytes | None) -> tuple[str, dict[str, Any]]:
        try:
            text = (raw or b"").decode()
            return text, parse_toml(text.replace("\r\n", "\n").removeprefix(_BOM))
        except ValueError as error:
            raise self._invalid(error) from error

    def _parse(self, text: str) -> TOMLDocument:
        """Parse for editing, which allows less nesting than TOML."""
        try:
            return tomlkit.parse(text)
        except (ValueError, RecursionError) as error:
            raise self._invalid(error) from error

    def _invalid(self, error: Exception) -> UsageError:
        return invalid_settings(f"Cannot read {self.path} as TOML: {error}")

    def _server_in(self, value: dict[str, Any]) -> Any:
        servers = value.get(SERVERS_TABLE, {})
        if not isinstance(servers, dict):
            raise invalid_settings(f'"{SERVERS_TABLE}" in {self.path} is not a table')
        return servers.get(SERVER_NAME)

    def _edited(self, text: str, server: Mapping[str, Any] | None) -> bytes:
        """Return a text with our table replaced, or removed for None."""
        text, mark = text.removeprefix(_BOM), _BOM if text.startswith(_BOM) else ""
        document = self._parse(text)
        servers: Any = document.setdefault(SERVERS_TABLE, tomlkit.table(is_super_table=True))
        there = servers.get(SERVER_NAME)
        if server is None:
            text = _without_table(text, there) or _dump_without(document, servers)
        elif there is None and not isinstance(servers, InlineTable):
            # At the end, where it cannot come between a comment of the user and the table below it.
            gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
            text += gap + tomlkit.dumps({SERVERS_TABLE: {SERVER_NAME: server}})
        else:
            servers[SERVER_NAME] = _updated(there, server)
            text = tomlkit.dumps(document)
        return (mark + text).encode()


def _updated(there: Any, server: Mapping[str, Any]) -> Any:
    """Return a table with new values. What follows it in the file belongs to the user and stays."""
    if there is None:
        return server
    for key in set(there) - set(server):
        del there[key]
    there.update(server)
    return there


def _without_table(text: str, table: Any) -> str:
    """Return a text without our table, but with the comments below it; empty if it has another form."""
    if not isinstance(table, Table):
        return ""
    items = table.value.body
    last = max(number for number, (key, _) in enumerate(items) if key is not None)
    ours = table.as_string().removesuffix("".join(item.as_string() for _, item in items[last + 1 :]))
    header = rf"(?m)(^\r?\n)?^[ \t]*\[{SERVERS_TABLE}\.{SERVER_NAME}\][^\n]*\n"
    found = re.search(header + re.escape(ours), text)
    return text[: found.start()] + text[found.end() :] if found else ""


def _dump_without(document: Any, servers: Any) -> str:
    del servers[SERVER_NAME]
    if not servers:
        del document[SERVERS_TABLE]
    return tomlkit.dumps(document)
