"""Vector search by a process that has the model loaded, over real sockets and the real model."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType

import pytest

from ralph.core.records import now
from ralph.memory.recall import embeddings, nearest, vector_search, vector_server
from ralph.memory.recall.candidates import rank_memories, recall_memories
from ralph.memory.recall.nearest import find_similar, socket_path
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
        b'{"text": "x", "seqs": 7, "index": ""}\n',
    ],
)
def test_a_request_that_makes_no_sense_gets_no_answer_and_the_next_one_does(filled: Store, request_: bytes) -> None:
    with serving(filled):
        wait_for_server(filled)
        with socket.socket(socket.AF_UNIX) as other:
            other.connect(socket_path(filled))
            other.sendall(request_)
            other.shutdown(socket.SHUT_WR)
            assert other.recv(100) == b""

        assert find_similar(filled, ASKED, (), may_load=False)


def test_who_does_not_answer_in_time_is_not_waited_for(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest, "ANSWER_SECONDS", 0.01)
    path = Path(socket_path(filled))
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen()
        try:
            assert find_similar(filled, ASKED, (), may_load=False) == {}
            assert find_similar(filled, ASKED, ())  # loads the model itself
        finally:
            path.unlink()


def test_one_of_several_answers_and_the_socket_of_a_killed_one_is_replaced(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_server, "RETRY_SECONDS", 0.05)
    path = Path(socket_path(filled))
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
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
