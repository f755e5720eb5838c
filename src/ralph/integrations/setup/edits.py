"""Edits of settings files, and how to revert them: pure functions from bytes to bytes.

Only our own entries change. The rest of a file stays the same, byte for byte.
"""

from __future__ import annotations

import re

import tomlkit
from tomlkit.items import InlineTable, Table

from ralph.core.config import parse_toml
from ralph.core.errors import UsageError
from ralph.core.records import record
from ralph.integrations.setup.entries import (
    FOREIGN_HOOKS,
    FOREIGN_SERVER,
    SERVER_NAME,
    UNKNOWN_HISTORY,
    FileHistory,
    OurEntries,
    foreign_server_error,
    is_manual_hook,
    is_our_hook,
    is_our_server,
    is_written_by_setup,
    server_command,
)
from ralph.integrations.setup.jsontext import InvalidJsonError, JsonText

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import Any

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

    @property
    def is_wanted(self) -> bool:
        """Whether the file should contain any entries of ours."""
        return bool(self.hooks or (self.server and self.with_server) or (self.list_items and self.with_list_items))

    def with_entries(
        self, before: bytes | None, history: FileHistory = UNKNOWN_HISTORY, *, force: bool = False
    ) -> bytes:
        """Return the file with our entries added or updated, and unwanted ones removed."""
        mark, text = self._read(before)
        is_ours = self._has_our_entries(text, history)
        for key, value in self.defaults.items():
            if key not in text.value:
                text = text.with_value((key,), value)
        text = self._with_server(self._with_hooks(text), history, force=force)
        for path, word in self.list_items.items():
            there = self._container(text, path, list)
            if not self.with_list_items:
                text = self._without_word(text, path, word, self._original_text(history)) if is_ours else text
            elif word not in there:
                text = text.with_value((*path, len(there)), word)
        return (mark + text.text).encode()

    def without_entries(self, now: bytes, history: FileHistory = UNKNOWN_HISTORY) -> bytes | None:
        """Return the file without our entries, or None if setup created it and nothing else is left.

        If it is not known what setup wrote, only unmistakable entries are removed.
        """
        mark, text = self._read(now)
        original, before, found = history.original, self._original_text(history), text.text
        is_ours = self._has_our_entries(text, history)
        for place in reversed(list(self._our_hooks(text))):
            text = _pruned(text.without(place), (HOOKS_KEY, place[1]), before)
        if self.servers_key and self._is_ours(text.get(self.servers_key, SERVER_NAME), history):
            had = before.get(self.servers_key, SERVER_NAME) if before else None
            if had is None:
                text = _pruned(text.without((self.servers_key, SERVER_NAME)), (self.servers_key,), before)
            else:
                text = text.with_value((self.servers_key, SERVER_NAME), had)
        for path, word in self.list_items.items():
            text = self._without_word(text, path, word, before) if is_ours else text
        if original is None and all(self.defaults.get(key) == value for key, value in text.value.items()):
            return None
        if text.text == found:
            return now
        if original is not None and not text.value and not original.removeprefix(_BOM.encode()).strip():
            return original  # an empty file
        return (mark + text.text).encode()

    def has_foreign_server(self, now: bytes, history: FileHistory) -> bool:
        """Return whether a person wrote an entry that starts our server."""
        server = self._read(now)[1].get(self.servers_key, SERVER_NAME) if self.servers_key else None
        return is_our_server(server) and not self._is_ours(server, history)

    def foreign_entries(self, now: bytes, history: FileHistory) -> Iterator[tuple[str, str]]:
        """Yield what a person wrote that calls ralph, with advice."""
        text = self._read(now)[1]
        if self.has_foreign_server(now, history):
            yield FOREIGN_SERVER
        events = text.get(HOOKS_KEY)
        groups = (
            [one for entries in events.values() if isinstance(entries, list) for one in entries]
            if isinstance(events, dict)
            else []
        )
        if any(is_manual_hook(hook, self.agent) for group in groups for hook in (group, *_group_hooks(group))):
            yield FOREIGN_HOOKS

    def _has_our_entries(self, text: JsonText, history: FileHistory) -> bool:
        """Return whether setup has changed the file. A list item alone may be from a person."""
        return history.is_known or next(self._our_hooks(text), None) is not None

    def _original_text(self, history: FileHistory) -> JsonText | None:
        return self._read(history.original)[1] if history.original is not None else None

    def _is_ours(self, entry: object, history: FileHistory) -> bool:
        """Return whether setup wrote a server entry."""
        before = self._original_text(history)
        had = before.get(self.servers_key, SERVER_NAME) if before else None
        return is_written_by_setup(entry, had, self.server or {}, history)

    def find_entries(self, now: bytes) -> OurEntries:
        """Return our entries in the file."""
        text = self._read(now)[1]
        places = [
            (*place, HOOKS_KEY, 0) if self.has_hook_groups and len(place) == 3 else place
            for place in self._our_hooks(text)
        ]
        single = [text.get(*place) for place in places]
        server = text.get(self.servers_key, SERVER_NAME) if self.servers_key else None
        return OurEntries(
            hooks=tuple(str(one["command"]) for one in single),
            server=tuple(server_command(server)) if server and is_our_server(server) else (),
            has_other=any(
                isinstance(there := text.get(*path), list) and word in there for path, word in self.list_items.items()
            ),
        )

    def _read(self, raw: bytes | None) -> tuple[str, JsonText]:
        try:
            text = (raw or b"").decode()
        except UnicodeDecodeError as error:
            raise UsageError(f"{self.path} is not valid UTF-8. Nothing was changed.") from error
        mark = _BOM if text.startswith(_BOM) else ""
        text = text.removeprefix(_BOM)
        try:
            read = JsonText(text if text.strip() else "{}\n")
        except InvalidJsonError as error:
            raise UsageError(f"{self.path} is not valid JSON ({error}). Fix it first. Nothing was changed.") from error
        if not isinstance(read.value, dict):
            raise UsageError(f"{self.path} is not a JSON object. Fix it first. Nothing was changed.")
        return mark, read

    def _container(self, text: JsonText, path: tuple[str, ...], kind: type) -> Any:
        """Return the container at a path, or an empty one. Raise UsageError if it has another type."""
        for length in range(1, len(path) + 1):
            wanted = kind if length == len(path) else dict
            value = text.get(*path[:length])
            if value is None and path[length - 1] not in (text.get(*path[: length - 1]) or {}):
                return kind()
            if not isinstance(value, wanted):
                name = "an object" if wanted is dict else "a list"
                where = ".".join(path[:length])
                raise UsageError(f'"{where}" in {self.path} is not {name}. Fix it first. Nothing was changed.')
        return text.get(*path)

    def _with_hooks(self, text: JsonText) -> JsonText:
        renewed = set()
        for place in reversed(list(self._our_hooks(text))):
            event = str(place[1])
            wanted = self.hooks.get(event)
            if wanted is None or event in renewed:
                text = _pruned(text.without(place), (HOOKS_KEY, event), None)
                continue
            renewed.add(event)
            if self.has_hook_groups and len(place) == 3:
                place = (*place, HOOKS_KEY, 0)
            there = text.get(*place)
            if there != {**there, **wanted}:
                text = text.with_value(place, {**there, **wanted})
        for event, hook in self.hooks.items():
            entries = self._container(text, (HOOKS_KEY, event), list)
            if self.has_hook_groups and any(not isinstance(_hooks_of(one), list) for one in entries):
                raise UsageError(
                    f'"{HOOKS_KEY}.{event}" in {self.path} has an entry without a list of hooks. Fix it first. '
                    "Nothing was changed."
                )
            if event not in renewed:
                count = len(entries)
                text = text.with_value((HOOKS_KEY, event, count), {HOOKS_KEY: [hook]} if self.has_hook_groups else hook)
        return text

    def _our_hooks(self, text: JsonText) -> Iterator[tuple[str | int, ...]]:
        """Yield the paths of our hooks, or of their group if it contains nothing else."""
        events = text.get(HOOKS_KEY)
        for event, entries in events.items() if isinstance(events, dict) else ():
            for number, entry in enumerate(entries if isinstance(entries, list) else ()):
                if not self.has_hook_groups:
                    if is_our_hook(entry, self.agent):
                        yield HOOKS_KEY, event, number
                    continue
                inner = _group_hooks(entry)
                ours = [at for at, one in enumerate(inner) if is_our_hook(one, self.agent)]
                if ours and len(ours) == len(inner) == 1:
                    yield HOOKS_KEY, event, number
                else:
                    yield from ((HOOKS_KEY, event, number, HOOKS_KEY, at) for at in ours)

    def _with_server(self, text: JsonText, history: FileHistory, *, force: bool) -> JsonText:
        if not self.servers_key or self.server is None:
            return text
        there = self._container(text, (self.servers_key,), dict).get(SERVER_NAME)
        is_ours = self._is_ours(there, history)
        if not self.with_server:
            return (
                _pruned(text.without((self.servers_key, SERVER_NAME)), (self.servers_key,), None) if is_ours else text
            )
        if there is not None and not is_ours and not force:
            if is_our_server(there):
                return text
            raise foreign_server_error(self.path)
        # Keep what the user added to our entry.
        kept = {key: there[key] for key in _USER_KEYS if key in there} if is_ours and there else {}
        wanted = {**there, **self.server, **kept} if is_ours and there else dict(self.server)
        return text if there == wanted else text.with_value((self.servers_key, SERVER_NAME), wanted)

    def _without_word(self, text: JsonText, path: tuple[str, ...], word: str, before: JsonText | None) -> JsonText:
        there = text.get(*path)
        had = before.get(*path) if before else None
        if isinstance(there, list) and word in there and not (isinstance(had, list) and word in had):
            return _pruned(text.without((*path, there.index(word))), path, before)
        return text


def _hooks_of(group: object) -> Any:
    return group.get(HOOKS_KEY) if isinstance(group, dict) else None


def _group_hooks(group: object) -> list[Any]:
    """Return the hooks of a group; empty if it is not a group."""
    hooks = _hooks_of(group)
    return hooks if isinstance(hooks, list) else []


def _pruned(text: JsonText, path: tuple[str | int, ...], before: JsonText | None) -> JsonText:
    """Remove containers that became empty, except those that existed before setup."""
    while path and text.get(*path) in ({}, []) and (before is None or before.get(*path) is None):
        text = text.without(path)
        path = path[:-1]
    return text


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
            raise foreign_server_error(self.path)
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
            raise UsageError(f"{self.path} is not valid TOML ({error}). Fix it first. Nothing was changed.") from error

    def _server_in(self, value: dict[str, Any]) -> Any:
        servers = value.get(SERVERS_TABLE, {})
        if not isinstance(servers, dict):
            raise UsageError(f'"{SERVERS_TABLE}" in {self.path} is not a table. Fix it first. Nothing was changed.')
        return servers.get(SERVER_NAME)

    def _edited(self, text: str, server: Mapping[str, Any] | None) -> bytes:
        """Return a text with our table replaced, or removed for None."""
        text, mark = text.removeprefix(_BOM), _BOM if text.startswith(_BOM) else ""
        document = tomlkit.parse(text)
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
