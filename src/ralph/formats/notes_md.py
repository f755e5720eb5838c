"""Reader of free-form markdown notes such as CLAUDE.md and AGENTS.md.

Every section with text of its own becomes a memory. Lines in code blocks are never headings, and a code block or
comment that never ends is treated as text, so that a forgotten fence does not hide the rest of the file.
"""

from __future__ import annotations

import re

from ralph.core.limits import MAX_TITLE_LENGTH
from ralph.core.markdown import NESTING_COLUMNS, match_fence
from ralph.core.redaction import REDACTED
from ralph.core.text import extract_title, one_line, sanitize
from ralph.formats.imported import InvalidEntryError, imported_memory, parse_timestamp
from ralph.formats.markdown_sections import MAX_HEADING_CHARS, parse_items, parse_sections
from ralph.formats.planned import ReadProblem, quote_excerpt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from ralph.core.records import Memory
    from ralph.formats.detection import FileSample
    from ralph.formats.imported import Reading
    from ralph.formats.markdown_sections import NotesSection, Row

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


def is_notes_md(sample: FileSample) -> bool:
    """Return whether a file has sections, prose or the path of another file."""
    if not sample.sections:
        return False
    return bool(sample.title) or is_pointer(sample.text) or any(map(is_prose, sample.text.split("\n\n")))


def read_notes_md(text: str, at: str) -> Reading:
    """Return a memory for every section of the notes, and the problems."""
    text = sanitize(text)
    collector = MemoryCollector(at)
    if is_pointer(text):
        return collector.result("Nothing to import: the file only contains a path. Import that file instead.")
    sections = parse_sections(text)
    if len(sections) == 1:
        for line, body in _paragraphs(sections[0].rows):
            if is_prose(body) and not is_placeholder(body):
                collector.add(line, kind="context", content=body)
            elif not is_placeholder(body):
                collector.skip(line, body, "it is too short to be a sentence")
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
        if section.text():
            _add_section(section, heading, title, collector)
        elif section.level and (number + 1 == len(sections) or sections[number + 1].level <= section.level):
            collector.skip(section.line, section.heading, "it has no text", is_remark=True)
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
            content=body,
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
        self._memories: dict[tuple[str, str], tuple[int, Memory]] = {}
        self._problems: list[ReadProblem] = []
        self._has_invalid = False
        self._lines: set[int] = set()
        """Lines of everything that was added, skipped or passed over."""

    def add(self, line: int, **fields: Any) -> None:
        """Add a memory, or a problem if it is invalid; the default title is the first words of the body."""
        self._lines.add(line)
        try:
            memory = imported_memory(
                at=self._at, **fields | {"title": fields.get("title") or _default_title(fields["content"])}
            )
        except InvalidEntryError as error:
            self._has_invalid = True
            self._problems.append(ReadProblem(line=line, why=f"The text that starts here was skipped: {error}."))
            return
        words = " ".join(memory.content.casefold().split()).rstrip(".")
        first, _ = self._memories.setdefault((fields.get("title", "").casefold(), words), (line, memory))
        if first != line:
            why = f"The same as line {first}, so it was imported once."
            self._problems.append(ReadProblem(line=line, why=why, was_read=True))

    def skip(self, line: int, text: str, why: str, *, is_remark: bool = False) -> None:
        """Name a text that is not imported; a remark is no entry that somebody would miss."""
        self._lines.add(line)
        self._problems.append(ReadProblem(line=line, why=f"Left out {quote_excerpt(text)}: {why}.", was_read=is_remark))

    def pass_over(self, lines: Iterable[int]) -> None:
        """Take note of lines that are no entry: placeholders, or what belongs to something added or named elsewhere."""
        self._lines.update(lines)

    def skip_rest(self, sections: Iterable[NotesSection], why: str) -> None:
        """Name every section with text of which nothing was added, named or passed over."""
        for section in sections:
            items = [item for item in parse_items(section.rows) if not item.is_rule and not is_placeholder(item.text())]
            if items and self._lines.isdisjoint([section.line, *(line for line, _, _ in section.rows)]):
                line, text = (section.line, section.heading) if section.heading else (items[0].line, items[0].text())
                self.skip(line, text, why)

    def result(self, nothing: str) -> Reading:
        """Return the memories and problems; `nothing` is the problem reported if there are none."""
        problems = sorted(self._problems, key=lambda problem: problem.line)
        if not self._memories and not self._has_invalid:
            return (), (ReadProblem(line=1, why=nothing),)
        return tuple(memory for _, memory in self._memories.values()), tuple(problems)


def _default_title(text: str) -> str:
    first, _, more = text.partition("\n")
    return extract_title(
        (more if first.startswith(("```", "~~~")) else first)[: MAX_TITLE_LENGTH * 2].replace("**", "")
    )


# --- sections --------------------------------------------------------------------


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
