"""`ralph mcp`."""

from __future__ import annotations

import sys

from ralph.cli.output import parse_int, working_directory
from ralph.core.actor import AGENT
from ralph.core.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

EPILOG = """\
Agents start it themselves. Connect one with ralph setup claude, or by hand:
  claude mcp add ralph -- ralph mcp
With --http it starts the server of ralph serve, which also serves MCP clients on this machine.
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
    if args.http:
        return _serve_http(args)
    if args.host is not None or args.port is not None:
        raise UsageError("--host and --port need --http.")
    if sys.stdin.isatty():
        print(
            "Waiting for an MCP client on standard input. Agents start this command themselves: ralph setup claude."
            " Press Ctrl+D to stop.",
            file=sys.stderr,
        )
    from ralph.integrations.mcp.stdio import serve_stdio

    directory = "." if args.directory == "." else str(working_directory(args))
    # MCP clients count as agents, inside and outside the loop.
    serve_stdio(directory, AGENT)
    return 0


def _serve_http(args: argparse.Namespace) -> int:
    from ralph.cli.serve import create_server, run_server
    from ralph.web.tokens import DEFAULT_MCP_PORT, mcp_token
    from ralph.workspace import find_root

    root = find_root(working_directory(args))
    port = DEFAULT_MCP_PORT if args.port is None else args.port
    server = create_server(root, args.host or "127.0.0.1", port, ())
    print(f"Serving {root} at {server.mcp_url}. Press Ctrl+C to stop.")
    print("To connect Claude Code:")
    header = f'--header "Authorization: Bearer {mcp_token(server.token)}"'
    print(f"  claude mcp add --transport http ralph {server.mcp_url} {header}")
    return run_server(server)
