"""Edits of settings files, and how to revert them: pure functions from bytes to bytes.

Only our own entries change. The rest of a file stays the same, byte for byte.
"""

from __future__ import annotations

import re

from ralph.core.config import parse_toml
from ralph.core.errors import UsageError
from ralph.core.records import record
from ralph.integrations.setup.jsontext import InvalidJsonError, JsonText

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any

SERVER_NAME = "ralph"
"""Name of our MCP server in the settings of every agent."""
_BOM = "\ufeff"
HOOKS_KEY = "hooks"
"""Key of the hooks in JSON settings."""
ENV_VARS_KEY = "env_vars"
"""Key of the environment variables of a server in the settings of Codex."""
_USER_KEYS = ("trust",)
"""Keys of our server entry that keep the value set by the user."""


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


def calls_ralph(words: object, last_argument: str) -> bool:
    """Return whether a command starts ralph with this last argument."""
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        return False
    return words[-1] == last_argument and _starts_ralph(words)


def _starts_ralph(words: list[str]) -> bool:
    program = re.split(r"[/\\]", words[0])[-1]
    return program in (SERVER_NAME, f"{SERVER_NAME}.exe") or _without_safe_path(words)[1:3] == ["-m", SERVER_NAME]


def _without_safe_path(words: list[Any]) -> list[Any]:
    """Return a command without `-P`, which earlier versions of setup did not write."""
    return [words[0], *words[2:]] if words[1:4] == ["-P", "-m", SERVER_NAME] else words


def is_our_server(entry: object) -> bool:
    """Return whether a server entry starts our MCP server."""
    if not isinstance(entry, dict):
        return False
    return calls_ralph(_command_of(entry), "mcp")


def _command_of(entry: Mapping[str, Any]) -> list[Any]:
    """Return the command of a server entry."""
    command, arguments = entry.get("command"), entry.get("args", [])
    return command if isinstance(command, list) else [command, *(arguments if isinstance(arguments, list) else [])]


def matches_setup_entry(entry: object, wanted: Mapping[str, Any]) -> bool:
    """Return whether an entry has the command and only keys that setup would write."""
    if not isinstance(entry, dict) or not is_our_server(entry) or not set(entry) <= set(wanted):
        return False
    return _without_safe_path(_command_of(entry)) == _without_safe_path(_command_of(wanted))


def is_our_hook(hook: object, agent: str) -> bool:
    """Return whether setup wrote a hook, which then calls ralph by its absolute path."""
    words = _hook_command(hook)
    return len(words) > 4 and _is_hook_command(words, agent) and re.search(r"[/\\]", words[0]) is not None


def is_manual_hook(hook: object, agent: str) -> bool:
    """Return whether a person wrote a hook that calls ralph."""
    words = _hook_command(hook)
    return words[1:2] == ["hook"] and _starts_ralph(words) and not is_our_hook(hook, agent)


def _hook_command(hook: object) -> list[str]:
    import shlex

    command = hook.get("command") if isinstance(hook, dict) else None
    try:
        return shlex.split(command) if isinstance(command, str) else []
    except ValueError:
        return []


def _is_hook_command(words: list[str], agent: str) -> bool:
    start, action = words[:-4], words[-4:]
    is_hook = action[0] == "hook" and action[2:] == ["--agent", agent]
    return is_hook and _starts_ralph(start) and len(_without_safe_path(start)) in (1, 3)


@record
class FileHistory:
    """The known state of a file before setup."""

    original: bytes | None
    """Content before setup, or None if there was no file."""
    is_known: bool
    """Whether the original was kept."""


UNKNOWN_HISTORY = FileHistory(original=b"", is_known=False)


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
        self, before: bytes | None, *, force: bool, was_written: bool, past: FileHistory = UNKNOWN_HISTORY
    ) -> bytes:
        """Return the file with our entries added or updated, and unwanted ones removed."""
        mark, text = self._read(before)
        is_ours = self._has_our_entries(text, past)
        for key, value in self.defaults.items():
            if key not in text.value:
                text = text.with_value((key,), value)
        text = self._with_server(self._with_hooks(text), past, force=force, was_written=was_written)
        for path, word in self.list_items.items():
            there = self._container(text, path, list)
            if not self.with_list_items:
                text = self._without_word(text, path, word, self._original_text(past)) if is_ours else text
            elif word not in there:
                text = text.with_value((*path, len(there)), word)
        return (mark + text.text).encode()

    def without_entries(self, now: bytes, original: bytes | None, *, is_known: bool = True) -> bytes | None:
        """Return the file without our entries, or None if setup created it and nothing else is left.

        If it is not known what setup wrote, only unmistakable entries are removed.
        """
        mark, text = self._read(now)
        past = FileHistory(original=original, is_known=is_known)
        before, found = self._original_text(past), text.text
        is_ours = self._has_our_entries(text, past)
        for place in reversed(list(self._our_hooks(text))):
            text = _pruned(text.without(place), (HOOKS_KEY, place[1]), before)
        if self.servers_key and self._is_ours(text.get(self.servers_key, SERVER_NAME), past, was_written=False):
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

    def foreign_entries(self, now: bytes, past: FileHistory, *, was_written: bool) -> Iterator[tuple[str, str]]:
        """Yield the entries that call ralph but were written by a person, each with advice."""
        text = self._read(now)[1]
        server = text.get(self.servers_key, SERVER_NAME) if self.servers_key else None
        if is_our_server(server) and not self._is_ours(server, past, was_written=was_written):
            yield f'a server "{SERVER_NAME}"', "--force replaces it."
        events = text.get(HOOKS_KEY)
        groups = (
            [one for entries in events.values() if isinstance(entries, list) for one in entries]
            if isinstance(events, dict)
            else []
        )
        if any(is_manual_hook(hook, self.agent) for group in groups for hook in (group, *_group_hooks(group))):
            yield "hooks that call ralph", "They run in addition to ours. Remove them."

    def _has_our_entries(self, text: JsonText, past: FileHistory) -> bool:
        """Return whether setup has changed the file. A list item alone may be from a person."""
        return past.is_known or next(self._our_hooks(text), None) is not None

    def _original_text(self, past: FileHistory) -> JsonText | None:
        return self._read(past.original)[1] if past.original is not None else None

    def _is_ours(self, entry: object, past: FileHistory, *, was_written: bool) -> bool:
        """Return whether setup wrote a server entry."""
        before = self._original_text(past)
        had = before.get(self.servers_key, SERVER_NAME) if before else None
        return _is_written_by_setup(entry, had, self.server or {}, past, was_written=was_written)

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
            server=tuple(_command_of(server)) if server and is_our_server(server) else (),
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

    def _with_server(self, text: JsonText, past: FileHistory, *, force: bool, was_written: bool) -> JsonText:
        if not self.servers_key or self.server is None:
            return text
        there = self._container(text, (self.servers_key,), dict).get(SERVER_NAME)
        is_ours = self._is_ours(there, past, was_written=was_written)
        if not self.with_server:
            return (
                _pruned(text.without((self.servers_key, SERVER_NAME)), (self.servers_key,), None) if is_ours else text
            )
        if there is not None and not is_ours and not force:
            if is_our_server(there):
                return text
            raise _foreign_server_error(self.path)
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


def _is_written_by_setup(
    entry: object, had: object, wanted: Mapping[str, Any], past: FileHistory, *, was_written: bool
) -> bool:
    """Return whether setup wrote a server entry. `had` is the entry before setup."""
    if not is_our_server(entry):
        return False
    if past.is_known and (had is None or was_written):
        return had != entry
    return had != entry and matches_setup_entry(entry, wanted)


def _foreign_server_error(path: Path) -> UsageError:
    return UsageError(
        f'{path} has a server "{SERVER_NAME}" that setup did not write. Rename it, or use --force to replace it.'
    )


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
        self, before: bytes | None, *, force: bool, was_written: bool, past: FileHistory = UNKNOWN_HISTORY
    ) -> bytes:
        """Return the file with our table appended or updated."""
        text, value = self._read(before)
        there = self._server_in(value)
        is_ours = self._is_ours(there, past, was_written=was_written)
        if there is not None and not is_ours and not force:
            if is_our_server(there):
                return before or b""
            raise _foreign_server_error(self.path)
        wanted = self._with_user_keys(there) if is_ours else dict(self.server)
        if there == wanted:
            return text.encode()
        if there is not None:
            text = self._without_table(text)
        new = self._appended(text, wanted)
        value.setdefault("mcp_servers", {})[SERVER_NAME] = wanted
        if not self._has_value(new, value):
            raise self._unsupported_form()
        return new.encode()

    def _with_user_keys(self, there: Mapping[str, Any]) -> dict[str, Any]:
        wanted = {**there, **self.server}
        if isinstance(named := there.get(ENV_VARS_KEY), list):
            wanted[ENV_VARS_KEY] = [*named, *(one for one in self.server.get(ENV_VARS_KEY, ()) if one not in named)]
        return wanted

    def without_entries(self, now: bytes, original: bytes | None, *, is_known: bool = True) -> bytes | None:
        """Return the file without our table, or None if setup created it and nothing else is left."""
        text, value = self._read(now)
        past = FileHistory(original=original, is_known=is_known)
        if self._is_ours(self._server_in(value), past, was_written=False):
            text = self._without_table(text)
            if had := self._original_server(past):
                text = self._appended(text, had)
        return None if original is None and not text.strip() else text.encode()

    def find_entries(self, now: bytes) -> OurEntries:
        """Return our entries in the file."""
        there = self._server_in(self._read(now)[1])
        return OurEntries(server=tuple(_command_of(there)) if is_our_server(there) else ())

    def foreign_entries(self, now: bytes, past: FileHistory, *, was_written: bool) -> Iterator[tuple[str, str]]:
        """Yield the entry that calls ralph but was written by a person, with advice."""
        there = self._server_in(self._read(now)[1])
        if is_our_server(there) and not self._is_ours(there, past, was_written=was_written):
            yield f'a server "{SERVER_NAME}"', "--force replaces it."

    def _original_server(self, past: FileHistory) -> Any:
        return self._server_in(self._read(past.original)[1]) if past.is_known and past.original is not None else None

    def _is_ours(self, entry: object, past: FileHistory, *, was_written: bool) -> bool:
        return _is_written_by_setup(entry, self._original_server(past), self.server, past, was_written=was_written)

    def _read(self, raw: bytes | None) -> tuple[str, dict[str, Any]]:
        try:
            text = (raw or b"").decode()
            return text, parse_toml(text.replace("\r\n", "\n").removeprefix(_BOM))
        except ValueError as error:
            raise UsageError(f"{self.path} is not valid TOML ({error}). Fix it first. Nothing was changed.") from error

    def _server_in(self, value: dict[str, Any]) -> Any:
        servers = value.get("mcp_servers", {})
        if not isinstance(servers, dict):
            raise UsageError(f'"mcp_servers" in {self.path} is not a table. Fix it first. Nothing was changed.')
        return servers.get(SERVER_NAME)

    def _appended(self, text: str, server: Mapping[str, Any]) -> str:
        import json

        newline = "\r\n" if "\r\n" in text else "\n"
        start = text if not text or text.endswith("\n") else text + newline
        lines = [f"[mcp_servers.{SERVER_NAME}]"]
        for key, value in server.items():
            if not isinstance(value, (str, list, bool, int, float)):
                raise UsageError(f"Cannot keep {key!r} of our server in {self.path}. Remove it, then run setup again.")
            lines.append(f"{key} = {json.dumps(value, ensure_ascii=False)}")
        return start + (newline if start else "") + newline.join([*lines, ""])

    def _without_table(self, text: str) -> str:
        """Remove our table and the empty line before it."""
        _, value = self._read(text.encode())
        del value["mcp_servers"][SERVER_NAME]
        for found in re.finditer(rf"(?m)^[ \t]*\[mcp_servers\.{SERVER_NAME}\][^\n]*(?:\n|\Z)", text):
            rest = text[found.end() :]
            end = re.search(r"(?m)^[ \t]*(?:\[|#|\r?$)", rest)
            start = re.sub(r"(\A|\n)\r?\n\Z", r"\1", text[: found.start()])
            cut = start + (rest[end.start() :] if end else "")
            if self._has_value(cut, value):  # otherwise the match was inside a string
                return cut
        raise self._unsupported_form()

    def _has_value(self, text: str, value: dict[str, Any]) -> bool:
        """Return whether a text has the expected value: TOML has many spellings of the same table."""
        try:
            parsed = parse_toml(text.replace("\r\n", "\n").removeprefix(_BOM))
        except ValueError:
            parsed = {}
        return _without_empty(parsed) == _without_empty(value)

    def _unsupported_form(self) -> UsageError:
        return UsageError(
            f"{self.path} spells mcp_servers in a way that setup cannot change. Edit [mcp_servers.{SERVER_NAME}] yourself."
        )


def _without_empty(value: dict[str, Any]) -> dict[str, Any]:
    return {key: one for key, one in value.items() if one or key != "mcp_servers"}


@record
class LinesEdit:
    """An edit of lines under our own heading in a text file."""

    path: Path
    heading: str
    """Heading, which names the project because several may share the file."""
    lines: Sequence[str]
    description: str
    old_heading: str = ""
    """Heading of earlier versions, shared by projects. Only known lines below it are ours."""
    old_lines: Sequence[str] = ()
    is_private: bool = False

    @property
    def is_wanted(self) -> bool:
        """Whether the file should contain any entries of ours."""
        return bool(self.lines)

    def with_entries(
        self, before: bytes | None, *, force: bool, was_written: bool, past: FileHistory = UNKNOWN_HISTORY
    ) -> bytes:
        """Return the file with our lines appended."""
        there = (self.without_entries(before, before) or b"") if before else b""
        start = there if not there or there.endswith(b"\n") else there + b"\n"
        new = start + b"\n".join([*map(_encode, [self.heading, *self.lines]), b""])
        is_done = before and self._our_lines(before) == [*map(_encode, self.lines)] and not self._old_lines(before)
        return before if before and is_done else new

    def without_entries(self, now: bytes, original: bytes | None, *, is_known: bool = True) -> bytes | None:
        """Return the file without our lines."""
        lines = now.splitlines(keepends=True)
        ours = {*self._lines_under(lines, self.heading), *self._old_lines(now)}
        kept = [line for number, line in enumerate(lines) if number not in ours]
        return None if original is None and not kept else b"".join(kept)

    def find_entries(self, now: bytes) -> OurEntries:
        """Return our entries in the file."""
        return OurEntries(has_other=bool(self._our_lines(now) or self._old_lines(now)))

    def _our_lines(self, now: bytes) -> list[bytes]:
        lines = now.splitlines()
        return [lines[number] for number in self._lines_under(lines, self.heading)[1:]]

    def _old_lines(self, now: bytes) -> list[int]:
        """Return the indexes of our lines under the old heading, including the heading if there are no others."""
        lines = now.splitlines()
        under = self._lines_under(lines, self.old_heading) if self.old_heading else []
        known = {*map(_encode, self.old_lines)}
        ours = [number for number in under[1:] if lines[number] in known]
        return under if len(ours) == len(under) - 1 else ours

    def _lines_under(self, lines: list[bytes], heading: str) -> list[int]:
        """Return the indexes of a heading and of the lines below it."""
        words = [line.rstrip(b"\r\n") for line in lines]
        if _encode(heading) not in words:
            return []
        start = words.index(_encode(heading))
        end = next((at for at in range(start + 1, len(words)) if not words[at].startswith(b"/")), len(words))
        return list(range(start, end))


def _encode(text: str) -> bytes:
    """Encode text in which file names may have surrogate escapes."""
    return text.encode(errors="surrogateescape")


@record
class FileEdit:
    """An edit of a file that belongs to setup as a whole."""

    path: Path
    content: bytes
    description: str
    is_private: bool = False
    is_wanted: bool = True
    is_prose: bool = False
    """Whether the file is prose for agents, of which only the length is shown."""

    def with_entries(
        self, before: bytes | None, *, force: bool, was_written: bool, past: FileHistory = UNKNOWN_HISTORY
    ) -> bytes:
        """Return our content, or the existing file if a person wrote or edited it (unless `force`)."""
        return self.content if before is None or was_written or force else before

    def without_entries(self, now: bytes, original: bytes | None, *, is_known: bool = True) -> bytes | None:
        """Return the original if the file is ours, or the file unchanged if it was edited."""
        return original if now == self.content else now

    def find_entries(self, now: bytes) -> OurEntries:
        """Return our entries in the file. A plugin has the command of its hooks in `PROGRAM`."""
        import json
        import shlex

        calls = re.search(r"^const PROGRAM = (\[.*\])$", now.decode("utf-8", "replace"), re.MULTILINE)
        try:
            return OurEntries(hooks=(shlex.join(json.loads(calls[1])),)) if calls else OurEntries(has_other=True)
        except (ValueError, TypeError):  # edited by hand
            return OurEntries(has_other=True)


Edit = JsonEdit | TomlEdit | LinesEdit | FileEdit
