"""The line at the bottom of the terminal during a run, and lines above it that break between words."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from ralph.core.text import format_usd

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ralph.loop.progress import ProgressEvent

SEPARATOR = " · "
CONTINUATION_INDENT = 2
"""Additional indent of the second and later rows of a line, in columns."""
MIN_ROW_WIDTH = 16
"""Width below which rows are not indented any further, in columns."""


_PREFIX = re.compile(r"(?P<run>run-\w+: )?(?:\[\d+\])?\s*")
"""Run, number of a worker and indent of a line."""


class RunStatusLine:
    """How far a run is: "4/12 done · $0.42 · 6 min · next reset 03:00"."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """`clock` returns seconds since the epoch."""
        self._clock = clock
        self._is_shown = self._is_paused = False
        self._done = self._total = self._waiting = 0
        self._cost_usd = self._started = self._next_reset = self._waits_until = 0.0

    def follow(self, event: ProgressEvent) -> None:
        """Take over what an event says about the run; raise an error if it is malformed, before anything is shown."""
        if event.what == "run_ended":
            self._is_shown = False
        elif event.what == "waiting_for_limit":
            self._waits_until = _seconds(str(event.details["until"]))
        elif event.what == "paused":
            self._is_paused = True
        elif event.what in ("attempt_started", "waiting"):
            self._waits_until, self._is_paused = 0.0, False
        run: Any = event.details.get("run")
        if run is not None:
            self._done, self._total, self._waiting = (int(run[name]) for name in ("done", "total", "waiting"))
            self._cost_usd = float(run["cost_usd"])
            self._next_reset = _seconds(str(run["next_reset"])) if run["next_reset"] else 0.0
            self._started = self._clock() - event_age(event, self._clock) - float(run["seconds"])
            self._is_shown = True

    def render(self, width: int) -> str:
        """Return the line, without what does not fit; empty before and after a run."""
        if not self._is_shown:
            return ""
        reset, now = self._waits_until or self._next_reset, self._clock()
        parts = [
            f"{self._done:,}/{self._total:,} done",
            "paused" if self._is_paused else "",
            f"{self._waiting:,} need{'s' * (self._waiting == 1)} you" if self._waiting else "",
            format_usd(self._cost_usd) if self._cost_usd else "",
            format_minutes(now - self._started),
            f"next reset {_clock_time(reset, now)}" if reset > now else "",
        ]
        parts = [part for part in parts if part]
        while len(parts) > 1 and len(SEPARATOR.join(parts)) > width:
            parts.pop()
        return SEPARATOR.join(parts)[:width]


def event_age(event: ProgressEvent, clock: Callable[[], float] = time.time) -> float:
    """Return how long ago an event was, in seconds: who starts to watch a run is shown events from before."""
    return max(0.0, clock() - _seconds(event.at))


def format_minutes(seconds: float) -> str:
    """Format a duration in whole minutes: `45 s`, `6 min`, `2 h 05 min`."""
    if seconds < 60:
        return f"{max(0, seconds):.0f} s"
    hours, minutes = divmod(int(seconds) // 60, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min"


def _clock_time(seconds: float, now: float) -> str:
    """Return the local time of day, with the day if it is not within a day."""
    return time.strftime("%H:%M" if seconds - now < 24 * 3600 else "%a %H:%M", time.localtime(seconds))


def _seconds(timestamp: str) -> float:
    from calendar import timegm

    fraction = timestamp[19:23] if timestamp[19:20] == "." else ""
    return timegm(time.strptime(timestamp[:19], "%Y-%m-%dT%H:%M:%S")) + float(fraction or 0)


def wrap_words(line: str, width: int) -> list[str]:
    """Return the rows of a line; later rows are indented, and words longer than a row are left to the terminal."""
    from rich.cells import cell_len

    if cell_len(line) <= width:
        return [line]
    prefix = _PREFIX.match(line)
    row = prefix[0] if prefix else ""
    indent = len(row) - len(prefix["run"] or "") if prefix else 0
    later = " " * min(indent + CONTINUATION_INDENT, max(0, width - MIN_ROW_WIDTH))
    rows, is_empty = [], True
    for word in line[len(row) :].split():
        if not is_empty and cell_len(f"{row} {word}") > width:
            rows.append(row)
            row, is_empty = later, True
        row = f"{row}{word}" if is_empty else f"{row} {word}"
        is_empty = False
    return [*rows, row]
