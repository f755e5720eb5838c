"""Progress of long operations, reported to a listener such as a bar in a terminal; without one, nothing happens."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeVar

    T = TypeVar("T")
    ProgressListener = Callable[[str, int, int], None]
    """Called with what is being done, how much of it is done, and how much there is; 0 if that is not known."""

_listeners: list[ProgressListener] = []
"""Nested listeners; the last one is told."""


class Tracking:
    """Context in which a listener is told about the progress of this process."""

    def __init__(self, listener: ProgressListener) -> None:
        self._listener = listener

    def __enter__(self) -> None:
        _listeners.append(self._listener)

    def __exit__(self, *_: object) -> None:
        _listeners.remove(self._listener)


def is_tracked() -> bool:
    """Return whether anybody listens, so that it is worth finding out how much there is to do."""
    return bool(_listeners)


def report_progress(what: str, done: int = 0, total: int = 0) -> None:
    """Tell the listener, if any, how far an operation is."""
    if _listeners:
        _listeners[-1](what, done, total)


def track(what: str, items: Iterable[T], total: int) -> Iterator[T]:
    """Yield items and report how many of them have been used."""
    for done, item in enumerate(items):
        report_progress(what, done, total)
        yield item
