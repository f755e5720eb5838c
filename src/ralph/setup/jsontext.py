"""Change a few values in a JSON file and leave every other byte as it is.

Comments and trailing commas, which some agents allow in their settings, are read over and stay. Nothing is formatted
anew: what is added takes the indentation and the line ends of what is around it.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    Path = tuple[str | int, ...]
    """The way to a value: keys and positions."""

DEEPEST = 200
MOST_VALUES = 100_000
_BLANK = re.compile(r"[ \t\r\n]*")
_FILLING = re.compile(r"[ \t\r\n]*(?:(?://[^\n]*|/\*[\s\S]*?\*/)[ \t\r\n]*)*")
_STRING = re.compile(r'"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"')
_SCALAR = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


class InvalidJsonError(ValueError):
    """The text is no JSON; says in which line."""


# Tuples, because records are four times slower to make, and Claude Code's file of all projects can be megabytes.


class Child(NamedTuple):
    """A value in an object or a list, and where it begins: at its key, if it has one."""

    key: str | int
    start: int
    node: Node


class Node(NamedTuple):
    """A value and where it stands in the text."""

    start: int
    end: int
    value: Any
    children: tuple[Child, ...] = ()


class JsonText:
    """A JSON text that gives changed copies of itself."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._root = _Reader(text).whole()
        first = self._root.children[0].start if self._root.children else None
        self._newline = "\r\n" if "\r\n" in text else "\n"
        self._is_compact = first is not None and "\n" not in text[: self._root.end]
        self._unit = (self._indent_of(first) if first is not None and "\n" in text[:first] else "") or "  "

    @property
    def value(self) -> Any:
        """Give what the text says."""
        return self._root.value

    def get(self, *path: str | int) -> Any:
        """Give a value, or None when there is none."""
        node = self._find(path)
        return node.value if node else None

    def with_value(self, path: Path, value: Any) -> JsonText:
        """Give a copy with a value there, in place of another, or as the last of the object or list it is to be in.

        Objects on the way that are missing are made.
        """
        node = self._find(path)
        if node:
            written = self._written(value, self._indent_of(node.start), is_compact=self._is_inline(node))
            return self._spliced((node.start, node.end, written))
        holder = self._find(path[:-1])
        if holder is None:
            last = path[-1]
            return self.with_value(path[:-1], {last: value} if isinstance(last, str) else [value])
        return self._added(holder, path[-1], value)

    def without(self, path: Path) -> JsonText:
        """Give a copy without a value and its key."""
        holder = self._find(path[:-1])
        assert holder is not None
        place = max(place for place, child in enumerate(holder.children) if child.key == path[-1])
        child, end = holder.children[place], holder.children[place].node.end
        comma = self._comma_after(end)
        if place + 1 < len(holder.children):
            assert comma is not None
            return self._spliced((child.start, end, ""), (comma, _end_of_blank(self.text, comma + 1), ""))
        cuts = [] if comma is None else [(comma, comma + 1, "")]
        if place:
            before = self._comma_after(holder.children[place - 1].node.end)
            assert before is not None
            start = before + 1 + len(self.text[before + 1 : child.start].rstrip())
            if comma is None:
                cuts.append((before, before + 1, ""))
            return self._spliced((start, end, ""), *cuts)
        return self._spliced((child.start, end, ""), *cuts)._closed_up(path[:-1])

    def _closed_up(self, path: Path) -> JsonText:
        """Give a copy in which an empty object or list has no blanks in it."""
        node = self._find(path)
        assert node is not None
        if self.text[node.start + 1 : node.end - 1].strip():
            return self
        return self._spliced((node.start + 1, node.end - 1, ""))

    def _find(self, path: Path) -> Node | None:
        node = self._root
        for key in path:
            kind = dict if isinstance(key, str) else list
            found = [child.node for child in node.children if child.key == key] if isinstance(node.value, kind) else []
            if not found:
                return None
            node = found[-1]  # of two with one name, the last counts
        return node

    def _added(self, holder: Node, key: str | int, value: Any) -> JsonText:
        name = f"{json.dumps(key, ensure_ascii=False)}: " if isinstance(key, str) else ""
        outer = self._indent_of(holder.start)
        if not holder.children:
            inside = self.text[holder.start + 1 : holder.end - 1].rstrip()
            if self._is_compact and not inside:
                added = name + self._written(value, "", is_compact=True)
            else:
                inner = outer + self._unit
                line = self._newline + inner + name + self._written(value, inner, is_compact=False)
                added = inside + line + self._newline + outer
            return self._spliced((holder.start + 1, holder.end - 1, added))
        last = holder.children[-1].node.end
        comma = self._comma_after(last)
        if self._is_inline(holder):
            written = name + self._written(value, "", is_compact=True)
            if comma is None:
                return self._spliced((last, last, f", {written}"))
            return self._spliced((comma + 1, comma + 1, f" {written},"))
        inner = self._indent_of(holder.children[0].start)
        written = self._newline + inner + name + self._written(value, inner, is_compact=False)
        if comma is None:
            at = self._end_of_line(last)
            return self._spliced((last, last, ","), (at, at, written))
        at = self._end_of_line(comma + 1)
        return self._spliced((at, at, f"{written},"))

    def _written(self, value: Any, indent: str, *, is_compact: bool) -> str:
        written = json.dumps(value, ensure_ascii=False, indent=None if is_compact else self._unit)
        if not is_text(written):  # half a character, which only an escape can stand for
            written = json.dumps(value, indent=None if is_compact else self._unit)
        if is_compact:
            return written
        lines = written.split("\n")
        return (self._newline + indent).join(lines)

    def _is_inline(self, node: Node) -> bool:
        if not node.children:
            return self._is_compact
        return "\n" not in self.text[node.start : node.children[-1].node.end]

    def _indent_of(self, at: int) -> str:
        """Give the blanks that the line of a place begins with."""
        start = self.text.rfind("\n", 0, at) + 1
        found = re.compile(r"[ \t]*").match(self.text, start)
        return found.group()[: at - start] if found else ""

    def _comma_after(self, at: int) -> int | None:
        at = _end_of_filling(self.text, at)
        return at if self.text[at : at + 1] == "," else None

    def _end_of_line(self, at: int) -> int:
        """Give where the comments end that stand behind a place in its line."""
        end = at
        while True:
            found = re.compile(r"[ \t]*(?://[^\r\n]*|/\*[^\r\n]*?\*/)").match(self.text, end)
            if not found:
                return end
            end = found.end()

    def _spliced(self, *changes: tuple[int, int, str]) -> JsonText:
        pieces, done = [], 0
        for start, end, new in sorted(changes, key=lambda change: change[0]):  # in one place, in the order given
            pieces += [self.text[done:start], new]
            done = end
        return JsonText("".join([*pieces, self.text[done:]]))


def is_text(text: str) -> bool:
    """Say whether a text can be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class _Reader:
    """Reads a text from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._values = 0

    def whole(self) -> Node:
        """Give the one value of the text."""
        self._skip()
        node = self._value(0)
        self._skip()
        if self._at < len(self._text):
            raise self._wrong("there is something after the end")
        return node

    def _wrong(self, what: str) -> InvalidJsonError:
        line = self._text.count("\n", 0, self._at) + 1
        return InvalidJsonError(f"line {line}: {what}")

    def _skip(self) -> None:
        self._at = _end_of_filling(self._text, self._at)

    def _value(self, depth: int) -> Node:
        if depth > DEEPEST:
            raise self._wrong("it is nested too deeply")
        self._values += 1
        if self._values > MOST_VALUES:
            raise self._wrong(f"it holds more than {MOST_VALUES:,} values")
        start = self._at
        mark = self._text[start : start + 1]
        if mark in ("{", "["):
            return self._holder(start, mark, depth)
        found = (_STRING if mark == '"' else _SCALAR).match(self._text, start)
        if not found:
            raise self._wrong("a value is missing" if mark in ("", ",", "}", "]") else "this is no value")
        self._at = found.end()
        return Node(start, self._at, self._read(found.group()))

    def _holder(self, start: int, mark: str, depth: int) -> Node:
        closing = "}" if mark == "{" else "]"
        children: list[Child] = []
        self._at += 1
        self._skip()
        while self._text[self._at : self._at + 1] != closing:
            begin = self._at
            key: str | int = self._key() if mark == "{" else len(children)
            children.append(Child(key, begin, self._value(depth + 1)))
            self._skip()
            if self._text[self._at : self._at + 1] == ",":
                self._at += 1
                self._skip()
            elif self._text[self._at : self._at + 1] != closing:
                raise self._wrong(f"a comma or {closing} is missing")
        self._at += 1
        value: Any
        value = {child.key: child.node.value for child in children} if mark == "{" else [c.node.value for c in children]
        return Node(start, self._at, value, tuple(children))

    def _key(self) -> str:
        found = _STRING.match(self._text, self._at)
        if not found:
            raise self._wrong("a name in double quotes is missing")
        key = str(self._read(found.group()))
        self._at = found.end()
        self._skip()
        if self._text[self._at : self._at + 1] != ":":
            raise self._wrong("a colon is missing")
        self._at += 1
        self._skip()
        return key

    def _read(self, written: str) -> Any:
        if written[0] == '"' and "\\" not in written:
            return written[1:-1]
        try:
            return json.loads(written)
        except ValueError as error:
            raise self._wrong("this is no value") from error


def _end_of_blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _end_of_filling(text: str, at: int) -> int:
    """Give where blanks and comments end."""
    found = _FILLING.match(text, at)
    at = found.end() if found else at
    if text.startswith("/*", at):
        raise InvalidJsonError(f"line {text.count(chr(10), 0, at) + 1}: a comment has no end")
    return at
