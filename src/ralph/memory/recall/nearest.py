"""Which texts are similar to a query in meaning, and how similar, from this process or another one.

Loading the model takes 150 ms, which a hook or a short command does not have. A process that has it loaded, such as the
MCP server of a session, answers within about 20 ms; see `vector_server`. Where none does, recall goes by words alone.
"""

from __future__ import annotations

import os
import sys
from binascii import crc32  # not hashlib, which takes 4 ms to import
from time import monotonic

from ralph.core.files import state_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Iterable

    from ralph.memory.recall.query import RecallContext
    from ralph.store import Store

    Similarities = dict[int, tuple[float, float]]
    """Similarity by sequence number: relative to the other texts, and as a centered cosine."""

PROTOCOL = 1
"""Version of what is asked and answered; processes of another one do not find each other."""
ANSWER_SECONDS = 0.1
"""Time in which another process has to answer, in seconds. It takes a fifth of that."""
MAX_ANSWER_BYTES = 100_000
"""Maximum size of an answer, in bytes; one for 200 texts has 10,000."""
MAX_TEXT_CHARACTERS = 4_000
"""Length of a text that is sent, in characters: more of it than the model reads."""
MAX_SOCKET_PATH = 100
"""Length of the path of a socket that every system allows, in bytes."""
MALFORMED = (ValueError, TypeError, KeyError, OverflowError, RecursionError)
"""Errors that reading a request or an answer raises if it makes no sense."""


def find_similar(
    store: Store, context: RecallContext, seqs: Iterable[int], index: str = "memory", *, may_load: bool = True
) -> Similarities:
    """Return the similarity to a context of these memories, or episodes, and of the nearest ones.

    Unless `may_load`, the model is not loaded for that; another process may have it.
    """
    text = "\n".join(filter(None, (context.title, context.body, *context.errors)))
    if not text.strip():
        return {}
    if not _has_model():
        answer = _ask_other_process(store, text, seqs, index)
        if answer is not None or not may_load:
            return answer or {}
    from ralph.memory.recall.vector_search import search_vectors

    return search_vectors(store, text, seqs, index)


def _has_model() -> bool:
    module = sys.modules.get("ralph.memory.recall.vector_search")
    is_loaded = getattr(module, "is_encoder_loaded", None)  # not there yet while another thread imports the module
    return is_loaded is not None and bool(is_loaded())


def socket_path(store: Store) -> str:
    """Return the path of the socket on which the vectors of a project are searched; empty if there can be none."""
    path = f"{state_directory()}/vectors/{crc32(project_key(store).encode()):08x}.sock"
    return path if len(os.fsencode(path)) <= MAX_SOCKET_PATH else ""


def project_key(store: Store) -> str:
    """Return what tells a project of a database from others, and the database from one restored in its place."""
    url = store.database.display_url
    return f"{PROTOCOL}\n{url}\n{file_number(url)}\n{store.project_id}"


def file_number(path: str) -> int:
    """Return the inode of a database file, which differs after a restore; 0 for a server."""
    try:
        return os.stat(path).st_ino  # noqa: PTH116
    except OSError:
        return 0


def is_own_folder(path: str) -> bool:
    """Return whether a folder belongs to this user, and nobody else may write to it."""
    found = os.stat(path)  # noqa: PTH116
    return found.st_uid == os.geteuid() and not found.st_mode & 0o022


def is_own_peer(connection: socket) -> bool:
    """Return whether the process at the other end is of this user; only Linux tells."""
    if sys.platform != "linux":
        return True
    from _socket import SO_PEERCRED, SOL_SOCKET

    credentials = connection.getsockopt(SOL_SOCKET, SO_PEERCRED, 12)  # three integers: pid, uid and gid
    return int.from_bytes(credentials[4:8], sys.byteorder) == os.geteuid()


def receive(connection: socket, max_bytes: int, deadline: float) -> bytes:
    """Return what arrives until a line or the connection ends; raise if it is too much or not there in time."""
    received = b""
    while not received.endswith(b"\n"):
        seconds = deadline - monotonic()
        if seconds <= 0:
            raise TimeoutError
        connection.settimeout(seconds)
        part = connection.recv(max_bytes)
        if not part:
            break
        received += part
        if len(received) > max_bytes:
            raise ValueError
    return received


def _ask_other_process(store: Store, text: str, seqs: Iterable[int], index: str) -> Similarities | None:
    """Return the answer of a process that has the model; None if there is none that answers in time."""
    path = socket_path(store)
    if not path or not os.path.exists(path):  # noqa: PTH110
        return None
    import json

    # Not socket, which takes 5 ms to import.
    from _socket import AF_UNIX, SOCK_STREAM, socket

    request = {"project": project_key(store), "text": text[:MAX_TEXT_CHARACTERS], "seqs": list(seqs), "index": index}
    deadline = monotonic() + ANSWER_SECONDS
    connection = socket(AF_UNIX, SOCK_STREAM)
    try:
        connection.settimeout(ANSWER_SECONDS)
        connection.connect(path)
        if not is_own_folder(os.path.dirname(path)) or not is_own_peer(connection):  # noqa: PTH120
            return None
        connection.sendall(f"{json.dumps(request)}\n".encode())
        return _parse_answer(receive(connection, MAX_ANSWER_BYTES, deadline))
    except (OSError, *MALFORMED):
        return None
    finally:
        connection.close()


def _parse_answer(answer: bytes) -> Similarities:
    """Return the similarities of an answer; raise one of `MALFORMED` if it is anything else."""
    import json
    from math import isfinite

    similar = {int(seq): (float(amount), float(cosine)) for seq, amount, cosine in json.loads(answer)}
    if any(abs(seq) >= 2**63 or not isfinite(amount + cosine) for seq, (amount, cosine) in similar.items()):
        raise ValueError
    return similar
