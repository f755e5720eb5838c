"""Verification of finished work: gates, review and merge.

`JudgedWork` says what is judged: which directory, which commit, and the commit it is compared with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ralph.core.errors import WorktreeError
from ralph.core.records import VerificationResult, record, replace
from ralph.formats.sigils import parse_sigils
from ralph.loop import hats, progress
from ralph.loop.environment import gate_environment, session_variables
from ralph.loop.gates import run_gates
from ralph.loop.git.read_only import ReadOnlyWorktree
from ralph.loop.hats import MoveKind
from ralph.loop.integrity.work import WorkIntegrity
from ralph.loop.limits import NO_LIMIT
from ralph.loop.outcome import MergeProblem
from ralph.loop.progress import progress_event
from ralph.loop.review import build_review_prompt, is_passing_answer, judge_review, strip_echo
from ralph.loop.strategy import strongest_model

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Protocol

    from ralph.core.records import AgentReply, Attempt, Sigils, Task
    from ralph.loop.context import RunContext
    from ralph.loop.git.commits import TaskWorktree
    from ralph.loop.hats import HatMove
    from ralph.loop.progress import EventHandler
    from ralph.store import Store

    class AgentCaller(Protocol):
        """Runs an agent session in a directory and returns its reply."""

        def __call__(
            self, prompt: str, model: str | None, seconds: float, directory: Path, *, read_only: bool = False
        ) -> AgentReply:
            """Run the session."""


@record
class JudgedWork:
    """What gates and reviews look at."""

    directory: Path
    """Project directory in which they run."""
    base: str = ""
    """Commit that the work is compared with; empty when it is judged where the agent worked."""
    commit: str = ""
    """Commit that is judged and will be merged; empty when it is judged where the agent worked."""
    tree: str = ""
    """Tree of that commit."""


class WorkVerifier:
    """Verifies the work of one attempt and merges it if the task has a branch of its own."""

    def __init__(
        self,
        run_context: RunContext,
        store: Store,
        task: Task,
        attempt: Attempt,
        worktree: TaskWorktree | None,
        emit: EventHandler,
        has_lost_claim: Callable[[], bool],
        call_agent: AgentCaller,
    ) -> None:
        self.worktree = worktree
        """Worktree of the task; None in a serial run and once its work is merged."""
        self._context = run_context
        self._config = run_context.config
        self._store = store
        self._task = task
        self._attempt = attempt
        self._emit = emit
        self._has_lost_claim = has_lost_claim
        self._call_agent = call_agent

    def verify(
        self, reply: AgentReply, sigils: Sigils, move: HatMove
    ) -> tuple[VerificationResult, MergeProblem | None]:
        """Verify finished work; that of the last hat is merged if the task has its own branch."""
        is_last = move.kind is MoveKind.DONE
        if not is_last and not hats.changes_files(self._attempt.hat):
            return VerificationResult(), None
        if is_last and (merge_problem := self._catch_up()):
            return VerificationResult(), merge_problem
        work = JudgedWork(directory=self.worktree.directory if self.worktree else self._context.root)
        integrity = self._integrity(work) if is_last else None
        verdict = self._run_gates(work)
        if integrity and verdict.passed:
            verdict = integrity.judge(verdict)
        # Also when the run is stopping: the session then ends at once, and unreviewed work does not count as done.
        if is_last and verdict.passed and self._config.execution.verify and self._config.execution.review:
            verdict = self._review(work, verdict, reply, sigils)
        if is_last and verdict.passed and self.worktree:
            return self._merge(self.worktree, work, verdict)
        return verdict, None

    def _should_stop(self) -> bool:
        return self._context.should_stop or self._has_lost_claim()

    def _integrity(self, work: JudgedWork) -> WorkIntegrity | None:
        """Return the check of what the gates depend on; None if no gate decides."""
        execution = self._config.execution
        if not execution.verify or not execution.gates or (not work.commit and self._context.base is None):
            return None
        return WorkIntegrity(
            self._context,
            self._store,
            self._task,
            work,
            lambda directory: self._run_gates(replace(work, directory=directory)),
            self._emit,
        )

    def _run_gates(self, work: JudgedWork) -> VerificationResult:
        execution = self._config.execution
        environment = gate_environment(self._config, session_variables(self._config, self._task.id, self._attempt))
        verdict = run_gates(
            execution.gates if execution.verify else (),
            work.directory,
            execution.gate_seconds or NO_LIMIT,
            environment,
            self._should_stop,
            lambda command, result: self._emit(progress.gate_event(command, result)),
        )
        for gate in verdict.gates:
            if not gate.passed:
                self._context.warn_missing_variables(f"{gate.command}\n{gate.output}", environment, self._emit)
        return verdict

    def _review(
        self, work: JudgedWork, verdict: VerificationResult, reply: AgentReply, sigils: Sigils
    ) -> VerificationResult:
        """Review the work in a read-only session."""
        task = self._task
        self._emit(progress_event("review_started", task_id=task.id))
        feature_id = task.feature_id
        feature = self._context.with_retries(lambda: self._store.features.get(feature_id)) if feature_id else None
        prompt = build_review_prompt(task, feature, reply.files or (), sigils.journal)
        model = self._review_model() if self._context.agent.accepts_model else None
        # Changes must not be reverted where another run works in the same directory.
        is_ours = self.worktree is not None or self._context.is_only_run
        with ReadOnlyWorktree(work.directory, reverts=is_ours) as frozen:
            seconds = self._config.agent.seconds or NO_LIMIT
            answer = self._call_agent(prompt, model, seconds, work.directory, read_only=True)
        answer_sigils = parse_sigils(strip_echo(answer.text, prompt))
        is_passed = is_passing_answer(answer.text, task.id)
        review = judge_review(answer, answer_sigils, is_passed, frozen.reverted, frozen.saved_ref)
        self._emit(progress.review_ended_event(review))
        return replace(verdict, review=review)

    def _review_model(self) -> str | None:
        """Return the model for the review: the strongest, unless the ladder is not in use."""
        models, used = self._config.models, self._attempt.model
        return self._config.execution.review_model or (strongest_model(models) if used in models.ladder else used)

    # --- branches ------------------------------------------------------------------------

    def _catch_up(self) -> MergeProblem | None:
        """Merge the base branch into finished work, so that the gates run on the combined result."""
        branches, execution = self._context.branches, self._config.execution
        is_verified = execution.verify and (execution.gates or execution.review)
        if not branches or not self.worktree or not is_verified:
            return None
        try:
            if branches.is_behind(self.worktree):
                self.worktree = branches.prepare_worktree(self._task.id, self._task.title)
        except WorktreeError as error:  # the result of the session is kept all the same
            return MergeProblem(reason=str(error), waits_for_person=True)
        conflicts = self.worktree.conflicts
        if not conflicts:
            return None
        why = f"the work conflicts with changes merged meanwhile, in {', '.join(conflicts)}"
        return MergeProblem(reason=why, files=conflicts)

    def _merge(
        self, worktree: TaskWorktree, work: JudgedWork, verdict: VerificationResult
    ) -> tuple[VerificationResult, MergeProblem | None]:
        """Merge finished work into the base branch; the gates run again if that branch has moved."""
        assert self._context.branches
        if self._has_lost_claim():
            return verdict, MergeProblem(reason="the claim was lost before the work was merged")
        latest = verdict

        def passes_again() -> bool:
            nonlocal latest
            latest = replace(verdict, gates=self._run_gates(work).gates)
            return latest.passed

        recheck = passes_again if verdict.gates else None
        merge = self._context.branches.commit_and_merge(
            worktree, self._task.id, self._task.title, self._should_stop, recheck, self._has_claim
        )
        if not latest.passed:
            return latest, None
        if merge.reason:
            return latest, MergeProblem(
                reason=merge.reason, files=merge.conflicts, waits_for_person=merge.waits_for_person
            )
        self.worktree = None
        self._emit(progress_event("merged", task_id=self._task.id, files=list(merge.files), commit=merge.commit))
        return latest, None

    def _has_claim(self) -> bool:
        """Renew the claim in the database and return whether it is still held."""
        task, lease_seconds = self._task, self._config.execution.lease_seconds
        return self._context.with_retries(
            lambda: self._store.tasks.claims.heartbeat(task.id, task.claim_token, lease_seconds)
        )
