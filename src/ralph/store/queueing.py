"""The queue of those who write to a file: who came first goes first, and nobody waits for ever.

There are two locks, the turn and the place right behind it. Whoever ends its turn finds that place taken, and queues
behind all others; with one lock it would be quicker than those it has to wake. The system wakes in the order of asking.
Only who asks in the very moment in which the place changes hands can be quicker than the one that is just woken.
"""

from __future__ import annotations

import _thread
import fcntl
import os

from ralph.store.sqlite import QUEUE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Queue:
    """A place in the queue of a file, for one thread."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._files: tuple[int, int] | None = None

    def enter(self, seconds: float) -> bool:
        """Wait for the turn; False when it did not come for so long: whoever has it may be stopped."""
        if self._files is None:
            self._files = _open(f"{self._path}.next{QUEUE}"), _open(f"{self._path}{QUEUE}")
        behind, turn = self._files
        waits_for = [behind, turn]
        try:
            while waits_for:
                fcntl.flock(waits_for[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
                del waits_for[0]
        except BlockingIOError:
            if not self._is_given(waits_for, seconds):
                return False
        fcntl.flock(behind, fcntl.LOCK_UN)
        return True

    def _is_given(self, waits_for: Sequence[int], seconds: float) -> bool:
        """Wait in a thread: that alone can be left, and still be woken in its turn."""
        deciding, given = _thread.allocate_lock(), _thread.allocate_lock()
        given.acquire()
        files, self._files = self._files, None
        assert files
        is_left = False

        def wait() -> None:
            try:
                for file in waits_for:
                    fcntl.flock(file, fcntl.LOCK_EX)
            finally:
                with deciding:
                    given.release()
                    if is_left:
                        _close(files)

        _thread.start_new_thread(wait, ())
        try:
            is_given = given.acquire(timeout=seconds)
        except BaseException:
            is_given = False
            raise
        finally:
            with deciding:
                if is_given:
                    self._files = files
                elif given.locked():
                    is_left = True
                else:
                    _close(files)
        return is_given

    def note(self, noted: bytes) -> None:
        """Note the newest change beside the file. It is never ahead: what is noted is durable in the file."""
        if self._files is not None:
            try:
                os.pwrite(self._files[1], noted, 0)
            except OSError:
                pass  # then what was noted before stands, which is true too

    def leave(self) -> None:
        """End the turn."""
        if self._files is not None:
            fcntl.flock(self._files[1], fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of the place."""
        if self._files is not None:
            _close(self._files)
            self._files = None


def _open(path: str) -> int:
    """Open a file to queue at; a link is not followed, wherever it leads, and a pipe not waited for."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)


def _close(files: Sequence[int]) -> None:
    for file in files:
        os.close(file)
