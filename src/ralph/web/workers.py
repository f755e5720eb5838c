"""Thread pool for requests, with one open project per thread and actor.

The event loop never waits for the store, and a store belongs to one thread.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from ralph.core.actor import PERSON
from ralph.integrations.background_sync import BackgroundSync
from ralph.integrations.project_handle import ProjectHandle
from ralph.store import FigureCache

if TYPE_CHECKING:
    from collections.abc import Callable

    from ralph.core.actor import Actor
    from ralph.project import Project

R = TypeVar("R")

READER_THREADS = 5
"""Number of threads that read."""
WRITER_THREADS = 3
"""Number of threads that write, so that no write waits behind many reads, and no read for a locked database."""


class SharedFigures:
    """Figures that the threads of a server compute once for all of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: tuple[tuple[float, ...], FigureCache] = ((), FigureCache())

    def of(self, settings: tuple[float, ...]) -> FigureCache:
        """Return the cache for these settings and this database; after a change of either it is a new one."""
        with self._lock:
            if self._latest[0] != settings:
                self._latest = settings, FigureCache()
            return self._latest[1]


class ProjectThreads:
    """Worker threads of a server for one project directory."""

    def __init__(self, root: str, *, is_read_only: bool = False) -> None:
        self.root = root
        self._is_read_only = is_read_only
        self._readers = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="ralph")
        self._writers = ThreadPoolExecutor(WRITER_THREADS, thread_name_prefix="ralph-writer")
        self._others = ThreadPoolExecutor(1, thread_name_prefix="ralph-other")
        self._local = threading.local()
        self._handles: list[ProjectHandle] = []
        self._background = None if is_read_only else BackgroundSync(root)
        self._figures = SharedFigures()

    @property
    def leaves_files_to_background(self) -> bool:
        """Whether no request syncs the memory files itself."""
        return self._background is not None and self._background.is_active

    @property
    def file_problems(self) -> tuple[str, ...]:
        """What the background found wrong with the memory files."""
        return tuple(self._background.problems) if self._background else ()

    async def run(self, work: Callable[[], R]) -> R:
        """Run a function that needs no project in a thread and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._others, work)

    async def use(self, work: Callable[[Project], R], actor: Actor = PERSON, *, is_write: bool = False) -> R:
        """Run a function with the project of an actor in a worker thread and return its result."""
        return await self.use_handle(lambda handle: handle.call_with_project(work), actor, is_write=is_write)

    async def use_handle(self, work: Callable[[ProjectHandle], R], actor: Actor, *, is_write: bool) -> R:
        """Run a function with the handle of an actor's project in a worker thread and return its result."""

        def run() -> R:
            return work(self._handle(actor))

        pool = self._writers if is_write else self._readers
        return await asyncio.get_running_loop().run_in_executor(pool, run)

    def _handle(self, actor: Actor) -> ProjectHandle:
        """Return this thread's handle for an actor."""
        handles: dict[str, ProjectHandle] = self._local.__dict__
        kind = "session" if actor.is_loop_session else actor.kind  # one at a time of the many sessions there may be
        if kind in handles and handles[kind].actor != actor:
            handles[kind].close()
            self._handles.remove(handles.pop(kind))
        if kind not in handles:
            handles[kind] = ProjectHandle(
                self.root, actor, self._background, self._figures.of, is_read_only=self._is_read_only
            )
            self._handles.append(handles[kind])
        return handles[kind]

    def close(self) -> None:
        """Finish running requests and close all projects."""
        for pool in (self._readers, self._writers, self._others):
            pool.shutdown(wait=True, cancel_futures=True)
        for handle in self._handles:
            handle.close()
        if self._background:
            self._background.close()
