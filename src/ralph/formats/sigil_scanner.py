"""Scanner for sigils in an agent's answer: which are there, and which are only quoted.

Every step runs in linear time. New regular expressions must not backtrack: use possessive quantifiers and atomic
groups, and no lazy ones.
"""

from __future__ import annotations

import re

from ralph.core.text import SIGIL_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Report = Callable[..., None]
    """Function that records what was skipped, and an excerpt of it."""

MAX_MARKS = 2_000
"""Maximum number of sigils, code fences and MEMORY lines read from one answer."""
MAX_TAG_CHARACTERS = 2_000
"""Maximum length of a tag's attributes, in characters."""
MAX_FENCE_LENGTH = 9
"""Maximum length of a code fence, in characters; longer ones count as this long."""
LINE_LOOKAHEAD = 200
"""Number of characters inspected to classify a line."""
DECIDING_SIGILS = ("task-done", "task-failed", "verify-pass", "verify-fail", "hand-over", "subtask", "question")
"""Sigils that decide what happens to a task."""
LONG_SIGILS = (
    *("failure-report", "learning", "retry-suggestion", "journal", "knowledge", "verify-fail"),
    *("hand-over", "subtask", "question"),
)
"""Sigils whose text may quote another sigil."""
_SPELLINGS = {"handover": "hand-over", "sub-task": "subtask"}
FENCES = ("```", "~~~")
SIGNAL = "MEMORY"
_NAME = f"(?ai:{'|'.join(SIGIL_NAMES)})"
TAG = rf"<\s*+/?+\s*+{_NAME}[\s/>]"
MARK = re.compile(
    rf"<\s*+(?P<slash>/?+)\s*+(?P<name>{_NAME})(?=[\s/>])"
    r"|(?P<fence>```++|~~~++)"
    rf"|(?:{SIGNAL}[ \t]*+|[Mm]emory(?=:\w)):[ \t]*+(?P<kind>[A-Za-z]{{1,20}}+)[ \t]*+:"
)
# No attribute extends past the next tag: an unclosed quote must not swallow it.
_QUOTED = "|".join(
    rf"[{opening}](?>(?:[^<{closing}]++|(?!{TAG})<)*)[{closing}]"
    for opening, closing in (('"', '"'), ("'", "'"), ("“”„", "“”"), ("‘’", "‘’"))
)
# Atomic groups (?>...), because before Python 3.11.5 a possessive group with alternatives can miss a match.
_HEAD = re.compile(rf"(?>(?:[^<>=]++|=\s*+(?:{_QUOTED})|=)*)>")
_BULLET = re.compile(r"[ \t]*+(?>(?:(?:[-*+•]|\d{1,3}+[.)])[ \t]++){0,3})(?>(?:\*\*|`)?)")
_QUOTATION = re.compile(
    r"\s*+(?:>"  # blockquote
    r"|\+|-\Z"  # diff
    r"|\d++(?:\t|[→│]|\ *+\||:\s*+\Z)"  # numbered listing
    r"|(?=[^\s:]*[/.])[^\s:]++:\d++[:-])"  # grep
)
MARKUP = " \t\n*`'\""


class SigilMark:
    """Sigil, MEMORY line or code fence found in a text."""

    __slots__ = ("attributes", "body", "body_end", "end", "is_closed", "length", "name", "start")

    def __init__(self, name: str, start: int, attributes: int, body: int) -> None:
        self.name = name
        self.start = start
        self.attributes = attributes
        """Offset of the attributes."""
        self.body = body
        self.body_end = body
        self.end = body
        self.length = 0
        """Length of a fence."""
        self.is_closed = False
        """Whether the end tag of a sigil was found, or whether a fence can close a block."""

    def close(self, body_end: int, end: int) -> None:
        """Set the end of the body and of the whole mark."""
        self.body_end = body_end
        self.end = end
        self.is_closed = True


def _scan(text: str, open_tags: dict[str, list[SigilMark]]) -> Iterator[SigilMark]:
    """Yield marks ordered by their end, inner sigils first; unclosed tags stay in `open_tags`."""
    line_end = 0
    for found in MARK.finditer(text):
        start, end = found.span()
        if found.lastgroup == "name":
            name = found["name"].lower()
            name = _SPELLINGS.get(name, name)
            mark = _tag(text, found, name, open_tags.setdefault(name, []))
            if mark:
                yield mark
        elif start < line_end:
            continue
        elif found.lastgroup == "kind":
            line_end = _line_end(text, end)
            mark = SigilMark(SIGNAL, start, start, end)
            mark.close(line_end, line_end)
            yield mark
        elif _starts_line(text, start):
            line_end = _line_end(text, end)
            rest = text[end:line_end].strip()
            if "`" not in rest:
                mark = SigilMark(found["fence"][:3], start, end, end)
                mark.end = line_end
                mark.length = min(end - start, MAX_FENCE_LENGTH)
                mark.is_closed = not rest
                yield mark


def _tag(text: str, found: re.Match[str], name: str, open_tags: list[SigilMark]) -> SigilMark | None:
    """Return the sigil that a tag completes, or None after noting an open tag."""
    start, end = found.span()
    head = _HEAD.match(text, end, end + MAX_TAG_CHARACTERS)
    if head is None:
        return None
    head_end = head.end()
    if found["slash"]:
        if not open_tags:
            return None
        mark = open_tags.pop()
        mark.close(start, head_end)
        return mark
    mark = SigilMark(name, start, end, head_end)
    if text[head_end - 2] == "/":
        mark.close(head_end, head_end)
        return mark
    open_tags.append(mark)
    return None


def outermost_marks(text: str, report: Report) -> list[SigilMark]:
    """Return the marks that are not inside another one, and unclosed tags, in order."""
    open_tags: dict[str, list[SigilMark]] = {}
    marks: list[SigilMark] = []
    for mark in _scan(text, open_tags):
        while marks and marks[-1].start > mark.start:
            marks.pop()
        marks.append(mark)
        if len(marks) >= MAX_MARKS:
            report(f"more than {MAX_MARKS} sigils; the rest was not read")
            break
    for unclosed in open_tags.values():
        marks.extend(unclosed)
    return sorted(marks, key=lambda mark: mark.start)


def unquoted_marks(text: str, report: Report) -> Iterator[SigilMark]:
    """Yield the sigils and MEMORY lines that are not quotations."""
    marks = outermost_marks(text, report)
    blocks = _Blocks(text, marks)
    line = _Line(text)
    skip_until = block_end = 0
    is_after_unclosed = False
    for index, mark in enumerate(marks):
        if mark.start < skip_until:
            if mark.start < block_end and mark.name in DECIDING_SIGILS:
                report("quoted in a code block", text[mark.start : mark.end])
            continue
        line.go_to(mark.start)
        if mark.name in FENCES:
            skip_until = block_end = blocks.quoted_until(index)
        elif mark.name == SIGNAL:
            if _BULLET.fullmatch(text, line.start, mark.start):
                skip_until = mark.end
                yield mark
        elif not mark.is_closed:
            report("never closed", f"<{mark.name}>")
            is_after_unclosed |= mark.name in LONG_SIGILS and not line.is_quotation and not line.is_in_code
        else:
            skip_until = mark.end
            is_doubtful = mark.name in DECIDING_SIGILS and (line.is_in_code or is_after_unclosed)
            if line.is_quotation:
                report("quoted", text[mark.start : mark.end])
            elif is_doubtful and not line.holds_only(mark):
                report("not on a line of its own", text[mark.start : mark.end])
            else:
                yield mark
        line.skip_to(skip_until)


class _Line:
    """Line up to an offset in the text; offsets only increase."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._backticks = 0
        self.start = 0

    def go_to(self, at: int) -> None:
        """Advance to an offset."""
        since = self._at
        self.skip_to(at)
        self._backticks += self._text.count("`", max(since, self.start), at)

    def skip_to(self, at: int) -> None:
        """Advance to an offset without counting backticks."""
        newline = self._text.rfind("\n", self._at, at)
        if newline >= 0:
            self.start = newline + 1
            self._backticks = 0
        self._at = max(self._at, at)

    @property
    def is_in_code(self) -> bool:
        """Whether the offset is inside inline code."""
        return self._backticks % 2 == 1

    @property
    def is_quotation(self) -> bool:
        """Whether the line is a blockquote, a diff or a listing."""
        return _QUOTATION.match(self._text, self.start, min(self._at, self.start + LINE_LOOKAHEAD)) is not None

    def holds_only(self, mark: SigilMark) -> bool:
        """Return whether nothing but sigils is on the line or lines of a sigil."""
        if mark.start > self.start + LINE_LOOKAHEAD:
            return False
        before = self._text[self.start : mark.start].strip(MARKUP + "-")
        after = self._text[mark.end : mark.end + LINE_LOOKAHEAD].split("\n", 1)[0].strip(MARKUP + ".")
        return not before and (not after or after.startswith("<"))


class _Blocks:
    """Code blocks of a text."""

    def __init__(self, text: str, marks: list[SigilMark]) -> None:
        self._text = text
        self._marks = marks
        self._last_end = -1
        """Index of the fence that closed the last block of sigils."""
        self._never_closed: dict[str, int] = {}
        """Fence length from which no closing fence follows, by kind; avoids repeated searches."""

    def quoted_until(self, index: int) -> int:
        """Return the end of the block that this fence opens, or 0 if there is none or it holds only sigils."""
        fence = self._marks[index]
        if index == self._last_end or fence.length >= self._never_closed.get(fence.name, MAX_FENCE_LENGTH + 1):
            return 0
        end = self._end_after_sigils(index)
        if end is not None:
            self._last_end = end
            return 0
        for other in range(index + 1, len(self._marks)):
            if _closes(fence, self._marks[other]):
                return self._marks[other].end
        self._never_closed[fence.name] = fence.length
        return 0

    def _end_after_sigils(self, index: int) -> int | None:
        fence = self._marks[index]
        at = fence.end
        for other in range(index + 1, len(self._marks)):
            mark = self._marks[other]
            if self._text[at : mark.start].strip(MARKUP + "-"):
                return None
            if _closes(fence, mark):
                return other
            if mark.name in FENCES or not mark.is_closed:
                return None
            at = max(at, mark.end)
        return None


def _closes(fence: SigilMark, mark: SigilMark) -> bool:
    return mark.name == fence.name and mark.is_closed and mark.length >= fence.length


def _starts_line(text: str, at: int) -> bool:
    """Return whether only whitespace precedes an offset on its line."""
    newline = text.rfind("\n", max(0, at - LINE_LOOKAHEAD), at)
    return (newline >= 0 or at <= LINE_LOOKAHEAD) and not text[newline + 1 : at].strip()


def _line_end(text: str, at: int) -> int:
    newline = text.find("\n", at)
    return len(text) if newline < 0 else newline
