"""What the workers of one run share: the order and what is used of it, the person's signals, the memory files."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from ralph.errors import StoreNotWritableError
from ralph.files import trouble_of_disk
from ralph.loop.interrupt import Interrupts
from ralph.loop.order import RunEnding
from ralph.loop.progress import event, forgiving
from ralph.records import Outcome
from ralph.sharing import take_in
from ralph.store.patience import patiently
from ralph.sync import sync

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import TypeVar

    from ralph.agents import Agent
    from ralph.config import Config
    from ralph.errors import StoreError, StoreUnavailableError
    from ralph.loop.branches import Branches
    from ralph.loop.budget import Budget
    from ralph.loop.order import Order
    from ralph.loop.progress import Event, Tell
    from ralph.records import Attempt, Task
    from ralph.store import Store

    R = TypeVar("R")

AWAY_SECONDS = 600.0
"""So long a run waits for a database that cannot be reached."""
DISK_SECONDS = 24 * 3600.0
"""So long a run waits for a disk that is full: what mends that is a person, who may be asleep."""
LEAST_ROOM = 1024 * 1024
"""With less than so many bytes on the disk no attempt is begun: the agent could not write what it makes."""
LONGEST_LOOK_SECONDS = 5.0
SYNC_SECONDS = 0.5
MOST_OUTAGES = 10
"""So often in a row a model's service may fail before a run gives up: with the usual waits about half an hour."""
LONGEST_OUTAGE_SECONDS = 300.0
LOOK_SECONDS = 0.2
SAME_CRASHES = 5
"""So many equal crashes in a row, over more than one task, are the agent's fault and not the tasks'."""


class Crew:
    """One run, seen by each of its workers."""

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
        """`ask` gets a person's word after Ctrl+C, if there is a person."""
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
        """The names of all workers."""
        self.stopped: RunEnding | None = None
        """Why all workers have to stop, once one of them knows."""
        self.beginning = threading.Lock()
        """Held while a worker takes an iteration and a task: without a task it gives the iteration back."""
        self._tell = forgiving(tell)
        self._telling = threading.Lock()
        self._syncing = threading.Lock()
        self._counting = threading.Lock()
        self.is_alone = True
        """Whether no other run works in the same directory."""
        self._heard: set[str] = set()
        self._warned: set[str] = set()
        self._file_problems: set[str] = set()
        self._synced = -SYNC_SECONDS
        self._crash = ""
        self._crashed: list[str | None] = []
        """The tasks of the latest attempts, as long as all of them crashed for the same reason."""
        self._outages = 0
        """How many of the latest attempts could not use their model."""
        self._not_before = 0.0

    def tell(self, event: Event) -> None:
        """Tell those who watch, one event after the other."""
        with self._telling:
            self._tell(event)

    @property
    def wants_to_stop(self) -> bool:
        """Say whether sessions should be ended."""
        return self.interrupts.wanted or self.stopped is not None or self.budget.is_over_time()

    def unheard(self, ids: Sequence[str]) -> list[str]:
        """Give the memories that no worker has told of yet, and take them for told."""
        with self._counting:
            new = [id for id in dict.fromkeys(ids) if id not in self._heard]
            self._heard.update(new)
        return new

    def unwarned(self, names: Sequence[str]) -> list[str]:
        """Give the variables that no worker has warned of yet, and take them for told."""
        with self._counting:
            new = [name for name in names if name not in self._warned]
            self._warned.update(new)
        return new

    def note_crash(self, attempt: Attempt) -> bool:
        """Take note of an attempt; say whether the agent fails the same way whatever the task."""
        crash = attempt.reason if attempt.outcome is Outcome.ERROR and not attempt.excused else ""
        with self._counting:
            if crash != self._crash:
                self._crash, self._crashed = crash, []
            if crash:
                self._crashed.append(attempt.task_id)
            return len(self._crashed) >= SAME_CRASHES and len(set(self._crashed)) > 1

    def note_outage(self, attempt: Attempt) -> bool:
        """Take note whether an attempt could use its model; say whether that is hopeless."""
        with self._counting:
            if not attempt.excused:
                self._outages = 0
                return False
            self._outages += 1
            wait = min(LONGEST_OUTAGE_SECONDS, self.config.agent.outage_seconds * 2 ** (self._outages - 1))
            self._not_before = time.monotonic() + wait
            is_hopeless = self._outages >= MOST_OUTAGES
        if wait and not is_hopeless:
            self.tell(event("warning", message=f"The model's service failed: going on in {wait:g} s."))
        return is_hopeless

    def await_service(self) -> bool:
        """Wait until it is worth asking the model's service again; False when somebody wants to stop before."""
        while (left := self._not_before - time.monotonic()) > 0:
            if self.wants_to_stop:
                return False
            time.sleep(min(left, LOOK_SECONDS))
        return True

    # --- the disk ------------------------------------------------------------------

    def trouble_of_disk(self) -> str:
        """Say what keeps agents from writing, if anything does: then a failure says nothing about the task."""
        return trouble_of_disk(self.root, LEAST_ROOM)

    def await_room(self) -> bool:
        """Wait until there is room to work in; False when somebody wants to stop before, or nobody makes any."""
        trouble = self.trouble_of_disk()
        if not trouble:
            return True
        said = f"{trouble[0].upper()}{trouble[1:]}"
        self.tell(event("warning", message=f"{said}: no task is begun until there is room again."))
        deadline, pause = time.monotonic() + DISK_SECONDS, LOOK_SECONDS
        while self.trouble_of_disk():
            if self.wants_to_stop:
                return False
            if time.monotonic() > deadline:
                self.stopped = RunEnding.NO_DISK
                return False
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_LOOK_SECONDS)
        self.tell(event("note", message="There is room on the disk again."))
        return True

    def broken_by(self, error: StoreError) -> RunEnding:
        """Say what went wrong with the store, and give what that makes of the run."""
        self.tell(event("warning", message=str(error)))
        if self.interrupts.insists:
            return RunEnding.INTERRUPTED
        return RunEnding.NO_DISK if isinstance(error, StoreNotWritableError) else RunEnding.BROKEN

    # --- the store and the files ---------------------------------------------------

    def patiently(self, work: Callable[[], R], again: Callable[[], R] | None = None, *, is_settling: bool = False) -> R:
        """Do something, also when the database cannot be reached, or the disk is full, for a while.

        `again` is done instead when it was tried before, and may have been done without an answer. What settles an
        attempt is not given up when time is over or somebody wants to stop: a session's work would be lost.
        """
        began = time.monotonic()
        was_heard = False

        def gives_up(error: StoreUnavailableError) -> bool:
            nonlocal was_heard
            wants_to_stop = self.interrupts.wanted or self.budget.is_over_time()
            if self.interrupts.wanted and is_settling and not (was_heard or self.interrupts.insists):
                was_heard = True
                message = "What the session said is not stored yet: it waits for that. Ctrl+C again gives it up."
                self.tell(event("warning", message=message))
            waited = time.monotonic() - began
            is_over = waited > (DISK_SECONDS if isinstance(error, StoreNotWritableError) else AWAY_SECONDS)
            return is_over or self.interrupts.insists or (wants_to_stop and not is_settling)

        def tell(message: str, is_back: bool) -> None:
            self.tell(event("note" if is_back else "warning", message=message))

        return patiently(work, gives_up, tell, again)

    def sync(self, store: Store, *, soon: bool = False) -> None:
        """Take in what other projects share and what people wrote into the memory files; write out what was learned.

        With `soon` it is enough if that happened a moment ago, or is happening.
        """
        if not self._syncing.acquire(blocking=not soon):
            return
        try:
            if soon and time.monotonic() - self._synced < SYNC_SECONDS:
                return
            self._synced = time.monotonic()
            self._sync(store)
        finally:
            self._syncing.release()

    def _sync(self, store: Store) -> None:
        if self.config.memories.shared:
            self.patiently(lambda: take_in(store))
        if not self.config.memories.files:
            return
        for problem in self.patiently(lambda: sync(store, self.root)).problems:
            if problem not in self._file_problems:
                self._file_problems.add(problem)
                self.tell(event("warning", message=problem))
