"""Vector search by a process that has the model loaded, over real sockets and the real model."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from ralph.core.records import now
from ralph.memory.recall import embeddings, nearest, vector_search, vector_server
from ralph.memory.recall.candidates import rank_memories, recall_memories
from ralph.memory.recall.nearest import find_similar, project_key, socket_path
from ralph.memory.recall.query import RecallContext
from ralph.memory.recall.vector_server import VectorServer
from ralph.store import Store
from tests.make import a_memory, remember
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(not embeddings.is_installed(), reason="no embedding model installed")

TEXTS = (
    "The login form drops the session when cookies are blocked",
    "Money is rounded half up to cents",
    "Photos are scaled down before they are sent",
)
ASKED = RecallContext(title="users get signed out all the time", at=now())


@pytest.fixture
def filled(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Return a store with vectors, in a process that has not loaded the model but for the server."""
    for n, text in enumerate(TEXTS):
        remember(store, a_memory(f"Note {n}", text, id=f"mem-1-{n:04}", tags=()))
    vector_search.embed_missing(store)
    monkeypatch.setattr(vector_server, "START_SECONDS", 0.0)
    monkeypatch.setattr(nearest, "ANSWER_SECONDS", 60.0)
    monkeypatch.setattr(nearest, "_has_model", lambda: False)
    yield store
    wait_until(lambda: not Path(socket_path(store)).exists())


def serving(store: Store) -> VectorServer:
    return VectorServer(store.reopen)


def wait_for_server(store: Store) -> None:
    wait_until(lambda: find_similar(store, ASKED, (), may_load=False))


def socket_file(store: Store) -> Path:
    """Return the path of the socket, in a folder that exists."""
    path = Path(socket_path(store))
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


@contextmanager
def answering(store: Store, answer: Callable[[socket.socket], object]) -> Iterator[None]:
    """Listen where the server would, and hand over the first connection."""
    path = socket_file(store)

    def accept() -> None:
        connection, _ = listener.accept()
        with connection:
            answer(connection)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        threading.Thread(target=accept, daemon=True).start()
        try:
            yield
        finally:
            path.unlink()


def drip(connection: socket.socket) -> bool:
    """Send a byte at a time, 10 s long; return whether the other side puts an end to it."""
    pause = threading.Event()
    try:
        for _ in range(500):
            connection.send(b" ")
            pause.wait(0.02)
    except OSError:
        return True
    return False


def ask(store: Store, request: bytes) -> bytes:
    """Return what the server sends when asked, KEY being that of the project."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(socket_path(store))
        try:
            connection.sendall(request.replace(b"KEY", json.dumps(project_key(store)).encode()))
            connection.shutdown(socket.SHUT_WR)
            return connection.recv(100)
        except (BrokenPipeError, ConnectionResetError):  # closed before all was read
            return b""


def test_a_module_that_another_thread_is_importing_has_no_model_yet(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = vector_search.__name__
    monkeypatch.setitem(sys.modules, name, ModuleType(name))  # as in the middle of its import

    assert find_similar(store, ASKED, (), may_load=False) == {}


def test_who_may_not_load_the_model_asks_who_has_it(filled: Store) -> None:
    assert find_similar(filled, ASKED, (), may_load=False) == {}

    with serving(filled):
        wait_for_server(filled)
        answer = find_similar(filled, ASKED, (), may_load=False)
        ranked = rank_memories(filled, ASKED, by_meaning=True, may_load=False)
        shown = recall_memories(filled, ASKED, by_meaning=True, may_load=False).shown

    own = vector_search.search_vectors(filled, ASKED.title, ())
    assert {seq: pytest.approx(figures, abs=1e-3) for seq, figures in own.items()} == answer
    assert ranked[0].row["body"] == TEXTS[0]
    assert [one.memory.content for one in shown] == [TEXTS[0]]
    assert find_similar(filled, ASKED, (), may_load=False) == {}


def test_nobody_else_can_open_the_socket(filled: Store) -> None:
    with serving(filled):
        wait_for_server(filled)
        path = Path(socket_path(filled))

        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "request_",
    [
        b"",
        b"\n",
        b"{}\n",
        b"no json\n",
        b'{"project": "another", "text": "x", "seqs": [], "index": ""}\n',
        b'{"project": KEY, "text": "x", "seqs": 7, "index": ""}\n',
        b'{"project": KEY, "text": "x", "seqs": [Infinity], "index": ""}\n',
        b"[" * 20_000 + b"\n",
        b" " * vector_server.MAX_REQUEST_BYTES + b'{"project": KEY, "text": "x", "seqs": [], "index": ""}\n',
    ],
)
def test_a_request_that_makes_no_sense_gets_no_answer_and_the_next_one_does(filled: Store, request_: bytes) -> None:
    with serving(filled):
        wait_for_server(filled)
        assert ask(filled, request_) == b""

        assert find_similar(filled, ASKED, (), may_load=False)


def test_a_request_that_does_not_end_is_cut_off(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(filled):
        wait_for_server(filled)
        monkeypatch.setattr(vector_server, "REQUEST_SECONDS", 0.1)
        with socket.socket(socket.AF_UNIX) as other:
            other.connect(socket_path(filled))
            assert drip(other)


def test_who_does_not_answer_in_time_is_not_waited_for(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest, "ANSWER_SECONDS", 0.01)

    def keep_silent(connection: socket.socket) -> None:
        while connection.recv(100):
            pass

    with answering(filled, keep_silent):
        assert find_similar(filled, ASKED, (), may_load=False) == {}
        assert find_similar(filled, ASKED, ())  # loads the model itself


def test_an_answer_that_does_not_end_is_not_waited_for(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest, "ANSWER_SECONDS", 0.1)
    cut_off: list[bool] = []
    with answering(filled, lambda connection: cut_off.append(drip(connection))):
        assert find_similar(filled, ASKED, (), may_load=False) == {}

    wait_until(lambda: cut_off)
    assert cut_off == [True]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"5",
        b"null",
        b"\xff",
        b'{"a": 1}',
        b"[[1, 1",
        b"[" * 50_000,
        b" " * nearest.MAX_ANSWER_BYTES + b"[[1, 1, 1]]",
        b"[[Infinity, 1, 1]]",
        b"[[9223372036854775808, 1, 1]]",  # more than a database takes
        b"[[1, NaN, 1]]",
        b"[[1, 1, 1e999]]",
    ],
)
def test_an_answer_that_makes_no_sense_is_none(filled: Store, answer: bytes) -> None:
    def reply(connection: socket.socket) -> None:
        connection.recv(100_000)
        connection.sendall(answer)

    with answering(filled, reply):
        found = find_similar(filled, ASKED, ())  # loads the model itself

    assert found == vector_search.search_vectors(filled, ASKED.title, ())


def test_processes_of_other_users_are_neither_asked_nor_answered(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux tells the user of a process")
    request = b'{"project": KEY, "text": "x", "seqs": [], "index": ""}\n'
    monkeypatch.setattr(nearest, "is_own_folder", lambda _: True)
    received: list[bytes] = []
    with serving(filled):
        wait_for_server(filled)
        assert ask(filled, request) != b""
        with monkeypatch.context() as other_user:
            other_user.setattr(os, "geteuid", lambda: os.getuid() + 1)
            assert ask(filled, request) == b""
    wait_until(lambda: not Path(socket_path(filled)).exists())

    with answering(filled, lambda connection: received.append(connection.recv(100))):
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert find_similar(filled, ASKED, (), may_load=False) == {}
        wait_until(lambda: received)
    assert received == [b""]


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o700])
def test_a_folder_that_is_not_of_this_user_alone_is_not_used(
    filled: Store, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    path = socket_file(filled)
    received: list[bytes] = []
    path.parent.chmod(mode)
    if mode == 0o700:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        monkeypatch.setattr(nearest, "is_own_peer", lambda _: True)
    try:
        with pytest.raises(PermissionError), vector_server._listen(str(path)):
            pass
        with answering(filled, lambda connection: received.append(connection.recv(100))):
            assert find_similar(filled, ASKED, (), may_load=False) == {}
            wait_until(lambda: received)
    finally:
        path.parent.chmod(0o700)

    assert received == [b""]


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_what_is_no_socket_is_left_alone(filled: Store, tmp_path: Path, kind: str) -> None:
    path = socket_file(filled)
    (tmp_path / "precious").write_text("precious")
    if kind == "file":
        path.write_text("precious")
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "precious")
    before = path.lstat()

    with pytest.raises(OSError), vector_server._listen(str(path)):
        pass
    assert find_similar(filled, ASKED, (), may_load=False) == {}

    assert path.lstat() == before
    assert kind == "folder" or path.read_text() == "precious"
    path.rmdir() if kind == "folder" else path.unlink()


def test_one_of_several_answers_and_the_socket_of_a_killed_one_is_replaced(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_server, "TAKEOVER_SECONDS", 0.05)
    path = socket_file(filled)
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))  # and nobody listens

    def serving_threads() -> int:
        return sum(one.name == "embedding" for one in threading.enumerate())

    with ExitStack() as first:
        first.enter_context(serving(filled))
        wait_for_server(filled)
        with serving(filled):
            assert serving_threads() == 1
            first.close()
            wait_for_server(filled)
            assert serving_threads() == 1


@pytest.mark.parametrize("is_stale", [True, False])
def test_of_those_that_start_at_the_same_time_one_listens(filled: Store, is_stale: bool) -> None:
    path = socket_file(filled)
    outcomes: Counter[str] = Counter()

    def start() -> None:
        ready.wait()
        try:
            with vector_server._listen(str(path)):
                outcomes["listens"] += 1
                ended.wait()
        except BlockingIOError:
            outcomes["another does"] += 1
        except OSError as error:
            outcomes[repr(error)] += 1

    for _ in range(20):
        outcomes.clear()
        if is_stale:
            with socket.socket(socket.AF_UNIX) as killed:
                killed.bind(str(path))
        ready, ended = threading.Barrier(4), threading.Event()
        threads = [threading.Thread(target=start) for _ in range(4)]
        for thread in threads:
            thread.start()
        wait_until(lambda: outcomes.total() == 4)
        ended.set()
        for thread in threads:
            thread.join()
        assert outcomes == {"listens": 1, "another does": 3}


def test_a_deleted_socket_comes_back(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_server, "TAKEOVER_SECONDS", 0.05)
    with serving(filled):
        wait_for_server(filled)

        Path(socket_path(filled)).unlink()

        wait_for_server(filled)


def test_the_socket_of_another_is_not_deleted(filled: Store) -> None:
    path = socket_file(filled)
    with ExitStack() as first, ExitStack() as second:
        first.enter_context(vector_server._listen(str(path)))
        path.unlink()
        Path(f"{path}.lock").unlink()
        _, inode = second.enter_context(vector_server._listen(str(path)))

        first.close()

        assert path.stat().st_ino == inode


def test_what_a_session_learns_gets_a_vector(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_search, "FIRST_PASS_SECONDS", 0.0)
    monkeypatch.setattr(vector_server, "EMBED_SECONDS", 0.05)
    with serving(filled):
        wait_for_server(filled)
        remember(filled, a_memory("Note 9", "Invoices are printed on A4", id="mem-1-0009", tags=()))
        seq = filled.memories.index.seqs_by_id(["mem-1-0009"])["mem-1-0009"]
        bills = RecallContext(title="paper size of bills", at=now())

        wait_until(lambda: seq in find_similar(filled, bills, (), may_load=False))


def test_no_server_where_recall_by_meaning_is_switched_off(filled: Store) -> None:
    with VectorServer(lambda: None) as server:
        wait_until(lambda: not server._thread.is_alive())

    assert not Path(socket_path(filled)).exists()
