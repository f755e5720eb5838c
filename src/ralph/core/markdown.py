"""Markdown helpers: locating code blocks and code spans."""

from __future__ import annotations

import re

from ralph.core.text import compiled_pattern

_FENCE = r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(`{3,}+(?=[^`]*$)|~{3,}+)"


def match_fence(row: str) -> re.Match[str] | None:
    """Match the start of a code block, also in a list item; group 1 is the fence."""
    return compiled_pattern(_FENCE).match(row)


def blank_code_blocks(rows: list[str]) -> tuple[list[str], list[int]]:
    """Return the rows with code blocks blanked, and the rows of fences that are never closed."""
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
    emptied = rows.copy()
    unclosed = []
    opening = ""
    opened = 0
    for (row, fence, is_bare), can_close in zip(fences, closable, strict=True):
        if opening:
            if is_bare and fence.startswith(opening):
                emptied[opened : row + 1] = [""] * (row + 1 - opened)
                opening = ""
        elif can_close:
            opening, opened = fence, row
        else:
            unclosed.append(row)
    return emptied, unclosed


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
