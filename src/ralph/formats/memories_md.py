"""Reader and editor of `memories.md`, a file that people, git and Ralph all write to.

An edit only touches the lines of the entries that it changes. All other text is preserved byte for byte, so edits
work on the lines of the file, which is never regenerated from parsed entries.
"""

from __future__ import annotations

import re
from itertools import accumulate, pairwise

from ralph.core.markdown import blank_code_blocks
from ralph.core.records import Memory, record, replace
from ralph.formats.imported import InvalidEntryError, imported_memory, parse_id, parse_tags, parse_timestamp
from ralph.formats.planned import ReadProblem, quote_excerpt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ralph.formats.detection import FileSample
    from ralph.formats.imported import Reading

    Span = tuple[int, int]
    """The first row, and the row after the last."""
    Metadata = tuple[tuple[str, ...], str, list[str]]
    """Tags, date and unknown parts."""

SECTION_HEADINGS = {"pattern": "Patterns", "decision": "Decisions", "fix": "Fixes", "context": "Context"}
"""Headings of the sections, by memory type."""
MEMORIES_TEMPLATE = "# Memories\n" + "".join(f"\n## {name}\n" for name in SECTION_HEADINGS.values())
DEFAULT_KIND = "pattern"
"""Type of entries before the first section."""

BYTE_ORDER_MARK = "\ufeff"

_KINDS = {name.lower(): kind for kind, name in SECTION_HEADINGS.items()}
_HEADING = re.compile(r"(#{1,3})(?:[ \t]+(.*))?$")
_ENTRY = re.compile(r"###[ \t]+(mem-[\w-]++)(?!\S)")
_NUMBERED_ENTRY = re.compile(r"^### mem-\d", re.MULTILINE)
_TAGS_COMMENT = re.compile(r"^[ \t]*<!--[ \t]*tags:", re.MULTILINE)
_ID = re.compile(r"mem-[\w-]+")
_DAY = r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_DATE = re.compile(rf"{_DAY}(?![0-9])")
_PLAIN_COMMENT = re.compile(rf"<!-- tags: ([^|>]*) \| created: ({_DAY}) -->")


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
    start: int = 0
    end: int = 0
    """End index of its block in the text, which reaches from its heading to the next one."""
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
    page = _parse_page(text)
    return MemoriesDocument(
        entries=tuple(page.entries),
        problems=tuple(page.problems),
        has_conflict=page.has_conflict,
        ids_without_text=tuple(page.without_text),
    )


def header_id(id: str) -> str:
    """Return an id in the form used in headings: `mem-`, then letters, digits and hyphens."""
    if _ID.fullmatch(id):
        return id
    return "mem-" + (re.sub(r"[^\w-]+", "-", id.removeprefix("mem-")).strip("-") or "0")


def edit_document(
    text: str,
    *,
    put: Sequence[MarkdownEntry] = (),
    remove: Collection[str] = (),
    rename: Mapping[int, str] = {},
) -> str:
    """Return the text with entries added, replaced, removed or renamed, and everything else unchanged.

    Existing entries are changed in place, or moved if their kind has changed. New ones go to the top of their section,
    the last of `put` first. `rename` maps the index of an entry in `parse_document` to its new id; `put` and `remove`
    use the new ids, and apply to the first entry with an id. Entries that are split by a git conflict, and kinds
    without a section, are ignored.
    """
    put_by_id = {header_id(entry.id): entry for entry in put if entry.kind in SECTION_HEADINGS}
    removed_ids = {header_id(id) for id in remove} - put_by_id.keys()
    mark = BYTE_ORDER_MARK if text.startswith(BYTE_ORDER_MARK) else ""
    text = text.removeprefix(mark)
    if put_by_id and not text.strip():
        text = MEMORIES_TEMPLATE.replace("\n", "\r\n" if "\r\n" in text else "\n")
    page = _parse_page(text)
    for number, id in rename.items():
        page.rename(number, header_id(id))
    editor = _PageEditor(page, "\r" if 2 * text.count("\r\n") > text.count("\n") else "")
    first = {page.entries[number].id: number for number in reversed(range(len(page.entries)))}
    for id, entry in put_by_id.items():
        if id in first:
            if first[id] not in page.split:
                editor.put(page.spans[first[id]], page.entries[first[id]], entry)
        elif id in page.without_text:
            editor.put(*page.without_text[id], entry)
        else:
            editor.insert(entry)
    for id in removed_ids & first.keys():
        if first[id] not in page.split:
            editor.remove(page.spans[first[id]])
    return mark + editor.text()


# --- for import and export -----------------------------------------------------------


def is_memories_md(sample: FileSample) -> bool:
    """Return whether a file has entries with memory ids, or is the empty template."""
    if not sample.sections:
        return not sample.is_json and bool(_NUMBERED_ENTRY.search(sample.start))
    headings = [section.heading.lower() for section in sample.sections[1:]]
    if any(heading.startswith("mem-") for heading in headings):
        return True
    if not headings or headings[0] != "memories":
        return False
    is_empty = len(headings) > 1 and not any(section.text() for section in sample.sections)
    return bool(_TAGS_COMMENT.search(sample.text)) or (is_empty and {"memories", *_KINDS}.issuperset(headings))


def has_section(memory: Memory) -> bool:
    """Return whether a memory can be written to the file."""
    return memory.kind in SECTION_HEADINGS


def read_memories_md(text: str, at: str) -> Reading:
    """Return the memories and the problems of a file; both sides of a git conflict are included."""
    document = parse_document(text)
    memories: list[Memory] = []
    problems = list(document.problems)
    if document.has_conflict:
        line = next(line for line, row in enumerate(text.split("\n"), start=1) if row.startswith(("<" * 7, ">" * 7)))
        problems.append(
            ReadProblem(line=line, why="The file has git conflict markers; imported both sides.", was_read=True)
        )
    for entry in document.entries:
        try:
            created_at = parse_timestamp(entry.created)
        except InvalidEntryError as error:
            created_at = ""
            problems.append(
                ReadProblem(line=entry.line, why=f"Invalid date: {error}; used today instead.", was_read=True)
            )
        try:
            memory = imported_memory(
                kind=entry.kind,
                body=entry.body,
                at=at,
                id=parse_id(entry.id),
                tags=parse_tags(list(entry.tags)),
                created_at=created_at,
            )
        except InvalidEntryError as error:
            problems.append(ReadProblem(line=entry.line, why=f"Skipped entry {quote_excerpt(entry.id)}: {error}."))
        else:
            memories.append(memory)
    return tuple(memories), tuple(sorted(problems, key=lambda problem: problem.line))


def write_memories_md(memories: Iterable[Memory]) -> str:
    """Return a file with the memories whose kind has a section, newest first within each section."""
    oldest_first = sorted(memories, key=lambda memory: (memory.created_at, memory.id))
    return edit_document(
        MEMORIES_TEMPLATE,
        put=[
            MarkdownEntry(
                id=memory.id,
                kind=memory.kind,
                body=memory.body or memory.title,
                tags=memory.tags,
                created=memory.created_at[:10],
            )
            for memory in oldest_first
        ],
    )


# --- from text to rows ---------------------------------------------------------------


class _Page:
    """The rows of a text, and the entries and sections in them."""

    def __init__(self, rows: list[str], visible: list[str]) -> None:
        self.rows = rows
        """Lines of the file, without the newline."""
        self.visible = visible
        """Lines as they are parsed: empty for code and conflict markers."""
        self.entries: list[MarkdownEntry] = []
        self.spans: list[Span] = []
        """Span of each entry."""
        self.split: set[int] = set()
        """Indices of the entries that are partly inside a conflict."""
        self.without_text: dict[str, tuple[Span, MarkdownEntry]] = {}
        """Entries without text, by id."""
        self.sections: dict[str, Span] = {}
        """Span of each section, from its heading to the next heading of any level."""
        self.problems: list[ReadProblem] = []
        self.has_conflict = False

    def rename(self, number: int, id: str) -> None:
        entry, row = self.entries[number], self.spans[number][0]
        self.rows[row] = self.rows[row].replace(entry.id, id, 1)
        self.entries[number] = replace(entry, id=id)


def _parse_page(text: str) -> _Page:
    rows = text.split("\n")
    visible = [row.removesuffix("\r") for row in rows] if "\r" in text else rows.copy()
    visible[0] = visible[0].removeprefix(BYTE_ORDER_MARK)
    has_code = "```" in text or "~~~" in text
    if "<<<<<<<" in text or ">>>>>>>" in text:
        sides = _sides(visible)
        if None in sides:
            return _parse_conflict(rows, visible, sides, has_code)
    return _parse_rows(rows, visible, has_code)


def _parse_rows(rows: list[str], visible: list[str], has_code: bool) -> _Page:
    if has_code:
        visible, _ = blank_code_blocks(visible)
    page = _Page(rows, visible)
    ends = list(accumulate(map(len, rows)))
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
                start=ends[first - 1] + first if first else 0,
                end=ends[last - 1] + (last if last < len(rows) else last - 1),
            )
            if body and not body.isspace():
                page.entries.append(entry)
                page.spans.append(span)
            else:
                page.problems.append(
                    ReadProblem(line=first + 1, why=f"Skipped entry {quote_excerpt(id)}: it has no text.")
                )
                page.without_text.setdefault(id, (span, entry))
        elif visible[first].startswith("###"):
            if any(_is_entry_row(text) for text in visible[first + 1 : last]):
                why = f"Skipped {quote_excerpt(visible[first])} and the text below it: the heading is not a memory id."
                page.problems.append(ReadProblem(line=first + 1, why=why))
        elif (section := _KINDS.get(visible[first].strip("# \t").lower())) and visible[first].startswith("##"):
            kind = section
            page.sections.setdefault(kind, span)
    if page.without_text:
        for entry in page.entries:
            page.without_text.pop(entry.id, None)
    return page


def _content(rows: list[str]) -> tuple[str, tuple[str, ...], str]:
    """Return the text, tags and date in the rows of one entry."""
    quoted = []
    tags: tuple[str, ...] = ()
    created = ""
    for row in rows:
        if row[:1] == ">":
            quoted.append(row[2:] if row[1:2] == " " else row[1:])
        elif "<!--" in row and (metadata := _metadata(row)):
            tags, created, _ = metadata
    return "\n".join(quoted), tags, created


def _metadata(row: str) -> Metadata | None:
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
            found = _DATE.match(value.strip())
            created = found[0] if found else ""
            others += [] if found else [part.strip()]
        else:
            others.append(part.strip())
    return None if tags is None and created is None else (tags or (), created or "", others)


def _tags(value: str) -> tuple[str, ...]:
    return tuple(filter(None, dict.fromkeys(map(str.strip, value.split(",")))))


def _is_entry_row(row: str) -> bool:
    """Return whether a row below the heading of an entry is part of it, rather than a note by a person."""
    return row[:1] == ">" or ("<!--" in row and _metadata(row) is not None)


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


def _parse_conflict(rows: list[str], visible: list[str], sides: list[str | None], has_code: bool) -> _Page:
    """Parse each side of the conflicts as if it were the whole file, and combine the results."""
    page = _Page(rows, [""] * len(rows))
    page.has_conflict = True
    starts = [0, *accumulate(len(row) + 1 for row in rows)]
    found: dict[str, dict[tuple[int, ...], tuple[MarkdownEntry, Span]]] = {"ours": {}, "theirs": {}}
    for side in found:
        numbers = [row for row, row_side in enumerate(sides) if row_side in ("", side)]
        scan = _parse_rows([rows[row] for row in numbers], [visible[row] for row in numbers], has_code)
        for row, text in zip(numbers, scan.visible, strict=True):
            page.visible[row] = page.visible[row] or text
        for entry, (first, last) in zip(scan.entries, scan.spans, strict=True):
            own = (
                numbers[first],
                *(numbers[row] for row in range(first + 1, last) if _is_entry_row(scan.visible[row])),
            )
            end = max(_consecutive_end(numbers, first, last), own[-1] + 1)
            where = {"line": own[0] + 1, "start": starts[own[0]], "end": min(starts[end], starts[-1] - 1)}
            found[side][own] = replace(entry, side=side, **where), (own[0], end)
        for id, ((first, last), entry) in scan.without_text.items():
            page.without_text.setdefault(id, ((numbers[first], _consecutive_end(numbers, first, last)), entry))
        for kind, (first, last) in scan.sections.items():
            if not sides[numbers[first]]:
                page.sections.setdefault(kind, (numbers[first], _consecutive_end(numbers, first, last)))
        page.problems += [replace(problem, line=numbers[problem.line - 1] + 1) for problem in scan.problems]
    page.problems = sorted(set(page.problems), key=lambda problem: problem.line)
    both = found["theirs"] | found["ours"]
    for own, (entry, span) in sorted(both.items(), key=lambda item: (item[1][0].line, item[1][0].side)):
        is_shared = own in found["ours"] and own in found["theirs"]
        if not is_shared and not all(sides[row] for row in own):
            page.split.add(len(page.entries))
        page.entries.append(replace(entry, side="") if is_shared else entry)
        page.spans.append(span)
    return page


def _consecutive_end(numbers: list[int], first: int, last: int) -> int:
    """Return the end of the consecutive file rows that start at index `first` of one side."""
    while first + 1 < last and numbers[first + 1] == numbers[first] + 1:
        first += 1
    return numbers[first] + 1


# --- from entries to rows ------------------------------------------------------------


def _block_rows(entry: MarkdownEntry) -> list[str]:
    return [
        f"### {header_id(entry.id)}",
        *_blockquote(entry.body),
        *_metadata_rows(clean_tags(entry.tags), entry.created, []),
    ]


def _blockquote(body: str) -> list[str]:
    return [f"> {line}" if line else ">" for line in _unify_newlines(body).split("\n")]


def _unify_newlines(body: str) -> str:
    return body.replace("\r\n", "\n").replace("\r", "\n")


def _metadata_rows(tags: tuple[str, ...], created: str, others: list[str]) -> list[str]:
    """Return the metadata comment as a list of one row, or an empty list if there is no metadata."""
    date = [f"created: {created}"] if _DATE.fullmatch(created) else []
    if not (tags or date or others):
        return []
    parts = ["tags: " + ", ".join(tags), *date, *others]
    return [f"<!-- {' | '.join(parts)} -->"]


def clean_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return the tags without characters that would end a tag or the comment."""
    cleaned = (" ".join(re.sub(r"-{2,}", "-", re.sub(r"[|,]", " ", tag)).split()) for tag in tags)
    return tuple(dict.fromkeys(tag for tag in cleaned if tag))


class _PageEditor:
    """Edits of a page, collected and then applied in one pass."""

    def __init__(self, page: _Page, carriage_return: str) -> None:
        self._page = page
        self._carriage_return = carriage_return
        """Carriage return before the newline of every row, or empty."""
        self._has_open_end = page.rows[-1] != ""
        if self._has_open_end:
            page.rows[-1] += carriage_return
            page.rows.append("")
            page.visible.append("")
        self._inserted: dict[str, list[list[str]]] = {}
        self._edits: list[tuple[int, int, list[str], str]] = []

    def put(self, span: Span, old: MarkdownEntry, new: MarkdownEntry) -> None:
        """Change an entry in place, or move its whole block to another section."""
        first, last = span
        if old.kind == new.kind:
            last = self._entry_end(span)
            rows = self._update_rows((first, last), old, new)
            if rows != self._page.rows[first:last]:
                self._edits.append((first, last, rows, "replace"))
            return
        while not self._page.rows[last - 1].strip():
            last -= 1
        self._inserted.setdefault(new.kind, []).append(self._update_rows((first, last), old, new))
        self._edits.append((first, last, [], "remove"))

    def remove(self, span: Span) -> None:
        """Remove an entry, but keep the notes in its block."""
        first, last = span[0], self._entry_end(span)
        notes = [self._page.rows[row] for row in range(first + 1, last) if not _is_entry_row(self._page.visible[row])]
        self._edits.append((first, last, notes, "remove"))

    def insert(self, entry: MarkdownEntry) -> None:
        """Insert an entry at the top of its section, above those inserted before."""
        self._inserted.setdefault(entry.kind, []).append(self._with_line_ending(_block_rows(entry)))

    def text(self) -> str:
        """Return the text with all edits applied."""
        # New sections are appended after the entries of an existing section at the end of the file.
        kinds = sorted(
            filter(self._inserted.__contains__, SECTION_HEADINGS), key=lambda kind: kind not in self._page.sections
        )
        edits = self._edits + [self._insertion_edit(kind) for kind in kinds]
        rows, result, done = self._page.rows, list[str](), 0
        for first, last, new, operation in sorted(edits, key=lambda edit: edit[:2]):
            result += rows[done:first]
            done = last
            is_end = last == len(rows) - 1
            is_after_blank = not result or not result[-1].strip()
            if operation == "insert":
                result += new if is_after_blank else [self._carriage_return, *new]
                if not is_end and rows[last].strip():
                    result.append(self._carriage_return)
                continue
            if operation == "remove" and is_after_blank:
                # Remove one of the blank lines around the entry, too.
                if new:
                    new = new[1:] if not new[0].strip() else new
                elif not is_end and not rows[last].strip():
                    done += 1
                elif is_end and result:
                    result.pop()
            result += new
        text = "\n".join(result + rows[done:])
        is_end_untouched = self._has_open_end and done < len(rows) - 1
        return text[: -len(self._carriage_return + "\n")] if is_end_untouched else text

    def _insertion_edit(self, kind: str) -> tuple[int, int, list[str], str]:
        """Return the edit that inserts new blocks into their section, or appends the section."""
        rows = self._page.rows
        new = [row for block in reversed(self._inserted[kind]) for row in (self._carriage_return, *block)]
        if kind not in self._page.sections:
            return len(rows) - 1, len(rows) - 1, [f"## {SECTION_HEADINGS[kind]}{self._carriage_return}", *new], "insert"
        first, last = self._page.sections[kind]
        # After the introduction of the section, which would otherwise become part of the new entry.
        has_introduction = any(row.strip() for row in rows[first + 1 : last])
        position = min(last, len(rows) - 1) if has_introduction else first + 1
        return position, position, new[1:], "insert"

    def _update_rows(self, span: Span, old: MarkdownEntry, new: MarkdownEntry) -> list[str]:
        """Return the rows of an entry with its new text, tags and date, and all other rows unchanged."""
        page, (first, last) = self._page, span
        tags = old.tags if new.tags == old.tags else clean_tags(new.tags)
        created = new.created or old.created
        has_new_body = _unify_newlines(new.body) != old.body
        has_new_comment = (tags, created) != (old.tags, old.created)
        body_at = next((row for row in range(first + 1, last) if page.visible[row][:1] == ">"), first)
        result: list[str] = []
        body_end = comment_at = 0
        others: list[str] = []
        for row in range(first, last):
            is_quote = page.visible[row][:1] == ">"
            if has_new_comment and (metadata := _metadata(page.visible[row])):
                comment_at = comment_at or len(result)
                others += metadata[2]
            elif not (is_quote and has_new_body):
                result.append(page.rows[row])
            if row == body_at and has_new_body:
                result += self._with_line_ending(_blockquote(new.body))
            if row == body_at or (is_quote and not has_new_body):
                body_end = len(result)
        if has_new_comment:
            position = comment_at or body_end
            result[position:position] = self._with_line_ending(_metadata_rows(tags, created, others))
        return result

    def _entry_end(self, span: Span) -> int:
        """Return the row after the last one of an entry; only notes and blank lines follow in its block."""
        for row in range(span[1] - 1, span[0], -1):
            if _is_entry_row(self._page.visible[row]):
                return row + 1
        return span[0] + 1

    def _with_line_ending(self, rows: list[str]) -> list[str]:
        return [row + self._carriage_return for row in rows] if self._carriage_return else rows
