"""Reader of the chat history of aider, `.aider.chat.history.md` in the root of a repository.

`# aider chat started at TIME` starts a session, `#### ` every line of a prompt, `> ` what aider tells, which ends with
two spaces; the rest behind a prompt is the model's reply. The file is read from its start, because a turn means
something only in its session; one that ends behind the offset is yielded. Dropped: what aider tells, except which
files it edited; edit blocks; and commands to aider itself, as `/ask WHY`, since the prompt in them is repeated.
"""

# ruff: noqa: PTH118, PTH120

from __future__ import annotations

import os
from datetime import datetime
from shlex import quote

from ralph.core.git_index import tracked_files
from ralph.core.records import Speaker, Turn
from ralph.core.text import compiled_pattern
from ralph.formats.transcripts.base import (
    DataFolder,
    FileCount,
    Report,
    Transcript,
    TranscriptProblem,
    containing_directory,
    modified_at,
    oldest_first,
    os_reason,
)
from ralph.formats.transcripts.cleaning import person_text, relative_files, stable_key, text_of, utc_timestamp
from ralph.formats.transcripts.lines import open_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

FILE = ".aider.chat.history.md"
MAX_TURN_BYTES = 1024 * 1024
"""Length at which a turn is cut, in bytes."""
_START, _PROMPT, _TOLD = b"# aider chat started at ", b"####", b"> "
_TOLD_END = b"  \n"
_EDITED = b"> Applied edit to "
_EDIT_BLOCK = r"(?m)^(?:[^\n`]{1,300}\n)?(`{3,})[^\n]*\n<{5,9} SEARCH\n(?:(?!\1)[^\n]*\n)*?>{5,9} REPLACE\n\1[^\n]*$"


class AiderReader:
    """Reads the chat histories of aider."""

    name = "aider"
    title = "aider"
    is_in_project = True

    def count(self, home: str, environ: Mapping[str, str], directories: Sequence[str]) -> FileCount:
        """Return the number of chat histories."""
        return FileCount(count=sum(1 for _ in self.find(home, environ, directories, lambda _: None)))

    def find(
        self, home: str, environ: Mapping[str, str], directories: Sequence[str], report: Report
    ) -> Iterator[Transcript]:
        """Yield the chat histories in the directories themselves, where aider keeps them.

        Aider lets git ignore them. One that git tracks may be somebody else's, and is read only if a person names it.
        """
        yield from oldest_first(
            [
                transcript
                for directory in directories
                for path, status in DataFolder(directory, report).files(suffix=FILE)
                if path == os.path.join(os.path.realpath(directory), FILE) and not _is_tracked(path, report)
                for transcript in self.open_file(path, status, directories, report)
            ]
        )

    def open_file(
        self, path: str, status: os.stat_result, directories: Sequence[str], report: Report
    ) -> Iterator[Transcript]:
        """Yield the chat history in a file, which is of the directory that it is in."""
        directory = os.path.dirname(path)
        yield Transcript(
            agent=self.name,
            session=f"{self.name}-{stable_key(path)[:16]}",
            path=path,
            directory=directory,
            root=containing_directory(directory, directories),
            size=status.st_size,
            modified_at=modified_at(status),
        )

    def directory(self, path: str) -> str:
        """Return nothing: its hooks name no transcript."""
        return ""

    def turns(self, transcript: Transcript, report: Report, offset: int = 0) -> Iterator[Turn]:
        """Yield what was said in turns that end behind a byte offset."""
        if offset > _size(transcript.path):
            offset = 0  # It is another file now.
        return (turn for turn in _AiderTurns(transcript, report).read() if turn.offset > offset)


READER = AiderReader()


def _is_tracked(path: str, report: Report) -> bool:
    if not tracked_files(path):
        return False
    reason = f"git tracks it, so it may come from somebody else. To import it: ralph import {quote(path)}"
    report(TranscriptProblem(path=path, offset=0, reason=reason))
    return True


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except OSError:
        return 0


class _AiderTurns:
    """One pass over a chat history."""

    def __init__(self, transcript: Transcript, report: Report) -> None:
        self._transcript = transcript
        self._report = report
        self._speaker = Speaker.AGENT
        self._lines: list[bytes] = []
        self._length = 0
        self._edited: list[str] = []
        self._is_told = self._is_blank = self._has_prompt = False
        """Whether aider told something since the turn started, the last line was blank, a person said something."""
        self._session, self._at, self._last_key = "", "", ""

    def read(self) -> Iterator[Turn]:
        """Yield the turns."""
        position = 0
        try:
            with open_regular(self._transcript.path) as file:
                while (line := file.readline(MAX_TURN_BYTES)) and (line.endswith(b"\n") or len(line) == MAX_TURN_BYTES):
                    if self._starts_turn(line):
                        yield from self._finish(position)
                    self._add(line, position)
                    position += len(line)
        except OSError as error:
            self._problem(0, os_reason(error))
            return
        if not line or self._starts_turn(line):  # otherwise the last turn is half-written
            yield from self._finish(position)

    def _starts_turn(self, line: bytes) -> bool:
        """Return whether somebody starts to speak with a line."""
        if line.startswith(_START):
            return True
        if line.startswith(_PROMPT):
            return self._speaker is not Speaker.PERSON or self._is_told or self._is_blank
        is_reply = self._has_prompt and not self._tells(line) and not line.isspace()
        return is_reply and (self._speaker is Speaker.PERSON or self._is_told)

    def _tells(self, line: bytes) -> bool:
        """Return whether aider tells a line. A quote in a reply does not end with two spaces."""
        is_reply = self._speaker is Speaker.AGENT and bool(self._lines) and not self._is_told
        return line.startswith(_TOLD) and (not is_reply or line.endswith(_TOLD_END))

    def _add(self, line: bytes, position: int) -> None:
        self._is_blank = line.isspace()
        if line.startswith(_START):
            self._session = line.decode("utf-8", "replace").strip()
            self._at, self._last_key = _local_time(self._session[len(_START) :]), ""
            self._has_prompt = False
        elif line.startswith(_PROMPT):
            self._speaker, self._has_prompt = Speaker.PERSON, True
            self._append(line[len(_PROMPT) :].removeprefix(b" "), position)
        elif self._tells(line):
            self._is_told = True
            if line.startswith(_EDITED):
                self._edited.append(line[len(_EDITED) :].decode("utf-8", "replace").strip())
        elif self._has_prompt:
            self._append(line, position)

    def _append(self, line: bytes, position: int) -> None:
        if self._length <= MAX_TURN_BYTES < self._length + len(line):
            self._problem(position, f"the rest of the turn, beyond {MAX_TURN_BYTES // 1024**2} MB, is skipped")
        self._length += len(line)
        if self._length <= MAX_TURN_BYTES:
            self._lines.append(line)

    def _finish(self, end: int) -> Iterator[Turn]:
        """Yield the turn that ends at an offset, if it is one."""
        text, speaker = b"".join(self._lines).decode("utf-8", "replace"), self._speaker
        directory = self._transcript.directory
        files = relative_files(self._edited, directory, self._transcript.root or directory)
        self._lines, self._length, self._edited = [], 0, []
        self._speaker, self._is_told = Speaker.AGENT, False
        text = _prompt(text) if speaker is Speaker.PERSON else _reply(text)
        if not text and not files:
            return
        self._last_key = stable_key(self._session, self._last_key, speaker.value, text)
        yield Turn(key=self._last_key, speaker=speaker, text=text, files=files, at=self._at, offset=end)

    def _problem(self, offset: int, reason: str) -> None:
        self._report(TranscriptProblem(path=self._transcript.path, offset=offset, reason=reason))


def _local_time(text: str) -> str:
    try:
        return utc_timestamp(datetime.fromisoformat(text).astimezone().isoformat())
    except (ValueError, OverflowError, OSError):
        return ""


def _prompt(text: str) -> str:
    """Return what a person asked for; empty if it is a command to aider, as `/add FILE`."""
    text = "\n".join(line.rstrip() for line in text.split("\n"))
    return "" if text.startswith("/") else person_text(text)


def _reply(text: str) -> str:
    """Return a reply without its edit blocks."""
    if " SEARCH\n" in text:
        text = compiled_pattern(_EDIT_BLOCK).sub("", text)
    return text_of(text)
