"""Requests from inside a session are those of an agent; tests/loop/test_session_boundary.py sends some from there."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ralph.core.actor import UNKNOWN_CLIENT
from ralph.core.ancestry import MARK_RESOURCE, LoopSession, enclosing_sessions
from ralph.core.errors import UsageError
from ralph.web import peers
from ralph.web.peers import peer_agent

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sockets are found in /proc")

Connection = tuple[socket.socket, socket.socket]


@pytest.fixture(params=["127.0.0.1", "::1"])
def connection(request: pytest.FixtureRequest) -> Iterator[Connection]:
    """Return the client's and the server's end of a connection."""
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    with (
        socket.create_server((request.param, 0), family=family) as listening,
        socket.create_connection(listening.getsockname()[:2]) as client,
        listening.accept()[0] as server,
    ):
        yield client, server


def agent(server: socket.socket) -> object:
    return peer_agent("/nowhere", server.getpeername()[:2], server.getsockname()[:2])


def test_a_client_outside_of_all_sessions_is_no_agent(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    assert agent(connection[1]) is None or enclosing_sessions()
    monkeypatch.setattr(peers, "find_session_processes", lambda: [1])
    monkeypatch.setattr(peers, "_holds", lambda pid, inode: pid == os.getpid())

    assert agent(connection[1]) is None


def test_a_client_inside_a_session_is_an_agent(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "find_session_processes", lambda: [os.getpid()])
    monkeypatch.setattr(peers, "sessions_or_mark", lambda pid: (LoopSession(variables={"RALPH_SESSION": "s-1"}),))

    found = agent(connection[1])

    assert getattr(found, "session", None) == "s-1"


@pytest.mark.parametrize("is_readable", [True, False])
def test_a_client_inside_a_session_is_an_agent_as_another_user_as_well(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, is_readable: bool
) -> None:
    monkeypatch.setattr(peers, "find_session_processes", lambda: [os.getpid()])
    monkeypatch.setattr(peers, "sessions_or_mark", lambda pid: (LoopSession(variables={"RALPH_SESSION": "s-1"}),))
    monkeypatch.setattr(peers, "_holds", lambda pid, inode: True if is_readable else None)
    for name in ("geteuid", "getuid"):
        monkeypatch.setattr(os, name, lambda: 4_711)

    assert getattr(agent(connection[1]), "session", None) == "s-1"


def test_a_client_that_has_outlived_its_guard_is_an_agent(connection: Connection) -> None:
    mark = f"import resource; resource.setrlimit({MARK_RESOURCE}, (1 << 40, 1 << 40)); print(flush=True); input()"
    client, server = connection
    with subprocess.Popen(
        [sys.executable, "-c", mark],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=(client.fileno(),),
    ) as program:
        assert program.stdout is not None
        program.stdout.readline()
        address = server.getpeername()[:2], server.getsockname()[:2]
        client.close()

        found = peer_agent("/nowhere", *address)
        program.communicate(b"\n")

    assert found is not None
    assert found.is_loop_session


def test_a_socket_that_nobody_holds_is_an_agents(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "find_session_processes", lambda: [1])
    monkeypatch.setattr(peers, "_holds", lambda pid, inode: False)

    assert agent(connection[1]) == UNKNOWN_CLIENT


def test_a_socket_that_may_be_in_an_unreadable_process_is_an_agents(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "find_session_processes", lambda: [1])
    monkeypatch.setattr(peers, "_holds", lambda pid, inode: False if pid == 1 else None)

    found = agent(connection[1])

    assert found == UNKNOWN_CLIENT
    with pytest.raises(UsageError, match="retry when the run has ended"):
        UNKNOWN_CLIENT.require("task.done")


@pytest.mark.parametrize("is_inside", [True, False])
def test_an_ipv6_socket_with_another_address_of_this_machine_is_found(
    monkeypatch: pytest.MonkeyPatch, is_inside: bool
) -> None:
    monkeypatch.setattr(peers, "find_session_processes", lambda: [os.getpid() if is_inside else 1])
    monkeypatch.setattr(peers, "sessions_or_mark", lambda pid: (LoopSession(variables={"RALPH_SESSION": "s-1"}),))
    monkeypatch.setattr(peers, "_holds", lambda pid, inode: pid == os.getpid())
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket(socket.AF_INET6) as client:
        client.bind((f"::ffff:{own_address()}", 0))
        client.connect(("::ffff:127.0.0.1", listening.getsockname()[1]))
        with listening.accept()[0] as server:
            found = agent(server)

    assert getattr(found, "session", None) == ("s-1" if is_inside else None)


def own_address() -> str:
    """Return an address of this machine, not a loopback one if there is another."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return "127.0.0.2"
        return str(probe.getsockname()[0])


def test_a_client_without_a_socket_is_an_agent_if_no_other_machine_could_be_it() -> None:
    own = own_address()

    assert peer_agent("/nowhere", ("192.0.2.7", 5000), ("127.0.0.1", 8420)) == UNKNOWN_CLIENT
    assert peer_agent("/nowhere", (own, 1), (own, 8420)) == UNKNOWN_CLIENT
    assert peer_agent("/nowhere", (f"::ffff:{own}", 1), ("192.0.2.1", 8420)) == UNKNOWN_CLIENT


def test_a_client_that_has_gone_is_an_agent(connection: Connection) -> None:
    client, server = connection
    addresses = server.getpeername()[:2], server.getsockname()[:2]

    client.close()
    assert peer_agent("/nowhere", *addresses) == UNKNOWN_CLIENT


def test_a_client_that_has_reset_its_connection_is_an_agent(connection: Connection) -> None:
    client, server = connection
    addresses = server.getpeername()[:2], server.getsockname()[:2]

    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    assert peer_agent("/nowhere", *addresses) == UNKNOWN_CLIENT


def test_another_machine_is_no_agent() -> None:
    assert peer_agent("/nowhere", ("192.0.2.7", 5000), ("192.0.2.1", 8420)) is None
