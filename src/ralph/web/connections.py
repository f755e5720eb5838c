"""Connections of the server: which heads are valid, how long a client may take, and who yields to whom.

Everyone on this machine can connect, so a connection counts for nothing until a request on it was authenticated. Such
a connection is the first to be closed when there are too many, and never makes the server read more than a little.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

if TYPE_CHECKING:
    from starlette.types import Scope

MAX_CONNECTIONS = 256
"""Number of connections above which the least useful one is closed."""
ACCEPT_BATCH = 64
"""Number of connections accepted at a time; clients are read between batches, before newer ones displace them."""
LISTEN_BACKLOG = 4_096
"""Number of connections that wait in the kernel to be accepted."""
MAX_HEAD_BYTES = 32 * 1_024
"""Maximum size of the request line and headers, in bytes."""
HEAD_TIMEOUT = 10.0
"""Time a client has to send a request line and headers, in seconds."""
WRITE_TIMEOUT = 60.0
"""Time in which a client must read some of a response, in seconds."""
LINGER_TIMEOUT = 2.0
"""Time to read on after an early response, in seconds; a client that still sends would otherwise not see it."""
MAX_LINGER_BYTES = 64 * 1_024
"""Maximum number of bytes read, and discarded, after an early response."""

_END_OF_HEAD = re.compile(rb"\n\r?\n")
_INVALID_IN_HEAD = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|(?<!\r)\n|\r(?!\n)|\n[ \t]")
"""Control characters, lines that do not end in CRLF, and folded lines. Proxies differ in how they read them."""
_VERSIONS = (b" HTTP/1.1\r\n", b" HTTP/1.0\r\n")


_AUTHENTICATED = "authenticated"
"""Key in the state of a request that was authenticated."""


def mark_authenticated(scope: Scope) -> None:
    """Note that a request was authenticated: its connection is kept when others are closed."""
    scope.setdefault("state", {})[_AUTHENTICATED] = True


def is_authenticated(scope: Scope) -> bool:
    """Return whether a request was authenticated."""
    return _AUTHENTICATED in scope.get("state", {})


def is_valid_head(head: bytes) -> bool:
    """Return whether the request line and headers, up to the empty line, are strictly well-formed.

    h11 checks what it parses; this refuses what it tolerates.
    """
    request_line = head[: head.find(b"\n") + 1]
    return len(head) <= MAX_HEAD_BYTES and request_line.endswith(_VERSIONS) and not _INVALID_IN_HEAD.search(head)


class ConnectionState(ServerState):
    """State that the connections of a server share."""

    def __init__(self) -> None:
        super().__init__()
        self.strangers: dict[Connection, None] = {}
        """Connections that may not have been authenticated, oldest first."""


class Connection(H11Protocol):
    """Connection that is closed if its client is idle, slow or malformed, or if there are too many."""

    server_state: ConnectionState

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.active_at = 0.0
        """Time of the connection or of its last response."""
        self._was_trusted = False
        self._is_malformed = False
        self._deadline: asyncio.TimerHandle | None = None
        self._discarded: int | None = None
        """Number of bytes discarded after the response; None if input is still handled."""

    @property
    def is_trusted(self) -> bool:
        """Whether a request on this connection was authenticated."""
        return self._was_trusted or (self.scope is not None and _AUTHENTICATED in self.scope["state"])

    @property
    def is_idle(self) -> bool:
        """Whether no response is in progress."""
        return self.cycle is None or bool(self.cycle.response_complete)

    # --- opening and closing ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room for the new connection and wait for its first request."""
        super().connection_made(_LingeringTransport(transport, self))  # type: ignore[arg-type]
        self.active_at = self.loop.time()
        self.server_state.strangers[self] = None
        self._close_after(HEAD_TIMEOUT)
        if len(self.connections) > MAX_CONNECTIONS:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the connection."""
        self._cancel_deadline()
        self.server_state.strangers.pop(self, None)
        super().connection_lost(exc)

    def _make_room(self) -> None:
        """Close the connection that is least likely to be missed, if any."""
        victim = self._oldest_stranger() or self._longest_idle()
        if victim is not None:
            self.connections.discard(victim)  # not only when the event loop gets to it
            victim.transport.abort()

    def _oldest_stranger(self) -> Connection | None:
        strangers = self.server_state.strangers
        while (one := next(iter(strangers))) is not self:
            del strangers[one]
            if not one.is_trusted and one in self.connections:
                return one
        return None

    def _longest_idle(self) -> Connection | None:
        idle = (one for one in self.connections if isinstance(one, Connection) and one is not self and one.is_idle)
        return min(idle, key=lambda one: one.active_at, default=None)

    def linger(self) -> bool:
        """Start to discard input if the client may still be sending; return whether it may."""
        if not self._is_malformed and self.conn.their_state is not h11.SEND_BODY:
            return False
        self._discarded = 0
        self.flow.resume_reading()
        self._close_after(LINGER_TIMEOUT)
        return True

    def _close_after(self, seconds: float) -> None:
        self._cancel_deadline()
        self._deadline = self.loop.call_later(seconds, self.transport.abort)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    # --- requests ---------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Handle input, or discard a little of it after the response."""
        if self._discarded is not None:
            self._discarded += len(data)
            if self._discarded > MAX_LINGER_BYTES:
                self.transport.abort()
            return
        super().data_received(data)
        if self._discarded is None and self.conn.their_state is not h11.IDLE:
            self._cancel_deadline()
        elif self._deadline is None:  # the beginning of another request
            self._close_after(HEAD_TIMEOUT)

    def handle_events(self) -> None:
        """Check the next head before h11 parses it."""
        if self.conn.their_state is h11.IDLE:
            received, _ = self.conn.trailing_data
            end = _END_OF_HEAD.search(received)
            if end and not is_valid_head(received[: end.end()]):
                self.send_400_response("Invalid HTTP request received.")
                return
        super().handle_events()

    def send_400_response(self, msg: str) -> None:
        """Reject a malformed request and close the connection."""
        self._is_malformed = True
        super().send_400_response(msg)

    def on_response_complete(self) -> None:
        """Wait for the next request, unless this one was answered before its end."""
        self._was_trusted = self.is_trusted
        self.active_at = self.loop.time()
        if self.conn.their_state is h11.SEND_BODY:
            self.transport.close()
        super().on_response_complete()

    # --- responses --------------------------------------------------------------------------

    def pause_writing(self) -> None:
        """Stop writing, and close the connection if the client does not read on."""
        super().pause_writing()
        self._check_progress(None)

    def resume_writing(self) -> None:
        """Continue writing."""
        super().resume_writing()
        if self._discarded is None:
            self._cancel_deadline()

    def _check_progress(self, previous: int | None) -> None:
        size = self.transport.get_write_buffer_size()
        if previous is not None and size >= previous:
            self.transport.abort()
        else:
            self._cancel_deadline()
            self._deadline = self.loop.call_later(WRITE_TIMEOUT, self._check_progress, size)


class _LingeringTransport:
    """Transport that, when closed, lets a client that is still sending see the response.

    Closing a socket with unread input resets the connection, and the reset overtakes the response.
    """

    def __init__(self, transport: asyncio.Transport, connection: Connection) -> None:
        self._transport = transport
        self._connection = connection
        self._is_lingering = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        """Return whether the connection is closed for the application."""
        return self._is_lingering or self._transport.is_closing()

    def close(self) -> None:
        """Close the connection, or the sending side of it first."""
        if self.is_closing():
            return
        if self._connection.linger():
            self._is_lingering = True
            try:
                self._transport.write_eof()
            except OSError:  # the client has already closed it
                self._transport.abort()
        else:
            self._transport.close()
