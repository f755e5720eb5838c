"""Single keys that a person presses at the terminal, without Enter."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from contextlib import contextmanager, suppress

with suppress(ImportError):  # elsewhere than on POSIX, there are no keys
    import termios
    import tty

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Self

MAX_BYTES = 64
"""Maximum number of bytes of one key; arrows and the like send several."""


def can_read_keys() -> bool:
    """Return whether a person can press keys: at a terminal, and not in a job in the background."""
    if "termios" not in globals() or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except OSError:
        return False


def _exit(number: int, _: object) -> None:
    """End the program in a way that leaves the terminal as it was."""
    raise SystemExit(128 + number)


class Keys:
    """Keys pressed at the terminal; none of them if it is off."""

    def __init__(self, *, is_on: bool) -> None:
        self._is_on = is_on
        self._before: list[Any] = []

    def __enter__(self) -> Self:
        if self._is_on:
            self._before = termios.tcgetattr(sys.stdin.fileno())
            self._start()
            signal.signal(signal.SIGCONT, lambda *_: self._start())  # a shell that had the terminal has changed it
            signal.signal(signal.SIGTERM, _exit)
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_on:
            signal.signal(signal.SIGCONT, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._stop()

    def _start(self) -> None:
        tty.setcbreak(sys.stdin.fileno(), termios.TCSADRAIN)

    def _stop(self) -> None:
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._before)

    def read(self, seconds: float | None) -> str:
        """Return the next key, or an empty string after so many seconds; a closed terminal is a `q`."""
        if not self._is_on:
            time.sleep(seconds or 0.0)
            return ""
        if not select.select([sys.stdin], [], [], seconds)[0]:
            return ""
        pressed = os.read(sys.stdin.fileno(), MAX_BYTES)
        if not pressed:
            return "q"
        return "" if pressed.startswith(b"\x1b") else pressed.decode(errors="replace")[0]

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Let the terminal read whole lines in the block."""
        self._stop()
        try:
            yield
        finally:
            self._start()
