"""Vector search for the hooks and short commands of a project, by a process that runs anyway and has the model loaded.

The MCP server of a session answers on a Unix socket in the state directory, which only this user can open. Of several
sessions, one does; when it ends, another takes over. It also computes the vectors of what sessions learn.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import contextmanager, suppress
from stat import S_ISSOCK
from time import monotonic

from ralph.core.errors import RalphError
from ralph.memory.recall.nearest import (
    MALFORMED,
    MAX_TEXT_CHARACTERS,
    file_number,
    is_own_folder,
    is_own_peer,
    project_key,
    receive,
    socket_path,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from socket import socket

    from ralph.store import Store

START_SECONDS = 3.0
"""Delay before anything is loaded, in seconds: the agent starts at the same time."""
RETRY_SECONDS = 60.0
"""Time after which a process tries again to open the project, in seconds."""
TAKEOVER_SECONDS = 5.0
"""Time after which a process tries again to be the one that answers, in seconds."""
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
        """Answer requests while no other process does, until this one ends or the database is replaced."""
        path = socket_path(store)
        while path and not self._ended.is_set() and socket_path(store) == path:
            with suppress(OSError), _listen(path) as (listener, inode):
                self._answer_requests(store, listener, lambda: (socket_path(store), file_number(path)) == (path, inode))
            store.database.release_connection()
            self._ended.wait(TAKEOVER_SECONDS)

    def _answer_requests(self, store: Store, listener: socket, is_reachable: Callable[[], bool]) -> None:
        from ralph.memory.recall.vector_search import EmbeddingThread, search_vectors

        search_vectors(store, "start", ())  # loads the model
        listener.settimeout(ACCEPT_SECONDS)
        with EmbeddingThread(store.reopen, is_enabled=True, interval=EMBED_SECONDS, batch=EMBED_BATCH):
            while not self._ended.is_set() and is_reachable():
                with suppress(TimeoutError):
                    connection, _ = listener.accept()
                    _answer(connection, store)


@contextmanager
def _listen(path: str) -> Iterator[tuple[socket, int]]:
    """Listen on a socket at a path and yield it with its inode; raise an OSError if another process does.

    Only who holds the lock beside it creates or removes the socket. The lock ends with its process; its file stays.
    """
    import fcntl
    from socket import AF_UNIX, SOCK_STREAM, socket

    folder = os.path.dirname(path)  # noqa: PTH120
    os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
    if not is_own_folder(folder):
        raise PermissionError(folder)
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    with open(lock, "rb"), socket(AF_UNIX, SOCK_STREAM) as listener:  # noqa: PTH123
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with suppress(FileNotFoundError):
            if S_ISSOCK(os.lstat(path).st_mode):
                os.unlink(path)  # noqa: PTH108  # of a process that was killed
        listener.bind(path)  # fails if anything but a socket is there
        inode = os.stat(path).st_ino  # noqa: PTH116
        try:
            os.chmod(path, 0o600)  # noqa: PTH101
            listener.listen(BACKLOG)
            yield listener, inode
        finally:
            if file_number(path) == inode:  # may be of another one if somebody deleted both files
                os.unlink(path)  # noqa: PTH108


def _answer(connection: socket, store: Store) -> None:
    """Answer one request; one that makes no sense, or is about another project, gets no answer."""
    from ralph.memory.recall.vector_search import search_vectors

    with connection, suppress(OSError, *MALFORMED):
        if not is_own_peer(connection):
            return
        asked = json.loads(receive(connection, MAX_REQUEST_BYTES, monotonic() + REQUEST_SECONDS))
        if asked["project"] != project_key(store):
            return
        index = "episode" if asked["index"] == "episode" else "memory"
        similar = search_vectors(store, str(asked["text"]), [int(seq) for seq in asked["seqs"]], index)
        answer = [(seq, round(amount, 4), round(cosine, 4)) for seq, (amount, cosine) in similar.items()]
        connection.settimeout(REQUEST_SECONDS)
        connection.sendall(json.dumps(answer).encode())
