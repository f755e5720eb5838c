"""The memory files of a large project, kept in step beside the requests instead of inside each.

To write the file anew takes long when it holds thousands of memories, and whoever asks something need not wait for it:
what is acknowledged is in the store. In a small project every request does it itself, as every command does.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING

from ralph.errors import RalphError
from ralph.opened import Opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from ralph.project import Project

LARGE = 1_000
"""With more memories than that, requests leave the files to us."""
LEAST_SECONDS = 0.5
LONG_SECONDS = 1.0
IDLE_SECONDS = 10.0
SHARE = 5
"""Of the time, at most one part in so many goes into the files."""


class Keeper:
    """A thread that brings the files in step after requests, and lets go of what nobody needs when there are none."""

    def __init__(self, root: str, rest: Callable[[], None]) -> None:
        """`rest` lets go of what others could use; it is called when nothing was asked for a while."""
        self.is_large = False
        """Whether requests leave the files alone."""
        self.problems: tuple[str, ...] = ()
        """What is wrong with the files of a large project, one sentence each."""
        self._rest = rest
        self._opened = Opened(root)
        self._asked = threading.Event()
        self._ended = threading.Event()
        self._hurried = threading.Event()
        self._opened.use(self._measure)
        self._thread = threading.Thread(target=self._run, name="ralph-files", daemon=True)
        self._thread.start()

    def ask(self) -> None:
        """Say that there was a request: the files may be behind, or a person may have changed them."""
        self._asked.set()

    def hurry(self) -> None:
        """Do not wait for the files any more: the next command brings them in step."""
        self._hurried.set()

    def close(self) -> None:
        """Bring the files in step once more, and end."""
        self._ended.set()
        self._asked.set()
        self._thread.join(LONG_SECONDS)
        if self._thread.is_alive():
            print("Bringing the memory files in step; Ctrl+C leaves that to the next command.", flush=True)
        while self._thread.is_alive() and not self._hurried.is_set():
            self._thread.join(0.1)

    # --- the thread -----------------------------------------------------------------------

    def _run(self) -> None:
        try:
            is_last = is_resting = False
            while not is_last:
                if not self._asked.wait(None if is_resting else IDLE_SECONDS):
                    is_resting = True
                    self._opened.rest()
                    self._rest()
                    continue
                is_resting = False
                self._asked.clear()
                is_last = self._ended.is_set()
                self._ended.wait(max(LEAST_SECONDS, SHARE * self._kept_in()))
        finally:
            self.is_large = False  # whatever ended this thread: requests look after the files themselves
            self._opened.close()

    def _kept_in(self) -> float:
        """Bring the files in step; give how long it took."""
        started = time.monotonic()
        try:
            self._opened.use(self._keep)
        except RalphError as error:
            # Every request that needs the store says so itself; the files are tried again after the next one.
            print(f"Warning: the memory files could not be brought up to date: {error}", file=sys.stderr)
        return time.monotonic() - started

    def _keep(self, project: Project) -> None:
        self._measure(project)
        if self.is_large:
            project.memory.sync()
            if not self._ended.is_set():
                project.memory.look_at_files()
                self.problems = tuple(project.memory.problems)

    def _measure(self, project: Project) -> None:
        self.is_large = project.store.memories.count() > LARGE
