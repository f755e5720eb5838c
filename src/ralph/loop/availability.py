"""Which agent of a run can use its model now, and until when the others have to wait. Shared by all workers."""

from __future__ import annotations

import os
import threading
import time
from datetime import datetime
from typing import TYPE_CHECKING

from ralph.agents.service_errors import ServiceError, ServiceProblem, read_service_error
from ralph.core.agents import AGENTS
from ralph.core.records import SessionEnding, timestamp
from ralph.loop.options import RunEnding
from ralph.loop.progress import progress_event
from ralph.loop.waits import WaitTimes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ralph.agents import Agent
    from ralph.core.records import AgentReply
    from ralph.loop.progress import EventHandler

MAX_OUTAGES = 10
"""Consecutive model outages after which an agent is given up; about half an hour with the default backoff."""
MAX_BACKOFF_SECONDS = 300.0
"""Upper bound of the backoff after a model outage, in seconds."""
UNKNOWN_RESET_SECONDS = 900.0
"""Time until an agent is tried again after a usage limit whose reset time is not known, in seconds."""
MAX_LIMITS = 96
"""Consecutive usage limits after which an agent is given up: a day, if no reset time is known."""
RESET_MARGIN_SECONDS = 1.0
"""Time to wait beyond a reset, in seconds, because clocks differ."""
STOP_POLL_SECONDS = 0.2
"""Poll interval while waiting, in seconds."""
_PERMANENT = {
    ServiceProblem.LOGIN: RunEnding.NO_LOGIN,
    ServiceProblem.CREDIT: RunEnding.NO_CREDIT,
    ServiceProblem.MODEL: RunEnding.UNKNOWN_MODEL,
}


class AgentAvailability:
    """The agents of a run in order of preference, and until when each of them has to wait for its model."""

    def __init__(
        self,
        agents: Sequence[Agent],
        outage_seconds: float,
        emit: EventHandler,
        on_wait: Callable[[str, str], None] = lambda _until, _reason: None,
        waits: WaitTimes | None = None,
    ) -> None:
        """`on_wait` gets the time until which the run waits for a usage limit and the reason, empty once it is over.

        `waits` counts how long that takes.
        """
        self._states = [_AgentState(agent, outage_seconds) for agent in agents]
        self._emit = emit
        self._on_wait = on_wait
        self._waits = waits or WaitTimes(lambda _: None)
        self._lock = threading.Lock()
        self._used = agents[0].name
        self.next_reset = ""
        """When the usage limit of the last agent resets, reached or not; empty if it is not known."""

    def agent(self, name: str) -> Agent:
        """Return an agent of this run by its name."""
        return next(state.agent for state in self._states if state.agent.name == name)

    def record_reply(self, name: str, reply: AgentReply | None) -> RunEnding | None:
        """Record how a session ended; return how the run ends if none of its agents can go on."""
        state = next(state for state in self._states if state.agent.name == name)
        with self._lock:
            self.next_reset = timestamp(reply.next_reset) if reply and reply.next_reset else ""
            if reply is None or reply.ending is not SessionEnding.MODEL_FAILED:
                state.recover()
                return None
            state.fail(_service_error(reply))
            is_over = all(one.ending for one in self._states)
        if message := state.message(is_over=is_over):
            is_permanent = state.error.problem.is_permanent
            self._emit(progress_event("warning", message=message, needs_login=is_permanent and not is_over))
        return self._states[0].ending if is_over else None

    def wait_for_agent(self, should_stop: Callable[[], bool], seconds_left: float) -> Agent | None:
        """Return the agent to use next once it can use its model; None if the run has to end before.

        `seconds_left` is how long the run may go on.
        """
        is_announced = False
        while not should_stop():
            with self._lock:
                waits = [(state.seconds_left, state) for state in self._states if not state.ending]
            ready = next((state for left, state in waits if left <= 0), None)
            if ready or not waits:
                if is_announced:
                    self._on_wait("", "")
                return self._switch_to(ready.agent) if ready else None
            left, state = min(waits, key=lambda one: one[0])
            if state.error.problem is ServiceProblem.USAGE_LIMIT and not is_announced:
                is_announced = True
                self._announce_wait(state, left)
            if left > seconds_left:
                return None
            since = time.monotonic()
            time.sleep(min(left, STOP_POLL_SECONDS))
            self._waits.add(state.wait_reason, since)
        return None

    def _announce_wait(self, state: _AgentState, left: float) -> None:
        until = timestamp(state.until)
        self._emit(progress_event("waiting_for_limit", agent=state.agent.name, until=until, seconds=round(left, 1)))
        self._on_wait(until, state.wait_reason)

    def _switch_to(self, agent: Agent) -> Agent:
        with self._lock:
            before, self._used = self._used, agent.name
        if before != agent.name:
            self._emit(progress_event("note", message=f"Continuing with {agent.name} instead of {before}."))
        return agent


class _AgentState:
    """One agent: its last service error, and until when it has to wait."""

    def __init__(self, agent: Agent, outage_seconds: float) -> None:
        self.agent = agent
        self.ending: RunEnding | None = None
        """Why it is given up."""
        self.error = ServiceError(problem=ServiceProblem.OUTAGE)
        self.until = 0.0
        """Time until which it waits, in seconds since the epoch."""
        self._deadline = 0.0
        """The same by the monotonic clock, in case the other one is set back."""
        self._outage_seconds = outage_seconds
        self._failures = 0

    @property
    def seconds_left(self) -> float:
        """Time that it still has to wait, in seconds."""
        return min(self.until - time.time(), self._deadline - time.monotonic())

    @property
    def wait_reason(self) -> str:
        """What a run waits for with this agent."""
        is_limit = self.error.problem is ServiceProblem.USAGE_LIMIT
        return f"{'usage limit' if is_limit else 'outage'} of {self.agent.name}"

    def recover(self) -> None:
        """Record that it could use its model."""
        self._failures, self.until, self._deadline = 0, 0.0, 0.0

    def fail(self, error: ServiceError) -> None:
        """Record that it could not use its model."""
        self._failures = self._failures + 1 if error.problem is self.error.problem else 1
        self.error = error
        is_limit = error.problem is ServiceProblem.USAGE_LIMIT
        if error.problem.is_permanent:
            self.ending = _PERMANENT[error.problem]
        elif self._failures >= (MAX_LIMITS if is_limit else MAX_OUTAGES):
            self.ending = RunEnding.NO_MODEL
        seconds = min(MAX_BACKOFF_SECONDS, self._outage_seconds * 2 ** (self._failures - 1))
        if is_limit and error.resets_at:
            # A limit that has just been reset, or that is reported late, is asked about again like an outage.
            seconds = max(seconds, error.resets_at.timestamp() - time.time() + RESET_MARGIN_SECONDS)
        elif is_limit:
            seconds = UNKNOWN_RESET_SECONDS
        self.until, self._deadline = time.time() + seconds, time.monotonic() + seconds

    def message(self, *, is_over: bool) -> str:
        """Return what a person should know about its last failure, or an empty string."""
        name, left = self.agent.name, self.seconds_left
        if self.error.problem.is_permanent:
            agent = AGENTS.get(name, AGENTS["command"])  # one that a Python program brings has no entry
            hint = _HINTS.get(self.error.problem) or agent.login_hint(os.environ)
            return f"{name}: {self.error.problem}. {hint}" + ("" if is_over else " Other agents go on meanwhile.")
        if self.ending or self.error.problem is ServiceProblem.USAGE_LIMIT or left <= 0:
            return ""
        return f"The model service failed. Retrying in {left:.3g} s."


_HINTS = {
    ServiceProblem.CREDIT: "Add credit to the account or choose another agent, then continue with: ralph run --resume",
    ServiceProblem.MODEL: "Choose another model with --model, or under [agent] or [models] in .ralph.toml.",
}


def _service_error(reply: AgentReply) -> ServiceError:
    now = datetime.now().astimezone()
    if reply.resets_at is not None:
        return ServiceError(
            problem=ServiceProblem.USAGE_LIMIT, resets_at=datetime.fromtimestamp(reply.resets_at, now.tzinfo)
        )
    return read_service_error(reply.detail, now)
