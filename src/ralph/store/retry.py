"""Retries while the store is unavailable."""

from __future__ import annotations

import time

from ralph.core.errors import StoreUnavailableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    R = TypeVar("R")

FIRST_PAUSE, MAX_PAUSE = 0.2, 5.0
"""First and longest pause between retries, in seconds."""


def retry_until_available(
    work: Callable[[], R],
    should_give_up: Callable[[StoreUnavailableError], bool],
    report: Callable[[str, bool], None],
    retry_work: Callable[[], R] | None = None,
) -> R:
    """Call `work` until it succeeds, retrying while the store is unavailable and `should_give_up` returns False.

    `report` is called with a message and whether the store is available: once when the wait starts and once when it
    ends. If given, `retry_work` replaces `work` for the retries: the first call may have committed without an answer.
    """
    pause = FIRST_PAUSE
    last_error: StoreUnavailableError | None = None
    while True:
        try:
            result = work()
        except StoreUnavailableError as error:
            if should_give_up(error):
                raise
            if last_error is None or type(last_error) is not type(error):
                report(f"{error} {error.waiting_message}", False)
            last_error = error
            time.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE)
            work = retry_work or work
            continue
        if last_error is not None:
            report(last_error.recovered_message, True)
        return result
