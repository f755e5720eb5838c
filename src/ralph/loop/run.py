"""A run of the loop: one or more workers, from the first claim to the learnings extracted at the end."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ralph.core.agents import FALLBACK_AGENTS
from ralph.core.errors import RalphError, StoreError, StoreUnavailableError, WorktreeError
from ralph.core.git import trust_git_programs
from ralph.core.records import TaskStatus, record_fields, replace
from ralph.loop import progress
from ralph.loop.context import RunContext
from ralph.loop.environment import missing_password_warning
from ralph.loop.git.branches import TaskBranches
from ralph.loop.git.run_commits import head_commit
from ralph.loop.git.serial import NOT_COMMITTED, SerialWork
from ralph.loop.health import DatabaseMonitor
from ralph.loop.limits import Budget
from ralph.loop.options import (
    NOT_COMMITTED_KEY,
    SERVICE_ENDINGS,
    START_KEY,
    RunEnding,
    RunSummary,
    store_texts,
    stored_text,
)
from ralph.loop.own_options import save_own_options
from ralph.loop.progress import progress_event
from ralph.loop.report import read_report
from ralph.loop.report_text import short_lines
from ralph.loop.steering import RequestWatch
from ralph.loop.strategy import NO_MODEL_REASON, candidate_models, model_note
from ralph.loop.waits import WaitTimes
from ralph.loop.worker import Worker
from ralph.loop.workers import RunLock
from ralph.memory.capture.promotion import learn_from_histories, run_histories
from ralph.memory.freshness import check_staleness
from ralph.memory.maintenance import consolidate_memories, retire_memories
from ralph.memory.recall.vector_search import EmbeddingThread
from ralph.store.memories import ChangeInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ralph.agents import Agent
    from ralph.core.config import Config
    from ralph.core.records import ResourceUsage, Run, Task
    from ralph.loop.options import RunOptions
    from ralph.loop.progress import EventHandler
    from ralph.store import Store
    from ralph.store.runs import RunStore

JOIN_POLL_SECONDS = 0.2
"""Interval at which the main thread wakes up to handle signals, in seconds."""
_STOP_ALL = (
    RunEnding.BROKEN,
    RunEnding.DAMAGED,
    RunEnding.NO_DISK,
    RunEnding.WORKER_DIED,
    RunEnding.NO_AGENT,
    RunEnding.NO_BRANCH,
    RunEnding.AGENT_FAILS,
    RunEnding.COMMAND_FAILS,
    *SERVICE_ENDINGS,
    RunEnding.INTERRUPTED,
    RunEnding.STOPPED,
)
"""Endings that stop all workers, whatever is left to do."""
_WORST_FIRST = (
    *_STOP_ALL,
    RunEnding.LIMIT_MINUTES,
    RunEnding.LIMIT_COST,
    RunEnding.LIMIT_TOKENS,
    RunEnding.LIMIT_ITERATIONS,
    RunEnding.WAITS,
    RunEnding.NOT_READY,
    RunEnding.BUSY,
)


class Loop:
    """One run of an agent over the tasks of a project."""

    def __init__(
        self,
        *,
        store: Store,
        agent: Agent,
        fallbacks: Sequence[Agent] = (),
        config: Config,
        directory: Path,
        run_options: RunOptions,
        emit: EventHandler,
        ask_feedback: Callable[[Task], str] | None = None,
        resumed_run: Run | None = None,
        stored_options: str = "",
    ) -> None:
        """`fallbacks` are agents that go on while `agent` waits for its model.

        `ask_feedback` asks a person for feedback after Ctrl+C; `resumed_run` is the run to continue.

        `stored_options` is the JSON stored with the run, from which it can be resumed.
        """
        self._store = store
        self._agent = agent
        self._fallbacks = fallbacks
        self._config = config
        self._directory = directory
        # A run resumed for a single task may have had several workers before.
        self._options = replace(run_options, parallel=1) if run_options.only else run_options
        self._emit = emit
        self._ask_feedback = ask_feedback if self._options.parallel < 2 else None
        self._resumed_run = resumed_run
        self._stored_options = stored_options

    def run_loop(self) -> RunSummary:
        """Work on tasks until all are done, a limit is reached or a person stops the run."""
        programs = trust_git_programs(self._directory)
        branches = self._open_branches()
        run = self._start()
        context = RunContext(
            run_id=run.id,
            agents=(self._agent, *self._fallbacks),
            config=self._config,
            root=self._directory,
            run_options=self._options,
            budget=Budget(self._options, self._used_before()),
            emit=self._emit,
            ask_feedback=self._ask_feedback,
            branches=branches,
            on_wait=lambda until, reason: self._record_on_run(lambda runs: runs.set_wait(run.id, until, reason)),
            waits=WaitTimes(lambda seconds: self._record_on_run(lambda runs: runs.add_waits(run.id, seconds))),
        )
        embedding = EmbeddingThread(
            self._store.reopen,
            self._options.with_memory and self._config.memories.meaning,
            lambda: context.interrupts.is_requested,
        )
        requests = RequestWatch(
            self._store,
            run.id,
            context.handle_request,
            lambda runs: runs.record_alive(run.id, context.budget.seconds, tuple(context.worker_names)),
        )
        with (
            RunLock(self._directory) as lock,
            context.interrupts,
            embedding,
            self._monitor_database(context),
            requests,
        ):
            context.is_only_run = lock.is_acquired
            if not lock.is_acquired and not branches:
                message = (
                    "Another run is active in this directory, and both change the same files."
                    " Use ralph run --parallel to give each task its own worktree."
                )
                context.emit(progress_event("warning", message=message))
            if programs:
                listed = ", ".join(f"{name} = {value}" for name, value in programs.items())
                context.emit(progress_event("note", message=f"Git runs what this repository configures: {listed}"))
            try:
                worker = Worker(context, self._store, 1 if self._options.parallel > 1 else 0)
                worker.release_dead_claims()
                self._announce_start(context, self._open_work(context))
                self._store_commit_state(context)
                # Says what is wrong with the files, even if no task is ready.
                context.sync_memories(self._store, is_by_agent=False)
                self._check_staleness(context)
                ending = worker.run_worker() if self._options.parallel < 2 else self._run_workers(context)
                self._end(context, ending)
            except StoreError as error:
                ending = context.ending_for_store_error(error)
        used = context.budget.used
        summary = RunSummary(
            run_id=run.id,
            ending=ending,
            iterations=used.iterations,
            done=used.done,
            seconds=used.seconds,
            cost_usd=used.cost_usd,
            tokens=used.tokens,
        )
        report = self._report_lines(run.id)
        context.emit(
            progress_event("run_ended", **record_fields(summary), can_go_on=summary.ending.is_resumable, report=report)
        )
        return summary

    def _report_lines(self, run_id: str) -> list[str]:
        """Return what a person should know beyond the summary; nothing if the store cannot be read."""
        try:
            return short_lines(read_report(self._store, self._directory, run_id))
        except RalphError:
            return []

    def _record_on_run(self, change: Callable[[RunStore], None]) -> None:
        """Record that the run waits, for `ralph status` and the dashboard; called by any of the workers."""
        store = self._store.reopen()
        try:
            change(store.runs)
        except StoreError:
            pass  # the run waits all the same
        finally:
            store.close()

    def _monitor_database(self, context: RunContext) -> DatabaseMonitor:
        def stop() -> None:
            context.stop_reason = context.stop_reason or RunEnding.DAMAGED

        return DatabaseMonitor(
            self._store,
            lambda message: context.emit(progress_event("warning", message=message)),
            stop,
            lambda: context.interrupts.is_terminated,
        )

    def _open_branches(self) -> TaskBranches | None:
        if self._options.parallel < 2:
            return None
        return TaskBranches.open(self._directory)

    def _open_work(self, context: RunContext) -> str:
        """Prepare the commits of a serial run; return a sentence for the person, such as why there are none."""
        if context.branches:
            return ""
        execution = self._config.execution
        resets = execution.on_failure == "reset"
        context.work, context.not_committed = SerialWork.open(
            self._directory, execution.commit, resets=resets, is_only_run=context.is_only_run
        )
        try:
            left = context.work.recover() if context.work and context.work.commits else None
        except WorktreeError as error:
            context.work, context.not_committed = None, f"{NOT_COMMITTED}: {error}"
            return context.not_committed
        if left:
            context.with_retries(
                lambda: self._store.attempts.settled.record_checkpoint(left.run_id, left.iteration, left.checkpoint)
            )
        if context.work and context.base:
            context.base.leave_out(context.work.files_before_unfinished())
        return context.not_committed or (context.work.identity_note if context.work else "")

    def _store_commit_state(self, context: RunContext) -> None:
        """Store for the report where the run started from, and why work is not committed, if that has changed."""

        def store() -> None:
            stored = self._store.runs.get(context.run_id).options
            before = stored_text(self._resumed_run.options if self._resumed_run else stored, START_KEY)
            texts = {START_KEY: before or head_commit(self._directory), NOT_COMMITTED_KEY: context.not_committed}
            if (options := store_texts(stored, texts)) != stored:
                self._store.runs.set_options(context.run_id, options)

        context.with_retries(store, is_settling=True)

    def _start(self) -> Run:
        if self._resumed_run:
            run = self._store.runs.resume(self._resumed_run.id, self._stored_options)
        else:
            run = self._store.runs.start(self._agent.name, self._stored_options)
        self._store.projects.set_stuck_after(self._store.project_id, self._config.execution.stuck_after)
        save_own_options(self._directory, run.id, self._stored_options)
        return run

    def _used_before(self) -> ResourceUsage | None:
        """Return what a resumed run has used so far."""
        if not self._resumed_run:
            return None
        run, used = self._resumed_run, self._store.runs.usage(self._resumed_run.id)
        # A killed run did not record its duration; its workers ran concurrently.
        seconds = run.seconds if run.ended_at else max(run.seconds, used.seconds / max(1, self._options.parallel))
        return replace(used, iterations=run.iterations, seconds=seconds)

    def _end(self, context: RunContext, ending: RunEnding) -> None:
        seconds = context.budget.seconds
        context.waits.flush()
        self._store_commit_state(context)
        context.with_retries(lambda: self._store.runs.end(context.run_id, ending, seconds), is_settling=True)
        self._store.episodes.trim(self._config.episodes.max_bytes)
        self._try_learn(context)
        self._try_reflect(context)

    def _run_workers(self, context: RunContext) -> RunEnding:
        """Run several workers, each in a thread with its own connection, and return how the run ended."""
        endings: list[RunEnding] = []

        def work(number: int) -> None:
            try:
                endings.append(self._run_worker(context, number))
            except StoreError as error:
                context.stop_reason = context.ending_for_store_error(error)
                endings.append(context.stop_reason)

        threads = [
            threading.Thread(target=work, args=(number,), name=f"worker {number}", daemon=True)
            for number in range(1, self._options.parallel + 1)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(JOIN_POLL_SECONDS)
        self._remove_merged_branches(context)
        if len(endings) < len(threads):
            endings.append(RunEnding.WORKER_DIED)
        return context.with_retries(lambda: self._combine_endings(context, endings), is_settling=True)

    def _run_worker(self, context: RunContext, number: int) -> RunEnding:
        """Run one worker; if it crashes, release its claims so that others can continue."""
        store = self._store.reopen()
        worker = Worker(context, store, number)
        try:
            return worker.run_worker()
        except StoreError:
            raise
        except BaseException:
            worker.release_own_claims()
            raise
        finally:
            store.close()

    def _remove_merged_branches(self, context: RunContext) -> None:
        """Remove worktrees and branches of finished tasks; a failure is only a warning."""
        assert context.branches
        try:
            context.branches.remove_merged(self._unfinished_ids)
        except WorktreeError as error:
            context.emit(progress_event("warning", message=str(error)))

    def _unfinished_ids(self) -> set[str]:
        return {task.id for task in self._store.tasks.all() if task.status is not TaskStatus.DONE}

    def _combine_endings(self, context: RunContext, endings: list[RunEnding]) -> RunEnding:
        """Return the most severe ending, or COMPLETE if no open task is left."""
        worst = next((ending for ending in _WORST_FIRST if ending in endings), endings[-1])
        if worst in _STOP_ALL or self._store.tasks.progress.has_unfinished():
            return worst
        return RunEnding.COMPLETE if context.budget.iterations else RunEnding.NOTHING

    def _announce_start(self, context: RunContext, commit_note: str) -> None:
        ready = len(self._store.tasks.progress.ready())
        context.emit(
            progress.run_started_event(
                context.run_id,
                self._agent.name,
                self._model_note(),
                ready,
                self._options,
                self._config.execution.gates,
                is_verified=self._config.execution.verify,
                is_reviewed=self._config.execution.verify and self._config.execution.review,
                is_resumed=self._resumed_run is not None,
                used=context.budget.usage_lines(),
                progress=context.run_progress(self._store),
                commit_note=commit_note,
            )
        )
        agent = self._agent
        if (self._config.models.strategy or self._options.model) and not agent.accepts_model:
            message = f"No model is selected: {NO_MODEL_REASON}. Put {{model}} into its command, or set [agent] model."
            context.emit(progress_event("warning", message=message))
        if message := missing_password_warning(self._config):
            context.emit(progress_event("warning", message=message))
        if (self._options.cost_usd or self._options.task_cost_usd) and (why := self._why_unpriced()):
            context.emit(progress_event("warning", message=f"{why}, so the cost limit cannot stop this run."))
        if (self._options.tokens or self._options.task_tokens) and not agent.reports_tokens:
            message = f"The {agent.name} agent does not report tokens, so the token limit cannot stop this run."
            context.emit(progress_event("warning", message=message))

    def _model_note(self) -> str:
        """Return which models the agent uses and why, or an empty string if it has none to choose from."""
        config = self._config
        if self._options.model:
            return f"{self._options.model} (asked for with --model)"
        if self._agent.accepts_model:
            return model_note(config.models, config.agent.model)
        is_known = self._agent.name in FALLBACK_AGENTS
        return "its own default model (no strategy is configured)" if is_known else ""

    def _why_unpriced(self) -> str:
        """Return why the cost of sessions is unknown, or an empty string."""
        agent, models, configured = self._agent, self._config.models, self._config.agent.model
        if agent.reports_cost:
            return ""
        if not agent.reports_tokens:
            return f"The {agent.name} agent does not report its cost"
        if self._options.model:
            candidates: tuple[str, ...] = (self._options.model,)
        else:
            candidates = candidate_models(models, configured) if agent.accepts_model else ()
        unpriced = [model for model in candidates if model not in models.prices]
        if unpriced or not candidates:
            return f"No price is set under [models.prices] for {', '.join(unpriced) or 'an agent without a model'}"
        return ""

    def _check_staleness(self, context: RunContext) -> None:
        """Mark memories about files that have changed since as stale."""
        stale = context.with_retries(lambda: check_staleness(self._store, self._directory)).marked
        if stale:
            context.emit(progress_event("stale", count=len(stale)))

    def _try_learn(self, context: RunContext) -> None:
        """Extract learnings; a failure here does not fail the run."""
        try:
            self._learn(context)
        except StoreUnavailableError as error:
            message = f"Could not extract learnings from this run: {error}"
            context.emit(progress_event("warning", message=f"{message} Retry with: ralph learn extract --promote"))
        except StoreError:
            raise
        except RalphError as error:
            context.emit(progress_event("warning", message=f"Could not extract learnings from this run: {error}"))

    def _learn(self, context: RunContext) -> None:
        """Extract learnings from the whole run, then consolidate and retire memories."""
        if not context.budget.iterations:
            return
        change = ChangeInfo(who="ralph", why=f"extracted from {context.run_id}")
        history = run_histories(self._store, context.run_id)
        counts = learn_from_histories(self._store, history, change, review=self._config.memories.review)
        if counts.extracted:
            context.emit(progress_event("extracted", **record_fields(counts)))
        if context.interrupts.is_terminated:  # the next run does the rest
            context.sync_memories(self._store)
            return
        consolidation = consolidate_memories(self._store, context.run_id)
        if consolidation.superseded or consolidation.left:
            details = {"superseded": consolidation.superseded, "left": consolidation.left}
            context.emit(progress_event("consolidated", **details))
        retirement = retire_memories(self._store, context.root)
        if retirement.retired or retirement.left:
            context.emit(progress_event("retired", count=retirement.retired, left=retirement.left))
        context.sync_memories(self._store)

    def _try_reflect(self, context: RunContext) -> None:
        """Let an agent reflect on the work if the settings say so; a failure here does not fail the run."""
        model = self._config.learning.reflect
        if not model or not context.budget.iterations or context.should_stop or context.budget.reached_limit():
            return
        from ralph.loop.reflect import ReflectionOptions, reflect

        wanted = ReflectionOptions(model=model, only_new=True)
        try:
            result = reflect(
                self._store,
                self._config,
                self._directory,
                wanted,
                should_stop=lambda: context.should_stop,
                is_only_run=context.is_only_run,
            )
        except StoreError:
            raise
        except RalphError as error:
            context.emit(progress_event("warning", message=str(error)))
            return
        if result:
            context.emit(progress.reflected_event(result))
