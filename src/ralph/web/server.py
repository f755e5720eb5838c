"""Web server of a project."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import nullcontext
from typing import TYPE_CHECKING

import uvicorn

from ralph.core.errors import RalphError, UsageError
from ralph.integrations.project_handle import open_store_for_vectors
from ralph.memory.recall.vector_server import VectorServer
from ralph.project import Project
from ralph.web.app import ServerMode, WebApp
from ralph.web.auth import MCP_PATH
from ralph.web.connections import (
    ACCEPT_BATCH,
    LISTEN_BACKLOG,
    MAX_CONNECTIONS,
    MAX_HEAD_BYTES,
    Connection,
    ConnectionState,
)
from ralph.web.tokens import (
    DEFAULT_SERVE_PORT,
    LOOPBACK_HOSTS,
    MAX_PORT,
    derive_secret,
    load_or_create_token,
    mcp_tokens,
    parse_host,
    server_url,
    token_path,
)

if TYPE_CHECKING:
    from collections.abc import Collection

KEEP_ALIVE_TIMEOUT = 30
"""Time an idle connection is kept open, in seconds."""
SHUTDOWN_TIMEOUT = 3
"""Time running requests have to finish at shutdown, in seconds."""
HOST_NAME_DIGITS = 12
"""Number of digits in the server's own host name."""


class WebServer:
    """Server of a project that listens on creation and answers while it runs."""

    def __init__(
        self,
        root: str,
        host: str = "127.0.0.1",
        port: int = DEFAULT_SERVE_PORT,
        hosts: Collection[str] = (),
        *,
        is_read_only: bool = False,
    ) -> None:
        if host not in LOOPBACK_HOSTS and not hosts:
            raise UsageError(
                f"{host} is reachable from other machines. Name the host they may use with"
                " ralph serve --allow-host NAME, or keep the server local and use an SSH tunnel (ssh -L)."
            )
        if not 0 <= port <= MAX_PORT:
            raise UsageError(f"--port must be between 0 and {MAX_PORT}.")
        with Project.open(root) as project:  # fail now if the project cannot be opened, not on the first request
            project.actor.require("serve")
            self._name = project.store.project_name
        hosts = [_normalize_host(name) for name in hosts]
        self.root = root
        self._mode = ServerMode(
            is_read_only=is_read_only,
            is_local=host in LOOPBACK_HOSTS and all(_is_loopback(parse_host(name)[0]) for name in hosts),
        )
        self._host = host
        self._socket = _listen(host, port)
        self.port: int = self._socket.getsockname()[1]
        try:
            self.token = load_or_create_token(token_path(root))
        except RalphError:
            self._socket.close()
            raise
        self._own_name = f"ralph-{derive_secret(self.token, 'name')[:HOST_NAME_DIGITS]}.localhost"
        self._hosts = (*hosts, self._own_name)
        self._server: _UvicornServer | None = None

    @property
    def url(self) -> str:
        """URL of the server for programs."""
        return server_url(self._host, self.port)

    @property
    def mcp_url(self) -> str:
        """URL of the MCP endpoint."""
        return self.url + MCP_PATH

    @property
    def sign_in_url(self) -> str:
        """URL that signs a browser in.

        Cookies are not bound to a port. On this machine the server uses its own unguessable host name, so that it
        shares no cookies with other local servers.
        """
        host = self._own_name if self._host in LOOPBACK_HOSTS else parse_host(self._hosts[0])[0]
        return f"{server_url(host, self.port)}/?token={self.token}"

    def run(self) -> None:
        """Serve until Ctrl+C or a signal."""
        # Client errors are answered and not logged; internal errors are printed by the application.
        logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
        app = WebApp(
            self.root,
            self.token,
            name=self._name,
            port=self.port,
            hosts=self._hosts,
            mcp_tokens=mcp_tokens(self.root, self.token),
            mode=self._mode,
        )
        config = uvicorn.Config(
            app,
            loop="asyncio",
            http=Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=ACCEPT_BATCH,
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
            limit_concurrency=MAX_CONNECTIONS + 1,  # reached only if all of them are busy with authenticated requests
            timeout_keep_alive=KEEP_ALIVE_TIMEOUT,
            timeout_graceful_shutdown=SHUTDOWN_TIMEOUT,
        )
        self._server = _UvicornServer(config, app)
        try:
            with nullcontext() if self._mode.is_read_only else VectorServer(lambda: open_store_for_vectors(self.root)):
                self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()

    def stop(self) -> None:
        """Stop the server from another thread."""
        if self._server:
            self._server.should_exit = True


class _UvicornServer(uvicorn.Server):
    """uvicorn server that limits connections, and closes event streams and projects at shutdown."""

    def __init__(self, config: uvicorn.Config, app: WebApp) -> None:
        super().__init__(config)
        self.server_state = ConnectionState()
        self._app = app
        self._release: asyncio.Task[None]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections in small batches, but let many wait."""
        await super().startup(sockets)
        self._release = asyncio.create_task(self._app.release_dead_claims())
        for sock in sockets or ():
            sock.listen(LISTEN_BACKLOG)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close all streams, wait for other requests, then close the projects."""
        self._release.cancel()
        self._app.end_streams()
        await super().shutdown(sockets)
        self._app.close()


def _normalize_host(value: str) -> str:
    """Normalize an allowed host name with an optional port.

    Raises:
        UsageError: If it is not a host name.
    """
    name = value.strip().lower().rstrip(".")
    try:
        is_valid = bool(parse_host(name)[0])
    except ValueError:
        is_valid = False
    if not is_valid:
        raise UsageError(f"--allow-host {value!r} is not a host name. Examples: ralph.example.org, box:8420.")
    return name


def _is_loopback(name: str) -> bool:
    return name in LOOPBACK_HOSTS or name.endswith(".localhost")


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Raises:
        RalphError: If the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the protocol is explicit; otherwise each response is delayed by 40 ms.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(LISTEN_BACKLOG)
    except OSError as error:
        sock.close()
        option = "--host" if isinstance(error, socket.gaierror) else "--port"
        raise RalphError(
            f"Cannot listen on {host}:{port}: {error.strerror}. Choose another one with {option}."
        ) from error
    return sock
