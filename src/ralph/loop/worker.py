"""Worker of a run: claims one task after another and settles each attempt."""

from __future__ import annotations

import random
import time
from contextlib import closing
from typing import TYPE_CHECKING

from ralph.core.errors import ClaimLostError, RalphError, StatementError, StoreError
from ralph.core.records import AttemptOutcome, TaskStatus, now, replace
from ralph.loop import progress
from ralph.loop.attempt import AttemptRunner
from ralph.loop.brakes import is_fruitless_crash
from ralph.loop.options import RunEnding
from ralph.loop.progress import progress_event
from ralph.loop.workers import Heartbeat, release_dead_claims, worker_name
from ralph.memory.freshness import check_staleness, confirm_memories
from ralph.memory.lifecycle.staleness import ids_confirmed_by
from ralph.store.memories import ChangeInfo
from ralph.store.task_table import TASKS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.agents import Agent
    from ralph.core.records import Attempt, AttemptResult, Memory, Task
    from ralph.loop.context import RunContext
    from ralph.loop.progress import ProgressEvent
    from ralph.store import Store
    from ralph.store.attempts import ClaimedAttempt
    from ralph.store.database import ChangeWatch

POLL_SECONDS = 1.0
"""Interval at which an idle worker looks for tasks of dead workers, in seconds; task changes wake it at once."""
SHARED_POLL_SECONDS = 5.0
"""The same interval on a shared server, in seconds."""
WAKE_SECONDS = 0.5
"""Longest uninterruptible wait for a task change, in seconds."""
MAX_MEMORY_EVENTS = 1_000
"""Maximum number of memory events read between two iterations."""
MAX_ANNOUNCED_TITLES = 3
"""Number of titles listed when other workers' memories are announced."""
NEW_MEMORY_EVENTS = ("added", "imported", "revived")
"""Event names of memories that are new in this project."""


class Worker:
    """Loop that works on tasks until none is left, a limit is reached or the run is stopped."""

    def __init__(self, run_context: RunContext, store: Store, number: int = 0) -> None:
        """`number` identifies a worker within its run; 0 when there is only one."""
        self._context = run_context
        self._store = store
        self._config = run_context.config
        self._options = run_context.run_options
        self._number = number
        self._worker = worker_name(number)
        run_context.worker_names.add(self._worker)
        self._heartbeat = Heartbeat(store.reopen, run_context.config.execution.lease_seconds)
        self._is_waiting = False
        self._watch: ChangeWatch | None = None
        self._last_event = 0
        """Sequence number of the newest memory event this worker has read."""
        self._own_changes = {f"extracted from {run_context.run_id}"}
        """`why` of the changes made by this worker's own attempts, and at the end of its run."""
        self._own_attempts: set[tuple[object, ...]] = set()
        """Run, task and number of its attempts, whose agents may add memories from the command line."""

    def run_worker(self) -> RunEnding:
        """Work on tasks until all are done, a limit is reached or a person stops the run."""
        context = self._context
        with self._heartbeat, closing(self):
            self._last_event = context.with_retries(self._store.memories.history.last_event_seq)
            while (ending := self._reason_to_end()) is None:
                context.sync_memories(self._store, skip_if_recent=True)
                self._announce_memories()
                context.wait_while_paused(self._emit)
                with context.claim_lock:
                    if not context.budget.reserve_iteration():
                        ending = RunEnding.LIMIT_ITERATIONS
                        break
                    agent = context.wait_for_agent()
                    is_ready = agent is not None and context.wait_for_disk()
                    claim = self._claim(agent) if agent and is_ready else None
                    if claim is None:
                        context.budget.release_iteration()
                if claim:
                    ending = self._iterate(claim)
                elif is_ready and (ending := context.with_retries(self._reason_not_to_wait)) is None:
                    self._wait()
                    context.with_retries(self.release_dead_claims)
                if ending is not None:
                    return ending
        if ending.is_limit and not context.with_retries(self._store.tasks.progress.has_unfinished):
            return RunEnding.COMPLETE
        return ending

    def close(self) -> None:
        """Stop watching for changes of tasks."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def release_dead_claims(self) -> None:
        """Release the claims of workers that were killed."""
        self._say_released(release_dead_claims(self._store))

    def release_own_claims(self) -> None:
        """Release this worker's own claims after a crash."""
        self._say_released(self._store.attempts.release_vanished({self._worker}))

    def _say_released(self, task_ids: Sequence[str]) -> None:
        for task_id in task_ids:
            self._emit(progress_event("recovered", task_id=task_id))

    def _emit(self, event: ProgressEvent) -> None:
        details = event.details
        if event.what in ("attempt_started", "attempt_ended"):
            details = {
                **details,
                "run": self._context.run_progress(self._store if event.what == "attempt_ended" else None),
            }
        if self._number:
            details = {**details, "worker": self._number}
        self._context.emit(event if details is event.details else replace(event, details=details))

    def _reason_to_end(self) -> RunEnding | None:
        """Return the limit that is reached or the reason for which the run is stopped, if any."""
        context = self._context
        if limit := context.budget.reached_limit():
            return limit
        if context.stop_reason:
            return context.stop_reason
        return RunEnding.INTERRUPTED if context.interrupts.is_requested else None

    def _claim(self, agent: Agent) -> ClaimedAttempt | None:
        is_held_out = bool(self._options.holdout) and random.random() < self._options.holdout  # noqa: S311
        attempts = self._store.attempts
        for retry in self._context.retrying():
            with retry:
                if not retry.is_first:
                    # The connection may have been lost after the claim was committed; nobody works on that task.
                    attempts.release_vanished({self._worker})
                claim = attempts.begin(
                    self._context.run_id,
                    self._worker,
                    self._config.execution.lease_seconds,
                    agent=agent.name,
                    task_id=self._options.only or self._next_task(),
                    with_memory=self._options.with_memory and not is_held_out,
                    holdout=self._options.holdout if self._options.with_memory else 0.0,
                )
        return claim

    def _next_task(self) -> str | None:
        """Return the task whose turn it is, if the first ready one has just failed; None to take the first."""
        failed = self._context.turns.waiting
        first = self._store.tasks.progress.ready(1) if failed else []
        if not first or first[0].id not in failed:
            return None
        others = self._store.tasks.progress.ready(limit=len(failed) + 1, priority=first[0].priority)
        ids = [task.id for task in others]
        fresh = [id for id in ids if id not in failed]
        return next(iter((*fresh, *(id for id in failed if id in ids))), None)

    def _wait(self) -> None:
        """Wait until a task changes or it is time to look for dead workers."""
        deadline = time.monotonic() + (SHARED_POLL_SECONDS if self._store.is_shared else POLL_SECONDS)
        if self._watch is None:
            self._watch = self._store.watch(TASKS_TOPIC)
            return  # a task may have changed before the watch started: look once more
        self._store.database.release_connection()
        while time.monotonic() < deadline and not self._context.should_stop:
            if self._watch.wait(WAKE_SECONDS):
                return

    def _announce_memories(self) -> None:
        """Announce memories that others have added since the last iteration."""
        events = self._context.with_retries(
            lambda: self._store.memories.history.since(self._last_event, MAX_MEMORY_EVENTS)
        )
        if not events:
            return
        self._last_event = events[-1].seq
        new = [one.memory_id for one in events if one.what in NEW_MEMORY_EVENTS and one.why not in self._own_changes]
        unannounced = self._context.claim_unannounced(new)
        memories = self._context.with_retries(lambda: self._store.memories.find_by_ids(unannounced))
        titles = [memory.title for memory in memories if _origin(memory) not in self._own_attempts]
        if titles:
            self._emit(progress_event("heard", count=len(titles), titles=titles[:MAX_ANNOUNCED_TITLES]))

    def _reason_not_to_wait(self) -> RunEnding | None:
        """Return how the run ends without a task to claim, or None if it is worth waiting for another worker."""
        with self._store.database.snapshot():  # another worker may take the last task between two queries
            ending, pending = self._ending_without_task()
        if ending is None and pending is not None and not self._is_waiting:
            self._emit(progress_event("waiting", pending=pending))
            self._is_waiting = True
        return ending

    def _ending_without_task(self) -> tuple[RunEnding | None, int | None]:
        """Return how the run ends, if it does, and the number of pending tasks, if they have to wait."""
        tasks, only, budget = self._store.tasks, self._options.only, self._context.budget
        finished = RunEnding.COMPLETE if budget.iterations else RunEnding.NOTHING
        if only:
            task = tasks.get(only)
            if task.status is TaskStatus.DONE:
                is_last = not budget.iterations or not tasks.progress.has_unfinished()
                return (finished if is_last else RunEnding.TASK_DONE), None
            if task.status is TaskStatus.BLOCKED:
                return RunEnding.WAITS, None
            return (RunEnding.BUSY if task.claimed_by else RunEnding.NOT_READY), None
        pending = len(tasks.progress.with_status(TaskStatus.PENDING))
        claimed = tasks.claims.claimed()
        others = self._context.worker_names - {self._worker}
        if not self._options.stays and not any(task.claimed_by in others for task in claimed):
            if not tasks.progress.has_unfinished():
                return finished, None
            if tasks.progress.ready():
                return None, None  # its prerequisites were settled a moment ago
            if not claimed:
                return RunEnding.WAITS, None
            if not pending:
                return RunEnding.BUSY, None
        return None, pending

    # --- one iteration -------------------------------------------------------------

    def _iterate(self, claim: ClaimedAttempt) -> RunEnding | None:
        """Work on a claimed task and settle it; return the reason to stop, if there is one."""
        self.close()
        self._is_waiting = False
        self._own_changes.add(f"{claim.attempt.run_id} iteration {claim.attempt.iteration}")
        self._own_attempts.add((claim.attempt.run_id, claim.task.id, claim.attempt.number))
        self._heartbeat.watch_claim(claim.task.id, claim.task.claim_token)
        self._context.record_claim(claim.task.id)
        runner = AttemptRunner(self._context, self._store, claim, self._emit, lambda: self._heartbeat.has_lost_claim)
        try:
            result = runner.run_attempt()
            try:
                attempt = self._settle(result, claim.task.claim_token)
            except StoreError:
                raise
            except RalphError as error:
                # The result cannot be stored as it is; record at least that the attempt took place.
                attempt = self._settle(runner.failed_result(str(error)), claim.task.claim_token)
        finally:
            self._heartbeat.release_claim()
        self._try_update_staleness(attempt)
        self._context.turns.record(attempt)
        return self._reason_to_stop_after(attempt, claim.task, runner)

    def _reason_to_stop_after(self, attempt: Attempt, task: Task, runner: AttemptRunner) -> RunEnding | None:
        context = self._context
        if runner.is_agent_missing:
            context.stop_reason = RunEnding.NO_AGENT
        elif runner.is_base_branch_missing:
            context.stop_reason = RunEnding.NO_BRANCH
        elif ending := context.availability.record_reply(attempt.agent, runner.reply):
            context.stop_reason = ending
        elif alike := context.brake.record(attempt, task, runner.reply):
            is_command = is_fruitless_crash(runner.reply)
            context.stop_reason = RunEnding.COMMAND_FAILS if is_command else RunEnding.AGENT_FAILS
            self._give_back_retries(alike)
        if context.stop_reason:
            return context.stop_reason
        if context.interrupts.is_forced or (context.interrupts.is_requested and not runner.was_asked):
            return RunEnding.INTERRUPTED
        if runner.was_asked:
            context.interrupts.reset()
        return None

    def _give_back_retries(self, attempts: Sequence[Attempt]) -> None:
        """Let failures of the agent count against no task."""
        reopened = self._context.with_retries(lambda: self._store.attempts.settled.excuse(attempts), is_settling=True)
        message = f"The agent fails: {attempts[-1].reason.rstrip('.') or 'no reason given'}."
        message += (
            f" The last {len(attempts)} attempts failed in this way, so they count against no task."
            if len(attempts) > 1
            else " This attempt counts against no task."
        )
        if reopened:
            message += f" Pending again: {', '.join(reopened)}."
        self._emit(progress_event("note", message=message))

    def _settle(self, result: AttemptResult, token: int) -> Attempt:
        attempt = result.attempt
        try:
            for retry in self._context.retrying(is_settling=True):
                with retry:
                    learned = self._store.attempts.finish(result, token, is_retry=not retry.is_first)
        except ClaimLostError as error:
            self._emit(progress_event("warning", message=str(error)))
            attempt, learned = replace(attempt, outcome=AttemptOutcome.INTERRUPTED, reason=str(error)), ()
        self._context.budget.add_attempt(attempt)
        self._context.record_status(attempt.task_id, result.task_status)
        for problem in result.ignored_sigils:
            self._emit(progress_event("ignored", problem=problem))
        for one in learned:
            memory = one.memory
            if one.what == "refused":
                problem = f"not learned again, because a person deleted it: {memory.title}"
                self._emit(progress_event("ignored", problem=problem))
            if one.what in ("added", "learned again", "refined", "updated", "revived"):
                self._emit(
                    progress_event(
                        "learned",
                        id=memory.id,
                        kind=memory.kind,
                        title=memory.title,
                        is_new=one.what == "added",
                        is_updated=one.what in ("refined", "updated"),
                    )
                )
        self._emit(progress.attempt_ended_event(attempt, result, self._context.budget.usage_lines()))
        if scarce := self._context.budget.newly_scarce():
            self._emit(progress_event("budget_nearly_used", used=scarce))
        return attempt

    def _try_update_staleness(self, attempt: Attempt) -> None:
        """Update the staleness of memories; the attempt is settled, so a failure is only a warning."""
        try:
            self._context.with_retries(lambda: self._update_staleness(attempt), is_settling=True)
        except StatementError as error:
            self._emit(progress_event("warning", message=f"Could not update stale memories: {error}"))

    def _update_staleness(self, attempt: Attempt) -> None:
        """Mark memories about changed files as stale and confirm those that the attempt relied on."""
        store, root = self._store, self._context.root
        if attempt.outcome is AttemptOutcome.DONE and not attempt.handed_to and attempt.files and attempt.shown:
            confirmed = ids_confirmed_by(store.memories.find_by_ids(attempt.shown), attempt.files)
            change = ChangeInfo(who=attempt.agent, why=f"{attempt.run_id} iteration {attempt.iteration}")
            confirm_memories(store, confirmed, root, change, attempt.ended_at or now())
        if attempt.files:
            check_staleness(store, root, attempt.files)


def _origin(memory: Memory) -> tuple[object, ...]:
    return memory.origin_run, memory.origin_task, memory.origin_attempt
