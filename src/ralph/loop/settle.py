"""Outcome, failure report and memories of an attempt. Pure.

A claimed done is never trusted: the sigil must name this task, the session must have
finished normally, all gates and the review must have passed, and the work must have
been merged.
"""

from __future__ import annotations

import re

from ralph.core.records import (
    FAILED_OUTCOMES,
    AttemptOutcome,
    AttemptResult,
    ErrorType,
    FailureReport,
    Memory,
    ResourceUsage,
    SessionEnding,
    TaskMetrics,
    TaskStatus,
    record,
    replace,
)
from ralph.core.text import MAX_STACK_TRACE_CHARACTERS, one_line, sanitize, truncate
from ralph.formats.sigils import strip_sigils
from ralph.loop.hats import MoveKind, handover_text
from ralph.loop.limits import add_attempt_usage, exhausted_task_limit, task_usage_lines
from ralph.loop.options import RunOptions
from ralph.memory.capture.statements import NO_REASON, stated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.records import AgentReply, Attempt, GateResult, Sigils, SubtaskSigil, Task, VerificationResult
    from ralph.loop.hats import HatMove

MAX_SIGIL_PROBLEMS = 10
"""Maximum number of sigil problems recorded per attempt."""
MAX_SESSION_ID_LENGTH = 200
"""Maximum length of an agent's session id, in characters."""
FULL_TEXT_CATEGORIES = ("findings", "verification", "not_verified", "merge_conflict", "not_merged")
"""Categories whose reason is only the beginning of the full text."""
MAX_FAILURE_COUNTS = 4
"""Number of failure counts read from the end of an output, where the summary is."""
NO_SIGIL = "no sigil"
MISSING_SIGIL_REASON = (
    "The session ended without a task-done or task-failed sigil. Its work may be complete:"
    " check what is there, finish it, and end with the sigil."
)

INCONCLUSIVE_ENDINGS = (SessionEnding.CRASHED, SessionEnding.FLOODED, SessionEnding.REFUSED, SessionEnding.MODEL_FAILED)
"""Endings that say nothing about the memories that were shown."""

# Outcome, error type and report category of sessions that did not finish.
_ENDINGS = {
    SessionEnding.CRASHED: (AttemptOutcome.ERROR, ErrorType.TOOL_ERROR, "crash"),
    SessionEnding.TIMED_OUT: (AttemptOutcome.ERROR, ErrorType.TIMEOUT, "timeout"),
    SessionEnding.WENT_SILENT: (AttemptOutcome.ERROR, ErrorType.TIMEOUT, "timeout"),
    SessionEnding.FLOODED: (AttemptOutcome.ERROR, ErrorType.TOOL_ERROR, "output_flood"),
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
    """Latest failure report of the task."""
    may_split: bool = False
    """Whether the agent may split the task."""


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
    """Return how the attempt ended; `move` is its hand-over, `obstacle` what prevented the merge.

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
    is_done = task_id in sigils.done_ids and (move is None or move.kind is MoveKind.DONE)
    if sigils.subtasks and may_split and not is_done:
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


def _split(parts: tuple[SubtaskSigil, ...], planned: HatMove | None) -> AttemptJudgment:
    """Return the judgement of a split: done for a planner, which hands over the subtasks, else failed."""
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


def _not_merged(obstacle: MergeProblem) -> AttemptJudgment:
    return AttemptJudgment(
        outcome=AttemptOutcome.RETRIED,
        reason=one_line(obstacle.reason.partition("\n")[0], 200),
        error_type=ErrorType.TOOL_ERROR,
        category="not_merged" if obstacle.waits_for_person else "merge_conflict",
        details=obstacle.reason,
    )


def _failed_verification(verdict: VerificationResult) -> AttemptJudgment:
    failed = next((gate for gate in verdict.gates if not gate.passed), None)
    if failed is None:
        reason = verdict.review.reason if verdict.review else ""
        return AttemptJudgment(
            outcome=AttemptOutcome.RETRIED,
            reason=f"the verification failed: {one_line(reason, 160)}",
            error_type=ErrorType.ASSERTION_FAILURE,
            category="verification" if verdict.review and verdict.review.has_verdict else "not_verified",
            details=reason,
        )
    # A timeout counts more than the output before it.
    category, error_type = ("timeout", ErrorType.TIMEOUT) if failed.timed_out else classify_error(failed.output)
    return AttemptJudgment(
        outcome=AttemptOutcome.RETRIED,
        reason=f"{_gate_failed(failed.command)}{most_informative_line(failed)}",
        error_type=error_type,
        category=category if category != "unknown" else "gate_failure",
    )


def most_informative_line(gate: GateResult) -> str:
    """Return the most informative line of a failed gate's output, or how it ended."""
    lines = [line.strip() for line in gate.output.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\w*(?:Error|Exception)\b:|\berror:|panicked at", line)]
    line = errors[0] if errors else lines[-1] if lines and not gate.timed_out else gate.detail
    return one_line(sanitize(line), 160)


def classify_error(text: str) -> tuple[str, ErrorType]:
    """Return the category and the error type of an error text."""
    for pattern, category, error_type in _ERROR_PATTERNS:
        if re.search(pattern, text, re.IGNORECASE | re.MULTILINE):
            return category, error_type
    return "unknown", ErrorType.UNKNOWN


def capture_attempt(
    task: Task,
    attempt: Attempt,
    reply: AgentReply,
    sigils: Sigils,
    verdict: VerificationResult,
    outcome_context: OutcomeContext,
    *,
    at: str,
    move: HatMove | None = None,
    merge_problem: MergeProblem | None = None,
    feedback: str = "",
    shown_memories: str = "",
) -> AttemptResult:
    """Return the result of an attempt, ready to be settled.

    `feedback` comes from the person who interrupted it; `injected` is the memory text of the prompt.
    """
    plans = attempt.hat == "planner"
    judgement = judge_attempt(
        task.id, reply, sigils, verdict, move, merge_problem, may_split=outcome_context.may_split, plans=plans
    )
    judgement = replace(judgement, reason=sanitize(judgement.reason))
    review = verdict.review.reply if verdict.review else None
    ended = replace(
        attempt,
        model=sanitize(attempt.model) if attempt.model else attempt.model,
        outcome=judgement.outcome,
        reason=judgement.reason,
        error_type=judgement.error_type,
        seconds=reply.seconds + (review.seconds if review else 0.0),
        cost_usd=reply.cost_usd + (review.cost_usd if review else 0.0),
        tokens_in=_sum(reply.tokens_in, review.tokens_in if review else None),
        tokens_out=_sum(reply.tokens_out, review.tokens_out if review else None),
        excused=reply.ending is SessionEnding.MODEL_FAILED,
        turns=_sum(reply.turns, review.turns if review else None),
        agent_session=sanitize(one_line(reply.session, MAX_SESSION_ID_LENGTH)),
        files=tuple(sanitize(path) for path in reply.files or ()),
        notes="\n".join(dict.fromkeys(filter(None, [feedback, sigils.journal, _handover_message(judgement, move)]))),
        difficulty=sigils.difficulty,
        next_model=sigils.next_model or "",
        handed_to=judgement.handed_to,
        checks_passed=sum(gate.passed for gate in verdict.gates),
        checks_failed=max((count_failing_checks(gate.output) for gate in verdict.gates if not gate.passed), default=0),
        ended_at=at,
    )
    status, reason = _next_status(judgement, ended, outcome_context, merge_problem)
    failed = judgement.outcome in FAILED_OUTCOMES
    learned, repeated = _split_repeated(attempt_memories(sigils, ended, at), shown_memories)
    inferred, _ = _split_repeated(
        _inferred(ended, reply, sigils, verdict, outcome_context.last_report, at), shown_memories
    )
    problems = (*sigils.problems[:MAX_SIGIL_PROBLEMS], *repeated, *_rejected_requests(sigils, judgement, move))
    return AttemptResult(
        attempt=ended,
        report=_report(ended, judgement, reply, sigils, verdict, at) if failed else None,
        memories=(*learned, *(_from_attempt(memory, ended) for memory in inferred)),
        task_status=status,
        task_reason=reason,
        limits_used=tuple(
            task_usage_lines(outcome_context.run_options, add_attempt_usage(outcome_context.used, ended))
        ),
        subtasks=judgement.subtasks,
        affects_credit=reply.ending not in INCONCLUSIVE_ENDINGS
        and judgement.category not in ("not_merged", "not_verified"),
        log=(_log_line(ended, status), *(f"Ignored: {problem}" for problem in problems)),
        ignored_sigils=problems,
    )


def _sum(one: int | None, other: int | None) -> int | None:
    return one if other is None else other + (one or 0)


def _handover_message(judgement: AttemptJudgment, move: HatMove | None) -> str:
    return move.text if move and judgement.handed_to else ""


def _rejected_requests(sigils: Sigils, judgement: AttemptJudgment, move: HatMove | None) -> list[str]:
    """Return one line for each request in the sigils that cannot be met."""
    problems = [move.problem] if move and move.problem else []
    if sigils.subtasks and not judgement.subtasks:
        problems.append("subtasks: only a stuck or planned task can be split, not a finished or deeply nested one")
    return problems


def count_failing_checks(output: str) -> int:
    """Return the number of failed checks stated in a gate's output, or 0 if there is none."""
    counted = re.findall(r"\b(\d{1,6}) (?:failed|failing|failures?)\b|\bfailures=(\d{1,6})|\berrors=(\d{1,6})", output)
    return sum(int(number) for found in counted[-MAX_FAILURE_COUNTS:] for number in found if number)


def _next_status(
    judgement: AttemptJudgment, attempt: Attempt, setting: OutcomeContext, obstacle: MergeProblem | None
) -> tuple[TaskStatus, str]:
    failures = setting.metrics.failures_since_reset + 1
    if judgement.outcome is AttemptOutcome.DONE and not judgement.handed_to:
        return TaskStatus.DONE, ""
    if judgement.subtasks or judgement.outcome is AttemptOutcome.INTERRUPTED or attempt.excused:
        return TaskStatus.PENDING, ""
    if obstacle and obstacle.waits_for_person:
        return TaskStatus.BLOCKED, f"waits for a person: {judgement.reason}"
    if spent := exhausted_task_limit(setting.run_options, add_attempt_usage(setting.used, attempt)):
        return (
            TaskStatus.BLOCKED,
            f"has used up {spent}, waits for a person; last: {judgement.reason or attempt.outcome}",
        )
    if judgement.outcome in FAILED_OUTCOMES and failures > setting.max_retries:
        return TaskStatus.BLOCKED, f"failed {failures} times, waits for a person; last: {judgement.reason}"
    return TaskStatus.PENDING, ""


def _log_line(attempt: Attempt, status: TaskStatus) -> str:
    reason = f" ({attempt.reason})" if attempt.reason else ""
    is_handed_over = attempt.handed_to not in ("", attempt.hat)
    hand_over = f", handed over to the {attempt.handed_to}" if is_handed_over else ""
    model = f", asks for the model {attempt.next_model}" if attempt.next_model else ""
    return f"Attempt {attempt.number} {attempt.outcome}{reason}{hand_over}{model}; the task is now {status}."


# --- failure reports ---------------------------------------------------------------


def _report(
    attempt: Attempt,
    judgement: AttemptJudgment,
    reply: AgentReply,
    sigils: Sigils,
    verdict: VerificationResult,
    at: str,
) -> FailureReport:
    """Return the agent's own report, completed by the gates; without one, a report from the known facts."""
    assert attempt.task_id is not None
    assert attempt.number is not None
    own, category = sigils.report, judgement.category
    evidence = _error_output(reply, verdict) or judgement.details
    tried = own.tried if own else sigils.journal or _answer_tail(reply.text) or "The agent said nothing."
    why = own.why if own else ""
    if category == "findings":
        tried, evidence = f"The {attempt.hat} reviewed the work so far.", ""
    # After a failed gate the agent's own view was mistaken, so the gate comes first.
    if category == "no_sigil" and not own:
        why = MISSING_SIGIL_REASON
    elif category in FULL_TEXT_CATEGORIES:
        why = judgement.details or attempt.reason
    elif not own or not verdict.passed:
        why = "\n".join(dict.fromkeys(filter(None, [attempt.reason, _tail(evidence), why])))
    trace = (own.trace if own else "") or _trace(evidence)
    return FailureReport(
        run_id=attempt.run_id,
        iteration=attempt.iteration,
        task_id=attempt.task_id,
        attempt_number=attempt.number,
        tried=truncate(sanitize(tried), 4000),
        why=truncate(sanitize(why), 4000),
        category=own.category if own and own.category != "unknown" else category,
        files=own.files if own and own.files else attempt.files,
        trace=sanitize(trace)[:MAX_STACK_TRACE_CHARACTERS],
        retry_suggestion=sigils.retry_suggestion,
        fingerprint=error_fingerprint(category, trace or why),
        made_by="agent" if own else "ralph",
        created_at=at,
    )


def _error_output(reply: AgentReply, verdict: VerificationResult) -> str:
    failed = [gate for gate in verdict.gates if not gate.passed]
    if failed:
        return "\n".join(gate.output for gate in failed)
    return reply.detail if reply.ending is not SessionEnding.FINISHED else ""


def _answer_tail(text: str) -> str:
    """Return the end of an answer without its sigils."""
    return _tail(re.sub(r"<[/\w][^<>\n]{0,200}>", "", strip_sigils(sanitize(text[-40_000:]))).strip(), 1000)


def _tail(text: str, length: int = 1500) -> str:
    return text if len(text) <= length else "…" + text[-length:].lstrip()


def _trace(evidence: str) -> str:
    """Return an error text from its first error line on."""
    found = re.search(r"^.*(?:Traceback|Error\b|FAIL|panicked|Exception|error:).*$", evidence, re.MULTILINE)
    return evidence[found.start() :][:MAX_STACK_TRACE_CHARACTERS] if found else ""


def error_fingerprint(category: str, error: str) -> str:
    """Return a hash that is equal for the same error at another time, line or address."""
    import hashlib

    normalized = re.sub(r"0x[0-9a-f]+|\d+|/[\w./-]*/", "#", f"{category} {error}".lower())
    return hashlib.sha256(" ".join(normalized.split()).encode("utf-8", "replace")).hexdigest()[:16]


# --- memories ----------------------------------------------------------------------


def _split_repeated(memories: list[Memory], injected: str) -> tuple[list[Memory], list[str]]:
    """Return the new memories, and one line for each that only repeats the prompt."""
    if not memories or not injected:
        return memories, []
    from ralph.memory.lifecycle.fingerprint import EchoDetector

    echo = EchoDetector(injected)
    new = [memory for memory in memories if not echo.is_copied(memory.body)]
    repeated = [memory for memory in memories if memory not in new]
    return new, [f"repeated from the prompt, not learned again: {one_line(one.title, 80)}" for one in repeated]


def _inferred(
    attempt: Attempt,
    reply: AgentReply,
    sigils: Sigils,
    verdict: VerificationResult,
    before: FailureReport | None,
    at: str,
) -> list[Memory]:
    """Return memories the agent did not state: from a hand-over, a fixed gate or a finished task."""
    if attempt.handed_to:
        from ralph.memory.capture.handover import extract_at_handover

        return extract_at_handover(attempt.hat, attempt.handed_to, handover_text(sigils, reply.text), at)
    if attempt.outcome is not AttemptOutcome.DONE:
        return []
    from ralph.memory.capture.handover import extract_at_completion, extract_gate_fix

    found = extract_at_completion(attempt.notes, attempt.files, at)
    for gate in verdict.gates if before else ():
        problem = _gate_problem(gate.command, before.why if before else "")
        if problem and (attempt.notes or attempt.files):
            found.append(extract_gate_fix(gate.command, problem, attempt.notes, attempt.files, at))
    return found


def _gate_problem(command: str, why: str) -> str:
    """Return what a failure report says about a gate, or an empty string."""
    _, found, rest = why.partition(_gate_failed(command))
    return rest.split("\n", 1)[0] if found else ""


def _gate_failed(command: str) -> str:
    return f"the gate `{one_line(command, 80)}` failed: "


def _from_attempt(memory: Memory, attempt: Attempt) -> Memory:
    return replace(
        memory,
        hat=attempt.hat,
        origin_task=attempt.task_id,
        origin_run=attempt.run_id,
        origin_attempt=attempt.number,
    )


def attempt_memories(sigils: Sigils, attempt: Attempt, at: str) -> list[Memory]:
    """Return the memories that the agent of an attempt stated."""
    return [_from_attempt(memory, attempt) for memory in stated(sigils, at)]
