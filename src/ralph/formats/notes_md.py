"""Reader of free-form markdown notes such as CLAUDE.md and AGENTS.md.

Every section with text of its own becomes a memory. Lines in code blocks are never headings, and a code block or
comment that never ends is treated as text, so that a forgotten fence does not hide the rest of the file.
"""

from __future__ import annotations

import re

from ralph.core.limits import MAX_TITLE_LENGTH
from ralph.core.markdown import match_fence
from ralph.core.redaction import REDACTED
from ralph.core.text import extract_title, one_line, sanitize
from ralph.formats.imported import InvalidEntryError, imported_memory, parse_timestamp
from ralph.formats.planned import ReadProblem, unify_newlines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from ralph.core.records import Memory
    from ralph.formats.imported import Reading

    Row = tuple[int, str, int]
    """Line number, text, and type: `TEXT`, `CODE`, `RULE` or the level of a heading."""

TEXT, CODE, RULE = 0, -1, -2
TAB_COLUMNS = 4
"""Width of a tab, in columns."""
NESTING_COLUMNS = 2
"""Minimum additional indentation of a nested bullet, in columns."""
MAX_SECTION_WORDS = 500
"""Maximum number of words of a memory; longer sections are split, as one would fill the budget of a prompt."""
CHARS_PER_WORD = 10
"""Number of characters counted as a word in text without spaces."""
MIN_INTRODUCTION_CHARS = 20
"""Minimum length of an introduction before the first section, in characters."""
MIN_PROSE_LETTERS = 20
"""Minimum number of letters in a paragraph of a file without headings."""
MAX_HEADING_TAGS = 5
"""Maximum number of tags derived from headings."""
MAX_HEADING_CHARS = 400
"""Maximum length of a heading, in characters; the rest is cut."""
MAX_FENCE_LENGTH = 9
"""Length up to which fences are told apart when searching for the one that closes a code block."""

GENERIC_HEADING_WORDS = frozenset(
    "overview introduction intro summary notes note general details background basics purpose description usage "
    "example examples misc miscellaneous other others more info information context about setup key points "
    "important quick start getting started tips".split()
)
"""Words of generic headings, which need the heading above them as context."""
_STOP_WORDS = GENERIC_HEADING_WORDS | frozenset(
    "a an and are as at be been by can do does don't for from has have how if in into is it its my never no not of "
    "on one only or our out should so that the their them these this those to up us use used using via vs was we "
    "what when where which while who why will with within you your all any new old must avoid claude agents "
    "memories memory readme guide section project".split()
)

_KINDS = (
    ("architecture", r"architectur|structure|layout"),
    ("convention", r"convention|styl(?:e|es|ing)\b|naming|format"),
    ("decision", r"decision|rationale|why\b"),
    (
        "pitfall",
        r"gotcha|pitfall|caveat|anti-?pattern|avoid|don['’]?ts?\b|do not\b|never\b|known (?:issue|bug|problem)",
    ),
    ("fix", r"fix(?:es|ed|ing)?\b|troubleshoot|debug"),
    ("dependency", r"dependenc|(?<!full-)stacks?\b|librar"),
    ("constraint", r"constraint|rules?\b|must\b|guardrail|requirement"),
    ("pattern", r"pattern|how (?:we|to)\b"),
)
_KIND = re.compile("|".join(rf"(?P<{kind}>\b(?:{words}))" for kind, words in _KINDS), re.IGNORECASE)
_KIND_ORDER = tuple(kind for kind, _ in _KINDS)

_HEADING = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)")
_BULLET = re.compile(r"[ \t]*(?:[-*+•]|\d{1,9}[.)])(?:[ \t]+|$)")
_FIELD = re.compile(r"[\w-]+[ \t]*:")
_NUMBERING = re.compile(r"^\d{1,4}(?:\.\d{1,4}){0,5}[.)]?[ \t]+(?=\D)")
_LINK = re.compile(r"\[([^\[\]]{1,200})\]\([^()\s]{0,500}\)")
_EMOJI = re.compile(r"^[^\w`(\[<.$/@\"'~-]+")
_WORD = re.compile(r"[^\W_][\w.+#'-]*")
_DATE = re.compile(
    r"(?<!\d)(\d{4})[-/](\d\d)[-/](\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(?:\.\d{1,9})?[ ]?(Z|[+-]\d\d:?\d\d)?)?(?!\d)"
)
_PATH = re.compile(
    r"@?(?:[a-z][a-z0-9+.-]{1,20}://\S+"  # URL
    r"|(?:~|\.{1,2}|[A-Za-z]:)?[/\\](?:\S+|[^\n]*\.\w{1,8})"  # absolute path, or one that starts with ~ or .
    r"|[\w.-]+(?:[/\\][\w.-]+)*\.\w{1,8})"  # file name with optional directories
)
_TABLE_OF_CONTENTS = re.compile(r"(?:table of )?contents|toc", re.IGNORECASE)
_META_REMARK = re.compile(r"(?:this|the following) (?:file|document|guide|page)\b", re.IGNORECASE)


def read_notes_md(text: str, at: str) -> Reading:
    """Return a memory for every section of the notes, and the problems."""
    collector = MemoryCollector(at)
    if is_pointer(text):
        return collector.result("Nothing to import: the file only contains a path. Import that file instead.")
    sections = parse_sections(text)
    if len(sections) == 1:
        for line, body in _paragraphs(sections[0].rows):
            if is_prose(body) and not is_placeholder(body):
                collector.add(line, kind="context", body=body)
        return collector.result("Nothing to import: no section or paragraph found.")
    seen: dict[str, int] = {}
    for section in sections:
        seen[section.heading.lower()] = seen.get(section.heading.lower(), 0) + 1
    title = sections[1].heading if sections[1].level == 1 else ""
    for number, section in enumerate(sections):
        if _TABLE_OF_CONTENTS.fullmatch(section.heading):
            continue
        if number == 0 or (number == 1 and title):
            if not _is_introduction(section):
                continue
            heading = title
        else:
            heading = section.heading
            if section.parent_headings and (_is_generic(heading) or seen[heading.lower()] > 1):
                heading = ": ".join(filter(None, (section.parent_headings[-1], heading)))
        _add_section(section, heading, title, collector)
    return collector.result("Nothing to import: no section with text found.")


def _add_section(section: NotesSection, heading: str, title: str, collector: MemoryCollector) -> None:
    headings = [section.heading, *reversed(section.parent_headings)]
    topics = [text for text in headings if text != title] or headings
    parts = _parts(section)
    for number, body in enumerate(parts, start=1):
        if is_placeholder(body):
            continue
        ending = f" ({number}/{len(parts)})" if len(parts) > 1 else ""
        collector.add(
            section.line,
            kind=kind_from_headings(headings),
            title=one_line(heading, MAX_TITLE_LENGTH - len(ending)) + ending if heading else "",
            body=body,
            tags=heading_tags(topics),
            created_at=find_date(section.heading),
        )


def is_pointer(text: str) -> bool:
    """Return whether the text is a single line with a path or URL."""
    line = text[:1000].removeprefix("\ufeff").strip()
    return len(text) < 1000 and "\n" not in line and bool(_PATH.fullmatch(line))


def is_prose(text: str) -> bool:
    """Return whether a text is prose: enough letters, with spaces between them."""
    letters = sum(character.isalpha() for character in text[:2000])
    return letters >= MIN_PROSE_LETTERS and (" " in text.strip() or not text[:2000].isascii())


def is_placeholder(text: str) -> bool:
    """Return whether a text is only a placeholder: `(add patterns here)`, `none`, `TBD`."""
    stripped = text.strip().strip("*_").strip()
    if not any(character.isalnum() for character in stripped):
        return True
    if len(stripped) > MAX_HEADING_CHARS:
        return False
    if stripped[0] + stripped[-1] in ("()", "[]", "<>", "{}") and not any(mark in stripped[1:-1] for mark in ")]>}"):
        return True
    words = stripped.lower().rstrip(".!").strip()
    if re.fullmatch(r"none|nothing|n/?a|tbd|todo|(?:none|nothing) (?:yet|so far|to report)", words):
        return True
    if re.fullmatch(r"no (?:new )?(?:patterns|learnings|gotchas|issues|signs)(?: yet| so far| \w+)?", words):
        return True
    is_emphasized = text.strip()[0] in "*_" and text.strip()[-1] in "*_"
    return is_emphasized and words.startswith(("add ", "append ", "record ", "document ", "list ", "write "))


def kind_from_headings(headings: Iterable[str]) -> str:
    """Return the memory type that the first matching heading suggests."""
    for heading in headings:
        found = {match.lastgroup for match in _KIND.finditer(heading[:MAX_HEADING_CHARS])}
        for kind in _KIND_ORDER:
            if kind in found:
                return kind
    return "context"


def heading_tags(headings: Iterable[str]) -> tuple[str, ...]:
    """Return the distinctive words of headings, in lower case, for use as tags."""
    found: dict[str, None] = {}
    for heading in headings:
        # Redact before lowercasing, because secrets are not recognized in lower case.
        plain = sanitize(heading[:MAX_HEADING_CHARS]).replace(REDACTED, " ").lower().replace("’", "'")
        for match in _WORD.finditer(plain):
            word = match[0].strip(".'-")
            if 1 < len(word) <= 50 and word not in _STOP_WORDS and any(c.isalpha() for c in word):
                found[word] = None
    return tuple(found)[:MAX_HEADING_TAGS]


def find_date(text: str) -> str:
    """Return the first date of a line as a timestamp, or an empty string."""
    found = _DATE.search(text[:MAX_HEADING_CHARS])
    if not found:
        return ""
    year, month, day, clock, zone = found.groups()
    try:
        return parse_timestamp(f"{year}-{month}-{day}T{clock or '00:00'}{zone or ''}")
    except InvalidEntryError:
        return ""


class MemoryCollector:
    """Collector of the memories of a file, without duplicates, and its problems."""

    def __init__(self, at: str) -> None:
        self._at = at
        self._memories: dict[tuple[str, str], Memory] = {}
        self._unreadable: list[ReadProblem] = []

    def add(self, line: int, **fields: Any) -> None:
        """Add a memory, or a problem if it is invalid; the default title is the first words of the body."""
        try:
            memory = imported_memory(
                at=self._at, **fields | {"title": fields.get("title") or _default_title(fields["body"])}
            )
        except InvalidEntryError as error:
            self._unreadable.append(ReadProblem(line=line, why=f"The text that starts here was skipped: {error}."))
            return
        words = " ".join(memory.body.casefold().split()).rstrip(".")
        self._memories.setdefault((fields.get("title", "").casefold(), words), memory)

    def result(self, nothing: str) -> Reading:
        """Return the memories and problems; `nothing` is the problem reported if there are none."""
        if not self._memories and not self._unreadable:
            return (), (ReadProblem(line=1, why=nothing),)
        return tuple(self._memories.values()), tuple(self._unreadable)


def _default_title(text: str) -> str:
    first, _, more = text.partition("\n")
    return extract_title(
        (more if first.startswith(("```", "~~~")) else first)[: MAX_TITLE_LENGTH * 2].replace("**", "")
    )


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


def _is_generic(heading: str) -> bool:
    return all(word in GENERIC_HEADING_WORDS for word in re.findall(r"\w+", heading.lower()))


def _is_introduction(section: NotesSection) -> bool:
    """Return whether the text before the sections is more than a remark about the file."""
    paragraphs = [
        body
        for _, body in _paragraphs(section.rows)
        if not body.startswith(">") and not _META_REMARK.match(body) and not is_placeholder(body)
    ]
    return sum(len(body) for body in paragraphs) >= MIN_INTRODUCTION_CHARS


def _parts(section: NotesSection) -> list[str]:
    """Return the text of a section, split into parts if it is long; an empty list if there is none."""
    text = section.text()
    if not text:
        return []
    if _count_words(text) <= MAX_SECTION_WORDS:
        return [text]
    parts: list[str] = []
    rows: list[str] = []
    words = 0
    for block in _blocks(section.rows):
        size = _count_words("\n".join(block))
        if rows and words + size > MAX_SECTION_WORDS:
            parts.append("\n".join(rows).strip())
            rows, words = [], 0
        rows += block
        words += size
    return [*parts, "\n".join(rows).strip()]


def _count_words(text: str) -> int:
    return max(len(text.split()), len(text) // CHARS_PER_WORD)


def _blocks(rows: Iterable[Row]) -> Iterator[list[str]]:
    """Yield units that must not be split: top-level bullets and paragraphs, each with the line that introduces it."""
    block: list[str] = []
    top = 0
    is_introduction = False
    for item in parse_items(rows):
        if item.is_rule:
            continue
        is_nested = item.is_bullet and item.indent >= top + NESTING_COLUMNS
        if block and not is_nested and not is_introduction:
            yield block
            block = []
        if not is_nested:
            top = item.indent if item.is_bullet else 0
        block += ["", *item.rows] if item.after_blank else item.rows
        is_introduction = not item.is_bullet and item.rows[-1].rstrip().endswith(":")
    if block:
        yield block


def _paragraphs(rows: Iterable[Row]) -> Iterator[tuple[int, str]]:
    """Yield the line number and text of every paragraph, including the line that introduces it."""
    paragraph: list[str] = []
    line = 1
    for item in parse_items(rows):
        is_introduction = bool(paragraph) and paragraph[-1].rstrip().endswith(":")
        is_code = bool(match_fence(item.rows[0]))
        if paragraph and (item.is_rule or (item.after_blank and not is_introduction and not is_code)):
            yield line, "\n".join(paragraph).strip()
            paragraph = []
        if not item.is_rule:
            line = line if paragraph else item.line
            paragraph += item.rows
    if paragraph:
        yield line, "\n".join(paragraph).strip()


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


def indentation(row: str) -> int:
    """Return the indentation of a row, in columns."""
    space = row[: len(row) - len(row.lstrip(" \t"))]
    return len(space.expandtabs(TAB_COLUMNS)) if "\t" in space else len(space)


# --- rows ------------------------------------------------------------------------


def parse_rows(text: str) -> Iterator[Row]:
    """Yield every line except front matter and comments, with its type."""
    lines = unify_newlines(text).split("\n")
    fences, comments = _last_closing_lines(lines)
    closing = ""
    number = _front_matter_length(lines)
    while number < len(lines):
        row = lines[number]
        stripped = row.strip()
        number += 1
        if closing == "-->":
            closing = "" if "-->" in stripped else closing
        elif closing:
            yield number, row, CODE
            # The closing fence is at least as long as the opening one, with nothing after it.
            closing = "" if stripped.startswith(closing) and not stripped.strip(closing[0]) else closing
        elif stripped.startswith("<!--") and number <= comments:
            if "-->" not in stripped:
                closing = "-->"
            elif rest := stripped.partition("-->")[2].strip():
                yield number, rest, TEXT
        elif (fence := match_fence(row)) and fences.get(fence[1][:MAX_FENCE_LENGTH], 0) > number:
            yield number, row, CODE
            closing = fence[1]
        elif stripped and number < len(lines) and _is_underline(lines[number]) and not _BULLET.match(row):
            yield number, row, 1
            number += 1
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


def _last_closing_lines(lines: list[str]) -> tuple[dict[str, int], int]:
    """Return the last line that can close each kind of fence, and the last that can close a comment."""
    fences: dict[str, int] = {}
    comments = 0
    for number, row in enumerate(lines, start=1):
        if "-->" in row:
            comments = number
        if "```" in row or "~~~" in row:
            stripped = row.strip()
            if not stripped.strip(stripped[0]) and stripped[0] in "`~":
                for length in range(3, min(len(stripped), MAX_FENCE_LENGTH) + 1):
                    fences[stripped[0] * length] = number
    return fences, comments
