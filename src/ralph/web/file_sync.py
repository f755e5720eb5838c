"""Background sync of the memory files of large projects.

Rewriting a file with thousands of memories takes long, and requests need not wait for it, because their changes are
already in the store. In small projects every request syncs the files itself, as every command does.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING

from ralph.core.errors import RalphError
from ralph.integrations.project_handle import ProjectHandle

if TYPE_CHECKING:
    from collections.abc import Callable

    from ralph.project import Project

BACKGROUND_SYNC_THRESHOLD = 1_000
"""Number of memories above which the files are synced in the background."""
MIN_SYNC_PAUSE = 0.5
"""Minimum pause between two syncs, in seconds."""
SILENT_CLOSE_TIMEOUT = 1.0
"""Time to wait for the last sync before telling the user about it, in seconds."""
SERVER_IDLE_TIMEOUT = 10.0
"""Time without requests after which store resources are released, in seconds."""
SYNC_PAUSE_FACTOR = 5
"""Minimum ratio of pause to sync time."""


class FileSyncThread:
    """Thread that syncs the memory files after requests and releases idle resources."""

    def __init__(self, root: str, on_idle: Callable[[], None]) -> None:
        """Start the thread; `rest` is called to release resources when there are no requests."""
        self.is_large = False
        """Whether requests leave the files to this thread."""
        self.problems: tuple[str, ...] = ()
        """Problems with the files of a large project."""
        self._rest = on_idle
        self._opened = ProjectHandle(root)
        self._requested = threading.Event()
        self._ended = threading.Event()
        self._is_hurried = threading.Event()
        self._opened.call_with_project(self._update_size, sync=False)
        self._thread = threading.Thread(target=self._run, name="ralph-files", daemon=True)
        self._thread.start()

    def request_sync(self) -> None:
        """Request a sync: the store or the files may have changed."""
        self._requested.set()

    def skip_final_sync(self) -> None:
        """Stop waiting for the files, which the next command will sync."""
        self._is_hurried.set()

    def close(self) -> None:
        """Sync the files a last time and end the thread."""
        self._ended.set()
        self._requested.set()
        self._thread.join(SILENT_CLOSE_TIMEOUT)
        if self._thread.is_alive():
            print("Syncing the memory files. Press Ctrl+C to leave that to the next command.", flush=True)
        while self._thread.is_alive() and not self._is_hurried.is_set():
            self._thread.join(0.1)

    # --- thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            is_last = is_resting = False
            while not is_last:
                if not self._requested.wait(None if is_resting else SERVER_IDLE_TIMEOUT):
                    is_resting = True
                    self._opened.release()
                    self._rest()
                    continue
                is_resting = False
                self._requested.clear()
                is_last = self._ended.is_set()
                self._ended.wait(max(MIN_SYNC_PAUSE, SYNC_PAUSE_FACTOR * self._timed_sync()))
        finally:
            self.is_large = False  # without this thread, requests sync the files themselves
            self._opened.close()

    def _timed_sync(self) -> float:
        """Sync the files and return how long it took."""
        started = time.monotonic()
        try:
            self._opened.call_with_project(self._check, sync=self.is_large)
        except RalphError as error:
            # Requests report store errors themselves; the files are retried after the next one.
            print(f"Warning: could not sync the memory files: {error}", file=sys.stderr)
        return time.monotonic() - started

    def _check(self, project: Project) -> None:
        self._update_size(project)
        if self.is_large and not self._ended.is_set():
            project.files.check()
            self.problems = tuple(project.files.problems)

    def _update_size(self, project: Project) -> None:
        self.is_large = project.store.memories.stats.count() > BACKGROUND_SYNC_THRESHOLD
