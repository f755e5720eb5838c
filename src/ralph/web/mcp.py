"""MCP endpoint of the server: one JSON-RPC message per POST, answered as JSON (Streamable HTTP without streams)."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from starlette.responses import Response

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
from ralph.web.auth import read_body
from ralph.web.problems import JSON_TYPE, RequestRejected

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.requests import Request

    from ralph.core.actor import Actor
    from ralph.integrations.mcp.protocol import JsonRpcResponse
    from ralph.web.workers import ProjectThreads

VERSION_HEADER = "mcp-protocol-version"
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


async def answer_mcp(request: Request, threads: ProjectThreads, agent: Actor) -> Response:
    """Answer a JSON-RPC message of an agent."""
    accepted = request.headers.get("accept", "*/*")
    if not any(kind in accepted for kind in (JSON_TYPE, "application/*", "*/*")):
        raise RequestRejected(406, f"Responses are {JSON_TYPE}; the Accept header must allow that.")
    message = None
    try:
        message = parse_message(await read_body(request))
        _check_headers(request.headers, message)
    except JsonRpcError as error:
        return Response(encode_response(error_response(error, request_id(message))), 400, media_type=JSON_TYPE)
    response = await threads.use_handle(lambda handle: handle_message(message, handle), agent, is_write=True)
    if response is None:
        return Response(status_code=202)
    return Response(encode_response(response), _status(request.headers, message, response), media_type=JSON_TYPE)


def _check_headers(headers: Headers, message: object) -> None:
    """Reject a request whose headers contradict its message."""
    version = headers.get(VERSION_HEADER, PROTOCOL_VERSIONS[1])
    if version not in PROTOCOL_VERSIONS:
        supported = ", ".join(PROTOCOL_VERSIONS)
        raise JsonRpcError(INVALID_REQUEST, f"Unsupported protocol version. Supported versions: {supported}.")
    meta_version = request_meta(message).get(VERSION_KEY)
    if version not in STATELESS_VERSIONS and meta_version is None:
        return
    if not isinstance(message, dict):
        raise JsonRpcError(INVALID_REQUEST, f"Protocol version {version} does not allow batches.")
    if "id" not in message:
        return
    if meta_version is None:
        raise JsonRpcError(INVALID_PARAMS, f"Protocol version {version} requires {VERSION_KEY} in _meta.")
    method, params = message.get("method"), message.get("params")
    key = _NAMED.get(str(method))
    name = params.get(key) if key and isinstance(params, dict) else None
    for header, matches in (
        (VERSION_HEADER, meta_version == version),
        ("Mcp-Method", headers.get("mcp-method") == method),
        ("Mcp-Name", name is None or _decode(headers.get("mcp-name", "")) == name),
    ):
        if not matches:
            raise JsonRpcError(HEADER_MISMATCH, f"The {header} header does not match the message.")


def _status(headers: Headers, message: object, response: JsonRpcResponse) -> int:
    code = response["error"]["code"] if isinstance(response, dict) and "error" in response else 0
    is_stateless = VERSION_KEY in request_meta(message) or headers.get(VERSION_HEADER) in STATELESS_VERSIONS
    return _STATUS.get(code, 200) if is_stateless or code == INVALID_REQUEST else 200


def _decode(value: str) -> str | None:
    """Decode a header value that may be base64-encoded; return None if the encoding is invalid."""
    if not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except ValueError:
        return None
