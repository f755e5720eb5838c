"""Repeat, take the minimum, compare."""

from __future__ import annotations

import time
from collections.abc import Callable


def seconds(act: Callable[[], object]) -> float:
    """Give how long one call takes."""
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def best(act: Callable[[], object], repeats: int) -> float:
    """Give the shortest of several calls."""
    return min(seconds(act) for _ in range(repeats))


class Table:
    """Rows of a measurement, with the bar each ratio has to stay under."""

    def __init__(self) -> None:
        self.missed = 0

    def row(
        self, what: str, milliseconds: float, ratio: float, bar: float | None = None, goal: float | None = None
    ) -> None:
        """Print one row; a missed goal, unlike a missed bar, is no failure."""
        verdict = "" if bar is None else f"  (at most {bar:g}: {'met' if ratio <= bar else 'MISSED'})"
        verdict += "" if goal is None else f"  (goal {goal:g}: {'met' if ratio <= goal else 'not met'})"
        self.missed += bar is not None and ratio > bar
        print(f"  {what:58} {milliseconds:9.3f} ms  {ratio:6.2f} x{verdict}", flush=True)
