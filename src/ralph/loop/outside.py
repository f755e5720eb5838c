"""Work of agents outside the loop: a task is claimed, worked on by them, and finished through the gates.

Verification is that of the loop: the same gates, the same comparison of what they depend on, the same review. What it
compares with is the state of the directory at the time of the claim. That state is held in memory, by the process that
gave the claim, so that no agent can write it; a claim ends with that process.
"""

from __future__ import annotations

import threading
import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ralph.agents import agent_accepts_model, open_agent
from ralph.core.errors import ConflictError, UsageError
from ralph.core.records import (
    AgentReply,
    AttemptOutcome,
    ResourceUsage,
    Sigils,
    TaskStatus,
    now,
    record,
    replace,
)
from ralph.core.text import sanitize
from ralph.loop.attempt import AttemptRunner
from ralph.loop.context import RunContext
from ralph.loop.git.snapshots import ChangeDetector, change_hash
from ralph.loop.hats import HatMove, MoveKind
from ralph.loop.limits import Budget
from ralph.loop.options import RunOptions, apply_limits
from ralph.loop.report_failure import not_ready_error, own_claim, require_pending
from ralph.loop.runs import require_trust
from ralph.loop.settle import held_change
from ralph.loop.waits import WaitTimes
from ralph.loop.workers import RunLock, is_loop_at_work, release_dead_claims, worker_name
from ralph.memory.freshness import record_file_marks
from ralph.store.memory_queries import MemoryFilter
from ralph.store.stats import OUTSIDE_AGENT

if TYPE_CHECKING:
    from ralph.agents import Agent, SessionOptions
    from ralph.core.actor import Actor
    from ralph.core.config import Config
    from ralph.core.records import Attempt, AttemptResult, FailureReport, HeldChange, Task
    from ralph.loop.progress import ProgressEvent
    from ralph.memory.service import MemoryService
    from ralph.store import Store
    from ralph.store.attempts import ClaimedAttempt

CLAIM_SECONDS = 4 * 3600.0
"""Time until a claim ends by itself, in seconds; nothing tells whether its agent is still at work."""
MEMORIES_TOKENS = 1_500
"""Token budget of the memories that are shown with a claimed task."""


@record
class ClaimedWork:
    """A task that an agent has claimed, and what is remembered about it."""

    task: Task
    attempt: Attempt
    memories: str
    """Markdown; empty if nothing relevant is remembered."""


@record
class FinishedWork:
    """What became of a task that an agent says is done."""

    task: Task
    """The task as it is now: done, claimed again, or waiting for a person."""
    attempt: Attempt | None = None
    """None if nothing was to be verified."""
    report: FailureReport | None = None
    """Why it is not done."""
    notes: tuple[str, ...] = ()
    """Warnings of the verification."""

    @property
    def is_done(self) -> bool:
        """Whether the work was accepted."""
        return self.task.status is TaskStatus.DONE


class _OutsideAgent:
    """Stands for an agent that Ralph did not start; the configured agent reviews its work."""

    name = OUTSIDE_AGENT
    reports_files = reports_cost = reports_tokens = False

    def __init__(self, config: Config, directory: Path) -> None:
        self._config, self._directory = config, directory
        is_reviewed = config.execution.verify and config.execution.review
        self.accepts_model = is_reviewed and agent_accepts_model(config.agent, directory, config.models)

    @cached_property
    def _reviewer(self) -> Agent:
        return open_agent(self._config.agent, self._directory, self._config.models)

    def check(self) -> None:
        self._reviewer.check()

    def work(self, prompt: str, session: SessionOptions) -> AgentReply:
        assert session.read_only
        return self._reviewer.work(prompt, session)


class _OpenWork:
    """State at the time of a claim."""

    def __init__(self, store: Store, config: Config, directory: Path, claim: ClaimedAttempt) -> None:
        self.token = claim.task.claim_token
        self.started = time.monotonic()
        self.messages: list[str] = []
        self.agent = _OutsideAgent(config, directory)
        self.context = RunContext(
            run_id=claim.attempt.run_id,
            agents=(self.agent,),
            config=config,
            root=directory,
            run_options=apply_limits(RunOptions(), config.limits),
            budget=Budget(RunOptions(), ResourceUsage()),
            emit=self._keep_message,
            ask_feedback=None,
            branches=None,
            on_wait=lambda _until, _reason: None,
            waits=WaitTimes(lambda _: None),
        )
        if self.context.base:
            self.context.base.begin(claim.task.id, store.held_changes.of_unfinished())
        self.context.installed.wait()
        self.changes = ChangeDetector(directory)
        self.changes.begin()

    def _keep_message(self, event: ProgressEvent) -> None:
        if event.what == "warning":
            self.messages.append(str(event.details["message"]))


_open_work: dict[tuple[str, str], _OpenWork] = {}
"""State at the time of each claim that this process gave, by project and task."""
_verification = threading.Lock()
"""Held while work is verified: one at a time."""


class OutsideAttempt(AttemptRunner):
    """Attempt of an agent that Ralph did not start: only its work is judged."""

    def __init__(self, work: _OpenWork, store: Store, claim: ClaimedAttempt) -> None:
        super().__init__(work.context, store, claim, work.context.emit, lambda: False)
        self._opened = work

    def judge_work(self, notes: str) -> AttemptResult:
        """Verify what the agent says is done, and return the result of the attempt."""
        files = self._opened.changes.end()
        seconds = time.monotonic() - self._opened.started
        reply = AgentReply(text="", files=files or (), seconds=seconds)
        if files is not None:
            self._attempt = replace(self._attempt, change_mark=change_hash(self._directory, files))
        sigils, move = Sigils(done_ids=(self._task.id,), journal=notes), HatMove(kind=MoveKind.DONE, to="")
        verdict, problem = self._verify(reply, sigils, move)
        result = self._capture(reply, sigils, verdict, self._outcome_context(), move, problem)
        if result.attempt.outcome is not AttemptOutcome.DONE:
            result = self._with_unfinished_change(result)
        return replace(
            result, memories=tuple(record_file_marks(memory, self._context.root) for memory in result.memories)
        )

    def unfinished_change(self) -> HeldChange | None:
        """Return what the work changed so far among the files that gates depend on."""
        found = self._verifier().unfinished_change() if self._context.base else None
        return held_change(self._attempt, found, now())


def unfinished_change(store: Store, claim: ClaimedAttempt) -> HeldChange | None:
    """Return what claimed work that failed changed among the files that gates depend on."""
    work = _open_work.pop((store.project_id, claim.task.id), None)
    if work is None or work.token != claim.task.claim_token:
        return None
    return OutsideAttempt(work, store, claim).unfinished_change()


class OutsideWorkService:
    """Tasks of one opened project that agents outside the loop work on."""

    def __init__(self, store: Store, config: Config, directory: str, actor: Actor, memory: MemoryService) -> None:
        """`directory` is where the agent works: the project's own, or a linked worktree."""
        self._store = store
        self._config = config
        self._directory = Path(directory)
        self._actor = actor
        self._memory = memory

    def claim(self, id: str | None = None) -> ClaimedWork | None:
        """Claim a task, by default the first that is ready, for an agent outside the loop; None if none is ready.

        A claim that this process gave before is renewed.
        """
        self._actor.require("task.claim")
        require_trust(self._config, str(self._directory))
        store = self._store
        release_dead_claims(store)
        self._refuse_during_run()
        claim = self._claim_of(store.tasks.get(id)) if id else None
        if claim:
            store.tasks.claims.heartbeat(claim.task.id, claim.task.claim_token, CLAIM_SECONDS)
        else:
            claim = self._begin(id)
        if claim is None:
            return None
        primer = self._memory.rules.primer(MemoryFilter(), MEMORIES_TOKENS, task_id=claim.task.id)
        attempt = replace(claim.attempt, shown=tuple(one.id for one in primer.memories))
        store.attempts.record_start(attempt)
        return ClaimedWork(task=claim.task, attempt=attempt, memories=primer.text)

    def finish(self, id: str, notes: str = "") -> FinishedWork:
        """Finish a claimed task: it is done once the gates and the review pass, as in a run.

        `notes` say what was done. Work that does not pass is a failed attempt; the claim stays, for another one,
        unless the task now waits for a person.
        """
        self._actor.require("task.done")
        require_trust(self._config, str(self._directory))
        if not _verification.acquire(blocking=False):
            raise ConflictError("Other work is being verified: try again in a minute.", code="verification-active")
        try:
            task = self._store.tasks.get(id)
            claim = self._claim_of(task)
            return self._finish_claimed(claim, sanitize(notes)) if claim else self._finish_unclaimed(task)
        finally:
            _verification.release()

    def _begin(self, id: str | None) -> ClaimedAttempt | None:
        store = self._store
        if id:
            require_pending(store.tasks.get(id))
        run = store.runs.start(OUTSIDE_AGENT)
        claim = self._begin_attempt(run.id, id)
        if claim is None:
            store.runs.end(run.id, "no task was ready")
            if id:
                require_pending(store.tasks.get(id))
                raise not_ready_error(store, id)
            return None
        try:
            work = _OpenWork(store, self._config, self._directory, claim)
        except BaseException:
            store.tasks.claims.settle(claim.task.id, claim.task.claim_token, TaskStatus.PENDING)
            store.attempts.close_vanished()
            store.runs.end(run.id, "the claim failed")
            raise
        _open_work[store.project_id, claim.task.id] = work
        return claim

    def _begin_attempt(self, run_id: str, id: str | None) -> ClaimedAttempt | None:
        return self._store.attempts.begin(run_id, worker_name(), CLAIM_SECONDS, agent=OUTSIDE_AGENT, task_id=id)

    def _claim_of(self, task: Task) -> ClaimedAttempt | None:
        """Return the claim that this process gave on a task, if its state at that time is known."""
        claim, work = own_claim(self._store, task), _open_work.get((self._store.project_id, task.id))
        return claim if work and work.token == task.claim_token else None

    def _refuse_during_run(self) -> None:
        if self._actor.is_agent and is_loop_at_work(self._store):
            # It may be an agent of that run that connected through a server somebody else started.
            raise UsageError("While a run is active, only the run claims and finishes tasks.", code="run-active")

    def _finish_unclaimed(self, task: Task) -> FinishedWork:
        execution = self._config.execution
        if task.status is TaskStatus.DONE:  # the answer to the first call may have been lost
            return FinishedWork(task=task)
        if task.status is TaskStatus.IN_PROGRESS:
            require_pending(task)
        if execution.verify and (execution.gates or execution.review):
            raise ConflictError(
                f"{task.id} is not claimed here, so its work cannot be verified: claim it before you work on it.",
                code="task-not-claimed",
            )
        from ralph.loop.tasks import TaskService

        return FinishedWork(task=TaskService(self._store, self._config, self._actor).done(task.id))

    def _finish_claimed(self, claim: ClaimedAttempt, notes: str) -> FinishedWork:
        from ralph.agents.supervisor.adoption import named_as_loop
        from ralph.agents.supervisor.sandbox import prepare_sandbox

        store, task = self._store, claim.task
        work = _open_work[store.project_id, task.id]
        work.messages.clear()
        self._refuse_during_run()
        store.tasks.claims.heartbeat(task.id, task.claim_token, CLAIM_SECONDS)
        execution = work.context.config.execution
        if execution.verify and execution.review:
            work.agent.check()
        prepare_sandbox(work.context.config, self._directory)
        with RunLock(self._directory) as lock, named_as_loop():
            if not lock.is_acquired:
                raise UsageError("A run is active in this directory: try again when it has ended.", code="run-active")
            result = OutsideAttempt(work, store, claim).judge_work(notes)
        return self._settle(work, claim, result)

    def _settle(self, work: _OpenWork, claim: ClaimedAttempt, result: AttemptResult) -> FinishedWork:
        store, id = self._store, claim.task.id
        store.attempts.finish(result, claim.task.claim_token)
        # The work goes on from what the first claim found.
        again = self._begin_attempt(claim.attempt.run_id, id) if result.task_status is TaskStatus.PENDING else None
        if again:
            store.attempts.record_start(replace(again.attempt, shown=claim.attempt.shown))
            work.token, work.started = again.task.claim_token, time.monotonic()
        else:
            _open_work.pop((store.project_id, id), None)
            store.runs.end(claim.attempt.run_id, "finished outside the loop")
        return FinishedWork(
            task=store.tasks.get(id), attempt=result.attempt, report=result.report, notes=tuple(work.messages)
        )
