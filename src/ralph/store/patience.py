"""Wait for a store that cannot be reached for a while."""

from __future__ import annotations

import time

from ralph.errors import StoreUnavailableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    R = TypeVar("R")

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0


def patiently(
    work: Callable[[], R],
    gives_up: Callable[[StoreUnavailableError], bool],
    tell: Callable[[str, bool], None],
    again: Callable[[], R] | None = None,
) -> R:
    """Do something, waiting for the store as long as nobody gives up.

    `tell` gets a sentence when the store is away, and one when it is back, with whether it is. `again` is done
    instead of the work once it was tried: it may have been done without an answer.
    """
    pause = FIRST_PAUSE
    told: StoreUnavailableError | None = None
    while True:
        try:
            done = work()
        except StoreUnavailableError as error:
            if gives_up(error):
                raise
            if told is None or type(told) is not type(error):
                tell(f"{error} {error.waiting_message}", False)
            told = error
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            work = again or work
            continue
        if told is not None:
            tell(told.recovered_message, True)
        return done
