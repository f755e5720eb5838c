"""The little of markdown that several readers have to know: where code is."""

from __future__ import annotations

import re

from ralph.text import compiled

_FENCE = r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(`{3,}+(?=[^`]*$)|~{3,}+)"


def fence_in(row: str) -> re.Match[str] | None:
    """Find the start of a code block, also as an item of a list: group 1 is its mark."""
    return compiled(_FENCE).match(row)


def without_code(rows: list[str]) -> tuple[list[str], list[int]]:
    """Give the rows with code blocks emptied, and where code starts that never ends; that is not emptied."""
    fences = [
        (row, found[1], not text.strip().strip(found[1][0]))
        for row, text in enumerate(rows)
        if ("```" in text or "~~~" in text) and (found := fence_in(text))
    ]
    # Looked up from the end, or a page of openings without a closing would be searched through for each.
    longest = {"`": 0, "~": 0}
    closable = []
    for _, mark, is_bare in reversed(fences):
        closable.append(longest[mark[0]] >= len(mark))
        if is_bare:
            longest[mark[0]] = max(longest[mark[0]], len(mark))
    closable.reverse()
    emptied = rows.copy()
    unclosed = []
    opening = ""
    opened = 0
    for (row, mark, is_bare), can_close in zip(fences, closable, strict=True):
        if opening:
            if is_bare and mark.startswith(opening):
                emptied[opened : row + 1] = [""] * (row + 1 - opened)
                opening = ""
        elif can_close:
            opening, opened = mark, row
        else:
            unclosed.append(row)
    return emptied, unclosed


def without_code_spans(text: str) -> str:
    """Give the text with a line break for every `code` span, which ends at as many backticks as it starts with."""
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
