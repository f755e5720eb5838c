"""Parts of a long text: its table of contents, and which of them matter for a task. Pure."""

from __future__ import annotations

import re
from itertools import groupby

from ralph.core.markdown import find_code_blocks
from ralph.core.records import record
from ralph.core.text import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

PART_CHARACTERS = 2_000
"""Length above which a section is divided into several parts, in characters."""
TITLE_CHARACTERS = 70
"""Maximum length of an entry of the contents, in characters."""
MAX_ENTRIES = 40
"""Maximum number of entries of the contents."""
FIRST_VALUE = 0.4
"""Value of the beginning of a text, which says what it is about."""

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*\S)")
_UNDERLINE = re.compile(r" {0,3}(?:={2,}|-{2,})[ \t]*")


@record
class TextPart:
    """A section of a text, or a piece of one that is long."""

    number: int
    level: int
    """Level of its heading, from 1; that of the section above for what has no heading of its own."""
    title: str
    text: str
    """The part as it stands in the text; all parts in order are the whole text."""


def split_parts(text: str, first: int = 1) -> list[TextPart]:
    """Return the parts of a text in order, numbered from `first`; code blocks stay whole where they fit."""
    parts: list[TextPart] = []
    for level, title, section in _sections(text):
        for n, piece in enumerate(_pieces(section)):
            name = title or one_line(piece, TITLE_CHARACTERS)
            name = f"{name} (continued)" if n and title else name
            parts.append(TextPart(number=first + len(parts), level=level, title=name, text=piece))
    return parts


def choose_parts(parts: Sequence[TextPart], query: str, room: int) -> set[int]:
    """Return the numbers of the parts that matter most for a query and fit into a number of characters."""
    from ralph.core.tokenize import tokenize
    from ralph.memory.recall.excerpts import LENGTH_EXPONENT, sentence_value, word_weights

    weights = word_weights([part.text for part in parts], set(tokenize(query)))
    values = {part.number: sentence_value(f"{part.title}\n{part.text}", weights, None) for part in parts}
    if parts:
        values[parts[0].number] += FIRST_VALUE
    chosen: set[int] = set()
    for part in sorted(parts, key=lambda one: -values[one.number] / max(1, len(one.text)) ** LENGTH_EXPONENT):
        if len(part.text) <= room:
            room -= len(part.text)
            chosen.add(part.number)
    return chosen


def contents(parts: Sequence[TextPart], shown: Collection[int]) -> list[str]:
    """Return a line for each part; shown ones are marked.

    If there are too many, shown ones that follow each other have one line, deep ones are left out, and then the last.
    """
    runs: list[list[TextPart]] = [[part] for part in parts]
    if len(runs) > MAX_ENTRIES:
        runs = [
            one for is_shown, run in _runs(parts, shown) for one in ([run] if is_shown else ([part] for part in run))
        ]
    for level in range(6, 1, -1):
        fewer = [run for run in runs if run[0].level < level or run[0].number in shown]
        if len(runs) > MAX_ENTRIES and any(run[0].number not in shown for run in fewer):
            runs = fewer
    lines = [_entry(run, is_shown=run[0].number in shown) for run in runs[:MAX_ENTRIES]]
    left_out = len(parts) - sum(map(len, runs[:MAX_ENTRIES]))
    return [*lines, f"… and {left_out} more, up to {parts[-1].number}"] if left_out else lines


def _entry(run: Sequence[TextPart], *, is_shown: bool) -> str:
    first, last = run[0], run[-1]
    numbers = f"{first.number}" if first is last else f"{first.number}-{last.number}"
    titles = " … ".join(one_line(part.title, TITLE_CHARACTERS) for part in dict.fromkeys((first, last)))
    return f"{numbers}. {'  ' * (first.level - 1)}{titles}{' [below]' if is_shown else ''}"


def shown_runs(parts: Sequence[TextPart], shown: Collection[int]) -> Iterator[list[TextPart]]:
    """Yield the shown parts, those that follow each other together."""
    return (run for is_shown, run in _runs(parts, shown) if is_shown)


def _runs(parts: Sequence[TextPart], shown: Collection[int]) -> Iterator[tuple[bool, list[TextPart]]]:
    """Yield parts that follow each other and are all shown, or all not, together."""
    return ((is_shown, list(run)) for is_shown, run in groupby(parts, lambda part: part.number in shown))


def _sections(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the level, the title and the text of each section; the title is empty for what precedes all headings."""
    rows = text.split("\n")
    code = {row for block in find_code_blocks(rows)[0] for row in block}
    start, level, title = 0, 1, ""
    for row in range(len(rows)):
        if row in code or not (found := _heading(rows, row, code)):
            continue
        if row > start and "".join(rows[start:row]).strip():
            yield level, title, "\n".join(rows[start:row]) + "\n"
            start = row
        level, title = found
    yield level, title, "\n".join(rows[start:])


def _heading(rows: Sequence[str], row: int, code: Collection[int]) -> tuple[int, str] | None:
    if found := _HEADING.fullmatch(rows[row]):
        return len(found[1]), found[2].rstrip("# ")
    below = row + 1
    is_title = bool(rows[row].strip()) and below < len(rows) and below not in code
    if is_title and _UNDERLINE.fullmatch(rows[below]) and not (row and rows[row - 1].strip()):
        return (1 if "=" in rows[below] else 2), rows[row].strip()
    return None


def _pieces(section: str) -> list[str]:
    """Return a long section in pieces: of paragraphs, of lines where one is too long, else cut anywhere."""
    if len(section) <= PART_CHARACTERS:
        return [section]
    return _packed(piece for paragraph in _paragraphs(section) for piece in _bounded(paragraph))


def _paragraphs(section: str) -> Iterator[str]:
    """Yield paragraphs with the blank lines below them; a code block is part of one paragraph."""
    rows = section.split("\n")
    code = {row for block in find_code_blocks(rows)[0] for row in block}
    start = 0
    for row in range(1, len(rows)):
        is_in_code = row in code and row - 1 in code
        if rows[row].strip() and not rows[row - 1].strip() and not is_in_code:
            yield "\n".join(rows[start:row]) + "\n"
            start = row
    yield "\n".join(rows[start:])


def _bounded(paragraph: str) -> Iterable[str]:
    """Return a paragraph in pieces that are at most twice as long as a part."""
    if len(paragraph) <= 2 * PART_CHARACTERS:
        return [paragraph]
    lines = paragraph.splitlines(keepends=True)
    return _packed(line[at : at + PART_CHARACTERS] for line in lines for at in range(0, len(line), PART_CHARACTERS))


def _packed(pieces: Iterable[str]) -> list[str]:
    """Join pieces that follow each other as long as they fit into a part."""
    packed = [""]
    for piece in pieces:
        if packed[-1] and len(packed[-1]) + len(piece) > PART_CHARACTERS:
            packed.append(piece)
        else:
            packed[-1] += piece
    return packed
