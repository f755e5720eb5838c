"""Read what an agent prints as JSON, one object a line, while it prints it.

Nothing here raises, whatever comes in, and memory stays bounded: a line that is no object, or that is too long, is
counted and skipped. No field can be trusted to have the type it should have: read them with `at` and its sisters.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from ralph.text import accept, clean, one_line

if TYPE_CHECKING:
    from typing import Any

LINE_CHARACTERS = 4 * 1024 * 1024
"""A longer line is skipped: nothing an agent says in earnest is that long, only what its tools read."""
SAID_CHARACTERS = 2 * 1024 * 1024
HEAD_SHARE = 0.25
"""Of what is kept; the rest is the end, where the sigils are."""
MOST_COUNTED = 2**53
"""A larger count is nonsense, and no database takes it."""


class JsonLines:
    """Makes objects of text that arrives in pieces."""

    def __init__(self, line_characters: int = LINE_CHARACTERS) -> None:
        self.skipped = 0
        """How many lines were no JSON objects."""
        self.stray = ""
        """The last of these, in short: often the only word a program has for what went wrong."""
        self._line_characters = line_characters
        self._pieces: list[str] = []
        self._length = 0

    def add(self, text: str) -> list[dict[str, Any]]:
        """Take the next piece of text; give the objects whose lines it completes."""
        *ends, rest = text.split("\n")
        found = []
        for end in ends:
            self._keep(end)
            found += self._line()
        self._keep(rest)
        return found

    def finish(self) -> list[dict[str, Any]]:
        """Give the object of a last line without an end, if it is whole; otherwise that line counts as skipped."""
        return self._line()

    def _keep(self, piece: str) -> None:
        self._length += len(piece)
        # Of a line that is too long the beginning is enough, to tell what it was.
        if piece and (self._length <= self._line_characters or not self._pieces):
            self._pieces.append(piece[: self._line_characters])

    def _line(self) -> list[dict[str, Any]]:
        line, length = "".join(self._pieces), self._length
        self._pieces, self._length = [], 0
        if not line.strip():
            return []
        found = _parsed(line) if length <= self._line_characters else None
        if isinstance(found, dict):
            return [found]
        self.skipped += 1
        self.stray = one_line(accept(line[:2000]))
        return []


def _parsed(line: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):  # no JSON, a number of too many digits, or nested too deep
        return None


class Said:
    """What an agent said, a message at a time: the beginning and the end, when it is too much to keep."""

    def __init__(self, characters: int = SAID_CHARACTERS) -> None:
        self._head_characters = int(characters * HEAD_SHARE)
        self._tail_characters = characters - self._head_characters
        self._head = ""
        self._parts: list[str] = []
        self._length = 0
        self._left_out = 0

    def add(self, message: str) -> str:
        """Take a message, and give it the way it is kept: clean, without empty lines around it."""
        message = clean(message).strip()
        if message:
            self._parts.append(message)
            self._length += len(message) + 2
            if self._length > 2 * (self._head_characters + self._tail_characters):
                self._cut()
        return message

    def text(self) -> str:
        """Give all that was said in order, messages apart by an empty line, and say how much is missing."""
        self._cut()
        tail = "\n\n".join(self._parts)
        if not self._left_out:
            return tail
        return f"{self._head}\n[... {self._left_out:,} characters left out ...]\n{tail}"

    def _cut(self) -> None:
        whole = "\n\n".join(self._parts)
        if not self._left_out:
            if len(whole) <= self._head_characters + self._tail_characters:
                return
            self._head, whole = whole[: self._head_characters], whole[self._head_characters :]
        self._left_out += max(0, len(whole) - self._tail_characters)
        self._parts = [whole[-self._tail_characters :]]
        self._length = len(self._parts[0])


# --- fields of any type ----------------------------------------------------------------


def at(event: object, *keys: str) -> object:
    """Give what is found by following the keys from object to object; None when one of them is not there."""
    for key in keys:
        if not isinstance(event, dict):
            return None
        event = event.get(key)
    return event


def text_at(event: object, *keys: str) -> str:
    """Give the text found there, as it came; empty when there is none."""
    found = at(event, *keys)
    return found if isinstance(found, str) else ""


def list_at(event: object, *keys: str) -> list[Any]:
    """Give the list found there; empty when there is none."""
    found = at(event, *keys)
    return found if isinstance(found, list) else []


def number_at(event: object, *keys: str) -> float | None:
    """Give the number found there; None when there is none, or it is below 0 or not finite."""
    found = at(event, *keys)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return found if 0 <= found <= MOST_COUNTED and math.isfinite(found) else None


def count_at(event: object, *keys: str) -> int | None:
    """Give the whole number found there; None when there is none, or it is below 0 or absurd."""
    found = number_at(event, *keys)
    return None if found is None else int(found)
