"""JSON text that can be edited without changing any other byte.

Comments and trailing commas, which some agents allow in their settings, are accepted and preserved; a dialect says
what an agent accepts. Nothing is reformatted: added values use the indentation and line endings of the surrounding
text.
"""

from __future__ import annotations

import json
import re
from enum import Enum
from typing import Any, NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    Path = tuple[str | int, ...]
    """Path to a value: keys and list indexes."""

MAX_DEPTH = 200
"""Maximum nesting depth."""
MAX_VALUES = 100_000
"""Maximum number of values. The parser reads about 200,000 per second."""
_WHITESPACE = re.compile(r"[ \t\r\n]*")
_WHITESPACE_AND_COMMENTS = re.compile(r"[ \t\r\n]*(?:(?://[^\n]*|/\*[\s\S]*?\*/)[ \t\r\n]*)*")
_STRING = re.compile(r'"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"')
_SCALAR = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


class InvalidJsonError(ValueError):
    """The text is not valid JSON. The message includes the line number."""


class JsonDialect(Enum):
    """What an agent accepts in its settings."""

    JSON = "neither comments nor trailing commas"
    COMMENTS = "comments, but no trailing commas"
    JSONC = "comments and trailing commas"


# Named tuples, because records are four times slower to create and the user file of Claude Code can be megabytes.


class JsonChild(NamedTuple):
    """A value in an object or a list, with the offset of its key or, in a list, of the value."""

    key: str | int
    start: int
    node: JsonNode


class JsonNode(NamedTuple):
    """A value and its position in the text."""

    start: int
    end: int
    value: Any
    children: tuple[JsonChild, ...] = ()


class JsonText:
    """An immutable JSON text. Edits return changed copies."""

    def __init__(self, text: str) -> None:
        self.text = text
        parser = _JsonParser(text)
        self._root = parser.parse()
        self._first_comment, self._first_trailing_comma = parser.first_comment, parser.first_trailing_comma
        first = self._root.children[0].start if self._root.children else None
        self._newline = "\r\n" if "\r\n" in text else "\n"
        self._is_compact = first is not None and "\n" not in text[: self._root.end]
        self._unit = (self._indent_of(first) if first is not None and "\n" in text[:first] else "") or "  "

    @property
    def value(self) -> Any:
        """The parsed value of the text."""
        return self._root.value

    def problem_in(self, dialect: JsonDialect) -> str:
        """Return what a dialect does not allow in this text, with its line; empty if there is nothing."""
        if dialect is JsonDialect.JSON and self._first_comment is not None:
            return f"a comment in line {self._line_of(self._first_comment)}"
        if dialect is not JsonDialect.JSONC and self._first_trailing_comma is not None:
            return f"a trailing comma in line {self._line_of(self._first_trailing_comma)}"
        return ""

    def get(self, *path: str | int) -> Any:
        """Return the value at a path, or None if there is none."""
        node = self._find(path)
        return node.value if node else None

    def updated(self, value: Any) -> JsonText:
        """Return a copy with this value. Only what differs is rewritten."""
        return self._updated((), self.value, value)

    def _updated(self, path: Path, old: Any, new: Any) -> JsonText:
        if old == new:
            return self
        text = self
        if isinstance(old, dict) and isinstance(new, dict):
            for key in [key for key in old if key not in new]:
                text = text.without((*path, key))
            for key, value in new.items():
                place = (*path, key)
                text = text._updated(place, old[key], value) if key in old else text.with_value(place, value)
            return text
        if isinstance(old, list) and isinstance(new, list):
            kept = _kept_items(old, new)
            for index in [index for index in reversed(range(len(old))) if index not in kept]:
                text = text.without((*path, index))
            for index, source in enumerate(kept):
                text = text._updated((*path, index), old[source], new[index])
            for index in range(len(kept), len(new)):
                text = text.with_value((*path, index), new[index])
            return text
        return self.with_value(path, new)

    def with_value(self, path: Path, value: Any) -> JsonText:
        """Return a copy with a value replaced, or appended to its object or list.

        Missing objects along the path are created.
        """
        node = self._find(path)
        if node:
            written = self._format(value, self._indent_of(node.start), is_compact=self._is_inline(node))
            return self._spliced((node.start, node.end, written))
        holder = self._find(path[:-1])
        if holder is None:
            last = path[-1]
            return self.with_value(path[:-1], {last: value} if isinstance(last, str) else [value])
        return self._with_added(holder, path[-1], value)

    def without(self, path: Path) -> JsonText:
        """Return a copy without a value and its key."""
        holder = self._find(path[:-1])
        assert holder is not None
        place = max(place for place, child in enumerate(holder.children) if child.key == path[-1])
        child, end = holder.children[place], holder.children[place].node.end
        comma = self._comma_after(end)
        if place + 1 < len(holder.children):
            assert comma is not None
            return self._spliced((child.start, end, ""), (comma, _skip_whitespace(self.text, comma + 1), ""))
        cuts = [] if comma is None else [(comma, comma + 1, "")]
        if place:
            before = self._comma_after(holder.children[place - 1].node.end)
            assert before is not None
            start = before + 1 + len(self.text[before + 1 : child.start].rstrip())
            if comma is None:
                cuts.append((before, before + 1, ""))
            return self._spliced((start, end, ""), *cuts)
        return self._spliced((child.start, end, ""), *cuts)._collapsed(path[:-1])

    def _collapsed(self, path: Path) -> JsonText:
        """Return a copy without whitespace inside an empty object or list."""
        node = self._find(path)
        assert node is not None
        if self.text[node.start + 1 : node.end - 1].strip():
            return self
        return self._spliced((node.start + 1, node.end - 1, ""))

    def _find(self, path: Path) -> JsonNode | None:
        node = self._root
        for key in path:
            kind = dict if isinstance(key, str) else list
            found = [child.node for child in node.children if child.key == key] if isinstance(node.value, kind) else []
            if not found:
                return None
            node = found[-1]  # the last of several equal keys wins
        return node

    def _with_added(self, holder: JsonNode, key: str | int, value: Any) -> JsonText:
        name = f"{json.dumps(key, ensure_ascii=False)}: " if isinstance(key, str) else ""
        outer = self._indent_of(holder.start)
        if not holder.children:
            inside = self.text[holder.start + 1 : holder.end - 1].rstrip()
            if self._is_compact and not inside:
                added = name + self._format(value, "", is_compact=True)
            else:
                inner = outer + self._unit
                line = self._newline + inner + name + self._format(value, inner, is_compact=False)
                added = inside + line + self._newline + outer
            return self._spliced((holder.start + 1, holder.end - 1, added))
        last = holder.children[-1].node.end
        comma = self._comma_after(last)
        if self._is_inline(holder):
            written = name + self._format(value, "", is_compact=True)
            if comma is None:
                return self._spliced((last, last, f", {written}"))
            return self._spliced((comma + 1, comma + 1, f" {written},"))
        inner = self._indent_of(holder.children[0].start)
        written = self._newline + inner + name + self._format(value, inner, is_compact=False)
        if comma is None:
            at = self._end_of_line(last)
            return self._spliced((last, last, ","), (at, at, written))
        at = self._end_of_line(comma + 1)
        return self._spliced((at, at, f"{written},"))

    def _format(self, value: Any, indent: str, *, is_compact: bool) -> str:
        written = json.dumps(value, ensure_ascii=False, indent=None if is_compact else self._unit)
        if is_compact:
            return written
        lines = written.split("\n")
        return (self._newline + indent).join(lines)

    def _line_of(self, at: int) -> int:
        return self.text.count("\n", 0, at) + 1

    def _is_inline(self, node: JsonNode) -> bool:
        if not node.children:
            return self._is_compact
        return "\n" not in self.text[node.start : node.children[-1].node.end]

    def _indent_of(self, at: int) -> str:
        """Return the indentation of the line at an offset."""
        start = self.text.rfind("\n", 0, at) + 1
        found = re.compile(r"[ \t]*").match(self.text, start)
        return found.group()[: at - start] if found else ""

    def _comma_after(self, at: int) -> int | None:
        at = _skip_comments(self.text, at)
        return at if self.text[at : at + 1] == "," else None

    def _end_of_line(self, at: int) -> int:
        """Return the end of the comments that follow an offset on its line."""
        end = at
        while True:
            found = re.compile(r"[ \t]*(?://[^\r\n]*|/\*[^\r\n]*?\*/)").match(self.text, end)
            if not found:
                return end
            end = found.end()

    def _spliced(self, *changes: tuple[int, int, str]) -> JsonText:
        pieces, done = [], 0
        for start, end, new in sorted(changes, key=lambda change: change[0]):  # stable for equal offsets
            pieces += [self.text[done:start], new]
            done = end
        return JsonText("".join([*pieces, self.text[done:]]))


def _kept_items(old: list[Any], new: list[Any]) -> list[int]:
    """Return the indexes of items that are kept, perhaps changed: all of them, or those that equal the new ones."""
    if len(new) >= len(old):
        return list(range(len(old)))
    kept: list[int] = []
    for index, item in enumerate(old):
        if len(kept) < len(new) and item == new[len(kept)]:
            kept.append(index)
    return kept if len(kept) == len(new) else list(range(len(new)))


class _JsonParser:
    """A recursive descent parser of JSON with comments."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._values = 0
        self.first_comment: int | None = None
        """Offset of the first comment."""
        self.first_trailing_comma: int | None = None
        """Offset of the first comma after the last value of an object or a list."""

    def parse(self) -> JsonNode:
        """Parse the text."""
        self._skip()
        node = self._value(0)
        self._skip()
        if self._at < len(self._text):
            raise self._error("unexpected text after the end")
        return node

    def _error(self, what: str) -> InvalidJsonError:
        line = self._text.count("\n", 0, self._at) + 1
        return InvalidJsonError(f"line {line}: {what}")

    def _skip(self) -> None:
        start, self._at = self._at, _skip_comments(self._text, self._at)
        if self.first_comment is None and (at := self._text.find("/", start, self._at)) >= 0:
            self.first_comment = at

    def _value(self, depth: int) -> JsonNode:
        if depth > MAX_DEPTH:
            raise self._error("nested too deeply")
        self._values += 1
        if self._values > MAX_VALUES:
            raise self._error(f"more than {MAX_VALUES:,} values")
        start = self._at
        mark = self._text[start : start + 1]
        if mark in ("{", "["):
            return self._parse_container(start, mark, depth)
        found = (_STRING if mark == '"' else _SCALAR).match(self._text, start)
        if not found:
            raise self._error("missing value" if mark in ("", ",", "}", "]") else "invalid value")
        self._at = found.end()
        return JsonNode(start, self._at, self._decode(found.group()))

    def _parse_container(self, start: int, mark: str, depth: int) -> JsonNode:
        closing = "}" if mark == "{" else "]"
        children: list[JsonChild] = []
        self._at += 1
        self._skip()
        while self._text[self._at : self._at + 1] != closing:
            begin = self._at
            key: str | int = self._parse_key() if mark == "{" else len(children)
            children.append(JsonChild(key, begin, self._value(depth + 1)))
            self._skip()
            if self._text[self._at : self._at + 1] == ",":
                comma = self._at
                self._at += 1
                self._skip()
                if self._text[self._at : self._at + 1] == closing and self.first_trailing_comma is None:
                    self.first_trailing_comma = comma
            elif self._text[self._at : self._at + 1] != closing:
                raise self._error(f"missing comma or {closing}")
        self._at += 1
        value: Any
        value = {child.key: child.node.value for child in children} if mark == "{" else [c.node.value for c in children]
        return JsonNode(start, self._at, value, tuple(children))

    def _parse_key(self) -> str:
        found = _STRING.match(self._text, self._at)
        if not found:
            raise self._error("missing key in double quotes")
        key = str(self._decode(found.group()))
        self._at = found.end()
        self._skip()
        if self._text[self._at : self._at + 1] != ":":
            raise self._error("missing colon")
        self._at += 1
        self._skip()
        return key

    def _decode(self, written: str) -> Any:
        if written[0] == '"' and "\\" not in written:
            return written[1:-1]
        try:
            return json.loads(written)
        except ValueError as error:
            raise self._error("invalid value") from error


def _skip_whitespace(text: str, at: int) -> int:
    found = _WHITESPACE.match(text, at)
    return found.end() if found else at


def _skip_comments(text: str, at: int) -> int:
    """Return the end of whitespace and comments."""
    found = _WHITESPACE_AND_COMMENTS.match(text, at)
    at = found.end() if found else at
    if text.startswith("/*", at):
        raise InvalidJsonError(f"line {text.count(chr(10), 0, at) + 1}: unterminated comment")
    return at
