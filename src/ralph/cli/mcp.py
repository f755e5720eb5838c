"""`ralph mcp`."""

from __future__ import annotations

import os
import sys

from ralph.cli.output import directory_of, whole_number
from ralph.config import DOOR_VARIABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

EPILOG = """\
An agent starts it: connect one with ralph setup claude, or by hand, for example
  claude mcp add ralph -- ralph mcp
With --http it stays, for clients that come over the network of this machine.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    parser.add_argument("--http", action="store_true", help="serve over HTTP instead of standard input and output")
    parser.add_argument("--host", metavar="NAME", help="with --http: 127.0.0.1, localhost or ::1 (default: 127.0.0.1)")
    parser.add_argument("--port", metavar="N", type=whole_number, help="with --http: where (default: 8417; 0: any)")
    parser.set_defaults(act=run)


def run(given: argparse.Namespace) -> int:
    """Serve until the client has gone, or with --http until Ctrl+C."""
    # Whoever comes in by this door is an agent, also outside the loop.
    os.environ[DOOR_VARIABLE] = "mcp"
    directory = "." if given.directory == "." else str(directory_of(given))
    if given.http:
        return _serve_http(given, directory)
    if given.host is not None or given.port is not None:
        from ralph.errors import UsageError

        raise UsageError("--host and --port go with --http.")
    if sys.stdin.isatty():
        print(
            "This serves the project's memory and tasks to an agent, which starts it itself: ralph setup claude."
            " Ctrl+D ends it.",
            file=sys.stderr,
        )
    from ralph.mcp.stdio import serve

    serve(directory)
    return 0


def _serve_http(given: argparse.Namespace, directory: str) -> int:
    from ralph.location import FOLDER, find_root
    from ralph.mcp.http import PORT, TOKEN_FILE, Server

    root = find_root(directory)
    with Server(root, given.host or "127.0.0.1", PORT if given.port is None else given.port) as server:
        print(f"Serving {root} at {server.url}. Ctrl+C ends it.")
        if server.is_token_new:
            print("To connect Claude Code (this is the only time the token is shown):")
            header = f'--header "Authorization: Bearer {server.token}"'
            print(f"  claude mcp add --transport http ralph {server.url} {header}")
        else:
            print(f"The token is in {FOLDER}/{TOKEN_FILE}.")
        sys.stdout.flush()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("Stopped.")
    return 0
