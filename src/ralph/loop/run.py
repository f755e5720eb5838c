"""The loop itself: iteration after iteration, until the work or a limit ends it.

It only puts the stages in their order. Whatever happens in one, the iteration
ends in a settled attempt; only a store that cannot be written stops the run.
"""

from __future__ import annotations

import sys
import time
from enum import StrEnum
from typing import TYPE_CHECKING

from ralph.agents import Limits, Session
from ralph.errors import AgentMissing, ClaimLost, RalphError, StatementRefused, StoreAway, StoreError
from ralph.loop import progress, worktree
from ralph.loop.capture import claims_done, conclude
from ralph.loop.embedding import Embedding
from ralph.loop.episodes import histories
from ralph.loop.interrupt import Interrupts
from ralph.loop.prepare import prepare
from ralph.loop.progress import event, forgiving
from ralph.loop.promotion import learn_from
from ralph.loop.prompt import told
from ralph.loop.sigils import read_sigils
from ralph.loop.tidying import consolidate, retire
from ralph.loop.verify import check
from ralph.loop.workers import Heartbeat, vanished, worker_name
from ralph.records import Ending, Outcome, Reply, Sigils, Status, Verdict, fields_of, now, record, replace
from ralph.sharing import take_in
from ralph.store.memories import Change
from ralph.store.patience import patiently
from ralph.store.tasks import TASKS
from ralph.sync import sync
from ralph.text import accept

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import TypeVar

    from ralph.agents import Agent
    from ralph.config import Config
    from ralph.loop.progress import Tell
    from ralph.records import Attempt, Capture, GateResult, Prompt, Task
    from ralph.store import Store
    from ralph.store.attempts import Begun
    from ralph.store.database import Watch

    R = TypeVar("R")

NO_LIMIT = float("inf")
POLL_SECONDS = 1.0
"""So often a waiting run looks for tasks of workers that vanished; whoever changes a task wakes it at once."""
SHARED_POLL_SECONDS = 5.0
"""The same on a server, which many workers ask."""
WAKE_SECONDS = 0.5
AWAY_SECONDS = 600.0
"""So long a run waits for a database that cannot be reached."""
SYNC_SECONDS = 0.5
MOST_HEARD = 1_000
SHOWN_HEARD = 3
LEARNED = ("added", "imported", "revived")
"""Events of memories that are new here."""
SAME_CRASHES = 5
"""So many equal crashes in a row, over more than one task, are the agent's fault and not the tasks'."""


class RunEnding(StrEnum):
    """Why a run stopped."""

    COMPLETE = "all tasks are done"
    LIMIT_ITERATIONS = "the limit on iterations was reached"
    LIMIT_MINUTES = "the time limit was reached"
    LIMIT_COST = "the cost limit was reached"
    WAITS = "the tasks that are left wait for a person"
    BUSY = "the tasks that are left are being worked on elsewhere"
    NOT_READY = "the task is not ready: it has parts, waits for others, or waits for a person"
    NOTHING = "there is nothing to do"
    INTERRUPTED = "it was interrupted"
    BROKEN = "the database could not be written"
    NO_AGENT = "the agent could not be started"
    AGENT_FAILS = "the agent fails the same way whatever the task; mend it and run again"

    @property
    def exit_code(self) -> int:
        """Give what a command that ran the loop should exit with."""
        return {
            RunEnding.WAITS: 1,
            RunEnding.NOT_READY: 1,
            RunEnding.BROKEN: 1,
            RunEnding.AGENT_FAILS: 1,
            RunEnding.NO_AGENT: 2,
            RunEnding.NOTHING: 3,
            RunEnding.INTERRUPTED: 130,
        }.get(self, 0)


@record
class Summary:
    """What a run came to."""

    run_id: str
    ending: RunEnding
    iterations: int
    done: int
    seconds: float
    cost_usd: float
    tokens: int


@record
class Order:
    """What a person asks of one run."""

    iterations: int = 0
    minutes: float = 0.0
    cost_usd: float = 0.0
    model: str | None = None
    with_memory: bool = True
    only: str | None = None
    """Work on this task alone."""
    stays: bool = False
    """Wait for new tasks instead of ending when there is nothing to do."""


class Loop:
    """One run of an agent over a project's tasks."""

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
    ) -> None:
        """`ask` gets a person's word after Ctrl+C, if there is a person."""
        self._store = store
        self._heartbeat = Heartbeat(store.reopen, config.execution.lease_seconds)
        self._embedding = Embedding(store.reopen, order.with_memory and config.memories.meaning)
        self._agent = agent
        self._config = config
        self._directory = directory
        self._order = order
        self._tell = forgiving(tell)
        self._ask = ask
        self._worker = worker_name()
        self._interrupts = Interrupts()
        self._was_asked = False
        self._waits = False
        self._file_problems: set[str] = set()
        self._synced = -SYNC_SECONDS
        self._agent_is_missing = False
        self._watch: Watch | None = None
        self._heard = 0
        """The newest event of any memory that this run knows of."""
        self._crash = ""
        self._crashed: list[str | None] = []
        """The tasks of the latest attempts, as long as all of them crashed for the same reason."""
        self._started = time.monotonic()
        self._iterations = self._done = self._tokens = 0
        self._cost_usd = 0.0

    def run(self) -> Summary:
        """Work until everything is done, a limit is reached or a person stops it."""
        self._recover()
        run = self._store.attempts.start_run(self._agent.name)
        self._tell_start(run.id)
        with self._interrupts, self._heartbeat, self._embedding:
            try:
                self._heard = self._store.memories.last_event()
                ending = self._work(run.id)
                self._patiently(lambda: self._store.attempts.end_run(run.id, ending), is_settling=True)
                self._learn_quietly(run.id)
            except StoreError as error:
                self._tell(event("warning", message=str(error)))
                ending = RunEnding.BROKEN
            finally:
                self._stop_watching()
        summary = Summary(
            run_id=run.id,
            ending=ending,
            iterations=self._iterations,
            done=self._done,
            seconds=round(time.monotonic() - self._started, 3),
            cost_usd=self._cost_usd,
            tokens=self._tokens,
        )
        self._tell(event("run_ended", **fields_of(summary)))
        return summary

    def _learn_quietly(self, run_id: str) -> None:
        """Draw from the run what it taught; whatever goes wrong there, the run itself went well."""
        try:
            self._learn(run_id)
        except StoreAway as error:
            message = f"What the run taught was not drawn from it: {error}"
            self._tell(event("warning", message=f"{message} Do it later with: ralph learn extract --promote"))
        except StoreError:
            raise
        except RalphError as error:
            self._tell(event("warning", message=f"Nothing was drawn from the run: {error}"))

    def _learn(self, run_id: str) -> None:
        """Draw from the whole run what no single attempt could say, and tidy up what is remembered."""
        if not self._iterations:
            return
        change = Change(who="ralph", why=f"extracted from {run_id}")
        counts = learn_from(self._store, histories(self._store, run_id), change, review=self._config.memories.review)
        if counts.extracted:
            self._tell(event("extracted", **fields_of(counts)))
        superseded = consolidate(self._store) + retire(self._store)
        if superseded:
            self._tell(event("consolidated", superseded=superseded))
        self._sync()

    def _sync(self, *, soon: bool = False) -> None:
        """Take in what other projects share and what people wrote into the memory files; write out what was learned.

        With `soon` it is enough if that happened a moment ago.
        """
        if soon and time.monotonic() - self._synced < SYNC_SECONDS:
            return
        self._synced = time.monotonic()
        if self._config.memories.shared:
            self._patiently(lambda: take_in(self._store))
        if not self._config.memories.files:
            return
        for problem in self._patiently(lambda: sync(self._store, self._directory)).problems:
            if problem not in self._file_problems:
                self._file_problems.add(problem)
                self._tell(event("warning", message=problem))

    def _recover(self) -> None:
        """Take back at once what workers of this machine left behind when they were killed."""
        claimed = {task.claimed_by for task in self._store.tasks.claimed() if task.claimed_by}
        for task_id in self._store.attempts.recover(vanished(claimed)):
            self._tell(event("recovered", task_id=task_id))

    def _tell_start(self, run_id: str) -> None:
        gates = self._config.execution.gates if self._config.execution.verify else ()
        ready = len(self._store.tasks.ready())
        self._tell(progress.run_started(run_id, self._agent.name, ready, self._order.only, gates))
        if self._order.cost_usd and not self._agent.reports_cost:
            message = f"The {self._agent.name} agent does not say what it costs: the cost limit cannot stop this run."
            self._tell(event("warning", message=message))

    def _work(self, run_id: str) -> RunEnding:
        while (limit := self._limit()) is None:
            if self._interrupts.wanted:
                return RunEnding.INTERRUPTED
            self._sync(soon=True)
            self._hear(run_id)
            begun = self._begin(run_id)
            ending = self._patiently(self._why_nothing_is_ready) if begun is None else self._iterate(begun)
            if ending is not None:
                return ending
            if begun is None:
                self._wait()
                self._patiently(self._recover)
        return limit if self._patiently(self._store.tasks.has_open) else RunEnding.COMPLETE

    def _begin(self, run_id: str) -> Begun | None:
        def begin() -> Begun | None:
            return self._store.attempts.begin(
                run_id,
                self._worker,
                self._config.execution.lease_seconds,
                agent=self._agent.name,
                only=self._order.only,
                with_memory=self._order.with_memory,
            )

        def begin_again() -> Begun | None:
            # The connection may have been lost after the claim was made: nobody works on that one.
            self._store.attempts.recover({self._worker})
            return begin()

        return self._patiently(begin, begin_again)

    def _patiently(
        self, work: Callable[[], R], again: Callable[[], R] | None = None, *, is_settling: bool = False
    ) -> R:
        """Do something, also when the database cannot be reached for a while.

        `again` is done instead when it was tried before, and may have been done without an answer. What settles an
        attempt is not given up when time is over or somebody wants to stop: a session's work would be lost.
        """
        deadline = time.monotonic() + AWAY_SECONDS

        def gives_up() -> bool:
            wants_to_stop = self._interrupts.wanted or self._is_over_time()
            return time.monotonic() > deadline or self._interrupts.insists or (wants_to_stop and not is_settling)

        def tell(message: str, is_back: bool) -> None:
            self._tell(event("note" if is_back else "warning", message=message))

        return patiently(work, gives_up, tell, again)

    def _wait(self) -> None:
        """Wait until somebody changes a task, or it is time to look for vanished workers."""
        deadline = time.monotonic() + (SHARED_POLL_SECONDS if self._store.is_shared else POLL_SECONDS)
        if self._watch is None:
            self._watch = self._store.watch(TASKS)
        self._store.rest()
        while time.monotonic() < deadline and not self._interrupts.wanted and not self._is_over_time():
            if self._watch.wait(WAKE_SECONDS):
                return

    def _stop_watching(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def _hear(self, run_id: str) -> None:
        """Tell what others have learned since the last iteration: it is part of what the next one recalls."""
        events = self._patiently(lambda: self._store.memories.events(self._heard, MOST_HEARD))
        if not events:
            return
        self._heard = events[-1].seq
        new = [one.memory_id for one in events if one.what in LEARNED and not one.why.startswith(f"{run_id} ")]
        found = self._patiently(lambda: [self._store.memories.find_one(id) for id in new[:SHOWN_HEARD]])
        titles = [memory.title for memory in found if memory]
        if titles:
            self._tell(event("heard", count=len(new), titles=titles))

    def _limit(self) -> RunEnding | None:
        order = self._order
        if order.iterations and self._iterations >= order.iterations:
            return RunEnding.LIMIT_ITERATIONS
        if self._is_over_time():
            return RunEnding.LIMIT_MINUTES
        if order.cost_usd and self._cost_usd >= order.cost_usd:
            return RunEnding.LIMIT_COST
        return None

    def _is_over_time(self) -> bool:
        limit = self._order.minutes
        return bool(limit) and time.monotonic() - self._started >= limit * 60

    def _why_nothing_is_ready(self) -> RunEnding | None:
        """Give why the run should stop; None when it is worth waiting for another worker."""
        tasks, only = self._store.tasks, self._order.only
        if only:
            task = tasks.get(only)
            if task.status is Status.DONE:
                return RunEnding.COMPLETE if self._iterations else RunEnding.NOTHING
            return RunEnding.BUSY if task.claimed_by else RunEnding.NOT_READY
        pending = len(tasks.in_status(Status.PENDING))
        if not self._order.stays:
            if not tasks.has_open():
                return RunEnding.COMPLETE if self._iterations else RunEnding.NOTHING
            if not tasks.claimed():
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
        self._iterations += 1
        self._stop_watching()
        self._waits = self._was_asked = False
        self._heartbeat.keep(begun.task.id, begun.task.claim_token)
        capture = self._attempt(begun)
        try:
            self._settle(capture, begun.task.claim_token)
        except StatementRefused as error:
            # What the attempt came to cannot be stored as it is; that it took place can.
            self._settle(self._failed(begun, str(error)), begun.task.claim_token)
        self._heartbeat.rest()
        if self._agent_is_missing:
            return RunEnding.NO_AGENT
        if len(self._crashed) >= SAME_CRASHES and len(set(self._crashed)) > 1:
            return RunEnding.AGENT_FAILS
        if self._interrupts.insists or (self._interrupts.wanted and not self._was_asked):
            return RunEnding.INTERRUPTED
        self._interrupts.forget()
        return None

    def _attempt(self, begun: Begun) -> Capture:
        """Give what the attempt came to, whatever happened on the way."""
        try:
            return self._stages(begun)
        except StoreError:
            raise
        except AgentMissing as error:
            self._agent_is_missing = True
            return self._failed(begun, str(error), Ending.STOPPED)
        except Exception as error:  # noqa: BLE001
            # The one place where any fault, also our own, becomes a recorded attempt.
            return self._failed(begun, f"Ralph failed: {type(error).__name__}: {error}")

    def _failed(self, begun: Begun, why: str, ending: Ending = Ending.CRASHED) -> Capture:
        self._tell(event("warning", message=why))
        return self._conclude(begun, begun.attempt, Reply(text="", ending=ending, detail=why), Sigils(), Verdict())

    def _stages(self, begun: Begun) -> Capture:
        task, attempt = begun.task, begun.attempt
        prepared = self._patiently(
            lambda: prepare(
                self._store,
                self._config,
                task,
                begun.metrics,
                run_id=attempt.run_id,
                iteration=attempt.iteration,
                attempt_number=attempt.number or 1,
                model=self._order.model,
                with_memory=self._order.with_memory,
            )
        )
        prompt, choice = prepared.prompt, prepared.choice
        attempt = replace(attempt, model=choice.model, model_reason=choice.reason, shown=prompt.shown)
        self._tell(progress.attempt_started(task, attempt))
        self._tell(progress.recalled(prepared.known, prompt))
        reply = self._session(task, attempt, prompt)
        sigils = read_sigils(reply.text, prompt.text)
        verdict = self._verify(task, attempt, reply, sigils)
        if self._should_stop() and reply.ending is Ending.FINISHED and not verdict.passed:
            # The gates were ended by us, so their verdict means nothing.
            reply = replace(reply, ending=Ending.STOPPED, detail=self._why_stopped())
        return self._conclude(begun, attempt, reply, sigils, verdict, prompt)

    def _session(self, task: Task, attempt: Attempt, prompt: Prompt) -> Reply:
        agent = self._config.agent
        before = None if self._agent.knows_files else worktree.snapshot(self._directory)
        session = Session(
            directory=self._directory,
            model=attempt.model,
            limits=Limits(
                seconds=agent.seconds or NO_LIMIT,
                idle_seconds=agent.idle_seconds or NO_LIMIT,
                output_bytes=int(agent.output_mb * 1024 * 1024) or sys.maxsize,
            ),
            environment=_environment(task, attempt),
            should_stop=self._should_stop,
            heard=lambda text: self._tell(event("output", text=text)),
        )
        self._store.rest()  # an agent takes minutes: others can use the connection meanwhile
        reply = self._agent.work(prompt.text, session)
        if reply.ending is Ending.STOPPED:
            reply = replace(reply, detail=self._why_stopped())
        if reply.files is None:
            files = worktree.changed_between(self._directory, before, worktree.snapshot(self._directory))
            reply = replace(reply, files=files)
        return reply

    def _should_stop(self) -> bool:
        return self._interrupts.wanted or self._heartbeat.lost or self._is_over_time()

    def _why_stopped(self) -> str:
        if self._interrupts.wanted:
            return "stopped by a person" if not self._interrupts.terminated else "Ralph was asked to end"
        return "the claim was lost" if self._heartbeat.lost else RunEnding.LIMIT_MINUTES

    def _verify(self, task: Task, attempt: Attempt, reply: Reply, sigils: Sigils) -> Verdict:
        execution = self._config.execution
        if not execution.verify or not claims_done(task.id, reply, sigils):
            return Verdict()
        return check(
            execution.gates,
            self._directory,
            execution.gate_seconds or NO_LIMIT,
            _environment(task, attempt),
            self._should_stop,
            self._tell_gate,
        )

    def _tell_gate(self, command: str, result: GateResult | None) -> None:
        self._tell(progress.gate(command, result))

    def _conclude(
        self,
        begun: Begun,
        attempt: Attempt,
        reply: Reply,
        sigils: Sigils,
        verdict: Verdict,
        prompt: Prompt | None = None,
    ) -> Capture:
        reports = (
            self._patiently(lambda: self._store.attempts.reports(1, task=begun.task.id), is_settling=True)
            if begun.metrics.consecutive_failures
            else []
        )
        return conclude(
            begun.task,
            attempt,
            reply,
            sigils,
            verdict,
            begun.metrics,
            max_retries=self._config.execution.max_retries,
            at=now(),
            feedback=self._feedback(begun.task) if reply.ending is Ending.STOPPED else "",
            injected=told(prompt) if prompt else "",
            before=reports[0] if reports else None,
        )

    def _feedback(self, task: Task) -> str:
        """Ask the person who pressed Ctrl+C; a second one stops the run instead."""
        if self._ask is None or self._interrupts.insists or not self._interrupts.wanted:
            return ""
        self._tell(event("interrupted", task_id=task.id))
        self._was_asked = True
        try:
            self._interrupts.asking = True
            return accept(self._ask(task))
        except (KeyboardInterrupt, EOFError):
            self._interrupts.count += 1
            return ""
        finally:
            self._interrupts.asking = False

    def _settle(self, capture: Capture, token: int) -> None:
        attempt = capture.attempt
        try:
            finish = self._store.attempts.finish
            learned = self._patiently(
                lambda: finish(capture, token),
                again=lambda: finish(capture, token, is_again=True),
                is_settling=True,
            )
        except ClaimLost as error:
            self._tell(event("warning", message=str(error)))
            attempt, learned = replace(attempt, outcome=Outcome.INTERRUPTED, reason=str(error)), ()
        self._cost_usd += attempt.cost_usd
        self._tokens += (attempt.tokens_in or 0) + (attempt.tokens_out or 0)
        self._done += attempt.outcome is Outcome.DONE
        self._note_crash(attempt)
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
        self._tell(progress.attempt_ended(attempt, capture.task_status))

    def _note_crash(self, attempt: Attempt) -> None:
        crash = attempt.reason if attempt.outcome is Outcome.ERROR else ""
        if crash != self._crash:
            self._crash, self._crashed = crash, []
        if crash:
            self._crashed.append(attempt.task_id)


def _environment(task: Task, attempt: Attempt) -> dict[str, str]:
    """Give what agents and gates find in their environment."""
    return {"RALPH_TASK_ID": task.id, "RALPH_RUN_ID": attempt.run_id, "RALPH_ATTEMPT": str(attempt.number)}
