"""What becomes of the work of an attempt: a commit, or a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ralph.core.errors import WorktreeError
from ralph.core.records import FAILED_OUTCOMES, AttemptOutcome, replace
from ralph.loop.git.commits import attempt_trailers, commit_message
from ralph.loop.git.serial import NOT_COMMITTED, RecordedWork, checkpoint_ref
from ralph.loop.progress import progress_event

if TYPE_CHECKING:
    from collections.abc import Callable

    from ralph.core.records import Attempt, AttemptResult, Task
    from ralph.loop.context import RunContext
    from ralph.loop.git.commits import TaskWorktree
    from ralph.loop.git.repository import WorktreeStatus
    from ralph.loop.progress import EventHandler
    from ralph.store import Store

MAX_EARLIER_ATTEMPTS = 20
"""Number of attempts among which unfinished work is looked for."""


class AttemptWork:
    """Work of one attempt, in the person's working tree or in the worktree of its task."""

    def __init__(
        self,
        context: RunContext,
        store: Store,
        task: Task,
        emit: EventHandler,
        has_lost_claim: Callable[[], bool],
    ) -> None:
        self._context, self._store, self._task = context, store, task
        self._emit, self._has_lost_claim = emit, has_lost_claim
        self._worktree: TaskWorktree | None = None
        self._merge_commit = ""
        self._has_begun = False
        self.start = ""
        """Commit that the attempt starts from; empty if it is not known."""

    def begin(self, attempt: Attempt) -> None:
        """Prepare the person's working tree."""
        work = self._context.work
        if not work:
            return
        checkpoint = self._checkpoint() if work.commits else ""
        try:
            self.start, notes = work.begin(self._task.id, attempt.run_id, attempt.iteration, checkpoint)
        except WorktreeError as error:
            self._context.work = None  # the run goes on without
            self._context.not_committed = f"{NOT_COMMITTED}: {error}"
            notes = (self._context.not_committed,)
        self._has_begun = self._context.work is not None
        self._report(notes)

    def begin_in(self, worktree: TaskWorktree) -> None:
        """Take note of the worktree of a task, which is prepared."""
        assert self._context.branches
        self._worktree = worktree
        self.start = self._context.branches.head_of(worktree)

    def _checkpoint(self) -> str:
        """Return unfinished work of the task to go on with, or an empty string."""
        attempts = self._context.with_retries(
            lambda: self._store.attempts.latest(MAX_EARLIER_ATTEMPTS, task=self._task.id)
        )
        for attempt in attempts:
            if attempt.outcome is AttemptOutcome.DONE and not attempt.handed_to:
                return ""
            if attempt.checkpoint:
                return attempt.checkpoint if self._goes_on(attempt) else ""
        return ""

    def _goes_on(self, attempt: Attempt) -> bool:
        """Return whether the next attempt starts from the work of an earlier one."""
        if not self._is_reset(attempt):
            return True
        # Work that a person approved is verified again as it was.
        held = self._context.with_retries(self._store.held_changes.of_unfinished)
        return any((one.run_id, one.iteration) == (attempt.run_id, attempt.iteration) for one in held)

    def _is_reset(self, attempt: Attempt) -> bool:
        """Return whether the work of an attempt leaves the tree."""
        is_failed = attempt.outcome in FAILED_OUTCOMES and not attempt.excused and not attempt.handed_to
        return is_failed and self._context.config.execution.on_failure == "reset"

    @property
    def state_at_start(self) -> WorktreeStatus | None:
        """Status of the working tree before the session, if it is known."""
        return self._context.work.state_at_start if self._has_begun and self._context.work else None

    def read_status(self) -> WorktreeStatus | None:
        """Return the status of the person's working tree after the session; None if it is not used, or git failed."""
        try:
            return self._context.work.read_status() if self._has_begun and self._context.work else None
        except WorktreeError:
            return None

    def begin_verification(self) -> None:
        """Take note of new files before gates run, and that gates and reviews may change the tree."""
        work, execution = self._context.work, self._context.config.execution
        if self._has_begun and work and execution.gates:
            work.note_added()
        elif work and execution.review:
            work.forget_status()

    def end_in(self, worktree: TaskWorktree | None, merge_commit: str) -> None:
        """Take note of what became of the worktree of the task: None if its work is merged."""
        self._worktree, self._merge_commit = worktree, merge_commit

    def record(self, result: AttemptResult) -> AttemptResult:
        """Commit the work of an attempt that got its task done, save that of any other, and return the result."""
        recorded = self._settle_in_worktree(result) if self._context.branches else self._settle(result)
        if recorded is None:
            return result
        attempt = replace(
            result.attempt, start_commit=self.start, commits=recorded.commits, checkpoint=recorded.checkpoint
        )
        self._report(recorded.notes)
        self._context.not_committed = recorded.not_committed or self._context.not_committed
        if recorded.commits and not self._context.branches:
            event = progress_event(
                "committed", task_id=self._task.id, commit=recorded.commits[-1], files=list(recorded.files)
            )
            self._emit(event)
        return replace(result, attempt=attempt, log=(*result.log, *recorded.notes))

    def _settle(self, result: AttemptResult) -> RecordedWork | None:
        work, attempt = self._context.work, result.attempt
        if not work or not self._has_begun:
            return None
        self._has_begun = False
        trailers = attempt_trailers(attempt.run_id, attempt.number)
        is_done = attempt.outcome is AttemptOutcome.DONE and not attempt.handed_to
        if is_done and work.commits and not self._has_lost_claim():
            return work.finish(self._task.title, trailers)
        is_reset = self._is_reset(attempt) and result.held is None
        if is_done or not (work.commits or is_reset):
            return None
        return work.leave(self._task.title, trailers, resets=is_reset)

    def _settle_in_worktree(self, result: AttemptResult) -> RecordedWork | None:
        branches, attempt = self._context.branches, result.attempt
        if self._merge_commit:
            return RecordedWork(commits=(self._merge_commit,))
        if not branches or not self._worktree:
            return None
        message = commit_message(
            f"Unfinished: {self._task.title}", self._task.id, attempt_trailers(attempt.run_id, attempt.number)
        )
        ref = checkpoint_ref(attempt.run_id, attempt.iteration)
        return RecordedWork(checkpoint=branches.commit_unfinished(self._worktree, message, ref, self.start))

    def _report(self, notes: tuple[str, ...]) -> None:
        for note in notes:
            self._emit(progress_event("note", message=note))
