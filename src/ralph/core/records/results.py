"""Records of how an attempt ended: gates, review, and what to store."""

from __future__ import annotations

from ralph.core.records.base import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.records.attempts import Attempt, FailureReport
    from ralph.core.records.episodes import Episode
    from ralph.core.records.memories import Memory
    from ralph.core.records.sessions import AgentReply, SessionEnding
    from ralph.core.records.sigils import SubtaskSigil
    from ralph.core.records.tasks import HeldChange, Question, TaskStatus


@record
class GateResult:
    """Result of one quality gate."""

    command: str
    passed: bool
    output: str
    """First and last lines of the output, and those that look like errors, up to a limit."""
    seconds: float
    detail: str = ""
    """Why the gate did not pass."""
    limit: SessionEnding | None = None
    """Limit that ended it."""


@record
class Review:
    """Result of a verification session."""

    passed: bool
    has_verdict: bool = True
    """False if the session reached no verdict, in which case the work may still be correct."""
    is_silent: bool = False
    """Whether the session crashed or said neither yes nor no, which says nothing about the work."""
    reason: str = ""
    """Why the review did not pass."""
    reply: AgentReply
    """Agent session of the review, for its cost and usage."""


@record
class IntegrityResult:
    """Result of comparing what gates depend on with the base of the task."""

    passed: bool = True
    reason: str = ""
    """Why a person has to decide."""
    files: tuple[str, ...] = ()
    """Files that a person has to look at."""
    marks: tuple[str, ...] = ()
    """Path and content hash of each of them."""
    digest: str = ""
    diff: str = ""
    notes: tuple[str, ...] = ()
    """What was found and accepted."""
    approved: tuple[str, ...] = ()
    """Changed files that a person approved."""


@record
class VerificationResult:
    """Combined result of the quality gates and the verification session."""

    gates: tuple[GateResult, ...] = ()
    review: Review | None = None
    integrity: IntegrityResult | None = None
    left_out: tuple[str, ...] = ()
    """One sentence for each file of the agent that was not judged, because git leaves it out of commits."""

    @property
    def passed(self) -> bool:
        """True if all gates passed, what they depend on is intact, and the review, if any, passed."""
        others = (self.integrity, self.review)
        return all(gate.passed for gate in self.gates) and all(one is None or one.passed for one in others)


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
    question: Question | None = None
    """What the agent asks a person."""
    held: HeldChange | None = None
    """Change to protected files that waits for a person."""
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
    episodes: tuple[Episode, ...] = ()
    """Transcript of the attempt."""
    ignored_sigils: tuple[str, ...] = ()
    """Sigils that were malformed or not accepted, and why."""
