"""MCP over HTTP on the loopback interface: one endpoint, one message per POST, JSON responses.

Web pages can send requests to this machine too. Clients must therefore present the token, and the Host header must be
a loopback name, which rules out DNS rebinding.
"""

from __future__ import annotations

import io
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ralph.core.actor import Actor
from ralph.core.errors import RalphError, UsageError
from ralph.integrations.mcp.protocol import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    PROTOCOL_VERSIONS,
    STATELESS_VERSIONS,
    UNSUPPORTED_VERSION,
    VERSION_KEY,
    JsonRpcError,
    encode_response,
    error_response,
    handle_message,
    parse_message,
    request_id,
    request_meta,
)
from ralph.integrations.project_handle import ProjectHandle
from ralph.web.tokens import (
    LOOPBACK_HOSTS,
    MAX_PORT,
    host_name,
    load_or_create_token,
    parse_bearer_token,
    server_url,
    tokens_match,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ralph.integrations.mcp.protocol import JsonRpcResponse

MCP_PATH = "/mcp"
DEFAULT_MCP_PORT = 8417
MAX_MCP_BODY_BYTES = 1_000_000
"""Maximum size of a request body, in bytes."""
CONNECTION_IDLE_TIMEOUT = 60.0
"""Time after which an idle connection and its store are closed, in seconds."""
REQUEST_TIMEOUT = 20.0
"""Time a client has to send a complete request once it has started, in seconds."""
MAX_MCP_CONNECTIONS = 64
"""Maximum number of open connections; each has a thread and, once used, a store."""
LINGER_TIMEOUT = 1.0
"""Time to let a refused client read the response before the connection closes, in seconds."""
MCP_TOKEN_FILE = "ralph.db-mcp-token"  # noqa: S105
"""Name of the token file; the prefix makes git ignore it in the project's folder."""

_STATUS = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}
"""HTTP status by JSON-RPC error code, for protocol versions without a handshake; other clients expect 200."""
_NAMED = {"tools/call": "name", "resources/read": "uri"}
"""Parameter that the Mcp-Name header repeats, by method."""


class _Refused(Exception):
    """Rejection of a request before it is handled."""

    def __init__(
        self, status: int, reason: str, code: int = INVALID_REQUEST, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.code = code
        self.headers = headers or {}


# --- the server ---------------------------------------------------------------------------


class McpHttpServer(ThreadingHTTPServer):
    """HTTP server that handles each connection in its own thread with its own store."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, root: str, host: str, port: int, actor: Actor) -> None:
        import socket
        from pathlib import Path

        from ralph.workspace import FOLDER

        if host not in LOOPBACK_HOSTS:
            raise UsageError(
                f"The server only listens on this machine: --host must be one of {', '.join(LOOPBACK_HOSTS)}."
                " For remote access, use an SSH tunnel (ssh -L)."
            )
        if not 0 <= port <= MAX_PORT:
            raise UsageError(f"--port must be between 0 and {MAX_PORT}.")
        self.root = root
        self.actor = actor
        self._slots = threading.BoundedSemaphore(MAX_MCP_CONNECTIONS)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise RalphError(
                f"Cannot listen on port {port}: {error.strerror}. Choose another one with --port."
            ) from error
        try:
            # Last, because a new token is shown only once.
            self.token, self.is_token_new = load_or_create_token(Path(root) / FOLDER / MCP_TOKEN_FILE)
        except RalphError:
            self.server_close()
            raise

    @property
    def url(self) -> str:
        """URL of the MCP endpoint."""
        host, port = self.server_address[:2]
        return server_url(str(host), int(port), MCP_PATH)

    def server_bind(self) -> None:
        """Bind without a reverse DNS lookup of the host name, which may take seconds."""
        import socketserver

        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle a connection in its own thread, or answer 503 when there are too many."""
        if self._slots.acquire(blocking=False):
            try:
                super().process_request(request, client_address)
            except BaseException:
                self._slots.release()  # the thread could not be started
                raise
            return
        try:
            request.settimeout(LINGER_TIMEOUT)
            request.sendall(_UNAVAILABLE)
        except OSError:
            pass  # the client has disconnected
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handle a connection until it closes."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print unexpected errors, but not those of clients that disconnected."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


_UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class _RequestInput(io.RawIOBase):
    """Input of a connection with an idle timeout between requests and a deadline within each."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._deadline: float | None = None
        """When the current request must be complete; None between requests."""

    def readable(self) -> bool:
        """Return True: the stream is readable."""
        return True

    def expect(self) -> None:
        """Reset the deadline before the next request."""
        self._deadline = None

    def readinto(self, buffer: Any) -> int:
        """Read available data.

        Raises:
            TimeoutError: If the request is not complete by its deadline.
        """
        remaining = CONNECTION_IDLE_TIMEOUT if self._deadline is None else self._deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("The request took too long.")
        self._connection.settimeout(min(remaining, CONNECTION_IDLE_TIMEOUT))
        count: int = self._connection.recv_into(buffer)
        if self._deadline is None:
            self._deadline = time.monotonic() + REQUEST_TIMEOUT
        return count


class _Handler(BaseHTTPRequestHandler):
    """Handler of one connection."""

    protocol_version = "HTTP/1.1"
    server_version = "ralph"
    sys_version = ""
    timeout = CONNECTION_IDLE_TIMEOUT
    error_content_type = "text/plain; charset=utf-8"
    error_message_format = "%(message)s\n"
    server: McpHttpServer
    _id: object = None
    """JSON-RPC id of the current request, if it has one."""

    def setup(self) -> None:
        """Set up the input stream and a project handle for the connection."""
        super().setup()
        self._input = _RequestInput(self.connection)
        self.rfile = io.BufferedReader(self._input)
        self._opened = ProjectHandle(self.server.root, self.server.actor)

    def handle_one_request(self) -> None:
        """Wait for a request and handle it."""
        self._input.expect()
        super().handle_one_request()

    def finish(self) -> None:
        """Close the store with the connection."""
        self._opened.close()
        super().finish()

    def do_POST(self) -> None:
        """Handle a JSON-RPC message."""
        try:
            self._id = None
            self._authorize()
            message = self._read_message()
            response = handle_message(message, self._opened)
        except _Refused as refused:
            self._refuse(refused)
            return
        if response is None:
            self._reply(202, b"")
        else:
            self._reply(self._status(message, response), encode_response(response))

    def do_GET(self) -> None:
        """Answer 405: the server neither streams nor keeps sessions."""
        try:
            self._authorize()
        except _Refused as refused:
            self._refuse(refused)
        else:
            reason = f"Use POST for {MCP_PATH}: this server has no streams and no sessions."
            self._refuse(_Refused(405, reason, headers={"Allow": "POST"}))

    do_DELETE = do_PUT = do_PATCH = do_OPTIONS = do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Suppress the access log, because requests may contain private data."""

    # --- access ---------------------------------------------------------------------------

    def _authorize(self) -> None:
        """Check host, origin, path and token before anything else of the request is read."""
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        if host_name(host) not in LOOPBACK_HOSTS:
            raise _Refused(403, "The Host header must be a loopback name such as 127.0.0.1.")
        if origin is not None and host_name(origin.partition("://")[2]) not in LOOPBACK_HOSTS:
            raise _Refused(403, "Cross-origin requests are not allowed.")
        if self.path.partition("?")[0] != MCP_PATH:
            raise _Refused(404, f"Not found. The MCP endpoint is {MCP_PATH}.")
        if not tokens_match(parse_bearer_token(self.headers.get("Authorization", "")), self.server.token):
            reason = f"Send the header `Authorization: Bearer TOKEN`; the token is in .ralph/{MCP_TOKEN_FILE}."
            raise _Refused(401, reason, headers={"WWW-Authenticate": "Bearer"})

    # --- requests -------------------------------------------------------------------------

    def _read_message(self) -> object:
        """Read the message of the request and check the protocol headers."""
        if self.headers.get_content_type() != "application/json":
            raise _Refused(415, "The Content-Type must be application/json.")
        accepted = self.headers.get("Accept", "*/*")
        if not any(kind in accepted for kind in ("application/json", "application/*", "*/*")):
            raise _Refused(406, "Responses are application/json; the Accept header must allow that.")
        try:
            message = parse_message(self._read_body())
        except JsonRpcError as fault:
            raise _Refused(400, str(fault), fault.code) from fault
        self._id = request_id(message)
        self._check_version(message)
        return message

    def _read_body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if self.headers.get("Transfer-Encoding") or not length:
            raise _Refused(411, "The Content-Length header is required.")
        if not (length.isascii() and length.isdecimal() and len(length) < 20):
            raise _Refused(400, "The Content-Length header is not a number.")
        if int(length) > MAX_MCP_BODY_BYTES:
            raise _Refused(413, f"A message may have at most {MAX_MCP_BODY_BYTES:,} bytes.")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise _Refused(400, "The body is shorter than its Content-Length.")
        return body

    def _check_version(self, message: object) -> None:
        """Reject a request whose headers contradict its body."""
        version = self.headers.get("MCP-Protocol-Version", PROTOCOL_VERSIONS[1])
        if version not in PROTOCOL_VERSIONS:
            raise _Refused(400, f"Unsupported protocol version. Supported versions: {', '.join(PROTOCOL_VERSIONS)}.")
        meta_version = request_meta(message).get(VERSION_KEY)
        if version not in STATELESS_VERSIONS and meta_version is None:
            return
        if not isinstance(message, dict):
            raise _Refused(400, f"Protocol version {version} does not allow batches.")
        if "id" not in message:
            return
        if meta_version is None:
            raise _Refused(400, f"Protocol version {version} requires {VERSION_KEY} in _meta.", INVALID_PARAMS)
        if meta_version != version:
            raise _Refused(400, "The MCP-Protocol-Version header does not match the message.", HEADER_MISMATCH)
        if self.headers.get("Mcp-Method") != message.get("method"):
            raise _Refused(400, "The Mcp-Method header does not match the method of the message.", HEADER_MISMATCH)
        params = message.get("params")
        key = _NAMED.get(str(message.get("method")))
        name = params.get(key) if key and isinstance(params, dict) else None
        if name is not None and _decoded(self.headers.get("Mcp-Name", "")) != name:
            raise _Refused(400, f"The Mcp-Name header does not match the {key} of the message.", HEADER_MISMATCH)

    # --- responses ------------------------------------------------------------------------

    def _status(self, message: object, response: JsonRpcResponse) -> int:
        code = response["error"]["code"] if isinstance(response, dict) and "error" in response else 0
        is_stateless = (
            VERSION_KEY in request_meta(message) or self.headers.get("MCP-Protocol-Version") in STATELESS_VERSIONS
        )
        if is_stateless or code == INVALID_REQUEST:
            return _STATUS.get(code, 200)
        return 200

    def _refuse(self, refused: _Refused) -> None:
        # The body was not read, so the connection cannot be reused for another request.
        self.close_connection = True
        response = error_response(JsonRpcError(refused.code, str(refused)), self._id)
        self._reply(refused.status, encode_response(response), {**refused.headers, "Connection": "close"})
        self._linger()

    def _linger(self) -> None:
        """Drain the input before closing: a reset while the client still sends would discard the response."""
        import socket

        try:
            self.connection.settimeout(LINGER_TIMEOUT)
            self.connection.shutdown(socket.SHUT_WR)
            remaining = 4 * MAX_MCP_BODY_BYTES
            while remaining > 0 and (chunk := self.connection.recv(65_536)):
                remaining -= len(chunk)
        except OSError:
            pass  # the client has disconnected

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
    """Decode a header value that may be base64-encoded; return None if the encoding is invalid."""
    if not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    import base64

    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except ValueError:
        return None
