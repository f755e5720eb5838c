"""Follow what happens to the memories of a project, as it happens, whoever does it and on whichever machine.

Events are numbered in the order they became visible. Who follows reads on from the last number seen: being woken
only says that it is worth looking, so nothing is missed when a connection is lost.
"""

from __future__ import annotations

import time

from ralph.errors import StoreAway
from ralph.store.database import FEED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ralph.records import Memory, MemoryEvent
    from ralph.store import Store

    Happened = Sequence[tuple[MemoryEvent, Memory | None]]

WAIT_SECONDS = 1.0
"""So often it is looked without being woken: nobody wakes us when a file is edited."""
LONGEST_PAUSE = 5.0


def follow(
    store: Store,
    happened: Callable[[int], Happened],
    since: int,
    seconds: float,
    tell: Callable[[str], None],
) -> Iterator[tuple[MemoryEvent, Memory | None]]:
    """Give what happens to memories after an event, for so long, each with the memory as it is now.

    `happened` gives what happened after an event. A store that cannot be reached is waited for; `tell` gets a sentence
    then, and another one when it is back.
    """
    deadline = time.monotonic() + seconds
    watch = store.watch(FEED)
    try:
        while True:
            found = _patiently(happened, since, deadline, tell)
            yield from found
            left = deadline - time.monotonic()
            if found:
                since = found[-1][0].seq  # there may be more already
            elif left <= 0:
                return
            else:
                watch.wait(min(WAIT_SECONDS, left))
    finally:
        watch.close()


def _patiently(
    happened: Callable[[int], Happened], since: int, deadline: float, tell: Callable[[str], None]
) -> Happened:
    pause = 0.2
    was_told = False
    while True:
        try:
            found = happened(since)
        except StoreAway as error:
            if time.monotonic() > deadline:
                raise
            if not was_told:
                tell(f"{error} Waiting for it to come back.")
            was_told = True
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            continue
        if was_told:
            tell("The database is back.")
        return found
