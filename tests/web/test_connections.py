"""Clients that say nothing, too much, too slowly or something ambiguous, over real sockets."""

from __future__ import annotations

import contextlib
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from statistics import median

import pytest

from ralph.project import Project
from ralph.web import auth, connections
from ralph.web.events import EVENTS_PATH
from tests.waiting import wait_until
from tests.web.asking import Asking, Served, ServedApart
from tests.web.test_auth import Door, head, lives, raw

pytestmark = pytest.mark.sqlite

PROMPT_SECONDS = 1.0
TASKS = Door(method="GET", path="/api/tasks")
WRITE = Door(method="POST", path="/api/tasks", takes_body=True)
PARTIAL_HEAD = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
CHUNK = b"%x\r\n" % 16_384 + b" " * 16_384 + b"\r\n"
MAX_SENT = 2_000_000
"""Bytes a client can send before it notices that nobody reads them: the kernel's buffers and a little more."""


@pytest.fixture
def many_files() -> Iterator[None]:
    """Allow this process thousands of open sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 8_192 if hard == resource.RLIM_INFINITY else min(8_192, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def opened(server: Asking, count: int, sent: bytes = b"") -> Iterator[list[socket.socket]]:
    """Open connections that send something, or nothing, and then wait."""
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(count):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 10))
            found.append(one)
            with contextlib.suppress(ConnectionError):
                one.sendall(sent)
        yield found


def is_closed(connection: socket.socket) -> bool:
    """Return whether the server has closed a connection, after what it sent was read."""
    connection.settimeout(10)
    try:
        while connection.recv(65_536):
            pass
    except ConnectionError:
        pass
    except TimeoutError:
        return False
    return True


def read_json_answer(connection: socket.socket) -> bytes:
    """Read head and body, which may arrive one after the other."""
    answer = b""
    while b"}" not in answer and (more := connection.recv(65_536)):
        answer += more
    return answer


# --- many connections -----------------------------------------------------------------------


@pytest.mark.usefixtures("many_files")
@pytest.mark.parametrize(("count", "sent"), [(600, b""), (600, PARTIAL_HEAD), (2_000, b""), (2_000, PARTIAL_HEAD)])
def test_connections_of_strangers_delay_nobody_with_the_token(project: Project, count: int, sent: bytes) -> None:
    with ServedApart(project.root) as server, opened(server, count, sent):
        times = []
        for _ in range(5):
            began = time.perf_counter()
            assert server.get("/api/openapi.json")[0] == 200
            times.append(time.perf_counter() - began)

    assert median(times) < PROMPT_SECONDS  # the slowest depends on what else this machine does


@contextlib.contextmanager
def paused(process: subprocess.Popen[str]) -> Iterator[None]:
    """Stop a process, so that what is sent to it arrives all at once afterwards."""
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


@pytest.mark.usefixtures("many_files")
def test_a_client_is_served_while_strangers_keep_connecting(project: Project) -> None:
    crowd = 2 * connections.MAX_CONNECTIONS
    with ServedApart(project.root) as server, contextlib.ExitStack() as stack:
        with paused(server.process):
            stack.enter_context(opened(server, crowd))
            (client,) = stack.enter_context(opened(server, 1, head(server, TASKS)))
            stack.enter_context(opened(server, crowd))
        client.settimeout(60)

        assert client.recv(65_536).startswith(b"HTTP/1.1 200")


@pytest.mark.usefixtures("many_files")
def test_event_streams_and_connections_in_use_outlive_a_crowd_of_strangers(project: Project) -> None:
    with ServedApart(project.root) as server, server.stream(EVENTS_PATH) as stream:
        assert stream.readline().startswith(b"retry")
        with opened(server, 1) as (kept,):
            kept.sendall(head(server, TASKS))
            read_json_answer(kept)
            with opened(server, 600):
                assert lives(server)
                kept.sendall(head(server, TASKS))
                assert read_json_answer(kept).startswith(b"HTTP/1.1 200")
            server.post("/api/tasks", {"title": "Seen by the stream"})
            assert any(b"Seen by the stream" in stream.readline() for _ in range(50))


def test_the_oldest_stranger_makes_room(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 5)
    with opened(served, 5) as strangers:
        assert lives(served)

        assert is_closed(strangers[0])
        strangers[-1].sendall(head(served, TASKS))
        assert strangers[-1].recv(65_536).startswith(b"HTTP/1.1 200")


# --- slow clients ---------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [b"", PARTIAL_HEAD, b"G", b"\x16\x03"])
def test_a_head_that_does_not_come_is_not_waited_for(
    served: Served, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connections, "HEAD_TIMEOUT", 0.2)
    with opened(served, 1, sent) as (slow,):
        assert is_closed(slow)


def test_a_second_head_that_does_not_come_is_not_waited_for(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_TIMEOUT", 0.2)
    with opened(served, 1, head(served, TASKS)) as (slow,):
        assert slow.recv(65_536).startswith(b"HTTP/1.1 200")
        slow.sendall(PARTIAL_HEAD)
        assert is_closed(slow)


def test_a_body_that_does_not_come_is_not_waited_for(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "BODY_TIMEOUT", 0.2)

    status, _ = raw(served, head(served, WRITE, "Content-Type: application/json", "Content-Length: 10") + b"{")

    assert status == 408


def test_a_stream_that_nobody_reads_is_closed(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "WRITE_TIMEOUT", 0.3)
    for number in range(300):
        served.project.memory.add(f"Event {number} of many: {'x' * 20_000}")
    server = served.server._server
    assert server

    with socket.socket() as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        silent.connect(("127.0.0.1", served.port))
        silent.sendall(head(served, Door(method="GET", path=f"{EVENTS_PATH}?since=0-0")))
        wait_until(lambda: bool(server.server_state.connections))
        wait_until(lambda: not server.server_state.connections)


def test_a_stream_that_is_read_slowly_goes_on(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "WRITE_TIMEOUT", 0.3)
    for number in range(40):
        served.project.memory.add(f"Event {number} of many: {'x' * 20_000}")
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        slow.connect(("127.0.0.1", served.port))
        slow.sendall(head(served, Door(method="GET", path=f"{EVENTS_PATH}?since=0-0")))
        read = b""
        while read.count(b"\nevent: memory") < 40:
            more = slow.recv(20_000)
            assert more
            read += more
            time.sleep(0.002)


# --- bodies that nobody wants ---------------------------------------------------------------


def bytes_sent(server: Asking, request: bytes, chunk: bytes) -> tuple[int, bytes]:
    """Send a request and then more and more; return how much could be sent, and what was answered."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32_768)
        client.settimeout(10)
        client.connect(("127.0.0.1", server.port))
        client.sendall(request)
        answer = client.recv(65_536)
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 20 * MAX_SENT:
                sent += client.send(chunk)
    return sent, answer


@pytest.mark.parametrize("length", ["Transfer-Encoding: chunked", "Content-Length: 1000000000000"])
@pytest.mark.parametrize(
    ("authorization", "path", "statuses"),
    [
        ("Bearer wrong", "/api/tasks", (401,)),
        ("Bearer wrong", "/mcp", (401,)),
        ("Bearer wrong", "/", (401,)),
        ("", "/nowhere", (404, 413)),
    ],
)
def test_a_body_of_a_refused_request_is_not_read(
    served_once: Served, length: str, authorization: str, path: str, statuses: tuple[int, ...]
) -> None:
    request = head(served_once, Door(method="POST", path=path), "Content-Type: application/json", length)
    if authorization:
        request = request.replace(f"Bearer {served_once.token}".encode(), authorization.encode())

    sent, answer = bytes_sent(served_once, request, CHUNK)

    assert int(answer.split()[1]) in statuses
    assert sent < MAX_SENT
    assert lives(served_once)


def test_a_body_that_no_endpoint_reads_is_cut_off(served_once: Served) -> None:
    sent, answer = bytes_sent(served_once, head(served_once, TASKS, "Transfer-Encoding: chunked"), CHUNK)

    assert answer.startswith(b"HTTP/1.1 200")
    assert sent < MAX_SENT


def test_who_is_refused_while_sending_sees_why(served_once: Served) -> None:
    body = b" " * 200_000
    lines = ("Content-Type: application/json", f"Content-Length: {len(body)}")
    request = head(served_once, WRITE, *lines).replace(served_once.token.encode(), b"wrong")
    for _ in range(20):
        status, answer = raw(served_once, request, body[:60_000])
        assert status == 401
        assert b"connection: close" in answer


# --- ambiguous requests ---------------------------------------------------------------------


MALFORMED_HOSTS = (
    "127.0.0.1:{port}@evil.example",
    "127.0.0.1@evil.example",
    "user@127.0.0.1:{port}",
    "127.0.0.1:{port}:80",
    "127.0.0.1:",
    "127.0.0.1:0{port}0",
    "127.0.0.1:99999",
    "127.0.0.1:8x",
    "127.0.0.1/",
    "127.0.0.1, evil.example",
    "127.0.0.1 evil.example",
    "[::1",
    "[::1]x",
    "[::1]@evil.example",
    "::1",
    "127.0.0.1%00.evil.example",
    "localhost\u0131",
)
FOREIGN_HOSTS = ("127.0.0.1:{other}", "localhost:{other}", "[::1]:{other}", "127.1", "2130706433", "0x7f.1", ":{port}")


@pytest.mark.parametrize(
    ("host", "status"), [*((host, 400) for host in MALFORMED_HOSTS), *((host, 403) for host in FOREIGN_HOSTS)]
)
def test_a_host_must_be_exactly_the_servers(served_once: Served, host: str, status: int) -> None:
    assert raw(served_once, with_host(served_once, TASKS, host))[0] == status


def with_host(server: Asking, door: Door, host: str) -> bytes:
    """Return a request with another Host header."""
    given = host.format(port=server.port, other=server.port - 1)
    return head(server, door).replace(f"127.0.0.1:{server.port}".encode(), given.encode(), 1)


@pytest.mark.parametrize("target", ["http://evil.example/api/tasks", "http://127.0.0.1/api/tasks", "*", "x", "?a=/"])
def test_a_target_must_be_a_path(served_once: Served, target: str) -> None:
    assert raw(served_once, head(served_once, Door(method="GET", path=target)))[0] == 400


def ambiguous_heads(usual: bytes) -> dict[str, bytes]:
    """Return heads that proxies and servers read differently."""
    lines = usual[:-2]
    return {
        "bare LF throughout": usual.replace(b"\r\n", b"\n"),
        "bare LF after the request line": usual.replace(b"\r\n", b"\n", 1),
        "bare LF after a header": lines + b"X: a\nY: b\r\n\r\n",
        "bare LF at the end": lines + b"X: a\r\n\n",
        "bare CR in a header": lines + b"X: a\rY: b\r\n\r\n",
        "folded header": lines + b"X: a\r\n b\r\n\r\n",
        "folded with a tab": lines + b"X: a\r\n\tb\r\n\r\n",
        "folded first header": usual.replace(b"\r\nHost", b"\r\n X: a\r\nHost", 1),
        "two hosts": lines + b"Host: 127.0.0.1\r\n\r\n",
        "space before the colon": lines + b"X : a\r\n\r\n",
        "tab before the colon": lines + b"X\t: a\r\n\r\n",
        "no colon": lines + b"X\r\n\r\n",
        "empty name": lines + b": a\r\n\r\n",
        "NUL": lines + b"X: a\x00b\r\n\r\n",
        "control character": lines + b"X: a\x01b\r\n\r\n",
        "DEL": lines + b"X: a\x7fb\r\n\r\n",
        "vertical tab": lines + b"X: a\x0bb\r\n\r\n",
        "name with a byte above 127": lines + b"X\xff: a\r\n\r\n",
        "target with a byte above 127": usual.replace(b" /", b" /\xff/", 1),
        "two spaces in the request line": usual.replace(b" ", b"  ", 1),
        "tab in the request line": usual.replace(b" ", b"\t", 1),
        "empty line first": b"\r\n" + usual,
        "HTTP/2.0": usual.replace(b"HTTP/1.1", b"HTTP/2.0", 1),
        "HTTP/1.9": usual.replace(b"HTTP/1.1", b"HTTP/1.9", 1),
        "http/1.1": usual.replace(b"HTTP/1.1", b"http/1.1", 1),
        "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "two lengths": lines + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        "a list of lengths": lines + b"Content-Length: 2, 3\r\n\r\n{}",
        "a signed length": lines + b"Content-Length: +2\r\n\r\n{}",
        "length and chunks": lines
        + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /x HTTP/1.1\r\n\r\n",
        "unknown encoding": lines + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "encoding with a vertical tab": lines + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
        "huge head": lines + b"X: " + b"a" * connections.MAX_HEAD_BYTES + b"\r\n\r\n",
        "huge query": usual.replace(b" HTTP", b"?q=" + b"a" * connections.MAX_HEAD_BYTES + b" HTTP", 1),
    }


@pytest.mark.parametrize("name", sorted(ambiguous_heads(b"GET /api/tasks HTTP/1.1\r\nHost: x\r\n\r\n")))
def test_an_ambiguous_head_is_refused(served_once: Served, name: str) -> None:
    status, answer = raw(served_once, ambiguous_heads(head(served_once, TASKS))[name])

    assert 400 <= status < 500 or status == 501, answer


@pytest.mark.parametrize("name", ["bare LF throughout", "folded header", "control character", "HTTP/1.9"])
def test_an_ambiguous_second_head_is_refused_too(served_once: Served, name: str) -> None:
    usual = head(served_once, TASKS)
    second = ambiguous_heads(usual)[name]
    body = b"Content-Length: 2\r\n\r\n{}"
    for sent in ([usual + second], [usual, second], [usual[:-2] + body + second], [usual, second[:5], second[5:]]):
        _, answer = raw(served_once, *sent, end=b"\r\n\r\nInvalid")
        assert answer.count(b"HTTP/1.1 200") == 1
        assert answer.count(b"HTTP/1.1 400") == 1


def test_pipelined_requests_are_answered_in_order(served_once: Served) -> None:
    paths = ["/api/tasks", "/static/icon.svg", "/api/nowhere", "/api/openapi.json"]
    requests = [head(served_once, Door(method="GET", path=path)) for path in paths]
    last = head(served_once, TASKS, "Connection: close")

    with socket.create_connection(("127.0.0.1", served_once.port), 10) as connection:
        connection.sendall(b"".join([*requests, last]))
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))

    assert [int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:]] == [200, 200, 404, 200, 200]


def test_bytes_that_are_not_http_are_refused_at_once(served_once: Served) -> None:
    for sent in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\x00" * 100, b"SSH-2.0-x\r\n", b"\x05\x01\x00"):
        with opened(served_once, 1, sent + b"\r\n\r\n") as (connection,):
            assert connection.recv(65_536).startswith(b"HTTP/1.1 400")


def test_an_upgrade_is_ignored(served_once: Served) -> None:
    lines = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: eA==", "Sec-WebSocket-Version: 13")

    assert raw(served_once, head(served_once, TASKS, *lines))[0] == 200
    assert lives(served_once)


def test_the_token_of_agents_opens_nothing_else(served_once: Served) -> None:
    from ralph.web.tokens import mcp_token

    agent = {"authorization": f"Bearer {mcp_token(served_once.token)}"}

    assert served_once.ask("GET", "/api/tasks", headers=agent).status == 401
    assert served_once.ask("POST", "/mcp", '{"jsonrpc": "2.0", "id": 1, "method": "ping"}', agent).status == 200
