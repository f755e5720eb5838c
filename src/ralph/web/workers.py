"""Thread pool for requests, with one open project per thread.

The event loop never waits for the store, and a store belongs to one thread.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from ralph.core.actor import PERSON, Actor
from ralph.integrations.project_handle import ProjectHandle
from ralph.web.file_sync import FileSyncThread

if TYPE_CHECKING:
    from collections.abc import Callable

    from ralph.project import Project

R = TypeVar("R")

THREAD_COUNT = 8
"""Number of threads."""
IDLE_BARRIER_TIMEOUT = 1.0
"""Time to wait for all threads to become idle, in seconds."""
MAX_WRITERS = 4
"""Maximum number of threads that write, so that the others can read while the database is locked."""


class ProjectThreads:
    """Worker threads of a server for one project directory."""

    def __init__(self, root: str, actor: Actor = PERSON, count: int = THREAD_COUNT) -> None:
        self.root = root
        self._actor = actor
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="ralph")
        self._local = threading.local()
        self._all: list[ProjectHandle] = []
        self._writer_slots = asyncio.Semaphore(MAX_WRITERS)
        self._keeper = FileSyncThread(root, self._release_idle)
        self.skip_final_sync = self._keeper.skip_final_sync

    async def use_for_writing(self, work: Callable[[Project], R]) -> R:
        """Run a function that changes the project in a worker thread and return its result."""
        async with self._writer_slots:
            return await self.use(work)

    async def use(self, work: Callable[[Project], R]) -> R:
        """Run a function with the project in a worker thread and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._run, work)

    def _run(self, work: Callable[[Project], R]) -> R:
        handle: ProjectHandle | None = getattr(self._local, "handle", None)
        if handle is None:
            handle = self._local.handle = ProjectHandle(self.root, self._actor)
            self._all.append(handle)
        try:
            return handle.call_with_project(work, sync=not self._keeper.is_large, problems=self._keeper.problems)
        finally:
            self._keeper.request_sync()

    def _release_idle(self) -> None:
        """Release the store resources of every thread while there are no requests."""
        # Without the barrier, one thread could execute all submitted calls.
        barrier = threading.Barrier(len(self._all) or 1)

        def release() -> None:
            try:
                barrier.wait(IDLE_BARRIER_TIMEOUT)
            except threading.BrokenBarrierError:
                return  # some threads are busy with requests again
            if handle := getattr(self._local, "handle", None):
                handle.release()

        for _ in self._all:
            try:
                self._pool.submit(release)
            except RuntimeError:  # the pool has been shut down
                return

    def close(self) -> None:
        """Finish running requests and close all projects."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        for opened in self._all:
            opened.close()
        self._keeper.close()
