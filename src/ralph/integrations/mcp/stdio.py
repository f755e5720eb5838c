"""MCP over standard input and output, with one JSON-RPC message per line, handled one after the other."""

from __future__ import annotations

import os
import select
import sys

from ralph.integrations.mcp.protocol import (
    INVALID_REQUEST,
    JsonRpcError,
    encode_response,
    error_response,
    handle_message,
    parse_message,
)
from ralph.integrations.project_handle import ProjectHandle, open_store_for_vectors
from ralph.memory.recall.vector_server import VectorServer

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
    """Handle messages from standard input until it ends, and search vectors for the hooks of the session."""
    source, target = _take_over_streams()
    handle = ProjectHandle(directory, actor)
    try:
        with VectorServer(lambda: open_store_for_vectors(directory, actor)):
            for line in _lines(source, handle):
                if response := _respond(line, handle):
                    _write(target, encode_response(response))
    finally:
        handle.close()


def _take_over_streams() -> tuple[int, int]:
    """Reserve standard input and output for the protocol; other output goes to standard error."""
    sys.stdout.flush()
    source, target = os.dup(sys.stdin.fileno()), os.dup(sys.stdout.fileno())
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return source, target


def _lines(source: int, handle: ProjectHandle) -> Iterator[bytes | None]:
    """Yield input lines, and None for each one over the limit."""
    buffer = bytearray()
    is_too_long = False
    while chunk := _read(source, handle):
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            buffer += end
            yield None if is_too_long or len(buffer) > MAX_LINE_BYTES else bytes(buffer)
            buffer, is_too_long = bytearray(), False
        buffer += rest
        if len(buffer) > MAX_LINE_BYTES:
            buffer, is_too_long = bytearray(), True
    yield None if is_too_long else bytes(buffer)


def _read(source: int, handle: ProjectHandle) -> bytes:
    """Read available data, releasing store resources if none arrives for a while."""
    if not select.select([source], [], [], STDIO_IDLE_TIMEOUT)[0]:
        handle.release()
    return os.read(source, READ_SIZE)


def _respond(line: bytes | None, handle: ProjectHandle) -> JsonRpcResponse:
    if line is None:
        return error_response(JsonRpcError(INVALID_REQUEST, f"A message may have at most {MAX_LINE_BYTES:,} bytes."))
    if not line.strip():
        return None
    try:
        return handle_message(parse_message(line), handle)
    except JsonRpcError as error:
        return error_response(error)


def _write(target: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(target, rest) :]
