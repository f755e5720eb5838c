"""`ralph serve`."""

from __future__ import annotations

import os
import sys

from ralph.cli.output import parse_int, working_directory
from ralph.core.allocator import collect_garbage_early, use_one_arena
from ralph.core.config import load_config
from ralph.core.errors import RalphError
from ralph.core.extras import install_hint
from ralph.web.tokens import DEFAULT_SERVE_PORT, load_or_create_token, token_path
from ralph.workspace import actor_at, find_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from ralph.web.server import WebServer

EPILOG = """\
Open the printed link once to sign in with your browser. Programs send the token in a header:
  TOKEN=$(ralph serve --print-token)
  curl -H "Authorization: Bearer $TOKEN" http://127.0.0.1:8420/api/status
The API is documented at /api/docs, and MCP clients connect to /mcp with the same token.
From another machine: ssh -L 8420:127.0.0.1:8420 HOST
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    parser.add_argument("--host", metavar="NAME", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument(
        "--port",
        metavar="N",
        type=parse_int,
        default=DEFAULT_SERVE_PORT,
        help=f"port, 0 for any free one (default: {DEFAULT_SERVE_PORT})",
    )
    parser.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="additional NAME or NAME:PORT to accept requests for; repeatable",
    )
    parser.add_argument("--read-only", action="store_true", help="only show: change nothing and start no run")
    parser.add_argument("--open", action="store_true", help="open the dashboard in a browser")
    parser.add_argument("--print-token", action="store_true", help="print the API token and exit")
    parser.set_defaults(act=run)


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl+C."""
    root = find_root(working_directory(args))
    if args.print_token:
        actor_at(root, load_config(root)).require("serve")
        print(load_or_create_token(token_path(root)))
        return 0
    server = create_server(root, args.host, args.port, args.allow_host, is_read_only=args.read_only)
    print(f"Serving {root}. Press Ctrl+C to stop.")
    print(f"  Dashboard  {server.sign_in_url}")
    print(f"  API        {server.url}/api, documented at /api/docs; for the token: ralph serve --print-token")
    is_off = " (off: this server is read-only)" if args.read_only else ", with the same token"
    print(f"  MCP        {server.mcp_url}{is_off}")
    page = _open_in_browser(server.sign_in_url, token_path(root).with_suffix(".html")) if args.open else None
    try:
        return run_server(server)
    finally:
        if page:
            page.unlink(missing_ok=True)


def create_server(
    root: str, host: str, port: int, allowed_hosts: Sequence[str], *, is_read_only: bool = False
) -> WebServer:
    """Return the server of a project, which already listens."""
    try:
        from ralph.web.server import WebServer
    except ImportError as error:
        if not error.name or error.name.startswith("ralph"):
            raise
        raise RalphError(f"The server needs optional packages: {install_hint('server')}") from None
    return WebServer(root, host, port, allowed_hosts, is_read_only=is_read_only)


def run_server(server: WebServer) -> int:
    """Serve until Ctrl+C."""
    from ralph.store.sqlite.driver import limit_page_caches

    sys.stdout.flush()
    use_one_arena()
    limit_page_caches()
    collect_garbage_early()
    try:
        server.run()
    except KeyboardInterrupt:
        print("Stopped.")
    return 0


def _open_in_browser(link: str, page: Path) -> Path:
    """Open a page in a browser that redirects to a link. The link itself would be visible in the process list."""
    import webbrowser
    from html import escape

    page.unlink(missing_ok=True)
    handle = os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(link)}">\n')
    webbrowser.open(page.as_uri())
    return page
