"""Markdown helpers: locating code blocks and code spans."""

from __future__ import annotations

import re

from ralph.core.text import compiled_pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TAB_COLUMNS = 4
"""Width of a tab, in columns."""
NESTING_COLUMNS = 2
"""Minimum additional indentation of a nested list item, in columns; a single column is probably a typo."""
TEXT, CODE, UNCLOSED = 0, -1, -3
"""Types of a line."""

_FENCE = r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(`{3,}+(?=[^`]*$)|~{3,}+)"


def match_fence(row: str) -> re.Match[str] | None:
    """Match the start of a code block, also in a list item; group 1 is the fence."""
    return compiled_pattern(_FENCE).match(row)


def find_code_blocks(rows: Sequence[str]) -> tuple[list[range], list[int]]:
    """Return the rows of each code block, with its fences, and the rows of fences that are never closed."""
    fences = [
        (row, found[1], not text.strip().strip(found[1][0]))
        for row, text in enumerate(rows)
        if ("```" in text or "~~~" in text) and (found := match_fence(text))
    ]
    # Computed from the end: searching for each closing fence would take quadratic time.
    longest = {"`": 0, "~": 0}
    closable = []
    for _, fence, is_bare in reversed(fences):
        closable.append(longest[fence[0]] >= len(fence))
        if is_bare:
            longest[fence[0]] = max(longest[fence[0]], len(fence))
    closable.reverse()
    blocks: list[range] = []
    unclosed: list[int] = []
    opening = ""
    opened = 0
    for (row, fence, is_bare), can_close in zip(fences, closable, strict=True):
        if opening:
            if is_bare and fence.startswith(opening):
                blocks.append(range(opened, row + 1))
                opening = ""
        elif can_close:
            opening, opened = fence, row
        else:
            unclosed.append(row)
    return blocks, unclosed


def blank_code_blocks(rows: list[str]) -> tuple[list[str], list[int]]:
    """Return the rows with code blocks blanked, and the rows of fences that are never closed."""
    blocks, unclosed = find_code_blocks(rows)
    emptied = rows.copy()
    for block in blocks:
        emptied[block.start : block.stop] = [""] * len(block)
    return emptied, unclosed


def visible_rows(lines: Sequence[str]) -> Iterator[tuple[int, str, int]]:
    """Yield the number, text and type of every line outside comments: `TEXT`, `CODE` or `UNCLOSED`.

    A code block or comment that never ends is not one; the line it starts on is `UNCLOSED`, and the rest is text.
    """
    blocks, unclosed = find_code_blocks(lines)
    code = {row for block in blocks for row in block}
    open_fences = set(unclosed)
    last_comment_end = next((row for row in reversed(range(len(lines))) if "-->" in lines[row]), -1)
    is_comment = False
    for row, text in enumerate(lines):
        stripped = text.strip()
        if is_comment:
            is_comment = "-->" not in stripped
        elif row in code:
            yield row + 1, text, CODE
        elif stripped.startswith("<!--") and row <= last_comment_end:
            is_comment = "-->" not in stripped
            if not is_comment and (rest := stripped.partition("-->")[2].strip()):
                yield row + 1, rest, TEXT
        else:
            is_unclosed = stripped.startswith("<!--") or row in open_fences
            yield row + 1, text, UNCLOSED if is_unclosed else TEXT


def indentation(row: str) -> int:
    """Return the indentation of a row, in columns."""
    space = row[: len(row) - len(row.lstrip(" \t"))]
    return len(space.expandtabs(TAB_COLUMNS)) if "\t" in space else len(space)


def strip_code_spans(text: str) -> str:
    """Return the text with a line break in place of every `code` span."""
    runs = [found.span() for found in re.finditer(r"`+", text)]
    closing: dict[int, int] = {}
    latest: dict[int, int] = {}
    for number in reversed(range(len(runs))):
        length = runs[number][1] - runs[number][0]
        if length in latest:
            closing[number] = latest[length]
        latest[length] = number
    parts, done, number = [], 0, 0
    while number < len(runs):
        if number in closing:
            parts.append(text[done : runs[number][0]])
            number = closing[number]
            done = runs[number][1]
        number += 1
    return "\n".join([*parts, text[done:]])
