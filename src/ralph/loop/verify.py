"""Verification of finished work: gates, review and merge.

`JudgedWork` says what is judged: which directory, which commit, and the commit it is compared with.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ralph.agents import Limits
from ralph.agents.supervisor.sandbox import sandbox_of
from ralph.core.config import TOML_NAME
from ralph.core.errors import WorktreeError
from ralph.core.records import SessionEnding, VerificationResult, record, replace
from ralph.formats.sigils import parse_sigils, strip_echoes
from ralph.loop import hats, progress
from ralph.loop.environment import gate_environment, session_variables
from ralph.loop.gates import run_gates
from ralph.loop.git.checkouts import changed_files, editable_install_paths, untracked_files
from ralph.loop.git.commits import MergeRefusedError
from ralph.loop.git.read_only import ReadOnlyWorktree
from ralph.loop.git.repository import StopRequestedError
from ralph.loop.hats import MoveKind
from ralph.loop.integrity.protected import changes_what_runs
from ralph.loop.integrity.work import WorkIntegrity
from ralph.loop.limits import NO_LIMIT
from ralph.loop.outcome import MergeProblem
from ralph.loop.progress import progress_event
from ralph.loop.review import build_review_prompt, is_passing_answer, judge_review
from ralph.loop.strategy import strongest_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import Protocol

    from ralph.core.records import AgentReply, Attempt, IntegrityResult, Review, Sigils, Task
    from ralph.loop.context import RunContext
    from ralph.loop.git.branches import TaskBranches
    from ralph.loop.git.commits import CommittedWork, TaskWorktree
    from ralph.loop.git.settings import UndoneChange
    from ralph.loop.hats import HatMove
    from ralph.loop.progress import EventHandler
    from ralph.store import Store

    class AgentCaller(Protocol):
        """Runs an agent session in a directory and returns its reply."""

        def __call__(
            self, prompt: str, model: str | None, seconds: float, directory: Path, *, read_only: bool = False
        ) -> AgentReply:
            """Run the session."""


MAX_REVIEWS = 2
"""Number of times that a reviewer who says nothing or crashes is asked."""


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
        report_changes: Callable[[Sequence[UndoneChange]], None],
        *,
        is_accepted: bool = False,
    ) -> None:
        """`report_changes` is told of settings of git that gates changed.

        `is_accepted` says that a person accepted the work without a review.
        """
        self.worktree = worktree
        """Worktree of the task; None in a serial run and once its work is merged."""
        self.merge_commit = ""
        """Commit on the base branch with the work of the task, once it is merged."""
        self._context = run_context
        self._config = run_context.config
        self._store = store
        self._task = task
        self._attempt = attempt
        self._emit = emit
        self._has_lost_claim = has_lost_claim
        self._call_agent = call_agent
        self._report_changes = report_changes
        self._is_accepted = is_accepted

    def verify(
        self, reply: AgentReply, sigils: Sigils, move: HatMove
    ) -> tuple[VerificationResult, MergeProblem | None]:
        """Verify finished work; that of the last hat is merged if the task has its own branch."""
        is_last = move.kind is MoveKind.DONE
        if problem := self._too_many_files(reply):
            return VerificationResult(), problem
        if is_last and self.worktree:
            return self._verify_and_merge(self.worktree, reply, sigils)
        if not is_last and not hats.changes_files(self._attempt.hat):
            return VerificationResult(), None
        work = JudgedWork(directory=self.worktree.directory if self.worktree else self._context.root)
        return (self._judge(work, reply, sigils) if is_last else self._run_gates(work)), None

    def _judge(self, work: JudgedWork, reply: AgentReply, sigils: Sigils) -> VerificationResult:
        """Run the gates and, if they pass, compare what they depend on with the base, then review the work."""
        verdict, execution = self._run_checked(work), self._config.execution
        # Also when the run is stopping: the session then ends at once, and unreviewed work does not count as done.
        if verdict.passed and execution.verify and execution.review and not self._is_accepted:
            return self._review(work, verdict, reply, sigils)
        return verdict

    def unfinished_change(self) -> IntegrityResult | None:
        """Return what unfinished work in a shared directory changed that only a person may accept."""
        integrity = self._integrity(JudgedWork(directory=self._context.root)) if self._context.base else None
        return integrity.unfinished() if integrity else None

    def _should_stop(self) -> bool:
        return self._context.should_stop or self._has_lost_claim()

    def _run_checked(self, work: JudgedWork) -> VerificationResult:
        """Run the gates, and compare what they depend on with the base if they pass."""
        integrity = self._integrity(work)
        reuse = self._config.execution.reuse
        planted = untracked_files(work.directory, work.commit, reuse) if work.commit else []
        verdict = self._run_gates(work)
        if work.commit and not planted:
            later = untracked_files(work.directory, work.commit, reuse)
            planted = [path for path in later if changes_what_runs(path, self._config.execution.protect)]
        verdict = _without_changed_files(verdict, work, planted)
        return integrity.judge(verdict) if integrity and verdict.passed else verdict

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
            lambda directory, should_fail: self._run_gates(replace(work, directory=directory), should_fail=should_fail),
            self._emit,
        )

    def _run_gates(self, work: JudgedWork, *, should_fail: bool = False) -> VerificationResult:
        execution = self._config.execution
        if not execution.verify or not execution.gates:
            return VerificationResult()
        environment = gate_environment(self._config, session_variables(self._config, self._task.id, self._attempt))
        if work.commit and (paths := editable_install_paths(work.directory, self._context.root)):
            environment["PYTHONPATH"] = os.pathsep.join([*paths, *filter(None, [environment.get("PYTHONPATH")])])
        # Gates run code that an agent wrote.
        with self._context.git_settings.protect(work.directory) as changes:
            verdict = run_gates(
                execution.gates,
                work.directory,
                self._gate_limits(),
                environment,
                self._should_stop,
                lambda command, result: self._emit(progress.gate_event(command, result, should_fail=should_fail)),
            )
        self._report_changes(changes)
        if self.worktree and (moved := self._branches.undo_base_move(self.worktree)):
            self._emit(progress_event("warning", message=moved))
        for gate in verdict.gates:
            if not (gate.passed or should_fail):
                self._context.warn_missing_variables(f"{gate.command}\n{gate.output}", environment, self._emit)
        return verdict

    def _too_many_files(self, reply: AgentReply) -> MergeProblem | None:
        """Return why work that changed too many files has to be looked at by a person."""
        most, changed = self._config.agent.max_files_changed, len(reply.files or ())
        if not most or changed <= most:
            return None
        reason = f"the session changed {changed:,} files, more than max_files_changed = {most}"
        return MergeProblem(reason=reason, waits_for_person=True, category="too_many_files")

    def _gate_limits(self) -> Limits:
        agent, seconds = self._config.agent, self._config.execution.gate_seconds or NO_LIMIT
        return Limits(
            seconds=seconds,
            idle_seconds=seconds + 1,
            memory_bytes=agent.memory_mb * 1024 * 1024,
            processes=agent.processes,
            sandbox=sandbox_of(self._config, self._context.root),
        )

    def _review(
        self, work: JudgedWork, verdict: VerificationResult, reply: AgentReply, sigils: Sigils
    ) -> VerificationResult:
        """Review the work in a read-only session."""
        task = self._task
        self._emit(progress_event("review_started", task_id=task.id))
        feature_id = task.feature_id
        feature = self._context.with_retries(lambda: self._store.features.get(feature_id)) if feature_id else None
        parents = self._context.with_retries(lambda: self._store.tasks.graph.with_ancestors(task.id)[1:])
        questions = self._context.with_retries(lambda: self._store.questions.of_task(task.id))
        prompt = build_review_prompt(task, feature, reply.files or (), sigils.journal, parents, questions)
        model = self._review_model() if self._context.availability.agent(self._attempt.agent).accepts_model else None
        review = self._ask_reviewer(prompt, model, work.directory)
        times_asked = 1
        while review.is_silent and times_asked < MAX_REVIEWS and not self._should_stop():
            if review.reply.ending is SessionEnding.MODEL_FAILED:
                if not self._wait_for_reviewer(review.reply):
                    break
            else:
                times_asked += 1
                self._emit(progress_event("note", message=f"{review.reason}; it is asked once more"))
            again = self._ask_reviewer(prompt, model, work.directory)
            review = replace(again, reply=_add_usage(again.reply, review.reply))
        self._emit(progress.review_ended_event(review))
        return replace(verdict, review=review)

    def _ask_reviewer(self, prompt: str, model: str | None, directory: Path) -> Review:
        # Changes must not be reverted where another run works in the same directory.
        is_ours = self.worktree is not None or self._context.is_only_run
        with ReadOnlyWorktree(directory, self._context.git_settings, reverts=is_ours) as frozen:
            seconds = self._config.agent.seconds or NO_LIMIT
            answer = self._call_agent(prompt, model, seconds, directory, read_only=True)
        find_texts = self._context.text_finder(self._store)
        said = strip_echoes(answer.text, prompt, find_texts=find_texts, task_id=self._task.id)
        is_passed = is_passing_answer(said, self._task.id)
        return judge_review(answer, parse_sigils(said), is_passed, frozen.reverted, frozen.saved_ref)

    def _wait_for_reviewer(self, reply: AgentReply) -> bool:
        """Wait until the agent can use its model again; return False if it cannot."""
        context, name = self._context, self._attempt.agent
        if ending := context.availability.record_reply(name, reply):
            context.stop_reason = context.stop_reason or ending
            return False
        agent = context.wait_for_agent()
        return agent is not None and agent.name == name

    def _review_model(self) -> str | None:
        """Return the model for the review: the strongest, unless the ladder is not in use."""
        models, used = self._config.models, self._attempt.model
        return self._config.execution.review_model or (strongest_model(models) if used in models.ladder else used)

    # --- branches ------------------------------------------------------------------------

    def _verify_and_merge(
        self, worktree: TaskWorktree, reply: AgentReply, sigils: Sigils
    ) -> tuple[VerificationResult, MergeProblem | None]:
        """Commit the work, judge a clean checkout of that commit, and merge exactly what was judged."""
        execution, branches, task = self._config.execution, self._branches, self._task
        if not execution.verify or not (execution.gates or (execution.review and not self._is_accepted)):
            return self._merge(worktree, None, VerificationResult())
        try:
            committed = branches.commit_work(worktree, task.id, task.title)
            with self._check_out(worktree, committed) as work:
                verdict = self._judge(work, reply, sigils)
        except WorktreeError as error:  # the result of the session is kept all the same
            return VerificationResult(), _merge_problem(error)
        verdict = replace(verdict, left_out=committed.left_out)
        if verdict.passed:
            return self._merge(worktree, committed, verdict)
        if verdict.left_out:
            self._emit(progress_event("warning", message=" ".join(verdict.left_out)))
        return verdict, None

    @property
    def _branches(self) -> TaskBranches:
        assert self._context.branches
        return self._context.branches

    @contextmanager
    def _check_out(self, worktree: TaskWorktree, committed: CommittedWork) -> Iterator[JudgedWork]:
        """Yield committed work in a clean checkout."""
        with self._branches.check_out(worktree, committed, self._config.execution.reuse) as directory:
            yield JudgedWork(directory=directory, base=committed.base, commit=committed.commit, tree=committed.tree)

    def _merge(
        self, worktree: TaskWorktree, committed: CommittedWork | None, verdict: VerificationResult
    ) -> tuple[VerificationResult, MergeProblem | None]:
        """Merge finished work into the base branch; the gates run again if that branch has moved."""
        if self._has_lost_claim():
            return verdict, MergeProblem(reason="the claim was lost before the work was merged")
        latest = verdict

        def passes_again(committed: CommittedWork) -> bool:
            nonlocal latest
            with self._check_out(worktree, committed) as work:
                checked = self._run_checked(work)
                latest = replace(verdict, gates=checked.gates, integrity=checked.integrity)
            return latest.passed

        merge = self._branches.commit_and_merge(
            worktree,
            self._task.id,
            self._task.title,
            self._should_stop,
            passes_again if verdict.gates else None,
            self._has_claim,
            committed,
            lambda: latest.integrity is not None and TOML_NAME in latest.integrity.approved,
        )
        if not latest.passed:
            return latest, None
        if merge.reason:
            return latest, MergeProblem(
                reason=merge.reason, files=merge.conflicts, waits_for_person=merge.waits_for_person
            )
        self.worktree, self.merge_commit = None, merge.commit or ""
        self._emit(progress_event("merged", task_id=self._task.id, files=list(merge.files), commit=merge.commit))
        if merge.left_out:
            kept = f"{' '.join(merge.left_out)} The worktree {worktree.root} is kept."
            self._emit(progress_event("warning", message=kept))
            return replace(latest, left_out=(*merge.left_out, f"The worktree {worktree.root} is kept.")), None
        return latest, None

    def _has_claim(self) -> bool:
        """Renew the claim in the database and return whether it is still held."""
        task, lease_seconds = self._task, self._config.execution.lease_seconds
        return self._context.with_retries(
            lambda: self._store.tasks.claims.heartbeat(task.id, task.claim_token, lease_seconds)
        )


def _add_usage(reply: AgentReply, earlier: AgentReply) -> AgentReply:
    """Return a reply with the time, cost and tokens of an earlier one added."""

    def total(one: int | None, other: int | None) -> int | None:
        return one if other is None else other + (one or 0)

    return replace(
        reply,
        seconds=reply.seconds + earlier.seconds,
        cost_usd=reply.cost_usd + earlier.cost_usd,
        tokens_in=total(reply.tokens_in, earlier.tokens_in),
        tokens_out=total(reply.tokens_out, earlier.tokens_out),
        turns=total(reply.turns, earlier.turns),
    )


def _without_changed_files(verdict: VerificationResult, work: JudgedWork, planted: Sequence[str]) -> VerificationResult:
    """Let the last gate fail if the checkout is no longer what will be merged; `planted` are files it must not have."""
    is_judged = bool(work.commit and verdict.gates and verdict.passed)
    changed = [*planted, *changed_files(work.directory, work.commit)] if is_judged else []
    if not changed:
        return verdict
    detail = (
        f"{', '.join(changed[:5])} changed in the checkout while the gates ran, so that they did not judge what would"
        " be merged; a gate must not change committed files, nor may another session write there"
    )
    return replace(verdict, gates=(*verdict.gates[:-1], replace(verdict.gates[-1], passed=False, detail=detail)))


def _merge_problem(error: WorktreeError) -> MergeProblem:
    if isinstance(error, MergeRefusedError):
        return MergeProblem(reason=str(error), files=error.conflicts, waits_for_person=error.waits_for_person)
    return MergeProblem(reason=str(error), waits_for_person=not isinstance(error, StopRequestedError))
