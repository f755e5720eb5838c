"""One attempt at a claimed task, from its prompt to the result to store.

Whatever fails in one of the stages, `run_attempt` returns something that can be settled:
what is known by then and what went wrong. Only store errors are raised.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ralph.agents import Limits, SessionOptions
from ralph.agents.supervisor.sandbox import sandbox_of
from ralph.core.config import TOML_NAME
from ralph.core.environment import allowed_environment
from ralph.core.errors import AgentUnavailableError, StoreError, WorktreeError
from ralph.core.files import read_bytes_or_none
from ralph.core.records import (
    UNREVIEWED,
    AgentReply,
    AttemptOutcome,
    ResourceUsage,
    SessionEnding,
    Sigils,
    VerificationResult,
    now,
    replace,
)
from ralph.core.text import sanitize
from ralph.formats.sigils import parse_sigils, strip_sigils
from ralph.loop import hats, progress
from ralph.loop.attempt_details import DetailsFile
from ralph.loop.environment import (
    SEARCHED_OUTPUT_CHARACTERS,
    session_variables,
)
from ralph.loop.git import snapshots
from ralph.loop.git.commits import attempt_trailers
from ralph.loop.git.repository import StopRequestedError
from ralph.loop.git.unfinished import unfinished_changes
from ralph.loop.integrity.work import is_undone
from ralph.loop.limits import NO_LIMIT, has_task_limits
from ralph.loop.options import RunEnding
from ralph.loop.outcome import MergeProblem, OutcomeContext, claims_done
from ralph.loop.prepare import prepare_attempt
from ralph.loop.progress import progress_event
from ralph.loop.prompt import shown_memory_text
from ralph.loop.settle import capture_attempt, held_change, is_fruitless
from ralph.loop.strategy import session_cost, unknown_model_problem
from ralph.loop.verify import WorkVerifier
from ralph.loop.work import AttemptWork
from ralph.memory.capture.passages import attempt_transcript
from ralph.memory.freshness import record_file_marks
from ralph.memory.recall.guided import guided_memories
from ralph.store.explained import DoneWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from ralph.core.records import Attempt, AttemptResult, FailureReport, Prompt
    from ralph.loop.choose_model import AttemptPlan
    from ralph.loop.context import RunContext
    from ralph.loop.git.commits import TaskWorktree
    from ralph.loop.git.settings import UndoneChange
    from ralph.loop.hats import HatMove
    from ralph.loop.prepare import PreparedAttempt
    from ralph.loop.progress import EventHandler
    from ralph.store import Store
    from ralph.store.attempts import ClaimedAttempt

MAX_FINDINGS_SINCE_FAILURE = 5
"""Number of failure reports among which the last failure besides findings of hats is looked for."""
MIN_SESSION_SECONDS = 1.0
"""Minimum time a session gets when its task has almost used up its limit, in seconds."""


class AttemptRunner:
    """One attempt in progress."""

    def __init__(
        self,
        run_context: RunContext,
        store: Store,
        claim: ClaimedAttempt,
        emit: EventHandler,
        has_lost_claim: Callable[[], bool],
    ) -> None:
        self._context = run_context
        self._store = store
        self._config = run_context.config
        self._task = claim.task
        self._metrics = claim.metrics
        self._attempt = claim.attempt
        self._agent = run_context.availability.agent(claim.attempt.agent)
        self._emit = emit
        self._has_lost_claim = has_lost_claim
        self._worktree: TaskWorktree | None = None
        self._directory = run_context.root
        self._work = AttemptWork(run_context, store, claim.task, emit, has_lost_claim)
        self._feature: str | None = None
        """Name of the feature of the task."""
        self._notices: list[str] = []
        """Lines for the log of the task."""
        self._details: DetailsFile | None = None
        self._is_accepted = False
        """Whether a person accepted the work without a review."""
        self.reply: AgentReply | None = None
        """What the session answered, once it has ended."""
        self.was_asked = False
        """Whether a person was asked for feedback."""
        self.is_agent_missing = False
        """Whether the agent could not be started."""
        self.is_base_branch_missing = False
        """Whether the branch that work is merged into no longer exists."""

    def run_attempt(self) -> AttemptResult:
        """Make the attempt and return its result, whatever happens on the way."""
        context, attempt = self._context, self._attempt
        try:
            with self._task_worktree():
                for retry in context.retrying():
                    with retry:
                        prepared = prepare_attempt(
                            self._store,
                            self._config,
                            self._task,
                            self._metrics,
                            run_id=attempt.run_id,
                            iteration=attempt.iteration,
                            attempt_number=attempt.number or 1,
                            model=context.run_options.model,
                            with_memory=attempt.with_memory,
                            takes_model=self._agent.accepts_model,
                            conflicts=self._worktree.conflicts if self._worktree else (),
                            guided=guided_memories(self._store, self._directory, attempt.agent),
                            find_unfinished=self._find_unfinished,
                        )
                self._feature = prepared.context.feature.name if prepared.context.feature else None
                if context.base:
                    held = context.with_retries(self._store.held_changes.of_unfinished)
                    if context.work and context.base.is_open:  # what it has put into the tree is not part of the base
                        context.base.leave_out(context.work.files_before_unfinished())
                    context.base.begin(self._task.id, held)
                context.installed.wait()
                approved = self._approved_attempt()
                self._attempt = replace(self._attempt, start_commit=self._work.start)
                self._record_start(prepared, approved)
                outcome_context = self._outcome_context(prepared.plan)
                if approved:
                    reply = self.reply = self._claim_again(approved)
                else:
                    reply = self._run_session(prepared.prompt, outcome_context.used)
                return self._work.record(self._judge(prepared, reply, outcome_context))
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001
            # The one place where any error, including a bug in Ralph, becomes a recorded attempt.
            return self._work.record(self._with_unfinished_change(self._result_of_error(error)))

    def _result_of_error(self, error: Exception) -> AttemptResult:
        if isinstance(error, AgentUnavailableError):
            if not self._directory.is_dir():
                return self.failed_result(
                    f"{self._directory} no longer exists, so the agent had no directory to work in."
                )
            self.is_agent_missing = True
            return self.failed_result(str(error), SessionEnding.STOPPED)
        if isinstance(error, StopRequestedError):
            return self.failed_result(self._why_stopped(), SessionEnding.STOPPED)
        if isinstance(error, WorktreeError):
            self.is_base_branch_missing = self._context.branches is not None and not self._context.branches.has_base()
            return self.failed_result(str(error), merge_problem=MergeProblem(reason=str(error), waits_for_person=True))
        if problem := self._context.disk_problem():
            return self.failed_result(f"{problem[0].upper()}{problem[1:]}: {error}", SessionEnding.STOPPED)
        return self.failed_result(f"Ralph failed: {type(error).__name__}: {error}")

    def failed_result(
        self, reason: str, ending: SessionEnding = SessionEnding.CRASHED, merge_problem: MergeProblem | None = None
    ) -> AttemptResult:
        """Return the attempt as failed for a reason outside of the task, with what is known so far."""
        self._emit(progress_event("warning", message=reason))
        reply = replace(self.reply or AgentReply(text=""), text="", ending=ending, detail=reason)
        return self._capture(
            reply, Sigils(), VerificationResult(), self._outcome_context(), merge_problem=merge_problem
        )

    @contextmanager
    def _task_worktree(self) -> Iterator[None]:
        """Work in the task's own worktree, if it has one."""
        task, branches = self._task, self._context.branches
        if not branches:
            self._work.begin(self._attempt)
            yield
            return
        with branches.task_lock(task.id, self._should_stop):
            trailers = attempt_trailers(self._attempt.run_id, self._attempt.number)
            self._worktree = branches.prepare_worktree(task.id, task.title, trailers)
            self._directory = self._worktree.directory
            self._work.begin_in(self._worktree)
            try:
                yield
            finally:
                self._work.end_in(None, "")  # from here on, another worker may use it

    def _find_unfinished(self) -> tuple[str, ...]:
        """Return what the working tree holds that is not merged or committed."""
        return unfinished_changes(self._directory, self._worktree.base_commit if self._worktree else "")

    def _record_start(self, prepared: PreparedAttempt, approved: Attempt | None) -> None:
        """Record and report the start; `approved` is the attempt whose work is only verified again."""
        choice = prepared.plan.choice
        self._attempt = replace(
            self._attempt,
            hat=prepared.plan.hat,
            model=choice.model,
            model_reason=choice.reason,
            shown=approved.shown if approved else (*prepared.prompt.shown, *prepared.prompt.episodes),
        )
        self._context.with_retries(lambda: self._store.attempts.record_start(self._attempt))
        self._emit(progress.attempt_started_event(self._task, self._attempt, is_default_model=choice.is_default))
        if not approved:
            self._emit(progress.recalled_event(prepared.context, prepared.prompt))

    def _judge(self, prepared: PreparedAttempt, reply: AgentReply, outcome_context: OutcomeContext) -> AttemptResult:
        """Verify what the session claims and return the result of the attempt."""
        prompt = prepared.prompt
        find_texts = self._context.text_finder(self._store)
        said = parse_sigils(reply.text, prompt.text, find_texts=find_texts, task_id=self._task.id)
        sigils = self._drop_unknown_model(said)
        says_done = claims_done(self._task.id, reply, sigils)
        move = hats.resolve_move(self._attempt.hat, sigils, says_done, prepared.plan.hats)
        verdict, merge_problem = self._verify(reply, sigils, move) if says_done else (VerificationResult(), None)
        self._keep_details(prompt, verdict)
        is_done = says_done and verdict.passed and merge_problem is None
        if (
            self._should_stop()
            and reply.ending is SessionEnding.FINISHED
            and not (verdict.passed and merge_problem is None)
        ):
            # Gates that Ralph stopped, or a merge that was not awaited, say nothing about the work.
            reply = replace(reply, ending=SessionEnding.STOPPED, detail=self._why_stopped())
        if not is_done and (problem := self._context.disk_problem()):
            # The agent could not write: the task is not to blame, and its learnings are kept.
            reply = replace(reply, ending=SessionEnding.STOPPED, detail=problem)
        result = self._capture(reply, sigils, verdict, outcome_context, move, merge_problem, prompt)
        if not is_done:
            result = self._with_unfinished_change(result)
        return replace(
            result, memories=tuple(record_file_marks(memory, self._context.root) for memory in result.memories)
        )

    def _verify(
        self, reply: AgentReply, sigils: Sigils, move: HatMove
    ) -> tuple[VerificationResult, MergeProblem | None]:
        """Verify what the session claims to have done, and merge it if the task has its own branch."""
        verifier = self._verifier()
        self._work.begin_verification()
        try:
            return verifier.verify(reply, sigils, move)
        finally:
            self._worktree = verifier.worktree
            self._work.end_in(verifier.worktree, verifier.merge_commit)

    def _verifier(self) -> WorkVerifier:
        return WorkVerifier(
            self._context,
            self._store,
            self._task,
            self._attempt,
            self._worktree,
            self._emit,
            self._has_lost_claim,
            self._call_agent,
            self._report_changes,
            is_accepted=self._is_accepted,
        )

    def _with_unfinished_change(self, result: AttemptResult) -> AttemptResult:
        """Add what unfinished work changed among the files that gates depend on: a later run must not start from it."""
        if result.held or not self._context.base:
            return result
        found = self._verifier().unfinished_change()
        if found and found.reason:
            self._emit(progress_event("warning", message=f"{found.reason}. See: ralph task show {self._task.id}"))
        return replace(result, held=held_change(result.attempt, found, now()))

    def _outcome_context(self, plan: AttemptPlan | None = None) -> OutcomeContext:
        """Return the limits and the history that the result is judged by."""
        store, task, options = self._store, self._task, self._context.run_options
        failed, limited = self._metrics.consecutive_failures, has_task_limits(options)
        report, handed_over = self._context.with_retries(self._last_failure, is_settling=True) if failed else (None, ())
        return OutcomeContext(
            metrics=self._metrics,
            max_retries=self._config.execution.max_retries,
            run_options=options,
            used=self._context.with_retries(lambda: store.stats.usage_of_task(task), is_settling=True)
            if limited
            else ResourceUsage(),
            last_report=report,
            handed_over=handed_over,
            may_split=plan is not None and plan.can_split,
            repeated=self._context.fruitless.get(task.id, frozenset()),
        )

    def _last_failure(self) -> tuple[FailureReport | None, tuple[Attempt, ...]]:
        """Return the last failure of the task besides findings of hats, and what hats handed over since."""
        reports = self._store.failures.latest(MAX_FINDINGS_SINCE_FAILURE, task=self._task.id)
        report = next((one for one in reports if one.category != "findings"), None)
        if report is None:
            return None, ()
        later = self._store.attempts.latest(2 * MAX_FINDINGS_SINCE_FAILURE, task=self._task.id)
        handed = (one for one in later if one.handed_to and (one.number or 0) > report.attempt_number)
        return report, tuple(handed)[::-1]

    # --- the agent ---------------------------------------------------------------------

    def _run_session(self, prompt: Prompt, used: ResourceUsage) -> AgentReply:
        """Run the agent and return its reply, with the files it changed."""
        agent, directory = self._agent, self._directory
        changes = None if agent.reports_files else self._change_detector()
        if changes:
            changes.begin(self._work.state_at_start)
        seconds = self._config.agent.seconds or NO_LIMIT
        if self._context.run_options.task_minutes:
            seconds = min(seconds, max(MIN_SESSION_SECONDS, self._context.run_options.task_minutes * 60 - used.seconds))
        watch = self._context.with_retries(lambda: DoneWatch(self._store.scope))
        settings = read_bytes_or_none(self._context.root / TOML_NAME)
        self._keep_details(prompt)
        self.reply = self._call_agent(prompt.text, self._attempt.model, seconds, directory)
        self._revert_unexplained(watch)
        if self._worktree and self._context.branches:
            self._notice(self._context.branches.undo_base_move(self._worktree))
        if read_bytes_or_none(self._context.root / TOML_NAME) != settings:
            message = f"{TOML_NAME} changed during the session. It defines the gates: review it before the next run."
            self._emit(progress_event("warning", message=message))
        knows_files = agent.reports_files
        if self.reply.files is None:
            found = changes.end(self._work.read_status()) if changes else None
            self.reply = replace(self.reply, files=found or ())
            knows_files = found is not None
        mark = snapshots.change_hash(directory, self.reply.files or ()) if knows_files else ""
        self._attempt = replace(self._attempt, change_mark=mark)
        return self.reply

    def _change_detector(self) -> snapshots.ChangeDetector:
        # Where Ralph moves work in and out of the tree itself, the last session does not tell what was there.
        is_moved = self._worktree or self._context.work
        return snapshots.ChangeDetector(self._directory) if is_moved else self._context.changes

    def _approved_attempt(self) -> Attempt | None:
        """Return the last attempt if it is enough to verify its work again: a person approved the change it made."""
        id = self._task.id
        changes, attempts = self._context.with_retries(
            lambda: (self._store.held_changes.of_unfinished(), self._store.attempts.latest(2, task=id))
        )
        last = attempts[1] if len(attempts) > 1 else None
        if last is None or last.outcome is not AttemptOutcome.RETRIED:
            return None
        held = [one for one in changes if (one.task_id, one.run_id, one.iteration) == (id, last.run_id, last.iteration)]
        if not held or not held[-1].approved_at:
            return None
        if is_undone(held[-1], self._context, self._worktree):
            message = f"{id}: the approved change is no longer there, so the agent tries again"
            self._emit(progress_event("note", message=message))
            return None
        self._is_accepted = held[-1].reason.startswith(UNREVIEWED)
        return last

    def _claim_again(self, approved: Attempt) -> AgentReply:
        """Return a reply that claims the work of an earlier attempt again."""
        self._emit(progress_event("note", message="a person approved the work: it is verified again"))
        return AgentReply(text=f"<task-done>{self._task.id}</task-done>", files=approved.files)

    def _revert_unexplained(self, watch: DoneWatch) -> None:
        """Undo and report what a session wrote into the database about tasks being done."""
        for task in self._context.with_retries(watch.revert_unexplained):
            message = f"{task.id} was set to done outside of the loop and not by a person; it is not done."
            self._emit(progress_event("warning", message=message))

    def _call_agent(
        self, prompt: str, model: str | None, seconds: float, directory: Path, *, read_only: bool = False
    ) -> AgentReply:
        agent = self._config.agent
        session = SessionOptions(
            directory=directory,
            model=model,
            limits=Limits(
                seconds=seconds,
                idle_seconds=agent.idle_seconds or NO_LIMIT,
                output_bytes=int(agent.output_mb * 1024 * 1024) or sys.maxsize,
                memory_bytes=agent.memory_mb * 1024 * 1024,
                processes=agent.processes,
                sandbox=sandbox_of(self._config, self._context.root, agent=self._agent.name, is_read_only=read_only),
            ),
            environment=session_variables(self._config, self._task.id, self._attempt, read_only=read_only),
            should_stop=self._should_stop,
            on_output=lambda text: self._emit(progress_event("output", text=text)),
            read_only=read_only,
        )
        self._store.database.release_connection()  # an agent takes minutes: free the connection for others
        if read_only:  # changes to git's settings count against a review, and are undone there
            reply = self._agent.work(prompt, session)
        else:
            with self._context.git_settings.protect(directory) as changes:
                reply = self._agent.work(prompt, session)
            self._report_changes(changes)
        if reply.ending in (SessionEnding.CRASHED, SessionEnding.MODEL_FAILED):
            passed = allowed_environment(agent=self._agent.name, variable_names=agent.environment)
            output = f"{reply.text[-SEARCHED_OUTPUT_CHARACTERS:]}\n{reply.detail}"
            self._context.warn_missing_variables(output, {**passed, **session.environment}, self._emit)
        if reply.ending is SessionEnding.STOPPED:
            reply = replace(reply, detail=self._why_stopped())
        cost = session_cost(self._config.models, model or "", reply.tokens_in or 0, reply.tokens_out or 0)
        return replace(reply, cost_usd=cost) if cost and not reply.cost_usd else reply

    def _report_changes(self, changes: Sequence[UndoneChange]) -> None:
        """Report settings of git that were changed and put back."""
        for change in changes:
            self._notice(change.message)

    def _notice(self, message: str) -> None:
        """Warn of something that a session did outside of its task, if there is anything to say."""
        if message:
            self._notices.append(message)
            self._emit(progress_event("warning", message=message))

    def _drop_unknown_model(self, sigils: Sigils) -> Sigils:
        """Remove a request for an unknown model from the sigils and report it."""
        problem = unknown_model_problem(self._config.models, self._config.agent.model, sigils.next_model or "")
        return replace(sigils, next_model=None, problems=(*sigils.problems, problem)) if problem else sigils

    def _should_stop(self) -> bool:
        return self._context.should_stop or self._has_lost_claim()

    def _why_stopped(self) -> str:
        context = self._context
        if context.interrupts.is_requested:
            return "stopped by a person" if not context.interrupts.is_terminated else "Ralph was terminated"
        if self._has_lost_claim():
            return "the claim was lost"
        return context.stop_reason or RunEnding.LIMIT_MINUTES

    # --- result --------------------------------------------------------------------------

    def _capture(
        self,
        reply: AgentReply,
        sigils: Sigils,
        verdict: VerificationResult,
        outcome_context: OutcomeContext,
        move: HatMove | None = None,
        merge_problem: MergeProblem | None = None,
        prompt: Prompt | None = None,
    ) -> AttemptResult:
        result = capture_attempt(
            self._task,
            self._attempt,
            reply,
            sigils,
            verdict,
            outcome_context,
            at=now(),
            move=move,
            merge_problem=merge_problem,
            feedback=self._ask_feedback() if reply.ending is SessionEnding.STOPPED else "",
            shown_memories=shown_memory_text(prompt) if prompt else "",
            notices=self._notices,
            feature=self._feature,
        )
        if is_fruitless(reply):
            self._context.fruitless[self._task.id] = outcome_context.repeated | {reply.ending}
        if not self._context.config.episodes.capture:
            return result
        # What sigils state is stored as notes, memories and reports.
        return replace(result, episodes=attempt_transcript(result.attempt, strip_sigils(reply.text)))

    def _keep_details(self, prompt: Prompt, verdict: VerificationResult | None = None) -> None:
        """Keep what the session is told and, once its work was checked, the results of that."""
        if self._context.config.episodes.capture:
            self._details = self._details or DetailsFile(self._context.root, self._attempt, prompt)
            self._details.save(verdict)

    def _ask_feedback(self) -> str:
        """Ask the person who pressed Ctrl+C for feedback; a second Ctrl+C stops the run instead."""
        context = self._context
        if context.ask_feedback is None or context.interrupts.is_forced or not context.interrupts.is_requested:
            return ""
        self._emit(progress_event("interrupted", task_id=self._task.id))
        self.was_asked = True
        try:
            context.interrupts.is_asking = True
            return sanitize(context.ask_feedback(self._task))
        except (KeyboardInterrupt, EOFError):
            context.interrupts.count += 1
            return ""
        finally:
            context.interrupts.is_asking = False
