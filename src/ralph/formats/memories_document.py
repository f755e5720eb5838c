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
_BULLET = re.compile(r" ?(?:[-*+•]|\d{1,9}[.)])[ \t]+(?=\S)")
_DATE_AT_END = re.compile(rf"[(\[]?{DATE.pattern}[)\]]?$")
_MAX_SLUG = 60
"""Maximum length of an id that is made from a heading, in characters."""
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
    title: str = ""
    """Heading of an entry that has one instead of an id."""
    is_verbatim: bool = False
    """Whether somebody wrote it in a form of their own; it is rewritten in ours when its memory changes."""


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
    others = [_Block((-1, heading_rows[0] if heading_rows else len(rows)), kind, is_introduction=True)]
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
                others.append(_Block(span, kind, entry=entry))
        elif (section := KIND_BY_HEADING.get(visible[first].strip("# \t").lower())) and visible[first].startswith("##"):
            kind = section
            page.sections.setdefault(kind, span)
            others.append(_Block(span, kind, is_section=True))
        else:
            # Whatever is above it: otherwise a change elsewhere in the file would turn an entry into a title.
            is_title = visible[first][:2] != "##"
            others.append(_Block(span, kind, is_introduction=is_title))
    _add_verbatim_entries(page, others)
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


# --- entries in other forms ----------------------------------------------------------


class _Block:
    """A heading that is no entry of ours, and the rows below it; -1 as the first row stands for no heading."""

    __slots__ = ("entry", "is_introduction", "is_section", "kind", "span")

    def __init__(
        self,
        span: Span,
        kind: str,
        *,
        entry: MarkdownEntry | None = None,
        is_section: bool = False,
        is_introduction: bool = False,
    ) -> None:
        self.span = span
        self.kind = kind
        self.entry = entry
        """Entry with an id of ours, but without quoted text."""
        self.is_section = is_section
        self.is_introduction = is_introduction


def _add_verbatim_entries(page: ParsedPage, blocks: list[_Block]) -> None:
    """Add the entries that people and other programs wrote: any heading with text below it, and bullets."""
    ids = _DerivedIds({*(entry.id for entry in page.entries), *(block.entry.id for block in blocks if block.entry)})
    found: list[tuple[Span, MarkdownEntry]] = []
    for block in blocks:
        first, last = block.span[0], block.span[1]
        while last > first + 1 and not page.rows[last - 1].strip():
            last -= 1
        if last == first + 1:
            _name_empty_entry(page, block)
        elif block.is_section or block.is_introduction:
            bullets = _bullets(page, (first + 1, last), block)
            found += [(span, _bullet_entry(page, span, block.kind, ids)) for span in bullets]
            if block.is_introduction and first > blocks[0].span[1] and not bullets:
                why = "Skipped the text below {}: a heading of level 1 is a title. Begin entries with ###."
                page.problems.append(_problem(first, why, page.visible[first]))
        elif entry := _heading_entry(page, (first, last), block, ids):
            found.append(((first, last), entry))
        else:
            _name_empty_entry(page, block)
    if found:
        both = sorted([*zip(page.spans, page.entries, strict=True), *found], key=lambda one: one[0])
        page.spans, page.entries = [span for span, _ in both], [entry for _, entry in both]


def _name_empty_entry(page: ParsedPage, block: _Block) -> None:
    """Report an entry without text; a heading above others is none."""
    first = block.span[0]
    if block.entry:
        page.problems.append(_problem(first, "Skipped entry {}: it has no text.", block.entry.id))
        page.without_text.setdefault(block.entry.id, (block.span, block.entry))
    elif first >= 0 and page.visible[first].startswith("###"):
        page.problems.append(_problem(first, "Skipped {}: it has no text.", page.visible[first]))


def _heading_entry(page: ParsedPage, span: Span, block: _Block, ids: _DerivedIds) -> MarkdownEntry | None:
    """Return the entry of a heading with text below it, or None if there is no text."""
    first, last = span
    body, tags, created = _verbatim_content(page, first + 1, last)
    if not body:
        return None
    if block.entry:
        return replace(block.entry, body=body, is_verbatim=True)
    heading = page.visible[first].strip("# \t")
    date = DATE.search(heading)
    is_part = page.visible[first].startswith("###")
    return MarkdownEntry(
        id=ids.derive(heading),
        kind=block.kind if is_part else DEFAULT_KIND,
        body=body,
        tags=tags,
        created=created or (date[0] if date else ""),
        line=first + 1,
        title=_without_date(heading),
        is_verbatim=True,
    )


def _without_date(heading: str) -> str:
    """Return a heading without the date at its end and the mark before it."""
    title = _DATE_AT_END.sub("", heading)
    if title == heading:
        return heading
    title = title.rstrip(" \t")
    return title[:-1].rstrip(" \t") if title.endswith(("-", "–", "—", ":", "|", ",")) else title


def _bullet_entry(page: ParsedPage, span: Span, kind: str, ids: _DerivedIds) -> MarkdownEntry:
    body, tags, created = _verbatim_content(page, *span)
    text = _BULLET.sub("", body, count=1).replace("\n  ", "\n")
    return MarkdownEntry(
        id=ids.derive(text.split("\n")[0]),
        kind=kind,
        body=text,
        tags=tags,
        created=created,
        line=span[0] + 1,
        is_verbatim=True,
    )


def _bullets(page: ParsedPage, span: Span, block: _Block) -> list[Span]:
    """Return the rows of each top-level bullet; bullets below an introduction in words belong to it."""
    found: list[list[int]] = []
    is_open = False
    for row in range(*span):
        text = page.visible[row]
        if _BULLET.match(text):
            found.append([row, row + 1])
            is_open = True
        elif is_open and page.rows[row].strip():
            is_part = text[:1] in ("", " ", "\t", "<") or page.rows[row - 1].strip()
            is_open = bool(is_part)
            if is_open:
                found[-1][1] = row + 1
        if block.is_introduction and not is_open and page.rows[row].strip():
            return []
    return [(start, end) for start, end in found]


def _verbatim_content(page: ParsedPage, first: int, last: int) -> tuple[str, tuple[str, ...], str]:
    """Return the text, tags and date of rows in any form; if all text is quoted, without the marks."""
    rows: list[str] = []
    tags: tuple[str, ...] = ()
    created = ""
    for row in range(first, last):
        if "<!--" in page.visible[row] and (metadata := parse_metadata(page.visible[row])):
            tags, created, _ = metadata
        else:
            rows.append(page.rows[row].removesuffix("\r"))
    if all(row[:1] == ">" or not row.strip() for row in rows):
        rows = [row[2:] if row[1:2] == " " else row[1:] for row in rows if row]
    return "\n".join(rows).strip("\n").rstrip(), tags, created


class _DerivedIds:
    """Ids for entries without one: the same for the same text, with a number if it is taken."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken
        self._numbers: dict[str, int] = {}

    def derive(self, text: str) -> str:
        slug = re.sub(r"[\W_]+", "-", text).strip("-")[:_MAX_SLUG].rstrip("-")
        id = base = f"mem-{slug.removeprefix('mem-') or 'entry'}"
        while id in self._taken:
            self._numbers[base] = self._numbers.get(base, 1) + 1
            id = f"{base}-{self._numbers[base]}"
        self._taken.add(id)
        return id


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
