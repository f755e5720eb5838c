"""Read notes people and agents keep in markdown: CLAUDE.md, AGENTS.md, memory files in free text.

Every section that holds text of its own is a memory. What stands in a code block is
never a heading, and a block or comment that does not end is text, so that one
forgotten fence cannot hide the rest of a file.
"""

from __future__ import annotations

import re

from ralph.formats.imported import InvalidEntryError, imported, moment_of
from ralph.formats.planned import Unreadable, unify_newlines
from ralph.markdown import fence_in
from ralph.memory.limits import LONGEST_TITLE
from ralph.text import REDACTED, accept, one_line, title_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from ralph.formats.imported import Reading
    from ralph.records import Memory

    Row = tuple[int, str, int]
    """The number of a line, its text, and what it is: `TEXT`, `CODE`, `RULE` or the level of a heading."""

TEXT, CODE, RULE = 0, -1, -2
TAB_COLUMNS = 4
NESTING_COLUMNS = 2
"""So much further right makes a bullet part of the one above."""
MOST_WORDS = 500
"""A longer section becomes several memories, because one alone would fill the room a prompt has for all."""
CHARACTERS_PER_WORD = 10
"""Where there are no spaces, so many characters count as a word."""
LEAST_INTRODUCTION = 20
"""Characters before the first section that make them worth keeping."""
LEAST_PROSE = 20
"""Letters in a paragraph of a file without headings."""
MOST_TAGS = 5
LONGEST_HEADING = 400
LONGEST_FENCE = 9
"""Longer ones are closed by this many marks as well, for the question whether anything closes them."""

GENERIC_HEADINGS = frozenset(
    "overview introduction intro summary notes note general details background basics purpose description usage "
    "example examples misc miscellaneous other others more info information context about setup key points "
    "important quick start getting started tips".split()
)
"""A heading of nothing but these words says too little without the one above it."""
_NOT_TELLING = GENERIC_HEADINGS | frozenset(
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
_PICTURE = re.compile(r"^[^\w`(\[<.$/@\"'~-]+")
_WORD = re.compile(r"[^\W_][\w.+#'-]*")
_DATE = re.compile(
    r"(?<!\d)(\d{4})[-/](\d\d)[-/](\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(?:\.\d{1,9})?[ ]?(Z|[+-]\d\d:?\d\d)?)?(?!\d)"
)
_PATH = re.compile(
    r"@?(?:[a-z][a-z0-9+.-]{1,20}://\S+"  # an address
    r"|(?:~|\.{1,2}|[A-Za-z]:)?[/\\](?:\S+|[^\n]*\.\w{1,8})"  # from the root, from home, from here
    r"|[\w.-]+(?:[/\\][\w.-]+)*\.\w{1,8})"  # a file's name, with folders or without
)
_CONTENTS = re.compile(r"(?:table of )?contents|toc", re.IGNORECASE)
_ABOUT_THE_FILE = re.compile(r"(?:this|the following) (?:file|document|guide|page)\b", re.IGNORECASE)


def read_notes_md(text: str, at: str) -> Reading:
    """Give a memory for every section of the notes, and what could not be read."""
    gathered = Gathering(at)
    if is_path(text):
        return gathered.reading("It holds nothing but a path: import that file instead.")
    sections = sections_of(text)
    if len(sections) == 1:
        for line, body in _paragraphs(sections[0].rows):
            if is_prose(body) and not is_placeholder(body):
                gathered.add(line, kind="context", body=body)
        return gathered.reading("It holds no section and no paragraph that could be remembered.")
    seen: dict[str, int] = {}
    for section in sections:
        seen[section.heading.lower()] = seen.get(section.heading.lower(), 0) + 1
    title = sections[1].heading if sections[1].level == 1 else ""
    for number, section in enumerate(sections):
        if _CONTENTS.fullmatch(section.heading):
            continue
        if number == 0 or (number == 1 and title):
            if not _is_introduction(section):
                continue
            heading = title
        else:
            heading = section.heading
            if section.above and (_is_generic(heading) or seen[heading.lower()] > 1):
                heading = ": ".join(filter(None, (section.above[-1], heading)))
        _remember(section, heading, title, gathered)
    return gathered.reading("It holds no section with a text that could be remembered.")


def _remember(section: Section, heading: str, title: str, gathered: Gathering) -> None:
    headings = [section.heading, *reversed(section.above)]
    telling = [one for one in headings if one != title] or headings
    parts = _parts(section)
    for number, body in enumerate(parts, start=1):
        if is_placeholder(body):
            continue
        ending = f" ({number}/{len(parts)})" if len(parts) > 1 else ""
        gathered.add(
            section.line,
            kind=kind_of_headings(headings),
            title=one_line(heading, LONGEST_TITLE - len(ending)) + ending if heading else "",
            body=body,
            tags=telling_words(telling),
            created_at=date_in(section.heading),
        )


def is_path(text: str) -> bool:
    """Say whether a file is only a pointer: one line, which names a file or an address."""
    line = text[:1000].removeprefix("\ufeff").strip()
    return len(text) < 1000 and "\n" not in line and bool(_PATH.fullmatch(line))


def is_prose(text: str) -> bool:
    """Say whether a text is words people read: enough letters, and spaces between them."""
    letters = sum(character.isalpha() for character in text[:2000])
    return letters >= LEAST_PROSE and (" " in text.strip() or not text[:2000].isascii())


def is_placeholder(text: str) -> bool:
    """Say whether a text only keeps a place free: `(add patterns here)`, `none`, `TBD`."""
    bare = text.strip().strip("*_").strip()
    if not any(character.isalnum() for character in bare):
        return True
    if len(bare) > LONGEST_HEADING:
        return False
    if bare[0] + bare[-1] in ("()", "[]", "<>", "{}") and not any(mark in bare[1:-1] for mark in ")]>}"):
        return True
    words = bare.lower().rstrip(".!").strip()
    if re.fullmatch(r"none|nothing|n/?a|tbd|todo|(?:none|nothing) (?:yet|so far|to report)", words):
        return True
    if re.fullmatch(r"no (?:new )?(?:patterns|learnings|gotchas|issues|signs)(?: yet| so far| \w+)?", words):
        return True
    is_emphasised = text.strip()[0] in "*_" and text.strip()[-1] in "*_"
    return is_emphasised and words.startswith(("add ", "append ", "record ", "document ", "list ", "write "))


def kind_of_headings(headings: Iterable[str]) -> str:
    """Give the kind that the first heading with a telling word stands for."""
    for heading in headings:
        found = {match.lastgroup for match in _KIND.finditer(heading[:LONGEST_HEADING])}
        for kind in _KIND_ORDER:
            if kind in found:
                return kind
    return "context"


def telling_words(headings: Iterable[str]) -> tuple[str, ...]:
    """Give the words of the headings that say what a section is about, in lower case."""
    found: dict[str, None] = {}
    for heading in headings:
        # Cleaned before it is made lower case: a key in small letters is no longer known as one.
        plain = accept(heading[:LONGEST_HEADING]).replace(REDACTED, " ").lower().replace("’", "'")
        for match in _WORD.finditer(plain):
            word = match[0].strip(".'-")
            if 1 < len(word) <= 50 and word not in _NOT_TELLING and any(c.isalpha() for c in word):
                found[word] = None
    return tuple(found)[:MOST_TAGS]


def date_in(text: str) -> str:
    """Give the first date of a line as a timestamp, or nothing."""
    found = _DATE.search(text[:LONGEST_HEADING])
    if not found:
        return ""
    year, month, day, clock, zone = found.groups()
    try:
        return moment_of(f"{year}-{month}-{day}T{clock or '00:00'}{zone or ''}")
    except InvalidEntryError:
        return ""


class Gathering:
    """What a reader has found so far: memories, each once, and what was left out."""

    def __init__(self, at: str) -> None:
        self._at = at
        self._memories: dict[tuple[str, str], Memory] = {}
        self._unreadable: list[Unreadable] = []

    def add(self, line: int, **fields: Any) -> None:
        """Keep a memory, or the reason why it cannot be one; without a title its first words are one."""
        try:
            memory = imported(at=self._at, **fields | {"title": fields.get("title") or _first_words(fields["body"])})
        except InvalidEntryError as error:
            self._unreadable.append(Unreadable(line=line, why=f"What starts here is left out: {error}."))
            return
        words = " ".join(memory.body.casefold().split()).rstrip(".")
        self._memories.setdefault((fields.get("title", "").casefold(), words), memory)

    def reading(self, nothing: str) -> Reading:
        """Give what was found; `nothing` is the sentence for a file in which there is nothing."""
        if not self._memories and not self._unreadable:
            return (), (Unreadable(line=1, why=nothing),)
        return tuple(self._memories.values()), tuple(self._unreadable)


def _first_words(text: str) -> str:
    first, _, more = text.partition("\n")
    return title_of((more if first.startswith(("```", "~~~")) else first)[: LONGEST_TITLE * 2].replace("**", ""))


# --- sections --------------------------------------------------------------------


class Section:
    """A heading with the rows that stand directly under it; the first has no heading."""

    __slots__ = ("above", "heading", "level", "line", "rows")

    def __init__(self, line: int, level: int, heading: str, above: tuple[str, ...]) -> None:
        self.line = line
        self.level = level
        self.heading = heading
        self.above = above
        """The headings it stands under, the outermost first."""
        self.rows: list[Row] = []

    def text(self) -> str:
        """Give the rows as one text, without the rules around it."""
        rows = self.rows
        first, last = 0, len(rows)
        while first < last and (rows[first][2] == RULE or not rows[first][1].strip()):
            first += 1
        while last > first and (rows[last - 1][2] == RULE or not rows[last - 1][1].strip()):
            last -= 1
        return "\n".join(text.rstrip() for _, text, _ in rows[first:last])


def sections_of(text: str) -> list[Section]:
    """Give the sections in order; the first is what stands before any heading."""
    sections = [Section(1, 0, "", ())]
    path: list[Section] = []
    for line, row, level in rows_of(text):
        if level <= 0:
            sections[-1].rows.append((line, row, level))
            continue
        while path and path[-1].level >= level:
            path.pop()
        section = Section(line, level, heading_of(row), tuple(one.heading for one in path if one.heading))
        path.append(section)
        sections.append(section)
    return sections


def heading_of(row: str) -> str:
    """Give a heading's words: without marks, numbering, emphasis, links and pictures."""
    text = row.strip()[: LONGEST_HEADING * 2].lstrip("#").strip()
    if (closed := text.rstrip("#")) != text and (not closed or closed[-1] in " \t"):
        text = closed.strip()
    text = _LINK.sub(r"\1", text).replace("**", "")
    if len(text) > 2 and text[0] in "*_" and text[-1] == text[0]:
        text = text.strip(text[0])
    text = _PICTURE.sub("", text)
    return " ".join(_NUMBERING.sub("", text, count=1).split())[:LONGEST_HEADING]


def _is_generic(heading: str) -> bool:
    return all(word in GENERIC_HEADINGS for word in re.findall(r"\w+", heading.lower()))


def _is_introduction(section: Section) -> bool:
    """Say whether the text above the sections is more than a word about the file itself."""
    real = [
        body
        for _, body in _paragraphs(section.rows)
        if not body.startswith(">") and not _ABOUT_THE_FILE.match(body) and not is_placeholder(body)
    ]
    return sum(len(body) for body in real) >= LEAST_INTRODUCTION


def _parts(section: Section) -> list[str]:
    """Give the section's text, in several parts when it is long; none when it says nothing."""
    text = section.text()
    if not text:
        return []
    if _words(text) <= MOST_WORDS:
        return [text]
    parts: list[str] = []
    rows: list[str] = []
    words = 0
    for block in _blocks(section.rows):
        size = _words("\n".join(block))
        if rows and words + size > MOST_WORDS:
            parts.append("\n".join(rows).strip())
            rows, words = [], 0
        rows += block
        words += size
    return [*parts, "\n".join(rows).strip()]


def _words(text: str) -> int:
    return max(len(text.split()), len(text) // CHARACTERS_PER_WORD)


def _blocks(rows: Iterable[Row]) -> Iterator[list[str]]:
    """Give what may stand alone: top bullets with all below them, paragraphs, each with the line that leads to it."""
    block: list[str] = []
    top = 0
    is_lead = False
    for item in items_in(rows):
        if item.is_rule:
            continue
        is_nested = item.is_bullet and item.indent >= top + NESTING_COLUMNS
        if block and not is_nested and not is_lead:
            yield block
            block = []
        if not is_nested:
            top = item.indent if item.is_bullet else 0
        block += ["", *item.rows] if item.after_blank else item.rows
        is_lead = not item.is_bullet and item.rows[-1].rstrip().endswith(":")
    if block:
        yield block


def _paragraphs(rows: Iterable[Row]) -> Iterator[tuple[int, str]]:
    """Give what blank lines part, each with the line that leads to it and after the number of its first."""
    paragraph: list[str] = []
    line = 1
    for item in items_in(rows):
        is_lead = bool(paragraph) and paragraph[-1].rstrip().endswith(":")
        is_code = bool(fence_in(item.rows[0]))
        if paragraph and (item.is_rule or (item.after_blank and not is_lead and not is_code)):
            yield line, "\n".join(paragraph).strip()
            paragraph = []
        if not item.is_rule:
            line = line if paragraph else item.line
            paragraph += item.rows
    if paragraph:
        yield line, "\n".join(paragraph).strip()


# --- items -----------------------------------------------------------------------


class Item:
    """A bullet or a paragraph, with the rows that continue it; a nested bullet is an item of its own."""

    __slots__ = ("after_blank", "indent", "is_bullet", "is_rule", "line", "rows")

    def __init__(self, line: int, row: str, is_bullet: bool, after_blank: bool) -> None:
        self.line = line
        self.indent = indent_of(row)
        self.is_bullet = is_bullet
        self.is_rule = False
        self.after_blank = after_blank
        self.rows = [row]

    def text(self) -> str:
        """Give its words without the bullet and without the margin."""
        return joined([self])


def items_in(rows: Iterable[Row]) -> Iterator[Item]:
    """Give the bullets and paragraphs of a section, and the rules between them."""
    item: Item | None = None
    after_blank = False
    for line, row, level in rows:
        if level == RULE:
            if item:
                yield item
            rule = Item(line, row, False, after_blank)
            rule.is_rule = True
            yield rule
            item, after_blank = None, True
            continue
        if level != CODE and not row.strip():
            after_blank = True
            continue
        is_bullet = level != CODE and bool(_BULLET.match(row))
        is_outside = indent_of(row) <= (item.indent if item else 0)
        # A bold word to the left of a list opens something new, even without a blank line before it.
        is_next = is_outside and (
            after_blank or (item is not None and item.is_bullet and row.lstrip().startswith("**"))
        )
        if item and not is_bullet and not is_next:
            item.rows += ["", row] if after_blank else [row]
        else:
            if item:
                yield item
            item = Item(line, row, is_bullet, after_blank)
        after_blank = False
    if item:
        yield item


def joined(items: list[Item]) -> str:
    """Give an item's words, on one line where they were only wrapped, with the items nested in it moved left."""
    first = items[0]
    head = first.rows[0]
    found = _BULLET.match(head) if first.is_bullet else None
    words = [head[found.end() :].strip() if found else head.strip()]
    is_code = words[0].startswith(("```", "~~~"))
    while not is_code and len(words) < len(first.rows) and is_wrapped(first.rows[len(words)]):
        words.append(first.rows[len(words)].strip())
    margin = first.indent + (NESTING_COLUMNS if found else 0)
    rows = [*first.rows[len(words) :], *(row for item in items[1:] for row in item.rows)]
    return "\n".join([" ".join(words), *(_outdent(row, margin) for row in rows)]).strip()


def is_wrapped(row: str) -> bool:
    """Say whether a row only goes on with the words of the one above, and is no code, table or quote."""
    is_block = row.lstrip()[:1] in ("|", ">", "<") or row.lstrip()[:3] in ("```", "~~~") or bool(_BULLET.match(row))
    return bool(row.strip()) and not is_block and not row.endswith("  ")


def _outdent(row: str, columns: int) -> str:
    space = indent_of(row)
    return (" " * max(0, space - columns) + row.lstrip(" \t")).rstrip()


def indent_of(row: str) -> int:
    """Give the column at which a row's text begins."""
    space = row[: len(row) - len(row.lstrip(" \t"))]
    return len(space.expandtabs(TAB_COLUMNS)) if "\t" in space else len(space)


# --- rows ------------------------------------------------------------------------


def rows_of(text: str) -> Iterator[Row]:
    """Give every line but front matter and comments, with what it is."""
    lines = unify_newlines(text).split("\n")
    fences, comments = _last_ends(lines)
    closing = ""
    number = _front_matter(lines)
    while number < len(lines):
        row = lines[number]
        bare = row.strip()
        number += 1
        if closing == "-->":
            closing = "" if "-->" in bare else closing
        elif closing:
            yield number, row, CODE
            # A fence is closed by one at least as long, with nothing after it.
            closing = "" if bare.startswith(closing) and not bare.strip(closing[0]) else closing
        elif bare.startswith("<!--") and number <= comments:
            if "-->" not in bare:
                closing = "-->"
            elif rest := bare.partition("-->")[2].strip():
                yield number, rest, TEXT
        elif (fence := fence_in(row)) and fences.get(fence[1][:LONGEST_FENCE], 0) > number:
            yield number, row, CODE
            closing = fence[1]
        elif bare and number < len(lines) and _is_underline(lines[number]) and not _BULLET.match(row):
            yield number, row, 1
            number += 1
        else:
            yield number, row, what_is(row)


def what_is(row: str) -> int:
    """Give the level of a heading, or `RULE`, or `TEXT`."""
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


def _front_matter(lines: list[str]) -> int:
    """Give how many lines of fields stand at the top, with the rules around them."""
    if lines[0].rstrip() != "---" or len(lines) < 2 or not _FIELD.match(lines[1]):
        return 0
    return next((number + 1 for number in range(1, len(lines)) if lines[number].rstrip() in ("---", "...")), 0)


def _last_ends(lines: list[str]) -> tuple[dict[str, int], int]:
    """Give the last lines that can close a fence of each length, and a comment."""
    fences: dict[str, int] = {}
    comments = 0
    for number, row in enumerate(lines, start=1):
        if "-->" in row:
            comments = number
        if "```" in row or "~~~" in row:
            bare = row.strip()
            if not bare.strip(bare[0]) and bare[0] in "`~":
                for length in range(3, min(len(bare), LONGEST_FENCE) + 1):
                    fences[bare[0] * length] = number
    return fences, comments
