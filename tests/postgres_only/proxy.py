"""A way to a server that can be cut at chosen moments."""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable
from enum import StrEnum

_ABORT = struct.pack("ii", 1, 0)
_CHUNK = 1 << 16
_LATE_SECONDS = 0.5


class Cut(StrEnum):
    """When the way is cut."""

    BEFORE = "before the server gets it"
    AFTER = "after the server did it, before the answer arrives"
    LATE = "after the server did it, and nothing was heard for a while"


class Proxy:
    """Hands on what clients and a server say; `cut_at` says at which of the clients' messages the way is cut."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self.cut_at: Callable[[bytes], Cut | None] = lambda said: None
        self.cuts: list[Cut] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_next(self, sign: bytes, *hows: Cut) -> None:
        """Cut the way at the next messages that hold a sign, in these ways one after the other."""
        left = list(hows)
        self.cut_at = lambda said: left.pop(0) if sign in said and left else None

    def cut_some(self, sign: bytes, plan: Iterable[Cut | None]) -> None:
        """Cut the way at messages that hold a sign as a plan says."""
        following = iter(plan)
        self.cut_at = lambda said: next(following, None) if sign in said else None

    def close(self) -> None:
        """Let nobody in any more."""
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._hand_on, args=(client,), daemon=True).start()

    def _hand_on(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self._server_port))
        except OSError:
            _reset(client)
            return
        with client, server:
            try:
                while True:
                    ready, _, _ = select.select([client, server], [], [])
                    for one in ready:
                        said = one.recv(_CHUNK)
                        if not said:
                            return
                        if one is server:
                            client.sendall(said)
                        elif not self._pass(said, client, server):
                            return
            except OSError:
                _reset(client)

    def _pass(self, said: bytes, client: socket.socket, server: socket.socket) -> bool:
        with self._lock:
            cut = self.cut_at(said)
            if cut:
                self.cuts.append(cut)
        if cut is not Cut.BEFORE:
            server.sendall(said)
        if cut in (Cut.AFTER, Cut.LATE):
            server.recv(_CHUNK)
        if cut is Cut.LATE:
            time.sleep(_LATE_SECONDS)
        if cut:
            _reset(client)
        return not cut


def _reset(one: socket.socket) -> None:
    """End a connection as a machine that has gone does: without a word, and what is on its way is lost."""
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
    one.close()
