"""The time a measurement sees: what passes, plus what a kept result would have cost to make again."""

from __future__ import annotations

import time


class Clock:
    """A stopwatch that can be told of work that was not done again."""

    def __init__(self) -> None:
        self._owed_seconds = 0.0

    def now(self) -> float:
        """Return the seconds so far; only differences mean something."""
        return time.perf_counter() + self._owed_seconds

    def owe(self, seconds: float) -> None:
        """Count work as if it had been done just now."""
        self._owed_seconds += seconds


CLOCK = Clock()
