"""Worker of a run: claims one task after another and settles each attempt."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from ralph.core.errors import ClaimLostError, RalphError, StatementError, StoreError
from ralph.core.records import Outcome, Status, now, replace
from ralph.loop import progress
from ralph.loop.attempt import Iteration
from ralph.loop.options import RunEnding
from ralph.loop.progress import event
from ralph.loop.workers import Heartbeat, vanished, worker_name
from ralph.memory.freshness import check, confirm, confirmed_by
from ralph.store.memories import Change
from ralph.store.tasks import TASKS

if TYPE_CHECKING:
    from collections.abc import Collection

    from ralph.core.records import Attempt, Capture, Memory
    from ralph.loop.context import Crew
    from ralph.loop.progress import Event
    from ralph.store import Store
    from ralph.store.attempts import Begun
    from ralph.store.database import Watch

POLL_SECONDS = 1.0
"""Interval at which an idle worker looks for tasks of dead workers, in seconds; task changes wake it at once."""
SHARED_POLL_SECONDS = 5.0
"""The same interval on a shared server, in seconds."""
WAKE_SECONDS = 0.5
"""Longest uninterruptible wait for a task change, in seconds."""
MOST_HEARD = 1_000
"""Maximum number of memory events read between two iterations."""
SHOWN_HEARD = 3
"""Number of titles listed when other workers' memories are announced."""
LEARNED = ("added", "imported", "revived")
"""Event names of memories that are new in this project."""
SUM_EVERY = 500
"""Number of iterations between two refreshes of the attempt statistics."""


class Worker:
    """Loop that works on tasks until none is left, a limit is reached or the run is stopped."""

    def __init__(self, crew: Crew, store: Store, number: int = 0) -> None:
        """`number` identifies a worker within its run; 0 when there is only one."""
        self._crew = crew
        self._store = store
        self._config = crew.config
        self._order = crew.order
        self._number = number
        self._worker = worker_name(number)
        crew.workers.add(self._worker)
        self._heartbeat = Heartbeat(store.reopen, crew.config.execution.lease_seconds)
        self._is_waiting = False
        self._watch: Watch | None = None
        self._last_event = 0
        """Sequence number of the newest memory event this worker has read."""
        self._own_changes: set[str] = set()
        """`why` of the changes made by this worker's own attempts."""
        self._own_attempts: set[tuple[object, ...]] = set()
        """Run, task and number of its attempts, whose agents may add memories from the command line."""

    def work(self) -> RunEnding:
        """Work on tasks until all are done, a limit is reached or a person stops the run."""
        with self._heartbeat:
            try:
                self._last_event = self._crew.patiently(self._store.memories.last_event)
                return self._run_iterations()
            finally:
                self._stop_watching()

    def recover(self) -> None:
        """Release the claims of workers on this machine that were killed."""
        self._release_claims(vanished({task.claimed_by for task in self._store.tasks.claimed() if task.claimed_by}))

    def give_up(self) -> None:
        """Release this worker's own claims after a crash."""
        self._release_claims({self._worker})

    def _release_claims(self, workers: Collection[str]) -> None:
        for task_id in self._store.attempts.recover(workers):
            self._emit(event("recovered", task_id=task_id))

    def _emit(self, event: Event) -> None:
        if self._number:
            event = replace(event, details={**event.details, "worker": self._number})
        self._crew.tell(event)

    def _run_iterations(self) -> RunEnding:
        crew = self._crew
        while (limit := crew.budget.limit()) is None:
            if crew.stopped:
                return crew.stopped
            if crew.interrupts.wanted:
                return RunEnding.INTERRUPTED
            crew.sync(self._store, soon=True)
            self._announce_memories()
            with crew.beginning:
                if not crew.budget.take():
                    limit = RunEnding.LIMIT_ITERATIONS
                    break
                if not (crew.await_service() and crew.await_room()):
                    crew.budget.give_back()
                    continue
                begun = self._claim()
                if begun is None:
                    crew.budget.give_back()
            ending = self._iterate(begun) if begun else self._crew.patiently(self._reason_to_stop)
            if ending is not None:
                return ending
            if begun is None:
                self._wait()
                self._crew.patiently(self.recover)
        return limit if self._crew.patiently(self._store.tasks.has_open) else RunEnding.COMPLETE

    def _claim(self) -> Begun | None:
        is_held_out = bool(self._order.holdout) and random.random() < self._order.holdout  # noqa: S311

        def begin() -> Begun | None:
            return self._store.attempts.begin(
                self._crew.run_id,
                self._worker,
                self._config.execution.lease_seconds,
                agent=self._crew.agent.name,
                only=self._order.only,
                with_memory=self._order.with_memory and not is_held_out,
                holdout=self._order.holdout if self._order.with_memory else 0.0,
            )

        def begin_again() -> Begun | None:
            # The connection may have been lost after the claim was committed; nobody works on that task.
            self._store.attempts.recover({self._worker})
            return begin()

        return self._crew.patiently(begin, begin_again)

    def _wait(self) -> None:
        """Wait until a task changes or it is time to look for dead workers."""
        deadline = time.monotonic() + (SHARED_POLL_SECONDS if self._store.is_shared else POLL_SECONDS)
        if self._watch is None:
            self._watch = self._store.watch(TASKS)
            return  # a task may have changed before the watch started: look once more
        self._store.rest()
        while time.monotonic() < deadline and not self._crew.wants_to_stop:
            if self._watch.wait(WAKE_SECONDS):
                return

    def _stop_watching(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def _announce_memories(self) -> None:
        """Announce memories that others have added since the last iteration."""
        events = self._crew.patiently(lambda: self._store.memories.events(self._last_event, MOST_HEARD))
        if not events:
            return
        self._last_event = events[-1].seq
        own = self._own_changes | {f"extracted from {self._crew.run_id}"}
        new = [one.memory_id for one in events if one.what in LEARNED and one.why not in own]
        memories = self._crew.patiently(lambda: self._store.memories.find_each(self._crew.unheard(new)))
        titles = [memory.title for memory in memories if _origin(memory) not in self._own_attempts]
        if titles:
            self._emit(event("heard", count=len(titles), titles=titles[:SHOWN_HEARD]))

    def _reason_to_stop(self) -> RunEnding | None:
        """Return why the run should stop, or None if it is worth waiting for another worker."""
        tasks, only, budget = self._store.tasks, self._order.only, self._crew.budget
        finished = RunEnding.COMPLETE if budget.iterations else RunEnding.NOTHING
        if only:
            task = tasks.get(only)
            if task.status is Status.DONE:
                return finished
            return RunEnding.BUSY if task.claimed_by else RunEnding.NOT_READY
        pending = len(tasks.in_status(Status.PENDING))
        claimed = tasks.claimed()
        others = self._crew.workers - {self._worker}
        if not self._order.stays and not any(task.claimed_by in others for task in claimed):
            if not tasks.has_open():
                return finished
            if tasks.ready():
                return None  # its prerequisites were settled a moment ago
            if not claimed:
                return RunEnding.WAITS
            if not pending:
                return RunEnding.BUSY
        if not self._is_waiting:
            self._emit(event("waiting", pending=pending))
        self._is_waiting = True
        return None

    # --- one iteration -------------------------------------------------------------

    def _iterate(self, begun: Begun) -> RunEnding | None:
        """Work on a claimed task and settle it; return the reason to stop, if there is one."""
        crew = self._crew
        self._stop_watching()
        self._is_waiting = False
        self._own_changes.add(f"{begun.attempt.run_id} iteration {begun.attempt.iteration}")
        self._own_attempts.add((begun.attempt.run_id, begun.task.id, begun.attempt.number))
        self._heartbeat.keep(begun.task.id, begun.task.claim_token)
        iteration = Iteration(crew, self._store, begun, self._emit, lambda: self._heartbeat.lost)
        try:
            capture = iteration.run()
            try:
                attempt = self._settle(capture, begun.task.claim_token)
            except StoreError:
                raise
            except RalphError as error:
                # The result cannot be stored as it is; record at least that the attempt took place.
                attempt = self._settle(iteration.failed(str(error)), begun.task.claim_token)
        finally:
            self._heartbeat.rest()
        self._try_update_staleness(attempt)
        if iteration.needs_agent:
            crew.stopped = RunEnding.NO_AGENT
        elif iteration.needs_branch:
            crew.stopped = RunEnding.NO_BRANCH
        elif crew.note_outage(attempt):
            crew.stopped = RunEnding.NO_MODEL
        elif crew.note_crash(attempt):
            crew.stopped = RunEnding.AGENT_FAILS
        if crew.stopped:
            return crew.stopped
        if crew.interrupts.insists or (crew.interrupts.wanted and not iteration.was_asked):
            return RunEnding.INTERRUPTED
        if iteration.was_asked:
            crew.interrupts.forget()
        return None

    def _settle(self, capture: Capture, token: int) -> Attempt:
        attempt = capture.attempt
        try:
            finish = self._store.attempts.finish
            learned = self._crew.patiently(
                lambda: finish(capture, token),
                again=lambda: finish(capture, token, is_again=True),
                is_settling=True,
            )
        except ClaimLostError as error:
            self._emit(event("warning", message=str(error)))
            attempt, learned = replace(attempt, outcome=Outcome.INTERRUPTED, reason=str(error)), ()
        self._crew.budget.settle(attempt)
        for problem in capture.ignored:
            self._emit(event("ignored", problem=problem))
        for one in learned:
            memory = one.memory
            if one.what == "refused":
                problem = f"not learned again, because a person deleted it: {memory.title}"
                self._emit(event("ignored", problem=problem))
            if one.what in ("added", "learned again", "revived"):
                self._emit(
                    event("learned", id=memory.id, kind=memory.kind, title=memory.title, is_new=one.what == "added")
                )
        self._emit(progress.attempt_ended(attempt, capture, self._crew.budget.left()))
        return attempt

    def _try_update_staleness(self, attempt: Attempt) -> None:
        """Update the staleness of memories; the attempt is settled, so a failure is only a warning."""
        try:
            self._crew.patiently(lambda: self._update_staleness(attempt), is_settling=True)
        except StatementError as error:
            self._emit(event("warning", message=f"Could not update stale memories: {error}"))

    def _update_staleness(self, attempt: Attempt) -> None:
        """Mark memories about changed files as stale and confirm those that the attempt relied on."""
        store, root = self._store, self._crew.root
        if attempt.outcome is Outcome.DONE and not attempt.handed_to and attempt.files and attempt.shown:
            confirmed = confirmed_by(store.memories.find_each(attempt.shown), attempt.files)
            change = Change(who=attempt.agent, why=f"{attempt.run_id} iteration {attempt.iteration}")
            confirm(store, confirmed, root, change, attempt.ended_at or now())
        if attempt.files:
            check(store, root, attempt.files)
        if attempt.iteration % SUM_EVERY == 0:
            store.sums.refresh()


def _origin(memory: Memory) -> tuple[object, ...]:
    return memory.origin_run, memory.origin_task, memory.origin_attempt
