"""`ralph hook`, for people who ask what it does; agents call it, and never get this far."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

EPILOG = """\
Agents call it: ralph setup AGENT writes it into their settings. It reads the agent's JSON on stdin, prints one JSON
object and always exits 0; what went wrong is in: ralph doctor

To see what a session would be told:  echo '{}' | ralph hook session-start
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    from ralph.config import CONNECTABLE
    from ralph.hooks import EVENTS

    parser.add_argument("event", metavar="EVENT", help=f"one of {', '.join(EVENTS)}, or what the agent calls them")
    parser.add_argument("--agent", metavar="NAME", default="claude", help=f"{', '.join(CONNECTABLE)} (default: claude)")
    parser.epilog = EPILOG
    parser.set_defaults(act=answer)


def answer(args: argparse.Namespace) -> int:
    """Answer one hook."""
    import os

    from ralph.cli.output import directory_of
    from ralph.hooks import main

    os.chdir(directory_of(args))
    return main([args.event, "--agent", args.agent])
