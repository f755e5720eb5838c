"""Read and edit `memories.md`: one file that people, git and Ralph all write to.

An edit touches the lines of the entries it is about. Everything else is somebody
else's text, wherever it stands, and is kept byte for byte; so edits are made on the
lines of the file, and the file is never written anew from what was read.
"""

from __future__ import annotations

import re
from itertools import accumulate, pairwise

from ralph.formats.imported import InvalidEntryError, id_of, imported, moment_of, tags_of
from ralph.formats.planned import Unreadable, quote
from ralph.markdown import without_code
from ralph.records import Memory, record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ralph.formats.imported import Reading

    Span = tuple[int, int]
    """The first row, and the one after the last."""
    Metadata = tuple[tuple[str, ...], str, list[str]]
    """Tags, the date, and the parts nobody here knows."""

SECTIONS = {"pattern": "Patterns", "decision": "Decisions", "fix": "Fixes", "context": "Context"}
"""The kinds that have a place in this file, and the heading of each."""
TEMPLATE = "# Memories\n" + "".join(f"\n## {name}\n" for name in SECTIONS.values())
FIRST_KIND = "pattern"
"""What stands before any section."""

BYTE_ORDER_MARK = "\ufeff"

_KINDS = {name.lower(): kind for kind, name in SECTIONS.items()}
_HEADING = re.compile(r"(#{1,3})(?:[ \t]+(.*))?$")
_ENTRY = re.compile(r"###[ \t]+(mem-[\w-]++)(?!\S)")
_ID = re.compile(r"mem-[\w-]+")
_DAY = r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_DATE = re.compile(rf"{_DAY}(?![0-9])")
_USUAL_COMMENT = re.compile(rf"<!-- tags: ([^|>]*) \| created: ({_DAY}) -->")


@record
class Entry:
    """One memory as the file has it."""

    id: str
    kind: str
    body: str
    tags: tuple[str, ...] = ()
    created: str = ""
    """YYYY-MM-DD, or empty when the file does not say."""
    line: int = 0
    start: int = 0
    end: int = 0
    """Where its block is in the text: from its heading up to the next, with whatever stands between."""
    side: str = ""
    """`ours` or `theirs` for what git could not merge."""


@record
class Document:
    """What a file says, and what it says in a way nobody can read."""

    entries: tuple[Entry, ...]
    problems: tuple[Unreadable, ...]
    has_conflict: bool
    unread_ids: tuple[str, ...] = ()
    """Entries without words. They are still there: nobody has removed them."""


def read_document(text: str) -> Document:
    """Give the entries in the order of the file, their text as it is written; equal ids are given as they stand."""
    page = _page(text)
    return Document(
        entries=tuple(page.entries),
        problems=tuple(page.problems),
        has_conflict=page.has_conflict,
        unread_ids=tuple(page.wordless),
    )


def block(entry: Entry) -> str:
    """Give an entry as lines of the file."""
    return "\n".join(_block_rows(entry)) + "\n"


def header_id(id: str) -> str:
    """Give an id the way a heading can carry it: `mem-` and then letters, digits and hyphens."""
    if _ID.fullmatch(id):
        return id
    return "mem-" + (re.sub(r"[^\w-]+", "-", id.removeprefix("mem-")).strip("-") or "0")


def edited(
    text: str,
    *,
    put: Sequence[Entry] = (),
    remove: Collection[str] = (),
    rename: Mapping[int, str] = {},
) -> str:
    """Give the text with these entries in it, and without those; all other text stays byte for byte.

    An entry that is there is changed where it stands, or moved when its kind changed; new ones go to the top of their
    section, the last of `put` first. `rename` gives entries new ids by their number in `read_document`; `put` and
    `remove` go by the new ids, and act on the first entry of several. Left alone are entries that git has cut in two,
    and kinds without a section.
    """
    wanted = {header_id(one.id): one for one in put if one.kind in SECTIONS}
    unwanted = {header_id(id) for id in remove} - wanted.keys()
    mark = BYTE_ORDER_MARK if text.startswith(BYTE_ORDER_MARK) else ""
    text = text.removeprefix(mark)
    if wanted and not text.strip():
        text = TEMPLATE.replace("\n", "\r\n" if "\r\n" in text else "\n")
    page = _page(text)
    for number, id in rename.items():
        page.rename(number, header_id(id))
    edit = _Edit(page, "\r" if 2 * text.count("\r\n") > text.count("\n") else "")
    first = {page.entries[number].id: number for number in reversed(range(len(page.entries)))}
    for id, one in wanted.items():
        if id in first:
            if first[id] not in page.cut:
                edit.put(page.spans[first[id]], page.entries[first[id]], one)
        elif id in page.wordless:
            edit.put(*page.wordless[id], one)
        else:
            edit.insert(one)
    for id in unwanted & first.keys():
        if first[id] not in page.cut:
            edit.remove(page.spans[first[id]])
    return mark + edit.text()


# --- for import and export -----------------------------------------------------------


def read_memories_md(text: str, at: str) -> Reading:
    """Give the memories of the file, and what could not be read; of a conflict in git, both sides."""
    document = read_document(text)
    memories: list[Memory] = []
    problems = list(document.problems)
    if document.has_conflict:
        line = next(line for line, row in enumerate(text.split("\n"), start=1) if row.startswith(("<" * 7, ">" * 7)))
        problems.append(Unreadable(line=line, why="Git could not merge the file; both sides are read.", was_read=True))
    for entry in document.entries:
        try:
            created_at = moment_of(entry.created)
        except InvalidEntryError as error:
            created_at = ""
            problems.append(
                Unreadable(line=entry.line, why=f"There is a wrong date: {error}; taken as today.", was_read=True)
            )
        try:
            memory = imported(
                kind=entry.kind,
                body=entry.body,
                at=at,
                id=id_of(entry.id),
                tags=tags_of(list(entry.tags)),
                created_at=created_at,
            )
        except InvalidEntryError as error:
            problems.append(Unreadable(line=entry.line, why=f"The entry {quote(entry.id)}: {error}; left out."))
        else:
            memories.append(memory)
    return tuple(memories), tuple(sorted(problems, key=lambda one: one.line))


def write_memories_md(memories: Iterable[Memory]) -> str:
    """Give a file of the memories whose kind has a section, in each section the newest first."""
    oldest_first = sorted(memories, key=lambda one: (one.created_at, one.id))
    return edited(
        TEMPLATE,
        put=[
            Entry(id=one.id, kind=one.kind, body=one.body or one.title, tags=one.tags, created=one.created_at[:10])
            for one in oldest_first
        ],
    )


# --- from text to rows ---------------------------------------------------------------


class _Page:
    """A text as rows, and what stands in which of them."""

    def __init__(self, rows: list[str], shown: list[str]) -> None:
        self.rows = rows
        """As they are in the file, but for the newline."""
        self.shown = shown
        """What there is to read of each: of code and of what git left, nothing."""
        self.entries: list[Entry] = []
        self.spans: list[Span] = []
        """The rows of each entry."""
        self.cut: set[int] = set()
        """Numbers of the entries that stand partly inside a conflict."""
        self.wordless: dict[str, tuple[Span, Entry]] = {}
        """Headings of entries that say nothing, by id."""
        self.sections: dict[str, Span] = {}
        """From each section's heading up to the next heading of any sort."""
        self.problems: list[Unreadable] = []
        self.has_conflict = False

    def rename(self, number: int, id: str) -> None:
        entry, row = self.entries[number], self.spans[number][0]
        self.rows[row] = self.rows[row].replace(entry.id, id, 1)
        self.entries[number] = replace(entry, id=id)


def _page(text: str) -> _Page:
    rows = text.split("\n")
    shown = [row.removesuffix("\r") for row in rows] if "\r" in text else rows.copy()
    shown[0] = shown[0].removeprefix(BYTE_ORDER_MARK)
    has_code = "```" in text or "~~~" in text
    if "<<<<<<<" in text or ">>>>>>>" in text:
        sides = _sides(shown)
        if None in sides:
            return _page_in_conflict(rows, shown, sides, has_code)
    return _scanned(rows, shown, has_code)


def _scanned(rows: list[str], shown: list[str], has_code: bool) -> _Page:
    """Give what stands in these rows."""
    if has_code:
        shown, _ = without_code(shown)
    page = _Page(rows, shown)
    ends = list(accumulate(map(len, rows)))
    kind = FIRST_KIND
    heads = [row for row, text in enumerate(shown) if text[:1] == "#" and _HEADING.match(text)]
    for span in pairwise([*heads, len(rows)]):
        first, last = span
        if found := _ENTRY.match(shown[first]):
            id = found[1]
            body, tags, created = _content(shown[first + 1 : last])
            entry = Entry(
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
                page.problems.append(Unreadable(line=first + 1, why=f"The entry {quote(id)} has no text; left out."))
                page.wordless.setdefault(id, (span, entry))
        elif shown[first].startswith("###"):
            if any(_is_own(text) for text in shown[first + 1 : last]):
                why = f"The heading {quote(shown[first])} is not the id of a memory; left out with what it quotes."
                page.problems.append(Unreadable(line=first + 1, why=why))
        elif (section := _KINDS.get(shown[first].strip("# \t").lower())) and shown[first].startswith("##"):
            kind = section
            page.sections.setdefault(kind, span)
    if page.wordless:
        for entry in page.entries:
            page.wordless.pop(entry.id, None)
    return page


def _content(rows: list[str]) -> tuple[str, tuple[str, ...], str]:
    """Give the text, tags and date in the rows of one entry."""
    quoted = []
    tags: tuple[str, ...] = ()
    created = ""
    for row in rows:
        if row[:1] == ">":
            quoted.append(row[2:] if row[1:2] == " " else row[1:])
        elif "<!--" in row and (said := _metadata(row)):
            tags, created, _ = said
    return "\n".join(quoted), tags, created


def _metadata(row: str) -> Metadata | None:
    """Give what a comment says of an entry, or None when it is any other comment or none."""
    if usual := _USUAL_COMMENT.fullmatch(row):  # the way below gives the same, but takes longer
        return _tags(usual[1]), usual[2], []
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


def _is_own(row: str) -> bool:
    """Say whether a row below an entry's heading belongs to the entry and not to somebody's notes."""
    return row[:1] == ">" or ("<!--" in row and _metadata(row) is not None)


# --- what git could not merge --------------------------------------------------------


def _marker(row: str) -> str:
    """Give the mark of a conflict that a row is, or nothing."""
    mark = row[:7]
    return mark if mark in ("<<<<<<<", "|||||||", "=======", ">>>>>>>") and row[7:8] in ("", " ") else ""


def _sides(rows: list[str]) -> list[str | None]:
    """Give the side each row is on: empty for both, None for the marks and for what was there before either."""
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


def _page_in_conflict(rows: list[str], shown: list[str], sides: list[str | None], has_code: bool) -> _Page:
    """Give what either side says: each is read as if it alone were the file."""
    page = _Page(rows, [""] * len(rows))
    page.has_conflict = True
    starts = [0, *accumulate(len(row) + 1 for row in rows)]
    found: dict[str, dict[tuple[int, ...], tuple[Entry, Span]]] = {"ours": {}, "theirs": {}}
    for side in found:
        numbers = [row for row, one in enumerate(sides) if one in ("", side)]
        scan = _scanned([rows[row] for row in numbers], [shown[row] for row in numbers], has_code)
        for row, text in zip(numbers, scan.shown, strict=True):
            page.shown[row] = page.shown[row] or text
        for entry, (first, last) in zip(scan.entries, scan.spans, strict=True):
            own = (numbers[first], *(numbers[row] for row in range(first + 1, last) if _is_own(scan.shown[row])))
            end = max(_run_end(numbers, first, last), own[-1] + 1)
            where = {"line": own[0] + 1, "start": starts[own[0]], "end": min(starts[end], starts[-1] - 1)}
            found[side][own] = replace(entry, side=side, **where), (own[0], end)
        for id, ((first, last), entry) in scan.wordless.items():
            page.wordless.setdefault(id, ((numbers[first], _run_end(numbers, first, last)), entry))
        for kind, (first, last) in scan.sections.items():
            if not sides[numbers[first]]:
                page.sections.setdefault(kind, (numbers[first], _run_end(numbers, first, last)))
        page.problems += [replace(one, line=numbers[one.line - 1] + 1) for one in scan.problems]
    page.problems = sorted(set(page.problems), key=lambda one: one.line)
    both = found["theirs"] | found["ours"]
    for own, (entry, span) in sorted(both.items(), key=lambda one: (one[1][0].line, one[1][0].side)):
        is_shared = own in found["ours"] and own in found["theirs"]
        if not is_shared and not all(sides[row] for row in own):
            page.cut.add(len(page.entries))
        page.entries.append(replace(entry, side="") if is_shared else entry)
        page.spans.append(span)
    return page


def _run_end(numbers: list[int], first: int, last: int) -> int:
    """Give the row of the file where rows that follow each other in one side's view are torn apart, or end."""
    while first + 1 < last and numbers[first + 1] == numbers[first] + 1:
        first += 1
    return numbers[first] + 1


# --- from entries to rows ------------------------------------------------------------


def _block_rows(entry: Entry) -> list[str]:
    return [f"### {header_id(entry.id)}", *_quoted(entry.body), *_comment(clean_tags(entry.tags), entry.created, [])]


def _quoted(body: str) -> list[str]:
    return [f"> {line}" if line else ">" for line in _unified(body).split("\n")]


def _unified(body: str) -> str:
    return body.replace("\r\n", "\n").replace("\r", "\n")


def _comment(tags: tuple[str, ...], created: str, others: list[str]) -> list[str]:
    """Give the row that says this of an entry, or none when there is nothing to say."""
    date = [f"created: {created}"] if _DATE.fullmatch(created) else []
    if not (tags or date or others):
        return []
    parts = ["tags: " + ", ".join(tags), *date, *others]
    return [f"<!-- {' | '.join(parts)} -->"]


def clean_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Give the tags without what would end one, or the comment they stand in."""
    cleaned = (" ".join(re.sub(r"-{2,}", "-", re.sub(r"[|,]", " ", tag)).split()) for tag in tags)
    return tuple(dict.fromkeys(tag for tag in cleaned if tag))


class _Edit:
    """Changes to a page, gathered and then made in one pass."""

    def __init__(self, page: _Page, carriage_return: str) -> None:
        self._page = page
        self._return = carriage_return
        """What the rows of this file end with before their newline."""
        self._has_open_end = page.rows[-1] != ""
        if self._has_open_end:
            page.rows[-1] += carriage_return
            page.rows.append("")
            page.shown.append("")
        self._inserted: dict[str, list[list[str]]] = {}
        self._changes: list[tuple[int, int, list[str], str]] = []

    def put(self, span: Span, old: Entry, new: Entry) -> None:
        """Change an entry where it stands, or move it with all that stands in its block."""
        first, last = span
        if old.kind == new.kind:
            last = self._own_end(span)
            rows = self._updated((first, last), old, new)
            if rows != self._page.rows[first:last]:
                self._changes.append((first, last, rows, "replace"))
            return
        while not self._page.rows[last - 1].strip():
            last -= 1
        self._inserted.setdefault(new.kind, []).append(self._updated((first, last), old, new))
        self._changes.append((first, last, [], "remove"))

    def remove(self, span: Span) -> None:
        """Take an entry out, and leave the notes that stand in its block."""
        first, last = span[0], self._own_end(span)
        notes = [self._page.rows[row] for row in range(first + 1, last) if not _is_own(self._page.shown[row])]
        self._changes.append((first, last, notes, "remove"))

    def insert(self, entry: Entry) -> None:
        """Put an entry on top of its section, above what was put there before."""
        self._inserted.setdefault(entry.kind, []).append(self._ended(_block_rows(entry)))

    def text(self) -> str:
        """Give the text with all changes made."""
        # Sections that are made come last: where one is the end of the file, its entries go above them.
        kinds = sorted(filter(self._inserted.__contains__, SECTIONS), key=lambda kind: kind not in self._page.sections)
        changes = self._changes + [self._insertion(kind) for kind in kinds]
        rows, made, done = self._page.rows, list[str](), 0
        for first, last, new, how in sorted(changes, key=lambda change: change[:2]):
            made += rows[done:first]
            done = last
            is_end = last == len(rows) - 1
            is_after_blank = not made or not made[-1].strip()
            if how == "insert":
                made += new if is_after_blank else [self._return, *new]
                if not is_end and rows[last].strip():
                    made.append(self._return)
                continue
            if how == "remove" and is_after_blank:
                # One of the blank lines around it goes as well.
                if new:
                    new = new[1:] if not new[0].strip() else new
                elif not is_end and not rows[last].strip():
                    done += 1
                elif is_end and made:
                    made.pop()
            made += new
        text = "\n".join(made + rows[done:])
        is_end_untouched = self._has_open_end and done < len(rows) - 1
        return text[: -len(self._return + "\n")] if is_end_untouched else text

    def _insertion(self, kind: str) -> tuple[int, int, list[str], str]:
        """Give the change that puts new blocks into their section, or makes the section at the end."""
        rows = self._page.rows
        new = [row for block in reversed(self._inserted[kind]) for row in (self._return, *block)]
        if kind not in self._page.sections:
            return len(rows) - 1, len(rows) - 1, [f"## {SECTIONS[kind]}{self._return}", *new], "insert"
        first, last = self._page.sections[kind]
        # Below the words that introduce the section, or they would become part of the new entry.
        has_introduction = any(row.strip() for row in rows[first + 1 : last])
        place = min(last, len(rows) - 1) if has_introduction else first + 1
        return place, place, new[1:], "insert"

    def _updated(self, span: Span, old: Entry, new: Entry) -> list[str]:
        """Give the rows of an entry with its new text, tags and date; what did not change stays as it is written."""
        page, (first, last) = self._page, span
        tags = old.tags if new.tags == old.tags else clean_tags(new.tags)
        created = new.created or old.created
        has_new_body = _unified(new.body) != old.body
        has_new_comment = (tags, created) != (old.tags, old.created)
        body_at = next((row for row in range(first + 1, last) if page.shown[row][:1] == ">"), first)
        made: list[str] = []
        body_end = comment_at = 0
        others: list[str] = []
        for row in range(first, last):
            is_quote = page.shown[row][:1] == ">"
            if has_new_comment and (said := _metadata(page.shown[row])):
                comment_at = comment_at or len(made)
                others += said[2]
            elif not (is_quote and has_new_body):
                made.append(page.rows[row])
            if row == body_at and has_new_body:
                made += self._ended(_quoted(new.body))
            if row == body_at or (is_quote and not has_new_body):
                body_end = len(made)
        if has_new_comment:
            place = comment_at or body_end
            made[place:place] = self._ended(_comment(tags, created, others))
        return made

    def _own_end(self, span: Span) -> int:
        """Give the row after the last that belongs to an entry; below that are only notes and blank lines."""
        for row in range(span[1] - 1, span[0], -1):
            if _is_own(self._page.shown[row]):
                return row + 1
        return span[0] + 1

    def _ended(self, rows: list[str]) -> list[str]:
        return [row + self._return for row in rows] if self._return else rows
