"""The ralph command: find the noun, load its module, run it.

Only the module of the command at hand is imported, and that one imports what it
needs when it needs it: `ralph status` runs in front of people's prompts.
"""

from __future__ import annotations

import argparse
import os
import sys

from ralph.errors import RalphError, UsageError
from ralph.text import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, NoReturn

COMMANDS = {
    "init": "Set up this directory for Ralph",
    "run": "Work on the tasks with an agent, one after the other",
    "status": "Show where the project stands",
    "watch": "Follow a run that works in another terminal",
    "task": "Add, list and settle tasks",
    "feature": "Group tasks under a spec and a plan",
    "prompt": "Show what the next attempt at a task will be told",
    "memory": "See, add to and correct what is remembered",
    "learn": "Decide what is kept of what the runs taught",
    "journal": "Read what happened, attempt by attempt",
    "failures": "Read what went wrong, and how often",
    "stats": "Count what the runs, the models and the memory came to",
    "project": "See, rename and remove the projects of a database",
    "backup": "Make and check copies of all that is stored",
    "restore": "Bring back a backup; what it replaces is kept",
    "store": "Copy a project to another database, or see where it is",
    "doctor": "Check that all is sound, and say what to do if not",
    "hook": "Answer an agent's hook: what it should know, what it learned",
    "mcp": "Serve the memory and the tasks to agents as MCP tools",
    "serve": "Show it all in a browser, and to other programs over HTTP",
    "setup": "Connect an agent to this memory, or disconnect it",
    "demo": "Watch the loop learn, in under 20 seconds",
    "completion": "Print the completion script for your shell",
}

EPILOG = """\
A first run:
  ralph init
  ralph task add "Make the tests pass"
  ralph run --agent claude     # or codex, gemini, opencode, …
  ralph run -- sh agent.sh     # or any program: prompt on stdin, answer on stdout
  ralph journal list

Its memory inside your own sessions, without the loop:
  ralph setup claude

Exit codes: 0 fine, 1 failed or not found, 2 wrong usage, 3 nothing to do, 130 interrupted.
"""


# Looking for translations of argparse's few words takes two thirds of the time it takes to build a parser.
argparse._ = str  # type: ignore[attr-defined]


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32, width=_width())


def _width() -> int:
    """Give the width of the terminal; argparse would load a module for archives to find it."""
    try:
        return int(os.environ.get("COLUMNS", "")) - 2
    except ValueError:
        pass
    try:
        return os.get_terminal_size().columns - 2
    except (OSError, ValueError):
        return 78


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one sentence and a way out."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", _Formatter)
        options.setdefault("allow_abbrev", False)
        super().__init__(**options)

    def add_subparsers(self, **options: Any) -> Any:
        """Add the actions of a command; a parser is built only of the one that is asked for."""
        options.setdefault("parser_class", _Later)
        options.setdefault("prog", self.prog)  # what argparse finds out by formatting a usage
        return super().add_subparsers(**options)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the command line, and where to read more."""
        message = clean(message).removeprefix("argument ").rstrip(".")
        end = "" if message.endswith("?") else "."
        self.exit(2, f"Error: {message[:1].upper()}{message[1:]}{end} See: {self.prog} --help\n")

    def refuse(self, given: argparse.Namespace, words: Sequence[str]) -> NoReturn:
        """Say which words nothing is known about, in the name of the command they were said to."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction) and getattr(given, action.dest, None) in action.choices:
                action.choices[getattr(given, action.dest)].refuse(given, words)
        option = next((word.partition("=")[0] for word in words if word.startswith("-")), None)
        if option is None:
            self.error(f"there is no use for {' '.join(words)}")
        self.error(f"there is no option {option}.{meant(option, self._option_string_actions)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a value that is none of the choices, which are named as a person would type them."""
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            raise argparse.ArgumentError(
                action, f"invalid choice: {value!r} (choose from {', '.join(known)}).{meant(str(value), known)}"
            )


def meant(word: str, known: Iterable[str]) -> str:
    """Give the question whether a close known word was meant, or nothing."""
    import difflib

    close = difflib.get_close_matches(word, list(known), n=1)
    return f" Did you mean {close[0]}?" if close else ""


class _Later:
    """A parser that is built when something is asked of it: most actions of a command are never asked for."""

    __slots__ = ("_options", "_parser", "_told")

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._told: list[tuple[str, tuple[str, ...], dict[str, Any]]] = []
        self._parser: Parser | None = None

    def add_argument(self, *names: str, **options: Any) -> None:
        """Add an argument, once the parser is built."""
        self._told.append(("add_argument", names, options))

    def set_defaults(self, **values: Any) -> None:
        """Set values that no argument sets, once the parser is built."""
        self._told.append(("set_defaults", (), values))

    def __getattr__(self, name: str) -> Any:
        if self._parser is None:
            self._parser = Parser(**self._options)
        while self._told:
            method, names, options = self._told.pop(0)
            getattr(self._parser, method)(*names, **options)
        return getattr(self._parser, name)


def build_parser(command: str | None) -> Parser:
    """Give the parser of the whole command line, or of what one command needs of it."""
    parser = Parser(prog="ralph", description="A loop for coding agents, with a memory.", epilog=EPILOG)
    parser.add_argument("-C", dest="directory", metavar="DIR", default=".", help="work in this directory")
    parser.add_argument("--version", action="store_true", help="print the version")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", title="commands", description="", parser_class=Parser
    )
    for name in (command,) if command in COMMANDS else COMMANDS:
        one = commands.add_parser(name, help=COMMANDS[name], description=COMMANDS[name] + ".")
        if name == command:
            load(name).add_arguments(one)
    return parser


def load(command: str) -> Any:
    """Give the module of a command."""
    import importlib

    return importlib.import_module(f"ralph.cli.{command}")


def print_error(error: RalphError) -> None:
    """Print the message of an error to stderr."""
    from ralph.cli.output import safe

    print(f"Error: {safe(str(error))}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None, *, report: Callable[[RalphError], None] = print_error) -> int:
    """Run one command and return its exit status; `report` receives the error a command ended with."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _mend_streams()
    try:
        return _run(words)
    except RalphError as error:
        report(error)
        return error.exit_code
    except BrokenPipeError:
        # Whoever read our output has gone, which is no fault. Python must not complain at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"Error: {error.strerror or error}{f': {error.filename}' if error.filename else ''}.", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _mend_streams() -> None:
    """Make printing safe: a stream may be closed, or unable to write what we say."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115
        elif mode == "w" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _run(words: list[str]) -> int:
    command = _command_in(words)
    if any("\ud800" <= character <= "\udfff" for word in words for character in word):
        raise UsageError("An argument is not valid UTF-8.")
    if command is not None and command not in COMMANDS:
        raise UsageError(f"There is no command {command!r}.{meant(command, COMMANDS)} See: ralph --help")
    asks_for_all = command is not None and not {"-h", "--help"}.isdisjoint(words[: words.index(command)])
    parser = build_parser(None if asks_for_all else command)
    given, unknown = parser.parse_known_args(words)
    if unknown:
        parser.refuse(given, unknown)
    if given.version:
        from ralph import __version__

        print(f"ralph {__version__}")
        return 0
    if command is None or given.command is None:
        parser.print_help()
        return 2 if words else 0
    try:
        return int(given.act(given) or 0)
    finally:
        sys.stdout.flush()


def _command_in(words: list[str]) -> str | None:
    """Give the first word that is neither an option nor an option's value."""
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word == "-C":
            skip = True
        elif not word.startswith("-"):
            return word
    return None
