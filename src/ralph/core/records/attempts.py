"""Records of the loop: runs, attempts and failure reports."""

from __future__ import annotations

from enum import StrEnum

from ralph.core.records.base import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.records.tasks import Difficulty


class AttemptOutcome(StrEnum):
    """Outcome of an attempt."""

    DONE = "done"
    FAILED = "failed"
    RETRIED = "retried"
    """The agent reported done, but verification failed."""
    BLOCKED = "blocked"
    """The answer has no task sigil, or a token or turn limit was reached."""
    INTERRUPTED = "interrupted"
    """Stopped from outside (Ctrl+C, or the worker vanished), which says nothing about the task."""
    ERROR = "error"
    """The agent timed out or crashed."""


FAILED_OUTCOMES = (AttemptOutcome.FAILED, AttemptOutcome.RETRIED, AttemptOutcome.BLOCKED, AttemptOutcome.ERROR)
"""Outcomes that count as a failure of the attempt."""
OUTCOME_WORDS = {"": "running", AttemptOutcome.BLOCKED: "unfinished"}
"""Outcomes that people read under another name: only a task that needs a person is called blocked."""
CATEGORY_WORDS = {"no_sigil": "no_completion_signal"}
"""Categories of failures that people read under another name."""
LIMIT_CATEGORIES = ("memory_limit", "process_limit")
"""Categories of failures by a limit of this machine, which say nothing about the work."""


def outcome_word(outcome: str | None) -> str:
    """Return what people read for the outcome of an attempt."""
    return OUTCOME_WORDS.get(outcome or "", str(outcome))


def stored_outcome(word: str) -> str:
    """Return the outcome for what people read for it."""
    return next((outcome for outcome, shown in OUTCOME_WORDS.items() if outcome and shown == word), word)


def category_word(category: str) -> str:
    """Return what people read for the category of a failure."""
    return CATEGORY_WORDS.get(category, category)


def stored_category(word: str) -> str:
    """Return the category for what people read for it."""
    return next((category for category, shown in CATEGORY_WORDS.items() if shown == word), word)


class FailureCause(StrEnum):
    """What an unsuccessful attempt failed because of. Only failures of the project can teach something about it."""

    PROJECT = "project"
    """Its code, tests or tools: gates, reviews, and what the agent reports."""
    AGENT = "agent"
    """A refusal, no completion signal, a flood of output, a session that ran out of time or turns."""
    SERVICE = "service"
    """The model: login, limits, outage, no answer."""
    PERSON = "person"
    """An interrupt, or work that waits for a person."""
    RALPH = "ralph"
    """Ralph itself or this machine: a lost claim, a limit, a conflict between parallel tasks."""


class ErrorType(StrEnum):
    """Kind of error that ended an unsuccessful attempt."""

    TIMEOUT = "timeout"
    TOOL_ERROR = "tool_error"
    ASSERTION_FAILURE = "assertion_failure"
    UNKNOWN = "unknown"


@record
class Run:
    """One invocation of the loop."""

    id: str
    agent: str
    started_at: str
    ended_at: str | None = None
    ending: str = ""
    """Why the run stopped. Empty while it runs, or if its process vanished."""
    iterations: int = 0
    options: str = ""
    """Run options as JSON."""
    seconds: float = 0.0
    """Working time until the run last stopped, in seconds."""
    request: str = ""
    """What a person asked of it from elsewhere: "pause", "stop", or nothing."""
    waits_until: str = ""
    """Time until which it waits for a usage limit; empty if it does not wait."""
    waits_for: str = ""
    """What it waits for, such as "usage limit of claude"."""
    waited: str = ""
    """Seconds it has spent waiting by reason, as JSON; empty if it never waited."""


@record
class Attempt:
    """One iteration of the loop: journal entry, outcome and metrics in one record."""

    run_id: str
    iteration: int
    task_id: str | None
    number: int | None
    """Attempt number within the task, from 1."""
    feature_id: str | None = None
    hat: str = "creator"
    agent: str = ""
    model: str | None = None
    model_reason: str = ""
    outcome: AttemptOutcome | None = None
    """None while the attempt is running."""
    reason: str = ""
    error_type: ErrorType | None = None
    seconds: float = 0.0
    cost_usd: float = 0.0
    tokens_in: int | None = None
    tokens_out: int | None = None
    files: tuple[str, ...] = ()
    notes: str = ""
    feedback: str = ""
    """What the person who interrupted it said; also part of the notes."""
    difficulty: Difficulty | None = None
    shown: tuple[str, ...] = ()
    """Ids of the memories in the prompt."""
    with_memory: bool = True
    holdout: float = 0.0
    """Probability with which memory was withheld. 0 if the attempt was not part of a holdout experiment."""
    task_kind: str = ""
    """Type of work of the task."""
    next_model: str = ""
    """Model the agent requested for the next attempt."""
    handed_to: str = ""
    """Hat that continues the task. If set, `done` covers only the part of this attempt's hat."""
    change_mark: str = ""
    """Hash of the changed files, equal for attempts that produced the same change."""
    checks_passed: int = 0
    """Number of quality gates that passed."""
    checks_failed: int = 0
    """Number of individual checks that the failing gate reported, if known."""
    cause: FailureCause | None = None
    """What it failed because of. None if it was done, or is running."""
    excused: bool = False
    """True if the model's service failed, or the agent asked a person something. It counts against nothing."""
    turns: int | None = None
    """Number of model requests, if the agent reports it."""
    agent_session: str = ""
    """Session id assigned by the agent."""
    start_commit: str = ""
    """Commit that the attempt started from; with unfinished work of earlier attempts, a checkpoint."""
    commits: tuple[str, ...] = ()
    """Commits with the work of a task that is done, oldest first."""
    checkpoint: str = ""
    """Commit with unfinished work, under `refs/ralph/attempts`."""
    worker: str | None = None
    started_at: str
    ended_at: str | None = None


@record
class FailureReport:
    """Report on an unsuccessful attempt: what it tried and why it failed."""

    run_id: str
    iteration: int
    task_id: str
    attempt_number: int
    tried: str
    why: str
    category: str = "unknown"
    files: tuple[str, ...] = ()
    trace: str = ""
    retry_suggestion: str = ""
    fingerprint: str = ""
    made_by: str = "agent"
    """`agent` if the agent wrote the report, `ralph` if it was derived from the result."""
    created_at: str


@record
class ResourceUsage:
    """Resources used by a set of attempts."""

    iterations: int = 0
    done: int = 0
    seconds: float = 0.0
    cost_usd: float = 0.0
    tokens: int = 0


@record
class RunEvent:
    """A change in a run or task, published to followers."""

    seq: int
    what: str
    """`run_started`, `attempt_started`, `attempt_ended`, `run_ended` or `task_changed`."""
    run_id: str
    """Empty for `task_changed`."""
    iteration: int | None
    task_id: str | None
    """None if the event concerns no task, or more tasks than are listed one by one."""
    at: str
