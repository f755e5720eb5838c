"""First-in, first-out queue of the writers of a database file.

There are two locks: the turn, and the place right behind it. A writer that ends its turn finds that place taken and
queues behind all others; with a single lock it would win it again before the next waiter wakes up. The kernel grants
locks in the order of the requests, also to a suspended process: so a writer that sees no progress for a while skips the
queue and relies on SQLite's lock. A writer that asks exactly when the place changes hands can still overtake one.
"""

from __future__ import annotations

import _thread
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

LOCK_SUFFIX = ".lock"
"""Suffix of the lock files that writers queue at."""
STALL_SECONDS = 0.5
"""Time without a write after which the holder of the turn is considered stuck, in seconds."""
OUT_OF_TURN = b"aside"
"""Marks a write by a writer that skipped the queue, which is no progress of the queue."""
RECORD_BYTES = 120
"""Size of the record in the lock file, in bytes. Older versions wrote up to this many."""


class WriterQueue:
    """One thread's place in the queue of a database file."""

    def __init__(self, path: str) -> None:
        """Raise `ImportError` on a system without these locks."""
        import fcntl  # noqa: F401

        self._path = path
        self._files: tuple[int, int] | None = None
        self._abandoned: _Waiter | None = None

    def acquire(self, seconds: float) -> bool:
        """Wait for the turn; return False on timeout, or if its holder makes no progress."""
        if self._abandoned is not None and not self._abandoned.is_over:
            return False  # an abandoned request of this thread is still in the queue
        self._abandoned = None
        if self._files is None:
            self._files = _open(f"{self._path}.next{LOCK_SUFFIX}"), _open(f"{self._path}{LOCK_SUFFIX}")
        behind, turn = self._files
        missing = [behind, turn]
        try:
            while missing:
                _lock(missing[0], blocking=False)
                del missing[0]
        except BlockingIOError:
            try:
                waiting = _Waiter(self._files, missing)
            except RuntimeError:  # no more threads: rely on the busy timeout
                _unlock(behind)
                return False
            if not self._wait(waiting, time.monotonic() + seconds):
                return False
        _unlock(behind)
        return True

    def _wait(self, waiting: _Waiter, deadline: float) -> bool:
        """Wait for the turn while the writers in front make progress; return whether it was acquired."""
        is_acquired = False
        record = self._read_record()
        try:
            while not is_acquired and (left := deadline - time.monotonic()) > 0:
                is_acquired = waiting.acquire(min(left, STALL_SECONDS))
                before, record = record, self._read_record()
                if before == record or record.rstrip().endswith(OUT_OF_TURN):
                    break
        finally:
            if not is_acquired:
                is_acquired = not waiting.abandon()
                self._abandoned = None if is_acquired else waiting
        return is_acquired

    def record_progress(self) -> None:
        """Record the end of a transaction in the lock file, so that those who wait see progress."""
        if self._files is not None:
            aside = b"" if self._abandoned is None else OUT_OF_TURN
            _write(self._files[1], b"%d %s" % (time.monotonic_ns(), aside))

    def _read_record(self) -> bytes:
        assert self._files
        return _read(self._files[1])

    def release(self) -> None:
        """End the turn."""
        if self._files is not None and self._abandoned is None:
            _unlock(self._files[1])

    def close(self) -> None:
        """Leave the queue and close its files."""
        self.release()
        if self._abandoned is not None:
            self._abandoned.close()
        elif self._files is not None:
            _close(self._files)
        self._files = self._abandoned = None


class _Waiter:
    """Blocking lock request in a thread; an abandoned one keeps its place and releases the locks once it gets them."""

    def __init__(self, files: tuple[int, int], missing: Sequence[int]) -> None:
        self._files = files
        self._missing = missing
        self._acquired, self._mutex = _thread.allocate_lock(), _thread.allocate_lock()
        self._acquired.acquire()
        self._is_abandoned = self._is_closed = self.is_over = False
        _thread.start_new_thread(self._wait, ())

    def acquire(self, seconds: float) -> bool:
        """Wait up to `seconds` for the turn; return whether it was acquired."""
        return self._acquired.acquire(timeout=seconds)

    def abandon(self) -> bool:
        """Abandon the request, so that the next in the queue gets the turn; return False if it was acquired already."""
        with self._mutex:
            self._is_abandoned = not self._acquired.acquire(blocking=False)
            return self._is_abandoned

    def close(self) -> None:
        """Close the files, now or when the abandoned request ends."""
        with self._mutex:
            self._is_closed = True
            if self.is_over:
                _close(self._files)

    def _wait(self) -> None:
        for file in self._missing:
            _lock(file)
        with self._mutex:
            self._acquired.release()
            if not self._is_abandoned:
                return
            for file in reversed(self._files):
                _unlock(file)
            self.is_over = True
            if self._is_closed:
                _close(self._files)


def _lock(file: int, *, blocking: bool = True) -> None:
    import fcntl

    fcntl.flock(file, fcntl.LOCK_EX if blocking else fcntl.LOCK_EX | fcntl.LOCK_NB)


def _unlock(file: int) -> None:
    import fcntl

    fcntl.flock(file, fcntl.LOCK_UN)


def _open(path: str) -> int:
    """Open a lock file, without following a link or blocking on a pipe."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)


# The record is optional: if the lock file cannot be written or is not a regular file, the queue works without it.


def _read(file: int) -> bytes:
    try:
        return os.pread(file, 200, 0)
    except OSError:
        return b""


def _write(file: int, record: bytes) -> None:
    try:
        os.pwrite(file, record.ljust(RECORD_BYTES), 0)
    except OSError:
        pass


def _close(files: Sequence[int]) -> None:
    for file in files:
        os.close(file)
