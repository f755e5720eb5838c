"""Frozen records shared by all layers, their ids, and the clock.

`@record` behaves like a frozen, slotted, keyword-only dataclass. It exists because importing `dataclasses` and
creating a dozen of them takes longer than the rest of a cold start (docs/decisions/0003), so nothing here may
import that module.
"""

from __future__ import annotations

import os
import time
from enum import StrEnum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TypeVar, dataclass_transform

    R = TypeVar("R")

    @dataclass_transform(frozen_default=True, kw_only_default=True)
    def record(cls: type[R]) -> type[R]:
        """Declare `record` for type checkers; implemented below."""
        return cls

    def replace(instance: R, /, **changes: object) -> R:
        """Declare `replace` for type checkers; implemented below."""
        return instance

else:

    class _Record:
        """Base class with the methods of all records.

        Generating them per class, as dataclasses do, would add a millisecond to a cold start.
        """

        __slots__ = ()

        def __init__(self, **kwargs):
            setters, defaults = self._layout
            values = kwargs if len(kwargs) == len(setters) else {**defaults, **kwargs}
            if len(values) != len(setters):
                raise _argument_error(self, kwargs)
            try:
                for name, set_value in setters:
                    set_value(self, values[name])
            except KeyError:
                raise _argument_error(self, kwargs) from None

        def __setattr__(self, name, value=None):
            raise AttributeError(f"{self.__class__.__name__} is frozen: use replace()")

        __delattr__ = __setattr__

        def __eq__(self, other):
            return _values(self) == _values(other) if other.__class__ is self.__class__ else NotImplemented

        def __hash__(self):
            return hash(_values(self))

        def __repr__(self):
            return f"{self.__class__.__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n in self.__slots__)})"

    def _values(instance):
        return tuple(getattr(instance, name) for name in instance.__slots__)

    def _argument_error(instance, kwargs):
        names, defaults = set(instance.__slots__), instance._layout[1]
        if missing := names - defaults.keys() - kwargs.keys():
            return TypeError(f"{instance.__class__.__name__}: missing {', '.join(sorted(missing))}")
        return TypeError(f"{instance.__class__.__name__}: unexpected {', '.join(sorted(kwargs.keys() - names))}")

    def record(cls):
        """Return a frozen, slotted, keyword-only version of a class with annotated fields."""
        names = tuple(cls.__annotations__)
        namespace = dict(cls.__dict__)
        defaults = {name: namespace.pop(name) for name in names if name in namespace}
        namespace.pop("__dict__", None)
        namespace.pop("__weakref__", None)
        namespace["__slots__"] = names
        slotted = type(cls.__name__, (_Record,), namespace)
        slotted._layout = [(name, slotted.__dict__[name].__set__) for name in names], defaults
        return slotted

    def replace(instance, /, **changes):
        """Return a copy of a record with some fields changed."""
        return type(instance)(**{name: getattr(instance, name) for name in instance.__slots__} | changes)


def record_fields(instance: object) -> dict[str, Any]:
    """Return a record's fields by name, in order. Nested records are not converted."""
    return {name: getattr(instance, name) for name in instance.__slots__}  # type: ignore[attr-defined]


# --- clock and ids -----------------------------------------------------------


def timestamp(seconds: float) -> str:
    """Format Unix seconds as a fixed-width UTC ISO 8601 timestamp, which sorts chronologically as text."""
    whole = int(seconds // 1)
    milliseconds = int((seconds - whole) * 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{milliseconds:03d}Z"


def now() -> str:
    """Return the current time as a timestamp."""
    return timestamp(time.time())


def session_key(origin: Mapping[str, Any]) -> str | None:
    """Return a key that identifies the agent session of a memory: its session id, or its attempt."""
    if origin.get("origin_session"):
        return str(origin["origin_session"])
    attempt = [origin.get(name) for name in ("origin_run", "origin_task", "origin_attempt")]
    return "/".join(map(str, attempt)) if all(attempt) else None


def new_task_id() -> str:
    """Return a new task id, `t-{6 hex}`."""
    return "t-" + os.urandom(3).hex()


def new_feature_id() -> str:
    """Return a new feature id, `f-{6 hex}`."""
    return "f-" + os.urandom(3).hex()


def new_run_id() -> str:
    """Return a new run id, `run-{8 hex}`."""
    return "run-" + os.urandom(4).hex()


def new_memory_id() -> str:
    """Return a new memory id, `mem-{unix}-{4 hex}`."""
    return f"mem-{int(time.time())}-{os.urandom(2).hex()}"


# --- enumerations ------------------------------------------------------------


class TaskStatus(StrEnum):
    """Status of a task."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    DONE = "done"
    FAILED = "failed"
    BLOCKED = "blocked"


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


class ErrorType(StrEnum):
    """Kind of error that ended an unsuccessful attempt."""

    TIMEOUT = "timeout"
    TOOL_ERROR = "tool_error"
    ASSERTION_FAILURE = "assertion_failure"
    UNKNOWN = "unknown"


class Difficulty(StrEnum):
    """Difficulty of a task, as estimated by the agent."""

    TRIVIAL = "trivial"
    EASY = "easy"
    MODERATE = "moderate"
    HARD = "hard"
    BLOCKED = "blocked"


class MemorySource(StrEnum):
    """Origin of a memory."""

    AUTOMATIC = "automatic"
    EXPLICIT = "explicit"
    IMPORTED = "imported"


class MemoryState(StrEnum):
    """Lifecycle state of a memory. Only active memories are ever shown."""

    STAGED = "staged"
    ACTIVE = "active"
    REJECTED = "rejected"
    SUPERSEDED = "superseded"
    PRUNED = "pruned"
    QUARANTINED = "quarantined"


SIGNAL_TYPES = (
    "architecture",
    "dependency",
    "decision",
    "constraint",
    "pattern",
    "convention",
    "pitfall",
    "fix",
    "context",
)
"""Types accepted in a `MEMORY:type:content` line."""

MEMORY_KINDS = (*SIGNAL_TYPES, "strategy", "antipattern", "estimate", "knowledge")
"""Known kinds of memory. Learning categories that an agent makes up are stored unchanged."""

LEARNING_CATEGORIES = (
    "success_pattern",
    "pitfall",
    "tool_usage",
    "code_structure",
    "testing_strategy",
    "debugging_technique",
    "other",
)


# --- planning ------------------------------------------------------------------


@record
class Feature:
    """A larger goal whose spec and plan are part of the prompts of its tasks."""

    id: str
    name: str
    spec: str = ""
    plan: str = ""
    created_at: str
    updated_at: str


@record
class Task:
    """A unit of work for one agent session."""

    id: str
    title: str
    body: str = ""
    status: TaskStatus = TaskStatus.PENDING
    priority: int = 0
    """Tasks with a higher priority are claimed first."""
    parent_id: str | None = None
    feature_id: str | None = None
    needs: tuple[str, ...] = ()
    reason: str = ""
    """Why the task is blocked or failed."""
    claimed_by: str | None = None
    claim_token: int = 0
    """Fencing token, incremented by every claim. Settling with an old token is refused."""
    lease_until: str | None = None
    reset_after: int = 0
    """Number of attempts when a person last reset the task. Only later failures count against the retries."""
    created_at: str
    updated_at: str


@record
class TaskLogEntry:
    """An entry in the log of a task."""

    message: str
    who: str
    at: str


# --- runs and attempts ---------------------------------------------------------


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
    excused: bool = False
    """True if the attempt failed only because the model's service did. It counts against nothing."""
    turns: int | None = None
    """Number of model requests, if the agent reports it."""
    agent_session: str = ""
    """Session id assigned by the agent."""
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
class TaskMetrics:
    """Metrics over all attempts at one task."""

    task_id: str
    total_attempts: int = 0
    consecutive_failures: int = 0
    failures_since_reset: int = 0
    last_attempt_at: str | None = None
    last_success_at: str | None = None
    difficulty: Difficulty | None = None
    suggested_model: str | None = None


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


# --- memories ------------------------------------------------------------------


@record
class Memory:
    """Something learned that should help with later tasks."""

    id: str
    kind: str
    title: str
    body: str
    content: str = ""
    """Structured content as JSON, for the kinds strategy, antipattern, estimate and convention."""
    tags: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    feature: str | None = None
    task_type: str | None = None
    hat: str | None = None
    source: MemorySource = MemorySource.EXPLICIT
    trust: str = "project"
    state: MemoryState = MemoryState.ACTIVE
    state_reason: str = ""
    """Why the memory is rejected, pruned, superseded or quarantined."""
    confidence: float = 0.5
    """Confidence from 0 to 1. The initial value depends on the source."""
    wins: int = 0
    losses: int = 0
    uses: int = 0
    success_rate: float | None = None
    """Success rate where the memory was followed, if known."""
    support: int = 1
    """Number of distinct attempts or loops that learned it."""
    superseded_by: str | None = None
    origin_task: str | None = None
    origin_run: str | None = None
    origin_attempt: int | None = None
    origin_session: str | None = None
    origin_loops: tuple[str, ...] = ()
    created_at: str
    updated_at: str
    used_at: str | None = None
    verified_at: str | None = None
    """When it was last learned again or confirmed by an attempt."""
    seen: str = ""
    """Fingerprints of the files it names at `verified_at`, by path, as JSON."""
    stale: str = ""
    """Change of those files since, if it makes the memory doubtful. Empty otherwise."""
    validated_at: str | None = None
    """When the memory passed validation while staged."""


@record
class MemoryEvent:
    """A change in the history of a memory."""

    seq: int
    memory_id: str
    what: str
    was: str | None
    """Old values of the changed fields, as JSON. None if the memory was added."""
    became: str | None
    """New values of the changed fields, as JSON."""
    who: str
    why: str
    at: str
    change_id: str = ""
    """Id shared by changes that were made together."""
    undoes: int | None = None
    """Sequence number of the event that this one undid."""


# --- stages of an iteration ------------------------------------------------------


@record
class RecalledMemory:
    """A memory recalled for a task, with its score and the components of the score."""

    memory: Memory
    score: float
    because: tuple[tuple[str, float], ...] = ()
    place: int | None = None
    """Rank from 1 among all candidates, if the result is a selection of them."""


@record
class OmittedItem:
    """A candidate that was not put into the prompt, and why."""

    what: str
    why: str
    id: str = ""
    place: int | None = None
    """Rank from 1, for a memory that was ranked; likewise `score` and its components."""
    score: float | None = None
    because: tuple[tuple[str, float], ...] = ()


@record
class PromptContext:
    """Everything a prompt for one attempt can be built from."""

    task: Task
    run_id: str = ""
    attempt_number: int = 1
    with_memory: bool = True
    metrics: TaskMetrics
    prerequisites: tuple[tuple[Task, str], ...] = ()
    """Completed dependencies, each with the notes of the attempt that completed it."""
    parent: Task | None = None
    feature: Feature | None = None
    memories: tuple[RecalledMemory, ...] = ()
    journal: tuple[Attempt, ...] = ()
    """Recent attempts of this run in order, then matches from other runs."""
    reports: tuple[FailureReport, ...] = ()
    """Failure reports of this task, newest first."""
    similar_reports: tuple[FailureReport, ...] = ()
    """Failure reports of other tasks, most similar first."""
    interruptions: tuple[Attempt, ...] = ()
    """Attempts at this task that a person interrupted with feedback, newest first."""
    handovers: tuple[Attempt, ...] = ()
    """Attempts by earlier hats at this task, newest first."""
    recent_outcomes: tuple[AttemptOutcome, ...] = ()
    left_out: tuple[OmittedItem, ...] = ()


@record
class PromptSection:
    """A section of a prompt, with what it includes and what it left out."""

    name: str
    text: str
    tokens: int
    cap_tokens: int | None = None
    shown: tuple[str, ...] = ()
    left_out: tuple[OmittedItem, ...] = ()


@record
class Prompt:
    """The text sent to an agent, and what it was built from."""

    text: str
    tokens: int
    sections: tuple[PromptSection, ...]
    shown: tuple[str, ...] = ()
    """Ids of the memories in the text."""


class SessionEnding(StrEnum):
    """Technical reason why an agent session ended, independent of what the agent reported."""

    FINISHED = "finished"
    CRASHED = "crashed"
    TIMED_OUT = "timed out"
    WENT_SILENT = "went silent"
    FLOODED = "flooded"
    REFUSED = "refused"
    OUT_OF_TURNS = "out of turns or tokens"
    MODEL_FAILED = "could not use its model"
    """The model's service refused or failed: no key, no credit, overloaded or unreachable."""
    STOPPED = "stopped"
    """Stopped by Ralph, because of an interrupt or a lost claim."""


@record
class AgentSession:
    """An agent session outside the loop: what it was shown, and what it left behind."""

    id: str
    """Session id assigned by the agent."""
    agent: str
    title: str = ""
    """Beginning of the first prompt."""
    summary: str = ""
    """Last answer of the agent, or the summary of a compaction."""
    shown: tuple[str, ...] = ()
    """Ids of the memories in its context."""
    learned: tuple[str, ...] = ()
    """Ids of the memories learned from it."""
    said: tuple[str, ...] = ()
    """Fingerprints of the memories it asked to store, to recognize repetitions."""
    prompts: int = 0
    compactions: int = 0
    started_at: str
    last_at: str
    ended_at: str | None = None
    ending: str = ""
    """Why the session ended, as named by the agent."""


@record
class AgentReply:
    """Result of an agent session."""

    text: str
    ending: SessionEnding = SessionEnding.FINISHED
    detail: str = ""
    """One sentence about any ending other than `finished`."""
    exit_code: int | None = None
    seconds: float = 0.0
    cost_usd: float = 0.0
    tokens_in: int | None = None
    tokens_out: int | None = None
    files: tuple[str, ...] | None = None
    """Files the agent changed. None if it does not report them and git has to be asked."""
    turns: int | None = None
    """Number of model requests."""
    session: str = ""
    """Session id assigned by the agent, which can be used to inspect or resume the session."""


@record
class KnowledgeSigil:
    """A `<knowledge>` sigil."""

    title: str
    tags: tuple[str, ...]
    body: str


@record
class LearningSigil:
    """A `<learning>` sigil."""

    category: str
    content: str
    tags: tuple[str, ...] = ()


@record
class MemorySignal:
    """A `MEMORY:type:content` line."""

    kind: str
    title: str
    content: str


@record
class FailureReportSigil:
    """A `<failure-report>` sigil."""

    tried: str
    why: str
    category: str = "unknown"
    files: tuple[str, ...] = ()
    trace: str = ""


@record
class HandoverSigil:
    """A `<hand-over>` sigil: the hat that continues, and what it has to know."""

    to: str
    """Name of the next hat. Empty to follow the configured order."""
    text: str = ""


@record
class SubtaskSigil:
    """A `<subtask>` sigil: part of a task that is too large."""

    title: str
    body: str = ""
    needs: tuple[str, ...] = ()
    """Titles of the subtasks that must be done first."""


@record
class Sigils:
    """All sigils found in an agent's answer."""

    done_ids: tuple[str, ...] = ()
    failed_ids: tuple[str, ...] = ()
    report: FailureReportSigil | None = None
    learnings: tuple[LearningSigil, ...] = ()
    knowledge: tuple[KnowledgeSigil, ...] = ()
    signals: tuple[MemorySignal, ...] = ()
    journal: str = ""
    difficulty: Difficulty | None = None
    retry_suggestion: str = ""
    next_model: str | None = None
    hand_over: HandoverSigil | None = None
    subtasks: tuple[SubtaskSigil, ...] = ()
    verify_passed: bool | None = None
    verify_reason: str = ""
    problems: tuple[str, ...] = ()
    """Sigils that were skipped and why, for the log."""


@record
class GateResult:
    """Result of one quality gate."""

    command: str
    passed: bool
    output: str
    """End of the output, truncated to a limit."""
    seconds: float
    detail: str = ""
    """Why the gate did not pass."""
    timed_out: bool = False


@record
class Review:
    """Result of a verification session."""

    passed: bool
    has_verdict: bool = True
    """False if the session reached no verdict, in which case the work may still be correct."""
    reason: str = ""
    """Why the review did not pass."""
    reply: AgentReply
    """Agent session of the review, for its cost and usage."""


@record
class VerificationResult:
    """Combined result of the quality gates and the verification session."""

    gates: tuple[GateResult, ...] = ()
    review: Review | None = None

    @property
    def passed(self) -> bool:
        """True if all gates and the review, if any, passed."""
        return all(gate.passed for gate in self.gates) and (self.review is None or self.review.passed)


@record
class AttemptResult:
    """Everything to store when an attempt is settled, in one transaction."""

    attempt: Attempt
    report: FailureReport | None
    memories: tuple[Memory, ...]
    task_status: TaskStatus
    """New status of the task."""
    task_reason: str = ""
    spent_limit: str = ""
    """Limit of the task that is used up, such as "its 3 iterations"."""
    is_out_of_retries: bool = False
    failed_check: str = ""
    """Check that rejected finished work: "gate" or "review"."""
    subtasks: tuple[SubtaskSigil, ...] = ()
    """Subtasks the task is split into."""
    limits_used: tuple[str, ...] = ()
    """Used share of the limits of the task, as text for people."""
    affects_credit: bool = True
    """False if the outcome says nothing about the memories in the prompt."""
    log: tuple[str, ...] = ()
    """Entries for the log of the task."""
    ignored_sigils: tuple[str, ...] = ()
    """Sigils that were malformed or not accepted, and why."""
