"""MCP over standard input and output, with one JSON-RPC message per line.

A thread keeps reading while a call is handled, so that pings are answered and queued calls can be canceled. Calls run
in the main thread, which receives Ctrl+C and where unexpected errors surface.
"""

from __future__ import annotations

import os
import sys

from ralph.integrations.mcp.protocol import (
    CANCELLED_NOTIFICATION,
    INVALID_REQUEST,
    JsonRpcError,
    encode_response,
    error_response,
    handle_message,
    parse_message,
    request_id,
)
from ralph.integrations.project_handle import ProjectHandle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ralph.core.actor import Actor
    from ralph.integrations.mcp.protocol import JsonRpcResponse

MAX_LINE_BYTES = 8_000_000
"""Maximum size of a message, in bytes: above the limit of any argument, so that those are reported per call."""
READ_SIZE = 65_536
"""Size of a read, in bytes."""
STDIO_IDLE_TIMEOUT = 60.0
"""Time without messages after which store resources are released, in seconds."""


def serve_stdio(directory: str, actor: Actor) -> None:
    """Handle messages from standard input until it ends."""
    into, out = _take_over_streams()
    StdioServer(ProjectHandle(directory, actor), into, out).serve()


def _take_over_streams() -> tuple[int, int]:
    """Reserve standard input and output for the protocol; other output goes to standard error."""
    sys.stdout.flush()
    into, out = os.dup(sys.stdin.fileno()), os.dup(sys.stdout.fileno())
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return into, out


class StdioServer:
    """Server for one client connected by two pipes."""

    def __init__(self, handle: ProjectHandle, into: int, out: int) -> None:
        from queue import SimpleQueue
        from threading import Lock

        self._project = handle
        self._into = into
        self._out = out
        self._lock = Lock()
        self._queue: SimpleQueue[object] = SimpleQueue()
        self._pending: set[object] = set()
        """Ids of requests without a response."""
        self._cancelled: set[object] = set()
        """Ids of pending requests that the client canceled."""

    def serve(self) -> None:
        """Handle all messages, then close the project."""
        from threading import Thread

        # A daemon thread, because Ctrl+C would otherwise wait for the next line.
        Thread(target=self._listen, name="mcp input", daemon=True).start()
        try:
            while (message := self._next()) is not None:
                self._handle(message)
        finally:
            self._project.close()

    def _next(self) -> object:
        """Return the next message, releasing store resources if none arrives for a while."""
        from queue import Empty

        try:
            return self._queue.get(timeout=STDIO_IDLE_TIMEOUT)
        except Empty:
            self._project.release()
            return self._queue.get()

    def _handle(self, message: object) -> None:
        id = request_id(message)
        response = None if id in self._cancelled else handle_message(message, self._project)
        with self._lock:
            is_cancelled = id in self._cancelled
            self._cancelled.discard(id)
            self._pending.discard(id)
        if not is_cancelled:
            self._send(response)

    def _send(self, response: JsonRpcResponse) -> None:
        if response is None:
            return
        line = memoryview(encode_response(response))
        with self._lock:
            while line:
                line = line[os.write(self._out, line) :]

    # --- reader thread --------------------------------------------------------------------

    def _listen(self) -> None:
        try:
            for line in self._lines():
                self._receive(line)
        except OSError:
            pass  # the client has disconnected
        finally:
            self._queue.put(None)

    def _lines(self) -> Iterator[bytes]:
        """Yield input lines; discard lines over the limit and answer them with an error."""
        buffer = bytearray()
        is_too_long = False
        while chunk := os.read(self._into, READ_SIZE):
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                if is_too_long or len(buffer) + len(end) > MAX_LINE_BYTES:
                    self._refuse_long()
                else:
                    yield bytes(buffer) + end
                buffer, is_too_long = bytearray(), False
            buffer += rest
            if is_too_long or len(buffer) > MAX_LINE_BYTES:
                buffer, is_too_long = bytearray(), True
        if is_too_long:
            self._refuse_long()
        yield bytes(buffer)

    def _refuse_long(self) -> None:
        self._send(
            error_response(JsonRpcError(INVALID_REQUEST, f"A message may have at most {MAX_LINE_BYTES:,} bytes."))
        )

    def _receive(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            message = parse_message(line)
        except JsonRpcError as error:
            self._send(error_response(error))
            return
        method = message.get("method") if isinstance(message, dict) else None
        if method == CANCELLED_NOTIFICATION:
            self._cancel(message)
        elif method == "ping" or message is None:  # None in the queue marks the end of input
            self._send(handle_message(message, self._project))
        else:
            if (id := request_id(message)) is not None:
                self._pending.add(id)
            self._queue.put(message)

    def _cancel(self, message: object) -> None:
        params = message.get("params") if isinstance(message, dict) else None
        id = request_id({"id": params.get("requestId")}) if isinstance(params, dict) else None
        with self._lock:
            if id is not None and id in self._pending:
                self._cancelled.add(id)
