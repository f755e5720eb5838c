"""Vector search for the hooks and short commands of a project, by a process that runs anyway and has the model loaded.

The MCP server of a session answers on a Unix socket in the state directory, which only this user can open. Of several
sessions, one does; when it ends, another takes over. It also computes the vectors of what sessions learn.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress

from ralph.core.errors import RalphError
from ralph.memory.recall.nearest import MAX_TEXT_CHARACTERS, project_key, socket_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket

    from ralph.store import Store

START_SECONDS = 3.0
"""Delay before anything is loaded, in seconds: the agent starts at the same time."""
RETRY_SECONDS = 60.0
"""Time after which a process tries again to be the one that answers, and to open the project, in seconds."""
EMBED_SECONDS, EMBED_BATCH = 30.0, 50
"""Time between two looks for texts without a vector, in seconds, and how many are computed then, about 2 s of CPU."""
ACCEPT_SECONDS = 0.5
"""Time between two looks whether the process ends, in seconds."""
REQUEST_SECONDS = 1.0
"""Time a request may take to arrive and an answer to leave, in seconds."""
MAX_REQUEST_BYTES = 8 * MAX_TEXT_CHARACTERS + 10_000
BACKLOG = 8


class VectorServer:
    """Thread that answers vector searches of other processes of this user."""

    def __init__(self, open_store: Callable[[], Store | None]) -> None:
        """`open_store` opens the store for this thread; None if recall by meaning is switched off."""
        self._open_store = open_store
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ralph-vectors", daemon=True)

    def __enter__(self) -> VectorServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(REQUEST_SECONDS)

    def _run(self) -> None:
        if self._ended.wait(START_SECONDS):
            return
        import socket

        from ralph.memory.recall.embeddings import is_installed

        if not hasattr(socket, "AF_UNIX") or not is_installed():
            return
        while not self._ended.is_set():
            try:
                store = self._open_store()
                if store is None:
                    return
                try:
                    self._serve(store)
                finally:
                    store.close()
            except (RalphError, OSError):
                pass  # the session reports errors of the store itself
            self._ended.wait(RETRY_SECONDS)

    def _serve(self, store: Store) -> None:
        """Answer requests until the process ends or the database is replaced; return if another process does."""
        from ralph.memory.recall.vector_search import EmbeddingThread, search_vectors

        path = socket_path(store)
        listener = _listen(path) if path else None
        if listener is None:
            return
        search_vectors(store, "start", ())  # loads the model
        embedding = EmbeddingThread(store.reopen, is_enabled=True, interval=EMBED_SECONDS, batch=EMBED_BATCH)
        with listener, embedding:
            listener.settimeout(ACCEPT_SECONDS)
            try:
                while not self._ended.is_set() and socket_path(store) == path:
                    with suppress(TimeoutError):
                        connection, _ = listener.accept()
                        _answer(connection, store)
            finally:
                with suppress(OSError):
                    os.unlink(path)  # noqa: PTH108


def _listen(path: str) -> socket | None:
    """Return a socket that listens at a path, or None if another process does."""
    from socket import AF_UNIX, SOCK_STREAM, socket

    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120
    with socket(AF_UNIX, SOCK_STREAM) as other:
        try:
            other.connect(path)
            return None
        except FileNotFoundError:
            pass
        except OSError:
            os.unlink(path)  # noqa: PTH108  # of a process that was killed
    listener = socket(AF_UNIX, SOCK_STREAM)
    try:
        listener.bind(path)
        os.chmod(path, 0o600)  # noqa: PTH101
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _answer(connection: socket, store: Store) -> None:
    """Answer one request; one that makes no sense, or is about another project, gets no answer."""
    from ralph.memory.recall.vector_search import search_vectors

    with connection, suppress(OSError, ValueError, TypeError, KeyError):
        connection.settimeout(REQUEST_SECONDS)
        request = b""
        while not request.endswith(b"\n") and (part := connection.recv(MAX_REQUEST_BYTES)):
            request += part
            if len(request) > MAX_REQUEST_BYTES:
                return
        asked = json.loads(request)
        if asked["project"] != project_key(store):
            return
        index = "episode" if asked["index"] == "episode" else "memory"
        similar = search_vectors(store, str(asked["text"]), [int(seq) for seq in asked["seqs"]], index)
        answer = [(seq, round(amount, 4), round(cosine, 4)) for seq, (amount, cosine) in similar.items()]
        connection.sendall(json.dumps(answer).encode())
