"""Serve over HTTP, on this machine alone: one address, a message in each POST, its answer as JSON.

A page in a browser can send requests to this machine too. So whoever asks must know the token, and what is asked must
be addressed to a name of this machine (or a page could give its own name to our address).
"""

from __future__ import annotations

import io
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ralph.doorkeeping import HIGHEST_PORT, LOOPBACK, bearer_in, is_token, name_in, own_token, url_of
from ralph.errors import RalphError, UsageError
from ralph.mcp.protocol import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    VERSION_KEY,
    VERSIONS,
    WITHOUT_HANDSHAKE,
    Fault,
    answer,
    envelope,
    fault_answer,
    read,
    request_id,
    write,
)
from ralph.opened import Opened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ralph.mcp.protocol import Answer

PATH = "/mcp"
PORT = 8417
LONGEST_BODY = 1_000_000
IDLE_SECONDS = 60.0
"""A connection on which nothing comes for so long is closed, and its store with it."""
REQUEST_SECONDS = 20.0
"""A request that has begun and is not whole after so long is not waited for: others need the connection."""
MOST_CONNECTIONS = 64
"""Each has a thread, and a store when it asks something."""
LINGER_SECONDS = 1.0
TOKEN_FILE = "ralph.db-mcp-token"  # noqa: S105
"""Git leaves alone what begins like this in the folder of a project."""

_STATUS = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}
"""What HTTP calls a fault, for clients that speak a version without a handshake; all others look into the answer."""
_NAMED = {"tools/call": "name", "resources/read": "uri"}
"""What a request names in a header as well, by its method."""


class _Refused(Exception):
    """A request that is not looked at any further."""

    def __init__(
        self, status: int, why: str, code: int = INVALID_REQUEST, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(why)
        self.status = status
        self.code = code
        self.headers = headers or {}


# --- the server ---------------------------------------------------------------------------


class Server(ThreadingHTTPServer):
    """Answers every connection in a thread of its own, with a store of its own."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, root: str, host: str, port: int) -> None:
        import socket
        from pathlib import Path

        from ralph.location import FOLDER

        if host not in LOOPBACK:
            raise UsageError(
                f"The server is for this machine alone: --host must be one of {', '.join(LOOPBACK)}."
                " From elsewhere, come through ssh -L."
            )
        if not 0 <= port <= HIGHEST_PORT:
            raise UsageError(f"--port must be from 0 to {HIGHEST_PORT}.")
        self.root = root
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise RalphError(f"Port {port} cannot be served: {error.strerror}. Say another one with --port.") from error
        try:
            # Once all else has worked: a new token is shown only once.
            self.token, self.is_token_new = own_token(Path(root) / FOLDER / TOKEN_FILE)
        except RalphError:
            self.server_close()
            raise

    @property
    def url(self) -> str:
        """The address of the server."""
        host, port = self.server_address[:2]
        return url_of(str(host), int(port), PATH)

    def server_bind(self) -> None:
        """Bind without asking what this machine is called: that may take seconds."""
        import socketserver

        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread of its own; one too many is told to come again."""
        if self._free.acquire(blocking=False):
            try:
                super().process_request(request, client_address)
            except BaseException:
                self._free.release()  # there was no thread for it
                raise
            return
        try:
            request.settimeout(LINGER_SECONDS)
            request.sendall(_FULL)
        except OSError:
            pass  # it has gone already
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a connection until it ends."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that have gone; print what is a fault of ours."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


_FULL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class _Reading(io.RawIOBase):
    """What a client sends: it may be silent for a while, but not take its time once it has begun to ask."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._until: float | None = None
        """When the request at hand has to be whole, once it has begun."""

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def expect(self) -> None:
        """Wait for the next request."""
        self._until = None

    def readinto(self, buffer: Any) -> int:
        """Take what has come, or say that it takes too long."""
        left = IDLE_SECONDS if self._until is None else self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("The request takes too long.")
        self._connection.settimeout(min(left, IDLE_SECONDS))
        count: int = self._connection.recv_into(buffer)
        if self._until is None:
            self._until = time.monotonic() + REQUEST_SECONDS
        return count


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_version = "ralph"
    sys_version = ""
    timeout = IDLE_SECONDS
    error_content_type = "text/plain; charset=utf-8"
    error_message_format = "%(message)s\n"
    server: Server
    _id: object = None
    """Of the request at hand, if it has one."""

    def setup(self) -> None:
        """Prepare for the first request."""
        super().setup()
        self._reading = _Reading(self.connection)
        self.rfile = io.BufferedReader(self._reading)
        self._opened = Opened(self.server.root)

    def handle_one_request(self) -> None:
        """Wait for a request, and answer it."""
        self._reading.expect()
        super().handle_one_request()

    def finish(self) -> None:
        """Let go of the store when the connection ends."""
        self._opened.close()
        super().finish()

    def do_POST(self) -> None:
        """Answer a message."""
        try:
            self._id = None
            self._admit()
            message = self._message()
            found = answer(message, self._opened)
        except _Refused as refused:
            self._refuse(refused)
            return
        if found is None:
            self._reply(202, b"")
        else:
            self._reply(self._status(message, found), write(found))

    def do_GET(self) -> None:
        """Say that nothing is streamed."""
        try:
            self._admit()
        except _Refused as refused:
            self._refuse(refused)
        else:
            why = f"Only POST is answered at {PATH}: nothing is streamed, and there are no sessions to end."
            self._refuse(_Refused(405, why, headers={"Allow": "POST"}))

    do_DELETE = do_PUT = do_PATCH = do_OPTIONS = do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: what is asked is nobody else's business."""

    # --- who may ask ----------------------------------------------------------------------

    def _admit(self) -> None:
        """Refuse whoever must not ask, before anything of what they sent is looked at."""
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        if name_in(host) not in LOOPBACK:
            raise _Refused(403, "This server answers only under the names of this machine, like 127.0.0.1.")
        if origin is not None and name_in(origin.partition("://")[2]) not in LOOPBACK:
            raise _Refused(403, "This server does not answer pages from elsewhere.")
        if self.path.partition("?")[0] != PATH:
            raise _Refused(404, f"There is nothing here: the server is at {PATH}.")
        if not is_token(bearer_in(self.headers.get("Authorization", "")), self.server.token):
            why = f"Say the token in a header, Authorization: Bearer TOKEN; it is in .ralph/{TOKEN_FILE}."
            raise _Refused(401, why, headers={"WWW-Authenticate": "Bearer"})

    # --- what is asked --------------------------------------------------------------------

    def _message(self) -> object:
        """Give the message of a request, as far as it can be answered at all."""
        if self.headers.get_content_type() != "application/json":
            raise _Refused(415, "A message comes as application/json.")
        accepted = self.headers.get("Accept", "*/*")
        if not any(kind in accepted for kind in ("application/json", "application/*", "*/*")):
            raise _Refused(406, "Answers come as application/json: accept that.")
        try:
            message = read(self._body())
        except Fault as fault:
            raise _Refused(400, str(fault), fault.code) from fault
        self._id = request_id(message)
        self._check_version(message)
        return message

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if self.headers.get("Transfer-Encoding") or not length:
            raise _Refused(411, "Say how long the message is, with Content-Length.")
        if not (length.isascii() and length.isdecimal() and len(length) < 20):
            raise _Refused(400, "The Content-Length is not a number.")
        if int(length) > LONGEST_BODY:
            raise _Refused(413, f"A message may have {LONGEST_BODY:,} bytes.")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise _Refused(400, "The message ended before its Content-Length.")
        return body

    def _check_version(self, message: object) -> None:
        """Refuse a request whose headers say something else than it says itself."""
        version = self.headers.get("MCP-Protocol-Version", VERSIONS[1])
        if version not in VERSIONS:
            raise _Refused(400, f"This version of the protocol is not known here; these are: {', '.join(VERSIONS)}.")
        inside = envelope(message).get(VERSION_KEY)
        if version not in WITHOUT_HANDSHAKE and inside is None:
            return
        if not isinstance(message, dict):
            raise _Refused(400, f"In version {version} a request is one message.")
        if "id" not in message:
            return
        if inside is None:
            raise _Refused(400, f"In version {version} a request says so in its _meta.", INVALID_PARAMS)
        if inside != version:
            raise _Refused(400, "The MCP-Protocol-Version header is not the version of the message.", HEADER_MISMATCH)
        if self.headers.get("Mcp-Method") != message.get("method"):
            raise _Refused(400, "The Mcp-Method header is not the method of the message.", HEADER_MISMATCH)
        params = message.get("params")
        key = _NAMED.get(str(message.get("method")))
        name = params.get(key) if key and isinstance(params, dict) else None
        if name is not None and _decoded(self.headers.get("Mcp-Name", "")) != name:
            raise _Refused(400, f"The Mcp-Name header is not the {key} in the message.", HEADER_MISMATCH)

    # --- answers --------------------------------------------------------------------------

    def _status(self, message: object, found: Answer) -> int:
        code = found["error"]["code"] if isinstance(found, dict) and "error" in found else 0
        is_alone = VERSION_KEY in envelope(message) or self.headers.get("MCP-Protocol-Version") in WITHOUT_HANDSHAKE
        if is_alone or code == INVALID_REQUEST:
            return _STATUS.get(code, 200)
        return 200

    def _refuse(self, refused: _Refused) -> None:
        # What was sent along is not read, so nothing that comes after it can be understood.
        self.close_connection = True
        said = fault_answer(Fault(refused.code, str(refused)), self._id)
        self._reply(refused.status, write(said), {**refused.headers, "Connection": "close"})
        self._linger()

    def _linger(self) -> None:
        """Let the client take the answer: to close while it still sends would take that away from it."""
        import socket

        try:
            self.connection.settimeout(LINGER_SECONDS)
            self.connection.shutdown(socket.SHUT_WR)
            left = 4 * LONGEST_BODY
            while left > 0 and (got := self.connection.recv(65_536)):
                left -= len(got)
        except OSError:
            pass  # it has gone already

    def _reply(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if body:
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _decoded(value: str) -> str | None:
    """Give the value of a header that may be wrapped, because it holds what a header cannot; None when broken."""
    if not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    import base64

    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except ValueError:
        return None
