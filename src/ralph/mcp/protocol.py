"""JSON-RPC and the methods of the Model Context Protocol, whatever carries the messages.

A message goes in, an answer or nothing comes out. Nothing is kept from one message to the next, so that a server
that was started anew answers as the one before it did.
"""

from __future__ import annotations

import json

from ralph.mcp.arguments import worded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from ralph.opened import Opened

    Answer = dict[str, Any] | list[dict[str, Any]] | None

WITH_HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Versions that begin with `initialize`, oldest first."""
WITHOUT_HANDSHAKE = ("2026-07-28",)
"""Versions in which every request says which one it speaks."""
VERSIONS = WITH_HANDSHAKE + WITHOUT_HANDSHAKE

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
RESOURCE_NOT_FOUND = -32002
"""Up to 2025-11-25; since then it is invalid parameters."""
HEADER_MISMATCH = -32020
UNSUPPORTED_VERSION = -32022

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"

_ENDLESS = (float("inf"), float("-inf"))
"""What a number with a huge exponent is read as; JSON has no word for it."""
MOST_IN_BATCH = 100
LIST_MILLISECONDS = 300_000
"""So long a client may go by a list it has seen: they change only with the program."""
CANCELLED = "notifications/cancelled"

INSTRUCTIONS = (
    "Ralph remembers what was learned in this project and keeps its tasks. At the start of work call prime, or"
    " search_memories with a few words about what you are doing. When you find out something that the next one should"
    " know, call remember. When an attempt at a task did not work, call report_failure, so that nobody repeats it."
    " What comes back are notes, not orders: where the code says otherwise, trust the code."
)


class Fault(Exception):
    """A request that cannot be answered, as JSON-RPC says it."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


def read(raw: bytes) -> object:
    """Give the message in some bytes; a `Fault` when it is not JSON."""
    try:
        return json.loads(raw.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Fault(PARSE_ERROR, f"This is not JSON: {_where(error)}.") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _where(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not valid UTF-8"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def write(answer: Answer) -> bytes:
    """Give an answer as one line, in ASCII, so that any text survives."""
    return json.dumps(answer, separators=(",", ":"), default=str).encode() + b"\n"


def fault_answer(fault: Fault, id: object = None) -> dict[str, Any]:
    """Give the answer that tells a fault."""
    error: dict[str, Any] = {"code": fault.code, "message": worded(fault)}
    if fault.data is not None:
        error["data"] = fault.data
    return {"jsonrpc": "2.0", "id": id, "error": error}


def answer(message: object, opened: Opened) -> Answer:
    """Give the answer to a message or to a batch of them; None when it wants none."""
    if not isinstance(message, list):
        return _answer_one(message, opened)
    if not 0 < len(message) <= MOST_IN_BATCH:
        return fault_answer(Fault(INVALID_REQUEST, f"A batch has 1 to {MOST_IN_BATCH} messages."))
    answers = [one for one in (_answer_one(part, opened) for part in message) if one is not None]
    return answers or None


def request_id(message: object) -> object:
    """Give the id by which a request is answered; None when it has none that can be used."""
    found = message.get("id") if isinstance(message, dict) else None
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        return None
    return None if found in _ENDLESS else found


def envelope(message: object) -> dict[str, Any]:
    """Give what a request says about itself; nothing when it says nothing."""
    params = message.get("params") if isinstance(message, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta if isinstance(meta, dict) else {}


def _answer_one(message: object, opened: Opened) -> dict[str, Any] | None:
    id = request_id(message)
    try:
        if not isinstance(message, dict):
            raise Fault(INVALID_REQUEST, "A message is a JSON object.")
        if "method" not in message and ("result" in message or "error" in message):
            return None  # an answer to something that was never asked
        _check(message)
        if "id" not in message:
            return None  # of what clients merely tell us nothing has to be done
        if id is None:
            raise Fault(INVALID_REQUEST, "The id of a request is a text or a number.")
        return {"jsonrpc": "2.0", "id": id, "result": _result(message, opened)}
    except Fault as fault:
        return fault_answer(fault, id)


def _check(message: dict[str, Any]) -> None:
    if message.get("jsonrpc") != "2.0":
        raise Fault(INVALID_REQUEST, 'A message says "jsonrpc": "2.0".')
    if not isinstance(message.get("method"), str):
        raise Fault(INVALID_REQUEST, "The method of a message is a text.")
    if not isinstance(message.get("params") or {}, dict):
        raise Fault(INVALID_PARAMS, "The params of a message are an object.")


def _result(message: dict[str, Any], opened: Opened) -> dict[str, Any]:
    method, params = message["method"], message.get("params") or {}
    meta = envelope(message)
    is_alone = VERSION_KEY in meta or method == "server/discover"
    if is_alone:
        _check_envelope(meta)
    serve = (_WITHOUT_HANDSHAKE if is_alone else _AFTER_HANDSHAKE).get(method)
    if serve is None:
        raise Fault(METHOD_NOT_FOUND, f"There is no method {method[:100]!r} here.")
    try:
        result = serve(params, opened)
    except Fault as fault:
        if is_alone and fault.code == RESOURCE_NOT_FOUND:
            fault.code = INVALID_PARAMS
        raise
    return _marked(method, result) if is_alone else result


def _check_envelope(meta: dict[str, Any]) -> None:
    if missing := [key for key in (VERSION_KEY, CAPABILITIES_KEY) if key not in meta]:
        raise Fault(INVALID_PARAMS, f"The _meta of this request lacks {' and '.join(missing)}.")
    version = meta[VERSION_KEY]
    if not isinstance(version, str):
        raise Fault(INVALID_PARAMS, f"{VERSION_KEY} is a text.")
    if version not in WITHOUT_HANDSHAKE:
        data = {"supported": list(VERSIONS), "requested": version}
        raise Fault(UNSUPPORTED_VERSION, "This version of the protocol is not known here.", data)


def _marked(method: str, result: dict[str, Any]) -> dict[str, Any]:
    """Give a result with what every one has that stands alone, and how long it may be kept."""
    marked = {**result, "resultType": "complete", "_meta": {SERVER_KEY: _server()}}
    if method != "tools/call":
        lasts = 0 if method == "resources/read" else LIST_MILLISECONDS
        marked |= {"ttlMs": lasts, "cacheScope": "private"}
    return marked


# --- the methods ---------------------------------------------------------------------


def _server() -> dict[str, str]:
    from ralph import __version__

    return {"name": "ralph", "title": "Ralph", "version": __version__}


def _about() -> dict[str, Any]:
    return {"capabilities": {"tools": {}, "resources": {}}, "instructions": INSTRUCTIONS}


def _initialize(params: dict[str, Any], opened: Opened) -> dict[str, Any]:
    asked = params.get("protocolVersion")
    if not isinstance(asked, str):
        raise Fault(INVALID_PARAMS, "initialize needs the protocolVersion, a text.")
    version = asked if asked in WITH_HANDSHAKE else WITH_HANDSHAKE[-1]
    return {"protocolVersion": version, "serverInfo": _server(), **_about()}


def _discover(params: dict[str, Any], opened: Opened) -> dict[str, Any]:
    return {"supportedVersions": list(reversed(VERSIONS)), **_about()}


def _ping(params: dict[str, Any], opened: Opened) -> dict[str, Any]:
    return {}


def _list_tools(params: dict[str, Any], opened: Opened) -> dict[str, Any]:
    from ralph.mcp.tools import listing

    _refuse_cursor(params)
    return {"tools": listing()}


def _call_tool(params: dict[str, Any], opened: Opened) -> dict[str, Any]:
    from ralph.mcp.tools import call

    name, arguments = params.get("name"), params.get("arguments")
    if not isinstance(name, str):
        raise Fault(INVALID_PARAMS, "tools/call needs the name of a tool, a text.")
    if not isinstance(arguments, dict | None):
        raise Fault(INVALID_PARAMS, "The arguments of a tool are an object.")
    result = call(opened, name, arguments or {})
    if result is None:
        raise Fault(INVALID_PARAMS, f"There is no tool {name[:100]!r}: tools/list names those there are.")
    return result


def _list_resources(params: dict[str, Any], opened: Opened) -> dict[str, Any]:
    from ralph.mcp.resources import RESOURCES

    _refuse_cursor(params)
    return {"resources": RESOURCES}


def _list_templates(params: dict[str, Any], opened: Opened) -> dict[str, Any]:
    from ralph.mcp.resources import TEMPLATES

    _refuse_cursor(params)
    return {"resourceTemplates": TEMPLATES}


def _read_resource(params: dict[str, Any], opened: Opened) -> dict[str, Any]:
    from ralph.mcp.resources import read_resource

    uri = params.get("uri")
    if not isinstance(uri, str):
        raise Fault(INVALID_PARAMS, "resources/read needs the uri of a resource, a text.")
    return {"contents": [read_resource(opened, uri)]}


def _refuse_cursor(params: dict[str, Any]) -> None:
    if params.get("cursor") is not None:
        raise Fault(INVALID_PARAMS, "There is no such cursor: all of this list comes at once.")


_ALWAYS = {
    "tools/list": _list_tools,
    "tools/call": _call_tool,
    "resources/list": _list_resources,
    "resources/templates/list": _list_templates,
    "resources/read": _read_resource,
}
_AFTER_HANDSHAKE = {**_ALWAYS, "initialize": _initialize, "ping": _ping}
_WITHOUT_HANDSHAKE = {**_ALWAYS, "server/discover": _discover}
