"""Shared helpers of the commands: arguments, tables, JSON, colors and number formats."""

from __future__ import annotations

import argparse
import json
import os
import sys

from ralph.core.errors import UsageError
from ralph.core.records import record_fields
from ralph.core.text import clean, escape_invisible, one_line
from ralph.core.text import format_duration as format_duration
from ralph.core.text import pluralize as pluralize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import Any, TextIO

    from ralph.project import Project

_COLORS = {
    "done": "32",
    "failed": "31",
    "error": "31",
    "retried": "33",
    "blocked": "33",
    "unfinished": "33",
    "running": "36",
    "interrupted": "35",
    "in_progress": "36",
    "pending": "0",
}

_SEPARATOR = "  "
MIN_LAST_COLUMN = 20
"""Width of the last column below which other columns are dropped, in characters."""
NO_TERMINAL_WIDTH = 10_000
"""Width of an output that is not a terminal, in columns."""
FIRST_UNUSUAL_WIDTH = "\u0300"
"""First character that may take no column or two; the European ones before it take one."""
MAX_DECIMALS = 8
"""Maximum number of decimals of an amount of money."""
EPOCH = "1970-01-01T00:00:00"
PLAIN_VARIABLE = "RALPH_PLAIN"
"""Environment variable with the effect of `--plain` on every command, unless it is empty or 0."""
MAX_INPUT_BYTES = 64 * 1024 * 1024
"""Maximum size of an input file, in bytes."""


_is_plain = False


def use_plain(asked: bool) -> None:
    """Print only text that a screen reader reads well, if a person `asked` for that or the environment says so."""
    global _is_plain
    _is_plain = asked or os.environ.get(PLAIN_VARIABLE, "") not in ("", "0")


def is_plain() -> bool:
    """Return whether to do without colors, symbols, drawings, columns to fit, and moving the cursor."""
    return _is_plain


def symbol(text: str, plain: str = "") -> str:
    """Return a symbol, or what stands for it in plain output."""
    return plain if _is_plain else text


def open_project(args: argparse.Namespace) -> Project:
    """Open the project of the command, and print warnings about its configuration."""
    from ralph.project import Project

    project = Project.open("." if args.directory == "." else working_directory(args))
    for warning in project.config.warnings:
        print(f"Warning: {printable(warning)}", file=sys.stderr)
    return project


def print_file_problems(project: Project, *, in_full: bool) -> None:
    """Print the problems of the memory files, or for read-only commands (`in_full=False`) only their number."""
    sys.stdout.flush()
    problems = project.files.problems
    # Files that are not trusted are no problem of the files.
    for problem in problems if in_full else [one for one in problems if one.endswith("ralph trust")]:
        print(f"Warning: {printable(problem)}", file=sys.stderr)
    if not in_full and (others := [one for one in problems if not one.endswith("ralph trust")]):
        count = pluralize(len(others), "problem")
        print(f"Warning: {count} found in the memory files. See: ralph doctor", file=sys.stderr)


def undo_command(id: str, args: argparse.Namespace) -> str:
    """Return the command that undoes a change of memories in the project where it was made."""
    project = getattr(args, "project", None)
    if project is None:
        return f"ralph memory undo {id}"
    from shlex import quote

    return f"ralph memory undo {id} --project {quote(printable(project))}"


def working_directory(args: argparse.Namespace) -> Path:
    """Return the directory the command runs in."""
    from pathlib import Path

    directory = Path(args.directory)
    if not os.path.isdir(directory):  # noqa: PTH112
        raise UsageError(f"{one_line(args.directory)} is not a directory.")
    return directory


def add_format_option(parser: argparse.ArgumentParser, *more: str, help: str = "output format") -> None:
    """Add the `--format` option with the choices table, json and `more`."""
    parser.add_argument("--format", choices=("table", "json", *more), default="table", help=f"{help} (default: table)")


def add_last_option(parser: argparse.ArgumentParser, noun: str, default: int = 20) -> None:
    """Add the `--last` option, which limits a list."""
    text = f"maximum number of {noun} (default: {default})"
    parser.add_argument("--last", type=positive_count(noun), default=default, metavar="N", help=text)


def run_in_project(args: argparse.Namespace) -> int:
    """Open the project and run the action in it."""
    with open_project(args) as project:
        return int(args.do(project, args) or 0)


def action_adder(
    parser: argparse.ArgumentParser, run: Callable[[argparse.Namespace], int] = run_in_project
) -> Callable[..., argparse.ArgumentParser]:
    """Return a function that adds an action to a command, given its name, handler and help text."""
    actions: Any = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def add(name: str, do: object, text: str) -> argparse.ArgumentParser:
        action: argparse.ArgumentParser = actions.add_parser(name, help=text, description=text + ".")
        action.set_defaults(act=run, do=do)
        return action

    return add


def print_list(
    args: argparse.Namespace,
    records: object,
    headings: Sequence[str],
    rows: Sequence[Sequence[object]],
    empty: str,
    droppable: Sequence[str] = (),
) -> None:
    """Print records as JSON or their rows as a table, or say that there are none."""
    if args.format == "json":
        print_json(records)
    elif rows:
        print_table(headings, rows, droppable=droppable)
    else:
        print(empty)


def print_json(value: object) -> None:
    """Print records, lists and mappings as JSON."""
    print(to_json(value))


def to_json(value: object) -> str:
    """Return records, lists and mappings as JSON."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=_to_jsonable)


def _to_jsonable(value: object) -> object:
    if hasattr(value, "__slots__"):
        return record_fields(value)
    return str(value)


def print_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[object]],
    row_notes: Sequence[Sequence[str]] = (),
    droppable: Sequence[str] = (),
) -> None:
    """Print a table with one line per row, and `row_notes` under each of them.

    In a narrow terminal, `droppable` columns are dropped, in this order, and the last column is truncated.
    """
    width = terminal_width()
    names, cells = list(headings), [[printable(str(cell)) for cell in row] for row in rows]
    for name in droppable:
        *others, last = _column_widths(names, cells)
        if sum(others) + min(last, MIN_LAST_COLUMN) > width:
            index = names.index(name)
            for line in (names, *cells):
                line.pop(index)
    *others, last = _column_widths(names, cells)
    widths = [*others, min(last, max(width - sum(others), 1))]
    print(bold(_format_row(names, widths, width)))
    for row, notes in zip(cells, row_notes or [()] * len(cells), strict=True):
        print(_format_row(row, widths, width))
        for note in notes:
            print(wrap_line(printable(note), "  ", "    "))


def _column_widths(names: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of each column; all but the last one include the separator."""
    widths = [
        max(display_width(name), *(display_width(row[index]) for row in cells), 0) for index, name in enumerate(names)
    ]
    return [*(width + len(_SEPARATOR) for width in widths[:-1]), widths[-1]]


def _format_row(row: Sequence[str], widths: Sequence[int], width: int) -> str:
    *others, last = [_pad(truncate(cell, column), column) for cell, column in zip(row, widths, strict=True)]
    texts = [*others, last.rstrip()]
    if display_width("".join(texts).rstrip()) > width:
        return truncate("".join(texts), width)
    return "".join(color_by_status(cell, text) for cell, text in zip(row, texts, strict=True)).rstrip()


def truncate(text: str, width: int) -> str:
    """Truncate a line to `width` columns, ending in … if it was longer."""
    if display_width(text) <= width:
        return text
    end, left = 0, width - 1
    while (left := left - display_width(text[end])) >= 0:
        end += 1
    return text[:end].rstrip() + "…"


def display_width(text: str) -> int:
    """Return the number of terminal columns that a line takes: East Asian characters and emoji take two."""
    if text.isascii() or max(text.replace("…", ".")) < FIRST_UNUSUAL_WIDTH:
        return len(text)
    from unicodedata import category, east_asian_width

    wide = sum(east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(category(character) in ("Mn", "Me", "Cf") for character in text)


def _pad(text: str, width: int) -> str:
    return text + " " * (width - display_width(text))


def answer_command(task_id: str) -> str:
    """Return the command that answers the question of a task."""
    return f'ralph task answer {task_id} "…"'


def unblock_step(task_id: str, reason: str) -> tuple[str, str]:
    """Return how to go on with a task that waits for a person, given its reason: what to do, and the command."""
    from ralph.core.records import ASKS, NEEDS_PERSON

    if reason.startswith(f"{ASKS}: "):
        return "to answer", answer_command(task_id)
    if reason.startswith(NEEDS_PERSON):
        return "to see and accept the work", f"ralph task approve {task_id}"
    return "to retry", f"ralph task reset {task_id}"


def wrap_line(text: str, initial_indent: str = "", subsequent_indent: str = "") -> str:
    """Return text wrapped to the terminal width."""
    width = terminal_width()
    if len(initial_indent) + len(text) <= width:
        return initial_indent + text
    import textwrap

    return textwrap.fill(
        text,
        max(width, MIN_LAST_COLUMN + len(subsequent_indent)),
        initial_indent=initial_indent,
        subsequent_indent=subsequent_indent,
        break_on_hyphens=False,
    )


def terminal_width() -> int:
    """Return the width of the terminal, or a very large number if nothing is to be fitted into one."""
    if _is_plain:
        return NO_TERMINAL_WIDTH
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (OSError, ValueError):
        return NO_TERMINAL_WIDTH


def printable(text: str) -> str:
    """Return text as one printable line, without control characters and line breaks."""
    return " ".join(clean(text).split())


def exact_line(text: str) -> str:
    """Return text as one line with all its whitespace; control characters and line breaks are escaped."""
    return escape_invisible(text).replace("\n", "\\n")


def use_color() -> bool:
    """Return whether to print colors."""
    return sys.stdout.isatty() and not (_is_plain or os.environ.get("NO_COLOR") or is_dumb_terminal())


def is_dumb_terminal() -> bool:
    """Return whether the terminal understands no escape sequences."""
    return os.environ.get("TERM") in ("dumb", "unknown")


def can_move_cursor(stream: TextIO) -> bool:
    """Return whether a stream is a terminal on which lines can be drawn over."""
    return stream.isatty() and not (_is_plain or is_dumb_terminal())


def color_by_status(word: str, text: str) -> str:
    """Color text by a status or outcome. Other words leave it unchanged."""
    code = _COLORS.get(word)
    return f"\x1b[{code}m{text}\x1b[0m" if code and use_color() else text


def bold(text: str) -> str:
    """Return text in bold if colors are on."""
    return f"\x1b[1m{text}\x1b[0m" if use_color() else text


def format_time(timestamp: str) -> str:
    """Format a timestamp for tables, as local month, day and time."""
    import time

    from ralph.memory.lifecycle.confidence import days_between  # strptime loads datetime and locale

    seconds = round(days_between(EPOCH, timestamp[:19]) * 86_400)
    return time.strftime("%m-%d %H:%M:%S", time.localtime(seconds))


def positive_count(noun: str) -> Callable[[str], int]:
    """Return an argument type that accepts counts of 1 or more."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text)):
            raise argparse.ArgumentTypeError(f"the number of {noun} must be 1 or more, not {text!r}")
        return int(text)

    return parse


def positive_amount(text: str) -> float:
    """Parse an argument that is a number greater than 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number greater than 0, not {text!r}")
    return value


def parse_int(text: str) -> int:
    """Parse an argument that is an integer of at most nine digits."""
    digits = text.removeprefix("-").removeprefix("+")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 10):
        raise argparse.ArgumentTypeError(f"must be an integer of at most nine digits, not {text!r}")
    return int(text)


def read_input_text(path: str) -> str:
    """Read a text file named on the command line; `-` is standard input."""
    try:
        if path == "-":
            content, is_more = sys.stdin.buffer.read(MAX_INPUT_BYTES), sys.stdin.buffer.read(1)
        else:
            with open(path, "rb") as file:  # noqa: PTH123
                is_large = os.fstat(file.fileno()).st_size > MAX_INPUT_BYTES
                content, is_more = b"" if is_large else file.read(MAX_INPUT_BYTES), file.read(1)
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}.") from error
    if is_more:
        name = "Standard input" if path == "-" else path
        raise UsageError(f"{name} is larger than {MAX_INPUT_BYTES // 1024 // 1024} MB. Split it into smaller parts.")
    return content.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")


def read_text_argument(text: str) -> str:
    """Return the text of an argument, or standard input for `-`."""
    return read_input_text("-") if text == "-" else text
