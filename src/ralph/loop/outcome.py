"""Outcome of an attempt, and what becomes of its task. Pure.

A claimed done is never trusted: the sigil must name this task, the session must have
finished normally, all gates and the review must have passed, and the work must have
been merged.
"""

from __future__ import annotations

import re

from ralph.core.excerpt import looks_like_error
from ralph.core.records import (
    ASKS,
    FAILED_OUTCOMES,
    NEEDS_PERSON,
    OUT_OF_RETRIES,
    UNREVIEWED,
    AttemptOutcome,
    ErrorType,
    FailureReport,
    ResourceUsage,
    SessionEnding,
    TaskMetrics,
    TaskStatus,
    record,
)
from ralph.core.text import gate_failure_prefix, one_line, sanitize
from ralph.loop.hats import MoveKind
from ralph.loop.limits import add_attempt_usage, exhausted_task_limit
from ralph.loop.options import RunOptions
from ralph.memory.lifecycle.error_category import is_error_summary, without_error_mark
from ralph.memory.lifecycle.failure_cause import NO_REASON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.records import (
        AgentReply,
        Attempt,
        GateResult,
        IntegrityResult,
        Sigils,
        SubtaskSigil,
        VerificationResult,
    )
    from ralph.loop.hats import HatMove

MAX_FAILURE_COUNTS = 4
"""Number of failure counts read from the end of an output, where the summary is."""
NO_SIGIL = "the agent ended without the task-done tag of its task"

# Outcome, error type and report category of sessions that did not finish.
_ENDINGS = {
    SessionEnding.CRASHED: (AttemptOutcome.ERROR, ErrorType.TOOL_ERROR, "crash"),
    SessionEnding.TIMED_OUT: (AttemptOutcome.ERROR, ErrorType.TIMEOUT, "timeout"),
    SessionEnding.WENT_SILENT: (AttemptOutcome.ERROR, ErrorType.TIMEOUT, "timeout"),
    SessionEnding.FLOODED: (AttemptOutcome.ERROR, ErrorType.TOOL_ERROR, "output_flood"),
    SessionEnding.OUT_OF_MEMORY: (AttemptOutcome.ERROR, ErrorType.TOOL_ERROR, "memory_limit"),
    SessionEnding.TOO_MANY_PROCESSES: (AttemptOutcome.ERROR, ErrorType.TOOL_ERROR, "process_limit"),
    SessionEnding.REFUSED: (AttemptOutcome.FAILED, ErrorType.UNKNOWN, "refusal"),
    SessionEnding.OUT_OF_TURNS: (AttemptOutcome.BLOCKED, ErrorType.UNKNOWN, "out_of_turns"),
    SessionEnding.MODEL_FAILED: (AttemptOutcome.ERROR, ErrorType.TOOL_ERROR, "model_failed"),
    SessionEnding.STOPPED: (AttemptOutcome.INTERRUPTED, None, ""),
}

# Category and error type by error text; the first match counts.
_ERROR_PATTERNS = (
    (
        r"assertionerror|assert(?:ion)? failed|\bfailures?=\d|\b\d+ failed\b|(?-i:\bFAIL(?:ED)?\b)|tests? fail",
        "test_failure",
        ErrorType.ASSERTION_FAILURE,
    ),
    (
        r"syntaxerror|indentationerror|compil\w+ (?:error|failed)|cannot find symbol|build failed",
        "build_error",
        ErrorType.TOOL_ERROR,
    ),
    (r"timed out|timeouterror|timeoutexpired|deadline exceeded", "timeout", ErrorType.TIMEOUT),
    (r"no such file|filenotfound|modulenotfound|cannot find module|not found", "missing_file", ErrorType.TOOL_ERROR),
    (r"permission denied|traceback|exited with|exit (?:code|status) [1-9]|error:", "tool_error", ErrorType.TOOL_ERROR),
)


@record
class MergeProblem:
    """Reason why finished work could not be merged."""

    reason: str
    files: tuple[str, ...] = ()
    waits_for_person: bool = False
    """Whether another attempt would not help."""
    category: str = ""
    """Category of the failure report, if the work was not even tried to be merged."""


@record
class OutcomeContext:
    """History and limits by which the result of an attempt is judged."""

    metrics: TaskMetrics
    """Metrics before this attempt."""
    max_retries: int
    run_options: RunOptions = RunOptions()
    used: ResourceUsage = ResourceUsage()
    """Usage of the task before this attempt."""
    last_report: FailureReport | None = None
    """Latest failure report of the task that is not a finding of another hat."""
    handed_over: tuple[Attempt, ...] = ()
    """Attempts at the task since that failure that handed their part over, oldest first."""
    may_split: bool = False
    """Whether the agent may split the task."""
    repeated: frozenset[SessionEnding] = frozenset()
    """How sessions of the task that got nowhere have ended before; the first of each kind does not count."""


@record
class AttemptJudgment:
    """Outcome of an attempt, with the reason."""

    outcome: AttemptOutcome
    reason: str = ""
    error_type: ErrorType | None = None
    category: str = "unknown"
    """Category of the failure report, if the agent gave none."""
    handed_to: str = ""
    """Next hat, if the task is handed over."""
    subtasks: tuple[SubtaskSigil, ...] = ()
    """Subtasks it is split into."""
    details: str = ""
    """Full text of the reason, for the report."""
    failed_check: str = ""
    """Check that rejected finished work: "gate", "integrity" or "review"."""
    needs_person: bool = False
    """Whether only a person can accept the work."""
    question: str = ""
    """What the agent asks a person."""


@record
class NextStatus:
    """Status of a task after an attempt, with the reason."""

    status: TaskStatus
    reason: str = ""
    spent_limit: str = ""
    """Limit of the task that is used up, such as "its 3 iterations"."""
    is_out_of_retries: bool = False


def claims_done(task_id: str, reply: AgentReply, sigils: Sigils) -> bool:
    """Return whether the session finished normally and claims that this task is done."""
    return reply.ending is SessionEnding.FINISHED and task_id in sigils.done_ids


def judge_attempt(
    task_id: str,
    reply: AgentReply,
    sigils: Sigils,
    verdict: VerificationResult,
    move: HatMove | None = None,
    merge_problem: MergeProblem | None = None,
    *,
    may_split: bool = False,
    plans: bool = False,
) -> AttemptJudgment:
    """Return how the attempt ended; `move` is its hand-over, `merge_problem` what prevented the merge.

    `plans` tells that splitting tasks is this hat's job, so that a split counts as done.
    """
    if reply.ending is not SessionEnding.FINISHED:
        outcome, error_type, category = _ENDINGS[reply.ending]
        reason = reply.detail or reply.ending.value
        if reply.ending is SessionEnding.MODEL_FAILED and classify_error(reason)[1] is ErrorType.TIMEOUT:
            error_type = ErrorType.TIMEOUT
        return AttemptJudgment(outcome=outcome, reason=reason, error_type=error_type, category=category)
    if task_id in sigils.done_ids and not verdict.passed:
        return _failed_verification(verdict)
    if merge_problem and merge_problem.category:
        return _not_merged(merge_problem)
    splits = bool(sigils.subtasks) and may_split
    if sigils.question and task_id not in sigils.done_ids and not splits:
        return _asks(sigils.question)
    is_done = task_id in sigils.done_ids and (move is None or move.kind is MoveKind.DONE)
    if splits and not is_done:
        return _split(sigils.subtasks, move if plans else None)
    if move and move.kind is MoveKind.BACK:
        return _handed_back(move)
    says_failed = task_id in sigils.failed_ids and task_id not in sigils.done_ids
    if move and move.kind is MoveKind.ONWARD and not says_failed:
        return AttemptJudgment(outcome=AttemptOutcome.DONE, handed_to=move.to)
    if is_done:
        return _not_merged(merge_problem) if merge_problem else AttemptJudgment(outcome=AttemptOutcome.DONE)
    if task_id in sigils.failed_ids:
        why = sigils.report.why if sigils.report else NO_REASON
        category, error_type = classify_error(why)
        return AttemptJudgment(
            outcome=AttemptOutcome.FAILED, reason=one_line(why), error_type=error_type, category=category
        )
    if others := [*sigils.done_ids, *sigils.failed_ids]:
        reason, category = f"named another task: {one_line(', '.join(others), 80)}", "wrong_task"
    else:
        reason, category = NO_SIGIL, "no_sigil"
    return AttemptJudgment(
        outcome=AttemptOutcome.BLOCKED, reason=reason, error_type=ErrorType.UNKNOWN, category=category
    )


def _asks(question: str) -> AttemptJudgment:
    """Return the judgment of an answer that asks a person: the task waits for them, and nothing has failed."""
    return AttemptJudgment(
        outcome=AttemptOutcome.BLOCKED,
        reason=f"{ASKS}: {one_line(question)}",
        category="question",
        question=question,
    )


def _split(parts: tuple[SubtaskSigil, ...], planned: HatMove | None) -> AttemptJudgment:
    """Return the judgment of a split: done for a planner, which hands over the subtasks, else failed."""
    reason = f"split into {len(parts)} subtasks"
    if planned:
        return AttemptJudgment(outcome=AttemptOutcome.DONE, reason=reason, handed_to=planned.to, subtasks=parts)
    return AttemptJudgment(
        outcome=AttemptOutcome.FAILED,
        reason=reason,
        error_type=ErrorType.UNKNOWN,
        category="too_large",
        subtasks=parts,
    )


def _handed_back(move: HatMove) -> AttemptJudgment:
    return AttemptJudgment(
        outcome=AttemptOutcome.RETRIED,
        reason=f"handed back to the {move.to}: {one_line(move.text, 120)}",
        error_type=ErrorType.UNKNOWN,
        category="findings",
        handed_to=move.to,
        details=move.text,
    )


def _not_merged(merge_problem: MergeProblem) -> AttemptJudgment:
    return AttemptJudgment(
        outcome=AttemptOutcome.RETRIED,
        reason=one_line(merge_problem.reason.partition("\n")[0], 200),
        error_type=ErrorType.TOOL_ERROR,
        category=merge_problem.category or "not_merged" if merge_problem.waits_for_person else "merge_conflict",
        details=merge_problem.reason,
    )


def _failed_verification(verdict: VerificationResult) -> AttemptJudgment:
    failed = next((gate for gate in verdict.gates if not gate.passed), None)
    if failed is None and verdict.integrity and not verdict.integrity.passed:
        return _held(verdict.integrity)
    if failed is None and verdict.review and verdict.review.is_silent:
        return AttemptJudgment(
            outcome=AttemptOutcome.RETRIED,
            reason=f"{UNREVIEWED}: {one_line(verdict.review.reason, 160)}",
            error_type=ErrorType.UNKNOWN,
            category="not_verified",
            details=verdict.review.reason,
            failed_check="review",
            needs_person=True,
        )
    if failed is None:
        reason = verdict.review.reason if verdict.review else ""
        return AttemptJudgment(
            outcome=AttemptOutcome.RETRIED,
            reason=f"the verification failed: {one_line(reason, 160)}",
            error_type=ErrorType.ASSERTION_FAILURE,
            category="verification" if verdict.review and verdict.review.has_verdict else "not_verified",
            details=reason,
            failed_check="review",
        )
    # A limit counts more than the output before it.
    if failed.limit:
        _, error_type, category = _ENDINGS[failed.limit]
    else:
        category, error_type = classify_error(failed.output)
    return AttemptJudgment(
        outcome=AttemptOutcome.RETRIED,
        reason="; ".join([gate_failure_prefix(failed.command) + most_informative_line(failed), *verdict.left_out[:1]]),
        error_type=error_type,
        category=category if category != "unknown" else "gate_failure",
        failed_check="gate",
    )


def _held(integrity: IntegrityResult) -> AttemptJudgment:
    return AttemptJudgment(
        outcome=AttemptOutcome.RETRIED,
        reason=one_line(integrity.reason, 300),
        error_type=ErrorType.UNKNOWN,
        category="protected_files",
        details=f"{integrity.reason}\n{integrity.diff}",
        failed_check="integrity",
        needs_person=True,
    )


def most_informative_line(gate: GateResult) -> str:
    """Return the most informative line of a failed gate's output, or how it ended."""
    lines = [line.strip() for line in gate.output.splitlines() if line.strip()]
    named = [line for line in lines if re.search(r"\w*(?:Error|Exception)\b:|\berror\b.{0,12}:|panicked at", line)]
    telling = [line for line in named if not is_error_summary(line)]
    others = [line for line in lines if looks_like_error(line)]
    line = gate.detail if gate.limit else (*telling, *named, *others, *lines[-1:], gate.detail)[0]
    if line.endswith(":") and "panicked at" in line:  # Rust says why in the next line
        line = " ".join([line, *lines[lines.index(line) + 1 :][:1]])
    return one_line(sanitize(without_error_mark(line)), 160)


def classify_error(text: str) -> tuple[str, ErrorType]:
    """Return the category and the error type of an error text."""
    for pattern, category, error_type in _ERROR_PATTERNS:
        if re.search(pattern, text, re.IGNORECASE | re.MULTILINE):
            return category, error_type
    return "unknown", ErrorType.UNKNOWN


def count_failing_checks(output: str) -> int:
    """Return the number of failed checks stated in a gate's output, or 0 if there is none."""
    counted = re.findall(r"\b(\d{1,6}) (?:failed|failing|failures?)\b|\bfailures=(\d{1,6})|\berrors=(\d{1,6})", output)
    return sum(int(number) for found in counted[-MAX_FAILURE_COUNTS:] for number in found if number)


def next_status(
    judgment: AttemptJudgment, attempt: Attempt, context: OutcomeContext, merge_problem: MergeProblem | None
) -> NextStatus:
    """Return what becomes of the task after an attempt."""
    failures = context.metrics.failures_since_reset + 1
    if judgment.outcome is AttemptOutcome.DONE and not judgment.handed_to:
        return NextStatus(status=TaskStatus.DONE)
    if judgment.question:
        return NextStatus(status=TaskStatus.BLOCKED, reason=judgment.reason)
    if judgment.needs_person:
        return NextStatus(status=TaskStatus.BLOCKED, reason=f"{NEEDS_PERSON}: {judgment.reason}")
    if judgment.subtasks or judgment.outcome is AttemptOutcome.INTERRUPTED or attempt.excused:
        return NextStatus(status=TaskStatus.PENDING)
    if merge_problem and merge_problem.waits_for_person:
        return NextStatus(status=TaskStatus.BLOCKED, reason=f"waits for a person: {judgment.reason}")
    if spent := exhausted_task_limit(context.run_options, add_attempt_usage(context.used, attempt)):
        reason = f"has used up {spent}, waits for a person; last: {judgment.reason or attempt.outcome}"
        return NextStatus(status=TaskStatus.BLOCKED, reason=reason, spent_limit=spent)
    if judgment.outcome in FAILED_OUTCOMES and failures > context.max_retries:
        reason = f"failed {failures}{OUT_OF_RETRIES}{judgment.reason}"
        return NextStatus(status=TaskStatus.BLOCKED, reason=reason, is_out_of_retries=True)
    return NextStatus(status=TaskStatus.PENDING)
