"""State shared by the workers of one run: options, budget, interrupts and the memory files."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from ralph.core.errors import StoreError, StoreNotWritableError
from ralph.core.files import disk_problem
from ralph.core.records import TaskStatus
from ralph.formats.sync import sync
from ralph.loop.availability import STOP_POLL_SECONDS, AgentAvailability
from ralph.loop.brakes import AgentBrake, RetryTurns
from ralph.loop.environment import missing_variables, missing_variables_hint
from ralph.loop.git.settings import GitSettings
from ralph.loop.git.snapshots import ChangeDetector
from ralph.loop.integrity.dependencies import InstalledPackages
from ralph.loop.integrity.run_base import RunBase
from ralph.loop.interrupt import Interrupts
from ralph.loop.options import RunEnding
from ralph.loop.progress import ignore_output_errors, progress_event
from ralph.loop.steering import PAUSE, STOP
from ralph.loop.waits import FULL_DISK, NO_DATABASE, PAUSED
from ralph.memory.sharing import import_shared
from ralph.store.retry import retrying

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import TypeVar

    from ralph.agents import Agent
    from ralph.core.config import Config
    from ralph.core.errors import StoreUnavailableError
    from ralph.core.records import SessionEnding, Task
    from ralph.loop.git.branches import TaskBranches
    from ralph.loop.git.serial import SerialWork
    from ralph.loop.limits import Budget
    from ralph.loop.options import RunOptions
    from ralph.loop.progress import EventHandler, ProgressEvent
    from ralph.loop.waits import WaitTimes
    from ralph.store import Store
    from ralph.store.retry import Retry

    R = TypeVar("R")

DATABASE_WAIT_SECONDS = 600.0
"""Time a run waits for a database that cannot be reached, in seconds."""
DISK_WAIT_SECONDS = 24 * 3600.0
"""Time a run waits for a full disk, in seconds; long, because the person who can free space may be asleep."""
MIN_FREE_BYTES = 1024 * 1024
"""Free disk space required to start an attempt, in bytes."""
MAX_POLL_SECONDS = 5.0
"""Maximum interval between checks of the disk, in seconds."""
MIN_SYNC_INTERVAL_SECONDS = 0.5
"""Minimum interval between two syncs of the memory files, in seconds."""


class RunContext:
    """Context of one run, shared by all of its workers."""

    def __init__(
        self,
        *,
        run_id: str,
        agents: Sequence[Agent],
        config: Config,
        root: Path,
        run_options: RunOptions,
        budget: Budget,
        emit: EventHandler,
        ask_feedback: Callable[[Task], str] | None,
        branches: TaskBranches | None,
        on_wait: Callable[[str, str], None],
        waits: WaitTimes,
    ) -> None:
        """`agents` are the agent of the run and those that go on while it waits for its model.

        `ask_feedback` asks a person for feedback after Ctrl+C; None when nobody is at the terminal. `on_wait` records
        that the run waits, and `waits` how long.
        """
        self.run_id = run_id
        self.config = config
        self.root = root
        self.run_options = run_options
        self.budget = budget
        self.ask_feedback = ask_feedback
        self.branches = branches
        self.base = _open_base(config, root) if branches is None else None
        """State of the directory before the run, in which one task after another works; None with worktrees."""
        self.installed = InstalledPackages(root, is_compared=_compares(config))
        self.git_settings = GitSettings(root)
        self.changes = ChangeDetector(root)
        """Detection of what sessions change in the directory of the run."""
        self.interrupts = Interrupts()
        self.worker_names: set[str] = set()
        """Names of all workers."""
        self.stop_reason: RunEnding | None = None
        """Reason for all workers to stop, once one of them has found it."""
        self.claim_lock = threading.Lock()
        """Held while a worker reserves an iteration and claims a task."""
        self._emit = ignore_output_errors(emit)
        self._emit_lock = threading.Lock()
        self.availability = AgentAvailability(agents, config.agent.outage_seconds, self.emit, on_wait, waits)
        self.waits = waits
        self._sync_lock = threading.Lock()
        self._state_lock = threading.Lock()
        self._is_paused = False
        self.work: SerialWork | None = None
        """Commits of a serial run; None if it makes none."""
        self.not_committed = ""
        """Why work is not committed, as a sentence for the person; empty if it is."""
        self.is_only_run = True
        """Whether no other run uses the same directory."""
        self._announced: set[str] = set()
        self._file_problems: set[str] = set()
        self._last_sync = -MIN_SYNC_INTERVAL_SECONDS
        self._tasks_left = 0
        self._waiting_tasks: set[str | None] = set()
        """Tasks that this run has left to a person."""
        self.brake = AgentBrake()
        self.turns = RetryTurns()
        self.fruitless: dict[str, frozenset[SessionEnding]] = {}
        """How sessions that got nowhere have ended, by task."""

    def emit(self, event: ProgressEvent) -> None:
        """Emit an event to whoever watches the run; safe to call from any thread."""
        with self._emit_lock:
            self._emit(event)

    def record_status(self, task_id: str | None, status: TaskStatus) -> None:
        """Record the status of a task after an attempt, to count those that wait for a person."""
        with self._state_lock:
            (self._waiting_tasks.add if status is TaskStatus.BLOCKED else self._waiting_tasks.discard)(task_id)

    def record_claim(self, task_id: str) -> None:
        """Record that a task is worked on; one that waited for a person has been answered."""
        with self._state_lock:
            if task_id in self._waiting_tasks:
                self._waiting_tasks.remove(task_id)
                self._tasks_left += 1

    def run_progress(self, store: Store | None = None) -> dict[str, object]:
        """Return how far the run is: tasks, cost, time, and when the usage limit resets.

        Tasks that are left are counted with a store; without one, they are as many as last time.
        """
        used, waiting = self.budget.used, len(self._waiting_tasks)
        if self.run_options.only is not None:
            self._tasks_left = int(not used.done and not waiting)
        elif store:
            with suppress(StoreError):  # the run itself notices and reports what is wrong
                self._tasks_left = store.tasks.progress.count_open()
        return {
            "done": used.done,
            "total": used.done + waiting + self._tasks_left,
            "waiting": waiting,
            "cost_usd": used.cost_usd,
            "seconds": used.seconds,
            "next_reset": self.availability.next_reset,
        }

    @property
    def should_stop(self) -> bool:
        """Whether agent sessions should be stopped."""
        return self.interrupts.is_requested or self.stop_reason is not None or self.budget.is_over_time()

    def handle_request(self, request: str) -> None:
        """Do what a person asks of the run from elsewhere."""
        if request == STOP:
            self.stop_reason = self.stop_reason or RunEnding.STOPPED
        elif self._is_paused != (request == PAUSE):
            self._is_paused = request == PAUSE
            message = "Pausing after the current attempt. To continue: ralph resume"
            self.emit(progress_event("note", message=message if self._is_paused else "Continuing."))

    def wait_while_paused(self, emit: EventHandler) -> None:
        """Wait until a person continues or ends a paused run; `emit` is told once."""
        if self._is_paused and not self.should_stop:
            emit(progress_event("paused"))
        while self._is_paused and not self.should_stop:
            since = time.monotonic()
            time.sleep(STOP_POLL_SECONDS)
            self.waits.add(PAUSED, since)

    def claim_unannounced(self, names: Sequence[str]) -> list[str]:
        """Return the memory ids or variables that no worker has announced yet, and mark them as announced."""
        with self._state_lock:
            new = [name for name in dict.fromkeys(names) if name not in self._announced]
            self._announced.update(new)
        return new

    def warn_missing_variables(self, output: str, environment: Mapping[str, str], emit: EventHandler) -> None:
        """Warn once about variables that are set here, named in the output, and not passed on."""
        if names := self.claim_unannounced(missing_variables(output, environment)):
            emit(progress_event("warning", message=missing_variables_hint(names)))

    def wait_for_agent(self) -> Agent | None:
        """Return the agent for the next attempt once it can use its model; None if the run is to end."""
        agent = self.availability.wait_for_agent(lambda: self.should_stop, self.budget.seconds_left())
        if agent is None and not self.should_stop:
            self.stop_reason = RunEnding.LIMIT_MINUTES  # the usage limit is reset later than the run may go on
        return agent

    # --- the disk ------------------------------------------------------------------

    def disk_problem(self) -> str:
        """Return why agents cannot write to the disk, or an empty string."""
        return disk_problem(self.root, MIN_FREE_BYTES)

    def wait_for_disk(self) -> bool:
        """Wait until the disk has free space; return False if asked to stop or if that takes too long."""
        problem = self.disk_problem()
        if not problem:
            return True
        message = f"{problem[0].upper()}{problem[1:]}. No task is started until there is free space again."
        self.emit(progress_event("warning", message=message))
        deadline, pause = time.monotonic() + DISK_WAIT_SECONDS, STOP_POLL_SECONDS
        while self.disk_problem():
            if self.should_stop:
                return False
            if time.monotonic() > deadline:
                self.stop_reason = RunEnding.NO_DISK
                return False
            since = time.monotonic()
            time.sleep(pause)
            self.waits.add(FULL_DISK, since)
            pause = min(2 * pause, MAX_POLL_SECONDS)
        self.emit(progress_event("note", message="The disk has free space again."))
        return True

    def ending_for_store_error(self, error: StoreError) -> RunEnding:
        """Report a store error and return how it ends the run."""
        self.emit(progress_event("warning", message=str(error)))
        if self.interrupts.is_forced:
            return RunEnding.INTERRUPTED
        return RunEnding.NO_DISK if isinstance(error, StoreNotWritableError) else RunEnding.BROKEN

    # --- the store and the files ---------------------------------------------------

    def retrying(self, *, is_settling: bool = False) -> Iterator[Retry]:
        """Yield tries of an operation on the store while the database cannot be reached or the disk is full.

        With `is_settling`, retries go on past the time limit and the first Ctrl+C, so that no work is lost.
        """
        began = time.monotonic()
        has_warned, reason = False, NO_DATABASE

        def should_give_up(error: StoreUnavailableError) -> bool:
            nonlocal has_warned, reason
            reason = FULL_DISK if isinstance(error, StoreNotWritableError) else NO_DATABASE
            wants_to_stop = self.interrupts.is_requested or self.budget.is_over_time()
            if self.interrupts.is_requested and is_settling and not (has_warned or self.interrupts.is_forced):
                has_warned = True
                message = "The result of the session is not stored yet. Press Ctrl+C again to discard it and stop."
                self.emit(progress_event("warning", message=message))
            limit = DISK_WAIT_SECONDS if isinstance(error, StoreNotWritableError) else DATABASE_WAIT_SECONDS
            is_over = time.monotonic() - began > limit
            return is_over or self.interrupts.is_forced or (wants_to_stop and not is_settling)

        def report(message: str, is_available: bool) -> None:
            if is_available:
                self.waits.add(reason, began)
            self.emit(progress_event("note" if is_available else "warning", message=message))

        return retrying(should_give_up, report)

    def with_retries(self, work: Callable[[], R], *, is_settling: bool = False) -> R:
        """Call `work` with retries and return its result."""
        for retry in self.retrying(is_settling=is_settling):
            with retry:
                result = work()
        return result

    def text_finder(self, store: Store) -> Callable[[Sequence[str]], list[str]]:
        """Return a function that finds stored texts, with retries."""
        return lambda fragments: self.with_retries(lambda: store.find_texts(fragments))

    def sync_memories(self, store: Store, *, skip_if_recent: bool = False, is_by_agent: bool = True) -> None:
        """Import shared memories and edits to the memory files, and write new memories to those files.

        With `skip_if_recent`, do nothing if a sync has just finished or is under way. Until the first session, files
        are not changed by agents (`is_by_agent`).
        """
        if not self._sync_lock.acquire(blocking=not skip_if_recent):
            return
        try:
            if skip_if_recent and time.monotonic() - self._last_sync < MIN_SYNC_INTERVAL_SECONDS:
                return
            self._last_sync = time.monotonic()
            self._sync(store, is_by_agent)
        finally:
            self._sync_lock.release()

    def _sync(self, store: Store, is_by_agent: bool) -> None:
        if self.config.memories.shared:
            self.with_retries(lambda: import_shared(store))
        if not self.config.memories.files:
            return
        for problem in self.with_retries(lambda: sync(store, self.root, is_by_agent=lambda: is_by_agent)).problems:
            if problem not in self._file_problems:
                self._file_problems.add(problem)
                self.emit(progress_event("warning", message=problem))


def _open_base(config: Config, root: Path) -> RunBase | None:
    execution = config.execution
    return RunBase(root, execution.protect, execution.gates) if _compares(config) else None


def _compares(config: Config) -> bool:
    """Return whether gates decide, so that what they depend on is compared."""
    return config.execution.verify and bool(config.execution.gates)
