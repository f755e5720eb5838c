"""Unified diffs as files, hunks and colored lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from ralph.core.records import record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pygments.lexer import Lexer

MAX_COLORED_CHARACTERS = 60_000
"""Number of characters of a diff that get syntax colors, because that takes time."""
MAX_COLORED_LINE = 400
"""Length above which a line, and the hunk it is in, gets no syntax colors, in characters."""
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,\d{1,9})? \+(\d{1,9})(?:,\d{1,9})? @@(.*)")
_KINDS = {"+": "added", "-": "removed", " ": "context", "\\": "note"}
_CLASSES = (
    ("Comment", "c"),
    ("Keyword", "k"),
    ("Operator.Word", "k"),
    ("Literal.String", "s"),
    ("Literal.Number", "n"),
    ("Name.Function", "f"),
    ("Name.Class", "f"),
    ("Name.Decorator", "d"),
    ("Name.Tag", "k"),
    ("Name.Attribute", "d"),
    ("Name.Builtin", "d"),
)
"""Types of tokens with the class of their color in work.css; a type covers its subtypes."""


@record
class DiffLine:
    """Line of a hunk."""

    kind: str
    """`added`, `removed`, `context` or `note`."""
    old: int | None
    """Number of the line before the change; None for an added one."""
    new: int | None
    html: Markup


@record
class DiffHunk:
    """Lines that changed, with those around them."""

    place: str
    """Function or section it is in, if git knows."""
    lines: tuple[DiffLine, ...]


@record
class DiffFile:
    """Changes of one file."""

    path: str
    status: str
    """`added`, `deleted`, `renamed` or `changed`."""
    added: int
    removed: int
    hunks: tuple[DiffHunk, ...]
    note: str = ""
    """What there is to say instead of lines, such as that it is binary."""


def parse_diff(text: str) -> tuple[DiffFile, ...]:
    """Return the files of a unified diff made by git, with syntax colors up to a total size."""
    left = MAX_COLORED_CHARACTERS
    files = []
    for lines in _files(text):
        size = sum(map(len, lines))
        files.append(_file(lines, is_colored=size <= left))
        left -= min(size, left)
    return tuple(files)


def _files(text: str) -> Iterator[list[str]]:
    """Yield the lines of each file."""
    current: list[str] = []
    # Not splitlines: a form feed or a Unicode line separator is part of a line.
    for line in text.split("\n"):
        if line.startswith("diff --git ") and current:
            yield current
            current = []
        current.append(line)
    if current and current[0].startswith("diff --git "):
        yield current


def _file(lines: Sequence[str], *, is_colored: bool) -> DiffFile:
    start = next((place for place, line in enumerate(lines) if line.startswith("@@ ")), len(lines))
    head, body = lines[:start], lines[start:]
    fields = dict(_head_field(line) for line in head[1:])
    old, new = fields.get("---", "").removeprefix("a/"), fields.get("+++", "").removeprefix("b/")
    path = fields.get("rename to") or (new if new not in ("", "/dev/null") else old)
    path = path or head[0].removeprefix("diff --git ").rpartition(" b/")[2]
    status = next((name for start, name in _STATUSES if start in fields), "changed")
    hunks = tuple(_hunks(body, _lexer(path) if is_colored else None))
    kinds = [line.kind for hunk in hunks for line in hunk.lines]
    note = "Binary file" if "Binary files" in fields else "" if hunks else "No lines changed"
    return DiffFile(
        path=path,
        status=status,
        added=kinds.count("added"),
        removed=kinds.count("removed"),
        hunks=hunks,
        note=note,
    )


_STATUSES = (("new file mode", "added"), ("deleted file mode", "deleted"), ("rename to", "renamed"))
_HEADS = ("new file mode", "deleted file mode", "rename to", "Binary files", "---", "+++")


def _head_field(line: str) -> tuple[str, str]:
    name = next((one for one in _HEADS if line.startswith(f"{one} ")), "")
    return name, line[len(name) :].strip().removesuffix("\t").strip('"')


def _hunks(lines: Sequence[str], lexer: Lexer | None) -> Iterator[DiffHunk]:
    """Yield the hunks in the body of a file."""
    starts = [place for place, line in enumerate(lines) if line.startswith("@@ ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        if match := _HUNK.match(lines[start]):
            body = [line for line in lines[start + 1 : end] if line[:1] in _KINDS and line]
            yield DiffHunk(place=match[3].strip(), lines=tuple(_lines(body, int(match[1]), int(match[2]), lexer)))


def _lines(body: Sequence[str], old: int, new: int, lexer: Lexer | None) -> Iterator[DiffLine]:
    """Yield the lines of a hunk with their numbers; each side of the change is colored as a whole."""
    sides = {side: iter(_colored([line[1:] for line in body if line[0] in side], lexer)) for side in (" -", " +")}
    for line in body:
        kind = _KINDS[line[0]]
        if kind == "note":
            yield DiffLine(kind=kind, old=None, new=None, html=escape(line[1:].strip()))
            continue
        is_old, is_new = kind != "added", kind != "removed"
        before = next(sides[" -"]) if is_old else None
        after = next(sides[" +"]) if is_new else before
        yield DiffLine(
            kind=kind, old=old if is_old else None, new=new if is_new else None, html=after if after else Markup("")
        )
        old, new = old + is_old, new + is_new


# --- colors ---------------------------------------------------------------------------------


def _lexer(path: str) -> Lexer | None:
    """Return the lexer for a file by its name; None if its language is not known."""
    from pygments.lexers import get_lexer_for_filename
    from pygments.util import ClassNotFound

    try:
        return get_lexer_for_filename(path, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


def _colored(lines: list[str], lexer: Lexer | None) -> list[Markup]:
    """Return lines as HTML, with syntax colors if there is a lexer."""
    if lexer is None or any(len(line) > MAX_COLORED_LINE for line in lines):
        return [escape(line) for line in lines]
    tokens = [(_class(str(kind)), value) for kind, value in lexer.get_tokens("\n".join(lines))]
    # A lexer may normalize text; then the text matters more than its colors.
    if "".join(value for _, value in tokens) != "\n".join(lines):
        return [escape(line) for line in lines]
    found = [Markup("")]
    for style, value in tokens:
        for place, piece in enumerate(value.split("\n")):
            if place:
                found.append(Markup(""))
            if piece:
                found[-1] += Markup('<span class="tok-{}">{}</span>').format(style, piece) if style else escape(piece)
    return found


def _class(kind: str) -> str:
    """Return the class of the color of a token type."""
    name = kind.removeprefix("Token.")
    return next((style for prefix, style in _CLASSES if name == prefix or name.startswith(f"{prefix}.")), "")
