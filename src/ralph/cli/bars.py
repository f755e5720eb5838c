"""A progress bar on standard error for commands that take long; nothing unless that is a terminal."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import contextmanager

from ralph.cli.output import can_move_cursor
from ralph.core.tracking import Tracking

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

BAR_WIDTH = 16
"""Width of the bar, in columns."""
FIRST_SECONDS, REDRAW_SECONDS = 0.4, 0.1
"""Time after which a bar appears, and between two drawings, in seconds."""


@contextmanager
def progress_bar() -> Iterator[ProgressBar]:
    """Draw the progress of what is done in the block; nothing may be printed in it."""
    bar = ProgressBar()
    if not can_move_cursor(sys.stderr):
        yield bar
        return
    with Tracking(bar.show):
        bar.start()
        try:
            yield bar
        finally:
            bar.stop()


class ProgressBar:
    """Bar that a thread draws, so that the time goes on while one step takes long."""

    def __init__(self) -> None:
        self._state = ("", 0, 0)
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._draw, name="progress bar", daemon=True)

    def show(self, what: str, done: int, total: int) -> None:
        """Show that so much of something is done; a total of 0 is not known."""
        self._state = what, done, total

    def start(self) -> None:
        """Start to draw."""
        self._thread.start()

    def stop(self) -> None:
        """Stop drawing and clear the line."""
        self._ended.set()
        self._thread.join()

    def _draw(self) -> None:
        wait, has_drawn = FIRST_SECONDS, False
        while not self._ended.wait(wait):
            wait = REDRAW_SECONDS
            if self._state[0]:
                has_drawn = self._write(f"\r\x1b[K{self._line(_columns())}") or has_drawn
        if has_drawn:
            self._write("\r\x1b[K")

    def _line(self, columns: int) -> str:
        what, done, total = self._state
        elapsed = f"{time.monotonic() - self._began:.0f} s"
        if not total:
            return f"{what}  {elapsed}"[: columns - 1]
        filled = BAR_WIDTH * min(done, total) // total
        text = f"{what}: {done:,} of {total:,}  {elapsed}"
        bar = f"[{'█' * filled}{'░' * (BAR_WIDTH - filled)}] "
        return (bar + text if len(bar + text) < columns else text)[: columns - 1]

    def _write(self, text: str) -> bool:
        try:
            print(text, end="", file=sys.stderr, flush=True)
        except (OSError, ValueError):
            return False  # the terminal is gone; the command goes on
        return True


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
