"""Runs of the loop: start, resume, list, follow."""

from __future__ import annotations

import os
from functools import cached_property

from ralph.core.config import apply_flags, load_notify_config
from ralph.core.errors import NotTrustedError, UsageError
from ralph.core.paging import Page, ResultList
from ralph.core.records import record, replace
from ralph.loop.options import RunOptions, apply_limits, dump_options, merge_stored_options, stored_worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import TypeVar

    from ralph.core.actor import Actor
    from ralph.core.config import Config
    from ralph.core.records import Attempt, Memory, Run, RunEvent, Task
    from ralph.core.settings import TelemetryConfig
    from ralph.loop.launch import RunChoices
    from ralph.loop.options import RunSummary
    from ralph.loop.planning import PlanOptions, PlanResult
    from ralph.loop.progress import EventHandler
    from ralph.loop.reflect import ReflectionOptions, ReflectionResult
    from ralph.loop.report import RunReport
    from ralph.loop.stats import ModelStats, RunStats, Stats
    from ralph.store import Store

    T = TypeVar("T")

MAX_ACTIVE_RUNS = 20
"""Number of latest runs among which an active one is looked for."""


@record
class RunView:
    """A run with its statistics and unfinished attempts."""

    run: Run
    stats: RunStats
    models: tuple[ModelStats, ...]
    """Results by model, the one with the most attempts first."""
    running: tuple[Attempt, ...]
    """Its attempts that have not ended."""


@record
class RunUpdate:
    """An event of a run or task, with the current state of the records it refers to."""

    event: RunEvent
    run: Run | None
    attempt: Attempt | None
    task: Task | None
    """None also if the task was deleted since."""


@record
class _AskingContext:
    """What a read-only session of an agent needs to know."""

    directory: Path
    should_stop: Callable[[], bool]
    is_only_run: bool
    """Whether no run uses the directory, so that changes can be reverted."""


def require_trust(config: Config, root: str) -> None:
    """Raise `NotTrustedError` rather than run without gates or with another agent than the settings say."""
    from ralph.core.trust_record import accept_settings, trusts_everything, untrusted_text

    if config.untrusted:
        raise NotTrustedError(
            f"Nothing was run in {root}: {untrusted_text(root, config.untrusted)}."
            " Review them with: ralph trust. In scripts: ralph --trust run"
        )
    if trusts_everything(root, os.environ):
        accept_settings(root, config.brought, are_all=True)  # sessions do not inherit the variable


def _exported(config: TelemetryConfig, project: str, forward: EventHandler) -> AbstractContextManager[EventHandler]:
    """Return an event handler that forwards events and, if an endpoint is configured, sends telemetry about them."""
    from contextlib import nullcontext

    if not config.endpoint:
        return nullcontext(forward)
    try:
        from ralph.loop.telemetry import exported
    except ModuleNotFoundError:
        from ralph.core.extras import install_hint
        from ralph.loop.progress import progress_event

        forward(progress_event("warning", message=f"No telemetry is sent. To send it, {install_hint('otel')}."))
        return nullcontext(forward)
    return exported(config, project, forward)


class RunService:
    """The runs of one opened project."""

    def __init__(self, store: Store, config: Config, root: str, actor: Actor, worktree: str = "") -> None:
        """`worktree` is the directory the project is used from, if that is not its own."""
        self._store = store
        self._config = config
        self._root = root
        self._actor = actor
        self._worktree = worktree or root

    @cached_property
    def _stats(self) -> Stats:
        from ralph.loop.stats import Stats

        return Stats(self._store)

    def start(
        self,
        options: RunOptions | None = None,
        on_event: EventHandler | None = None,
        ask_feedback: Callable[[Task], str] | None = None,
        *,
        resume: str | None = None,
        add_task: Callable[[], Task] | None = None,
    ) -> RunSummary:
        """Run the loop over the project's tasks with the configured agent, and return its summary.

        `on_event` gets every event of the run; `ask_feedback` is called when a person interrupts an attempt.
        `resume` is the id of a run to continue, or empty for the latest one. `add_task` adds the only task to work on,
        once it is sure that the agent can be started.
        """
        from pathlib import Path

        from ralph.agents import open_agent, open_fallbacks
        from ralph.agents.supervisor.adoption import named_as_loop
        from ralph.agents.supervisor.sandbox import prepare_sandbox
        from ralph.loop.notify.notifier import notified
        from ralph.loop.run import Loop
        from ralph.loop.run_recorder import RunRecorder
        from ralph.loop.workers import worker_name

        self._actor.require("run.start")
        self._require_main_worktree()
        require_trust(self._config, self._root)
        asked = options or RunOptions()
        resumed = self._run_to_resume(resume) if resume is not None else None
        stored = self._resumed_options(replace(asked, only=None), resumed) if resumed else asked
        options = replace(stored, only=asked.only or stored.only)
        if options.only:
            self._store.tasks.get(options.only)
        config = apply_flags(
            self._config,
            agent=options.agent,
            program=options.program,
            gates=options.gates,
            verify=options.verify,
            review=options.review,
            strategy=options.strategy,
        )
        directory = Path(self._root)
        agent = open_agent(config.agent, directory, config.models)
        fallbacks = open_fallbacks(config.agent, directory)
        for one in (agent, *fallbacks):
            one.check()
        prepare_sandbox(config, directory)
        notify = load_notify_config()
        if add_task:
            options = stored = replace(options, only=add_task().id)
        with (
            RunRecorder(self._root, on_event or (lambda _: None)) as recorder,
            notified(notify, directory.name, recorder, self._read_report) as notifier,
            _exported(config.telemetry, directory.name, notifier) as emit,
            named_as_loop(),
        ):
            return Loop(
                store=self._store,
                agent=agent,
                fallbacks=fallbacks,
                config=config,
                directory=directory,
                run_options=apply_limits(options, config.limits),
                emit=emit,
                ask_feedback=ask_feedback,
                resumed_run=resumed,
                # A task that a run is resumed with is for this time only.
                stored_options=dump_options(stored, worker_name()),
            ).run_loop()

    def choices(self) -> RunChoices:
        """Return what a run can be launched with, or why none can."""
        from ralph.loop.launch import run_choices

        return run_choices(self._root, self._store)

    def launch(self, options: RunOptions) -> Run:
        """Start a detached `ralph run` with options that trusted settings offer, and return the run."""
        from ralph.loop.launch import launch_run

        self._actor.require("run.start")
        self._require_main_worktree()
        return launch_run(self._root, self._store, options)

    def _read_report(self, run_id: str) -> str:
        """Return the report of a run as text; called by another thread."""
        from ralph.loop.report_formats import report_text

        store = self._store.reopen()
        try:
            return report_text(store, self._root, run_id)
        finally:
            store.close()

    def reflect(self, options: ReflectionOptions) -> ReflectionResult | None:
        """Let the configured agent reflect on past work and propose what to remember; None if nothing happened."""
        from ralph.loop.reflect import reflect

        self._actor.require("learn.reflect")
        return self._ask(
            options.agent,
            options.dry_run,
            lambda asked: reflect(
                self._store,
                self._config,
                asked.directory,
                options,
                should_stop=asked.should_stop,
                is_only_run=asked.is_only_run,
            ),
        )

    def plan(self, options: PlanOptions) -> PlanResult:
        """Let the configured agent propose the tasks of a spec; `project.features.add_planned` adds them."""
        from ralph.loop.planning import propose_plan

        self._actor.require("feature.plan")
        return self._ask(
            options.agent or "command" * bool(options.program),
            options.dry_run,
            lambda asked: propose_plan(
                self._store,
                self._config,
                asked.directory,
                options,
                should_stop=asked.should_stop,
                is_only_run=asked.is_only_run,
            ),
        )

    def _ask(self, agent: str, is_dry_run: bool, ask: Callable[[_AskingContext], T]) -> T:
        """Return what a read-only session of an agent leads to; Ctrl+C stops it."""
        from pathlib import Path

        from ralph.agents.supervisor.adoption import named_as_loop
        from ralph.agents.supervisor.sandbox import prepare_sandbox
        from ralph.loop.interrupt import Interrupts
        from ralph.loop.workers import RunLock

        self._require_main_worktree()
        require_trust(self._config, self._root)
        directory = Path(self._root)
        if not is_dry_run:
            prepare_sandbox(apply_flags(self._config, agent=agent), directory)
        with RunLock(directory) as lock, named_as_loop(), Interrupts() as interrupts:
            asked = _AskingContext(
                directory=directory, should_stop=lambda: interrupts.is_requested, is_only_run=lock.is_acquired
            )
            return ask(asked)

    def _require_main_worktree(self) -> None:
        """Raise `UsageError` rather than let an agent change files in another worktree than a person expects."""
        if self._worktree != self._root:
            from shlex import quote

            raise UsageError(
                f"Nothing was run: {self._worktree} uses the project of the main worktree, and runs work there."
                f" Run it there with: ralph -C {quote(self._root)} run."
                " Or set up a project of its own here with: ralph init --separate",
                code="linked-worktree",
            )

    def get(self, id: str) -> RunView:
        """Return a run with its statistics and unfinished attempts."""
        run = self._store.runs.get(id)
        return RunView(
            run=run,
            stats=self._stats.of([run])[0],
            models=tuple(self._stats.models(id)),
            running=tuple(one for one in self._store.attempts.running() if one.run_id == id),
        )

    def memories(self, id: str, limit: int) -> list[Memory]:
        """Return the memories learned in a run, in any state, newest first."""
        self._store.runs.get(id)
        return self._store.memories.listing.learned_in_run(id, limit)

    def report(self, id: str = "") -> RunReport:
        """Return the report of a run, by default of the latest."""
        from ralph.loop.report import read_report

        runs = [] if id else self._store.runs.latest(1)
        if not id and not runs:
            raise UsageError("There is no run to report on yet. Start one with: ralph run", code="no-run")
        return read_report(self._store, self._root, id or runs[0].id)

    def takes_model(self) -> bool:
        """Return whether the configured agent, or else that of the latest run, accepts a model name."""
        from ralph.agents import agent_accepts_model

        if self._config.agent.command or self._config.agent.name != "command":
            return agent_accepts_model(self._config.agent, self._root, self._config.models)
        runs = self._store.runs.latest(1)
        last = merge_stored_options(RunOptions(), runs[0].options) if runs else RunOptions()
        config = apply_flags(self._config, agent=last.agent, program=last.program)
        return agent_accepts_model(config.agent, self._root, config.models)

    # --- events ----------------------------------------------------------------------

    def last_event(self) -> int:
        """Return the number of the newest event of runs and tasks, or 0."""
        return self._store.events.last_seq()

    def missed_until(self, seq: int, next: int) -> int:
        """Return the last forgotten event between two events, or 0 when none was forgotten."""
        return next - 1 if next > seq + 1 and self._store.events.has_gap(seq) else 0

    def events(self, seq: int, limit: int) -> list[RunUpdate]:
        """Return events of runs and tasks after one, oldest first, each with the current state of its records."""
        events = self._store.events.since(seq, limit)
        if not events:
            return []
        until = events[-1].seq
        runs = {one.id: one for one in self._store.runs.changed_between(seq, until)}
        attempts = {(one.run_id, one.iteration): one for one in self._store.attempts.changed_between(seq, until)}
        tasks = {one.id: one for one in self._store.tasks.changed_between(seq, until)}
        return [
            RunUpdate(
                event=one,
                run=runs.get(one.run_id),
                attempt=attempts.get((one.run_id, one.iteration or 0)),
                task=tasks.get(one.task_id or ""),
            )
            for one in events
        ]

    # --- steering --------------------------------------------------------------------

    def steer(self, request: str, id: str = "") -> Run:
        """Ask a run to "pause", to "stop", or with an empty request to continue; by default the latest active one.

        A run that stops ends its session first. One that pauses settles its current attempts.
        """
        self._actor.require("run.steer")
        runs = [self._store.runs.get(id)] if id else self._store.runs.latest(MAX_ACTIVE_RUNS)
        active = next((run for run in runs if run.ended_at is None and self._is_active(run)), None)
        if active is None:
            raise UsageError(f"{f'{id} is not' if id else 'No run is'} active.", code="no-active-run")
        self._store.runs.set_request(active.id, request)
        return replace(active, request=request)

    # --- resuming --------------------------------------------------------------------

    def _run_to_resume(self, id: str) -> Run:
        runs = [self._store.runs.get(id)] if id else self._store.runs.latest(1)
        if not runs:
            raise UsageError("There is no run to resume yet. Start one with: ralph run", code="no-run")
        if runs[0].ended_at is None and self._is_active(runs[0]):
            raise UsageError(f"{runs[0].id} is still active: it cannot be resumed.", code="run-active")
        return runs[0]

    def _resumed_options(self, options: RunOptions, run: Run) -> RunOptions:
        """Return the options completed by those the run was started with.

        What to run and how to verify it comes from the command line, trusted settings, or what was recorded on this
        machine when the run started. A database may have been written by others.
        """
        from ralph.loop.own_options import own_options

        own = own_options(self._root, run.id)
        if own is not None:
            return merge_stored_options(options, own)
        merged = replace(merge_stored_options(options, run.options), verify=options.verify)
        if self._what_runs(merged) != self._what_runs(options):
            raise UsageError(
                f"{run.id} was started with an agent, a program, a model or gates of its own, and not from here."
                " These are not taken from a database: repeat them, as in"
                " ralph run --resume --gate COMMAND -- PROGRAM.",
                code="run-options-needed",
            )
        return merged

    def _what_runs(self, options: RunOptions) -> tuple[object, ...]:
        """Return the agent with its program, the model and the gates of a run with these options."""
        config = apply_flags(
            self._config, agent=options.agent, program=options.program, gates=options.gates, verify=options.verify
        )
        return config.agent, options.model, config.execution.verify and config.execution.gates

    def _is_active(self, run: Run) -> bool:
        """Return whether a worker is busy with a run or waits for tasks in it."""
        from ralph.loop.workers import dead_workers, is_worker_alive

        if is_worker_alive(stored_worker(run.options)):
            return True
        # A worker that vanished on another machine keeps its task until its lease ends.
        self._store.tasks.claims.release_expired()
        claims = {(task.id, task.claimed_by) for task in self._store.tasks.claims.claimed()}
        running = [one for one in self._store.attempts.running() if one.run_id == run.id]
        dead = dead_workers({one.worker for one in running if one.worker})
        return any((one.task_id, one.worker) in claims and one.worker not in dead for one in running)

    def list(self, page: Page) -> ResultList[RunStats]:
        """Return runs with their statistics, newest first."""
        if page.after:
            self._store.runs.get(page.after)
        found = self._stats.runs(page.limit + 1, page.after or "")
        return ResultList(found[: page.limit], found[page.limit - 1].id if len(found) > page.limit else None)
