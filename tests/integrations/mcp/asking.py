"""Ways to ask our MCP server: by its own messages, and with the official client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from ralph.integrations.mcp.protocol import handle_message
from ralph.integrations.project_handle import ProjectHandle

Json = dict[str, Any]

SERVE = [sys.executable, "-m", "ralph"]
INITIALIZE: Json = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
ALONE: Json = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
"""What a request without a handshake says about itself."""


def request(method: str, id: object = 1, **params: Any) -> Json:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def tool_call(name: str, number: object = 1, /, **arguments: Any) -> Json:
    return request("tools/call", number, name=name, arguments=arguments)


def result_of(opened: ProjectHandle, method: str, **params: Any) -> Json:
    """Return the result of a method, in this process."""
    found = handle_message(request(method, **params), opened)
    assert isinstance(found, dict)
    assert "error" not in found, found
    result: Json = found["result"]
    return result


def error_of(opened: ProjectHandle, method: str, **params: Any) -> Json:
    """Return the fault that a method is answered with, in this process."""
    found = handle_message(request(method, **params), opened)
    assert isinstance(found, dict)
    error: Json = found["error"]
    return error


def called(opened: ProjectHandle, name: str, **arguments: Any) -> str:
    """Return the text of a tool's result that is no error, in this process."""
    result = result_of(opened, "tools/call", name=name, arguments=arguments)
    assert not result["isError"], result
    text: str = result["content"][0]["text"]
    return text


def refused(opened: ProjectHandle, name: str, **arguments: Any) -> str:
    """Return the sentence a tool refuses a call with, in this process."""
    result = result_of(opened, "tools/call", name=name, arguments=arguments)
    assert result["isError"], result
    text: str = result["content"][0]["text"]
    return text


class Served:
    """A server in a process of its own, spoken to line by line."""

    def __init__(self, directory: Path, **environment: str) -> None:
        self.process = subprocess.Popen(
            [*SERVE, "-C", str(directory), "mcp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **environment},
        )
        assert self.process.stdin
        assert self.process.stdout
        self.into, self.out = self.process.stdin, self.process.stdout

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def tell(self, *messages: object) -> None:
        """Send messages as they are; text and bytes as a line."""
        for one in messages:
            line = one if isinstance(one, bytes) else json.dumps(one).encode()
            self.into.write(line + b"\n")
        self.into.flush()

    def hear(self) -> Any:
        """Return the next line the server writes."""
        return json.loads(self.out.readline())

    def ask(self, message: object) -> Any:
        self.tell(message)
        return self.hear()

    def end(self) -> tuple[list[Any], str, int]:
        """Close its input; return what it still said, what it printed beside, and its exit code."""
        out, err = self.process.communicate(timeout=20)
        return [json.loads(line) for line in out.splitlines()], err.decode(), self.process.returncode


# --- the official client ------------------------------------------------------------------


def over_stdio(directory: Path, mode: str = "auto") -> Client:
    environment = {name: value for name, value in os.environ.items() if name.startswith(("RALPH_", "PYTHON"))}
    server = StdioServerParameters(command=SERVE[0], args=[*SERVE[1:], "-C", str(directory), "mcp"], env=environment)
    return Client(server, mode=mode)


def over_http(url: str, token: str, mode: str = "auto") -> Client:
    http = create_mcp_http_client(headers={"Authorization": f"Bearer {token}"})
    return Client(streamable_http_client(url, http_client=http), mode=mode)


def talk(client: AbstractAsyncContextManager[Client], speak: Callable[[Client], Awaitable[Any]]) -> Any:
    """Return what a talk with the server comes to."""

    async def run() -> Any:
        async with client as connected:
            return await speak(connected)

    return anyio.run(run)
