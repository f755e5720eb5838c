"""Reader and editor of `memories.md`, a file that people, git and Ralph all write to.

An edit only touches the lines of the entries that it changes. All other text is preserved byte for byte, so edits
work on the lines of the file, which is never regenerated from parsed entries.
"""

from __future__ import annotations

import re

from ralph.formats.memories_document import (
    BYTE_ORDER_MARK,
    DATE,
    KIND_BY_HEADING,
    SECTION_HEADINGS,
    MarkdownEntry,
    is_entry_row,
    parse_metadata,
    parse_page,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ralph.core.records import Memory
    from ralph.formats.detection import FileSample
    from ralph.formats.imported import Reading
    from ralph.formats.memories_document import ParsedPage, Span
    from ralph.formats.planned import ReadProblem

MEMORIES_TEMPLATE = "# Memories\n" + "".join(f"\n## {name}\n" for name in SECTION_HEADINGS.values())

_NUMBERED_ENTRY = re.compile(r"^### mem-\d", re.MULTILINE)
_TAGS_COMMENT = re.compile(r"^[ \t]*<!--[ \t]*tags:", re.MULTILINE)
_ID = re.compile(r"mem-[\w-]+")


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
    use the new ids, and apply to the first entry with an id. Kinds without a section are ignored, and a file with git
    conflicts is not changed.
    """
    put_by_id = {header_id(entry.id): entry for entry in put if entry.kind in SECTION_HEADINGS}
    removed_ids = {header_id(id) for id in remove} - put_by_id.keys()
    mark = BYTE_ORDER_MARK if text.startswith(BYTE_ORDER_MARK) else ""
    text = text.removeprefix(mark)
    if put_by_id and not text.strip():
        text = MEMORIES_TEMPLATE.replace("\n", "\r\n" if "\r\n" in text else "\n")
    page = parse_page(text)
    if page.has_conflict:
        return mark + text
    for number, id in rename.items():
        page.rename(number, header_id(id))
    editor = _PageEditor(page, "\r" if 2 * text.count("\r\n") > text.count("\n") else "")
    first = {page.entries[number].id: number for number in reversed(range(len(page.entries)))}
    for id, entry in put_by_id.items():
        if id in first:
            editor.put(page.spans[first[id]], page.entries[first[id]], entry)
        elif id in page.without_text:
            editor.put(*page.without_text[id], entry)
        else:
            editor.insert(entry)
    for id in removed_ids & first.keys():
        editor.remove(page.spans[first[id]], page.entries[first[id]])
    return mark + editor.text()


# --- new entries without parsing -----------------------------------------------------


def insertion_offsets(text: str) -> dict[str, int]:
    """Return where new entries of each kind are inserted, in bytes of the encoded text.

    Kinds are left out if the file has no section for them or ends in it without a newline; all of them if it has git
    conflicts or mixed line endings. Such files have to be parsed.
    """
    page = parse_page(text)
    if page.has_conflict or ("\r" in text and text.count("\r\n") != text.count("\n")):
        return {}
    rows = {kind: _insertion_row(page, kind) for kind in page.sections}
    return {
        kind: len("".join(f"{one}\n" for one in page.rows[:row]).encode("utf-8", "surrogateescape"))
        for kind, row in rows.items()
        if row < len(page.rows)
    }


def format_entries(content: bytes, offset: int, entries: Sequence[MarkdownEntry]) -> bytes:
    """Return what `edit_document` would insert into a file at an offset for new entries of one kind.

    More entries of this kind go to the same offset; larger ones move by what is inserted.
    """
    before = content[content.rfind(b"\n", 0, offset - 1) + 1 : offset]
    after = content[offset : content.find(b"\n", offset) + 1 or None]
    newline = "\r\n" if before.endswith(b"\r\n") else "\n"
    blocks = [newline.join([*_block_rows(entry), ""]) for entry in reversed(entries)]
    text = newline * _has_text(before) + newline.join(blocks) + newline * _has_text(after)
    return text.encode("utf-8", "surrogateescape")


def _has_text(row: bytes) -> bool:
    return bool(row.decode("utf-8", "surrogateescape").strip())


def _insertion_row(page: ParsedPage, kind: str) -> int:
    """Return the row at which new entries of a kind are inserted."""
    first, last = page.sections[kind]
    # After the introduction of the section, which would otherwise become part of the new entry.
    has_introduction = any(row.strip() for row in page.rows[first + 1 : last])
    is_last = last == len(page.rows) and not page.rows[-1]
    return last - is_last if has_introduction else first + 1


# --- for import and export -----------------------------------------------------------


def is_memories_md(sample: FileSample) -> bool:
    """Return whether a file has entries with memory ids, or the title and a section of the template."""
    if not sample.sections:
        return not sample.is_json and bool(_NUMBERED_ENTRY.search(sample.start))
    headings = [section.heading.lower() for section in sample.sections[1:]]
    if any(heading.startswith("mem-") for heading in headings):
        return True
    if not headings or headings[0] != "memories":
        return False
    return bool(_TAGS_COMMENT.search(sample.text)) or not KIND_BY_HEADING.keys().isdisjoint(headings)


def has_section(memory: Memory) -> bool:
    """Return whether a memory can be written to the file."""
    return memory.kind in SECTION_HEADINGS


def read_memories_md(text: str, at: str) -> Reading:
    """Return the memories and the problems of a file; both sides of a git conflict are included."""
    from ralph.formats.imported import InvalidEntryError, imported_memory, parse_day, parse_id, parse_tags
    from ralph.formats.planned import ReadProblem, quote_excerpt

    page = parse_page(text)
    memories: list[Memory] = []
    problems = [*page.problems, *_left_out(page)]
    if page.has_conflict:
        line = next(line for line, row in enumerate(page.rows, start=1) if row.startswith(("<" * 7, ">" * 7)))
        problems.append(
            ReadProblem(line=line, why="The file has git conflict markers; imported both sides.", was_read=True)
        )
    for entry in page.entries:
        try:
            created_at = parse_day(entry.created, entry.id)
        except InvalidEntryError as error:
            created_at = ""
            problems.append(
                ReadProblem(line=entry.line, why=f"Invalid date: {error}; used today instead.", was_read=True)
            )
        try:
            memory = imported_memory(
                kind=entry.kind,
                content=entry.body,
                at=at,
                title=entry.title,
                id=parse_id(entry.id),
                tags=parse_tags(list(entry.tags)),
                created_at=created_at,
            )
        except InvalidEntryError as error:
            problems.append(ReadProblem(line=entry.line, why=f"Skipped entry {quote_excerpt(entry.id)}: {error}."))
        else:
            memories.append(memory)
    return tuple(memories), tuple(sorted(problems, key=lambda problem: problem.line))


def _left_out(page: ParsedPage) -> list[ReadProblem]:
    """Return a problem for every paragraph that is part of no entry."""
    from ralph.formats.planned import ReadProblem, quote_excerpt

    if page.has_conflict:
        return []  # the sides have no spans; whoever resolves the conflict sees the text
    used = set[int]()
    for span, entry in zip(page.spans, page.entries, strict=True):
        used.update(row for row in range(*span) if entry.is_verbatim or is_entry_row(page.visible[row]))
    for span, _ in page.without_text.values():
        used.update(range(*span))
    first_heading = next((row for row, text in enumerate(page.visible) if text.startswith(("##", "- "))), -1)
    problems = []
    is_inside = False
    for row, text in enumerate(page.rows):
        is_left_out = bool(text.strip()) and row not in used and page.visible[row][:1] != "#"
        if is_left_out and not is_inside:
            is_introduction = row < first_heading
            what = "the introduction" if is_introduction else "the text is part of no entry. Give it a heading (###)"
            why = f"Left out {quote_excerpt(text)}: {what}."
            problems.append(ReadProblem(line=row + 1, why=why, was_read=is_introduction))
        is_inside = is_left_out
    return problems


def write_memories_md(memories: Iterable[Memory]) -> str:
    """Return a file with the memories whose kind has a section, newest first within each section."""
    oldest_first = sorted(memories, key=lambda memory: (memory.created_at, memory.id))
    return edit_document(
        MEMORIES_TEMPLATE,
        put=[
            MarkdownEntry(
                id=memory.id,
                kind=memory.kind,
                body=memory.content or memory.title,
                tags=memory.tags,
                created=memory.created_at[:10],
            )
            for memory in oldest_first
        ],
    )


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
    date = [f"created: {created}"] if DATE.fullmatch(created) else []
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

    def __init__(self, page: ParsedPage, carriage_return: str) -> None:
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
        self._orphaned: list[int] = []
        """First rows of removed entries whose notes stay."""

    def put(self, span: Span, old: MarkdownEntry, new: MarkdownEntry) -> None:
        """Change an entry in place, or move its whole block to another section."""
        first, last = span
        if old.is_verbatim:
            self._rewrite(span, old, new)
            return
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

    def _rewrite(self, span: Span, old: MarkdownEntry, new: MarkdownEntry) -> None:
        """Replace an entry that has a form of its own by one in ours."""
        if (old.kind, old.body, old.tags) == (new.kind, _unify_newlines(new.body), new.tags):
            return
        rows = self._with_line_ending(_block_rows(new))
        if old.kind == new.kind and self._page.visible[span[0]].startswith("###"):
            self._edits.append((*span, rows, "replace"))
            return
        self._inserted.setdefault(new.kind, []).append(rows)
        self._edits.append((*span, [], "remove"))

    def remove(self, span: Span, entry: MarkdownEntry) -> None:
        """Remove an entry, but keep the notes in its block."""
        if entry.is_verbatim:
            self._edits.append((*span, [], "remove"))
            return
        first, last = span[0], self._entry_end(span)
        notes = [self._page.rows[row] for row in range(first + 1, last) if not is_entry_row(self._page.visible[row])]
        self._edits.append((first, last, notes, "remove"))
        rest = self._page.visible[first + 1 : span[1]]
        if any(row.strip() and not is_entry_row(row) for row in rest):
            self._orphaned.append(first)

    def _separate_notes(self) -> None:
        """Rewrite entries in a form of their own that would take in the notes of a removed entry below them."""
        edited = {edit[:2] for edit in self._edits}
        removed = {edit[0] for edit in self._edits if edit[3] == "remove"}
        ends = {span[1]: number for number, span in enumerate(self._page.spans)}
        for first in self._orphaned:
            number = ends.get(first)
            while number is not None and self._page.spans[number][0] in removed:
                number = ends.get(self._page.spans[number][0])
            if number is None or not self._page.entries[number].is_verbatim or self._page.spans[number] in edited:
                continue
            edited.add(self._page.spans[number])
            rows = self._with_line_ending(_block_rows(self._page.entries[number]))
            self._edits.append((*self._page.spans[number], rows, "replace"))

    def insert(self, entry: MarkdownEntry) -> None:
        """Insert an entry at the top of its section, above those inserted before."""
        self._inserted.setdefault(entry.kind, []).append(self._with_line_ending(_block_rows(entry)))

    def text(self) -> str:
        """Return the text with all edits applied."""
        # New sections are appended after the entries of an existing section at the end of the file.
        kinds = sorted(
            filter(self._inserted.__contains__, SECTION_HEADINGS), key=lambda kind: kind not in self._page.sections
        )
        self._separate_notes()
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
        position = _insertion_row(self._page, kind)
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
            if has_new_comment and (metadata := parse_metadata(page.visible[row])):
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
            if is_entry_row(self._page.visible[row]):
                return row + 1
        return span[0] + 1

    def _with_line_ending(self, rows: list[str]) -> list[str]:
        return [row + self._carriage_return for row in rows] if self._carriage_return else rows
