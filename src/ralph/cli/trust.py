"""`ralph trust`, and the question that other commands ask about a directory that is not trusted."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from pathlib import Path

from ralph.cli.output import add_format_option, pluralize, print_json, printable, working_directory
from ralph.core.actor import current_actor
from ralph.core.config import load_config
from ralph.core.errors import NotTrustedError, ProjectNotFoundError, UsageError
from ralph.core.settings import SECTIONS
from ralph.trust import accept_review, review_trust, revoke_trust
from ralph.workspace import find_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, TextIO

    from ralph.trust import SettingChange, TrustReview

EPILOG = """\
A directory may come from somebody else. Until you trust it, its settings that run programs, change what reaches them
or open a database elsewhere are not used, and its memory files are not read. You are asked again when they change.
In scripts: ralph --trust COMMAND, ralph trust --yes, or RALPH_TRUST=1.
"""
_DIFF_COLORS = {"+": "32", "-": "31"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask for confirmation")
    parser.add_argument("--show", action="store_true", help="show what is trusted and what is not; change nothing")
    parser.add_argument("--revoke", action="store_true", help="no longer trust this directory")
    add_format_option(parser)
    parser.set_defaults(act=run)


def add_trust_option(parser: argparse.ArgumentParser) -> None:
    """Add `--trust` to a command, with the meaning it has before the command."""
    parser.add_argument(
        "--trust",
        action="store_true",
        default=argparse.SUPPRESS,  # otherwise it would undo the option before the command
        help="trust the directory with what it brings, and remember it",
    )


def run(args: argparse.Namespace) -> int:
    """Show what a directory brings, and trust it after confirmation."""
    root = _directory(args)
    review = review_trust(root)
    if args.show:
        return _show(review, args.format)
    if args.revoke:
        revoke_trust(root)
        print(f"{printable(root)} is not trusted any more. To trust it again: ralph trust")
        return 0
    if review.is_trusted:
        print(f"{printable(root)} is trusted, and brings nothing new.")
        return 0
    print_review(review, sys.stdout)
    if not (args.yes or args.trust) and not _ask(sys.stdout):
        print("Nothing was changed.")
        return 1
    is_project = _accept(review)
    print(f"{printable(root)} is trusted on this machine. To take it back: ralph trust --revoke")
    if not is_project:
        print("Set it up with: ralph init")
    return 0


def _directory(args: argparse.Namespace) -> str:
    """Return the project that the directory belongs to, or the directory itself if it is none yet."""
    directory = working_directory(args)
    try:
        return find_root(directory)
    except ProjectNotFoundError:
        return str(directory.absolute())


# --- other commands ------------------------------------------------------------------


def trust_first(args: argparse.Namespace) -> None:
    """Trust the directory before a command, as `--trust` asks."""
    accept_review(review_trust(_directory(args)))


def offer_trust(directory: Path, *, trust: bool) -> None:
    """Trust a directory that is set up as a project if it brings something and the person wants that."""
    review = review_trust(directory.absolute())
    if not trust and review.waits and _can_ask():
        print_review(review, sys.stderr)
        trust = _ask(sys.stderr)
    if trust:
        accept_review(review)


def require_trust(args: argparse.Namespace) -> None:
    """Ask before a run whose settings are not trusted; without a terminal, refuse it."""
    root = find_root(working_directory(args))
    config = load_config(root)
    if not config.untrusted:
        return
    if not _can_ask():
        from ralph.loop.runs import require_trust as refuse_untrusted

        refuse_untrusted(config, str(root))
    review = review_trust(root)
    print_review(review, sys.stderr)
    if not _ask(sys.stderr):
        raise NotTrustedError(f"{root} is not trusted. Nothing was run.")
    accept_review(review)


def _accept(review: TrustReview) -> bool:
    """Record the decision, and sync the memory files; return whether the directory is a project."""
    from ralph.project import Project

    accept_review(review)
    try:
        with Project.open(review.directory) as project, project.synced():
            return True
    except ProjectNotFoundError:
        return False


def _can_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty() and not current_actor().is_agent


def _ask(file: TextIO) -> bool:
    """Ask whether to trust a directory; anything but yes is a no."""
    if not sys.stdin.isatty():
        raise UsageError("Confirmation needs a terminal. In scripts: ralph trust --yes", code="no-terminal")
    print("Trust this directory on this machine? [y/N] ", end="", file=file, flush=True)
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        print(file=file)
    return answer.strip().lower() in ("y", "yes")


# --- output --------------------------------------------------------------------------


def _show(review: TrustReview, format: str) -> int:
    """Print the state of a directory. Returns 1 if something is not trusted."""
    if format == "json":
        print_json(review)
    elif review.is_trusted:
        print(f"{printable(review.directory)} is trusted.")
        _print_settings(review, sys.stdout)
    else:
        print_review(review, sys.stdout)
        print("To trust it: ralph trust")
    return 0 if review.is_trusted else 1


def print_review(review: TrustReview, file: TextIO) -> None:
    """Print what a directory brings, as a difference from what was trusted before."""
    state = "has changed since it was trusted" if review.was_trusted else "is not trusted on this machine"
    print(f"{printable(review.directory)} {state}.", file=file)
    if review.new_settings:
        print("\nIts settings decide what runs, what reaches programs, or where data is stored:", file=file)
    _print_settings(review, file)
    if review.memories and not review.are_files_trusted:
        count = pluralize(review.memories, "memory")
        print(f"\nIts files have {count}, which agents would be shown:", file=file)
        print("  .agent/memories.md, .ralph/knowledge/", file=file)
    if not review.settings and not review.memories:
        print("It brings no settings that need trust, and no memories.", file=file)
    print(file=file)


def _print_settings(review: TrustReview, file: TextIO) -> None:
    for change in review.settings:
        print(f"  {change.name}", file=file)
        for line in _diff(change):
            print(f"    {_color(line, file)}", file=file)


def _diff(change: SettingChange) -> Iterator[str]:
    """Yield the lines of a value, marked as in a diff where it is not the trusted one."""
    import difflib

    before, after = _lines(change.name, change.before), _lines(change.name, change.after)
    return (line for line in difflib.ndiff(before, after) if not line.startswith("?"))


def _lines(name: str, value: Any) -> list[str]:
    """Return a value as lines: a command as a person types it, a list one item per line."""
    if value is None:
        return []
    section, _, key = name.rpartition(".")
    setting = SECTIONS[section].settings.get(key) if section in SECTIONS else None
    if isinstance(value, list) and setting and setting.is_command:
        return [_escape(shlex.join(map(str, value)))]
    if isinstance(value, list):
        return [_escape(str(item)) for item in value]
    if isinstance(value, dict):
        return [_escape(f"{key}: {item}") for key, item in value.items()]
    return [_escape(value if isinstance(value, str) else json.dumps(value))]


def _escape(text: str) -> str:
    """Return text in full with what a terminal would not show as it is escaped."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def _color(line: str, file: TextIO) -> str:
    code = _DIFF_COLORS.get(line[:1])
    return f"\x1b[{code}m{line}\x1b[0m" if code and file.isatty() and not os.environ.get("NO_COLOR") else line
