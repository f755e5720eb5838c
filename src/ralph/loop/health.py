"""Integrity checks and daily backups of the database file during a run.

Runs in a low-priority thread, for SQLite files only; a server is maintained on its own.
"""

from __future__ import annotations

import threading
import time

from ralph.core.errors import StoreError
from ralph.core.records import timestamp
from ralph.memory.recall.vector_search import lower_thread_priority
from ralph.store.maintenance.backup import DAILY_REASON, backup_times, make_backup
from ralph.store.maintenance.check import NEWER_VERSION, UNREADABLE, check_database, is_index_problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ralph.store import Store

FIRST_CHECK_SECONDS, RETRY_CHECK_SECONDS, CHECK_INTERVAL_SECONDS = 5.0, 30.0, 3_600.0
"""Delay before the first check, before a retry, and between checks, in seconds."""
BACKUP_INTERVAL_SECONDS = 24 * 3_600.0
"""Age of the newest backup from which a new one is made, in seconds."""
FIRST_BACKUP_AGE_SECONDS = 3_600.0
"""Age of a project from which its first backup is made, in seconds."""
SHUTDOWN_SECONDS = 1.0
"""Time the end of a run waits for a check in progress, in seconds; giving up on one is harmless."""


class DatabaseMonitor:
    """Background thread that checks the database file and backs it up daily."""

    def __init__(
        self,
        store: Store,
        warn: Callable[[str], None],
        stop: Callable[[], None],
        is_terminated: Callable[[], bool] = lambda: False,
    ) -> None:
        """`warn` is called with messages for a person, `stop` when nothing more should be written.

        `is_terminated` says whether the run has to end soon, without a backup.
        """
        self._path = "" if store.is_shared else store.database.display_url
        self._created_at = "" if store.is_shared else store.projects.get(store.project_id).created_at
        self._warn = warn
        self._stop = stop
        self._is_terminated = is_terminated
        self._reported: set[str] = set()
        self._was_unreadable = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._check_periodically, name="safekeeping", daemon=True)

    def __enter__(self) -> DatabaseMonitor:
        if self._path:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._ended.set()
        if self._path:
            self._thread.join(SHUTDOWN_SECONDS)
            if kind is None and not self._thread.is_alive() and not self._is_terminated():
                self._back_up()  # a short run ends before the first check

    def _check_periodically(self) -> None:
        lower_thread_priority()
        wait = FIRST_CHECK_SECONDS
        while not self._ended.wait(wait):
            wait = self._check()

    def _should_stop(self) -> bool:
        return self._ended.is_set() or self._is_terminated()

    def _check(self) -> float:
        """Check the file once and return the delay until the next check, in seconds."""
        problems = check_database(self._path, should_stop=self._should_stop).problems
        if self._should_stop():
            return CHECK_INTERVAL_SECONDS  # an interrupted check says nothing
        serious = [one for one in problems if not is_index_problem(one)]
        if serious and serious[0].startswith(UNREADABLE) and not self._was_unreadable:
            self._was_unreadable = True  # may be temporary: too many open files, an unmounted disk
            return RETRY_CHECK_SECONDS
        self._was_unreadable = False
        if serious and NEWER_VERSION in serious[0]:
            self._warn_once(f"The database {self._path}: {serious[0]}")
            self._stop()
        elif serious:
            self._warn_once(f"The database {self._path} is damaged: {serious[0]} Restore a backup with: ralph restore")
            self._stop()
        elif problems:
            self._warn_once(f"{problems[0]} Rebuild the search indexes with: ralph doctor --reindex")
        else:
            self._back_up()
        return CHECK_INTERVAL_SECONDS

    def _back_up(self) -> None:
        try:
            if is_backup_due(backup_times(self._path), self._created_at, time.time()):
                make_backup(self._path, DAILY_REASON)
        except StoreError as error:
            self._warn_once(str(error))

    def _warn_once(self, message: str) -> None:
        if message not in self._reported:
            self._reported.add(message)
            self._warn(message)


def is_backup_due(backup_times: list[str], created_at: str, now_seconds: float) -> bool:
    """Return whether a backup is due, given the times of earlier ones and the creation of the project."""
    # Ignore backups from the future: the clock may have been wrong.
    backup_times = [one for one in backup_times if one <= timestamp(now_seconds)]
    if not backup_times:
        return created_at < timestamp(now_seconds - FIRST_BACKUP_AGE_SECONDS)
    return max(backup_times) < timestamp(now_seconds - BACKUP_INTERVAL_SECONDS)
