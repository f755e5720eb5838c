"""Looks after the database file while a run is at work: damage is told at once, and a day has a backup of its own.

It has a thread of its own that gives way to all others. What is on a server is looked after there.
"""

from __future__ import annotations

import threading
import time

from ralph.errors import StoreError
from ralph.loop.embedding import give_way
from ralph.records import timestamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ralph.store import Store

FIRST_AFTER, SOON_AFTER, AGAIN_AFTER = 5.0, 30.0, 3_600.0
"""Seconds: so often the file is looked at while a run goes on."""
BACKUP_SECONDS = 24 * 3_600.0
"""A run makes a backup when the newest one is older."""
FIRST_BACKUP_SECONDS = 3_600.0
"""The first one is made when the project is older: what is an hour old can be told again."""
PARTING_SECONDS = 1.0
"""So long a run that is over waits for a look at its file; a longer one is given up, which harms nothing."""


class Safekeeping:
    """Looks at the file while the block runs, and keeps a backup of every day there was a run."""

    def __init__(self, store: Store, warn: Callable[[str], None], stop: Callable[[], None]) -> None:
        """`warn` is told what a person should know; `stop` is called when nothing more should be written."""
        self._path = "" if store.is_shared else store.database.where
        self._since = "" if store.is_shared else store.projects.get(store.project_id).created_at
        self._warn = warn
        self._stop = stop
        self._told: set[str] = set()
        self._is_unread = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="safekeeping", daemon=True)

    def __enter__(self) -> Safekeeping:
        if self._path:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._ended.set()
        if self._path:
            self._thread.join(PARTING_SECONDS)
            if kind is None and not self._thread.is_alive():
                self._back_up()  # a short run is over before the thread looked

    def _work(self) -> None:
        give_way()
        wait = FIRST_AFTER
        while not self._ended.wait(wait):
            wait = self._look()

    def _look(self) -> float:
        """Look once; give after how many seconds to look again."""
        from ralph.store.health import NEWER, UNREAD, check, is_of_an_index

        problems = check(self._path).problems
        serious = [one for one in problems if not is_of_an_index(one)]
        if serious and serious[0].startswith(UNREAD) and not self._is_unread:
            self._is_unread = True  # too many open files, a disk that is away: it may be over the next time
            return SOON_AFTER
        self._is_unread = False
        if serious and NEWER in serious[0]:
            self._tell(f"The database {self._path}: {serious[0]}")
            self._stop()
        elif serious:
            self._tell(f"The database {self._path} is damaged: {serious[0]} Bring a backup back with: ralph restore")
            self._stop()
        elif problems:
            self._tell(f"{problems[0]} Make the search indexes anew with: ralph doctor --reindex")
        else:
            self._back_up()
        return AGAIN_AFTER

    def _back_up(self) -> None:
        from ralph.store.backup import DAILY, make_backup, moments

        try:
            if is_due(moments(self._path), self._since, time.time()):
                make_backup(self._path, DAILY)
        except StoreError as error:
            self._tell(str(error))

    def _tell(self, message: str) -> None:
        if message not in self._told:
            self._told.add(message)
            self._warn(message)


def is_due(made: list[str], since: str, seconds: float) -> bool:
    """Say whether it is time for a backup, by when others were made and since when there is something to lose."""
    made = [one for one in made if one <= timestamp(seconds)]  # the clock may have been ahead
    if not made:
        return since < timestamp(seconds - FIRST_BACKUP_SECONDS)
    return max(made) < timestamp(seconds - BACKUP_SECONDS)
