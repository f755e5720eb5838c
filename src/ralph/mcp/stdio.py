"""Serve over standard input and output: one JSON-RPC message a line, until the input ends.

Reading goes on while a call is being worked on, so that a ping is answered and a call that waits can be cancelled. The
work itself is done in the main thread, where Ctrl+C arrives and where a fault of ours is seen.
"""

from __future__ import annotations

import os
import sys

from ralph.mcp.protocol import CANCELLED, INVALID_REQUEST, Fault, answer, fault_answer, read, request_id, write
from ralph.opened import Opened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ralph.mcp.protocol import Answer

LONGEST_LINE = 8_000_000
"""Bytes. More than any argument may have, so that what is too long is said of the argument, in answer to its call."""
READ_AT_ONCE = 65_536
IDLE_SECONDS = 60.0


def serve(directory: str) -> None:
    """Answer the messages that come in until there are no more."""
    into, out = _own_streams()
    Line(Opened(directory), into, out).serve()


def _own_streams() -> tuple[int, int]:
    """Take standard input and output for the protocol alone: what else is printed goes to standard error."""
    sys.stdout.flush()
    into, out = os.dup(sys.stdin.fileno()), os.dup(sys.stdout.fileno())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return into, out


class Line:
    """One client at the other end of two pipes."""

    def __init__(self, opened: Opened, into: int, out: int) -> None:
        from queue import SimpleQueue
        from threading import Lock

        self._opened = opened
        self._into = into
        self._out = out
        self._lock = Lock()
        self._waiting: SimpleQueue[object] = SimpleQueue()
        self._asked: set[object] = set()
        """Ids of the requests that are not answered yet."""
        self._cancelled: set[object] = set()
        """Those of them that nobody wants answered any more."""

    def serve(self) -> None:
        """Answer all messages, then let go of the project."""
        from threading import Thread

        # As a daemon, or Ctrl+C would wait for the next line.
        Thread(target=self._listen, name="mcp input", daemon=True).start()
        try:
            while (message := self._next()) is not None:
                self._work(message)
        finally:
            self._opened.close()

    def _next(self) -> object:
        """Give the next message; while none comes for long, what others could use is let go of."""
        from queue import Empty

        try:
            return self._waiting.get(timeout=IDLE_SECONDS)
        except Empty:
            self._opened.rest()
            return self._waiting.get()

    def _work(self, message: object) -> None:
        id = request_id(message)
        found = None if id in self._cancelled else answer(message, self._opened)
        with self._lock:
            is_wanted = id not in self._cancelled
            self._cancelled.discard(id)
            self._asked.discard(id)
        if is_wanted:
            self._send(found)

    def _send(self, found: Answer) -> None:
        if found is None:
            return
        line = memoryview(write(found))
        with self._lock:
            while line:
                line = line[os.write(self._out, line) :]

    # --- in the thread that reads ---------------------------------------------------------

    def _listen(self) -> None:
        try:
            for line in self._lines():
                self._take(line)
        except OSError:
            pass  # whoever talked to us has gone
        finally:
            self._waiting.put(None)

    def _lines(self) -> Iterator[bytes]:
        """Yield the lines that come in; of one that is too long nothing is kept, but it is answered."""
        kept = bytearray()
        is_too_long = False
        while chunk := os.read(self._into, READ_AT_ONCE):
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                if is_too_long or len(kept) + len(end) > LONGEST_LINE:
                    self._refuse_long()
                else:
                    yield bytes(kept) + end
                kept, is_too_long = bytearray(), False
            kept += rest
            if is_too_long or len(kept) > LONGEST_LINE:
                kept, is_too_long = bytearray(), True
        if is_too_long:
            self._refuse_long()
        yield bytes(kept)

    def _refuse_long(self) -> None:
        self._send(fault_answer(Fault(INVALID_REQUEST, f"A message may have {LONGEST_LINE:,} bytes.")))

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            message = read(line)
        except Fault as fault:
            self._send(fault_answer(fault))
            return
        method = message.get("method") if isinstance(message, dict) else None
        if method == CANCELLED:
            self._cancel(message)
        elif method == "ping" or message is None:  # which would be taken for the end
            self._send(answer(message, self._opened))
        else:
            if (id := request_id(message)) is not None:
                self._asked.add(id)
            self._waiting.put(message)

    def _cancel(self, message: object) -> None:
        params = message.get("params") if isinstance(message, dict) else None
        id = request_id({"id": params.get("requestId")}) if isinstance(params, dict) else None
        with self._lock:
            if id is not None and id in self._asked:
                self._cancelled.add(id)
