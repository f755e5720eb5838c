"""`ralph hook`, for `--help` and manual use. Hooks of agents take the faster path in `ralph.__main__`."""

from __future__ import annotations

import os

from ralph.cli.output import working_directory
from ralph.core.agents import CONNECTABLE_AGENTS
from ralph.integrations.hooks import HOOK_EVENTS, main

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

EPILOG = """\
Agents call this command; ralph setup AGENT adds it to their settings. It reads JSON from stdin, prints one JSON
object and always exits with 0. Errors are reported by ralph doctor.

To see the context that a session would get:  echo '{}' | ralph hook session-start
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "event", metavar="EVENT", help=f"one of {', '.join(HOOK_EVENTS)}, or the agent's own name for it"
    )
    parser.add_argument(
        "--agent", metavar="NAME", default="claude", help=f"{', '.join(CONNECTABLE_AGENTS)} (default: claude)"
    )
    parser.epilog = EPILOG
    parser.set_defaults(act=handle_hook)


def handle_hook(args: argparse.Namespace) -> int:
    """Handle one hook event."""
    os.chdir(working_directory(args))
    return main([args.event, "--agent", args.agent])
