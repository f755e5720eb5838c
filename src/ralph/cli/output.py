"""How commands print: tables, JSON, colours in a terminal, and never a control character."""

from __future__ import annotations

import os
import sys

from ralph.text import clean, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ralph.project import Project

_COLOURS = {
    "done": "32",
    "failed": "31",
    "error": "31",
    "retried": "33",
    "blocked": "33",
    "interrupted": "35",
    "in_progress": "36",
    "pending": "0",
}


def open_project(given: argparse.Namespace) -> Project:
    """Open the project the command is about, and print what its settings file has that nobody knows."""
    from ralph.project import Project

    project = Project.open(directory_of(given))
    for warning in project.config.warnings:
        print(f"Warning: {safe(warning)}", file=sys.stderr)
    return project


def directory_of(given: argparse.Namespace) -> Path:
    """Give the directory the command works in."""
    from pathlib import Path

    from ralph.errors import WrongUsage

    directory = Path(given.directory)
    if not os.path.isdir(directory):  # noqa: PTH112
        raise WrongUsage(f"{one_line(given.directory)} is not a directory.")
    return directory


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add the choice between a table and JSON."""
    parser.add_argument("--format", choices=("table", "json"), default="table", help="how to print (default: table)")


def print_json(value: object) -> None:
    """Print records, lists and mappings as JSON."""
    import json

    print(json.dumps(value, ensure_ascii=False, indent=2, default=_plain))


def _plain(value: object) -> object:
    from ralph.records import fields_of

    if hasattr(value, "__slots__"):
        return fields_of(value)
    return str(value)


def print_table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows in columns; the last column gives way when a terminal is too narrow."""
    cells = [[safe(str(cell)) for cell in row] for row in rows]
    widths = [max([len(heading), *(len(row[place]) for row in cells)]) for place, heading in enumerate(headings)]
    left = _terminal_width() - sum(widths[:-1]) - 2 * (len(widths) - 1)
    print(bold("  ".join(h.ljust(w) for h, w in zip(headings, widths, strict=True)).rstrip()))
    for row in cells:
        last = row[-1] if len(row[-1]) <= max(left, 20) else row[-1][: max(left, 20) - 1] + "…"
        padded = [colour(cell, cell.ljust(width)) for cell, width in zip(row[:-1], widths[:-1], strict=True)]
        print("  ".join([*padded, colour(last, last)]).rstrip())


def _terminal_width() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return 10_000


def safe(text: str) -> str:
    """Give text that may be printed on one line: no control characters, no line breaks."""
    return " ".join(clean(text).split())


def use_colour() -> bool:
    """Say whether to colour what is printed."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def colour(word: str, text: str) -> str:
    """Give the text in the colour of a status or outcome, if the word is one."""
    code = _COLOURS.get(word)
    return f"\x1b[{code}m{text}\x1b[0m" if code and use_colour() else text


def bold(text: str) -> str:
    """Give the text in bold, in a terminal."""
    return f"\x1b[1m{text}\x1b[0m" if use_colour() else text


def plural(count: int, noun: str) -> str:
    """Give `1 task`, `2 tasks`, `2 memories`."""
    if count == 1:
        return f"{count:,} {noun}"
    many = noun[:-1] + "ies" if noun.endswith("y") and noun[-2] not in "aeou" else noun + "s"
    return f"{count:,} {many}"


def moment(timestamp: str) -> str:
    """Give a timestamp for tables: the local day and time of day."""
    import time
    from calendar import timegm

    seconds = timegm(time.strptime(timestamp[:19], "%Y-%m-%dT%H:%M:%S"))
    return time.strftime("%m-%d %H:%M:%S", time.localtime(seconds))


def count_of(noun: str) -> Callable[[str], int]:
    """Give the reader of an argument that is a count of 1 or more."""
    import argparse

    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text)):
            raise argparse.ArgumentTypeError(f"the number of {noun} must be 1 or more, not {text!r}")
        return int(text)

    return read


def whole_number(text: str) -> int:
    """Read an argument that is a whole number of a sensible size."""
    import argparse

    digits = text.removeprefix("-").removeprefix("+")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 10):
        raise argparse.ArgumentTypeError(f"it must be a whole number of at most nine digits, not {text!r}")
    return int(text)


def duration(seconds: float) -> str:
    """Give a time span for people: 3.2s, 4m 10s, 2h 05m."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02d}m"


def read_text(path: str) -> str:
    """Give the text of a file named on the command line; `-` is standard input."""
    from ralph.errors import WrongUsage

    try:
        if path == "-":
            return sys.stdin.buffer.read().decode("utf-8", "replace")
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read()
    except OSError as error:
        raise WrongUsage(f"{path} cannot be read: {error.strerror}.") from error
