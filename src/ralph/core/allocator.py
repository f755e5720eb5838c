"""Memory management of long-running processes. What concerns the allocator has no effect without glibc."""

from __future__ import annotations

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
"""Parameters of glibc's `mallopt`: the size of a large block, and the number of arenas, which are memory pools."""
LARGE_BLOCK_BYTES = 128 * 1_024
"""Size from which a block of memory is large, in bytes: the value that glibc starts with."""
GARBAGE_THRESHOLDS = 700, 10, 2
"""New objects before a collection of the youngest, and collections before one of the next older; Python's are 700, 10
and 10."""


def use_one_arena() -> None:
    """Let all threads allocate from one arena. Call it before they start.

    By default each thread gets its own, and no thread can use what another one has freed. A process with ten threads
    grows for hours until each of its arenas has been as full as it ever will be.
    """
    _set_parameter(_M_ARENA_MAX, 1)


def unmap_large_blocks() -> None:
    """Return large blocks to the system when they are freed, and never allocate them from an arena.

    By default glibc soon does, because it is faster: embedding many texts takes a quarter less time. But where an array
    was, something small may remain, and the next array does not fit there any more.
    """
    _set_parameter(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)


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


def _set_parameter(parameter: int, value: int) -> None:
    import ctypes

    try:
        ctypes.CDLL(None).mallopt(parameter, value)
    except (AttributeError, OSError, TypeError):
        pass  # another C library
