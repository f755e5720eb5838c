"""Memory management of long-running processes. What concerns the allocator has no effect without glibc."""

from __future__ import annotations

_M_ARENA_MAX = -8
"""Parameter of glibc's `mallopt`: the number of arenas, which are memory pools."""
GARBAGE_THRESHOLDS = 700, 10, 2
"""New objects before a collection of the youngest, and collections before one of the next older; Python's are 700, 10
and 10."""


def use_one_arena() -> None:
    """Let all threads allocate from one arena. Call it before they start.

    By default each thread gets its own, and no thread can use what another one has freed. A process with ten threads
    grows for hours until each of its arenas has been as full as it ever will be.
    """
    import ctypes

    try:
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
    except (AttributeError, OSError, TypeError):
        pass  # another C library


def collect_garbage_early() -> None:
    """Collect reference cycles before many of them pile up. Call it when everything is loaded.

    A request leaves some behind. By default Python looks for old ones after 70,000 objects or more: those of 2,600
    requests take 18 MB. What is loaded already is left out, so that looking more often costs little.
    """
    import gc

    gc.collect()
    gc.freeze()
    gc.collect()  # counts what is left: Python waits until a quarter of that is new
    gc.set_threshold(*GARBAGE_THRESHOLDS)
