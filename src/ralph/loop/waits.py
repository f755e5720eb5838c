"""Time that a run spends waiting, by reason: usage limits, outages, pauses, the disk, the database."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PAUSED, FULL_DISK, NO_DATABASE = "pauses", "full disk", "database out of reach"
"""Reasons for which a run waits, besides those that name an agent."""
STORE_SECONDS = 30.0
"""Interval at which waiting times are stored, in seconds: a killed run loses at most that."""
MIN_STORED_SECONDS = 1.0
"""Waiting times below this are not stored, in seconds."""


class WaitTimes:
    """Time a run has waited, by reason. Workers that wait at the same time count once."""

    def __init__(self, store: Callable[[Mapping[str, float]], None]) -> None:
        """`store` adds seconds by reason to those of the run."""
        self._store = store
        self._lock = threading.Lock()
        self._seconds: dict[str, float] = {}
        """Seconds that are not stored yet, by reason."""
        self._counted_until: dict[str, float] = {}
        self._stored_at = time.monotonic()

    def add(self, reason: str, since: float) -> None:
        """Count the time since a moment of the monotonic clock."""
        now = time.monotonic()
        with self._lock:
            begin = max(since, self._counted_until.get(reason, since))
            self._counted_until[reason] = now
            self._seconds[reason] = self._seconds.get(reason, 0.0) + now - begin
            is_due = now - self._stored_at >= STORE_SECONDS
        if is_due:
            self.flush()

    def flush(self) -> None:
        """Store what has been counted since the last time."""
        with self._lock:
            seconds = {reason: one for reason, one in self._seconds.items() if one >= MIN_STORED_SECONDS}
            self._seconds = {reason: one for reason, one in self._seconds.items() if reason not in seconds}
            self._stored_at = time.monotonic()
        if seconds:
            self._store(seconds)
