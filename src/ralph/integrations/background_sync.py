"""Background sync of the memory files of large projects.

Rewriting a file with thousands of memories takes long (1 s for 10,000), and requests need not wait for it, because
their changes are already in the store. In small projects every request syncs the files itself, as every command does.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING

from ralph.core.errors import RalphError
from ralph.integrations.project_handle import ProjectHandle

if TYPE_CHECKING:
    from ralph.project import Project

BACKGROUND_SYNC_THRESHOLD = 1_000
"""Number of memories above which the files are synced in the background."""
MIN_SYNC_PAUSE = 0.5
"""Minimum pause between two syncs, in seconds."""
SYNC_PAUSE_FACTOR = 5
"""Minimum ratio of pause to sync time."""
CLOSE_TIMEOUT = 10.0
"""Time to wait for the last sync, in seconds; the next command syncs what is left."""


class BackgroundSync:
    """Thread that syncs the memory files after requests."""

    def __init__(self, root: str) -> None:
        self.is_active = False
        """Whether requests leave the files to this thread."""
        self.problems: tuple[str, ...] = ()
        """Problems with the files while it is active."""
        self._handle = ProjectHandle(root)
        self._requested = threading.Event()
        self._closed = threading.Event()
        self._handle.call_with_project(self._update)
        self._thread = threading.Thread(target=self._run, name="ralph-files", daemon=True)
        self._thread.start()

    def request(self) -> None:
        """Request a sync: the store or the files may have changed."""
        self._requested.set()

    def close(self) -> None:
        """Sync the files a last time and end the thread."""
        self._closed.set()
        self._requested.set()
        self._thread.join(CLOSE_TIMEOUT)

    def _run(self) -> None:
        is_last = False
        while not is_last:
            self._requested.wait()
            self._requested.clear()
            is_last = self._closed.is_set()
            started = time.monotonic()
            try:
                self._handle.call_with_project(self._update)
            except RalphError as error:
                # Requests report store errors themselves; the files are retried after the next one.
                print(f"Warning: could not sync the memory files: {error}", file=sys.stderr)
            self._closed.wait(max(MIN_SYNC_PAUSE, SYNC_PAUSE_FACTOR * (time.monotonic() - started)))
        self._handle.close()

    def _update(self, project: Project) -> None:
        self.is_active = project.store.memories.stats.count() > BACKGROUND_SYNC_THRESHOLD
        if self.is_active:
            project.files.check()
            self.problems = tuple(project.files.problems)
