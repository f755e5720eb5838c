"""Brakes of a run: an agent that cannot run, or fails the same way whatever the task, and tasks out of turn for now."""

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
MAX_FRUITLESS_CRASHES = 3
"""Identical consecutive crashes of sessions that did nothing that are blamed on the agent, be it on one task."""
QUICK_SECONDS = 10.0
"""Time within which such a session crashes, in seconds."""
_NOT_RUN = (126, 127)
"""Exit codes of a shell for a program that it could not run or find."""
_CANNOT_OPEN = re.compile(r"(?i)can(?:no|')t open|cannot find module|no such file or directory")
"""What interpreters say about a script that is not there."""
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
            count, tasks = len(self._alike), {one.task_id for one in self._alike}
            is_agent = count >= MAX_IDENTICAL_FAILURES and len(tasks) > 1
            is_command = is_fruitless_crash(reply) and (count >= MAX_FRUITLESS_CRASHES or _is_not_run(reply))
            return tuple(self._alike) if sign and (is_agent or is_command) else ()


def is_fruitless_crash(reply: AgentReply | None) -> bool:
    """Return whether a session crashed at once, without a word and without a change: no task is to blame for that."""
    is_crash = reply is not None and reply.ending is SessionEnding.CRASHED and reply.seconds < QUICK_SECONDS
    return is_crash and reply is not None and not reply.text.strip() and not reply.files


def _is_not_run(reply: AgentReply | None) -> bool:
    """Return whether a command says that what it should run is not there: trying again does not help."""
    return reply is not None and (reply.exit_code in _NOT_RUN or _CANNOT_OPEN.search(reply.detail) is not None)


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
