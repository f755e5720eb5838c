"""The frozen records every stage passes on, their ids, and the clock.

`@record` gives what a frozen, slotted, keyword-only dataclass gives. It exists
because `import dataclasses` and a dozen dataclasses cost more than all the
rest of a cold start (docs/decisions/0003): nothing here may import them.
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
        """See below."""
        return cls

    def replace(one: R, /, **changes: object) -> R:
        """See below."""
        return one

else:

    class _Record:
        """What all records can do, made once: to make it for each of them would cost a cold start a millisecond."""

        __slots__ = ()

        def __init__(self, **given):
            setters, defaults = self._made_of
            values = given if len(given) == len(setters) else {**defaults, **given}
            if len(values) != len(setters):
                raise _wrong(self, given)
            try:
                for name, put in setters:
                    put(self, values[name])
            except KeyError:
                raise _wrong(self, given) from None

        def __setattr__(self, name, value=None):
            raise AttributeError(f"{self.__class__.__name__} is frozen: use replace()")

        __delattr__ = __setattr__

        def __eq__(self, other):
            return _values(self) == _values(other) if other.__class__ is self.__class__ else NotImplemented

        def __hash__(self):
            return hash(_values(self))

        def __repr__(self):
            return f"{self.__class__.__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n in self.__slots__)})"

    def _values(one):
        return tuple(getattr(one, name) for name in one.__slots__)

    def _wrong(one, given):
        names, defaults = set(one.__slots__), one._made_of[1]
        wrong = names - defaults.keys() - given.keys() or given.keys() - names
        return TypeError(f"{one.__class__.__name__}: missing or unknown {', '.join(sorted(wrong))}")

    def record(cls):
        """Make a frozen, slotted, keyword-only record of the annotated fields."""
        names = tuple(cls.__annotations__)
        space = dict(cls.__dict__)
        defaults = {name: space.pop(name) for name in names if name in space}
        space.pop("__dict__", None)
        space.pop("__weakref__", None)
        space["__slots__"] = names
        made = type(cls.__name__, (_Record,), space)
        made._made_of = [(name, made.__dict__[name].__set__) for name in names], defaults
        return made

    def replace(one, /, **changes):
        """Give a copy of a record with some fields changed."""
        return type(one)(**{name: getattr(one, name) for name in one.__slots__} | changes)


def fields_of(one: object) -> dict[str, Any]:
    """Give a record's fields by name, in order; records inside it stay records."""
    return {name: getattr(one, name) for name in one.__slots__}  # type: ignore[attr-defined]


# --- the clock and ids -------------------------------------------------------


def timestamp(seconds: float) -> str:
    """Give a moment as UTC ISO-8601 text of fixed width, so that text order is time order."""
    whole = int(seconds // 1)
    milliseconds = int((seconds - whole) * 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{milliseconds:03d}Z"


def now() -> str:
    """Give the present moment as a timestamp."""
    return timestamp(time.time())


def session_of(origin: Mapping[str, Any]) -> str | None:
    """Give what tells one agent session from another: its own id, or the attempt it is."""
    if origin.get("origin_session"):
        return str(origin["origin_session"])
    attempt = [origin.get(name) for name in ("origin_run", "origin_task", "origin_attempt")]
    return "/".join(map(str, attempt)) if all(attempt) else None


def task_id() -> str:
    """Give a new task id, `t-{6 hex}`."""
    return "t-" + os.urandom(3).hex()


def feature_id() -> str:
    """Give a new feature id, `f-{6 hex}`."""
    return "f-" + os.urandom(3).hex()


def run_id() -> str:
    """Give a new run id, `run-{8 hex}`."""
    return "run-" + os.urandom(4).hex()


def memory_id() -> str:
    """Give a new memory id, `mem-{unix}-{4 hex}`."""
    return f"mem-{int(time.time())}-{os.urandom(2).hex()}"


# --- words with a fixed meaning ----------------------------------------------


class Status(StrEnum):
    """Where a task stands."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    DONE = "done"
    FAILED = "failed"
    BLOCKED = "blocked"


class Outcome(StrEnum):
    """How an attempt ended."""

    DONE = "done"
    FAILED = "failed"
    RETRIED = "retried"
    """The agent said done, but verification failed."""
    BLOCKED = "blocked"
    """No task sigil, or a token or turn limit."""
    INTERRUPTED = "interrupted"
    """Cut off from outside: Ctrl+C, or the worker vanished. Says nothing about the task."""
    ERROR = "error"
    """Timeout or crash."""


FAILURES = (Outcome.FAILED, Outcome.RETRIED, Outcome.BLOCKED, Outcome.ERROR)


class ErrorType(StrEnum):
    """What kind of trouble an unsuccessful attempt met."""

    TIMEOUT = "timeout"
    TOOL_ERROR = "tool_error"
    ASSERTION_FAILURE = "assertion_failure"
    UNKNOWN = "unknown"


class Difficulty(StrEnum):
    """The agent's own estimate."""

    TRIVIAL = "trivial"
    EASY = "easy"
    MODERATE = "moderate"
    HARD = "hard"
    BLOCKED = "blocked"


class Source(StrEnum):
    """The way a memory came in."""

    AUTOMATIC = "automatic"
    EXPLICIT = "explicit"
    IMPORTED = "imported"


class State(StrEnum):
    """Where a memory is in its life; only an active one is ever shown."""

    STAGED = "staged"
    ACTIVE = "active"
    REJECTED = "rejected"
    SUPERSEDED = "superseded"
    PRUNED = "pruned"
    QUARANTINED = "quarantined"


SIGNAL_KINDS = (
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
"""The types a `MEMORY:type:content` line may have."""

KINDS = (*SIGNAL_KINDS, "strategy", "antipattern", "estimate", "knowledge")
"""The kinds of memory we know. Learning categories of an agent's own making are kept as given."""

LEARNING_CATEGORIES = (
    "success_pattern",
    "pitfall",
    "tool_usage",
    "code_structure",
    "testing_strategy",
    "debugging_technique",
    "other",
)


# --- what people plan ----------------------------------------------------------


@record
class Feature:
    """A larger goal: its spec and plan go into the prompts of its tasks."""

    id: str
    name: str
    spec: str = ""
    plan: str = ""
    created_at: str
    updated_at: str


@record
class Task:
    """One piece of work for one agent session."""

    id: str
    title: str
    body: str = ""
    status: Status = Status.PENDING
    priority: int = 0
    """Higher goes first."""
    parent_id: str | None = None
    feature_id: str | None = None
    needs: tuple[str, ...] = ()
    reason: str = ""
    """Why it is blocked or failed."""
    claimed_by: str | None = None
    claim_token: int = 0
    """Grows with every claim; settling with an old one is refused."""
    lease_until: str | None = None
    reset_after: int = 0
    """The number of attempts when a person last reset it; only later failures use up retries."""
    created_at: str
    updated_at: str


@record
class LogEntry:
    """A line in a task's log."""

    message: str
    who: str
    at: str


# --- what happened -------------------------------------------------------------


@record
class Run:
    """One invocation of the loop."""

    id: str
    agent: str
    started_at: str
    ended_at: str | None = None
    ending: str = ""
    """Why it stopped; empty while it runs or if it vanished."""
    iterations: int = 0
    options: str = ""
    """What it was asked to do, as JSON."""
    seconds: float = 0.0
    """How long it worked before it last stopped."""


@record
class Attempt:
    """One pass through the loop: journal entry, outcome and metric in one."""

    run_id: str
    iteration: int
    task_id: str | None
    number: int | None
    """Which attempt at this task, from 1."""
    feature_id: str | None = None
    hat: str = "creator"
    agent: str = ""
    model: str | None = None
    model_reason: str = ""
    outcome: Outcome | None = None
    """None while it runs."""
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
    """Ids of the memories that were in the prompt."""
    with_memory: bool = True
    holdout: float = 0.0
    """The probability with which memory was left out of it; 0 when that was nobody's experiment."""
    task_kind: str = ""
    """What type of work the task is."""
    next_model: str = ""
    """The model it asked for to go on with."""
    handed_to: str = ""
    """The hat that goes on with the task; with one, a `done` is of this hat's part alone."""
    change_mark: str = ""
    """The same for attempts that left the same text in the same files."""
    checks_passed: int = 0
    """How many gates it passed."""
    checks_failed: int = 0
    """How many single checks the gate it failed said were wrong, as far as that is known."""
    excused: bool = False
    """It failed, and that says nothing about its task, its model or what it was told: the model's service failed."""
    turns: int | None = None
    """How often the agent asked its model, where it says so."""
    agent_session: str = ""
    """The agent's own name for its session."""
    worker: str | None = None
    started_at: str
    ended_at: str | None = None


@record
class FailureReport:
    """What an unsuccessful attempt tried and why it did not work."""

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
    """`agent` when it reported itself, `ralph` when the report was made from the result."""
    created_at: str


@record
class Used:
    """What attempts have taken."""

    iterations: int = 0
    done: int = 0
    seconds: float = 0.0
    cost_usd: float = 0.0
    tokens: int = 0


@record
class TaskMetrics:
    """What the attempts at one task add up to."""

    task_id: str
    total_attempts: int = 0
    consecutive_failures: int = 0
    failures_since_reset: int = 0
    last_attempt_at: str | None = None
    last_success_at: str | None = None
    difficulty: Difficulty | None = None
    suggested_model: str | None = None

    def is_stuck(self, threshold: int) -> bool:
        """Say whether so many failures in a row mean another approach is due."""
        return self.consecutive_failures >= threshold


@record
class RunEvent:
    """Something that happened in a run or to a task, for those who follow it."""

    seq: int
    what: str
    """run_started, attempt_started, attempt_ended, run_ended or task_changed."""
    run_id: str
    """Empty when a task changed."""
    iteration: int | None
    task_id: str | None
    """None where it is about no task, or about very many of them at once."""
    at: str


# --- what is remembered --------------------------------------------------------


@record
class Memory:
    """Something learned once that should help later tasks."""

    id: str
    kind: str
    title: str
    body: str
    content: str = ""
    """Structured content as JSON text, for strategy, antipattern, estimate and convention."""
    tags: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    feature: str | None = None
    task_type: str | None = None
    hat: str | None = None
    source: Source = Source.EXPLICIT
    trust: str = "project"
    state: State = State.ACTIVE
    state_reason: str = ""
    """Why it is rejected, pruned, superseded or quarantined."""
    confidence: float = 0.5
    """0 to 1. Starts by source."""
    wins: int = 0
    losses: int = 0
    uses: int = 0
    success_rate: float | None = None
    """How often it went well where it was followed, as far as that is known."""
    support: int = 1
    """How often it was learned, each time by another attempt or another loop."""
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
    """When it was last seen to hold: learned again, or confirmed by an attempt."""
    seen: str = ""
    """Marks of the files it names as they were then, by path, as JSON."""
    stale: str = ""
    """What has become of those files since, if that makes it doubtful."""
    validated_at: str | None = None
    """When a staged one passed the rules."""


@record
class MemoryEvent:
    """One change in a memory's life."""

    seq: int
    memory_id: str
    what: str
    was: str | None
    """The fields that changed as they were, as JSON; None when it was added."""
    became: str | None
    who: str
    why: str
    at: str
    change_id: str = ""
    """The same for changes made together."""
    undoes: int | None = None
    """The event that this one took back."""


# --- what flows down the loop ----------------------------------------------------


@record
class Recalled:
    """A memory found for a task, with its score and what the score is made of."""

    memory: Memory
    score: float
    because: tuple[tuple[str, float], ...] = ()
    place: int | None = None
    """Among all that were ranked, from 1, when some were chosen of them."""


@record
class LeftOut:
    """Something that could have been shown, and why it was not."""

    what: str
    why: str
    id: str = ""
    place: int | None = None
    """Of a memory that was ranked: its place, from 1, its score, and what that is made of."""
    score: float | None = None
    because: tuple[tuple[str, float], ...] = ()


@record
class Recollection:
    """All that is known for one attempt, before it is made into a prompt."""

    task: Task
    run_id: str = ""
    attempt_number: int = 1
    with_memory: bool = True
    metrics: TaskMetrics
    prerequisites: tuple[tuple[Task, str], ...] = ()
    """Done tasks this one needed, each with the notes of the attempt that did it."""
    parent: Task | None = None
    feature: Feature | None = None
    memories: tuple[Recalled, ...] = ()
    journal: tuple[Attempt, ...] = ()
    """Recent ones of this run in order, then matches from other runs."""
    reports: tuple[FailureReport, ...] = ()
    """Of this task, freshest first."""
    elsewhere: tuple[FailureReport, ...] = ()
    """Of other tasks, those most like this one first."""
    interruptions: tuple[Attempt, ...] = ()
    """Attempts at this task that were cut off with a word from a person, freshest first."""
    handed: tuple[Attempt, ...] = ()
    """Attempts of earlier hats at this task, freshest first."""
    recent_outcomes: tuple[Outcome, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


@record
class Section:
    """One part of a prompt, with the receipt of what it shows."""

    name: str
    text: str
    tokens: int
    cap_tokens: int | None = None
    shown: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


@record
class Prompt:
    """The text an agent gets, and what went into it."""

    text: str
    tokens: int
    sections: tuple[Section, ...]
    shown: tuple[str, ...] = ()
    """Ids of the memories in it."""


class Ending(StrEnum):
    """How an agent session ended, whatever it said."""

    FINISHED = "finished"
    CRASHED = "crashed"
    TIMED_OUT = "timed out"
    WENT_SILENT = "went silent"
    FLOODED = "flooded"
    REFUSED = "refused"
    OUT_OF_TURNS = "out of turns or tokens"
    MODEL_FAILED = "could not use its model"
    """The service that runs the model refused or failed: no key, no credit, overloaded, out of reach."""
    STOPPED = "stopped"
    """By us: an interrupt or a lost claim."""


@record
class AgentSession:
    """A session of an agent that somebody runs without the loop: what it was told, and what it left."""

    id: str
    """The agent's own name for it."""
    agent: str
    title: str = ""
    """The beginning of the first thing it was asked."""
    summary: str = ""
    """What it said last, or what a compaction left of it."""
    shown: tuple[str, ...] = ()
    """Ids of the memories that are in its context."""
    learned: tuple[str, ...] = ()
    """Ids of the memories it left."""
    said: tuple[str, ...] = ()
    """Marks of what it asked to have remembered, which it may say again."""
    prompts: int = 0
    compactions: int = 0
    started_at: str
    last_at: str
    ended_at: str | None = None
    ending: str = ""
    """Why it ended, in the agent's word."""


@record
class Reply:
    """What came back from an agent session."""

    text: str
    ending: Ending = Ending.FINISHED
    detail: str = ""
    """One sentence for an ending that is not `finished`."""
    exit_code: int | None = None
    seconds: float = 0.0
    cost_usd: float = 0.0
    tokens_in: int | None = None
    tokens_out: int | None = None
    files: tuple[str, ...] | None = None
    """Files it changed; None when it does not know and git has to be asked."""
    turns: int | None = None
    """How often the model was asked."""
    session: str = ""
    """The agent's own name for the session, by which it can be looked up or gone on with there."""


@record
class Knowledge:
    """A `<knowledge>` sigil."""

    title: str
    tags: tuple[str, ...]
    body: str


@record
class Learning:
    """A `<learning>` sigil."""

    category: str
    content: str
    tags: tuple[str, ...] = ()


@record
class Signal:
    """A `MEMORY:type:content` line."""

    kind: str
    title: str
    content: str


@record
class Report:
    """A `<failure-report>` sigil."""

    tried: str
    why: str
    category: str = "unknown"
    files: tuple[str, ...] = ()
    trace: str = ""


@record
class HandOver:
    """A `<hand-over>` sigil: which hat goes on, and what it has to know."""

    to: str
    """Empty when the agent leaves that to the configured order."""
    text: str = ""


@record
class SubTask:
    """A `<subtask>` sigil: a part of a task that is too large."""

    title: str
    body: str = ""
    needs: tuple[str, ...] = ()
    """Titles of parts that come first."""


@record
class Sigils:
    """All that an agent's answer said in sigils."""

    done_ids: tuple[str, ...] = ()
    failed_ids: tuple[str, ...] = ()
    report: Report | None = None
    learnings: tuple[Learning, ...] = ()
    knowledge: tuple[Knowledge, ...] = ()
    signals: tuple[Signal, ...] = ()
    journal: str = ""
    difficulty: Difficulty | None = None
    retry_suggestion: str = ""
    next_model: str | None = None
    hand_over: HandOver | None = None
    subtasks: tuple[SubTask, ...] = ()
    verify_passed: bool | None = None
    verify_reason: str = ""
    problems: tuple[str, ...] = ()
    """What was skipped and why; for the log."""


@record
class GateResult:
    """One quality gate's verdict."""

    command: str
    passed: bool
    output: str
    """Its last words, bounded."""
    seconds: float
    detail: str = ""
    """How it ended, when it did not pass."""
    timed_out: bool = False


@record
class Review:
    """What a verification session said of an attempt."""

    passed: bool
    is_judged: bool = True
    """False when it came to no judgement: then the work may be right all the same."""
    reason: str = ""
    """Why not, in its own words or ours."""
    reply: Reply
    """The session, for what it took."""


@record
class Verdict:
    """What the quality gates and the verification session said of an attempt."""

    gates: tuple[GateResult, ...] = ()
    review: Review | None = None

    @property
    def passed(self) -> bool:
        """Say whether nothing speaks against the work."""
        return all(gate.passed for gate in self.gates) and (self.review is None or self.review.passed)


@record
class Capture:
    """What an attempt came to: ready to be settled in one transaction."""

    attempt: Attempt
    report: FailureReport | None
    memories: tuple[Memory, ...]
    task_status: Status
    """Where the task stands from now on."""
    task_reason: str = ""
    subtasks: tuple[SubTask, ...] = ()
    """Parts the task is split into."""
    used: tuple[str, ...] = ()
    """How much of its own limits the task has used up, for people."""
    is_telling: bool = True
    """Whether the outcome says anything about what the prompt told."""
    log: tuple[str, ...] = ()
    """Lines for the task's log."""
    ignored: tuple[str, ...] = ()
    """Sigils that were not understood or not believed, and why."""
