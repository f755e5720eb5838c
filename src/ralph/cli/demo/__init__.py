"""`ralph demo`."""

from __future__ import annotations

import os
import shlex
import shutil
import sys

from ralph.cli.output import bold, can_move_cursor, print_json, printable, symbol, use_color, working_directory
from ralph.core.text import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from ralph.cli.demo.story import DemoAttempt, DemoResult, DemoTotals

EPILOG = """\
Needs git, but no network. To keep the two projects and look around:
  ralph demo --keep /tmp/demo
  cd /tmp/demo/with-memory
  ralph journal list
"""

INTRODUCTION = """\
One agent builds a small billing package twice: five tasks, each checked by real tests.
The agent is scripted, so nothing is sent anywhere; the loop, the tests and the memory are real.
"""
HEADINGS = {
    False: ("Without memory", "prompts contain only the task, so the agent tries one idea after another"),
    True: ("With memory", "prompts also contain past failures and learnings"),
}
CAVEAT = "The agent is scripted and its thinking time is made up: this shows how memory helps, not how much."

GREEN, YELLOW, RED, CYAN, DIM = "32", "33", "31", "36", "2"
TITLE_WIDTH = 18
NOTE_WIDTH = 46
NOTE_INDENT = " " * 33


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    parser.add_argument(
        "--keep", metavar="DIR", help="keep both projects in this directory, which must be new or empty"
    )
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="json prints one object with the results (default: text)",
    )
    parser.set_defaults(act=run)


def run(args: argparse.Namespace) -> int:
    """Run the demo and compare the results without and with memory."""
    from ralph.cli.demo.story import prepare_directory, run_demo

    keep = working_directory(args) / args.keep if args.keep else None
    if keep:
        prepare_directory(keep)
    if args.format == "json":
        result = run_demo(Silence(), keep)
        print_json(result)
    else:
        print(INTRODUCTION)
        with Narrator() as narrator:
            result = run_demo(narrator, keep)
        print("\n" + "\n".join([*table(result), "", *conclusion(result), "", *next_steps(keep)]))
    return 0 if result.without_memory.done == result.with_memory.done == len(result.tasks) else 1


# --- progress ----------------------------------------------------------------------


class Silence:
    """A watcher that prints nothing, for JSON output."""

    def start_build(self, with_memory: bool) -> None:
        """Ignore the event."""

    def start_run(self, name: str) -> None:
        """Ignore the event."""

    def show_stage(self, title: str, number: int, doing: str) -> None:
        """Ignore the event."""

    def show_attempt(self, told: DemoAttempt) -> None:
        """Ignore the event."""


class Narrator(Silence):
    """A watcher that prints a line per attempt and, in a terminal, the current activity."""

    def __init__(self) -> None:
        self._is_live = can_move_cursor(sys.stdout)
        self._width = shutil.get_terminal_size().columns - 1 if self._is_live else 1000
        self._with_memory = False

    def __enter__(self) -> Narrator:
        return self

    def __exit__(self, *_: object) -> None:
        self._clear_line()

    def start_build(self, with_memory: bool) -> None:
        """Print the heading."""
        self._with_memory = with_memory
        name, text = HEADINGS[with_memory]
        print(("\n" if with_memory else "") + bold(name) + paint(DIM, f": {text}"), flush=True)

    def start_run(self, name: str) -> None:
        """Print the name of the run."""
        self._print_line(DIM, f"  {name}", "")

    def show_stage(self, title: str, number: int, doing: str) -> None:
        """Show the current activity until the next line is printed."""
        if self._is_live:
            self._clear_line()
            print(paint(CYAN, "    … ") + _attempt(title, number) + paint(DIM, doing), end="", flush=True)

    def show_attempt(self, told: DemoAttempt) -> None:
        """Print the result of an attempt, and what it recalled and learned."""
        mark, code, result = (
            (symbol("✓ "), GREEN, "tests pass") if told.done else (symbol("✗ "), RED, printable(told.error))
        )
        self._print_line(
            code, f"    {mark}", _attempt(told.task.title if told.number == 1 else "", told.number) + result
        )
        if self._with_memory:
            failed = "1 failed try" if told.previous_failures == 1 else f"{told.previous_failures} failed tries"
            self._note(CYAN, "recalled  ", [failed] * bool(told.previous_failures) + list(told.recalled))
            self._note(GREEN, "learned   ", told.learned)

    def _note(self, code: str, verb: str, titles: Sequence[str]) -> None:
        if titles:
            self._print_line(code, NOTE_INDENT + verb, _fit_titles(titles))

    def _print_line(self, code: str, start: str, rest: str) -> None:
        """Print a line with a colored start, truncated to the terminal width."""
        self._clear_line()
        room = max(0, self._width - len(start))
        print(paint(code, start) + (rest if len(rest) <= room else rest[: room - 1] + "…"), flush=True)

    def _clear_line(self) -> None:
        if self._is_live:
            print("\r\x1b[K", end="", flush=True)


def _attempt(title: str, number: int) -> str:
    return f"{title.ljust(TITLE_WIDTH)}  try {number}  "


def _fit_titles(titles: Sequence[str]) -> str:
    """Return the titles that fit on a line, and the number of the others."""
    shown = one_line(printable(titles[0]), NOTE_WIDTH)
    for count, title in enumerate(titles[1:], 1):
        if len(shown) + len(title) > NOTE_WIDTH:
            return f"{shown}{symbol(' · ', ', ')}+{len(titles) - count}"
        shown += f"{symbol(' · ', ', ')}{printable(title)}"
    return shown


def paint(code: str, text: str) -> str:
    """Return text in a color if colors are on."""
    return f"\x1b[{code}m{text}\x1b[0m" if use_color() else text


# --- results -----------------------------------------------------------------------


def table(result: DemoResult) -> list[str]:
    """Return a table of the results per task, without and with memory."""
    before, after = result.without_memory, result.with_memory
    columns = "Task".ljust(24) + " without  with   without    with   without   with"
    return [
        bold(" " * 30 + "Attempts            Tokens          Seconds"),
        bold(columns),
        *(_row(task.title, task.without_memory, task.with_memory) for task in result.tasks),
        paint(DIM, symbol("─" * len(columns))),
        _row("Total", before, after),
        f"{'Tasks done':24}{before.done:8}{after.done:6}",
        f"{'  on the first try':24}{before.done_at_first:8}{after.done_at_first:6}",
    ]


def _row(title: str, before: DemoTotals, after: DemoTotals) -> str:
    return (
        f"{title:24}{before.attempts:8}{_color_change(before.attempts, after.attempts, f'{after.attempts:6}')}"
        f"{before.tokens:10,}{_color_change(before.tokens, after.tokens, f'{after.tokens:8,}')}"
        f"{before.seconds:10.1f}{_color_change(before.seconds, after.seconds, f'{after.seconds:7.1f}')}"
    )


def _color_change(before: float, after: float, text: str) -> str:
    """Color a number by whether it got better or worse."""
    return text if after == before else paint(GREEN if after < before else YELLOW, text)


def conclusion(result: DemoResult) -> list[str]:
    """Return a summary of the results in words."""
    before, after = result.without_memory, result.with_memory
    helped = [task.title for task in result.tasks if task.with_memory.attempts < task.without_memory.attempts]
    others = [task.title for task in result.tasks if task.title not in helped]
    return [
        bold(f"With memory: {after.attempts} attempts instead of {before.attempts}")
        + f" ({_change(before.attempts, after.attempts, 'fewer')}),"
        + f" {_change(before.tokens, after.tokens, 'fewer')} tokens,"
        + f" {_change(before.seconds, after.seconds, 'less')} time.",
        f"  It saved attempts on: {', '.join(helped) or 'nothing'}.",
        f"  It saved none on: {', '.join(others) or 'nothing'}.",
        paint(DIM, CAVEAT),
    ]


def _change(before: float, after: float, less: str) -> str:
    percent = round(100 * (after - before) / before) if before else 0
    return f"{abs(percent)}% {less if percent <= 0 else 'more'}"


def _program() -> str:
    """Return the command that starts ralph. In a fresh clone it is only in the virtual environment."""
    if shutil.which("ralph"):
        return "ralph"
    executable = os.path.relpath(sys.argv[0])
    return shlex.quote(executable) if executable.endswith("ralph") else "python -m ralph"


def next_steps(keep: Path | None) -> list[str]:
    """Return suggestions for what to try next."""
    ralph = _program()
    where = shlex.quote(str(keep / "with-memory")) if keep else "demo/with-memory"
    steps = [] if keep else [(f"{ralph} demo --keep demo", "keep both projects")]
    steps += [
        (f"{ralph} -C {where} journal list", "show what happened"),
        (f"{ralph} -C {where} prompt fees", "show a prompt"),
    ]
    width = max(len(command) for command, _ in steps)
    return [bold("Next")] + [f"  {command.ljust(width)}  {paint(DIM, text)}".rstrip() for command, text in steps]
