"""Edits of text files: lines under our own heading, a section of ours, and files that are ours as a whole."""

from __future__ import annotations

import json
import re
import shlex

from ralph.core.records import record
from ralph.integrations.setup.edits import JsonEdit, TomlEdit
from ralph.integrations.setup.entries import UNKNOWN_HISTORY, FileHistory, OurEntries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


@record
class LinesEdit:
    """An edit of lines under our own heading in a text file."""

    path: Path
    heading: str
    """Heading, which names the project because several may share the file."""
    lines: Sequence[str]
    description: str
    is_private: bool = False

    @property
    def is_wanted(self) -> bool:
        """Whether the file should contain any entries of ours."""
        return bool(self.lines)

    def with_entries(
        self, before: bytes | None, history: FileHistory = UNKNOWN_HISTORY, *, force: bool = False
    ) -> bytes:
        """Return the file with our lines appended."""
        lines = (before or b"").splitlines()
        block = [line.encode() for line in (self.heading, *self.lines)]
        if before and [lines[number] for number in self._our_lines(lines)] == block:
            return before
        others = self.without_entries(before or b"") or b""
        start = others if not others or others.endswith(b"\n") else others + b"\n"
        return start + b"\n".join([*block, b""])

    def without_entries(self, now: bytes, history: FileHistory = UNKNOWN_HISTORY) -> bytes | None:
        """Return the file without our lines."""
        lines = now.splitlines(keepends=True)
        ours = self._our_lines([line.rstrip(b"\r\n") for line in lines])
        kept = [line for number, line in enumerate(lines) if number not in ours]
        return None if history.original is None and not kept else b"".join(kept)

    def find_entries(self, now: bytes) -> OurEntries:
        """Return our entries in the file."""
        return OurEntries(has_other=bool(self._our_lines(now.splitlines())))

    def has_foreign_server(self, now: bytes, history: FileHistory) -> bool:
        """Return False: such a file has no servers."""
        return False

    def foreign_entries(self, now: bytes, history: FileHistory) -> Iterator[tuple[str, str]]:
        """Return nothing: what is under our heading is ours."""
        return iter(())

    def _our_lines(self, lines: list[bytes]) -> range:
        """Return the indexes of our heading and of the lines below it."""
        if self.heading.encode() not in lines:
            return range(0)
        start = lines.index(self.heading.encode())
        end = next((at for at in range(start + 1, len(lines)) if not lines[at].startswith(b"/")), len(lines))
        return range(start, end)


SECTION_BEGIN, SECTION_END = "<!-- ralph setup: begin -->", "<!-- ralph setup: end -->"
"""Markers around our section of a Markdown file."""
_SECTION = re.compile(rf"(?ms)^{SECTION_BEGIN}\r?\n.*?^{SECTION_END}\r?\n?".encode())


@record
class SectionEdit:
    """An edit of a section of ours at the end of a Markdown file that people write."""

    path: Path
    content: str
    """The section, with a line end at its end."""
    description: str
    is_private: bool = False
    is_wanted: bool = True

    def with_entries(
        self, before: bytes | None, history: FileHistory = UNKNOWN_HISTORY, *, force: bool = False
    ) -> bytes:
        """Return the file with our section updated where it is, or appended."""
        text = before or b""
        section = f"{SECTION_BEGIN}\n{self.content}{SECTION_END}\n".encode().replace(b"\n", _newline(text))
        if found := _SECTION.search(text):
            return text[: found.start()] + section + text[found.end() :]
        return text + _gap(text) + section

    def without_entries(self, now: bytes, history: FileHistory = UNKNOWN_HISTORY) -> bytes | None:
        """Return the file without our section and the empty line before it, or None if setup created it."""
        found = _SECTION.search(now)
        if not found:
            return now
        before, after = now[: found.start()], now[found.end() :]
        original = history.original if history.is_known else None
        if original is not None and before == original + _gap(original):
            before = original
        elif re.search(rb"\n\r?\n\Z", before):
            before = before.removesuffix(_newline(before))
        if after and before and not before.endswith(b"\n"):
            before += _newline(now)
        return before + after or (None if history.original is None else b"")

    def find_entries(self, now: bytes) -> OurEntries:
        """Return our entries in the file."""
        return OurEntries(has_other=bool(_SECTION.search(now)))

    def has_foreign_server(self, now: bytes, history: FileHistory) -> bool:
        """Return False: such a file has no servers."""
        return False

    def foreign_entries(self, now: bytes, history: FileHistory) -> Iterator[tuple[str, str]]:
        """Return nothing: what is between our markers is ours."""
        return iter(())


def _newline(text: bytes) -> bytes:
    return b"\r\n" if b"\r\n" in text else b"\n"


def _gap(text: bytes) -> bytes:
    """Return what separates our section from a text before it: an empty line."""
    return _newline(text) * (2 - text.endswith(b"\n")) if text else b""


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
        self, before: bytes | None, history: FileHistory = UNKNOWN_HISTORY, *, force: bool = False
    ) -> bytes:
        """Return our content, or the existing file if a person wrote or edited it (unless `force`)."""
        return self.content if before is None or history.is_unchanged or force else before

    def without_entries(self, now: bytes, history: FileHistory = UNKNOWN_HISTORY) -> bytes | None:
        """Return the original if the file is ours, or the file unchanged if it was edited."""
        if now != self.content:
            return now
        if history.is_known:
            return history.original
        return None if self.is_private else now  # only setup writes private files

    def find_entries(self, now: bytes) -> OurEntries:
        """Return our entries in the file. A plugin has the command of its hooks in `PROGRAM`."""
        calls = re.search(r"^const PROGRAM = (\[.*\])$", now.decode("utf-8", "replace"), re.MULTILINE)
        try:
            return OurEntries(hooks=(shlex.join(json.loads(calls[1])),)) if calls else OurEntries(has_other=True)
        except (ValueError, TypeError):  # edited by hand
            return OurEntries(has_other=True)

    def has_foreign_server(self, now: bytes, history: FileHistory) -> bool:
        """Return False: such a file has no servers."""
        return False

    def foreign_entries(self, now: bytes, history: FileHistory) -> Iterator[tuple[str, str]]:
        """Yield that a person edited the file, with advice."""
        if now != self.content and not history.is_unchanged:
            yield "was edited and is left unchanged", "--force overwrites it."


Edit = JsonEdit | TomlEdit | LinesEdit | SectionEdit | FileEdit
