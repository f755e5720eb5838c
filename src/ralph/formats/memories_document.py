"""Parser of `memories.md`: its entries, sections and git conflicts, with the lines they are on."""

from __future__ import annotations

import re
from itertools import pairwise

from ralph.core.markdown import blank_code_blocks
from ralph.core.memory_types import MEMORY_TYPES
from ralph.core.records import record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.formats.planned import ReadProblem

    Span = tuple[int, int]
    """The first row, and the row after the last."""
    Metadata = tuple[tuple[str, ...], str, list[str]]
    """Tags, date and unknown parts."""

SECTION_HEADINGS = {
    one.name: one.heading for one in sorted(MEMORY_TYPES.values(), key=lambda one: one.file_section) if one.file_section
}
"""Headings of the sections, by memory type."""
DEFAULT_KIND = "pattern"
"""Type of entries before the first section."""
BYTE_ORDER_MARK = "\ufeff"

KIND_BY_HEADING = {name.lower(): kind for kind, name in SECTION_HEADINGS.items()}
DATE = re.compile(r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])(?![0-9])")
_HEADING = re.compile(r"(#{1,3})(?:[ \t]+(.*))?$")
_ENTRY = re.compile(r"###[ \t]+(mem-[\w-]++)(?!\S)")
_PLAIN_COMMENT = re.compile(rf"<!-- tags: ([^|>]*) \| created: ({DATE.pattern}) -->")


@record
class MarkdownEntry:
    """One memory in the file."""

    id: str
    kind: str
    body: str
    tags: tuple[str, ...] = ()
    created: str = ""
    """Date as YYYY-MM-DD, or empty if the file has none."""
    line: int = 0
    side: str = ""
    """`ours` or `theirs` inside a git conflict, otherwise empty."""


@record
class MemoriesDocument:
    """The entries and problems of a file."""

    entries: tuple[MarkdownEntry, ...]
    problems: tuple[ReadProblem, ...]
    has_conflict: bool
    ids_without_text: tuple[str, ...] = ()
    """Ids of entries without text, which must not be treated as deleted."""


def parse_document(text: str) -> MemoriesDocument:
    """Parse a file; the entries are in file order with their text unchanged, and ids may occur twice."""
    page = parse_page(text)
    return MemoriesDocument(
        entries=tuple(page.entries),
        problems=tuple(page.problems),
        has_conflict=page.has_conflict,
        ids_without_text=tuple(page.without_text),
    )


# --- from text to rows ---------------------------------------------------------------


class ParsedPage:
    """The rows of a text, and the entries and sections in them."""

    def __init__(self, rows: list[str], visible: list[str]) -> None:
        self.rows = rows
        """Lines of the file, without the newline."""
        self.visible = visible
        """Lines as they are parsed: empty for code and conflict markers."""
        self.entries: list[MarkdownEntry] = []
        self.spans: list[Span] = []
        """Span of each entry."""
        self.without_text: dict[str, tuple[Span, MarkdownEntry]] = {}
        """Entries without text, by id."""
        self.sections: dict[str, Span] = {}
        """Span of each section, from its heading to the next heading of any level."""
        self.problems: list[ReadProblem] = []
        self.has_conflict = False

    def rename(self, number: int, id: str) -> None:
        """Assign another id to an entry."""
        entry, row = self.entries[number], self.spans[number][0]
        self.rows[row] = self.rows[row].replace(entry.id, id, 1)
        self.entries[number] = replace(entry, id=id)


def parse_page(text: str) -> ParsedPage:
    """Parse the text of a file."""
    rows = text.split("\n")
    visible = [row.removesuffix("\r") for row in rows] if "\r" in text else rows.copy()
    visible[0] = visible[0].removeprefix(BYTE_ORDER_MARK)
    has_code = "```" in text or "~~~" in text
    if "<<<<<<<" in text or ">>>>>>>" in text:
        sides = _sides(visible)
        if None in sides:
            return _parse_conflict(rows, visible, sides, has_code)
    return _parse_rows(rows, visible, has_code)


def _parse_rows(rows: list[str], visible: list[str], has_code: bool) -> ParsedPage:
    if has_code:
        visible, _ = blank_code_blocks(visible)
    page = ParsedPage(rows, visible)
    kind = DEFAULT_KIND
    heading_rows = [row for row, text in enumerate(visible) if text[:1] == "#" and _HEADING.match(text)]
    for span in pairwise([*heading_rows, len(rows)]):
        first, last = span
        if found := _ENTRY.match(visible[first]):
            id = found[1]
            body, tags, created = _content(visible[first + 1 : last])
            entry = MarkdownEntry(
                id=id,
                kind=kind,
                body=body,
                tags=tags,
                created=created,
                line=first + 1,
            )
            if body and not body.isspace():
                page.entries.append(entry)
                page.spans.append(span)
            else:
                page.problems.append(_problem(first, "Skipped entry {}: it has no text.", id))
                page.without_text.setdefault(id, (span, entry))
        elif visible[first].startswith("###"):
            if any(is_entry_row(text) for text in visible[first + 1 : last]):
                why = "Skipped {} and the text below it: the heading is not a memory id."
                page.problems.append(_problem(first, why, visible[first]))
        elif (section := KIND_BY_HEADING.get(visible[first].strip("# \t").lower())) and visible[first].startswith("##"):
            kind = section
            page.sections.setdefault(kind, span)
    if page.without_text:
        for entry in page.entries:
            page.without_text.pop(entry.id, None)
    return page


def _problem(row: int, why: str, excerpt: str) -> ReadProblem:
    from ralph.formats.planned import ReadProblem, quote_excerpt  # few files have problems

    return ReadProblem(line=row + 1, why=why.format(quote_excerpt(excerpt)))


def _content(rows: list[str]) -> tuple[str, tuple[str, ...], str]:
    """Return the text, tags and date in the rows of one entry."""
    quoted = []
    tags: tuple[str, ...] = ()
    created = ""
    for row in rows:
        if row[:1] == ">":
            quoted.append(row[2:] if row[1:2] == " " else row[1:])
        elif "<!--" in row and (metadata := parse_metadata(row)):
            tags, created, _ = metadata
    return "\n".join(quoted), tags, created


def parse_metadata(row: str) -> Metadata | None:
    """Parse a metadata comment; return None for any other row."""
    if plain := _PLAIN_COMMENT.fullmatch(row):  # same result as below, but faster
        return _tags(plain[1]), plain[2], []
    row = row.strip()
    if not (row.startswith("<!--") and row.endswith("-->")) or "-->" in row[:-3]:
        return None
    tags: tuple[str, ...] | None = None
    created: str | None = None
    others = []
    for part in row[4:-3].split("|"):
        name, _, value = part.partition(":")
        name = name.strip().lower()
        if name == "tags" and tags is None:
            tags = _tags(value)
        elif name == "created" and not created:
            found = DATE.match(value.strip())
            created = found[0] if found else ""
            others += [] if found else [part.strip()]
        else:
            others.append(part.strip())
    return None if tags is None and created is None else (tags or (), created or "", others)


def _tags(value: str) -> tuple[str, ...]:
    return tuple(filter(None, dict.fromkeys(map(str.strip, value.split(",")))))


def is_entry_row(row: str) -> bool:
    """Return whether a row below the heading of an entry is part of it, rather than a note by a person."""
    return row[:1] == ">" or ("<!--" in row and parse_metadata(row) is not None)


# --- git conflicts -------------------------------------------------------------------


def _marker(row: str) -> str:
    """Return the conflict marker of a row, or an empty string."""
    mark = row[:7]
    return mark if mark in ("<<<<<<<", "|||||||", "=======", ">>>>>>>") and row[7:8] in ("", " ") else ""


def _sides(rows: list[str]) -> list[str | None]:
    """Return the side of each row: empty for both, None for markers and the common base."""
    sides: list[str | None] = [""] * len(rows)
    opened = base = middle = -1
    for row, text in enumerate(rows):
        mark = _marker(text)
        if mark == "<<<<<<<":
            sides[row] = None
            opened, base, middle = row, -1, -1
        elif mark == "|||||||" and opened >= 0 > middle and base < 0:
            base = row
        elif mark == "=======" and opened >= 0 > middle:
            middle = row
        elif mark == ">>>>>>>":
            sides[row] = None
            if middle >= 0:
                ours_end = base if base >= 0 else middle
                sides[opened + 1 : ours_end] = ["ours"] * (ours_end - opened - 1)
                sides[ours_end : middle + 1] = [None] * (middle + 1 - ours_end)
                sides[middle + 1 : row] = ["theirs"] * (row - middle - 1)
            opened = base = middle = -1
    return sides


def _parse_conflict(rows: list[str], visible: list[str], sides: list[str | None], has_code: bool) -> ParsedPage:
    """Parse each side of the conflicts as if it were the whole file; the result has no spans and cannot be edited."""
    page = ParsedPage(rows, visible)
    page.has_conflict = True
    found: dict[MarkdownEntry, list[str]] = {}
    for side in ("ours", "theirs"):
        numbers = [row for row, row_side in enumerate(sides) if row_side in ("", side)]
        scan = _parse_rows([rows[row] for row in numbers], [visible[row] for row in numbers], has_code)
        for entry in scan.entries:
            found.setdefault(replace(entry, line=numbers[entry.line - 1] + 1), []).append(side)
        page.without_text = scan.without_text | page.without_text
        page.problems += [replace(problem, line=numbers[problem.line - 1] + 1) for problem in scan.problems]
    page.problems = sorted(set(page.problems), key=lambda problem: problem.line)
    entries = [replace(entry, side=sides[0] if len(sides) == 1 else "") for entry, sides in found.items()]
    page.entries = sorted(entries, key=lambda entry: (entry.line, entry.side))
    return page
