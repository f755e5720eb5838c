"""Sections, list items and rows of free-form Markdown."""

from __future__ import annotations

import re

from ralph.core.markdown import CODE, NESTING_COLUMNS, TEXT, indentation, visible_rows
from ralph.formats.planned import unify_newlines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Row = tuple[int, str, int]
    """Line number, text, and type: `TEXT`, `CODE`, `RULE` or the level of a heading."""

RULE = -2
"""Type of a horizontal rule."""
MAX_HEADING_CHARS = 400
"""Maximum length of a heading, in characters; the rest is cut."""

_HEADING = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)")
_BULLET = re.compile(r"[ \t]*(?:[-*+•]|\d{1,9}[.)])(?:[ \t]+|$)")
_FIELD = re.compile(r"[\w-]+[ \t]*:")
_NUMBERING = re.compile(r"^\d{1,4}(?:\.\d{1,4}){0,5}[.)]?[ \t]+(?=\D)")
_LINK = re.compile(r"\[([^\[\]]{1,200})\]\([^()\s]{0,500}\)")
_EMOJI = re.compile(r"^[^\w`(\[<.$/@\"'~-]+")


# --- sections --------------------------------------------------------------------


class NotesSection:
    """A heading and the rows directly below it; the first section of a file has no heading."""

    __slots__ = ("heading", "level", "line", "parent_headings", "rows")

    def __init__(self, line: int, level: int, heading: str, parent_headings: tuple[str, ...]) -> None:
        self.line = line
        self.level = level
        self.heading = heading
        self.parent_headings = parent_headings
        """Parent headings, outermost first."""
        self.rows: list[Row] = []

    def text(self) -> str:
        """Return the rows as text, without rules and blank lines around it."""
        rows = self.rows
        first, last = 0, len(rows)
        while first < last and (rows[first][2] == RULE or not rows[first][1].strip()):
            first += 1
        while last > first and (rows[last - 1][2] == RULE or not rows[last - 1][1].strip()):
            last -= 1
        return "\n".join(text.rstrip() for _, text, _ in rows[first:last])


def parse_sections(text: str) -> list[NotesSection]:
    """Return the sections in order; the first is the text before any heading."""
    sections = [NotesSection(1, 0, "", ())]
    path: list[NotesSection] = []
    for line, row, level in parse_rows(text):
        if level <= 0:
            sections[-1].rows.append((line, row, level))
            continue
        while path and path[-1].level >= level:
            path.pop()
        section = NotesSection(
            line, level, heading_text(row), tuple(parent.heading for parent in path if parent.heading)
        )
        path.append(section)
        sections.append(section)
    return sections


def heading_text(row: str) -> str:
    """Return the text of a heading without markup, numbering, links and emoji."""
    text = row.strip()[: MAX_HEADING_CHARS * 2].lstrip("#").strip()
    if (closed := text.rstrip("#")) != text and (not closed or closed[-1] in " \t"):
        text = closed.strip()
    text = _LINK.sub(r"\1", text).replace("**", "")
    if len(text) > 2 and text[0] in "*_" and text[-1] == text[0]:
        text = text.strip(text[0])
    text = _EMOJI.sub("", text)
    return " ".join(_NUMBERING.sub("", text, count=1).split())[:MAX_HEADING_CHARS]


# --- items -----------------------------------------------------------------------


class NotesItem:
    """A bullet or paragraph with its continuation rows; a nested bullet is an item of its own."""

    __slots__ = ("after_blank", "indent", "is_bullet", "is_rule", "line", "rows")

    def __init__(self, line: int, row: str, is_bullet: bool, after_blank: bool) -> None:
        self.line = line
        self.indent = indentation(row)
        self.is_bullet = is_bullet
        self.is_rule = False
        self.after_blank = after_blank
        self.rows = [row]

    def text(self) -> str:
        """Return the text without bullet and indentation."""
        return item_text([self])


def parse_items(rows: Iterable[Row]) -> Iterator[NotesItem]:
    """Yield the bullets, paragraphs and rules of a section."""
    item: NotesItem | None = None
    after_blank = False
    for line, row, level in rows:
        if level == RULE:
            if item:
                yield item
            rule = NotesItem(line, row, False, after_blank)
            rule.is_rule = True
            yield rule
            item, after_blank = None, True
            continue
        if level != CODE and not row.strip():
            after_blank = True
            continue
        is_bullet = level != CODE and bool(_BULLET.match(row))
        is_outside = indentation(row) <= (item.indent if item else 0)
        # Bold text that is not indented starts a new item after a list, even without a blank line.
        is_next = is_outside and (
            after_blank or (item is not None and item.is_bullet and row.lstrip().startswith("**"))
        )
        if item and not is_bullet and not is_next:
            item.rows += ["", row] if after_blank else [row]
        else:
            if item:
                yield item
            item = NotesItem(line, row, is_bullet, after_blank)
        after_blank = False
    if item:
        yield item


def item_text(items: list[NotesItem]) -> str:
    """Return the text of an item and the items nested in it, with wrapped lines joined and less indentation."""
    first = items[0]
    head = first.rows[0]
    found = _BULLET.match(head) if first.is_bullet else None
    words = [head[found.end() :].strip() if found else head.strip()]
    is_code = words[0].startswith(("```", "~~~"))
    while not is_code and len(words) < len(first.rows) and is_continuation(first.rows[len(words)]):
        words.append(first.rows[len(words)].strip())
    margin = first.indent + (NESTING_COLUMNS if found else 0)
    rows = [*first.rows[len(words) :], *(row for item in items[1:] for row in item.rows)]
    return "\n".join([" ".join(words), *(_outdent(row, margin) for row in rows)]).strip()


def is_continuation(row: str) -> bool:
    """Return whether a row continues the text of the row above, rather than being code, a table or a quote."""
    is_block = row.lstrip()[:1] in ("|", ">", "<") or row.lstrip()[:3] in ("```", "~~~") or bool(_BULLET.match(row))
    return bool(row.strip()) and not is_block and not row.endswith("  ")


def _outdent(row: str, columns: int) -> str:
    space = indentation(row)
    return (" " * max(0, space - columns) + row.lstrip(" \t")).rstrip()


# --- rows ------------------------------------------------------------------------


def parse_rows(text: str) -> Iterator[Row]:
    """Yield every line except front matter and comments, with its type."""
    lines = unify_newlines(text).split("\n")
    skipped = _front_matter_length(lines)
    lines[:skipped] = [""] * skipped
    underline = 0
    for number, row, kind in visible_rows(lines):
        if number <= skipped or number == underline:
            continue
        if kind == CODE:
            yield number, row, CODE
        elif row.strip() and number < len(lines) and _is_underline(lines[number]) and not _BULLET.match(row):
            underline = number + 1
            yield number, row, 1
        else:
            yield number, row, row_type(row)


def row_type(row: str) -> int:
    """Return the level of a heading, `RULE` or `TEXT`."""
    if not row.lstrip().startswith(("#", "-", "*", "_")):
        return TEXT
    if found := _HEADING.match(row):
        return len(found[1])
    marks = row.replace(" ", "").strip()
    is_rule = len(marks) > 2 and marks[0] in "-*_" and not marks.strip(marks[0])
    return RULE if is_rule else TEXT


def _is_underline(row: str) -> bool:
    marks = row.strip()
    return len(marks) > 2 and not marks.strip("=")


def _front_matter_length(lines: list[str]) -> int:
    """Return the number of lines of front matter, including its delimiters."""
    if lines[0].rstrip() != "---" or len(lines) < 2 or not _FIELD.match(lines[1]):
        return 0
    return next((number + 1 for number in range(1, len(lines)) if lines[number].rstrip() in ("---", "...")), 0)
