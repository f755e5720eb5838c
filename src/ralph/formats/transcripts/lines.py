"""Streaming of JSON lines that another program may be writing, in bounded memory."""

from __future__ import annotations

import json
import os
import stat

from ralph.formats.transcripts.base import Report, TranscriptProblem, os_reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, BinaryIO

    Entry = dict[str, Any]

MAX_LINE_BYTES = 8 * 1024 * 1024
"""Length above which a line is skipped, in bytes."""
MAX_LINE_COMMAS = 500_000
"""Number of commas above which a line is skipped: parsed, it would take many times its length in memory."""
MAX_REPORTED_LINES = 20
"""Number of lines of a file that are reported one by one; the others are only counted."""
MAX_BACKWARD_BYTES = 4 * 1024 * 1024
"""Number of bytes before an offset that are searched for what a later line refers to."""
_BUFFER_BYTES = 1024 * 1024
_SKIPPED_BYTES = 256 * 1024
"""Size of the pieces in which a long line is skipped."""
_decode = json.JSONDecoder(strict=False).raw_decode


def parse_object(line: bytes) -> Entry | None:
    """Return the JSON object in a line, or None; bytes that are not UTF-8 are replaced."""
    text = line.decode("utf-8", "replace").strip()
    try:
        entry, end = _decode(text)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) and end == len(text) else None


class JsonLines:
    """The lines of a file from an offset on that a test of their bytes selects, parsed."""

    def __init__(self, path: str, report: Report, is_wanted: Callable[[bytes], bool]) -> None:
        self.path = path
        self._report = report
        self._is_wanted = is_wanted
        self._skipped = 0

    def read(self, offset: int = 0, limit: int = 0) -> Iterator[tuple[int, Entry]]:
        """Yield entries, each with the offset behind it, from the first `limit` bytes or the whole file."""
        for end, line in self.lines(offset, limit):
            if (entry := parse_object(line)) is not None:
                yield end, entry
            elif line.endswith(b"\n"):
                self._skip(end - len(line), "the line is not valid JSON")
        self._report_more()

    def lines(self, offset: int = 0, limit: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield the wanted lines, each with the offset behind it; the last one may be half-written."""
        try:
            with open_regular(self.path) as file:
                yield from self._lines(file, _line_start(file, offset), limit)
        except OSError as error:
            self._report(TranscriptProblem(path=self.path, offset=offset, reason=os_reason(error)))

    def find_before(self, offset: int, *needles: bytes) -> Entry | None:
        """Return the last entry before an offset whose line contains all needles, not far away."""
        try:
            with open_regular(self.path) as file:
                start = max(0, offset - MAX_BACKWARD_BYTES)
                file.seek(start)
                lines = file.read(offset - start).split(b"\n")
        except OSError:
            return None
        found = (line for line in reversed(lines) if all(needle in line for needle in needles))
        return next(filter(None, map(parse_object, found)), None)

    def _lines(self, file: BinaryIO, position: int, limit: int) -> Iterator[tuple[int, bytes]]:
        file.seek(position)
        while (not limit or position < limit) and (line := file.readline(MAX_LINE_BYTES)):
            start = position
            position += len(line)
            is_complete = line.endswith(b"\n")
            if not is_complete and len(line) == MAX_LINE_BYTES:
                position += _skip_line(file)
                self._skip(start, f"the line is longer than {MAX_LINE_BYTES // 1024**2} MB")
            elif is_complete and not (line.startswith(b"{") and line[-4:].rstrip().endswith(b"}")):
                if not line.isspace():
                    self._skip(start, "the line is not JSON")
            elif self._is_wanted(line):
                if len(line) > MAX_LINE_COMMAS and line.count(b",") > MAX_LINE_COMMAS:
                    self._skip(start, "the line has too many values")
                else:
                    yield position, line

    def _report_more(self) -> None:
        if self._skipped > MAX_REPORTED_LINES:
            reason = f"{self._skipped - MAX_REPORTED_LINES} more lines are skipped"
            self._report(TranscriptProblem(path=self.path, offset=0, reason=reason))

    def _skip(self, offset: int, reason: str) -> None:
        self._skipped += 1
        if self._skipped <= MAX_REPORTED_LINES:
            self._report(TranscriptProblem(path=self.path, offset=offset, reason=reason))


def open_regular(path: str) -> BinaryIO:
    """Open a regular file for reading; opening a pipe would block, and a link may lead anywhere."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(0, "is not a regular file")
    return open(handle, "rb", buffering=_BUFFER_BYTES)  # noqa: PTH123


def _line_start(file: BinaryIO, offset: int) -> int:
    """Return the offset if a line starts there; 0 if the file has been replaced by another one."""
    if offset <= 0:
        return 0
    file.seek(offset - 1)
    around = file.read(2)
    return offset if b"\n" in around or len(around) == 1 else 0


def next_line(path: str, offset: int) -> int:
    """Return where the first line behind an offset starts; the end of the file if there is none."""
    try:
        with open_regular(path) as file:
            file.seek(offset)
            return offset + _skip_line(file)
    except OSError:  # Reading reports it.
        return offset


def _skip_line(file: BinaryIO) -> int:
    """Read to the end of a line and return its length; in pieces, since `readline` is slow on long lines."""
    length = 0
    while part := file.read(_SKIPPED_BYTES):
        end = part.find(b"\n") + 1
        if end:
            file.seek(end - len(part), os.SEEK_CUR)
            return length + end
        length += len(part)
    return length
