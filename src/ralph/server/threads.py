"""Where requests are worked on: a few threads, each with a project opened for itself.

The loop that speaks HTTP never waits for the store; a store belongs to one thread.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from ralph.opened import Opened
from ralph.server.keeping import Keeper

if TYPE_CHECKING:
    from collections.abc import Callable

    from ralph.project import Project

R = TypeVar("R")

THREADS = 8
REST_SECONDS = 1.0
WRITERS = 4
"""So many of them at most change something: while somebody holds the database, the others go on reading."""


class Threads:
    """The threads of a server, for one project directory."""

    def __init__(self, root: str, count: int = THREADS) -> None:
        self.root = root
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="ralph")
        self._own = threading.local()
        self._all: list[Opened] = []
        self._turns = asyncio.Semaphore(WRITERS)
        self._keeper = Keeper(root, self._rest)
        self.hurry = self._keeper.hurry

    async def change(self, work: Callable[[Project], R]) -> R:
        """Give what comes of changing the project, in one of the threads."""
        async with self._turns:
            return await self.use(work)

    async def use(self, work: Callable[[Project], R]) -> R:
        """Give what comes of working with the project, in one of the threads."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._work, work)

    def _work(self, work: Callable[[Project], R]) -> R:
        opened: Opened | None = getattr(self._own, "opened", None)
        if opened is None:
            opened = self._own.opened = Opened(self.root)
            self._all.append(opened)
        try:
            return opened.use(lambda project: self._without_waiting(project, work))
        finally:
            self._keeper.ask()

    def _without_waiting(self, project: Project, work: Callable[[Project], R]) -> R:
        """Work with the project, and leave the files to the keeper where they would take long."""
        project.memory.is_paused = self._keeper.is_large
        project.memory.problems = list(self._keeper.problems if self._keeper.is_large else ())
        return work(project)

    def _rest(self) -> None:
        """Let each thread let go of what others could use, as long as nobody asks for anything."""
        together = threading.Barrier(len(self._all) or 1)  # or one thread could take all the turns

        def rest() -> None:
            try:
                together.wait(REST_SECONDS)
            except threading.BrokenBarrierError:
                return  # somebody asks for something again
            if opened := getattr(self._own, "opened", None):
                opened.rest()

        for _ in self._all:
            try:
                self._pool.submit(rest)
            except RuntimeError:  # the server has just ended
                return

    def close(self) -> None:
        """Finish what is at work, and let go of the store."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        for opened in self._all:
            opened.close()
        self._keeper.close()
