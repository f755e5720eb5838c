"""Excerpts of what a program printed: its first lines, its last lines, and the lines that look like errors."""

from __future__ import annotations

import re
from itertools import pairwise

HEAD_SHARE, ERROR_SHARE = 0.15, 0.5
"""Shares of an excerpt for the first lines and for errors; the last lines get the rest, and what the others leave."""
LINES_BEFORE, LINES_AFTER = 1, 4
"""Number of lines shown before and after a line that looks like an error."""
MAX_LINE_SHARE = 0.25
"""Share of an excerpt that one line may take."""
MARK_CHARACTERS = 36
"""Length of the line that stands for lines left out, in characters."""
ERROR_PATTERN = (
    r"\w*(?:Error|Exception)\b|(?i:\berror\b)(?=[\s:\[!(]|$)|\bERR!|(?i:\bfatal\b)|\bFAIL(?:ED|URE)?\b|\bpanick?(?:ed)?\b"
    r"|^Traceback|^E {2,}|\bnot ok\b|[✗✕✖✘]|^\s+at .+:\d+|undefined reference|[Ss]egmentation fault"
    r"|[Cc]ommand not found|No such file|cannot find "
)
"""What an error looks like, in a line."""
_NO_ERROR = re.compile(
    r"\b(?:0|no) (?:errors?|failures?|failed|FAIL)\b|\berrors?[:=] ?0\b|\d+%\s*$|\b100%", re.IGNORECASE
)
"""What a line without an error looks like that has the word: a count of none, or a row of a table of coverage."""
_ERROR = re.compile(ERROR_PATTERN)


def looks_like_error(line: str) -> bool:
    """Return whether a line looks like an error."""
    return _ERROR.search(line) is not None and _NO_ERROR.search(line) is None


def excerpt(text: str, length: int) -> str:
    """Return at most `length` characters of a text: its first and last lines, and those around errors in between."""
    if len(text) <= length:
        return text
    most = max(1, int(length * MAX_LINE_SHARE))
    lines = [line if len(line) <= most else f"{line[: most - 1]}…" for line in text.splitlines()]
    head = _fitting(lines, range(len(lines)), int(length * HEAD_SHARE))
    errors = _fitting(lines, _around_errors(lines, len(head)), int(length * ERROR_SHARE))
    used = sum(len(lines[index]) + 1 for index in (*head, *errors)) + MARK_CHARACTERS * (_gaps(errors) + 1)
    taken = {*head, *errors}
    rest = [index for index in reversed(range(len(lines))) if index not in taken]
    shown = taken.union(_fitting(lines, rest, length - used))
    return _join(lines, sorted(shown))[-length:]


def _around_errors(lines: list[str], start: int) -> list[int]:
    """Return the numbers of lines that look like errors, and of some next to each; each distinct error once."""
    found: dict[int, None] = {}
    seen: set[str] = set()
    for index in range(start, len(lines)):
        plain = lines[index].strip()
        if plain not in seen and looks_like_error(lines[index]):
            seen.add(plain)
            found.update(
                dict.fromkeys(range(max(start, index - LINES_BEFORE), min(len(lines), index + LINES_AFTER + 1)))
            )
    return sorted(found)


def _fitting(lines: list[str], numbers: range | list[int], length: int) -> list[int]:
    """Return the first of some line numbers whose lines fit."""
    fitting = []
    for index in numbers:
        length -= len(lines[index]) + 1
        if length < 0:
            break
        fitting.append(index)
    return fitting


def _gaps(numbers: list[int]) -> int:
    return sum(later - earlier > 1 for earlier, later in pairwise(numbers)) + 1


def _join(lines: list[str], numbers: list[int]) -> str:
    """Return some lines, with a line for those left out in between."""
    parts: list[str] = []
    before = -1
    for index in numbers:
        if left := index - before - 1:
            parts.append(f"[... {left:,} {'line' if left == 1 else 'lines'} left out ...]")
        parts.append(lines[index])
        before = index
    return "\n".join(parts)
