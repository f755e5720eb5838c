"""Serving a project over HTTP until somebody ends it."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ralph.doorkeeping import HIGHEST_PORT, LOOPBACK, SERVE_PORT, drawn_from, name_in, own_token, url_of
from ralph.errors import RalphError, UsageError
from ralph.files import kept_for
from ralph.project import Project
from ralph.server.app import build

if TYPE_CHECKING:
    from collections.abc import Collection
    from types import FrameType

    from ralph.server.app import Built

MOST_CONNECTIONS = 256
KEEP_ALIVE_SECONDS = 30
HEAD_SECONDS = 10.0
"""Whoever has not said what is wanted after so long is not listened to any more: others need the connection."""
SHUTDOWN_SECONDS = 3
NAME_DIGITS = 12
_HOST = re.compile(r"[a-z0-9._-]+(:[0-9]{1,5})?|\[[0-9a-f:.]+\](:[0-9]{1,5})?")


def token_path(root: str) -> Path:
    """Give where the token of a project is kept: with the person, for what is in the project a clone may bring."""
    return Path(f"{kept_for(root, 'serve')}.token")


class Server:
    """A server that listens already, and answers once it runs."""

    def __init__(self, root: str, host: str = "127.0.0.1", port: int = SERVE_PORT, hosts: Collection[str] = ()) -> None:
        if host not in LOOPBACK and not hosts:
            raise UsageError(
                f"Under {host} others can come in: say by which name, with --allow-host NAME."
                " To come from elsewhere without that: ssh -L."
            )
        if not 0 <= port <= HIGHEST_PORT:
            raise UsageError(f"--port must be from 0 to {HIGHEST_PORT}.")
        with Project.open(root) as project:  # what is wrong with it is said now, not to the first who asks
            self._name = project.store.project_name
        hosts = [_host_name(one) for one in hosts]
        self.root = root
        self._host = host
        self._socket = _listening(host, port)
        self.port: int = self._socket.getsockname()[1]
        try:
            self.token, _ = own_token(token_path(root))
        except RalphError:
            self._socket.close()
            raise
        self._own_name = f"ralph-{drawn_from(self.token, 'name')[:NAME_DIGITS]}.localhost"
        self._hosts = (*hosts, self._own_name)
        self._server: _Ending | None = None

    @property
    def url(self) -> str:
        """The address of the server, for programs."""
        return url_of(self._host, self.port)

    @property
    def link(self) -> str:
        """The address that lets a browser in.

        Cookies know no ports. On this machine the server has a name of its own, which nobody else can guess: what other
        servers of the machine set and get is not ours.
        """
        host = self._own_name if self._host in LOOPBACK else name_in(self._hosts[0])
        return f"{url_of(host, self.port)}/?token={self.token}"

    def run(self) -> None:
        """Answer until Ctrl+C or a signal ends it."""
        # What clients do wrong is answered, not printed; a fault of ours is printed where it is answered.
        logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
        built = build(self.root, self.token, name=self._name, cookie=f"ralph-{self.port}", hosts=self._hosts)
        config = uvicorn.Config(
            built.app,
            loop="asyncio",
            http=_Protocol,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
        self._server = _Ending(config, built)
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()

    def stop(self) -> None:
        """Let it end, from another thread."""
        if self._server:
            self._server.should_exit = True


class _Ending(uvicorn.Server):
    """A server that does not wait for streams to end by themselves."""

    def __init__(self, config: uvicorn.Config, built: Built) -> None:
        super().__init__(config)
        self._built = built

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end, and the second time be quick about it."""
        if self.should_exit:
            self._built.hurry()
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End all streams, then wait for the rest."""
        self._built.end_streams()
        await super().shutdown(sockets)


class _Protocol(H11Protocol):
    """A connection that is closed when nobody says on it what is wanted."""

    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take in what came, and see whether a request is whole."""
        super().data_received(data)
        if self._is_at_work:
            self._stop_waiting()
        else:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop_waiting()
        super().connection_lost(exc)

    @property
    def _is_at_work(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        if self._patience is None:
            self._patience = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        patience, self._patience = self._patience, None
        if patience:
            patience.cancel()

    def _give_up(self) -> None:
        self._patience = None
        if not self._is_at_work:
            self.transport.close()


def _host_name(said: str) -> str:
    """Give a name by which the server may be called, with a port if it has one; refuse what browsers never say."""
    name = said.strip().lower().rstrip(".")
    if not _HOST.fullmatch(name):
        raise UsageError(f"--allow-host {said!r} is no name of a machine: say it like ralph.example.org or box:8420.")
    return name


def _listening(host: str, port: int) -> socket.socket:
    """Give a socket that listens, or say in a sentence why that cannot be."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Said in full: only then does asyncio send each answer at once, and not 40 ms later.
    one = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind((host, port))
        one.listen(128)
    except OSError as error:
        one.close()
        way_out = "Say another one with --host" if isinstance(error, socket.gaierror) else "Say another one with --port"
        raise RalphError(f"Port {port} of {host} cannot be served: {error.strerror}. {way_out}.") from error
    return one
