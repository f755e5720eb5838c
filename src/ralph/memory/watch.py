"""Changes of memories as a stream, whoever makes them and on whichever machine.

Events are numbered in the order they became visible. A reader continues after the last number it saw; a wake-up only
says that it is worth looking, so a lost connection loses nothing.
"""

from __future__ import annotations

import time
from functools import partial

from ralph.store.database import MEMORY_FEED
from ralph.store.retry import retry_until_available

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ralph.core.records import Memory, MemoryEvent
    from ralph.store import Store

POLL_SECONDS = 1.0
"""Time between looks without a wake-up: editing a file wakes nobody."""


class MemoryEvents:
    """The stream of changes to the memories of one opened project."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def last(self) -> int:
        """Return the number of the newest event, or 0."""
        return self._store.memories.history.last_event_seq()

    def since(self, seq: int, limit: int = 500) -> list[tuple[MemoryEvent, Memory | None]]:
        """Return events after one, oldest first, each with its memory as it is now."""
        events = self._store.memories.history.since(seq, limit)
        memories = {one.id: one for one in self._store.memories.find_by_ids(event.memory_id for event in events)}
        return [(event, memories.get(event.memory_id)) for event in events]

    def follow(
        self,
        since: int | None,
        seconds: float,
        tell: Callable[[str], None],
        sync: Callable[[], None] = lambda: None,
    ) -> Iterator[tuple[MemoryEvent, Memory | None]]:
        """Yield events after one, or from now on, as they happen, for that many seconds.

        `sync` runs before each look, to see edits of the files. `tell` gets a message when the store becomes
        unreachable, and another one when it is back.
        """
        seq = self.last() if since is None else since
        deadline = time.monotonic() + seconds
        watch = self._store.watch(MEMORY_FEED)
        try:
            while True:
                found = retry_until_available(
                    partial(self._synced_since, seq, sync),
                    lambda _: time.monotonic() > deadline,
                    lambda message, _: tell(message),
                )
                yield from found
                left = deadline - time.monotonic()
                if found:
                    seq = found[-1][0].seq  # there may be more already
                elif left <= 0:
                    return
                else:
                    watch.wait(min(POLL_SECONDS, left))
        finally:
            watch.close()

    def _synced_since(self, seq: int, sync: Callable[[], None]) -> list[tuple[MemoryEvent, Memory | None]]:
        sync()
        return self.since(seq)
