"""State shared by the workers of one run: options, budget, interrupts and the memory files."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from ralph.core.errors import StoreNotWritableError
from ralph.core.files import trouble_of_disk
from ralph.core.records import Outcome
from ralph.formats.sync import sync
from ralph.loop.interrupt import Interrupts
from ralph.loop.options import RunEnding
from ralph.loop.progress import event, forgiving
from ralph.memory.sharing import import_shared
from ralph.store.retry import patiently

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import TypeVar

    from ralph.agents import Agent
    from ralph.core.config import Config
    from ralph.core.errors import StoreError, StoreUnavailableError
    from ralph.core.records import Attempt, Task
    from ralph.loop.git.branches import Branches
    from ralph.loop.limits import Budget
    from ralph.loop.options import Order
    from ralph.loop.progress import Event, Tell
    from ralph.store import Store

    R = TypeVar("R")

AWAY_SECONDS = 600.0
"""Time a run waits for a database that cannot be reached, in seconds."""
DISK_SECONDS = 24 * 3600.0
"""Time a run waits for a full disk, in seconds; long, because the person who can free space may be asleep."""
LEAST_ROOM = 1024 * 1024
"""Free disk space required to start an attempt, in bytes."""
LONGEST_LOOK_SECONDS = 5.0
"""Maximum interval between checks of the disk, in seconds."""
SYNC_SECONDS = 0.5
"""Minimum interval between two syncs of the memory files, in seconds."""
MOST_OUTAGES = 10
"""Consecutive model outages after which a run stops; about half an hour with the default backoff."""
LONGEST_OUTAGE_SECONDS = 300.0
"""Upper bound of the backoff after a model outage, in seconds."""
LOOK_SECONDS = 0.2
"""Poll interval while waiting, in seconds."""
SAME_CRASHES = 5
"""Identical consecutive crashes, across more than one task, that are blamed on the agent."""


class Crew:
    """Context of one run, shared by all of its workers."""

    def __init__(
        self,
        *,
        run_id: str,
        agent: Agent,
        config: Config,
        root: Path,
        order: Order,
        budget: Budget,
        tell: Tell,
        ask: Callable[[Task], str] | None,
        branches: Branches | None,
    ) -> None:
        """`ask` asks a person for feedback after Ctrl+C; None when nobody is at the terminal."""
        self.run_id = run_id
        self.agent = agent
        self.config = config
        self.root = root
        self.order = order
        self.budget = budget
        self.ask = ask
        self.branches = branches
        self.interrupts = Interrupts()
        self.workers: set[str] = set()
        """Names of all workers."""
        self.stopped: RunEnding | None = None
        """Reason for all workers to stop, once one of them has found it."""
        self.beginning = threading.Lock()
        """Held while a worker reserves an iteration and claims a task."""
        self._emit = forgiving(tell)
        self._emit_lock = threading.Lock()
        self._sync_lock = threading.Lock()
        self._state_lock = threading.Lock()
        self.is_alone = True
        """Whether no other run uses the same directory."""
        self._announced: set[str] = set()
        self._warned: set[str] = set()
        self._file_problems: set[str] = set()
        self._last_sync = -SYNC_SECONDS
        self._crash_reason = ""
        self._crashed_tasks: list[str | None] = []
        """Task ids of the latest attempts, as long as all of them crashed for the same reason."""
        self._outages = 0
        """Number of consecutive attempts that could not use their model."""
        self._not_before = 0.0

    def tell(self, event: Event) -> None:
        """Emit an event to whoever watches the run; safe to call from any thread."""
        with self._emit_lock:
            self._emit(event)

    @property
    def wants_to_stop(self) -> bool:
        """Whether agent sessions should be stopped."""
        return self.interrupts.wanted or self.stopped is not None or self.budget.is_over_time()

    def unheard(self, ids: Sequence[str]) -> list[str]:
        """Return the ids of memories no worker has announced yet, and mark them as announced."""
        with self._state_lock:
            new = [id for id in dict.fromkeys(ids) if id not in self._announced]
            self._announced.update(new)
        return new

    def unwarned(self, names: Sequence[str]) -> list[str]:
        """Return the variables no worker has warned about yet, and mark them as reported."""
        with self._state_lock:
            new = [name for name in names if name not in self._warned]
            self._warned.update(new)
        return new

    def note_crash(self, attempt: Attempt) -> bool:
        """Record an attempt and return whether the agent crashes the same way on every task."""
        crash = attempt.reason if attempt.outcome is Outcome.ERROR and not attempt.excused else ""
        with self._state_lock:
            if crash != self._crash_reason:
                self._crash_reason, self._crashed_tasks = crash, []
            if crash:
                self._crashed_tasks.append(attempt.task_id)
            return len(self._crashed_tasks) >= SAME_CRASHES and len(set(self._crashed_tasks)) > 1

    def note_outage(self, attempt: Attempt) -> bool:
        """Record whether an attempt could use its model and return whether the run should give up."""
        with self._state_lock:
            if not attempt.excused:
                self._outages = 0
                return False
            self._outages += 1
            wait = min(LONGEST_OUTAGE_SECONDS, self.config.agent.outage_seconds * 2 ** (self._outages - 1))
            self._not_before = time.monotonic() + wait
            is_hopeless = self._outages >= MOST_OUTAGES
        if wait and not is_hopeless:
            self.tell(event("warning", message=f"The model service failed. Retrying in {wait:g} s."))
        return is_hopeless

    def await_service(self) -> bool:
        """Wait out the backoff after a model outage; return False if asked to stop meanwhile."""
        while (left := self._not_before - time.monotonic()) > 0:
            if self.wants_to_stop:
                return False
            time.sleep(min(left, LOOK_SECONDS))
        return True

    # --- the disk ------------------------------------------------------------------

    def trouble_of_disk(self) -> str:
        """Return why agents cannot write to the disk, or an empty string."""
        return trouble_of_disk(self.root, LEAST_ROOM)

    def await_room(self) -> bool:
        """Wait until the disk has free space; return False if asked to stop or if that takes too long."""
        problem = self.trouble_of_disk()
        if not problem:
            return True
        message = f"{problem[0].upper()}{problem[1:]}. No task is started until there is free space again."
        self.tell(event("warning", message=message))
        deadline, pause = time.monotonic() + DISK_SECONDS, LOOK_SECONDS
        while self.trouble_of_disk():
            if self.wants_to_stop:
                return False
            if time.monotonic() > deadline:
                self.stopped = RunEnding.NO_DISK
                return False
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_LOOK_SECONDS)
        self.tell(event("note", message="The disk has free space again."))
        return True

    def broken_by(self, error: StoreError) -> RunEnding:
        """Report a store error and return how it ends the run."""
        self.tell(event("warning", message=str(error)))
        if self.interrupts.insists:
            return RunEnding.INTERRUPTED
        return RunEnding.NO_DISK if isinstance(error, StoreNotWritableError) else RunEnding.BROKEN

    # --- the store and the files ---------------------------------------------------

    def patiently(self, work: Callable[[], R], again: Callable[[], R] | None = None, *, is_settling: bool = False) -> R:
        """Call `work`, retrying while the database cannot be reached or the disk is full.

        Retries call `again` if given, because the first call may have been committed without an answer. With
        `is_settling`, retries go on past the time limit and the first Ctrl+C, so that a session's work is not lost.
        """
        began = time.monotonic()
        has_warned = False

        def gives_up(error: StoreUnavailableError) -> bool:
            nonlocal has_warned
            wants_to_stop = self.interrupts.wanted or self.budget.is_over_time()
            if self.interrupts.wanted and is_settling and not (has_warned or self.interrupts.insists):
                has_warned = True
                message = "The result of the session is not stored yet. Press Ctrl+C again to discard it and stop."
                self.tell(event("warning", message=message))
            waited = time.monotonic() - began
            is_over = waited > (DISK_SECONDS if isinstance(error, StoreNotWritableError) else AWAY_SECONDS)
            return is_over or self.interrupts.insists or (wants_to_stop and not is_settling)

        def tell(message: str, is_back: bool) -> None:
            self.tell(event("note" if is_back else "warning", message=message))

        return patiently(work, gives_up, tell, again)

    def sync(self, store: Store, *, soon: bool = False) -> None:
        """Import shared memories and edits to the memory files, and write new memories to those files.

        With `soon`, do nothing if a sync has just finished or is under way.
        """
        if not self._sync_lock.acquire(blocking=not soon):
            return
        try:
            if soon and time.monotonic() - self._last_sync < SYNC_SECONDS:
                return
            self._last_sync = time.monotonic()
            self._sync(store)
        finally:
            self._sync_lock.release()

    def _sync(self, store: Store) -> None:
        if self.config.memories.shared:
            self.patiently(lambda: import_shared(store))
        if not self.config.memories.files:
            return
        for problem in self.patiently(lambda: sync(store, self.root)).problems:
            if problem not in self._file_problems:
                self._file_problems.add(problem)
                self.tell(event("warning", message=problem))
