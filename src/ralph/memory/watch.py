"""Follow what happens to the memories of a project, as it happens, whoever does it and on whichever machine.

Events are numbered in the order they became visible. Who follows reads on from the last number seen: being woken
only says that it is worth looking, so nothing is missed when a connection is lost.
"""

from __future__ import annotations

import time
from functools import partial

from ralph.store.database import FEED
from ralph.store.retry import patiently

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ralph.core.records import Memory, MemoryEvent
    from ralph.store import Store

    Happened = Sequence[tuple[MemoryEvent, Memory | None]]

WAIT_SECONDS = 1.0
"""So often it is looked without being woken: nobody wakes us when a file is edited."""


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
            found = patiently(
                partial(happened, since), lambda _: time.monotonic() > deadline, lambda message, _: tell(message)
            )
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
