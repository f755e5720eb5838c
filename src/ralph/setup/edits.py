"""What setup does to one file, and how it is taken out again: pure, from bytes to bytes.

Only what is ours is touched. Whatever a file holds besides stays as it is, byte for byte.
"""

from __future__ import annotations

import re

from ralph.config import toml_in
from ralph.errors import UsageError
from ralph.records import record
from ralph.setup.jsontext import InvalidJsonError, JsonText

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any

NAME = "ralph"
"""What our server is called in every agent's settings."""
_BOM = "\ufeff"
HOOKS = "hooks"
PASSED_ON = "env_vars"
"""What Codex calls the variables that a server gets."""
_PERSONS = ("trust",)
"""What a person may have changed in the entry of our server, and setup leaves as it is then."""


@record
class Found:
    """What is ours in a file as it is now."""

    hooks: tuple[str, ...] = ()
    """The command of each hook."""
    server: tuple[str, ...] = ()
    """The words that start the server."""
    has_more: bool = False
    """Something else of ours is there."""

    def __bool__(self) -> bool:
        """Say whether there is anything."""
        return bool(self.hooks or self.server or self.has_more)


def calls_us(words: object, last: str) -> bool:
    """Say whether the words of a command start our program with this action."""
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        return False
    return words[-1] == last and _starts_us(words)


def _starts_us(words: list[str]) -> bool:
    program = re.split(r"[/\\]", words[0])[-1]
    return program in (NAME, f"{NAME}.exe") or _without_safety(words)[1:3] == ["-m", NAME]


def _without_safety(words: list[Any]) -> list[Any]:
    """Give the words as setup wrote them before it knew of -P, which keeps Python from running what lies around."""
    return [words[0], *words[2:]] if words[1:4] == ["-P", "-m", NAME] else words


def is_our_server(entry: object) -> bool:
    """Say whether an entry for an MCP server starts ours."""
    if not isinstance(entry, dict):
        return False
    return calls_us(_words_of(entry), "mcp")


def _words_of(entry: Mapping[str, Any]) -> list[Any]:
    """Give the words that start a server."""
    command, arguments = entry.get("command"), entry.get("args", [])
    return command if isinstance(command, list) else [command, *(arguments if isinstance(arguments, list) else [])]


def is_what_setup_writes(entry: object, wanted: Mapping[str, Any]) -> bool:
    """Say whether an entry starts the very program that setup would write, with nothing that setup would not."""
    if not isinstance(entry, dict) or not is_our_server(entry) or not set(entry) <= set(wanted):
        return False
    return _without_safety(_words_of(entry)) == _without_safety(_words_of(wanted))


def is_our_hook(hook: object, agent: str) -> bool:
    """Say whether a hook is one that setup writes for an agent: it calls the program by its whole path."""
    words = _words_of_hook(hook)
    return len(words) > 4 and _calls_for(words, agent) and re.search(r"[/\\]", words[0]) is not None


def is_hook_by_hand(hook: object, agent: str) -> bool:
    """Say whether a hook calls ours as a person writes it."""
    words = _words_of_hook(hook)
    return words[1:2] == ["hook"] and _starts_us(words) and not is_our_hook(hook, agent)


def _words_of_hook(hook: object) -> list[str]:
    import shlex

    command = hook.get("command") if isinstance(hook, dict) else None
    try:
        return shlex.split(command) if isinstance(command, str) else []
    except ValueError:
        return []


def _calls_for(words: list[str], agent: str) -> bool:
    start, action = words[:-4], words[-4:]
    is_hook = action[0] == "hook" and action[2:] == ["--agent", agent]
    return is_hook and _starts_us(start) and len(_without_safety(start)) in (1, 3)


@record
class Past:
    """What is known of a file before setup."""

    original: bytes | None
    """What it held; None when there was none."""
    is_known: bool
    """Setup has kept what it held."""


UNKNOWN = Past(original=b"", is_known=False)


@record
class JsonEdit:
    """Hooks, a server and words in the JSON settings of an agent."""

    path: Path
    agent: str
    says: str
    is_private: bool = True
    """It names a program of this machine: nothing for others."""
    hooks: Mapping[str, Mapping[str, Any]] = {}
    """By what the agent calls the event."""
    in_groups: bool = True
    """The hooks of an event are in groups, each with a list of them."""
    servers: str = ""
    """The key that servers are under."""
    server: Mapping[str, Any] | None = None
    with_server: bool = True
    """False: the server is taken out where it is."""
    words: Mapping[tuple[str, ...], str] = {}
    """A word of ours to be in a list, by the way to the list."""
    with_words: bool = True
    """False: the words are taken out where they are."""
    says_without_words: str = ""
    defaults: Mapping[str, Any] = {}
    """What a file of this kind has to have; left as it is when it is there."""

    @property
    def is_wanted(self) -> bool:
        """Say whether anything of ours is to be in the file."""
        return bool(self.hooks or (self.server and self.with_server) or (self.words and self.with_words))

    def merged(self, before: bytes | None, *, force: bool, was_written: bool, past: Past = UNKNOWN) -> bytes:
        """Give the file with our entries in it, added or renewed, and without those that are not wanted."""
        mark, text = self._read(before)
        is_ours = self._has_ours(text, past)
        for key, value in self.defaults.items():
            if key not in text.value:
                text = text.with_value((key,), value)
        text = self._with_server(self._with_hooks(text), past, force=force, was_written=was_written)
        for path, word in self.words.items():
            there = self._holder(text, path, list)
            if not self.with_words:
                text = self._without_word(text, path, word, self._before(past)) if is_ours else text
            elif word not in there:
                text = text.with_value((*path, len(there)), word)
        return (mark + text.text).encode()

    def stripped(self, now: bytes, original: bytes | None, *, is_known: bool = True) -> bytes | None:
        """Give the file without our entries, or None when nothing but what setup wrote would be left.

        Where it is not known what setup wrote, only what nobody else writes is taken out.
        """
        mark, text = self._read(now)
        past = Past(original=original, is_known=is_known)
        before, found = self._before(past), text.text
        is_ours = self._has_ours(text, past)
        for place in reversed(list(self._our_hooks(text))):
            text = _pruned(text.without(place), (HOOKS, place[1]), before)
        if self.servers and self._is_ours(text.get(self.servers, NAME), past, was_written=False):
            had = before.get(self.servers, NAME) if before else None
            if had is None:
                text = _pruned(text.without((self.servers, NAME)), (self.servers,), before)
            else:
                text = text.with_value((self.servers, NAME), had)
        for path, word in self.words.items():
            text = self._without_word(text, path, word, before) if is_ours else text
        if original is None and all(self.defaults.get(key) == value for key, value in text.value.items()):
            return None
        if text.text == found:
            return now
        if original is not None and not text.value and not original.removeprefix(_BOM.encode()).strip():
            return original  # it was empty
        return (mark + text.text).encode()

    def says_of_others(self, now: bytes, past: Past, *, was_written: bool) -> Iterator[tuple[str, str]]:
        """Give the entries that call us and that a person wrote, each with what can be done about it."""
        text = self._read(now)[1]
        server = text.get(self.servers, NAME) if self.servers else None
        if is_our_server(server) and not self._is_ours(server, past, was_written=was_written):
            yield f'a server "{NAME}"', "--force replaces it."
        events = text.get(HOOKS)
        groups = (
            [one for entries in events.values() if isinstance(entries, list) for one in entries]
            if isinstance(events, dict)
            else []
        )
        if any(is_hook_by_hand(hook, self.agent) for group in groups for hook in (group, *_inner(group))):
            yield "hooks that call ralph", "They run besides ours: take them out."

    def _has_ours(self, text: JsonText, past: Past) -> bool:
        """Say whether setup has been here: a word alone may be a person's."""
        return past.is_known or next(self._our_hooks(text), None) is not None

    def _before(self, past: Past) -> JsonText | None:
        return self._read(past.original)[1] if past.original is not None else None

    def _is_ours(self, entry: object, past: Past, *, was_written: bool) -> bool:
        """Say whether setup wrote an entry that starts our server."""
        before = self._before(past)
        had = before.get(self.servers, NAME) if before else None
        return _is_setups(entry, had, self.server or {}, past, was_written=was_written)

    def found(self, now: bytes) -> Found:
        """Give what is ours in the file."""
        text = self._read(now)[1]
        places = [
            (*place, HOOKS, 0) if self.in_groups and len(place) == 3 else place for place in self._our_hooks(text)
        ]
        single = [text.get(*place) for place in places]
        server = text.get(self.servers, NAME) if self.servers else None
        return Found(
            hooks=tuple(str(one["command"]) for one in single),
            server=tuple(_words_of(server)) if server and is_our_server(server) else (),
            has_more=any(
                isinstance(there := text.get(*path), list) and word in there for path, word in self.words.items()
            ),
        )

    def _read(self, raw: bytes | None) -> tuple[str, JsonText]:
        try:
            text = (raw or b"").decode()
        except UnicodeDecodeError as error:
            raise UsageError(f"{self.path} is not UTF-8 text, so nothing was changed.") from error
        mark = _BOM if text.startswith(_BOM) else ""
        text = text.removeprefix(_BOM)
        try:
            read = JsonText(text if text.strip() else "{}\n")
        except InvalidJsonError as error:
            raise UsageError(f"{self.path} is not valid JSON ({error}): mend it first. Nothing was changed.") from error
        if not isinstance(read.value, dict):
            raise UsageError(f"{self.path} holds no JSON object: mend it first. Nothing was changed.")
        return mark, read

    def _holder(self, text: JsonText, path: tuple[str, ...], kind: type) -> Any:
        """Give what is at a path, empty when there is nothing; it has to be of a kind."""
        for length in range(1, len(path) + 1):
            wanted = kind if length == len(path) else dict
            value = text.get(*path[:length])
            if value is None and path[length - 1] not in (text.get(*path[: length - 1]) or {}):
                return kind()
            if not isinstance(value, wanted):
                name = "an object" if wanted is dict else "a list"
                where = ".".join(path[:length])
                raise UsageError(f'"{where}" in {self.path} is not {name}: mend it first. Nothing was changed.')
        return text.get(*path)

    def _with_hooks(self, text: JsonText) -> JsonText:
        renewed = set()
        for place in reversed(list(self._our_hooks(text))):
            event = str(place[1])
            wanted = self.hooks.get(event)
            if wanted is None or event in renewed:
                text = _pruned(text.without(place), (HOOKS, event), None)
                continue
            renewed.add(event)
            if self.in_groups and len(place) == 3:
                place = (*place, HOOKS, 0)
            there = text.get(*place)
            if there != {**there, **wanted}:
                text = text.with_value(place, {**there, **wanted})
        for event, hook in self.hooks.items():
            entries = self._holder(text, (HOOKS, event), list)
            if self.in_groups and any(not isinstance(_hooks_of(one), list) for one in entries):
                raise UsageError(
                    f'"{HOOKS}.{event}" in {self.path} has an entry without a list of hooks: mend it first. '
                    "Nothing was changed."
                )
            if event not in renewed:
                count = len(entries)
                text = text.with_value((HOOKS, event, count), {HOOKS: [hook]} if self.in_groups else hook)
        return text

    def _our_hooks(self, text: JsonText) -> Iterator[tuple[str | int, ...]]:
        """Give the ways to our hooks; where a group holds nothing else, to the group."""
        events = text.get(HOOKS)
        for event, entries in events.items() if isinstance(events, dict) else ():
            for number, entry in enumerate(entries if isinstance(entries, list) else ()):
                if not self.in_groups:
                    if is_our_hook(entry, self.agent):
                        yield HOOKS, event, number
                    continue
                inner = _inner(entry)
                ours = [at for at, one in enumerate(inner) if is_our_hook(one, self.agent)]
                if ours and len(ours) == len(inner) == 1:
                    yield HOOKS, event, number
                else:
                    yield from ((HOOKS, event, number, HOOKS, at) for at in ours)

    def _with_server(self, text: JsonText, past: Past, *, force: bool, was_written: bool) -> JsonText:
        if not self.servers or self.server is None:
            return text
        there = self._holder(text, (self.servers,), dict).get(NAME)
        is_ours = self._is_ours(there, past, was_written=was_written)
        if not self.with_server:
            return _pruned(text.without((self.servers, NAME)), (self.servers,), None) if is_ours else text
        if there is not None and not is_ours and not force:
            if is_our_server(there):
                return text
            raise _foreign(self.path)
        # What a person added to our entry is theirs.
        kept = {key: there[key] for key in _PERSONS if key in there} if is_ours and there else {}
        wanted = {**there, **self.server, **kept} if is_ours and there else dict(self.server)
        return text if there == wanted else text.with_value((self.servers, NAME), wanted)

    def _without_word(self, text: JsonText, path: tuple[str, ...], word: str, before: JsonText | None) -> JsonText:
        there = text.get(*path)
        had = before.get(*path) if before else None
        if isinstance(there, list) and word in there and not (isinstance(had, list) and word in had):
            return _pruned(text.without((*path, there.index(word))), path, before)
        return text


def _hooks_of(group: object) -> Any:
    return group.get(HOOKS) if isinstance(group, dict) else None


def _inner(group: object) -> list[Any]:
    """Give the hooks of a group, none when it is no group."""
    hooks = _hooks_of(group)
    return hooks if isinstance(hooks, list) else []


def _is_setups(entry: object, had: object, wanted: Mapping[str, Any], past: Past, *, was_written: bool) -> bool:
    """Say whether setup wrote an entry for a server; `had` is the one that was there before."""
    if not is_our_server(entry):
        return False
    if past.is_known and (had is None or was_written):
        return had != entry
    return had != entry and is_what_setup_writes(entry, wanted)


def _foreign(path: Path) -> UsageError:
    return UsageError(
        f'{path} has a server "{NAME}" that setup did not write. Rename it, or say --force to replace it.'
    )


def _pruned(text: JsonText, path: tuple[str | int, ...], before: JsonText | None) -> JsonText:
    """Take out what has become empty, but for what was there before."""
    while path and text.get(*path) in ({}, []) and (before is None or before.get(*path) is None):
        text = text.without(path)
        path = path[:-1]
    return text


@record
class TomlEdit:
    """A server in the TOML settings of Codex, as a table of its own."""

    path: Path
    says: str
    is_private: bool = True
    server: Mapping[str, Any]
    is_wanted: bool = True
    """False: it is taken out where it is."""

    def merged(self, before: bytes | None, *, force: bool, was_written: bool, past: Past = UNKNOWN) -> bytes:
        """Give the file with our table at its end, or renewed where it is."""
        text, value = self._read(before)
        there = self._there(value)
        is_ours = self._is_ours(there, past, was_written=was_written)
        if there is not None and not is_ours and not force:
            if is_our_server(there):
                return before or b""
            raise _foreign(self.path)
        wanted = self._with_what_a_person_added(there) if is_ours else dict(self.server)
        if there == wanted:
            return text.encode()
        if there is not None:
            text = self._cut(text)
        new = self._appended(text, wanted)
        value.setdefault("mcp_servers", {})[NAME] = wanted
        if not self._says(new, value):
            raise self._too_special()
        return new.encode()

    def _with_what_a_person_added(self, there: Mapping[str, Any]) -> dict[str, Any]:
        wanted = {**there, **self.server}
        if isinstance(named := there.get(PASSED_ON), list):
            wanted[PASSED_ON] = [*named, *(one for one in self.server.get(PASSED_ON, ()) if one not in named)]
        return wanted

    def stripped(self, now: bytes, original: bytes | None, *, is_known: bool = True) -> bytes | None:
        """Give the file without our table, or None when nothing else is left of what was no file."""
        text, value = self._read(now)
        past = Past(original=original, is_known=is_known)
        if self._is_ours(self._there(value), past, was_written=False):
            text = self._cut(text)
            if had := self._had(past):
                text = self._appended(text, had)
        return None if original is None and not text.strip() else text.encode()

    def found(self, now: bytes) -> Found:
        """Give what is ours in the file."""
        there = self._there(self._read(now)[1])
        return Found(server=tuple(_words_of(there)) if is_our_server(there) else ())

    def says_of_others(self, now: bytes, past: Past, *, was_written: bool) -> Iterator[tuple[str, str]]:
        """Give the server that starts ours and that a person wrote, with what can be done about it."""
        there = self._there(self._read(now)[1])
        if is_our_server(there) and not self._is_ours(there, past, was_written=was_written):
            yield f'a server "{NAME}"', "--force replaces it."

    def _had(self, past: Past) -> Any:
        return self._there(self._read(past.original)[1]) if past.is_known and past.original is not None else None

    def _is_ours(self, entry: object, past: Past, *, was_written: bool) -> bool:
        """Say whether setup wrote the table."""
        return _is_setups(entry, self._had(past), self.server, past, was_written=was_written)

    def _read(self, raw: bytes | None) -> tuple[str, dict[str, Any]]:
        try:
            text = (raw or b"").decode()
            return text, toml_in(text.replace("\r\n", "\n").removeprefix(_BOM))
        except ValueError as error:
            raise UsageError(f"{self.path} is not valid TOML ({error}): mend it first. Nothing was changed.") from error

    def _there(self, value: dict[str, Any]) -> Any:
        servers = value.get("mcp_servers", {})
        if not isinstance(servers, dict):
            raise UsageError(f'"mcp_servers" in {self.path} is not a table: mend it first. Nothing was changed.')
        return servers.get(NAME)

    def _appended(self, text: str, server: Mapping[str, Any]) -> str:
        import json

        newline = "\r\n" if "\r\n" in text else "\n"
        start = text if not text or text.endswith("\n") else text + newline
        lines = [f"[mcp_servers.{NAME}]"]
        for key, value in server.items():
            if not isinstance(value, (str, list, bool, int, float)):
                raise UsageError(
                    f"{key!r} of our server in {self.path} cannot be kept: take it out, then set up again."
                )
            lines.append(f"{key} = {json.dumps(value, ensure_ascii=False)}")
        return start + (newline if start else "") + newline.join([*lines, ""])

    def _cut(self, text: str) -> str:
        """Take our table out, with the empty line before it."""
        _, value = self._read(text.encode())
        del value["mcp_servers"][NAME]
        for found in re.finditer(rf"(?m)^[ \t]*\[mcp_servers\.{NAME}\][^\n]*(?:\n|\Z)", text):
            rest = text[found.end() :]
            end = re.search(r"(?m)^[ \t]*(?:\[|#|\r?$)", rest)
            start = re.sub(r"(\A|\n)\r?\n\Z", r"\1", text[: found.start()])
            cut = start + (rest[end.start() :] if end else "")
            if self._says(cut, value):  # else it was a line in a text
                return cut
        raise self._too_special()

    def _says(self, text: str, value: dict[str, Any]) -> bool:
        """Say whether a text says what it should: TOML can be written in many ways."""
        try:
            said = toml_in(text.replace("\r\n", "\n").removeprefix(_BOM))
        except ValueError:
            said = {}
        return _without_empty(said) == _without_empty(value)

    def _too_special(self) -> UsageError:
        return UsageError(
            f"{self.path} has mcp_servers in a form that setup cannot change: edit [mcp_servers.{NAME}] yourself."
        )


def _without_empty(value: dict[str, Any]) -> dict[str, Any]:
    return {key: one for key, one in value.items() if one or key != "mcp_servers"}


@record
class LinesEdit:
    """Lines of our own in a file of lines, under a heading of ours."""

    path: Path
    heading: str
    """Names the project too: several may share the file."""
    lines: Sequence[str]
    says: str
    old_heading: str = ""
    """One that projects shared; under it, only lines that are known are ours."""
    old_lines: Sequence[str] = ()
    is_private: bool = False

    @property
    def is_wanted(self) -> bool:
        """Say whether anything of ours is to be in the file."""
        return bool(self.lines)

    def merged(self, before: bytes | None, *, force: bool, was_written: bool, past: Past = UNKNOWN) -> bytes:
        """Give the file with our lines at its end."""
        there = (self.stripped(before, before) or b"") if before else b""
        start = there if not there or there.endswith(b"\n") else there + b"\n"
        new = start + b"\n".join([*map(_bytes, [self.heading, *self.lines]), b""])
        is_done = before and self._ours(before) == [*map(_bytes, self.lines)] and not self._old(before)
        return before if before and is_done else new

    def stripped(self, now: bytes, original: bytes | None, *, is_known: bool = True) -> bytes | None:
        """Give the file without our lines."""
        lines = now.splitlines(keepends=True)
        ours = {*self._under(lines, self.heading), *self._old(now)}
        kept = [line for number, line in enumerate(lines) if number not in ours]
        return None if original is None and not kept else b"".join(kept)

    def found(self, now: bytes) -> Found:
        """Give what is ours in the file."""
        return Found(has_more=bool(self._ours(now) or self._old(now)))

    def _ours(self, now: bytes) -> list[bytes]:
        lines = now.splitlines()
        return [lines[number] for number in self._under(lines, self.heading)[1:]]

    def _old(self, now: bytes) -> list[int]:
        """Give the numbers of our lines under the heading that projects shared, with the heading if no others are."""
        lines = now.splitlines()
        under = self._under(lines, self.old_heading) if self.old_heading else []
        known = {*map(_bytes, self.old_lines)}
        ours = [number for number in under[1:] if lines[number] in known]
        return under if len(ours) == len(under) - 1 else ours

    def _under(self, lines: list[bytes], heading: str) -> list[int]:
        """Give the number of a heading and of the lines under it."""
        words = [line.rstrip(b"\r\n") for line in lines]
        if _bytes(heading) not in words:
            return []
        start = words.index(_bytes(heading))
        end = next((at for at in range(start + 1, len(words)) if not words[at].startswith(b"/")), len(words))
        return list(range(start, end))


def _bytes(text: str) -> bytes:
    """Give a text with names of files as the system has them."""
    return text.encode(errors="surrogateescape")


@record
class FileEdit:
    """A file that is all ours."""

    path: Path
    content: bytes
    says: str
    is_private: bool = False
    is_wanted: bool = True
    is_prose: bool = False
    """It is for agents to read: a person is told how long it is, not each line."""

    def merged(self, before: bytes | None, *, force: bool, was_written: bool, past: Past = UNKNOWN) -> bytes:
        """Give our file; one that somebody else wrote or changed stays, unless it is to be replaced by force."""
        return self.content if before is None or was_written or force else before

    def stripped(self, now: bytes, original: bytes | None, *, is_known: bool = True) -> bytes | None:
        """Give what is left of it: nothing if it is ours, everything if somebody changed it."""
        return original if now == self.content else now

    def found(self, now: bytes) -> Found:
        """Give what is ours in the file: all of it; one that calls hooks has the program in its first list."""
        import json
        import shlex

        calls = re.search(r"^const PROGRAM = (\[.*\])$", now.decode("utf-8", "replace"), re.MULTILINE)
        try:
            return Found(hooks=(shlex.join(json.loads(calls[1])),)) if calls else Found(has_more=True)
        except (ValueError, TypeError):  # somebody changed it
            return Found(has_more=True)


Edit = JsonEdit | TomlEdit | LinesEdit | FileEdit
