"""What the detectors of the file formats look at.

The format is detected from the content. The file name only decides between two possible formats, because people rename
files, and backups end in `.bak`.
"""

from __future__ import annotations

import json
import re
from functools import cached_property

from ralph.core.records import record
from ralph.formats.planned import unify_newlines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ralph.formats.markdown_sections import NotesSection

MAX_BINARY_RATIO = 0.05
"""Maximum share of control and replacement characters in a text file."""
DETECTION_CHARS = 100_000
"""Number of characters inspected to detect the format."""
DETECTION_LINES = 100
"""Number of lines inspected if the first one is damaged."""
MAX_NOTES_CHARS = 20_000_000
"""Maximum length of Markdown notes, in characters; only `memories.md` may be longer."""

_JSON = re.compile(r"\s*(?:\{\s*[\"}]|\[\s*[\[\]{\"])")
_COMMENTED_JSON = re.compile(r"(?>(?:[ \t]*(?:(?:#|//)[^\n]*)?\n)*)(?=[ \t]*(?:\{[ \t]*\"|\[\s*\{))")
"""Comments above JSON lines of tasks."""
_LIST = re.compile(r"\"(learnings|staged|memories)\"\s{0,9}:\s{0,9}\[")
_MARKUP = re.compile(r"\s*<(?:!doctype|\?xml|html|svg)\b", re.IGNORECASE)


@record
class DatabaseSample:
    """The tables of a SQLite file, by which its format is detected."""

    name: str
    columns: Mapping[str, frozenset[str]]
    """Columns by table."""


class FileSample:
    """The text and name of a file, parsed once for all detectors."""

    def __init__(self, text: str, name: str) -> None:
        self.text = unify_newlines(text)
        self.name = name
        self.start = self.text[:DETECTION_CHARS]

    @property
    def is_text(self) -> bool:
        """Whether there is text that is neither binary nor HTML."""
        odd_characters = sum(self.start.count(mark) for mark in ("\ufffd", "\x00", "\x01", "\x02", "\x03"))
        is_binary = odd_characters > len(self.start) * MAX_BINARY_RATIO
        return bool(self.text.strip()) and not is_binary and not _MARKUP.match(self.text)

    # --- JSON ------------------------------------------------------------------------

    @cached_property
    def is_json(self) -> bool:
        """Whether the text is JSON, possibly damaged, or JSON lines of tasks below comments."""
        return self._starts_like_json or self._value[0] is not None

    @cached_property
    def _starts_like_json(self) -> bool:
        return _JSON.match(self.text) is not None

    @cached_property
    def _value(self) -> tuple[object, bool]:
        """The first JSON value, None if it is damaged, and whether it is the whole text."""
        comments = None if self._starts_like_json else _COMMENTED_JSON.match(self.text)
        if not comments and not self._starts_like_json:
            return None, False
        text = self.text[comments.end() :].lstrip() if comments else self.text.lstrip()
        try:
            value, end = json.JSONDecoder().raw_decode(text)
        except (ValueError, RecursionError):
            return None, False
        if comments and not is_task(_first_object(value)):
            return None, False
        return value, not text[end:].strip()

    @property
    def document(self) -> dict[str, Any]:
        """The JSON object that is the whole text, or an empty dictionary."""
        value, is_whole = self._value
        return value if isinstance(value, dict) and is_whole else {}

    @property
    def first_object(self) -> dict[str, Any]:
        """The first JSON object: the document, a line or the first entry of an array; otherwise an empty dictionary.

        Lines before it may be damaged.
        """
        return _first_object(self._value[0]) or (self._first_line_object if self._value[0] is None else {})

    @cached_property
    def _first_line_object(self) -> dict[str, Any]:
        for row in self.start.split("\n", DETECTION_LINES)[:DETECTION_LINES]:
            try:
                value = json.loads(row) if row.startswith("{") else None
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                return value
        return {}

    @property
    def is_array(self) -> bool:
        """Whether the first JSON value is an array."""
        return isinstance(self._value[0], list)

    def has_list(self, name: str) -> bool:
        """Return whether the text is a JSON object with this list, even if it is damaged."""
        if self._value[0] is not None:
            return isinstance(self.document.get(name), list)
        damaged = _LIST.search(self.text) if self.is_json else None
        return damaged is not None and damaged[1] == name

    # --- Markdown ----------------------------------------------------------------------

    @cached_property
    def sections(self) -> list[NotesSection]:
        """Sections of Markdown, starting with the text before any heading; empty for JSON and for very long texts."""
        from ralph.formats.markdown_sections import parse_sections

        return [] if self.is_json or len(self.text) > MAX_NOTES_CHARS else parse_sections(self.text)

    @property
    def title(self) -> str:
        """The first heading in lower case, or an empty string."""
        return self.sections[1].heading.lower() if len(self.sections) > 1 else ""


def _first_object(value: object) -> dict[str, Any]:
    if isinstance(value, list):
        value = next((item for item in value if isinstance(item, dict)), None)
    return value if isinstance(value, dict) else {}


def is_memory(fields: dict[str, Any]) -> bool:
    """Return whether a JSON object looks like a memory."""
    return ("type" in fields or "kind" in fields) and ("content" in fields or "body" in fields)


def is_task(fields: dict[str, Any]) -> bool:
    """Return whether a JSON object looks like a task."""
    return isinstance(fields.get("title"), str) and not is_memory(fields)
