"""Every door of the HTTP server and of MCP, tried by those who must not come in."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from threading import Thread

import pytest

from ralph.core.actor import AGENT
from ralph.project import Project
from ralph.web import mcp
from ralph.web.mcp import McpHttpServer
from tests.faults.api import doors, routes, untried
from tests.make import set_up_project
from tests.web.asking import Served
from tests.web.test_auth import DOORS, Door, head, raw

pytestmark = pytest.mark.sqlite


def test_no_route_of_the_app_is_forgotten(project: Project) -> None:
    assert len(routes(project.root)) > 50
    assert untried(project.root) == set()


def test_who_must_not_come_in_is_refused(tmp_path: Path) -> None:
    shown = doors(tmp_path, 12, 1)

    assert shown.lost == 0
    assert shown.tried > 12 * 20


def test_there_is_a_door_for_each_call_page_and_file() -> None:
    assert len(DOORS) > 80


# --- MCP over HTTP ---------------------------------------------------------------------------


def test_clients_that_take_their_time_keep_nobody_out(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp, "MAX_MCP_CONNECTIONS", 3)
    monkeypatch.setattr(mcp, "REQUEST_TIMEOUT", 0.5)
    with McpHttpServer(project.directory, "127.0.0.1", 0, AGENT) as server:
        thread = Thread(target=lambda: server.serve_forever(poll_interval=0.02))
        thread.start()
        try:
            slow = [_connected(server) for _ in range(3)]
            for one in slow:
                one.sendall(b"POST /mcp HTTP/1.1\r\nX: ")
            time.sleep(0.1)
            one_too_many = _connected(server).recv(100)
            _trickle(slow)
            afterwards = _connected(server)
            afterwards.sendall(b"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            answer = afterwards.recv(100)
        finally:
            server.shutdown()
            thread.join()

    assert one_too_many.startswith(b"HTTP/1.1 503 ")
    assert answer.startswith(b"HTTP/1.1 401 ")


def _connected(server: McpHttpServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_port), timeout=10)


def _trickle(connections: list[socket.socket]) -> None:
    """Send a little now and then, until the server has had enough."""
    deadline = time.monotonic() + 10
    while connections and time.monotonic() < deadline:
        time.sleep(0.1)
        for one in list(connections):
            try:
                one.sendall(b"a")
            except OSError:
                connections.remove(one)
    assert connections == []


def test_a_body_whose_length_is_said_in_two_ways_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    set_up_project(tmp_path)
    with Project.open(tmp_path) as project:
        served = Served(tmp_path, project)
        try:
            door = Door(method="GET", path="/api/tasks")
            both = head(served, door, "Content-Length: 2", "Transfer-Encoding: chunked") + b"0\r\n\r\n"
            junk = head(served, door, "Transfer-Encoding: chunked") + b"ZZ\r\n{}\r\n0\r\n\r\n"

            assert raw(served, both)[0] == 400
            assert raw(served, junk)[0] in (200, 400)
        finally:
            served.close()
    assert "Traceback" not in capfd.readouterr().err
