"""Memory allocator of long-running processes. Nothing here has an effect without glibc."""

from __future__ import annotations

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
"""Parameters of glibc's `mallopt`: the size of a large block, and the number of arenas, which are memory pools."""
LARGE_BLOCK_BYTES = 128 * 1_024
"""Size from which a block of memory is large, in bytes: the value that glibc starts with."""


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


def _set_parameter(parameter: int, value: int) -> None:
    import ctypes

    try:
        ctypes.CDLL(None).mallopt(parameter, value)
    except (AttributeError, OSError, TypeError):
        pass  # another C library
