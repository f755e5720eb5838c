"""Reader of the transcripts of Claude Code, from 1.0 on.

`projects/SLUG/SESSION.jsonl` in its folder, one block of a message per line; subagents are in
`SLUG/SESSION/subagents/agent-ID.jsonl`, before 2.1.30 in `SLUG/agent-ID.jsonl` or between the lines of their parent. Of
a subagent only what it said itself and what failed is read; inline ones are dropped, because their parent reports what
came of them. Also dropped: thinking, tool results, summaries of compactions, and what `cleaning` knows as machine
text.
"""

# ruff: noqa: PTH119, PTH120

from __future__ import annotations

import os
import re

from ralph.core.records import Speaker, Turn, record, replace
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
    MAX_COMMAND_CHARACTERS,
    failed_command,
    person_text,
    relative_files,
    short_text,
    stable_key,
    text_of,
    utc_timestamp,
)
from ralph.formats.transcripts.edits import PendingEdits
from ralph.formats.transcripts.lines import JsonLines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ralph.formats.transcripts.lines import Entry

MAX_SLUG = 200
"""Length to which the name of a folder is shortened, in characters."""
MAX_HEAD_BYTES = 32 * 1024 * 1024
"""Number of bytes in which a transcript has to name its working directory."""
_SUBAGENT = "agent-"
_EDIT_PATHS = {"Edit": "file_path", "Write": "file_path", "MultiEdit": "file_path", "NotebookEdit": "notebook_path"}
"""Tools that change files, with the argument that names the file."""
_HARNESS_ERROR = "<tool_use_error>"
"""Start of what Claude Code itself says about a wrong use of a tool."""
_REJECTION = "The user doesn't want to proceed with this tool use."
_REJECTION_REASON = "the user said:\n"
_REJECTION_NOTE = "\n\nNote: The user's next message"
_FILE_TOOLS = (*_EDIT_PATHS, "Read", "Glob", "Grep", "LS", "NotebookRead")
"""Tools whose failures tell nothing about the project, such as a path that the agent guessed."""
_HEAD_BYTES = 40
"""Number of bytes at the start of a line that show how it is written."""
MAX_PENDING_CALLS = 200
"""Number of tool calls that are remembered until their result."""


@record
class _Marks:
    """What tells lines apart before they are parsed. In a string, quotes are escaped, so these are never text."""

    assistant: bytes
    user: bytes
    text: bytes
    tool_use: bytes
    tool_result: bytes
    error: bytes
    answers: bytes


def _marks(space: str) -> _Marks:
    types = {
        name: f'"type":{space}"{name}"'.encode() for name in ("assistant", "user", "text", "tool_use", "tool_result")
    }
    return _Marks(**types, error=f'"is_error":{space}true'.encode(), answers=f'"answers":{space}{{'.encode())


_COMPACT, _SPACED = _marks(""), _marks(" ")
"""As JavaScript writes JSON, and as Python does."""


def _is_wanted(line: bytes) -> bool:
    """Return whether a line can contain a turn; most bytes of a transcript are in lines that cannot."""
    marks = _SPACED if line.find(b'": ', 0, _HEAD_BYTES) > 0 else _COMPACT
    if marks.user in line:
        if marks.tool_result not in line:
            return True
        return marks.error in line or marks.answers in line or marks.text in line
    return marks.assistant in line and (marks.text in line or marks.tool_use in line)


class ClaudeReader:
    """Reads the transcripts of Claude Code."""

    name = "claude"
    title = "Claude Code"
    is_in_project = False

    def count(self, home: str, environ: Mapping[str, str], directories: Sequence[str]) -> FileCount:
        """Return the number of sessions by the names of folders."""
        folder = DataFolder(data_path(home, environ.get("CLAUDE_CONFIG_DIR"), ".claude"), lambda _: None)
        slugs = {_slug_prefix(directory) for directory in directories}
        found = (slug for slug in folder.folders("projects") if slug in slugs)
        return FileCount(count=sum(1 for slug in found for _ in folder.files("projects", slug, suffix=".jsonl")))

    def find(
        self, home: str, environ: Mapping[str, str], directories: Sequence[str], report: Report
    ) -> Iterator[Transcript]:
        """Yield the transcripts of the directories, subagents after their parents."""
        folder = DataFolder(data_path(home, environ.get("CLAUDE_CONFIG_DIR"), ".claude"), report)
        slugs = tuple(_slug_prefix(directory) for directory in directories)
        found = []
        for slug in folder.folders("projects"):
            if slug.startswith(slugs):
                found += list(self._in_slug(folder, slug, directories))
        yield from oldest_first([one for one in found if not one.is_subagent])
        yield from oldest_first([one for one in found if one.is_subagent])

    def directory(self, path: str) -> str:
        """Return the working directory in which a session started."""
        return short_text(_head(path, lambda _: None).get("cwd"), 4_096)

    def turns(self, transcript: Transcript, report: Report, offset: int = 0) -> Iterator[Turn]:
        """Yield what was said from a byte offset on."""
        return _ClaudeTurns(transcript, report, offset).read()

    def _in_slug(self, folder: DataFolder, slug: str, directories: Sequence[str]) -> Iterator[Transcript]:
        files = list(folder.files("projects", slug, suffix=".jsonl"))
        for session in folder.folders("projects", slug):
            files += folder.files("projects", slug, session, "subagents", suffix=".jsonl")
        for path, status in files:
            yield from (one for one in self.open_file(path, status, directories, folder.report) if one.root)

    def open_file(
        self, path: str, status: os.stat_result, directories: Sequence[str], report: Report
    ) -> Iterator[Transcript]:
        """Yield the session in a file, if it names its working directory."""
        head = _head(path, report)
        if not (directory := short_text(head.get("cwd"), 4_096)):
            return
        folder, name = os.path.split(path)
        stem = name.removesuffix(".jsonl")
        parent = os.path.basename(os.path.dirname(folder)) if os.path.basename(folder) == "subagents" else ""
        is_subagent = bool(parent) or stem.startswith(_SUBAGENT)
        if is_subagent:
            parent = parent or short_text(head.get("sessionId"))
        yield Transcript(
            agent=self.name,
            session=f"{parent}/{stem}" if is_subagent else stem,
            path=path,
            directory=directory,
            root=containing_directory(directory, directories),
            size=status.st_size,
            modified_at=modified_at(status),
            started_at=utc_timestamp(head.get("timestamp")),
            is_subagent=is_subagent,
        )


READER = ClaudeReader()


def _slug_prefix(directory: str) -> str:
    """Return how the folder of a directory, and of those below it, starts.

    How other than ASCII characters are replaced depends on their normal form, so the prefix ends before them.
    """
    ascii_part = re.match(r"[\x00-\x7f]*", directory)
    return re.sub(r"[^A-Za-z0-9]", "-", ascii_part[0] if ascii_part else "")[:MAX_SLUG]


def _head(path: str, report: Report) -> Entry:
    """Return the first record that names a working directory, with the first time in the file; {} if there is none.

    A fork copies records with their times, but starts with a record of its own.
    """
    lines = JsonLines(path, report, lambda line: b'"cwd"' in line or b'"timestamp"' in line)
    first = ""
    for _, entry in lines.read(limit=MAX_HEAD_BYTES):
        first = first or utc_timestamp(entry.get("timestamp"))
        if short_text(entry.get("cwd"), 4_096):
            return {**entry, "timestamp": first}
    return {}


class _ClaudeTurns:
    """One pass over a transcript, with what later lines refer to."""

    def __init__(self, transcript: Transcript, report: Report, offset: int) -> None:
        self._transcript = transcript
        self._offset = offset
        self._lines = JsonLines(transcript.path, report, _is_wanted)
        self._calls: dict[str, tuple[str, str]] = {}
        """Name and command of the latest tool calls, by id."""
        self._edits = PendingEdits()
        self._held: list[Turn] = []
        """Prompts of 1.x: their key depends on the reply."""

    def read(self) -> Iterator[Turn]:
        """Yield the turns."""
        for offset, entry in self._lines.read(self._offset):
            if entry.get("isSidechain") and not self._transcript.is_subagent:
                continue
            if entry.get("type") == "assistant":
                yield from self._assistant(entry, offset)
            elif entry.get("type") == "user":
                yield from self._user(entry, offset)
        yield from self._release("")
        yield from self._edits.alone()

    # --- what the agent said ---------------------------------------------------------

    def _assistant(self, entry: Entry, offset: int) -> Iterator[Turn]:
        message = entry.get("message")
        if not isinstance(message, dict) or entry.get("isApiErrorMessage") or message.get("model") == "<synthetic>":
            return
        if self._held:
            yield from self._release(short_text(message.get("id")))
        texts = []
        for block in _blocks(message):
            if block.get("type") == "text":
                texts.append(text_of(block.get("text")))
            elif block.get("type") == "tool_use":
                texts.append(self._call(entry, block, offset))
        if text := "\n\n".join(filter(None, texts)):
            yield self._turn(entry, offset, Speaker.AGENT, text, self._edits.take())

    def _call(self, entry: Entry, block: Entry, offset: int) -> str:
        """Note a tool call; return the plan that the agent proposes with it, if it does."""
        id, name, command, arguments = *_called(block), block.get("input")
        self._calls[id] = name, command
        if len(self._calls) > MAX_PENDING_CALLS:
            del self._calls[next(iter(self._calls))]
        if not isinstance(arguments, dict):
            return ""
        if path := arguments.get(_EDIT_PATHS.get(name, "")):
            files = relative_files([path], short_text(entry.get("cwd"), 4_096), self._root)
            self._edits.add(id, files, lambda: self._turn(entry, offset, Speaker.AGENT, "", ()))
        return text_of(arguments.get("plan")) if name == "ExitPlanMode" else ""

    # --- what people said, and what failed -------------------------------------------

    def _user(self, entry: Entry, offset: int) -> Iterator[Turn]:
        message = entry.get("message")
        if not isinstance(message, dict) or _is_machine(entry):
            return
        said, failed = [], []
        for block in _blocks(message):
            if block.get("type") == "text" and not self._transcript.is_subagent:
                said.append(person_text(block.get("text")))
            elif block.get("type") == "tool_result":
                reply, error = self._result(block, entry.get("toolUseResult"))
                said.append(reply)
                failed += [error] if error else []
        for number, error in enumerate(failed):
            yield from self._release("")
            yield self._turn(entry, offset, Speaker.TOOL, error, self._edits.take(), number)
        if text := "\n\n".join(filter(None, said)):
            yield from self._prompt(entry, self._turn(entry, offset, Speaker.PERSON, text, (), len(failed)))

    def _prompt(self, entry: Entry, turn: Turn) -> Iterator[Turn]:
        yield from (*self._release(""), *self._edits.alone())
        if _is_old(entry):
            self._held.append(turn)
        else:
            yield turn

    def _result(self, block: Entry, raw: object) -> tuple[str, str]:
        """Return what a person answered to a tool call, and what failed in it; mostly neither."""
        id, output = short_text(block.get("tool_use_id")), _result_text(block.get("content"))
        if not block.get("is_error"):
            answers = raw.get("answers") if isinstance(raw, dict) else None
            pairs = answers.items() if isinstance(answers, dict) else ()
            return "\n".join(f"{text_of(question)} {text_of(answer)}" for question, answer in pairs), ""
        self._edits.drop(id)
        if output.startswith(_REJECTION):
            return text_of(output.partition(_REJECTION_REASON)[2].partition(_REJECTION_NOTE)[0]), ""
        name, command = self._calls.get(id) or self._earlier_call(id)
        if output.startswith(_HARNESS_ERROR) or name in _FILE_TOOLS:
            return "", ""
        return "", failed_command(command, output)

    def _earlier_call(self, id: str) -> tuple[str, str]:
        """Return name and command of a tool call before the offset."""
        entry = self._lines.find_before(self._offset, b'"tool_use"', f'"{id}"'.encode()) if id else None
        message = entry.get("message") if entry else None
        called = map(_called, _blocks(message) if isinstance(message, dict) else ())
        return next(((name, command) for call, name, command in called if call == id), ("", ""))

    # --- turns -----------------------------------------------------------------------

    @property
    def _root(self) -> str:
        return self._transcript.root or self._transcript.directory

    def _turn(
        self, entry: Entry, offset: int, speaker: Speaker, text: str, files: tuple[str, ...], number: int = 0
    ) -> Turn:
        at = utc_timestamp(entry.get("timestamp"))
        key = short_text(entry.get("uuid")) or stable_key(self._transcript.session, at, text)
        if speaker is not Speaker.PERSON and _is_old(entry):
            message = entry["message"]
            ids = [block.get("tool_use_id") or block.get("id") for block in _blocks(message)]
            key = stable_key(message.get("id"), ids, text)
        return Turn(
            key=f"{key}:{number}" if number else key,
            speaker=speaker,
            text=text,
            files=files,
            branch=short_text(entry.get("gitBranch")),
            at=at,
            offset=offset,
        )

    def _release(self, reply: str) -> Iterator[Turn]:
        """Yield the prompts of 1.x that a reply answers.

        A resumed session got new ids for them. Texts alone would not do: many sessions start with the same words.
        """
        for turn in self._held:
            yield replace(turn, key=stable_key(reply, turn.text)) if reply else turn
        self._held.clear()


def _is_machine(entry: Entry) -> bool:
    """Return whether a record under a person's role is marked as one that no person wrote."""
    return (
        bool(entry.get("isMeta") or entry.get("isCompactSummary") or entry.get("isVisibleInTranscriptOnly"))
        or entry.get("promptSource") == "system"
    )


def _is_old(entry: Entry) -> bool:
    """Return whether Claude Code 1.x or older wrote a record: resuming a session gave its records new ids."""
    return str(entry.get("version", "")).startswith(("0.", "1."))


def _blocks(message: Entry) -> Iterable[Entry]:
    content = message.get("content")
    if isinstance(content, str):
        return ({"type": "text", "text": content},)
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else ()


def _called(block: Entry) -> tuple[str, str, str]:
    """Return id, name and command of a tool call."""
    name, arguments = short_text(block.get("name")), block.get("input")
    values = arguments if isinstance(arguments, dict) else {}
    command = values.get("command")
    if not isinstance(command, str):
        command = " ".join([name, *(value for value in values.values() if isinstance(value, str))])
    return short_text(block.get("id")), name, command[: 2 * MAX_COMMAND_CHARACTERS]


def _result_text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(text_of(part.get("text")) for part in parts if isinstance(part, dict))
