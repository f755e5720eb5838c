"""Inputs nobody thought of: real examples, cut, doubled, mixed and spoiled.

Made by hand rather than by hypothesis, for a million of them must not take longer to make than to read.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

SMALL = 2_000
"""Characters of an input, but for the few that are blown up."""
LARGE = 16_000
BLOWN_UP = 0.002
"""So many of the inputs repeat something until they are large."""

NASTY = (
    *("\x00", "\x1b[31m", "\x1b]0;t\x07", "\x7f", "\x85", "\u200b", "\u202e", "\u2028", "\ufeff", "\ud800", "\udfff"),
    *(
        "\r",
        "\r\n",
        "\n",
        "\n\n",
        "\t",
        " ",
        "\u00a0",
        "\\",
        "\\u0000",
        "\\ud800",
        "\\x1b",
        '"',
        "'",
        "`",
        "```",
        "<",
        ">",
    ),
    *("ſ", "İ", "ß", "ﬁ", "K", "😀", "漢字", "é", "e\u0301", "²", "٣", "½"),
    *("0", "-0", "-1", "1e999", "1e-999", "NaN", "Infinity", "-Infinity", "9" * 25, "9" * 400, "0x" + "f" * 40, "1_0"),
    *("9007199254740993", "1.7976931348623159e308", "0.1", "00", "+1", "1.", ".5", "true", "null", "~", "yes", "!!int"),
    *("2026-02-30", "2026-99-99", "0000-00-00", "9999-12-31T23:59:59+00:00", "0001-01-01T00:00:00+14:00", "12:60:61"),
    *("[" * 40, "{" * 40, '{"a":' * 30, "- " * 40, "> " * 40, "* " * 30, "#" * 30, "a=" * 30, "(" * 40, "|" * 20),
    *(
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        ";",
        "=",
        "-",
        "---",
        "---\n",
        "...",
        "#",
        "|",
        "&a",
        "*a",
        "<<",
        "? ",
        "%",
        "@",
        "!",
    ),
    *("password=hunter2hunter2", "ghp_0123456789012345678901234567", "-----BEGIN PRIVATE KEY-----", "://a:b@c", "eyJ"),
    *(
        "<<<<<<< ours\n",
        "=======\n",
        ">>>>>>> theirs\n",
        "<!--",
        "-->",
        "</",
        "/>",
        "//",
        "/*",
        "*/",
        "$(",
        "${x}",
        "%s",
    ),
    *("../../etc/passwd", "/", "a/b.py", "a" * 300, "x" * 5_000, " " * 300, "\n" * 60),
)
"""What readers stumble over."""


def repeated(head: str, piece: str, tail: str, characters: int) -> str:
    """Give the piece between head and tail so often that it is so many characters; `{}` in it becomes a number."""
    times = max(1, characters // len(piece))
    middle = "".join(piece.replace("{}", str(number)) for number in range(times)) if "{}" in piece else piece * times
    return head + middle + tail


class Inputs:
    """An endless supply of inputs for one reader, the same for the same seed."""

    def __init__(self, seed: int, examples: Sequence[str], words: Sequence[str] = ()) -> None:
        self._random = random.Random(seed)
        self._examples = tuple(examples)
        self._words = (*NASTY, *words, *words)
        self._changes: tuple[Callable[[str], str], ...] = (
            *(self._insert, self._insert, self._replace, self._delete, self._double, self._mix, self._swap, self._cut),
            *(self._spoil, self._line),
        )

    def next(self) -> str:
        """Give the next one."""
        chosen = self._random
        text = chosen.choice(self._examples) if chosen.random() < 0.95 else self._made_up()
        for _ in range(chosen.choice((1, 1, 2, 2, 3, 4, 6, 10))):
            text = chosen.choice(self._changes)(text)
        if chosen.random() < BLOWN_UP:
            return self._blown_up(text)
        return text[:SMALL]

    def large(self, characters: int) -> str:
        """Give an input of about so many characters, that says one thing over and over."""
        chosen = self._random
        if chosen.random() < 0.5:
            example = chosen.choice(self._examples)
            start, end = self._span(example)
            head, piece, tail = example[:start], example[start:end], example[end:]
        else:
            words = (*self._words, *self._examples)
            head, tail = chosen.choice(("", chosen.choice(self._examples)[: chosen.randrange(200)])), ""
            piece = "".join(chosen.choices(words, k=chosen.choice((1, 1, 2, 3))))
        return repeated(head, piece or " ", tail, characters)

    def _place(self, text: str) -> int:
        return int(self._random.random() * (len(text) + 1))

    def _span(self, text: str) -> tuple[int, int]:
        start = self._place(text)
        return start, start + int(self._random.random() ** 3 * (len(text) - start + 1))

    def _word(self) -> str:
        words = self._words
        return words[int(self._random.random() * len(words))]

    def _made_up(self) -> str:
        return "".join(self._word() for _ in range(self._random.randrange(1, 20)))

    def _insert(self, text: str) -> str:
        at = self._place(text)
        return text[:at] + self._word() + text[at:]

    def _replace(self, text: str) -> str:
        start, end = self._span(text)
        return text[:start] + self._word() + text[end:]

    def _delete(self, text: str) -> str:
        start, end = self._span(text)
        return text[:start] + text[end:]

    def _double(self, text: str) -> str:
        start, end = self._span(text)
        return text[:end] + text[start:end] + text[end:]

    def _mix(self, text: str) -> str:
        other = self._random.choice(self._examples)
        start, end = self._span(other)
        at = self._place(text)
        return text[:at] + other[start:end] + text[at:]

    def _swap(self, text: str) -> str:
        start, end = self._span(text)
        return text[:start] + text[end:] + text[start:end]

    def _cut(self, text: str) -> str:
        return text[: self._place(text)]

    def _spoil(self, text: str) -> str:
        at = self._place(text)
        return (
            text[:at]
            + chr(self._random.choice((127, 255, 0x2FF, 0xDFFF, 0xFFFF, 0x10FFFF)) - self._random.randrange(127))
            + text[at + 1 :]
        )

    def _line(self, text: str) -> str:
        lines = text.split("\n")
        at = self._random.randrange(len(lines))
        lines.insert(self._random.randrange(len(lines) + 1), lines[at])
        return "\n".join(lines)

    def _blown_up(self, text: str) -> str:
        start, end = self._span(text)
        piece = text[start:end] or self._word()
        return text[:start] + piece * (LARGE // len(piece)) + text[end:]
