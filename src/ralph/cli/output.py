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
    from typing import Any

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

_GAP = "  "
LEAST_LAST = 20
"""Columns that the last column of a table keeps as long as something else can give way."""
LEAST_TEXT = 12
"""With fewer columns the last one says nothing any more and goes under its row."""
_CUT = {"TAGS": 8, "NEEDS": 12, "TYPE": 12, "KIND": 12, "CATEGORY": 12, "MODEL": 12, "AGENT": 12}
"""Columns before the last that are cut in a narrow terminal, and the width they keep."""
_MOVE_BELOW = ("WHY", "REASON", "BECAUSE", "95 % INTERVAL")
"""Columns that go under their row when they do not fit: what they say is worth a line."""
_LEFT_OUT = ("CREATED", "TIMES")
"""Columns that are left out when nothing else helps; `show` has them."""
_NUMBER_STARTS = ("", *"0123456789+-$")
MOST_DIGITS = 8
MOST_READ = 64 * 1024 * 1024
LONGEST_UNIT = 2
"""Letters a word beside a number may have: `kB`, `to`."""


def open_project(given: argparse.Namespace) -> Project:
    """Open the project the command is about, and print what its settings file has that nobody knows."""
    from ralph.project import Project

    project = Project.open("." if given.directory == "." else directory_of(given))
    for warning in project.config.warnings:
        print(f"Warning: {safe(warning)}", file=sys.stderr)
    return project


def print_file_problems(project: Project, *, in_full: bool) -> None:
    """Print what is wrong with the memory files: each thing, or for a command that only reads, that there are some."""
    sys.stdout.flush()
    problems = project.memory.problems
    if in_full:
        for problem in problems:
            print(f"Warning: {safe(problem)}", file=sys.stderr)
    elif problems:
        count = (
            "1 thing in the memory files needs"
            if len(problems) == 1
            else (f"{len(problems):,} things in the memory files need")
        )
        print(f"Warning: {count} attention: ralph doctor", file=sys.stderr)


def undoing(id: str, given: argparse.Namespace) -> str:
    """Give the command that takes a change of memories back, in the project where it was made."""
    other = getattr(given, "project", None)
    if other is None:
        return f"ralph memory undo {id}"
    from shlex import quote

    return f"ralph memory undo {id} --project {quote(safe(other))}"


def directory_of(given: argparse.Namespace) -> Path:
    """Give the directory the command works in."""
    from pathlib import Path

    from ralph.errors import UsageError

    directory = Path(given.directory)
    if not os.path.isdir(directory):  # noqa: PTH112
        raise UsageError(f"{one_line(given.directory)} is not a directory.")
    return directory


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add the choice between a table and JSON."""
    parser.add_argument("--format", choices=("table", "json"), default="table", help="how to print (default: table)")


def adder_of(actions: Any, run: Callable[[argparse.Namespace], int]) -> Callable[..., argparse.ArgumentParser]:
    """Give the function that adds an action: its name, what does it, and what it is good for."""

    def add(name: str, do: Callable[[Project, argparse.Namespace], int | None], text: str) -> argparse.ArgumentParser:
        one: argparse.ArgumentParser = actions.add_parser(name, help=text, description=text + ".")
        one.set_defaults(act=run, do=do)
        return one

    return add


def print_json(value: object) -> None:
    """Print records, lists and mappings as JSON."""
    import json

    print(json.dumps(value, ensure_ascii=False, indent=2, default=_plain))


def _plain(value: object) -> object:
    from ralph.records import fields_of

    if hasattr(value, "__slots__"):
        return fields_of(value)
    return str(value)


def print_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[object]],
    below: Sequence[Sequence[str]] = (),
    spare: Sequence[str] = (),
) -> None:
    """Print rows in columns, each on one line of a terminal however narrow; `below` are lines to go under each row.

    Where there is no room for all columns, those in `spare` are left out, the first of them first.
    """
    width = terminal_width()
    names, cells = list(headings), [[safe(str(cell)) for cell in row] for row in rows]
    notes = [list(lines) for lines in below] or [[] for _ in rows]
    for name in (*_MOVE_BELOW, *spare, *_LEFT_OUT):
        if name in names[1:] and _least_width(names, cells, LEAST_LAST) > width:
            _take_out(names, cells, notes if name in _MOVE_BELOW else (), name)
    if len(names) > 1 and _least_width(names, cells, LEAST_TEXT) > width and not _is_of_numbers(cells):
        _take_out(names, cells, notes, names[-1])
    widths = _fitted(names, cells, width)
    print(bold(cut_to(_GAP.join(h.ljust(w) for h, w in zip(names, widths, strict=True)).rstrip(), width)))
    for row, lines in zip(cells, notes, strict=True):
        print(_row(row, widths, width))
        for line in lines:
            print(wrapped(safe(line), "  ", "    "))


def _take_out(names: list[str], cells: Sequence[list[str]], notes: Sequence[list[str]], name: str) -> None:
    """Take a column out of a table, and add what it says to the notes of each row if there are any."""
    place = names.index(name)
    names.pop(place)
    said = [row.pop(place) for row in cells]
    for lines, cell in zip(notes, said, strict=False):
        if cell not in ("", "-"):
            lines.append(f"{name.lower()}: {cell}")


def _is_of_numbers(cells: Sequence[Sequence[str]]) -> bool:
    """Say whether the last column is one of numbers, with a unit perhaps; of such a one nothing may be missing."""
    return all(row[-1][:1] in _NUMBER_STARTS and not _has_word(row[-1]) for row in cells)


def _has_word(cell: str) -> bool:
    return any(len(word) > LONGEST_UNIT and word.isalpha() for word in cell.split())


def _widths(names: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int]:
    return [max([len(name), *(len(row[place]) for row in cells)]) for place, name in enumerate(names)]


def _least_width(names: Sequence[str], cells: Sequence[Sequence[str]], least_last: int) -> int:
    """Give how wide a table is when all that may be cut is cut."""
    *middle, last = _widths(names, cells)
    cut = [min(width, _CUT.get(name, width)) for name, width in zip(names, middle, strict=False)]
    least = last if _is_of_numbers(cells) else min(last, least_last)
    return sum(cut) + least + len(_GAP) * len(middle)


def _fitted(names: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> list[int]:
    """Give the widths of columns that fit a terminal: those that may be cut give way before the last one does.

    Of those the widest gives way first.
    """
    widths = _widths(names, cells)
    least = [min(room, _CUT.get(name, room)) for name, room in zip(names, widths, strict=True)]
    over = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    while over > 0 and (wide := [place for place, room in enumerate(widths[:-1]) if room > least[place]]):
        widths[max(wide, key=widths.__getitem__)] -= 1
        over -= 1
    if not _is_of_numbers(cells):
        widths[-1] -= max(0, min(over, widths[-1] - LEAST_TEXT))
    return widths


def _row(row: Sequence[str], widths: Sequence[int], width: int) -> str:
    cut = [cut_to(cell, room).ljust(room) for cell, room in zip(row, widths, strict=True)]
    plain = _GAP.join(cut).rstrip()
    if len(plain) > width:
        return cut_to(plain, width)
    coloured = [colour(cell, text) for cell, text in zip(row, [*cut[:-1], cut[-1].rstrip()], strict=True)]
    return _GAP.join(coloured).rstrip()


def cut_to(text: str, width: int) -> str:
    """Give at most so many characters of a line, with … when some are missing."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def wrapped(text: str, start: str = "", further: str = "") -> str:
    """Give a line after a start, as several lines broken between words where a terminal is too narrow for it."""
    width = terminal_width()
    if len(start) + len(text) <= width:
        return start + text
    import textwrap

    return textwrap.fill(
        text,
        max(width, LEAST_LAST + len(further)),
        initial_indent=start,
        subsequent_indent=further,
        break_on_hyphens=False,
    )


def terminal_width() -> int:
    """Give the columns of the terminal that is printed to; out of it, lines may be as long as they like."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
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


def money(usd: float) -> str:
    """Give an amount with as many digits as it takes to say something: $12.50, $0.0028."""
    digits = 2
    while digits < MOST_DIGITS and 0 < usd < 10 ** (1 - digits):
        digits += 2
    return f"${usd:,.{digits}f}"


def read_text(path: str) -> str:
    """Give the text of a file named on the command line; `-` is standard input."""
    from ralph.errors import UsageError

    try:
        if path == "-":
            content, is_more = sys.stdin.buffer.read(MOST_READ), sys.stdin.buffer.read(1)
        else:
            with open(path, "rb") as file:  # noqa: PTH123
                is_large = os.fstat(file.fileno()).st_size > MOST_READ
                content, is_more = b"" if is_large else file.read(MOST_READ), file.read(1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    if is_more:
        name = "What comes in" if path == "-" else path
        raise UsageError(f"{name} is larger than {MOST_READ // 1024 // 1024} MB. Split it into several.")
    return content.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
