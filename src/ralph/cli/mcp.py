"""`ralph mcp`."""

from __future__ import annotations

import os
import sys

from ralph.cli.output import parse_int, working_directory
from ralph.core.actor import actor_from_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ralph.core.actor import Actor

EPILOG = """\
Agents start it themselves. Connect one with ralph setup claude, or by hand:
  claude mcp add ralph -- ralph mcp
With --http it keeps running and serves clients on this machine.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    parser.add_argument("--http", action="store_true", help="serve over HTTP instead of standard input and output")
    parser.add_argument("--host", metavar="NAME", help="with --http: 127.0.0.1, localhost or ::1 (default: 127.0.0.1)")
    parser.add_argument(
        "--port", metavar="N", type=parse_int, help="with --http: port, 0 for any free one (default: 8417)"
    )
    parser.set_defaults(act=run)


def run(args: argparse.Namespace) -> int:
    """Serve until the client disconnects, or with --http until Ctrl+C."""
    # MCP clients count as agents, inside and outside the loop.
    agent = actor_from_environment(os.environ, is_agent=True)
    directory = "." if args.directory == "." else str(working_directory(args))
    if args.http:
        return _serve_http(args, directory, agent)
    if args.host is not None or args.port is not None:
        from ralph.core.errors import UsageError

        raise UsageError("--host and --port need --http.")
    if sys.stdin.isatty():
        print(
            "Waiting for an MCP client on standard input. Agents start this command themselves: ralph setup claude."
            " Press Ctrl+D to stop.",
            file=sys.stderr,
        )
    from ralph.integrations.mcp.stdio import serve_stdio

    serve_stdio(directory, agent)
    return 0


def _serve_http(args: argparse.Namespace, directory: str, agent: Actor) -> int:
    from ralph.web.mcp import DEFAULT_MCP_PORT, MCP_TOKEN_FILE, McpHttpServer
    from ralph.workspace import FOLDER, find_root

    root = find_root(directory)
    with McpHttpServer(
        root, args.host or "127.0.0.1", DEFAULT_MCP_PORT if args.port is None else args.port, agent
    ) as server:
        print(f"Serving {root} at {server.url}. Press Ctrl+C to stop.")
        if server.is_token_new:
            print("To connect Claude Code (the token is shown only once):")
            header = f'--header "Authorization: Bearer {server.token}"'
            print(f"  claude mcp add --transport http ralph {server.url} {header}")
        else:
            print(f"The token is in {FOLDER}/{MCP_TOKEN_FILE}.")
        sys.stdout.flush()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("Stopped.")
    return 0
