"""The server over HTTP."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from ralph.cli import main
from ralph.core.actor import AGENT
from ralph.core.errors import RalphError
from ralph.project import Project
from ralph.store.memory_queries import MemoryFilter
from ralph.web.mcp import MAX_MCP_BODY_BYTES, MCP_TOKEN_FILE, McpHttpServer
from ralph.web.tokens import load_or_create_token
from ralph.workspace import FOLDER
from tests.integrations.mcp.asking import ALONE, SERVE, over_http, request, talk, tool_call

PING = json.dumps(request("ping"))


class Said:
    """What the server answered."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self.body = answer.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def send(
    server: McpHttpServer, body: str | bytes | None = PING, method: str = "POST", path: str = "/mcp", **headers: str
) -> Said:
    """Send one request as given; by default one that is fine. An empty header is left out."""
    usual = {
        "Authorization": f"Bearer {server.token}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    given = {**usual, **{name.replace("_", "-"): value for name, value in headers.items()}}
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
    try:
        connection.request(method, path, body, {name: value for name, value in given.items() if value})
        return Said(connection.getresponse())
    finally:
        connection.close()


@pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])
def test_the_official_client_works_with_it(project: Project, served: McpHttpServer, mode: str) -> None:
    async def speak(client: Client) -> tuple[Any, ...]:
        added = await client.call_tool("remember", {"content": "The parser wants tabs."})
        found = await client.call_tool("search_memories", {"query": "tabs"})
        wrong = await client.call_tool("remember", {"content": "x", "colour": "red"})
        prime = await client.read_resource("ralph://prime")
        tools = await client.list_tools()
        return added, found, wrong, prime, tools

    added, found, wrong, prime, tools = talk(over_http(served.url, served.token, mode), speak)

    (memory,) = project.memory.list(MemoryFilter())
    assert added.structured_content["id"] == memory.id
    assert found.structured_content["memories"][0]["id"] == memory.id
    assert wrong.is_error
    assert "colour" in wrong.content[0].text
    assert "wants tabs" in prime.contents[0].text
    assert len(tools.tools) == 9


def test_many_clients_at_once_each_get_their_own_answer(project: Project, served: McpHttpServer) -> None:
    def add(number: int) -> tuple[int, Any]:
        return number, send(served, json.dumps(tool_call("add_task", number, title=f"Task {number}"))).json

    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(add, range(36)))

    assert all(answer["id"] == number for number, answer in answers)
    assert all(f"Task {number}" in answer["result"]["content"][0]["text"] for number, answer in answers)
    assert len(project.tasks.list()) == 36


def test_one_connection_carries_many_requests(served: McpHttpServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.server_address[1], timeout=20)
    headers = {"Authorization": f"Bearer {served.token}", "Content-Type": "application/json"}

    ids = []
    for number in range(5):
        connection.request("POST", "/mcp", json.dumps(tool_call("list_tasks", number)), headers)
        ids.append(json.loads(connection.getresponse().read())["id"])
    connection.close()

    assert ids == [0, 1, 2, 3, 4]


# --- who may ask --------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer wrong", "Basic abc", "Bearer ü", "bearer\t"])
def test_without_the_token_nothing_is_answered(served: McpHttpServer, given: str) -> None:
    said = send(served, Authorization=given)

    assert said.status == 401
    assert said.headers["WWW-Authenticate"] == "Bearer"
    assert MCP_TOKEN_FILE in said.json["error"]["message"]
    assert served.token.encode() not in said.body


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8417", "127.0.0.1.evil.example", "[::2]", "localhost.evil"]
)
def test_a_name_that_is_not_of_this_machine_is_refused(served: McpHttpServer, host: str) -> None:
    assert send(served, Host=host).status == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "https://localhost.evil.example", "null", "file://", "http://"]
)
def test_a_page_from_elsewhere_is_refused(served: McpHttpServer, origin: str) -> None:
    assert send(served, Origin=origin).status == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "localhost:1"},
        {"Host": "LOCALHOST"},
        {"Host": "[::1]:8417"},
        {"Origin": "http://localhost:3000"},
        {"Origin": "http://[::1]:3000"},
        {"Authorization": "bearer TOKEN"},
    ],
)
def test_names_of_this_machine_are_fine(served: McpHttpServer, headers: dict[str, str]) -> None:
    given = {name: value.replace("TOKEN", served.token) for name, value in headers.items()}

    assert send(served, **given).status == 200


def test_it_is_for_this_machine_alone(tmp_path: Path) -> None:
    with pytest.raises(RalphError, match="--host"):
        McpHttpServer(str(tmp_path), "0.0.0.0", 0, AGENT)
    with pytest.raises(RalphError, match="--port"):
        McpHttpServer(str(tmp_path), "127.0.0.1", 65_536, AGENT)


def test_a_port_that_is_taken_is_said_to_be(served: McpHttpServer) -> None:
    with pytest.raises(RalphError, match="--port"):
        McpHttpServer(served.root, "127.0.0.1", int(served.server_address[1]), AGENT)


# --- what is asked ------------------------------------------------------------------------


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
        ("x" * (MAX_MCP_BODY_BYTES + 1), 413, -32600),
    ],
)
def test_a_body_that_makes_no_sense_is_refused_with_a_sentence(
    served: McpHttpServer, body: str | bytes, status: int, code: int
) -> None:
    said = send(served, body)

    assert (said.status, said.json["error"]["code"]) == (status, code)
    assert said.json["error"]["message"].endswith(".")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": ""}, 415),
        ({"Accept": "text/html"}, 406),
        ({"Accept": "*/*"}, 200),
        ({"Accept": ""}, 200),
        ({"Content-Type": "application/json; charset=utf-8"}, 200),
        ({"Content-Length": "many"}, 400),
        ({"Content-Length": "-1"}, 400),
        ({"Transfer-Encoding": "chunked"}, 411),
        ({"MCP-Protocol-Version": "2025-06-18"}, 200),
        ({"MCP-Protocol-Version": "1999-01-01"}, 400),
    ],
)
def test_headers_say_what_is_sent_and_wanted(served: McpHttpServer, headers: dict[str, str], status: int) -> None:
    assert send(served, **headers).status == status


def test_what_is_merely_told_is_accepted_without_a_body(served: McpHttpServer) -> None:
    said = send(served, json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))

    assert (said.status, said.body) == (202, b"")


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "OPTIONS"])
def test_only_post_is_answered(served: McpHttpServer, method: str) -> None:
    said = send(served, None, method)

    assert (said.status, said.headers["Allow"]) == (405, "POST")


def test_there_is_nothing_at_other_addresses(served: McpHttpServer) -> None:
    assert send(served, path="/").status == 404
    assert send(served, path="/.well-known/oauth-protected-resource").status == 404


def alone(method: str, **params: Any) -> str:
    return json.dumps(request(method, 7, **params, _meta=ALONE))


@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        (alone("tools/list"), {"Mcp-Method": "tools/list"}, 200, 0),
        (alone("tools/list"), {}, 400, -32020),
        (alone("tools/list"), {"Mcp-Method": "tools/call"}, 400, -32020),
        (alone("tools/list"), {"Mcp-Method": "tools/list", "MCP-Protocol-Version": "2025-11-25"}, 400, -32020),
        (alone("tools/call", name="prime"), {"Mcp-Method": "tools/call"}, 400, -32020),
        (alone("tools/call", name="prime"), {"Mcp-Method": "tools/call", "Mcp-Name": "prime"}, 200, 0),
        (alone("tools/call", name="prime"), {"Mcp-Method": "tools/call", "Mcp-Name": "=?base64?cHJpbWU=?="}, 200, 0),
        (alone("tools/call", name="prime"), {"Mcp-Method": "tools/call", "Mcp-Name": "=?base64?!?="}, 400, -32020),
        (alone("no/such"), {"Mcp-Method": "no/such"}, 404, -32601),
        (json.dumps(request("tools/list", 7)), {"Mcp-Method": "tools/list"}, 400, -32602),
        (json.dumps([request("tools/list", 7)]), {"Mcp-Method": "tools/list"}, 400, -32600),
    ],
)
def test_without_a_handshake_the_headers_must_say_what_the_message_says(
    served: McpHttpServer, body: str, headers: dict[str, str], status: int, code: int
) -> None:
    said = send(served, body, **{"MCP-Protocol-Version": "2026-07-28", **headers})

    assert said.status == status
    assert said.json.get("error", {}).get("code", 0) == code
    assert said.json["id"] == (7 if body.startswith("{") else None)


def test_a_client_that_breaks_off_does_no_harm(served: McpHttpServer, capfd: pytest.CaptureFixture[str]) -> None:
    for piece in (
        b"",
        b"POST",
        b"\x16\x03\x01",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
    ):
        with socket.create_connection(("127.0.0.1", int(served.server_address[1]))) as connection:
            connection.sendall(piece)

    assert send(served).status == 200
    assert "Traceback" not in capfd.readouterr().err


# --- the command --------------------------------------------------------------------------


def test_the_token_is_private_and_stays_the_same(project: Project) -> None:
    folder = project.root / FOLDER

    token, is_new = load_or_create_token(folder / MCP_TOKEN_FILE)

    assert is_new
    assert load_or_create_token(folder / MCP_TOKEN_FILE) == (token, False)
    assert (folder / MCP_TOKEN_FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("spoil", [lambda path: path.chmod(0o644), lambda path: path.write_text("")])
def test_a_token_that_others_could_read_or_that_is_lost_is_made_anew(project: Project, spoil: Any) -> None:
    folder = project.root / FOLDER
    before, _ = load_or_create_token(folder / MCP_TOKEN_FILE)
    spoil(folder / MCP_TOKEN_FILE)

    after, is_new = load_or_create_token(folder / MCP_TOKEN_FILE)

    assert is_new
    assert after != before
    assert (folder / MCP_TOKEN_FILE).stat().st_mode & 0o777 == 0o600


def test_a_start_that_fails_does_not_use_up_the_only_showing_of_the_token(project: Project) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(RalphError, match="--port"):
        McpHttpServer(project.directory, "127.0.0.1", taken.getsockname()[1], AGENT)

    with McpHttpServer(project.directory, "127.0.0.1", 0, AGENT) as server:
        assert server.is_token_new


def test_git_does_not_see_the_token(project: Project) -> None:
    load_or_create_token(project.root / FOLDER / MCP_TOKEN_FILE)
    subprocess.run(["git", "init", "-q"], cwd=project.root, check=True)

    seen = subprocess.run(["git", "status", "--short", "-uall"], cwd=project.root, capture_output=True, text=True)

    assert FOLDER in seen.stdout
    assert MCP_TOKEN_FILE not in seen.stdout


def started(project: Project) -> tuple[subprocess.Popen[str], list[str]]:
    """Start the command; give it and what it says until it serves."""
    process = subprocess.Popen(
        [*SERVE, "-C", str(project.root), "mcp", "--http", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )
    assert process.stdout
    lines = [process.stdout.readline()]
    lines.append(process.stdout.readline())
    if "claude" not in lines[1].lower():
        return process, lines
    return process, [*lines, process.stdout.readline()]


def test_the_command_shows_the_token_once_and_ctrl_c_ends_it(project: Project) -> None:
    process, lines = started(project)
    (address,) = re.findall(r"http://\S+/mcp", lines[0])
    token = load_or_create_token(project.root / FOLDER / MCP_TOKEN_FILE)[0]

    async def speak(client: Client) -> Any:
        return await client.call_tool("remember", {"content": "The parser wants tabs."})

    result = talk(over_http(address, token), speak)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    again, more = started(project)
    again.send_signal(signal.SIGINT)
    again.communicate(timeout=20)

    assert lines[2].split() == [
        *("claude", "mcp", "add", "--transport", "http", "ralph", address),
        *("--header", '"Authorization:', "Bearer", f'{token}"'),
    ]
    assert not result.is_error
    assert (out, err, process.returncode) == ("Stopped.\n", "", 0)
    assert not any(token in line for line in more)


def test_outside_a_project_there_is_nothing_to_serve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["-C", str(tmp_path), "mcp", "--http"])

    assert code == 2
    assert "ralph init" in capsys.readouterr().err
