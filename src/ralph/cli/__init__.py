"""Entry point of the `ralph` command line.

Only the module of the requested command is imported, and it imports its own dependencies lazily: `ralph status` has to
be fast enough for a shell prompt.
"""

from __future__ import annotations

import argparse
import os
import sys

from ralph.core.errors import RalphError, UsageError
from ralph.core.text import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, NoReturn

COMMANDS = {
    "init": "Set up Ralph in this directory",
    "trust": "Review what this directory brings, and trust it",
    "run": "Run an agent on the tasks",
    "stop": "Stop a run from another terminal; nothing is lost",
    "pause": "Pause a run after its current attempt",
    "resume": "Continue a paused run",
    "status": "Show the state of the project",
    "report": "Report what a run did, what failed and what needs attention",
    "watch": "Follow a run from another terminal",
    "notify": "Test the notifications of runs",
    "task": "Add, list and manage tasks",
    "feature": "Group tasks under a spec and a plan",
    "plan": "Let an agent split a spec into tasks, and accept them",
    "prompt": "Show the prompt of the next attempt at a task",
    "memory": "Search, add and edit memories",
    "import": "Import past sessions, commits and other tools' data",
    "forget": "Erase past sessions, attempts and commits",
    "learn": "Review the learnings extracted from runs",
    "journal": "Show what happened in each attempt and session",
    "failures": "Show failure reports and count them",
    "stats": "Show statistics about runs, models and memory",
    "project": "List, rename and remove the projects in a database",
    "backup": "Create, list and verify backups",
    "restore": "Restore a backup; the replaced database is kept",
    "store": "Show where the project is stored, or copy it",
    "doctor": "Check the project for problems and show how to fix them",
    "hook": "Handle a hook event of an agent",
    "mcp": "Serve memory and tasks to agents as MCP tools",
    "serve": "Serve the dashboard and the HTTP API",
    "setup": "Connect an agent to the memory, or disconnect it",
    "demo": "Watch the loop learn, in under 20 seconds",
    "completion": "Print a completion script for your shell",
}
_MODULES = {"import": "import_", "stop": "steer", "pause": "steer", "resume": "steer"}
"""Modules of commands that are not named like them."""

EPILOG = """\
Get started:
  ralph init
  ralph task add "Make the tests pass"
  ralph run --agent claude     # or codex, gemini, opencode, …
  ralph run -- sh agent.sh     # or any program: prompt on stdin, answer on stdout
  ralph journal list

Use the memory in your own agent sessions, without the loop:
  ralph setup claude

Exit codes: 0 success, 1 failure or not found, 2 invalid usage, 3 nothing to do,
4 imported but some of it was left out, 130 interrupted.
"""


# Looking up translations accounts for two thirds of the time argparse takes to build a parser.
argparse._ = str  # type: ignore[attr-defined]


MAX_SUGGESTED = 2
"""Maximum number of commands suggested for an unknown one."""
MIN_HELP_COLUMN = 14
"""Column of the help texts of short commands and options; argparse forgets the indentation of commands."""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32, width=_width())
        self._action_max_length = MIN_HELP_COLUMN


def _width() -> int:
    """Return the help width. argparse would import shutil (and with it zipfile and bz2) to find it."""
    try:
        return int(os.environ.get("COLUMNS", "")) - 2
    except ValueError:
        pass
    try:
        return os.get_terminal_size().columns - 2
    except (OSError, ValueError):
        return 78


class RalphArgumentParser(argparse.ArgumentParser):
    """An argument parser with short error messages and lazily built subparsers."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", _Formatter)
        options.setdefault("allow_abbrev", False)
        super().__init__(**options)

    def add_subparsers(self, **options: Any) -> Any:
        """Add the actions of a command. Only the parser of the requested action is built."""
        options.setdefault("parser_class", _LazyParser)
        options.setdefault("prog", self.prog)  # argparse would format a usage message to find it
        return super().add_subparsers(**options)

    def error(self, message: str) -> NoReturn:
        """Print a one-line error with the help command, and exit with status 2."""
        message = clean(message).removeprefix("argument ").rstrip(".")
        end = "" if message.endswith("?") else "."
        self.exit(2, f"Error: {message[:1].upper()}{message[1:]}{end} See: {self.prog} --help\n")

    def reject_unknown(self, args: argparse.Namespace, words: Sequence[str]) -> NoReturn:
        """Report unknown arguments on behalf of the innermost command they were passed to."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction) and getattr(args, action.dest, None) in action.choices:
                action.choices[getattr(args, action.dest)].reject_unknown(args, words)
        option = next((word.partition("=")[0] for word in words if word.startswith("-")), None)
        if option is None:
            self.error(f"unexpected argument: {' '.join(words)}")
        self.error(f"unknown option {option}.{suggest_match(option, self._option_string_actions)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Suggest the closest choice, or list them as a person would type them."""
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            meant = suggest_match(str(value), known) or f" Choose from {', '.join(known)}"
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}.{meant}")


def suggest_match(word: str, known: Iterable[str]) -> str:
    """Return " Did you mean X?" for the closest known word, or an empty string."""
    import difflib

    close = difflib.get_close_matches(word, list(known), n=1)
    return f" Did you mean {close[0]}?" if close else ""


def suggest_action(word: str) -> str:
    """Return " Did you mean ralph X?" for commands that have an action of this name, or an empty string."""
    meant = [f"ralph {command} {word}" for command in COMMANDS if word in _actions_of(command)]
    return f" Did you mean {' or '.join(meant[:MAX_SUGGESTED])}?" if meant else ""


def _actions_of(command: str) -> Iterable[str]:
    parser = RalphArgumentParser(prog=f"ralph {command}")
    load_command(command).add_arguments(parser)
    return [
        str(name)
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for name in action.choices
    ]


class _LazyParser:
    """A parser that is built on first use: most actions of a command are never used."""

    __slots__ = ("_calls", "_options", "_parser")

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._calls: list[tuple[str, tuple[str, ...], dict[str, Any]]] = []
        self._parser: RalphArgumentParser | None = None

    def add_argument(self, *names: str, **options: Any) -> None:
        """Record an argument to add once the parser is built."""
        self._calls.append(("add_argument", names, options))

    def set_defaults(self, **values: Any) -> None:
        """Record defaults to set once the parser is built."""
        self._calls.append(("set_defaults", (), values))

    @property
    def built(self) -> RalphArgumentParser:
        """The parser with its arguments."""
        if self._parser is None:
            self._parser = RalphArgumentParser(**self._options)
        while self._calls:
            method, names, options = self._calls.pop(0)
            getattr(self._parser, method)(*names, **options)
        return self._parser

    def __getattr__(self, name: str) -> Any:
        return getattr(self.built, name)


def build_parser(command: str | None) -> RalphArgumentParser:
    """Return a parser for all commands, or only for `command` if it is known."""
    parser = RalphArgumentParser(prog="ralph", description="A loop for coding agents, with a memory.", epilog=EPILOG)
    parser.add_argument("-C", dest="directory", metavar="DIR", default=".", help="work in this directory")
    parser.add_argument("--trust", action="store_true", help="trust the directory with what it brings, and remember it")
    parser.add_argument(
        "--plain",
        action="store_true",
        help="print text without colors, symbols and moving lines, for screen readers",
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", title="commands", description="", parser_class=RalphArgumentParser
    )
    for name in (command,) if command in COMMANDS else COMMANDS:
        subparser = commands.add_parser(name, help=COMMANDS[name], description=COMMANDS[name] + ".")
        if name == command:
            load_command(name).add_arguments(subparser)
    return parser


def load_command(command: str) -> Any:
    """Import the module of a command."""
    import importlib

    return importlib.import_module(f"ralph.cli.{_MODULES.get(command, command)}")


def print_error(error: RalphError) -> None:
    """Print the message of an error to stderr."""
    from ralph.cli.output import printable

    print(f"Error: {printable(str(error))}", file=sys.stderr)


def run_command_line(
    arguments: Sequence[str] | None = None, *, report: Callable[[RalphError], None] = print_error
) -> int:
    """Run one command and return its exit status; `report` receives the error a command ended with."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    _repair_streams()
    if "_ARGCOMPLETE" in os.environ and arguments is None:
        from ralph.cli.completion import complete

        complete()
    try:
        args = _parse(argv)
        _use_plain(args.plain)
        if args.trust and args.command not in ("init", "trust"):
            from ralph.cli.trust import trust_first

            trust_first(args)
        try:
            return int(args.act(args) or 0)
        finally:
            sys.stdout.flush()
    except RalphError as error:
        report(error)
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output is gone, as in `ralph task list | head`. Keep Python from failing at exit as well.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"Error: {error.strerror or error}{f': {error.filename}' if error.filename else ''}.", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


main = run_command_line


def _repair_streams() -> None:
    """Replace closed streams, and let the others print characters they cannot encode."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115
        elif mode == "w" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _parse(argv: list[str]) -> argparse.Namespace:
    """Return the parsed arguments, with the function to call as `act`."""
    command = _find_command(argv)
    if any("\ud800" <= character <= "\udfff" for argument in argv for character in argument):
        raise UsageError("An argument is not valid UTF-8.")
    if command is not None and command not in COMMANDS:
        meant = suggest_action(command) or suggest_match(command, COMMANDS)
        raise UsageError(f"Unknown command {command!r}.{meant} See: ralph --help", code="unknown-command")
    wants_full_help = command is not None and not {"-h", "--help"}.isdisjoint(argv[: argv.index(command)])
    parser = build_parser(None if wants_full_help else command)
    words, is_plain = _take_plain(argv)
    own, program = _split_program(words) if command in ("run", "plan") else (words, [])
    args, unknown = parser.parse_known_args(own)
    args.plain, args.program = is_plain, tuple(program)
    if unknown:
        parser.reject_unknown(args, unknown)
    if args.version:
        args.act = _print_version
    elif command is None or args.command is None:
        from ralph.cli.summary import run

        args.act = run
    return args


def _take_plain(argv: list[str]) -> tuple[list[str], bool]:
    """Return the arguments without `--plain`, and whether it was among them: it may stand before or after a command."""
    end = argv.index("--") if "--" in argv else len(argv)
    own = [argument for argument in argv[:end] if argument != "--plain"]
    return [*own, *argv[end:]], len(own) < end


def _use_plain(asked: bool) -> None:
    from ralph.cli.output import use_plain

    use_plain(asked)


def _print_version(args: argparse.Namespace) -> None:
    from ralph import __version__

    print(f"ralph {__version__}")


def _split_program(argv: list[str]) -> tuple[list[str], list[str]]:
    """Return the arguments before and after `--`; argparse allows no options between a title and a program."""
    end = argv.index("--") if "--" in argv else len(argv)
    return argv[:end], argv[end + 1 :]


def _find_command(argv: list[str]) -> str | None:
    """Return the first argument that is neither an option nor the value of one."""
    skip = False
    for argument in argv:
        if skip:
            skip = False
        elif argument == "-C":
            skip = True
        elif not argument.startswith("-"):
            return argument
    return None
