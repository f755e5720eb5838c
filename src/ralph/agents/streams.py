"""Incremental parsing of the JSON lines that agents print.

Nothing here raises on bad input, and memory stays bounded: a line that is not a JSON object or is too long is
skipped. Field types cannot be trusted; read fields with `at` and the functions that build on it.

"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from ralph.agents.supervisor.output import HEAD_SHARE, OutputBuffer
from ralph.core.text import clean, one_line, sanitize

if TYPE_CHECKING:
    from typing import Any

MAX_LINE_CHARACTERS = 4 * 1024 * 1024
"""Maximum length of a line, in characters; only raw tool output is longer."""
MAX_MESSAGES_BYTES = 2 * 1024 * 1024
"""Maximum length of all messages kept, in bytes."""
MAX_COUNT = 2**53
"""Largest plausible count, which every database can store."""


class JsonLinesParser:
    """Parser for JSON objects, one per line, in text that arrives in chunks."""

    def __init__(self, line_characters: int = MAX_LINE_CHARACTERS) -> None:
        self.last_skipped = ""
        """Last line that was not a JSON object, shortened; often the only explanation a program gives."""
        self._line_characters = line_characters
        self._chunks: list[str] = []
        self._length = 0

    def add(self, text: str) -> list[dict[str, Any]]:
        """Add a chunk of text and return the objects whose lines it completes."""
        *ends, rest = text.split("\n")
        objects = []
        for end in ends:
            self._append(end)
            objects += self._take_line()
        self._append(rest)
        return objects

    def finish(self) -> list[dict[str, Any]]:
        """Return the object of a last line without a newline; an incomplete one is skipped."""
        return self._take_line()

    def _append(self, piece: str) -> None:
        self._length += len(piece)
        # The beginning of an overlong line is enough to identify it.
        if piece and (self._length <= self._line_characters or not self._chunks):
            self._chunks.append(piece[: self._line_characters])

    def _take_line(self) -> list[dict[str, Any]]:
        line, length = "".join(self._chunks), self._length
        self._chunks, self._length = [], 0
        if not line.strip():
            return []
        value = _parse(line) if length <= self._line_characters else None
        if isinstance(value, dict):
            return [value]
        self.last_skipped = one_line(sanitize(line[:2000]))
        return []


def _parse(line: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):  # not JSON, too many digits, or nested too deeply
        return None


class MessageBuffer:
    """Messages of an agent; only the beginning and the end are kept if they get too long."""

    def __init__(self, max_bytes: int = MAX_MESSAGES_BYTES) -> None:
        self._buffer = OutputBuffer(int(max_bytes * HEAD_SHARE), max_bytes - int(max_bytes * HEAD_SHARE))
        self._separator = ""

    def add(self, message: str) -> str:
        """Add a message and return it as stored: clean, without surrounding blank lines."""
        message = clean(message).strip()
        if message:
            self._buffer.add(f"{self._separator}{message}".encode("utf-8", "replace"))
            self._separator = "\n\n"
        return message

    def text(self) -> str:
        """Return all messages in order, separated by blank lines, with a note about what was dropped."""
        return self._buffer.text()


# --- untrusted fields ------------------------------------------------------------------


def value_at(event: object, *keys: str) -> object:
    """Return the value found by following keys from object to object, or None."""
    for key in keys:
        if not isinstance(event, dict):
            return None
        event = event.get(key)
    return event


def text_at(event: object, *keys: str) -> str:
    """Return the string at a path, or an empty one."""
    value = value_at(event, *keys)
    return value if isinstance(value, str) else ""


def list_at(event: object, *keys: str) -> list[Any]:
    """Return the list at a path, or an empty one."""
    value = value_at(event, *keys)
    return value if isinstance(value, list) else []


def number_at(event: object, *keys: str) -> float | None:
    """Return the number at a path; None if it is missing, negative or not finite."""
    value = value_at(event, *keys)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 <= value <= MAX_COUNT and math.isfinite(value) else None


def count_at(event: object, *keys: str) -> int | None:
    """Return the integer at a path; None if it is missing, negative or absurdly large."""
    value = number_at(event, *keys)
    return None if value is None else int(value)
