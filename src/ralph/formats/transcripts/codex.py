"""Reader of the transcripts of Codex, from 0.20 on.

`sessions/YEAR/MONTH/DAY/rollout-TIME-ID.jsonl` in its folder, or `archived_sessions/`. Only `response_item` records are
read: events repeat them. Before 0.39 items have no envelope and no time, and nothing names the working directory but
the tool calls. Dropped: reasoning, results of tools that succeeded, instructions, compactions and their replacement
history, and the prompts that a subagent gets.
"""

# ruff: noqa: PTH119

from __future__ import annotations

import os

from ralph.core.records import Speaker, Turn
from ralph.formats.transcripts.base import (
    DataFolder,
    FileCount,
    Report,
    Transcript,
    containing_directory,
    data_path,
    modified_at,
    oldest_first,
)
from ralph.formats.transcripts.cleaning import (
    failed_command,
    patched_files,
    person_text,
    relative_files,
    short_text,
    stable_key,
    text_of,
    utc_timestamp,
)
from ralph.formats.transcripts.edits import PendingEdits
from ralph.formats.transcripts.lines import JsonLines, open_regular, parse_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ralph.formats.transcripts.lines import Entry

MAX_HEAD_BYTES = 4 * 1024 * 1024
"""Number of bytes in which a transcript has to name its working directory."""
MAX_PENDING_CALLS = 200
"""Number of tool calls that are remembered until their result."""
MAX_DIGITS = 12
"""Maximum number of digits of an exit code."""
_HEAD_BYTES = 200
"""Number of bytes at the start of a line in which its type is."""
_SUFFIX, _COMPRESSED = ".jsonl", ".jsonl.zst"
_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_EXIT_CODES = (b'exit_code\\":', b"exited with code ", b"Exit code: ")
"""What stands before the exit code of a command, by version."""


def _is_wanted(line: bytes) -> bool:
    """Return whether a line can contain a turn, or what one refers to."""
    if b'_output"' in line and (b'"function_call_output"' in line or b'"custom_tool_call_output"' in line):
        return any(_has_failed(line, mark) for mark in _EXIT_CODES)
    head = line[:_HEAD_BYTES]
    if b'"event_msg"' in head or b'"world_state"' in head or b'"compacted"' in head:
        return False
    return b'"message"' in line or b'"session_meta"' in line or b'_call"' in line


def _has_failed(line: bytes, mark: bytes) -> bool:
    place = line.rfind(mark) if mark is _EXIT_CODES[0] else line.find(mark)
    start = place + len(mark)
    return place >= 0 and not line[start : start + 2].lstrip().startswith(b"0")


class CodexReader:
    """Reads the transcripts of Codex."""

    name = "codex"
    title = "Codex"
    is_in_project = False

    def count(self, home: str, environ: Mapping[str, str], directories: Sequence[str]) -> FileCount:
        """Return the number of all sessions: names do not tell where they started."""
        folder = DataFolder(data_path(home, environ.get("CODEX_HOME"), ".codex"), lambda _: None)
        places = [("archived_sessions",), *_days(folder)]
        count = sum(1 for place in places for _ in folder.files(*place, suffix=_SUFFIX))
        return FileCount(count=count, is_exact=False)

    def find(
        self, home: str, environ: Mapping[str, str], directories: Sequence[str], report: Report
    ) -> Iterator[Transcript]:
        """Yield the transcripts of the directories, archived ones too."""
        folder = DataFolder(data_path(home, environ.get("CODEX_HOME"), ".codex"), report)
        places = [("archived_sessions",), *_days(folder)]
        found: dict[str, Transcript] = {}
        homeless = []
        for path, status in (file for place in places for file in folder.files(*place, suffix=_SUFFIX)):
            head = _head(path, report)
            if head and not head.get("cwd"):
                homeless.append(path)
            for transcript in self._transcripts(path, status, head, directories):
                if transcript.root:
                    found[transcript.session] = transcript
        compressed = list(_compressed(folder, places))
        if homeless:
            reason = f"{len(homeless)} transcripts like this do not name a directory, as before Codex 0.39"
            folder.problem(homeless[0], reason)
        if compressed:
            reason = f"{len(compressed)} transcripts like this are compressed; to read them, run zstd -d on them first"
            folder.problem(compressed[0], reason)
        yield from oldest_first(list(found.values()))

    def open_file(
        self, path: str, status: os.stat_result, directories: Sequence[str], report: Report
    ) -> Iterator[Transcript]:
        """Yield the session in a file."""
        yield from self._transcripts(path, status, _head(path, report), directories)

    def _transcripts(
        self, path: str, status: os.stat_result, head: Entry, directories: Sequence[str]
    ) -> Iterator[Transcript]:
        if not head:
            return
        directory = short_text(head.get("cwd"), 4_096)
        yield Transcript(
            agent=self.name,
            session=short_text(head.get("id")) or os.path.basename(path).removesuffix(_SUFFIX),
            path=path,
            directory=directory,
            root=containing_directory(directory, directories),
            size=status.st_size,
            modified_at=modified_at(status),
            started_at=utc_timestamp(head.get("timestamp")),
            is_subagent="subagent" in str(head.get("source")) or head.get("thread_source") == "subagent",
        )

    def directory(self, path: str) -> str:
        """Return the working directory in which a session started."""
        return short_text(_head(path, lambda _: None).get("cwd"), 4_096)

    def turns(self, transcript: Transcript, report: Report, offset: int = 0) -> Iterator[Turn]:
        """Yield what was said from a byte offset on."""
        return _CodexTurns(transcript, report, offset).read()


READER = CodexReader()


def _days(folder: DataFolder) -> Iterator[tuple[str, ...]]:
    for year in folder.folders("sessions"):
        for month in folder.folders("sessions", year):
            for day in folder.folders("sessions", year, month):
                yield "sessions", year, month, day


def _compressed(folder: DataFolder, places: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Yield the transcripts that are there only compressed."""
    for place in places:
        plain = {path for path, _ in folder.files(*place, suffix=_SUFFIX)}
        paths = (path for path, _ in folder.files(*place, suffix=_COMPRESSED))
        yield from (path for path in paths if path.removesuffix(".zst") not in plain)


def _head(path: str, report: Report) -> Entry:
    """Return id, time and working directory of a transcript."""
    lines = JsonLines(path, report, lambda line: True).read(limit=MAX_HEAD_BYTES)
    first = next((entry for _, entry in lines), {})
    if first.get("type") == "session_meta":
        payload = first.get("payload")
        return payload if isinstance(payload, dict) else {}
    for _, entry in lines:
        arguments = _arguments(_item(entry))
        workdir = short_text(arguments.get("workdir"), 4_096)
        if workdir.startswith("/"):
            return {**first, "cwd": workdir}
    return first


def _item(entry: Entry) -> Entry:
    """Return the item of a record, with or without an envelope."""
    if "payload" not in entry:
        return entry
    payload = entry["payload"]
    return payload if entry.get("type") == "response_item" and isinstance(payload, dict) else {}


def _arguments(item: Entry) -> Entry:
    """Return the arguments of a tool call, which are JSON in a string."""
    arguments = item.get("arguments")
    if isinstance(arguments, str):
        return parse_object(arguments.encode("utf-8", "replace")) or {}
    action = item.get("action")
    return action if isinstance(action, dict) else {"command": item.get("input")}


class _CodexTurns:
    """One pass over a transcript, with what later lines refer to."""

    def __init__(self, transcript: Transcript, report: Report, offset: int) -> None:
        self._transcript = transcript
        self._offset = offset
        self._lines = JsonLines(transcript.path, report, _is_wanted)
        self._calls: dict[str, str] = {}
        """Commands of the latest tool calls, by id."""
        self._edits = PendingEdits()
        self._origin, self._branch, self._messages = transcript.session, "", 0

    def read(self) -> Iterator[Turn]:
        """Yield the turns."""
        self._read_start()
        for offset, entry in self._lines.read(self._offset):
            if entry.get("type") == "session_meta":
                self._session(entry.get("payload"))
                continue
            item = _item(entry)
            if item.get("type") == "message":
                self._messages += 1
                yield from self._message(entry, item, offset)
            elif item.get("type") in _CALLS:
                self._call(entry, item, offset)
            elif item.get("type") in _OUTPUTS:
                yield from self._output(entry, item, offset)
        yield from self._edits.alone()

    def _read_start(self) -> None:
        """Learn from the lines before the offset which session this is, and how many messages it has."""
        if self._offset <= 0:
            return
        try:
            with open_regular(self._transcript.path) as file:
                while file.tell() < self._offset and (line := file.readline(MAX_HEAD_BYTES)):
                    if b'"session_meta"' in line[:_HEAD_BYTES]:
                        self._session((parse_object(line) or {}).get("payload"))
                    self._messages += _is_message(line)
        except OSError:
            return  # Reading on reports it.

    def _session(self, meta: object) -> None:
        """Note the session; a fork by an old version repeats the session it copied behind its own."""
        if isinstance(meta, dict):
            self._origin = short_text(meta.get("id")) or self._origin
            git = meta.get("git")
            self._branch = short_text(git.get("branch")) if isinstance(git, dict) else ""

    # --- items -----------------------------------------------------------------------

    def _message(self, entry: Entry, item: Entry, offset: int) -> Iterator[Turn]:
        role, text = item.get("role"), ""
        if role == "user" and not self._transcript.is_subagent:
            text = "\n\n".join(filter(None, map(person_text, _person_parts(item))))
        elif role == "assistant" and not _is_compaction(entry, item):
            text = "\n\n".join(filter(None, map(text_of, _parts(item))))
        if text and role == "user":
            yield from self._edits.alone()
            yield self._turn(entry, item, offset, Speaker.PERSON, text)
        elif text:
            yield self._turn(entry, item, offset, Speaker.AGENT, text, self._edits.take())

    def _call(self, entry: Entry, item: Entry, offset: int) -> None:
        call, arguments = short_text(item.get("call_id")), _arguments(item)
        command = _command(arguments)
        self._calls[call] = command
        if len(self._calls) > MAX_PENDING_CALLS:
            del self._calls[next(iter(self._calls))]
        if paths := patched_files(command):
            directory = os.path.join(self._transcript.directory, short_text(arguments.get("workdir"), 4_096))  # noqa: PTH118
            files = relative_files(paths, directory, self._transcript.root or self._transcript.directory)
            self._edits.add(call, files, lambda: self._turn(entry, item, offset, Speaker.AGENT, ""))

    def _output(self, entry: Entry, item: Entry, offset: int) -> Iterator[Turn]:
        code, output = _result(item.get("output"))
        if not code:
            return
        call = short_text(item.get("call_id"))
        self._edits.drop(call)
        command = self._calls.get(call) or self._earlier_command(call)
        text = failed_command(command, f"Exit code {code}\n{output}")
        yield self._turn(entry, item, offset, Speaker.TOOL, text, self._edits.take())

    def _earlier_command(self, call: str) -> str:
        """Return the command of a tool call before the offset."""
        found = self._lines.find_before(self._offset, b'_call"', f'"{call}"'.encode()) if call else None
        return _command(_arguments(_item(found))) if found else ""

    def _turn(
        self,
        entry: Entry,
        item: Entry,
        offset: int,
        speaker: Speaker,
        text: str,
        files: tuple[str, ...] = (),
    ) -> Turn:
        id = short_text(item.get("id")) or short_text(item.get("call_id")) or self._messages
        return Turn(
            key=stable_key(self._origin, id, text),
            speaker=speaker,
            text=text,
            files=files,
            branch=self._branch,
            at=utc_timestamp(entry.get("timestamp")) or self._transcript.started_at,
            offset=offset,
        )


def _is_message(line: bytes) -> bool:
    """Return whether a line is a message, by the type of its item, which comes before its content."""
    head = line[:300]
    return b'"type":"message"' in head or b'"type": "message"' in head


def _parts(item: Entry) -> list[object]:
    content = item.get("content")
    parts = content if isinstance(content, list) else []
    return [part.get("text") if isinstance(part, dict) else None for part in parts]


def _person_parts(item: Entry) -> list[str]:
    """Return the parts of a message that a person can have written; 0.166 says which they did."""
    parts = [part if isinstance(part, str) else "" for part in _parts(item)]
    passed = item.get("internal_chat_message_metadata_passthrough")
    kinds = passed.get("content_item_kinds") if isinstance(passed, dict) else None
    if not isinstance(kinds, list) or len(kinds) != len(parts):
        return parts
    return [part for part, kind in zip(parts, kinds, strict=True) if kind == "user.text"]


def _is_compaction(entry: Entry, item: Entry) -> bool:
    found = (one.get("metadata") for one in (entry, item))
    return any(isinstance(one, dict) and one.get("compaction_output") for one in found)


def _command(arguments: Entry) -> str:
    """Return the command of a tool call: a text, or words of which the last is the script of a shell."""
    command = arguments.get("cmd") or arguments.get("command")
    if isinstance(command, list):
        words = [word for word in command if isinstance(word, str)]
        return words[-1] if words[1:2] in (["-lc"], ["-c"]) else " ".join(words)
    return command if isinstance(command, str) else ""


def _result(output: object) -> tuple[int, str]:
    """Return exit code and output of a command; 0 if it succeeded or is none."""
    if isinstance(output, dict):
        output = output.get("content")
    if not isinstance(output, str):
        return 0, ""
    if output.startswith("{") and (found := parse_object(output.encode("utf-8", "replace"))):
        metadata, text = found.get("metadata"), found.get("output")
        code = metadata.get("exit_code") if isinstance(metadata, dict) else 0
        return (code if isinstance(code, int) else 0), text if isinstance(text, str) else ""
    head, _, text = output.partition("Output:\n")
    for mark in ("exited with code ", "Exit code: "):
        digits = head.partition(mark)[2].split("\n")[0].strip()
        if digits.removeprefix("-").isdecimal() and len(digits) < MAX_DIGITS:
            return int(digits), text
    return 0, ""
