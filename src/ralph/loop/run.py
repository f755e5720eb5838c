"""A run of the loop: one or more workers, from the first claim to the learnings extracted at the end."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ralph.core.errors import RalphError, StoreError, StoreUnavailableError, WorktreeError
from ralph.core.records import Status, fields_of, replace
from ralph.loop import progress
from ralph.loop.context import Crew
from ralph.loop.environment import kept_password
from ralph.loop.health import Safekeeping
from ralph.loop.limits import Budget
from ralph.loop.options import RunEnding, Summary
from ralph.loop.progress import event
from ralph.loop.strategy import NO_MODEL, models_of
from ralph.loop.worker import Worker
from ralph.loop.workers import OnlyRun
from ralph.memory.capture.episodes import histories
from ralph.memory.capture.promotion import learn_from
from ralph.memory.consolidation import consolidate, retire
from ralph.memory.freshness import check
from ralph.memory.recall.background import Embedding
from ralph.store.memories import Change

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ralph.agents import Agent
    from ralph.core.config import Config
    from ralph.core.records import Run, Task, Used
    from ralph.loop.git.branches import Branches
    from ralph.loop.options import Order
    from ralph.loop.progress import Tell
    from ralph.store import Store

JOIN_SECONDS = 0.2
"""Interval at which the main thread wakes up to handle signals, in seconds."""
_STOP_ALL = (
    RunEnding.BROKEN,
    RunEnding.DAMAGED,
    RunEnding.NO_DISK,
    RunEnding.WORKER_DIED,
    RunEnding.NO_AGENT,
    RunEnding.NO_BRANCH,
    RunEnding.AGENT_FAILS,
    RunEnding.NO_MODEL,
    RunEnding.INTERRUPTED,
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
        config: Config,
        directory: Path,
        order: Order,
        tell: Tell,
        ask: Callable[[Task], str] | None = None,
        resumes: Run | None = None,
        options: str = "",
    ) -> None:
        """`ask` asks a person for feedback after Ctrl+C; `resumes` is the run to continue.

        `options` is the JSON stored with the run, from which it can be resumed.
        """
        self._store = store
        self._agent = agent
        self._config = config
        self._directory = directory
        # A run resumed for a single task may have had several workers before.
        self._order = replace(order, parallel=1) if order.only else order
        self._emit = tell
        self._ask = ask if self._order.parallel < 2 else None
        self._resumes = resumes
        self._options = options

    def run(self) -> Summary:
        """Work on tasks until all are done, a limit is reached or a person stops the run."""
        branches = self._open_branches()
        run = self._start()
        crew = Crew(
            run_id=run.id,
            agent=self._agent,
            config=self._config,
            root=self._directory,
            order=self._order,
            budget=Budget(self._order, self._used_before()),
            tell=self._emit,
            ask=self._ask,
            branches=branches,
        )
        embedding = Embedding(self._store.reopen, self._order.with_memory and self._config.memories.meaning)
        with OnlyRun(self._directory) as lock, crew.interrupts, embedding, self._monitor_database(crew):
            crew.is_alone = lock.is_alone
            if not lock.is_alone and not branches:
                message = (
                    "Another run is active in this directory, and both change the same files."
                    " Use ralph run --parallel to give each task its own worktree."
                )
                crew.tell(event("warning", message=message))
            ending = self._run_tasks(crew)
        used = crew.budget.used
        summary = Summary(
            run_id=run.id,
            ending=ending,
            iterations=used.iterations,
            done=used.done,
            seconds=used.seconds,
            cost_usd=used.cost_usd,
            tokens=used.tokens,
        )
        crew.tell(event("run_ended", **fields_of(summary), can_go_on=summary.ending.can_go_on))
        return summary

    def _monitor_database(self, crew: Crew) -> Safekeeping:
        def stop() -> None:
            crew.stopped = crew.stopped or RunEnding.DAMAGED

        return Safekeeping(self._store, lambda message: crew.tell(event("warning", message=message)), stop)

    def _open_branches(self) -> Branches | None:
        if self._order.parallel < 2:
            return None
        from ralph.loop.git.branches import Branches

        return Branches.open(self._directory)

    def _start(self) -> Run:
        if self._resumes:
            return self._store.attempts.resume_run(self._resumes.id, self._options)
        return self._store.attempts.start_run(self._agent.name, self._options)

    def _used_before(self) -> Used | None:
        """Return what a resumed run has used so far."""
        if not self._resumes:
            return None
        run, used = self._resumes, self._store.attempts.used_in(self._resumes.id)
        # A killed run did not record its duration; its workers ran concurrently.
        seconds = run.seconds if run.ended_at else max(run.seconds, used.seconds / max(1, self._order.parallel))
        return replace(used, iterations=run.iterations, seconds=seconds)

    def _run_tasks(self, crew: Crew) -> RunEnding:
        first = Worker(crew, self._store, 1 if self._order.parallel > 1 else 0)
        try:
            first.recover()
            self._announce_start(crew)
            self._check_staleness(crew)
            ending = first.work() if self._order.parallel < 2 else self._run_workers(crew)
            crew.patiently(
                lambda: self._store.attempts.end_run(crew.run_id, ending, crew.budget.seconds), is_settling=True
            )
            self._try_learn(crew)
        except StoreError as error:
            return crew.broken_by(error)
        return ending

    def _run_workers(self, crew: Crew) -> RunEnding:
        """Run several workers, each in a thread with its own connection, and return how the run ended."""
        endings: list[RunEnding] = []

        def work(number: int) -> None:
            try:
                endings.append(self._run_worker(crew, number))
            except StoreError as error:
                crew.stopped = crew.broken_by(error)
                endings.append(crew.stopped)

        threads = [
            threading.Thread(target=work, args=(number,), name=f"worker {number}", daemon=True)
            for number in range(1, self._order.parallel + 1)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(JOIN_SECONDS)
        self._remove_merged_branches(crew)
        if len(endings) < len(threads):
            endings.append(RunEnding.WORKER_DIED)
        return crew.patiently(lambda: self._combine_endings(crew, endings), is_settling=True)

    def _run_worker(self, crew: Crew, number: int) -> RunEnding:
        """Run one worker; if it crashes, release its claims so that others can continue."""
        store = self._store.reopen()
        worker = Worker(crew, store, number)
        try:
            return worker.work()
        except StoreError:
            raise
        except BaseException:
            worker.give_up()
            raise
        finally:
            store.close()

    def _remove_merged_branches(self, crew: Crew) -> None:
        """Remove worktrees and branches of finished tasks; a failure is only a warning."""
        assert crew.branches
        try:
            crew.branches.tidy(self._unfinished_ids)
        except WorktreeError as error:
            crew.tell(event("warning", message=str(error)))

    def _unfinished_ids(self) -> set[str]:
        return {task.id for task in self._store.tasks.all() if task.status is not Status.DONE}

    def _combine_endings(self, crew: Crew, endings: list[RunEnding]) -> RunEnding:
        """Return the most severe ending, or COMPLETE if no open task is left."""
        worst = next((ending for ending in _WORST_FIRST if ending in endings), endings[-1])
        if worst in _STOP_ALL or self._store.tasks.has_open():
            return worst
        return RunEnding.COMPLETE if crew.budget.iterations else RunEnding.NOTHING

    def _announce_start(self, crew: Crew) -> None:
        ready = len(self._store.tasks.ready())
        crew.tell(
            progress.run_started(
                crew.run_id,
                self._agent.name,
                ready,
                self._order,
                self._config.execution.gates,
                is_verified=self._config.execution.verify,
                is_reviewed=self._config.execution.verify and self._config.execution.review,
                is_resumed=self._resumes is not None,
                used=crew.budget.left(),
            )
        )
        agent = self._agent
        if (self._config.models.strategy or self._order.model) and not agent.takes_model:
            message = f"No model is selected: {NO_MODEL}."
            crew.tell(event("warning", message=message))
        if message := kept_password(self._config):
            crew.tell(event("warning", message=message))
        if (self._order.cost_usd or self._order.task_cost_usd) and (why := self._why_unpriced()):
            crew.tell(event("warning", message=f"{why}, so the cost limit cannot stop this run."))
        if (self._order.tokens or self._order.task_tokens) and not agent.reports_tokens:
            message = f"The {agent.name} agent does not report tokens, so the token limit cannot stop this run."
            crew.tell(event("warning", message=message))

    def _why_unpriced(self) -> str:
        """Return why the cost of sessions is unknown, or an empty string."""
        agent, models, configured = self._agent, self._config.models, self._config.agent.model
        if agent.reports_cost:
            return ""
        if not agent.reports_tokens:
            return f"The {agent.name} agent does not report its cost"
        if self._order.model:
            candidates: tuple[str, ...] = (self._order.model,)
        else:
            candidates = models_of(models, configured) if agent.takes_model else ()
        unpriced = [model for model in candidates if model not in models.prices]
        if unpriced or not candidates:
            return f"No price is set under [models.prices] for {', '.join(unpriced) or 'an agent without a model'}"
        return ""

    def _check_staleness(self, crew: Crew) -> None:
        """Mark memories about files that have changed since as stale."""
        stale = crew.patiently(lambda: check(self._store, self._directory)).marked
        if stale:
            crew.tell(event("stale", count=len(stale)))

    def _try_learn(self, crew: Crew) -> None:
        """Extract learnings; a failure here does not fail the run."""
        try:
            self._learn(crew)
        except StoreUnavailableError as error:
            message = f"Could not extract learnings from this run: {error}"
            crew.tell(event("warning", message=f"{message} Retry with: ralph learn extract --promote"))
        except StoreError:
            raise
        except RalphError as error:
            crew.tell(event("warning", message=f"Could not extract learnings from this run: {error}"))

    def _learn(self, crew: Crew) -> None:
        """Extract learnings from the whole run, then consolidate and retire memories."""
        if not crew.budget.iterations:
            return
        change = Change(who="ralph", why=f"extracted from {crew.run_id}")
        history = histories(self._store, crew.run_id)
        counts = learn_from(self._store, history, change, review=self._config.memories.review)
        if counts.extracted:
            crew.tell(event("extracted", **fields_of(counts)))
        superseded = consolidate(self._store) + retire(self._store)
        if superseded:
            crew.tell(event("consolidated", superseded=superseded))
        crew.sync(self._store)
