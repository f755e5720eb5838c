"""Leases of claims in a SQLite file, by the monotonic clock.

All users of a SQLite file are on one machine and share its monotonic clock, which starts at boot and stops during
sleep. A lease is stored as its wall-clock expiry (for people and older versions), its length, the boot id, and its
expiry on the monotonic clock.
"""

from __future__ import annotations

import time
from functools import cache

from ralph.core.records import timestamp

UNKNOWN_BOOT = "-"
"""Boot id on systems without one."""
CLOCK_TOLERANCE_SECONDS = 60.0
"""Tolerated clock difference, in seconds."""


def lease_end(seconds: str) -> str:
    """Return a lease that expires `seconds` from now."""
    length = float(seconds)
    return f"{timestamp(time.time() + length)} {length:.3f} {_boot_id()} {time.monotonic() + length:.3f}"


def is_expired(lease: str | None) -> bool:
    """Return whether a lease has expired; an unreadable one has."""
    end, *rest = (lease or "").split() or [""]
    wall = time.time()
    try:
        if not rest:  # written by an older version, or copied from a server
            return end < timestamp(wall)
        length, boot, steady_end = float(rest[0]), rest[1], float(rest[2])
    except (ValueError, IndexError):
        return True
    if boot == _boot_id() != UNKNOWN_BOOT:
        # A lease far in the future was written before the machine was restored from a snapshot.
        return not 0 <= steady_end - time.monotonic() <= length + CLOCK_TOLERANCE_SECONDS
    # Written before the last boot. A lease that starts in the future was written before the clock was set back.
    return end < timestamp(wall) or end > timestamp(wall + length + CLOCK_TOLERANCE_SECONDS)


@cache
def _boot_id() -> str:
    """Return the beginning of the boot id."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
            return file.read(8)
    except OSError:
        return UNKNOWN_BOOT
