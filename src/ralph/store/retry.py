"""Retries while the store is unavailable."""

from __future__ import annotations

import time

from ralph.core.errors import StoreUnavailableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeVar

    R = TypeVar("R")

FIRST_PAUSE, MAX_PAUSE = 0.2, 5.0
"""First and longest pause between retries, in seconds."""


class Retry:
    """One try of an operation, as a context manager around it."""

    def __init__(self, should_give_up: Callable[[StoreUnavailableError], bool], *, is_first: bool) -> None:
        self.is_first = is_first
        """Whether this is the first try; before any other, the operation may have been committed without an answer."""
        self.error: StoreUnavailableError | None = None
        self._should_give_up = should_give_up

    def __enter__(self) -> Retry:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if isinstance(error, StoreUnavailableError) and not self._should_give_up(error):
            self.error = error
        return self.error is not None


def retrying(
    should_give_up: Callable[[StoreUnavailableError], bool], report: Callable[[str, bool], None]
) -> Iterator[Retry]:
    """Yield tries of an operation until one succeeds; raise the error of the last one if `should_give_up` says so.

    The operation goes into `for retry in retrying(...): with retry: ...`, without leaving the loop early. `report` is
    called with a message and whether the store is available: once when the wait starts and once when it ends.
    """
    pause = FIRST_PAUSE
    last_error: StoreUnavailableError | None = None
    while True:
        retry = Retry(should_give_up, is_first=last_error is None)
        yield retry
        if retry.error is None:
            if last_error is not None:
                report(last_error.recovered_message, True)
            return
        if type(last_error) is not type(retry.error):
            report(f"{retry.error} {retry.error.waiting_message}", False)
        last_error = retry.error
        time.sleep(pause)
        pause = min(2 * pause, MAX_PAUSE)


def retry_until_available(
    work: Callable[[], R],
    should_give_up: Callable[[StoreUnavailableError], bool],
    report: Callable[[str, bool], None],
) -> R:
    """Call `work` until it succeeds, as `retrying` does."""
    for retry in retrying(should_give_up, report):
        with retry:
            result = work()
    return result
