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

if TYPE_CHECKING:
    from collections.abc import Callable

    from ralph.core.actor import Actor
    from ralph.project import Project

R = TypeVar("R")

THREAD_COUNT = 8
"""Number of threads."""
MAX_WRITERS = 4
"""Maximum number of threads that write, so that the others can read while the database is locked."""


class ProjectThreads:
    """Worker threads of a server for one project directory."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._pool = ThreadPoolExecutor(THREAD_COUNT, thread_name_prefix="ralph")
        self._local = threading.local()
        self._handles: list[ProjectHandle] = []
        self._writer_slots = asyncio.Semaphore(MAX_WRITERS)
        self._background = BackgroundSync(root)

    async def run(self, work: Callable[[], R]) -> R:
        """Run a function in a worker thread and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def use(self, work: Callable[[Project], R], actor: Actor = PERSON, *, is_write: bool = False) -> R:
        """Run a function with the project of an actor in a worker thread and return its result."""
        return await self.use_handle(lambda handle: handle.call_with_project(work), actor, is_write=is_write)

    async def use_handle(self, work: Callable[[ProjectHandle], R], actor: Actor, *, is_write: bool) -> R:
        """Run a function with the handle of an actor's project in a worker thread and return its result."""

        def run() -> R:
            return work(self._handle(actor))

        if not is_write:
            return await self.run(run)
        async with self._writer_slots:
            return await self.run(run)

    def _handle(self, actor: Actor) -> ProjectHandle:
        """Return this thread's handle for an actor."""
        handles: dict[str, ProjectHandle] = self._local.__dict__
        kind = "session" if actor.is_loop_session else actor.kind  # one at a time of the many sessions there may be
        if kind in handles and handles[kind].actor != actor:
            handles[kind].close()
            self._handles.remove(handles.pop(kind))
        if kind not in handles:
            handles[kind] = ProjectHandle(self.root, actor, self._background)
            self._handles.append(handles[kind])
        return handles[kind]

    def close(self) -> None:
        """Finish running requests and close all projects."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        for handle in self._handles:
            handle.close()
        self._background.close()
