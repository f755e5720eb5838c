"""One attempt at a claimed task, from its prompt to what is to be kept of it.

The stages in their order. Whatever happens in one, `run` gives something that can
be settled: what is known by then, and what went wrong. Only a store that cannot
be used is for others to deal with.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ralph.agents import Limits, Session
from ralph.config import TOML_NAME
from ralph.environment import allowed
from ralph.errors import AgentUnavailableError, StoreError, WorktreeError
from ralph.files import content_of
from ralph.freshness import with_marks
from ralph.loop import hats, progress, worktree
from ralph.loop.budget import has_task_limits
from ralph.loop.capture import Obstacle, Setting, claims_done, conclude
from ralph.loop.frozen import Frozen
from ralph.loop.given import READ_CHARACTERS, gate_variables, how_to_give, missed, session_variables
from ralph.loop.hats import Turn
from ralph.loop.order import RunEnding
from ralph.loop.prepare import prepare
from ralph.loop.progress import event
from ralph.loop.prompt import told
from ralph.loop.repository import StopRequestedError
from ralph.loop.review import judge_review, passes, review_prompt, without_echo
from ralph.loop.sigils import read_sigils
from ralph.loop.strategy import cost_of, strongest, unknown_hint
from ralph.loop.verify import run_gates
from ralph.records import Ending, Reply, Sigils, Used, Verdict, now, replace
from ralph.text import accept

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeVar

    from ralph.loop.branches import Place
    from ralph.loop.crew import Crew
    from ralph.loop.hats import Move
    from ralph.loop.planning import Plan
    from ralph.loop.prepare import Prepared
    from ralph.loop.progress import Tell
    from ralph.records import Capture, GateResult, Prompt
    from ralph.store import Store
    from ralph.store.attempts import Begun

    R = TypeVar("R")

NO_LIMIT = float("inf")
LEAST_SECONDS = 1.0


class Iteration:
    """One attempt while it is made."""

    def __init__(self, crew: Crew, store: Store, begun: Begun, tell: Tell, has_lost_claim: Callable[[], bool]) -> None:
        self._crew = crew
        self._store = store
        self._config = crew.config
        self._task = begun.task
        self._metrics = begun.metrics
        self._attempt = begun.attempt
        self._reply: Reply | None = None
        self._tell = tell
        self._has_lost_claim = has_lost_claim
        self._place: Place | None = None
        self._directory = crew.root
        self.was_asked = False
        """Whether a person was asked what the next attempt should know."""
        self.needs_agent = False
        """Whether the agent could not be started at all."""
        self.needs_branch = False
        """Whether the branch that work is merged into is gone."""

    def run(self) -> Capture:
        """Give what the attempt came to, whatever happened on the way."""
        try:
            return self._stages()
        except StoreError:
            raise
        except AgentUnavailableError as error:
            if not self._directory.is_dir():
                return self.failed(f"{self._directory} is gone: the agent had no place to work in.")
            self.needs_agent = True
            return self.failed(str(error), Ending.STOPPED)
        except StopRequestedError:
            return self.failed(self._why_stopped(), Ending.STOPPED)
        except WorktreeError as error:
            self.needs_branch = self._crew.branches is not None and not self._crew.branches.has_base()
            return self.failed(str(error), obstacle=Obstacle(why=str(error), waits_for_person=True))
        except Exception as error:  # noqa: BLE001
            # The one place where any fault, also our own, becomes a recorded attempt.
            if trouble := self._crew.trouble_of_disk():
                return self.failed(f"{trouble[0].upper()}{trouble[1:]}: {error}", Ending.STOPPED)
            return self.failed(f"Ralph failed: {type(error).__name__}: {error}")

    def failed(self, why: str, ending: Ending = Ending.CRASHED, obstacle: Obstacle | None = None) -> Capture:
        """Give the attempt as one that failed by no fault of its own, with what is known of it so far."""
        self._tell(event("warning", message=why))
        reply = replace(self._reply or Reply(text=""), text="", ending=ending, detail=why)
        return self._conclude(reply, Sigils(), Verdict(), self._setting(), obstacle=obstacle)

    def _stages(self) -> Capture:
        """Go through the stages, in a place of the task's own if it has one."""
        task, branches = self._task, self._crew.branches
        if not branches:
            return self._work()
        with branches.alone_with(task.id, self._should_stop):
            self._place = branches.work_on(task.id, task.title)
            self._directory = self._place.directory
            capture = self._work()
            if self._place:
                branches.leave(self._place)
        return capture

    def _work(self) -> Capture:
        task = self._task
        prepared = self._prepare()
        prompt, plan = prepared.prompt, prepared.plan
        self._attempt = replace(
            self._attempt,
            hat=plan.hat,
            model=plan.choice.model,
            model_reason=plan.choice.reason,
            shown=prompt.shown,
        )
        self._patiently(lambda: self._store.attempts.note(self._attempt))
        self._tell(progress.attempt_started(task, self._attempt))
        self._tell(progress.recalled(prepared.known, prompt))
        setting = self._setting(plan)
        reply = self._session(prompt, setting.used)
        sigils = self._understood(read_sigils(reply.text, prompt.text))
        says_done = claims_done(task.id, reply, sigils)
        move = hats.resolve(self._attempt.hat, sigils, says_done, plan.hats)
        verdict, obstacle = self._check(reply, sigils, move) if says_done else (Verdict(), None)
        if self._should_stop() and reply.ending is Ending.FINISHED and not (verdict.passed and obstacle is None):
            # Gates that were ended by us, or a merge nobody waited for: that says nothing about the work.
            reply = replace(reply, ending=Ending.STOPPED, detail=self._why_stopped())
        if not (says_done and verdict.passed and obstacle is None) and (trouble := self._crew.trouble_of_disk()):
            # Whatever it says, it could not write: the task is not to blame, and what it learned is kept.
            reply = replace(reply, ending=Ending.STOPPED, detail=trouble)
        capture = self._conclude(reply, sigils, verdict, setting, move, obstacle, prompt)
        return replace(capture, memories=tuple(with_marks(memory, self._crew.root) for memory in capture.memories))

    def _patiently(self, work: Callable[[], R], *, is_settling: bool = False) -> R:
        return self._crew.patiently(work, is_settling=is_settling)

    # --- before ------------------------------------------------------------------------

    def _prepare(self) -> Prepared:
        attempt = self._attempt
        return self._patiently(
            lambda: prepare(
                self._store,
                self._config,
                self._task,
                self._metrics,
                run_id=attempt.run_id,
                iteration=attempt.iteration,
                attempt_number=attempt.number or 1,
                model=self._crew.order.model,
                with_memory=attempt.with_memory,
                takes_model=self._crew.agent.takes_model,
                conflicts=self._place.conflicts if self._place else (),
            )
        )

    def _setting(self, plan: Plan | None = None) -> Setting:
        """Give what is known around an attempt."""
        attempts, task, order = self._store.attempts, self._task, self._crew.order
        failed, limited = self._metrics.consecutive_failures, has_task_limits(order)
        reports = self._patiently(lambda: attempts.reports(1, task=task.id), is_settling=True) if failed else []
        return Setting(
            metrics=self._metrics,
            max_retries=self._config.execution.max_retries,
            order=order,
            used=self._patiently(lambda: attempts.used_by(task), is_settling=True) if limited else Used(),
            before=reports[0] if reports else None,
            may_split=plan is not None and plan.may_split,
        )

    # --- the agent ---------------------------------------------------------------------

    def _session(self, prompt: Prompt, used: Used) -> Reply:
        """Give the agent's answer, with the files it changed."""
        agent, directory = self._crew.agent, self._directory
        before = None if agent.knows_files else worktree.snapshot(directory)
        seconds = self._config.agent.seconds or NO_LIMIT
        if self._crew.order.task_minutes:
            seconds = min(seconds, max(LEAST_SECONDS, self._crew.order.task_minutes * 60 - used.seconds))
        settings = content_of(self._crew.root / TOML_NAME)
        self._reply = self._ask(prompt.text, self._attempt.model, seconds)
        if content_of(self._crew.root / TOML_NAME) != settings:
            message = (
                f"{TOML_NAME} has changed during the session: look at it before the next run, it says how to check."
            )
            self._tell(event("warning", message=message))
        knows_files = agent.knows_files
        if self._reply.files is None:
            after = worktree.snapshot(directory)
            self._reply = replace(self._reply, files=worktree.changed_between(directory, before, after))
            knows_files = before is not None and after is not None
        mark = worktree.mark_of(directory, self._reply.files or ()) if knows_files else ""
        self._attempt = replace(self._attempt, change_mark=mark)
        return self._reply

    def _ask(self, prompt: str, model: str | None, seconds: float, *, read_only: bool = False) -> Reply:
        agent = self._config.agent
        session = Session(
            directory=self._directory,
            model=model,
            limits=Limits(
                seconds=seconds,
                idle_seconds=agent.idle_seconds or NO_LIMIT,
                output_bytes=int(agent.output_mb * 1024 * 1024) or sys.maxsize,
            ),
            environment=self._environment(read_only=read_only),
            should_stop=self._should_stop,
            heard=lambda text: self._tell(event("output", text=text)),
            read_only=read_only,
        )
        self._store.rest()  # an agent takes minutes: others can use the connection meanwhile
        reply = self._crew.agent.work(prompt, session)
        if reply.ending in (Ending.CRASHED, Ending.MODEL_FAILED):
            given = allowed(agent=self._crew.agent.name, named=agent.environment)
            self._tell_missed(f"{reply.text[-READ_CHARACTERS:]}\n{reply.detail}", {**given, **session.environment})
        if reply.ending is Ending.STOPPED:
            reply = replace(reply, detail=self._why_stopped())
        cost = cost_of(self._config.models, model or "", reply.tokens_in or 0, reply.tokens_out or 0)
        return replace(reply, cost_usd=cost) if cost and not reply.cost_usd else reply

    def _environment(self, *, read_only: bool = False) -> dict[str, str]:
        """Give what agents and gates find in their environment besides what they get of ours."""
        return session_variables(self._config, self._task.id, self._attempt, read_only=read_only)

    def _tell_missed(self, text: str, given: Mapping[str, str]) -> None:
        """Tell once of variables that something which failed asks for, and that a person has set."""
        if names := self._crew.unwarned(missed(text, given)):
            self._tell(event("warning", message=how_to_give(names)))

    def _understood(self, sigils: Sigils) -> Sigils:
        """Give the sigils without a wish for a model that nobody knows."""
        problem = unknown_hint(self._config.models, self._config.agent.model, sigils.next_model or "")
        return replace(sigils, next_model=None, problems=(*sigils.problems, problem)) if problem else sigils

    def _should_stop(self) -> bool:
        return self._crew.wants_to_stop or self._has_lost_claim()

    def _why_stopped(self) -> str:
        crew = self._crew
        if crew.interrupts.wanted:
            return "stopped by a person" if not crew.interrupts.terminated else "Ralph was asked to end"
        if self._has_lost_claim():
            return "the claim was lost"
        return crew.stopped or RunEnding.LIMIT_MINUTES

    # --- whether it is true --------------------------------------------------------------

    def _check(self, reply: Reply, sigils: Sigils, move: Move) -> tuple[Verdict, Obstacle | None]:
        """Check work that is said to be done; that of the last hat is merged, if it has a branch of its own."""
        is_end = move.kind is Turn.DONE
        if not is_end and not hats.changes_files(self._attempt.hat):
            return Verdict(), None
        if is_end and (obstacle := self._catch_up()):
            return Verdict(), obstacle
        verdict = self._run_gates()
        # Also when it is time to stop: then the session is ended at once, and the work is not taken for done unseen.
        if is_end and verdict.passed and self._config.execution.verify and self._config.execution.review:
            verdict = self._review(verdict, reply, sigils)
        if is_end and verdict.passed and self._place:
            return self._merge(self._place, verdict)
        return verdict, None

    def _run_gates(self) -> Verdict:
        execution = self._config.execution
        given = gate_variables(self._config, self._environment())
        verdict = run_gates(
            execution.gates if execution.verify else (),
            self._directory,
            execution.gate_seconds or NO_LIMIT,
            given,
            self._should_stop,
            self._tell_gate,
        )
        for gate in verdict.gates:
            if not gate.passed:
                self._tell_missed(f"{gate.command}\n{gate.output}", given)
        return verdict

    def _tell_gate(self, command: str, result: GateResult | None) -> None:
        self._tell(progress.gate(command, result))

    def _review(self, verdict: Verdict, reply: Reply, sigils: Sigils) -> Verdict:
        """Let a session that may change nothing look at the work."""
        task = self._task
        self._tell(event("review_started", task_id=task.id))
        feature_id = task.feature_id
        feature = self._patiently(lambda: self._store.features.get(feature_id)) if feature_id else None
        prompt = review_prompt(task, feature, reply.files or (), sigils.journal)
        model = self._review_model() if self._crew.agent.takes_model else None
        # Where another run works too, what it does must not be taken back.
        is_ours = self._place is not None or self._crew.is_alone
        with Frozen(self._directory, takes_back=is_ours) as frozen:
            said = self._ask(prompt, model, self._config.agent.seconds or NO_LIMIT, read_only=True)
        found = read_sigils(without_echo(said.text, prompt))
        review = judge_review(said, found, passes(said.text, task.id), frozen.taken_back, frozen.kept_as)
        self._tell(progress.reviewed(review))
        return replace(verdict, review=review)

    def _review_model(self) -> str | None:
        """Give the model that verifies: where the ladder's are not in use, the agent may not even know them."""
        models, used = self._config.models, self._attempt.model
        return self._config.execution.review_model or (strongest(models) if used in models.ladder else used)

    # --- branches ------------------------------------------------------------------------

    def _catch_up(self) -> Obstacle | None:
        """Bring finished work up to date before it is checked: what others did meanwhile is part of what must pass."""
        branches, execution = self._crew.branches, self._config.execution
        is_checked = execution.verify and (execution.gates or execution.review)
        if not branches or not self._place or not is_checked:
            return None
        try:
            if branches.is_behind(self._place):
                self._place = branches.work_on(self._task.id, self._task.title)
        except WorktreeError as error:  # what the session said is kept all the same
            return Obstacle(why=str(error), waits_for_person=True)
        conflicts = self._place.conflicts
        if not conflicts:
            return None
        why = f"the work conflicts with what others did meanwhile, in {', '.join(conflicts)}"
        return Obstacle(why=why, files=conflicts)

    def _merge(self, place: Place, verdict: Verdict) -> tuple[Verdict, Obstacle | None]:
        """Put finished work into the branch it is meant for; the gates have the last word on what is merged."""
        assert self._crew.branches
        if self._has_lost_claim():
            return verdict, Obstacle(why="the claim was lost before the work was merged")
        latest = verdict

        def passes_again() -> bool:
            nonlocal latest
            latest = replace(verdict, gates=self._run_gates().gates)
            return latest.passed

        recheck = passes_again if verdict.gates else None
        merge = self._crew.branches.finish(
            place, self._task.id, self._task.title, self._should_stop, recheck, self._has_claim
        )
        if not latest.passed:
            return latest, None
        if merge.why:
            return latest, Obstacle(why=merge.why, files=merge.conflicts, waits_for_person=merge.waits_for_person)
        self._place = None
        self._tell(event("merged", task_id=self._task.id, files=list(merge.files), commit=merge.commit))
        return latest, None

    def _has_claim(self) -> bool:
        """Say whether the task is still ours, by the database's own word."""
        task, lease_seconds = self._task, self._config.execution.lease_seconds
        return self._patiently(lambda: self._store.tasks.heartbeat(task.id, task.claim_token, lease_seconds))

    # --- what is kept --------------------------------------------------------------------

    def _conclude(
        self,
        reply: Reply,
        sigils: Sigils,
        verdict: Verdict,
        setting: Setting,
        move: Move | None = None,
        obstacle: Obstacle | None = None,
        prompt: Prompt | None = None,
    ) -> Capture:
        return conclude(
            self._task,
            self._attempt,
            reply,
            sigils,
            verdict,
            setting,
            at=now(),
            move=move,
            obstacle=obstacle,
            feedback=self._feedback() if reply.ending is Ending.STOPPED else "",
            injected=told(prompt) if prompt else "",
        )

    def _feedback(self) -> str:
        """Ask the person who pressed Ctrl+C; a second one stops the run instead."""
        crew = self._crew
        if crew.ask is None or crew.interrupts.insists or not crew.interrupts.wanted:
            return ""
        self._tell(event("interrupted", task_id=self._task.id))
        self.was_asked = True
        try:
            crew.interrupts.asking = True
            return accept(crew.ask(self._task))
        except (KeyboardInterrupt, EOFError):
            crew.interrupts.count += 1
            return ""
        finally:
            crew.interrupts.asking = False
