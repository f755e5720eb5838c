"""Reader of guardrails: "signs" that describe what to do in a situation that went wrong before.

A sign is a heading `### Sign: Name` with fields (Trigger, Instruction, …) or text below it. Real files also number
signs, write them in bold or as a single line. Signs in code blocks count, templates with [placeholders] do not.
"""

from __future__ import annotations

import re

from ralph.core.markdown import CODE, NESTING_COLUMNS, indentation
from ralph.core.text import sanitize
from ralph.formats.markdown_sections import (
    RULE,
    heading_text,
    is_continuation,
    item_text,
    parse_items,
    parse_rows,
    parse_sections,
    row_type,
)
from ralph.formats.notes_md import MemoryCollector, find_date, is_placeholder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ralph.formats.detection import FileSample
    from ralph.formats.imported import Reading
    from ralph.formats.markdown_sections import Row

GUARDRAIL_TAG = "guardrail"
"""Tag of all imported guardrails."""
MAX_SIGN_NAME_CHARS = 100
"""Maximum length of the name of a sign, in characters; a longer one is part of the text."""
MAX_LABEL_SEARCH_CHARS = 200
"""Number of characters of a row that are searched for a sign or field label."""
TRIGGER_LABELS = ("trigger", "when", "pattern", "problem", "situation", "symptom")
INSTRUCTION_LABELS = ("instruction", "do", "fix", "rule", "action", "mitigation", "solution", "instead")
FIELD_LABELS = frozenset(
    {
        *TRIGGER_LABELS,
        *INSTRUCTION_LABELS,
        "added after",
        "added",
        "example",
        "examples",
        "source",
        "learned from",
        "reason",
        "why",
    }
)
"""Labels that start a field even if they are not bold."""

_SIGN = re.compile(
    r"[\W_]*(?:\d{1,4}[.)]?[\W_]+)?sign(?:[ \t]*[-#]?[ \t]*\d{1,4}[ \t]*(?P<number>[-–—.])?)?"
    r"(?:\*\*|__)?(?(number)|[ \t]*[:：])(?:\*\*|__)?[ \t]*",
    re.IGNORECASE,
)
_FIELD = re.compile(
    r"[ \t]*(?:[-*+•][ \t]+)?(?P<bold>\*\*|__)?(?P<label>[A-Za-z][A-Za-z' /]{0,30})(?:\*\*|__)?"
    r"[ \t]*[:：](?:\*\*|__)?[ \t]*"
)
_LIST_OF_SIGNS = re.compile(
    r"(?!(?:when|how|what|types?|kinds?|about|add|adding)\b)(?:.{0,60}[\s-])?(?:signs|guardrails)", re.IGNORECASE
)
_LIST_ITEM = re.compile(r"(?:[-*+•]|\d{1,3}[.)])[ \t]")
_PARENTHESIS = re.compile(r"[ \t]*\([^()]{0,100}\)[ \t]*$")


def is_guardrails_md(sample: FileSample) -> bool:
    """Return whether a file has signs with instructions, or any sign and a name that says so."""
    if not sample.sections:
        return False
    is_named = "guardrail" in sample.title or "guardrail" in sample.name.lower()
    return has_signs(sample.text) or (is_named and has_any_sign(sample.text))


def read_guardrails_md(text: str, at: str) -> Reading:
    """Return a memory for every sign, and the problems."""
    collector = MemoryCollector(at)
    text = sanitize(text)
    add_signs(text, collector, include_lists=True)
    title, sections = parse_sections(text)[:2], parse_sections(text)[2:]
    lists = [one for one in title if any(_opens_bullet(row, None) for _, row, _ in one.rows)]
    collector.skip_rest([*lists, *sections], "it has no sign")
    return collector.result("Nothing to import: no sign (`### Sign: Name` with Trigger and Instruction) found.")


def add_signs(text: str, collector: MemoryCollector, *, include_lists: bool = False) -> None:
    """Add every sign that is a heading; with `with_lists`, also single-line signs and items of lists of signs."""
    for sign in _signs(_unfence(parse_rows(text)), include_lists):
        collector.pass_over([sign.line, *(line for line, _, _ in sign.rows)])
        if sign.is_template():
            continue
        body = sign.body()
        is_named = bool(body) and 0 < len(sign.name) <= MAX_SIGN_NAME_CHARS
        collector.add(
            sign.line,
            kind="constraint",
            title=sign.name if is_named else "",
            content=body if is_named else f"{sign.name}\n{body}".strip(),
            tags=(GUARDRAIL_TAG,),
            created_at=sign.date(),
        )


def has_signs(text: str) -> bool:
    """Return whether the text has signs with instructions outside code blocks."""
    return any(
        not sign.is_template() and (sign.has_fields() or len(sign.name) > MAX_SIGN_NAME_CHARS)
        for sign in _signs(parse_rows(text), with_lists=True)
        if sign.column is None and not sign.is_listed
    )


def has_any_sign(text: str) -> bool:
    """Return whether the text has a sign in any form."""
    return any(not sign.is_template() for sign in _signs(_unfence(parse_rows(text)), with_lists=True))


def sign_name(row: str) -> str | None:
    """Return the name of the sign that starts in this row, or None."""
    start = row[:MAX_LABEL_SEARCH_CHARS]
    found = _SIGN.match(start) if "sign" in start.lower() else None
    return row[found.end() :].strip().rstrip("#").strip().removesuffix("**").strip() if found else None


class _Sign:
    """A sign and the rows below it."""

    __slots__ = ("_fields", "column", "is_listed", "level", "line", "name", "rows")

    def __init__(self, line: int, name: str, level: int, column: int | None = None, *, is_listed: bool = False) -> None:
        self.line = line
        self.name = name
        self.level = level
        self.column = column
        """Indentation of the bullet, for a sign that is a list item."""
        self.is_listed = is_listed
        """Whether it counts as a sign only because it is in a list of signs."""
        self.rows: list[Row] = []
        self._fields: list[tuple[str, str]] | None = None

    def fields(self) -> list[tuple[str, str]]:
        """Return labels and texts in order, with an empty label for unlabeled text."""
        if self._fields is None:
            self._fields = (
                [("", item_text(list(parse_items(self.rows))))] if self.column is not None else list(_fields(self.rows))
            )
        return self._fields

    def has_fields(self) -> bool:
        return any(label.lower() in (*TRIGGER_LABELS, *INSTRUCTION_LABELS) for label, _ in self.fields())

    def is_template(self) -> bool:
        """Return whether the sign only has placeholders."""
        if self.name and is_placeholder(self.name):
            return True
        texts = [text for label, text in self.fields() if label.lower() in (*TRIGGER_LABELS, *INSTRUCTION_LABELS)]
        texts = texts or [text for _, text in self.fields()]
        return all(map(is_placeholder, texts)) if texts else self.is_listed or not self.name

    def body(self) -> str:
        """Return the fields as sentences, starting with trigger and instruction."""
        fields = self.fields()
        trigger = next((field for field in fields if field[0].lower() in TRIGGER_LABELS), None)
        instruction = next((field for field in fields if field[0].lower() in INSTRUCTION_LABELS), None)
        sentences: list[str] = []
        if trigger and instruction:
            trigger_text = trigger[1].rstrip(" .:")
            space = "\n" if _LIST_ITEM.match(instruction[1]) else " "
            sentences.append(f"{trigger_text[:1].upper()}{trigger_text[1:]}:{space}{instruction[1]}")
            fields = [field for field in fields if field is not trigger and field is not instruction]
        sentences += [f"{label}: {text}" if label else text for label, text in fields if text]
        return "\n".join(map(_sentence, sentences))

    def date(self) -> str:
        return next(
            (date for label, text in self.fields() if label.lower().startswith("added") and (date := find_date(text))),
            "",
        )


def _signs(rows: Iterable[Row], with_lists: bool) -> Iterator[_Sign]:
    """Yield the signs in order; a sign ends at the next sign, a heading of its level or a horizontal rule."""
    sign: _Sign | None = None
    listed_at = 0
    """Level of the heading of the current list of signs, or 0."""
    for line, row, level in rows:
        name = sign_name(row) if level > 0 or (with_lists and level != CODE) else None
        if name is not None:
            if sign:
                yield sign
            sign = _Sign(line, heading_text(name) if level > 0 else name, max(level, 0))
        elif level > 0 and sign and sign.column is None and 0 < sign.level < level:
            sign.rows.append((line, f"{heading_text(row)}:", 0))
        elif level > 0:
            if sign:
                yield sign
            sign = None
            heading = heading_text(row)
            if with_lists and listed_at and level == listed_at + 1:
                sign = _Sign(line, heading, level, is_listed=True)
            elif level <= listed_at or not listed_at:
                is_list = with_lists and level > 1 and _LIST_OF_SIGNS.fullmatch(_PARENTHESIS.sub("", heading))
                listed_at = level if is_list else 0
        elif level == RULE:
            if sign:
                yield sign
            sign = None
        elif listed_at and (sign is None or sign.column is not None) and level != CODE and _opens_bullet(row, sign):
            if sign:
                yield sign
            sign = _Sign(line, "", 0, column=indentation(row))
            sign.rows.append((line, row, level))
        elif sign:
            sign.rows.append((line, row, level))
    if sign:
        yield sign


def _opens_bullet(row: str, sign: _Sign | None) -> bool:
    column = indentation(row)
    is_nested = sign is not None and sign.column is not None and column >= sign.column + NESTING_COLUMNS
    return not is_nested and row.lstrip(" \t")[:2] in ("- ", "* ", "+ ", "• ")


def _unfence(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows, with code blocks that contain signs treated as text."""
    block: list[Row] = []
    for row in rows:
        if row[2] == CODE:
            block.append(row)
            continue
        yield from _unfence_block(block)
        block = []
        yield row
    yield from _unfence_block(block)


def _unfence_block(block: list[Row]) -> list[Row]:
    if not any(sign_name(row) is not None for _, row, _ in block):
        return block
    # The fences become rules, so that a sign ends with its block.
    return [(line, row, RULE if row.strip()[:3] in ("```", "~~~") else row_type(row)) for line, row, _ in block]


def _fields(rows: list[Row]) -> Iterator[tuple[str, str]]:
    """Yield the labels and texts below a sign, with an empty label for unlabeled text."""
    label = ""
    pieces: list[str] = []
    margin: int | None = None
    was_text = False
    for _, row, level in rows:
        found = _FIELD.match(row[:MAX_LABEL_SEARCH_CHARS]) if level != CODE else None
        column = indentation(row)
        is_field = found and (found["bold"] or found["label"].strip().lower() in FIELD_LABELS)
        if found and is_field and (margin is None or column < margin + NESTING_COLUMNS):
            if text := "".join(pieces).strip():
                yield label, text
            margin = column if margin is None else min(margin, column)
            label = " ".join(found["label"].split()).capitalize()
            pieces = [row[found.end() :].strip()]
        elif margin is None:
            pieces.append(f"\n{row.rstrip()}")
        elif was_text and level != CODE and is_continuation(row):
            pieces.append(f" {row.strip()}")
        else:
            pieces.append("\n" + " " * (column - margin - NESTING_COLUMNS) + row.strip())
        was_text = level != CODE and bool(row.strip())
    if text := "".join(pieces).strip():
        yield label, text


def _sentence(text: str) -> str:
    """Add a missing period to a single-line sentence."""
    return text + "." if "\n" not in text and (text[-1:].isalnum() or text[-1:] in "`)]\"'") else text
