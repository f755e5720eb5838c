"""How long a claim in a SQLite file holds: by a clock that nobody sets.

All who use such a file are on one machine and share its steady clock, which starts with the machine and stands still
while it sleeps. So a lease is written as the moment it seems to end, which is for people and older versions, its
length, the start of the machine, and the moment by the steady clock.
"""

from __future__ import annotations

import time
from functools import cache

from ralph.records import timestamp

UNKNOWN = "-"
SLACK_SECONDS = 60.0
"""So far clocks may be apart where there is no steady one in common."""


def lease_end(seconds: str) -> str:
    """Give the lease that ends so many seconds from now."""
    length = float(seconds)
    return f"{timestamp(time.time() + length)} {length:.3f} {_boot()} {time.monotonic() + length:.3f}"


def is_over(lease: str | None) -> bool:
    """Say whether a lease has run out; one that nobody can read has."""
    end, *rest = (lease or "").split() or [""]
    wall = time.time()
    try:
        if not rest:  # of an older version, or from a server
            return end < timestamp(wall)
        length, boot, steady_end = float(rest[0]), rest[1], float(rest[2])
    except (ValueError, IndexError):
        return True
    if boot == _boot() != UNKNOWN:
        # One far ahead is of a machine that was put back to an earlier moment.
        return not 0 <= steady_end - time.monotonic() <= length + SLACK_SECONDS
    # Of another start of the machine. One that is to begin later was made before the clock was set back.
    return end < timestamp(wall) or end > timestamp(wall + length + SLACK_SECONDS)


@cache
def _boot() -> str:
    """Give what tells this start of the machine from others."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
            return file.read(8)
    except OSError:
        return UNKNOWN
