"""One worker of a run: task after task, each from its claim to its settled attempt."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from ralph.errors import ClaimLostError, RalphError, StatementError, StoreError
from ralph.freshness import check, confirm, confirmed_by
from ralph.loop import progress
from ralph.loop.iteration import Iteration
from ralph.loop.order import RunEnding
from ralph.loop.progress import event
from ralph.loop.workers import Heartbeat, vanished, worker_name
from ralph.records import Outcome, Status, now, replace
from ralph.store.memories import Change
from ralph.store.tasks import TASKS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import TypeVar

    from ralph.loop.crew import Crew
    from ralph.loop.progress import Event
    from ralph.records import Attempt, Capture, Memory
    from ralph.store import Store
    from ralph.store.attempts import Begun
    from ralph.store.database import Watch

    R = TypeVar("R")

POLL_SECONDS = 1.0
"""So often a waiting run looks for tasks of workers that vanished; whoever changes a task wakes it at once."""
SHARED_POLL_SECONDS = 5.0
"""The same on a server, which many workers ask."""
WAKE_SECONDS = 0.5
MOST_HEARD = 1_000
SHOWN_HEARD = 3
LEARNED = ("added", "imported", "revived")
"""Events of memories that are new here."""
SUM_EVERY = 500


class Worker:
    """Works on tasks until there are none, a limit is reached or somebody stops the run."""

    def __init__(self, crew: Crew, store: Store, number: int = 0) -> None:
        """`number` tells the workers of a run apart; 0 when there is only one."""
        self._crew = crew
        self._store = store
        self._config = crew.config
        self._order = crew.order
        self._number = number
        self._worker = worker_name(number)
        crew.workers.add(self._worker)
        self._heartbeat = Heartbeat(store.reopen, crew.config.execution.lease_seconds)
        self._waits = False
        self._watch: Watch | None = None
        self._heard = 0
        """The newest event of any memory that this worker knows of."""
        self._own: set[str] = set()
        """How the changes made by this worker's own attempts are signed."""
        self._attempts: set[tuple[object, ...]] = set()
        """Run, task and number of its attempts: their agents may add memories by command."""

    def work(self) -> RunEnding:
        """Work until everything is done, a limit is reached or a person stops it."""
        with self._heartbeat:
            try:
                self._heard = self._patiently(self._store.memories.last_event)
                return self._work()
            finally:
                self._stop_watching()

    def recover(self) -> None:
        """Take back at once what workers of this machine left behind when they were killed."""
        self._take_back(vanished({task.claimed_by for task in self._store.tasks.claimed() if task.claimed_by}))

    def give_up(self) -> None:
        """Leave what this worker has claimed to others: it cannot go on."""
        self._take_back({self._worker})

    def _take_back(self, workers: Collection[str]) -> None:
        for task_id in self._store.attempts.recover(workers):
            self._tell(event("recovered", task_id=task_id))

    def _tell(self, event: Event) -> None:
        if self._number:
            event = replace(event, details={**event.details, "worker": self._number})
        self._crew.tell(event)

    def _patiently(
        self, work: Callable[[], R], again: Callable[[], R] | None = None, *, is_settling: bool = False
    ) -> R:
        return self._crew.patiently(work, again, is_settling=is_settling)

    def _work(self) -> RunEnding:
        crew = self._crew
        while (limit := crew.budget.limit()) is None:
            if crew.stopped:
                return crew.stopped
            if crew.interrupts.wanted:
                return RunEnding.INTERRUPTED
            crew.sync(self._store, soon=True)
            self._hear()
            with crew.beginning:
                if not crew.budget.take():
                    limit = RunEnding.LIMIT_ITERATIONS
                    break
                if not (crew.await_service() and crew.await_room()):
                    crew.budget.give_back()
                    continue
                begun = self._begin()
                if begun is None:
                    crew.budget.give_back()
            ending = self._iterate(begun) if begun else self._patiently(self._why_nothing_is_ready)
            if ending is not None:
                return ending
            if begun is None:
                self._wait()
                self._patiently(self.recover)
        return limit if self._patiently(self._store.tasks.has_open) else RunEnding.COMPLETE

    def _begin(self) -> Begun | None:
        left_out = bool(self._order.holdout) and random.random() < self._order.holdout  # noqa: S311

        def begin() -> Begun | None:
            return self._store.attempts.begin(
                self._crew.run_id,
                self._worker,
                self._config.execution.lease_seconds,
                agent=self._crew.agent.name,
                only=self._order.only,
                with_memory=self._order.with_memory and not left_out,
                holdout=self._order.holdout if self._order.with_memory else 0.0,
            )

        def begin_again() -> Begun | None:
            # The connection may have been lost after the claim was made: nobody works on that one.
            self._store.attempts.recover({self._worker})
            return begin()

        return self._patiently(begin, begin_again)

    def _wait(self) -> None:
        """Wait until somebody changes a task, or it is time to look for vanished workers."""
        deadline = time.monotonic() + (SHARED_POLL_SECONDS if self._store.is_shared else POLL_SECONDS)
        if self._watch is None:
            self._watch = self._store.watch(TASKS)
            return  # somebody may have changed one before we watched: look once more
        self._store.rest()
        while time.monotonic() < deadline and not self._crew.wants_to_stop:
            if self._watch.wait(WAKE_SECONDS):
                return

    def _stop_watching(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def _hear(self) -> None:
        """Tell what others have learned since the last iteration: it is part of what the next one recalls."""
        events = self._patiently(lambda: self._store.memories.events(self._heard, MOST_HEARD))
        if not events:
            return
        self._heard = events[-1].seq
        own_end = f"extracted from {self._crew.run_id}"
        own = self._own | {own_end}
        new = [one.memory_id for one in events if one.what in LEARNED and one.why not in own]
        found = self._patiently(lambda: self._store.memories.find_each(self._crew.unheard(new)))
        titles = [memory.title for memory in found if _origin(memory) not in self._attempts]
        if titles:
            self._tell(event("heard", count=len(titles), titles=titles[:SHOWN_HEARD]))

    def _why_nothing_is_ready(self) -> RunEnding | None:
        """Give why the run should stop; None when it is worth waiting for another worker."""
        tasks, only, budget = self._store.tasks, self._order.only, self._crew.budget
        nothing_more = RunEnding.COMPLETE if budget.iterations else RunEnding.NOTHING
        if only:
            task = tasks.get(only)
            if task.status is Status.DONE:
                return nothing_more
            return RunEnding.BUSY if task.claimed_by else RunEnding.NOT_READY
        pending = len(tasks.in_status(Status.PENDING))
        claimed = tasks.claimed()
        others = self._crew.workers - {self._worker}
        if not self._order.stays and not any(task.claimed_by in others for task in claimed):
            if not tasks.has_open():
                return nothing_more
            if tasks.ready():
                return None  # somebody has just settled what it needs
            if not claimed:
                return RunEnding.WAITS
            if not pending:
                return RunEnding.BUSY
        if not self._waits:
            self._tell(event("waiting", pending=pending))
        self._waits = True
        return None

    # --- one iteration -------------------------------------------------------------

    def _iterate(self, begun: Begun) -> RunEnding | None:
        """Work on a claimed task and settle it; give the reason to stop, if there is one."""
        crew = self._crew
        self._stop_watching()
        self._waits = False
        self._own.add(f"{begun.attempt.run_id} iteration {begun.attempt.iteration}")
        self._attempts.add((begun.attempt.run_id, begun.task.id, begun.attempt.number))
        self._heartbeat.keep(begun.task.id, begun.task.claim_token)
        iteration = Iteration(crew, self._store, begun, self._tell, lambda: self._heartbeat.lost)
        try:
            capture = iteration.run()
            try:
                attempt = self._settle(capture, begun.task.claim_token)
            except StoreError:
                raise
            except RalphError as error:
                # What the attempt came to cannot be stored as it is; that it took place can.
                attempt = self._settle(iteration.failed(str(error)), begun.task.claim_token)
        finally:
            self._heartbeat.rest()
        self._follow_quietly(attempt)
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
            learned = self._patiently(
                lambda: finish(capture, token),
                again=lambda: finish(capture, token, is_again=True),
                is_settling=True,
            )
        except ClaimLostError as error:
            self._tell(event("warning", message=str(error)))
            attempt, learned = replace(attempt, outcome=Outcome.INTERRUPTED, reason=str(error)), ()
        self._crew.budget.settle(attempt)
        for problem in capture.ignored:
            self._tell(event("ignored", problem=problem))
        for one in learned:
            memory = one.memory
            if one.what == "refused":
                problem = f"a person has deleted this, so it is not learned again: {memory.title}"
                self._tell(event("ignored", problem=problem))
            if one.what in ("added", "learned again", "revived"):
                self._tell(
                    event("learned", id=memory.id, kind=memory.kind, title=memory.title, is_new=one.what == "added")
                )
        self._tell(progress.attempt_ended(attempt, capture, self._crew.budget.left()))
        return attempt

    def _follow_quietly(self, attempt: Attempt) -> None:
        """Follow what an attempt did to the files; it is settled, whatever goes wrong here."""
        try:
            self._patiently(lambda: self._follow_files(attempt), is_settling=True)
        except StatementError as error:
            self._tell(event("warning", message=f"What became of the files was not noted: {error}"))

    def _follow_files(self, attempt: Attempt) -> None:
        """Mark what is remembered of files that an attempt changed, and confirm what it held on to."""
        store, root = self._store, self._crew.root
        if attempt.outcome is Outcome.DONE and not attempt.handed_to and attempt.files and attempt.shown:
            holds = confirmed_by(store.memories.find_each(attempt.shown), attempt.files)
            change = Change(who=attempt.agent, why=f"{attempt.run_id} iteration {attempt.iteration}")
            confirm(store, holds, root, change, attempt.ended_at or now())
        if attempt.files:
            check(store, root, attempt.files)
        if attempt.iteration % SUM_EVERY == 0:
            store.sums.refresh()


def _origin(memory: Memory) -> tuple[object, ...]:
    return memory.origin_run, memory.origin_task, memory.origin_attempt
