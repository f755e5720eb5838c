"""The queue of those who write to a file: who came first goes first, and nobody waits for one that is stopped.

There are two locks, the turn and the place right behind it. Whoever ends its turn finds that place taken, and queues
behind all others; with one lock it would be quicker than those it has to wake. The system wakes in the order of asking,
also one that is stopped: so whoever sees nobody write for a while goes without a turn, and SQLite tells who may write.
Only who asks in the very moment in which the place changes hands can be quicker than the one that is just woken.
"""

from __future__ import annotations

import _thread
import fcntl
import os
import time

from ralph.store.sqlite import QUEUE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

STILL_SECONDS = 0.5
"""When nothing was written for so long, whoever has the turn is stopped, or at something large."""
ASIDE = b"aside"
"""Stands behind what was noted by one that went without a turn: the queue does not move by that."""
NOTE_BYTES = 120


class Queue:
    """A place in the queue of a file, for one thread."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._files: tuple[int, int] | None = None
        self._left: _Waiting | None = None

    def enter(self, seconds: float) -> bool:
        """Wait for the turn; False when it does not come for so long, or is held up by one that does nothing."""
        if self._left is not None and not self._left.is_over:
            return False  # still behind the one that was given up
        self._left = None
        if self._files is None:
            self._files = _open(f"{self._path}.next{QUEUE}"), _open(f"{self._path}{QUEUE}")
        behind, turn = self._files
        waits_for = [behind, turn]
        try:
            while waits_for:
                fcntl.flock(waits_for[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
                del waits_for[0]
        except BlockingIOError:
            try:
                waiting = _Waiting(self._files, waits_for)
            except RuntimeError:  # not one thread more: SQLite's own waiting has to do
                fcntl.flock(behind, fcntl.LOCK_UN)
                return False
            if not self._is_given(waiting, time.monotonic() + seconds):
                return False
        fcntl.flock(behind, fcntl.LOCK_UN)
        return True

    def _is_given(self, waiting: _Waiting, deadline: float) -> bool:
        """Wait as long as those before us write."""
        is_given = False
        noted = self._noted()
        try:
            while not is_given and (left := deadline - time.monotonic()) > 0:
                is_given = waiting.is_given(min(left, STILL_SECONDS))
                before, noted = noted, self._noted()
                if before == noted or noted.rstrip().endswith(ASIDE):
                    break
        finally:
            if not is_given:
                is_given = not waiting.is_left()
                self._left = None if is_given else waiting
        return is_given

    def note(self, noted: bytes) -> None:
        """Note the newest change beside the file. It is never ahead: what is noted is durable in the file."""
        if self._files is not None:
            aside = b"" if self._left is None else ASIDE
            _put(self._files[1], (noted + aside).ljust(NOTE_BYTES))

    def _noted(self) -> bytes:
        assert self._files
        return _beginning(self._files[1])

    def forget(self) -> None:
        """Forget what was noted: it is not of the file that is there now."""
        assert self._files
        _empty(self._files[1])

    def leave(self) -> None:
        """End the turn."""
        if self._files is not None and self._left is None:
            fcntl.flock(self._files[1], fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of the place."""
        self.leave()
        if self._left is not None:
            self._left.close()
        elif self._files is not None:
            _close(self._files)
        self._files = self._left = None


class _Waiting:
    """Somebody who waits in a thread: that alone can be left, and still be woken in its turn."""

    def __init__(self, files: tuple[int, int], waits_for: Sequence[int]) -> None:
        self._files = files
        self._waits_for = waits_for
        self._given, self._deciding = _thread.allocate_lock(), _thread.allocate_lock()
        self._given.acquire()
        self._is_left = self._is_closed = self.is_over = False
        _thread.start_new_thread(self._wait, ())

    def is_given(self, seconds: float) -> bool:
        """Wait so long for the turn."""
        return self._given.acquire(timeout=seconds)

    def is_left(self) -> bool:
        """Give the turn up, unless it has come; whoever is next gets it then."""
        with self._deciding:
            self._is_left = not self._given.acquire(blocking=False)
            return self._is_left

    def close(self) -> None:
        """Close the files as soon as nobody waits with them."""
        with self._deciding:
            self._is_closed = True
            if self.is_over:
                _close(self._files)

    def _wait(self) -> None:
        for file in self._waits_for:
            fcntl.flock(file, fcntl.LOCK_EX)
        with self._deciding:
            self._given.release()
            if not self._is_left:
                return
            for file in reversed(self._files):
                fcntl.flock(file, fcntl.LOCK_UN)
            self.is_over = True
            if self._is_closed:
                _close(self._files)


def _open(path: str) -> int:
    """Open a file to queue at; a link is not followed, wherever it leads, and a pipe not waited for."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)


# What is noted is a help, not needed: where it cannot be written, or is no plain file, things go on without.


def _beginning(file: int) -> bytes:
    try:
        return os.pread(file, 200, 0)
    except OSError:
        return b""


def _put(file: int, noted: bytes) -> None:
    try:
        os.pwrite(file, noted, 0)
    except OSError:
        pass


def _empty(file: int) -> None:
    try:
        os.ftruncate(file, 0)
    except OSError:
        pass


def _close(files: Sequence[int]) -> None:
    for file in files:
        os.close(file)
