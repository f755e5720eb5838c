"""Brakes of a run: an agent that fails the same way whatever the task, and tasks whose turn is over for now."""

from __future__ import annotations

import re
import threading

from ralph.core.records import FAILED_OUTCOMES, AttemptOutcome, SessionEnding
from ralph.loop.outcome import NO_SIGIL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.core.records import AgentReply, Attempt, Task

MAX_IDENTICAL_FAILURES = 5
"""Identical consecutive failures, across more than one task, that are blamed on the agent."""
MAX_COMPARED_CHARACTERS = 2_000
"""Length of an answer up to which it is compared, in characters."""


class AgentBrake:
    """Notices an agent that crashes the same way, or gives the same useless answer, whatever the task."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sign = ""
        self._alike: list[Attempt] = []
        """The latest attempts, as long as all of them failed in the same way."""

    def record(self, attempt: Attempt, task: Task, reply: AgentReply | None) -> Sequence[Attempt]:
        """Record an attempt; return the failures that are blamed on the agent, or nothing."""
        sign = _failure_sign(attempt, task, reply)
        with self._lock:
            if sign != self._sign:
                self._sign, self._alike = sign, []
            if sign:
                self._alike.append(attempt)
            is_agent = len(self._alike) >= MAX_IDENTICAL_FAILURES and len({one.task_id for one in self._alike}) > 1
            return tuple(self._alike) if is_agent else ()


def _failure_sign(attempt: Attempt, task: Task, reply: AgentReply | None) -> str:
    """Return what a failure that is not about its task has in common with others of its kind, or an empty string."""
    # The first hang of a task is excused, but an agent that hangs on every task is none to go on with.
    if attempt.excused and not (reply and reply.ending is SessionEnding.WENT_SILENT):
        return ""
    if attempt.outcome is AttemptOutcome.ERROR:
        return f"crash: {attempt.reason}"
    if attempt.outcome is AttemptOutcome.BLOCKED and attempt.reason == NO_SIGIL:
        text = (reply.text if reply else "")[:MAX_COMPARED_CHARACTERS].lower()
        for own in (task.id, task.title):
            text = text.replace(own.lower(), "#")
        return f"answer: {' '.join(re.sub(r'[0-9]+', '#', text).split())}"
    return ""


class RetryTurns:
    """Tasks that failed in this run: other ready tasks of the same priority come first, as many as it has failures.

    All of them must not come first: what a retry finds out helps the others.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended = 0
        """Number of attempts that have ended."""
        self._failures: dict[str, int] = {}
        """Number of failures since the last success, by task."""
        self._turns: dict[str, int] = {}
        """Number of ended attempts from which each task has its turn again."""

    def record(self, attempt: Attempt) -> None:
        """Record an attempt that has ended."""
        if attempt.task_id is None:
            return
        with self._lock:
            self._ended += 1
            if attempt.outcome in FAILED_OUTCOMES and not attempt.excused and not attempt.handed_to:
                self._failures[attempt.task_id] = self._failures.get(attempt.task_id, 0) + 1
                self._turns[attempt.task_id] = self._ended + self._failures[attempt.task_id]
            else:
                self._failures.pop(attempt.task_id, None)
                self._turns.pop(attempt.task_id, None)

    @property
    def waiting(self) -> tuple[str, ...]:
        """Ids of the tasks whose turn has not come, in the order in which they are tried again."""
        with self._lock:
            waiting = [id for id, turn in self._turns.items() if turn > self._ended]
            return tuple(sorted(waiting, key=self._turns.__getitem__))
