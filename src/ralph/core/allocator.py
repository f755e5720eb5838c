"""Memory allocator of long-running processes."""

from __future__ import annotations

_M_ARENA_MAX = -8
"""Parameter of glibc's `mallopt`: the number of arenas, which are memory pools."""


def use_one_arena() -> None:
    """Let all threads allocate from one arena. Call it before they start; it has no effect without glibc.

    By default each thread gets its own, and no thread can use what another one has freed. A process with ten threads
    grows for hours until each of its arenas has been as full as it ever will be.
    """
    import ctypes

    try:
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
    except (AttributeError, OSError, TypeError):
        pass  # another C library
