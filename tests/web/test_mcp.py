"""MCP over HTTP: an endpoint of the server for agents."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from ralph.core.records import MemoryEvent
from ralph.integrations.mcp.tools import TOOLS
from ralph.project import Project
from ralph.store.memory_queries import MemoryFilter
from ralph.web.tokens import OLD_MCP_TOKEN_FILE, load_or_create_token, mcp_token, token_path
from ralph.workspace import FOLDER
from tests.cli.ran import run
from tests.integrations.mcp.asking import ALONE, SERVE, over_http, request, talk, tool_call
from tests.web.asking import Said, Served

PING = json.dumps(request("ping"))


def send(
    served: Served, body: str | bytes | None = PING, method: str = "POST", path: str = "/mcp", **headers: str | None
) -> Said:
    """Send one request as given; by default a valid one."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return served.ask(method, path, body, {"Accept": "application/json, text/event-stream", **given})


@pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])
def test_the_official_client_works_with_it(project: Project, served: Served, mode: str) -> None:
    async def speak(client: Client) -> tuple[Any, ...]:
        added = await client.call_tool("remember", {"content": "The parser wants tabs."})
        found = await client.call_tool("search_memories", {"query": "tabs"})
        wrong = await client.call_tool("remember", {"content": "x", "colour": "red"})
        prime = await client.read_resource("ralph://prime")
        tools = await client.list_tools()
        return added, found, wrong, prime, tools

    added, found, wrong, prime, tools = talk(over_http(served.server.mcp_url, served.token, mode), speak)

    (memory,) = project.memory.list(MemoryFilter())
    assert added.structured_content["id"] == memory.id
    assert found.structured_content["memories"][0]["id"] == memory.id
    assert wrong.is_error
    assert "colour" in wrong.content[0].text
    assert "wants tabs" in prime.contents[0].text
    assert len(tools.tools) == len(TOOLS)


def test_concurrent_clients_each_get_their_own_response(project: Project, served: Served) -> None:
    def add(number: int) -> tuple[int, Any]:
        return number, send(served, json.dumps(tool_call("add_task", number, title=f"Task {number}"))).json

    with ThreadPoolExecutor(12) as pool:
        responses = list(pool.map(add, range(36)))

    assert all(response["id"] == number for number, response in responses)
    assert all(f"Task {number}" in response["result"]["content"][0]["text"] for number, response in responses)
    assert len(project.tasks.list()) == 36


# --- access -------------------------------------------------------------------------------


def test_a_client_is_an_agent_and_the_user_of_the_dashboard_a_person(project: Project, served: Served) -> None:
    by_agent = send(served, json.dumps(tool_call("remember", content="The parser wants tabs."))).json
    by_person = served.post("/api/projects/-/memories", {"content": "The tests need docker."})[1]

    def author(id: str) -> str:
        event: MemoryEvent = project.memory.history(id)[0]
        return event.who

    assert author(by_agent["result"]["structuredContent"]["id"]) == "agent"
    assert author(by_person["memory"]["id"]) == "person"


def test_the_token_of_agents_opens_nothing_else(served: Served) -> None:
    token = f"Bearer {mcp_token(served.token)}"

    assert send(served, Authorization=token).status == 200
    for path in ("/api/status", "/"):
        assert served.ask("GET", path, headers={"authorization": token}).status == 401


def test_the_token_of_an_earlier_version_still_works(project: Project) -> None:
    old = load_or_create_token(project.root / FOLDER / OLD_MCP_TOKEN_FILE)
    served = Served(Path(project.directory), project)
    try:
        assert send(served, Authorization=f"Bearer {old}").status == 200
        assert served.ask("GET", "/api/status", headers={"authorization": f"Bearer {old}"}).status == 401
    finally:
        served.close()


# --- messages -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ("", 400, -32700),
        ("no json", 400, -32700),
        (b"\xff\xff", 400, -32700),
        ("[" * 100_000, 400, -32700),
        ("7", 400, -32600),
        ("[]", 400, -32600),
        ("{}", 400, -32600),
        (json.dumps(request("no/such")), 200, -32601),
    ],
)
def test_an_invalid_message_is_answered_with_an_error(
    served_once: Served, body: str | bytes, status: int, code: int
) -> None:
    said = send(served_once, body)

    assert (said.status, said.json["error"]["code"]) == (status, code)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "text/plain"}, 415),
        ({"Accept": "text/html"}, 406),
        ({"Accept": "*/*"}, 200),
        ({"Accept": None}, 200),
        ({"Content-Type": "application/json; charset=utf-8"}, 200),
        ({"MCP-Protocol-Version": "2025-06-18"}, 200),
        ({"MCP-Protocol-Version": "1999-01-01"}, 400),
    ],
)
def test_headers_are_checked(served_once: Served, headers: dict[str, Any], status: int) -> None:
    assert send(served_once, PING, **headers).status == status


def test_a_notification_is_accepted_without_a_body(served_once: Served) -> None:
    said = send(served_once, json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))

    assert (said.status, said.body) == (202, b"")


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "OPTIONS"])
def test_only_post_is_supported(served_once: Served, method: str) -> None:
    said = send(served_once, None, method)

    assert (said.status, said.headers["Allow"]) == (405, "POST")


def test_there_is_no_oauth_metadata(served_once: Served) -> None:
    assert send(served_once, None, "GET", "/.well-known/oauth-protected-resource").status == 404


def stateless(method: str, **params: Any) -> str:
    return json.dumps(request(method, 7, **params, _meta=ALONE))


@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        (stateless("tools/list"), {"Mcp-Method": "tools/list"}, 200, 0),
        (stateless("tools/list"), {}, 400, -32020),
        (stateless("tools/list"), {"Mcp-Method": "tools/call"}, 400, -32020),
        (stateless("tools/list"), {"Mcp-Method": "tools/list", "MCP-Protocol-Version": "2025-11-25"}, 400, -32020),
        (stateless("tools/call", name="prime"), {"Mcp-Method": "tools/call"}, 400, -32020),
        (stateless("tools/call", name="prime"), {"Mcp-Method": "tools/call", "Mcp-Name": "prime"}, 200, 0),
        (
            stateless("tools/call", name="prime"),
            {"Mcp-Method": "tools/call", "Mcp-Name": "=?base64?cHJpbWU=?="},
            200,
            0,
        ),
        (stateless("tools/call", name="prime"), {"Mcp-Method": "tools/call", "Mcp-Name": "=?base64?!?="}, 400, -32020),
        (stateless("no/such"), {"Mcp-Method": "no/such"}, 404, -32601),
        (json.dumps(request("tools/list", 7)), {"Mcp-Method": "tools/list"}, 400, -32602),
        (json.dumps([request("tools/list", 7)]), {"Mcp-Method": "tools/list"}, 400, -32600),
    ],
)
def test_without_a_handshake_the_headers_must_match_the_message(
    served_once: Served, body: str, headers: dict[str, str], status: int, code: int
) -> None:
    said = send(served_once, body, **{"MCP-Protocol-Version": "2026-07-28", **headers})

    assert said.status == status
    assert said.json.get("error", {}).get("code", 0) == code
    assert said.json["id"] == (7 if body.startswith("{") else None)


# --- the command --------------------------------------------------------------------------


def test_the_command_prints_how_to_connect_and_ctrl_c_ends_it(project: Project) -> None:
    process = subprocess.Popen(
        [*SERVE, "-C", str(project.root), "mcp", "--http", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )
    assert process.stdout
    lines = [process.stdout.readline() for _ in range(3)]
    (url,) = re.findall(r"http://\S+/mcp", lines[0])
    token = mcp_token(load_or_create_token(token_path(project.directory)))

    async def speak(client: Client) -> Any:
        return await client.call_tool("remember", {"content": "The parser wants tabs."})

    result = talk(over_http(url, token), speak)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)

    assert lines[2].split() == [
        *("claude", "mcp", "add", "--transport", "http", "ralph", url),
        *("--header", '"Authorization:', "Bearer", f'{token}"'),
    ]
    assert not result.is_error
    assert (out, err, process.returncode) == ("Stopped.\n", "", 0)


def test_the_command_needs_a_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, tmp_path, "mcp", "--http").code == 2


def test_the_command_serves_this_machine_only(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, project.root, "mcp", "--http", "--host", "0.0.0.0", "--port", "0").code == 2
