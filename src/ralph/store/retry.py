"""Retries while the store is unavailable."""

from __future__ import annotations

import time

from ralph.core.errors import StoreUnavailableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    R = TypeVar("R")

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
"""First and longest pause between retries, in seconds."""


def patiently(
    work: Callable[[], R],
    gives_up: Callable[[StoreUnavailableError], bool],
    tell: Callable[[str, bool], None],
    again: Callable[[], R] | None = None,
) -> R:
    """Call `work` until it succeeds, retrying while the store is unavailable and `gives_up` returns False.

    `tell` is called with a message and whether the store is available: once when the wait starts and once when it
    ends. If given, `again` replaces `work` for the retries: the first call may have committed without an answer.
    """
    pause = FIRST_PAUSE
    last_error: StoreUnavailableError | None = None
    while True:
        try:
            result = work()
        except StoreUnavailableError as error:
            if gives_up(error):
                raise
            if last_error is None or type(last_error) is not type(error):
                tell(f"{error} {error.waiting_message}", False)
            last_error = error
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            work = again or work
            continue
        if last_error is not None:
            tell(last_error.recovered_message, True)
        return result
