"""Read guardrails: "signs" that say what to do in a situation that once went wrong.

A sign is a heading `### Sign: Name` with fields (Trigger, Instruction, …) or a text
below it; files in use also number them, put them in bold, or write one on a line.
Signs shown in a code block count, templates with [placeholders] do not.
"""

from __future__ import annotations

import re

from ralph.formats.notes_md import (
    CODE,
    NESTING_COLUMNS,
    RULE,
    Gathering,
    date_in,
    heading_of,
    indent_of,
    is_placeholder,
    is_wrapped,
    items_in,
    joined,
    rows_of,
    what_is,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ralph.formats.imported import Reading
    from ralph.formats.notes_md import Row

TAG = "guardrail"
LONGEST_NAME = 100
"""Characters; a longer one is not the sign's name but what it says."""
LONGEST_START = 200
"""Characters of a row in which it shows whether a sign begins."""
TRIGGERS = ("trigger", "when", "pattern", "problem", "situation", "symptom")
INSTRUCTIONS = ("instruction", "do", "fix", "rule", "action", "mitigation", "solution", "instead")
FIELDS = frozenset(
    {*TRIGGERS, *INSTRUCTIONS, "added after", "added", "example", "examples", "source", "learned from", "reason", "why"}
)
"""What begins a field without being bold; with bold, any word does."""

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
_STEPS = re.compile(r"(?:[-*+•]|\d{1,3}[.)])[ \t]")
_ASIDE = re.compile(r"[ \t]*\([^()]{0,100}\)[ \t]*$")


def read_guardrails_md(text: str, at: str) -> Reading:
    """Give a memory for every sign, and what could not be read."""
    gathered = Gathering(at)
    add_signs(text, gathered, with_lists=True)
    return gathered.reading(
        "It holds no sign (`### Sign: Name` with Trigger and Instruction): there is nothing to import."
    )


def add_signs(text: str, gathered: Gathering, *, with_lists: bool = False) -> None:
    """Keep every sign that is a heading; `with_lists` also those on a line, and what stands in a list of signs."""
    for sign in _signs(_unfenced(rows_of(text)), with_lists):
        if sign.is_template():
            continue
        body = sign.body()
        is_named = bool(body) and 0 < len(sign.name) <= LONGEST_NAME
        gathered.add(
            sign.line,
            kind="constraint",
            title=sign.name if is_named else "",
            body=body if is_named else f"{sign.name}\n{body}".strip(),
            tags=(TAG,),
            created_at=sign.date(),
        )


def has_signs(text: str) -> bool:
    """Say whether the text has signs that say what to do, and not only in a code block."""
    return any(
        not sign.is_template() and (sign.has_fields() or len(sign.name) > LONGEST_NAME)
        for sign in _signs(rows_of(text), with_lists=True)
        if sign.column is None and not sign.is_listed
    )


def has_list_of_signs(text: str) -> bool:
    """Say whether the text has any sign at all, in whatever form."""
    return any(not sign.is_template() for sign in _signs(_unfenced(rows_of(text)), with_lists=True))


def sign_named(row: str) -> str | None:
    """Give the name of the sign that begins with this row, or None."""
    start = row[:LONGEST_START]
    found = _SIGN.match(start) if "sign" in start.lower() else None
    return row[found.end() :].strip().rstrip("#").strip().removesuffix("**").strip() if found else None


class _Sign:
    """A sign: where it begins, its name, and the rows below it."""

    __slots__ = ("_fields", "column", "is_listed", "level", "line", "name", "rows")

    def __init__(self, line: int, name: str, level: int, column: int | None = None, *, is_listed: bool = False) -> None:
        self.line = line
        self.name = name
        self.level = level
        self.column = column
        """Where the bullet stands, for a sign that is one in a list."""
        self.is_listed = is_listed
        """It is one only because it stands in a list of signs."""
        self.rows: list[Row] = []
        self._fields: list[tuple[str, str]] | None = None

    def fields(self) -> list[tuple[str, str]]:
        """Give labels and texts in order; a text without a label has an empty one."""
        if self._fields is None:
            self._fields = (
                [("", joined(list(items_in(self.rows))))] if self.column is not None else list(_fields(self.rows))
            )
        return self._fields

    def has_fields(self) -> bool:
        return any(label.lower() in (*TRIGGERS, *INSTRUCTIONS) for label, _ in self.fields())

    def is_template(self) -> bool:
        """Say whether the sign only shows how to write one."""
        if self.name and is_placeholder(self.name):
            return True
        texts = [text for label, text in self.fields() if label.lower() in (*TRIGGERS, *INSTRUCTIONS)]
        texts = texts or [text for _, text in self.fields()]
        return all(map(is_placeholder, texts)) if texts else self.is_listed or not self.name

    def body(self) -> str:
        """Give what the fields say in sentences: the situation and what to do first, then the rest."""
        fields = self.fields()
        trigger = next((one for one in fields if one[0].lower() in TRIGGERS), None)
        instruction = next((one for one in fields if one[0].lower() in INSTRUCTIONS), None)
        said: list[str] = []
        if trigger and instruction:
            situation = trigger[1].rstrip(" .:")
            space = "\n" if _STEPS.match(instruction[1]) else " "
            said.append(f"{situation[:1].upper()}{situation[1:]}:{space}{instruction[1]}")
            fields = [one for one in fields if one is not trigger and one is not instruction]
        said += [f"{label}: {text}" if label else text for label, text in fields if text]
        return "\n".join(map(_sentence, said))

    def date(self) -> str:
        return next(
            (date for label, text in self.fields() if label.lower().startswith("added") and (date := date_in(text))), ""
        )


def _signs(rows: Iterable[Row], with_lists: bool) -> Iterator[_Sign]:
    """Give the signs in order; each ends where the next begins, at a heading of its level, or at a rule."""
    sign: _Sign | None = None
    listed_at = 0
    """The level of the heading over a list of signs, or 0."""
    for line, row, level in rows:
        name = sign_named(row) if level > 0 or (with_lists and level != CODE) else None
        if name is not None:
            if sign:
                yield sign
            sign = _Sign(line, heading_of(name) if level > 0 else name, max(level, 0))
        elif level > 0 and sign and sign.column is None and 0 < sign.level < level:
            sign.rows.append((line, f"{heading_of(row)}:", 0))
        elif level > 0:
            if sign:
                yield sign
            sign = None
            heading = heading_of(row)
            if with_lists and listed_at and level == listed_at + 1:
                sign = _Sign(line, heading, level, is_listed=True)
            elif level <= listed_at or not listed_at:
                is_list = with_lists and level > 1 and _LIST_OF_SIGNS.fullmatch(_ASIDE.sub("", heading))
                listed_at = level if is_list else 0
        elif level == RULE:
            if sign:
                yield sign
            sign = None
        elif listed_at and (sign is None or sign.column is not None) and level != CODE and _opens_bullet(row, sign):
            if sign:
                yield sign
            sign = _Sign(line, "", 0, column=indent_of(row))
            sign.rows.append((line, row, level))
        elif sign:
            sign.rows.append((line, row, level))
    if sign:
        yield sign


def _opens_bullet(row: str, sign: _Sign | None) -> bool:
    column = indent_of(row)
    is_nested = sign is not None and sign.column is not None and column >= sign.column + NESTING_COLUMNS
    return not is_nested and row.lstrip(" \t")[:2] in ("- ", "* ", "+ ", "• ")


def _unfenced(rows: Iterable[Row]) -> Iterator[Row]:
    """Give the rows with those code blocks opened that show signs."""
    block: list[Row] = []
    for one in rows:
        if one[2] == CODE:
            block.append(one)
            continue
        yield from _opened(block)
        block = []
        yield one
    yield from _opened(block)


def _opened(block: list[Row]) -> list[Row]:
    if not any(sign_named(row) is not None for _, row, _ in block):
        return block
    # The fences become rules, so that a sign does not reach out of its block.
    return [(line, row, RULE if row.strip()[:3] in ("```", "~~~") else what_is(row)) for line, row, _ in block]


def _fields(rows: list[Row]) -> Iterator[tuple[str, str]]:
    """Give the labelled texts below a sign; what has no label has an empty one."""
    label = ""
    pieces: list[str] = []
    margin: int | None = None
    was_text = False
    for _, row, level in rows:
        found = _FIELD.match(row[:LONGEST_START]) if level != CODE else None
        column = indent_of(row)
        is_known = found and (found["bold"] or found["label"].strip().lower() in FIELDS)
        if found and is_known and (margin is None or column < margin + NESTING_COLUMNS):
            if text := "".join(pieces).strip():
                yield label, text
            margin = column if margin is None else min(margin, column)
            label = " ".join(found["label"].split()).capitalize()
            pieces = [row[found.end() :].strip()]
        elif margin is None:
            pieces.append(f"\n{row.rstrip()}")
        elif was_text and level != CODE and is_wrapped(row):
            pieces.append(f" {row.strip()}")
        else:
            pieces.append("\n" + " " * (column - margin - NESTING_COLUMNS) + row.strip())
        was_text = level != CODE and bool(row.strip())
    if text := "".join(pieces).strip():
        yield label, text


def _sentence(text: str) -> str:
    """Give the text with a full stop, where a sentence of one line lacks it."""
    return text + "." if "\n" not in text and (text[-1:].isalnum() or text[-1:] in "`)]\"'") else text
