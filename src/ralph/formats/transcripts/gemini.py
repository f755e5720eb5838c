"""Reader of the transcripts of the Gemini CLI, from 0.25 on.

`tmp/FOLDER/chats/` in its folder holds `session-….json`, one object, or since 0.61 `session-….jsonl`. FOLDER is the
SHA-256 of the working directory, or a name with the directory in `.project_root`. In a `.jsonl` file a message may
come again with the results of its tools, and `$set` and `$rewindTo` change the history: what was taken back is not
read. Dropped: thoughts, results of tools that succeeded, notices of the program, and contents of files that a person
referred to with `@`. The offset of a `.json` file counts messages.
"""

# ruff: noqa: PTH118, PTH119

from __future__ import annotations

import os
import re

from ralph.core.hashing import sha256_hex
from ralph.core.records import Speaker, Turn
from ralph.formats.transcripts.base import (
    DataFolder,
    FileCount,
    Report,
    Transcript,
    TranscriptProblem,
    containing_directory,
    data_path,
    modified_at,
    oldest_first,
    os_reason,
)
from ralph.formats.transcripts.cleaning import (
    failed_command,
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

MAX_JSON_BYTES = 24 * 1024 * 1024
"""Size above which a `.json` file is not read: it has to be parsed as a whole."""
_SUFFIXES = (".json", ".jsonl")
_HEAD_BYTES = 4 * 1024
_EDIT_TOOLS = ("write_file", "replace", "edit", "smart_edit")
_SHELL_TOOL = "run_shell_command"
_REFERENCED, _REFERENCED_END = "--- Content from referenced files ---", "--- End of content ---"
_NOISE = ("<untrusted_context>", "</untrusted_context>", "Exit Code: ", "Process Group PGID: ", "Background PIDs: ")
"""Starts of lines that the Gemini CLI adds to the output of a command."""
_EXIT_CODE = re.compile(r"(?m)^Exit Code: (-?[1-9][0-9]{0,9})$")
_ID = re.compile(rb'\{\s*"id":\s*"([^"\\]{1,200})"')


class GeminiReader:
    """Reads the transcripts of the Gemini CLI."""

    name = "gemini"
    title = "Gemini CLI"
    is_in_project = False

    def count(self, home: str, environ: Mapping[str, str], directories: Sequence[str]) -> FileCount:
        """Return the number of sessions by the names of folders: hashes of directories, or their last parts."""
        folder, count, is_exact = _folder(home, environ, lambda _: None), 0, True
        hashes = {sha256_hex(os.fsencode(directory)) for directory in directories}
        names = {re.sub(r"[^a-z0-9]+", "-", os.path.basename(one).lower()).strip("-") for one in directories}
        for name in folder.folders("tmp"):
            if name in hashes or re.sub(r"-\d+$", "", name) in names or name in names:
                found = sum(1 for suffix in _SUFFIXES for _ in folder.files("tmp", name, "chats", suffix=suffix))
                count, is_exact = count + found, is_exact and (name in hashes or not found)
        return FileCount(count=count, is_exact=is_exact)

    def find(
        self, home: str, environ: Mapping[str, str], directories: Sequence[str], report: Report
    ) -> Iterator[Transcript]:
        """Yield the transcripts of the directories; before 0.61 not of those below them, whose names are hashed."""
        folder = _folder(home, environ, report)
        hashes = _hashes(directories)
        found: list[Transcript] = []
        for name in folder.folders("tmp"):
            directory = hashes.get(name) or _project_root(folder, name)
            if not containing_directory(directory, directories):
                continue
            for parent in ("", *folder.folders("tmp", name, "chats")):
                for suffix in _SUFFIXES:
                    for path, status in folder.files("tmp", name, "chats", parent, suffix=suffix):
                        found.append(self._transcript(path, status, directory, directories, parent))
        yield from oldest_first(found)

    def open_file(
        self, path: str, status: os.stat_result, directories: Sequence[str], report: Report
    ) -> Iterator[Transcript]:
        """Yield the session in a file; which directory it is of, the folder tells."""
        parts = path.split("/")
        place = len(parts) - 1 - parts[::-1].index("chats") if "chats" in parts else 0
        name = parts[place - 1] if place else ""
        directory = _hashes(directories).get(name, "")
        if place > 2 and not directory:
            directory = _project_root(DataFolder("/".join(parts[: place - 2]), report), name)
        parent = parts[-2] if place and place < len(parts) - 2 else ""
        yield self._transcript(path, status, directory, directories, parent)

    def directory(self, path: str) -> str:
        """Return the working directory that the folder of a transcript is for."""
        parts = path.rsplit("/", 4)  # .gemini, tmp, the name, chats and the file
        return _project_root(DataFolder(parts[0], lambda _: None), parts[2]) if len(parts) == 5 else ""

    def turns(self, transcript: Transcript, report: Report, offset: int = 0) -> Iterator[Turn]:
        """Yield what was said from an offset on: bytes of a `.jsonl` file, messages of a `.json` file."""
        messages = _GeminiMessages(transcript.path, report)
        entries = messages.in_json(offset) if transcript.path.endswith(".json") else messages.in_lines(offset)
        return _GeminiTurns(transcript).read(entries)

    def _transcript(
        self, path: str, status: os.stat_result, directory: str, directories: Sequence[str], parent: str
    ) -> Transcript:
        head = _head(path)
        stem = os.path.basename(path).rpartition(".")[0]
        session = short_text(head.get("sessionId")) or stem
        return Transcript(
            agent=self.name,
            session=f"{parent}/{session}" if parent else session,
            path=path,
            directory=directory,
            root=containing_directory(directory, directories),
            size=status.st_size,
            modified_at=modified_at(status),
            started_at=utc_timestamp(head.get("startTime")),
            is_subagent=bool(parent) or head.get("kind") == "subagent",
        )


READER = GeminiReader()


def _folder(home: str, environ: Mapping[str, str], report: Report) -> DataFolder:
    return DataFolder(os.path.join(data_path(home, environ.get("GEMINI_CLI_HOME"), ""), ".gemini"), report)


def _hashes(directories: Sequence[str]) -> dict[str, str]:
    """Return the directories by what the folders of the data are called before 0.61."""
    return {sha256_hex(os.fsencode(directory)): directory for directory in directories}


def _project_root(folder: DataFolder, name: str) -> str:
    """Return the working directory that a folder is for, as the Gemini CLI wrote it down."""
    for path, _ in folder.files("tmp", name, suffix=".project_root"):
        try:
            with open_regular(path) as file:
                return short_text(file.read(_HEAD_BYTES).decode("utf-8", "replace").strip(), _HEAD_BYTES)
        except OSError as error:
            folder.problem(path, os_reason(error))
    return ""


def _head(path: str) -> Entry:
    """Return the fields at the start of a transcript, without reading the rest."""
    try:
        with open_regular(path) as file:
            text = file.read(_HEAD_BYTES).decode("utf-8", "replace")
    except OSError:
        return {}  # Reading reports it.
    return dict(re.findall(r'"(sessionId|startTime|kind)":\s*"([^"\\]{1,200})"', text)[::-1])


class _GeminiMessages:
    """The messages of a transcript that are part of the conversation, each with the offset behind it."""

    def __init__(self, path: str, report: Report) -> None:
        self._path = path
        self._report = report

    def in_json(self, offset: int) -> Iterator[tuple[int, Entry]]:
        """Yield the messages of a `.json` file from a number on."""
        try:
            with open_regular(self._path) as file:
                content = file.read(MAX_JSON_BYTES + 1)
        except OSError as error:
            return self._problem(os_reason(error))
        if len(content) > MAX_JSON_BYTES:
            return self._problem(f"the file is larger than {MAX_JSON_BYTES // 1024**2} MB")
        whole = parse_object(content)
        if whole is None:
            return self._problem("the file is not valid JSON")
        messages = whole.get("messages")
        for number, message in enumerate(messages if isinstance(messages, list) else (), start=1):
            if number > offset and isinstance(message, dict):
                yield number, message

    def in_lines(self, offset: int) -> Iterator[tuple[int, Entry]]:
        """Yield the messages of a `.jsonl` file, each as its last line has it."""
        live = self._live_lines(offset)
        for end, entry in JsonLines(self._path, self._report, lambda line: b'"type"' in line).read(offset):
            changes = entry.get("$set")
            replaced = changes.get("messages") if isinstance(changes, dict) else None
            for message in replaced if isinstance(replaced, list) else (entry,):
                if isinstance(message, dict) and live.get(_id(message)) == end:
                    yield end, message

    def _live_lines(self, offset: int) -> dict[str, int]:
        """Return the messages that were not taken back, by id, with the offset behind their last line."""
        live: dict[str, int] = {}
        lines = JsonLines(self._path, _ignore, lambda line: b'"id"' in line or b'"$' in line)
        for end, line in lines.lines(offset):
            head = line[:_HEAD_BYTES]
            if b'"$' not in head and line.endswith(b"\n") and (id := _ID.match(head)):
                live[id[1].decode("utf-8", "replace")] = end
                continue
            entry = parse_object(line) or {}
            changes = entry.get("$set")
            if "$rewindTo" in entry:
                _rewind(live, str(entry["$rewindTo"]))
            elif isinstance(changes, dict) and isinstance(changes.get("messages"), list):
                live = {_id(message): end for message in changes["messages"] if isinstance(message, dict)}
            elif "id" in entry:
                live[_id(entry)] = end
        return live

    def _problem(self, reason: str) -> None:
        self._report(TranscriptProblem(path=self._path, offset=0, reason=reason))


def _ignore(problem: TranscriptProblem) -> None:
    """Report nothing: the second pass does."""


def _id(message: Entry) -> str:
    return str(message.get("id"))


def _rewind(live: dict[str, int], id: str) -> None:
    """Forget a message and all behind it."""
    while id in live:
        live.popitem()


class _GeminiTurns:
    """Makes turns of messages."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._edits = PendingEdits()

    def read(self, messages: Iterator[tuple[int, Entry]]) -> Iterator[Turn]:
        """Yield the turns."""
        for offset, message in messages:
            if message.get("type") == "user" and not self._transcript.is_subagent:
                if text := person_text("\n".join(_person_parts(message))):
                    yield from self._edits.alone()
                    yield self._turn(message, offset, Speaker.PERSON, text)
            elif message.get("type") == "gemini":
                yield from self._reply(message, offset)
        yield from self._edits.alone()

    def _reply(self, message: Entry, offset: int) -> Iterator[Turn]:
        calls = message.get("toolCalls")
        failed = []
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                self._add_edit(message, call, offset)
                failed.append(_failure(call))
        if text := "\n".join(filter(None, map(text_of, _parts(message)))):
            yield self._turn(message, offset, Speaker.AGENT, text, self._edits.take())
        for number, error in enumerate(failed):
            if error:
                key = stable_key(self._transcript.session, _id(message), number)
                yield self._turn(message, offset, Speaker.TOOL, error, self._edits.take(), key)

    def _add_edit(self, message: Entry, call: Entry, offset: int) -> None:
        arguments = call.get("args")
        if call.get("name") in _EDIT_TOOLS and call.get("status") == "success" and isinstance(arguments, dict):
            directory = self._transcript.directory
            files = relative_files([arguments.get("file_path")], directory, self._transcript.root or directory)
            self._edits.add(_id(call), files, lambda: self._turn(message, offset, Speaker.AGENT, ""))

    def _turn(
        self,
        message: Entry,
        offset: int,
        speaker: Speaker,
        text: str,
        files: tuple[str, ...] = (),
        key: str = "",
    ) -> Turn:
        at = utc_timestamp(message.get("timestamp"))
        key = key or short_text(message.get("id")) or stable_key(self._transcript.session, at, text)
        return Turn(key=key, speaker=speaker, text=text, files=files, at=at, offset=offset)


def _parts(message: Entry) -> list[object]:
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    return [part.get("text") if isinstance(part, dict) else part for part in parts]


def _person_parts(message: Entry) -> list[str]:
    """Return the parts of a prompt without the contents of files that it refers to."""
    kept: list[str] = []
    is_file = False
    for part in _parts(message):
        text = part if isinstance(part, str) else ""
        is_file = is_file or text.strip() == _REFERENCED
        if not is_file:
            kept.append(text.partition(_REFERENCED)[0])
        is_file = is_file and text.strip() != _REFERENCED_END
    return kept


def _failure(call: Entry) -> str:
    """Return the command of a tool call that failed, with its error; empty if it did not fail."""
    arguments = call.get("args")
    command = arguments.get("command") if isinstance(arguments, dict) else None
    output = _output(call)
    if call.get("name") != _SHELL_TOOL or not isinstance(command, str):
        return ""
    code = _EXIT_CODE.search(output)
    if not code and call.get("status") != "error":
        return ""
    lines = [line for line in output.split("\n") if not line.startswith(_NOISE)]
    first = f"Exit code {code[1]}\n" if code else ""
    return failed_command(command, first + "\n".join(lines).replace("Output: ", "", 1))


def _output(call: Entry) -> str:
    """Return what a tool gave back."""
    results = call.get("result")
    texts = []
    for result in results if isinstance(results, list) else ():
        answer = result.get("functionResponse") if isinstance(result, dict) else None
        response = answer.get("response") if isinstance(answer, dict) else None
        if isinstance(response, dict):
            texts += [value for value in (response.get("output"), response.get("error")) if isinstance(value, str)]
    return "\n".join(texts)
