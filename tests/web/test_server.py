"""`ralph serve`: how it begins, what it says, how it ends, and what it lives through."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest

from ralph.core.errors import RalphError
from ralph.core.extras import install_hint
from ralph.project import Project
from ralph.web import server
from ralph.web.events import EVENTS_PATH
from ralph.web.server import WebServer
from ralph.web.tokens import token_path
from ralph.workspace import FOLDER, init_project
from tests.cli.ran import run
from tests.postgres import Server as Postgres
from tests.web.asking import Served, ServedApart

NEEDED = ["msgspec", "starlette", "uvicorn", "jinja2"]


def test_it_prints_the_link_that_lets_a_browser_in(project: Project) -> None:
    with ServedApart(project.root) as server:
        host, _, rest = server.link.removeprefix("http://").partition("/")
        entered = server.ask("GET", f"/{rest}", headers={"authorization": None, "host": host})
        cookie = entered.headers["set-cookie"].partition(";")[0]
        page = server.ask("GET", "/", headers={"authorization": None, "cookie": cookie, "host": host})
        code, rest = server.end()

    assert str(project.root) in server.lines[0]
    assert f"{server.url}/api" in server.lines[2]
    assert token_path(project.directory).read_text().strip() == server.token
    assert page.status == 200
    assert (code, rest) == (0, "Stopped.\n")


def test_the_link_stays_the_same_when_it_is_started_again(project: Project) -> None:
    tokens = set()
    for _ in range(2):
        with ServedApart(project.root) as server:
            tokens.add(server.token)

    assert len(tokens) == 1


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_at_once(project: Project, how: signal.Signals) -> None:
    with ServedApart(project.root) as server:
        assert server.get("/")[0] == 200
        code, rest = server.end(how)

    assert "Traceback" not in rest
    assert code in (0, -how, 128 + how)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_at_once_while_somebody_listens(project: Project, how: signal.Signals) -> None:
    with (
        ServedApart(project.root) as server,
        server.stream(EVENTS_PATH) as one,
        server.stream(EVENTS_PATH) as two,
    ):
        assert (one.status, two.status) == (200, 200)
        code, rest = server.end(how)

    assert "Traceback" not in rest
    assert code in (0, -how, 128 + how)


def test_open_streams_do_not_delay_the_end(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SHUTDOWN_TIMEOUT", 600)
    served = Served(project.root, project)

    with served.stream(EVENTS_PATH) as stream:
        assert stream.status == 200
        served.close()


def test_connections_that_say_nothing_do_not_keep_it(project: Project) -> None:
    with ServedApart(project.root) as server:
        address = ("127.0.0.1", server.port)
        with socket.create_connection(address) as silent, socket.create_connection(address) as half:
            half.sendall(b"POST /api/tasks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n")
            assert server.get("/")[0] == 200
            _, rest = server.end()
            silent.close()

    assert "Traceback" not in rest


def test_the_token_is_printed_for_programs(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, project.root, "serve", "--print-token")

    assert (ran.code, ran.out.strip()) == (0, token_path(project.directory).read_text().strip())


def test_an_agent_is_not_told_the_token(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RALPH_SESSION", "session-1")

    ran = run(capsys, project.root, "serve", "--print-token")

    assert (ran.code, ran.out) == (2, "")


def test_an_answer_on_a_connection_that_is_kept_is_sent_at_once(served: Served) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)
    headers = {"Authorization": f"Bearer {served.token}"}
    times = []
    for _ in range(10):
        began = time.monotonic()
        connection.request("GET", "/static/icon.svg", headers=headers)
        connection.getresponse().read()
        times.append(time.monotonic() - began)
    connection.close()

    assert min(times[1:]) < 0.03  # an acknowledgement that is waited for takes 0.04


def test_what_clients_do_wrong_is_not_printed(project: Project) -> None:
    with ServedApart(project.root) as server:
        address = ("127.0.0.1", server.port)
        head = f"Host: 127.0.0.1\r\nAuthorization: Bearer {server.token}\r\n"
        for sent in (
            "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
            "nonsense\r\n\r\n",
            f"POST /api/tasks HTTP/1.1\r\n{head}Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{{",
        ):
            with socket.create_connection(address, 5) as connection:
                connection.sendall(sent.encode())
        assert server.get("/")[0] == 200
        _, rest = server.end()

    assert rest == "Stopped.\n"


@pytest.mark.sqlite
def test_while_somebody_holds_the_database_reading_goes_on(served: Served) -> None:
    holder = apsw.Connection(str(served.root / FOLDER / "ralph.db"))
    holder.execute("BEGIN IMMEDIATE")
    with ThreadPoolExecutor(10) as threads:
        waiting = [threads.submit(served.post, "/api/tasks", {"title": f"Task {n}"}) for n in range(10)]
        time.sleep(0.3)
        status, _ = served.get("/api/tasks")
        holder.execute("ROLLBACK")

    assert status == 200
    assert [one.result()[0] for one in waiting] == [201] * 10


# --- what stands in its way ---------------------------------------------------------------


def test_a_taken_port_is_said_in_a_sentence(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ran = run(capsys, project.root, "serve", "--port", str(taken.getsockname()[1]))

    assert ran.code == 1
    assert "--port" in ran.err
    assert "Traceback" not in ran.err


def test_a_start_that_fails_makes_no_token(project: Project) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(RalphError, match="--port"):
        WebServer(project.directory, "127.0.0.1", taken.getsockname()[1])

    assert not token_path(project.directory).exists()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", ""])
def test_others_may_come_in_only_by_a_name_that_was_said(
    project: Project, capsys: pytest.CaptureFixture[str], host: str
) -> None:
    ran = run(capsys, project.root, "serve", "--port", "0", "--host", host)

    assert ran.code == 2
    assert "--allow-host NAME" in ran.err


@pytest.mark.parametrize("port", ["-1", "65536", "x"])
def test_a_port_that_is_none_is_refused(project: Project, capsys: pytest.CaptureFixture[str], port: str) -> None:
    ran = run(capsys, project.root, "serve", "--port", port)

    assert ran.code == 2
    assert "port" in ran.err


def test_where_there_is_no_project_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, tmp_path, "serve", "--port", "0")

    assert ran.code != 0
    assert "ralph init" in ran.err


@pytest.mark.parametrize("missing", NEEDED)
def test_without_the_extra_it_says_how_to_get_it(project: Project, missing: str) -> None:
    without = f"import sys; sys.modules[{missing!r}] = None; from ralph.cli import main; sys.exit(main())"

    ran = subprocess.run(
        [sys.executable, "-c", without, "-C", str(project.root), "serve", "--port", "0"],
        capture_output=True,
        text=True,
        timeout=20,
    )

    assert ran.returncode == 1
    assert install_hint("server") in ran.stderr
    assert "Traceback" not in ran.stderr


# --- what it lives through ----------------------------------------------------------------


def test_what_others_change_is_seen_at_once(served: Served) -> None:
    added = served.project.memory.add("The parser wants tabs.")

    status, found = served.get(f"/api/memories/{added.memory.id}")

    assert status == 200
    assert found["content"] == "The parser wants tabs."


def test_settings_that_were_changed_count_from_the_next_question(served: Served) -> None:
    assert served.get("/api/status")[0] == 200
    settings = served.root / ".ralph.toml"
    before = settings.read_text()

    settings.write_text("[loop\n")
    os.utime(settings, (time.time() + 5, time.time() + 5))
    spoiled, told = served.get("/api/status")
    settings.write_text(before)
    os.utime(settings, (time.time() + 10, time.time() + 10))

    assert 400 <= spoiled < 600
    assert ".ralph.toml" in told["detail"]
    assert served.get("/api/status")[0] == 200


def test_many_ask_at_once_and_each_gets_an_answer(served: Served) -> None:
    with ThreadPoolExecutor(40) as pool:
        answers = list(pool.map(lambda _: served.get("/api/status")[0], range(200)))

    assert answers == [200] * 200


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    """Return a server of this test alone, because it is stopped."""
    one = Postgres()
    one.run("CREATE DATABASE away")
    yield one
    one.remove()


@pytest.mark.postgres
@pytest.mark.own_store
def test_a_database_that_is_away_is_said_in_a_sentence_and_may_come_back(tmp_path: Path, postgres: Postgres) -> None:
    init_project(tmp_path, url=postgres.url("away"), name="p")
    with ServedApart(tmp_path) as server:
        assert server.get("/api/status")[0] == 200

        postgres.stop(at_once=True)
        answers = [server.ask("GET", path) for path in ("/api/status", "/api/status", "/")]
        postgres.start()
        later = [server.get(path)[0] for path in ("/api/status", "/", "/api/tasks")]
        _, printed = server.end()

    assert [said.status for said in answers] == [503, 503, 503]
    assert all("\n" not in said.json["detail"] for said in answers[:2])
    assert answers[2].kind == "text/html"
    assert later == [200, 200, 200]
    assert "Traceback" not in printed
