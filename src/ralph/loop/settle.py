"""Result of an attempt to store: its outcome, failure report and memories. Pure."""

from __future__ import annotations

import hashlib
import re

from ralph.core.excerpt import excerpt, looks_like_error
from ralph.core.memory_files import is_memory_file
from ralph.core.records import (
    FAILED_OUTCOMES,
    LIMIT_CATEGORIES,
    AttemptOutcome,
    AttemptResult,
    FailureCause,
    FailureReport,
    HeldChange,
    Memory,
    Question,
    SessionEnding,
    replace,
)
from ralph.core.text import (
    MAX_STACK_TRACE_CHARACTERS,
    compact_output,
    gate_failure_prefix,
    one_line,
    sanitize,
    truncate,
)
from ralph.formats.sigils import strip_sigils
from ralph.loop.hats import changes_files, handover_text
from ralph.loop.limits import add_attempt_usage, task_usage_lines
from ralph.loop.outcome import count_failing_checks, judge_attempt, next_status
from ralph.memory.capture.handover import (
    extract_at_completion,
    extract_at_handover,
    extract_from_answer,
    extract_gate_fix,
)
from ralph.memory.capture.sentences import without_introduction
from ralph.memory.capture.statements import stated
from ralph.memory.lifecycle.failure_cause import NO_REASON, SAID_NOTHING, failure_cause
from ralph.memory.lifecycle.fingerprint import EchoDetector
from ralph.memory.lifecycle.gate_fixes import tells_fix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.core.records import AgentReply, Attempt, IntegrityResult, Sigils, Task, TaskStatus, VerificationResult
    from ralph.loop.hats import HatMove
    from ralph.loop.outcome import AttemptJudgment, MergeProblem, OutcomeContext

MAX_EVIDENCE_CHARACTERS = 1_500
"""Length of what a program printed in a failure report, in characters."""
MAX_ANSWER_CHARACTERS = 4_000
"""Number of characters at the end of an answer that count as the last message of the session."""
MAX_SIGIL_PROBLEMS = 10
"""Maximum number of sigil problems recorded per attempt."""
MAX_SESSION_ID_LENGTH = 200
"""Maximum length of an agent's session id, in characters."""
FULL_TEXT_CATEGORIES = ("findings", "verification", "not_verified", "merge_conflict", "not_merged", "protected_files")
"""Categories whose reason is only the beginning of the full text."""
MISSING_SIGIL_REASON = (
    "The session ended without a task-done or task-failed sigil. Its work may be complete:"
    " check what is there, finish it, and end with the sigil."
)
INCONCLUSIVE_ENDINGS = (
    *(SessionEnding.CRASHED, SessionEnding.FLOODED, SessionEnding.OUT_OF_MEMORY, SessionEnding.TOO_MANY_PROCESSES),
    *(SessionEnding.REFUSED, SessionEnding.MODEL_FAILED),
)
"""Endings that say nothing about the memories that were shown."""


def is_fruitless(reply: AgentReply) -> bool:
    """Return whether the model refused or hung before the session did anything, which says little about its task."""
    if reply.ending is SessionEnding.WENT_SILENT:
        return not reply.files and not reply.text.strip()
    return reply.ending is SessionEnding.REFUSED and not reply.files


def capture_attempt(
    task: Task,
    attempt: Attempt,
    reply: AgentReply,
    sigils: Sigils,
    verdict: VerificationResult,
    context: OutcomeContext,
    *,
    at: str,
    move: HatMove | None = None,
    merge_problem: MergeProblem | None = None,
    feedback: str = "",
    shown_memories: str = "",
    notices: Sequence[str] = (),
    feature: str | None = None,
) -> AttemptResult:
    """Return the result of an attempt, ready to be settled.

    `feedback` comes from the person who interrupted it; `shown_memories` is the memory text of the prompt; `notices`
    are lines for the log of the task; `feature` is the name of the feature it belongs to.
    """
    plans = attempt.hat == "planner"
    judgment = judge_attempt(
        task.id, reply, sigils, verdict, move, merge_problem, may_split=context.may_split, plans=plans
    )
    judgment = replace(judgment, reason=sanitize(judgment.reason))
    ended = _ended(attempt, reply, sigils, verdict, judgment, context, move, feedback, at)
    after = next_status(judgment, ended, context, merge_problem)
    failed = judgment.outcome in FAILED_OUTCOMES and not judgment.question
    stated_memories, repeated = _split_repeated(attempt_memories(sigils, ended, at), shown_memories)
    inferred, _ = _split_repeated(_inferred(ended, reply, sigils, verdict, context, at), shown_memories)
    problems = (*sigils.problems[:MAX_SIGIL_PROBLEMS], *repeated, *_rejected_requests(sigils, judgment, move))
    return AttemptResult(
        attempt=ended,
        report=_report(ended, judgment, reply, sigils, verdict, at) if failed else None,
        memories=tuple(replace(one, feature=feature) for one in (*stated_memories, *inferred)),
        task_status=after.status,
        task_reason=after.reason,
        spent_limit=after.spent_limit,
        is_out_of_retries=after.is_out_of_retries,
        question=_question(judgment, ended, at),
        held=_held_change(judgment, ended, verdict, at),
        failed_check=judgment.failed_check,
        limits_used=tuple(task_usage_lines(context.run_options, add_attempt_usage(context.used, ended))),
        subtasks=judgment.subtasks,
        affects_credit=_affects_credit(reply, ended, judgment),
        log=(
            _log_line(ended, after.status),
            *(f"Ignored: {problem}" for problem in problems),
            *map(sanitize, (*verdict.left_out, *notices)),
        ),
        ignored_sigils=problems,
    )


def _ended(
    attempt: Attempt,
    reply: AgentReply,
    sigils: Sigils,
    verdict: VerificationResult,
    judgment: AttemptJudgment,
    context: OutcomeContext,
    move: HatMove | None,
    feedback: str,
    at: str,
) -> Attempt:
    """Return the attempt with its outcome, and with what its session and the review used, changed and noted."""
    review = verdict.review.reply if verdict.review else None
    is_service_error, is_unreviewed = reply.ending is SessionEnding.MODEL_FAILED, _is_unreviewed(judgment)
    excused = is_service_error or is_unreviewed or (is_fruitless(reply) and reply.ending not in context.repeated)
    return replace(
        attempt,
        model=sanitize(attempt.model) if attempt.model else attempt.model,
        outcome=judgment.outcome,
        reason=judgment.reason,
        error_type=judgment.error_type,
        seconds=reply.seconds + (review.seconds if review else 0.0),
        cost_usd=reply.cost_usd + (review.cost_usd if review else 0.0),
        tokens_in=_sum(reply.tokens_in, review.tokens_in if review else None),
        tokens_out=_sum(reply.tokens_out, review.tokens_out if review else None),
        cause=failure_cause(judgment.outcome, judgment.category, judgment.reason, excused=is_service_error),
        excused=excused or bool(judgment.question),
        turns=_sum(reply.turns, review.turns if review else None),
        agent_session=sanitize(one_line(reply.session, MAX_SESSION_ID_LENGTH)),
        files=tuple(sanitize(path) for path in reply.files or () if not is_memory_file(path)),
        notes="\n".join(dict.fromkeys(filter(None, [feedback, sigils.journal, _handover_message(judgment, move)]))),
        feedback=feedback,
        difficulty=sigils.difficulty,
        next_model=sigils.next_model or "",
        handed_to=judgment.handed_to,
        checks_passed=sum(gate.passed for gate in verdict.gates),
        checks_failed=max((count_failing_checks(gate.output) for gate in verdict.gates if not gate.passed), default=0),
        ended_at=at,
    )


def _is_unreviewed(judgment: AttemptJudgment) -> bool:
    """Return whether the work waits for a person because no review could judge it."""
    return judgment.needs_person and judgment.failed_check == "review"


def _held_change(
    judgment: AttemptJudgment, attempt: Attempt, verdict: VerificationResult, at: str
) -> HeldChange | None:
    """Return the change that waits for a person: one without a review, or to files that the gates depend on."""
    if _is_unreviewed(judgment):
        return _unreviewed_change(attempt, at)
    return held_change(attempt, verdict.integrity, at) if judgment.failed_check == "integrity" else None


def _affects_credit(reply: AgentReply, attempt: Attempt, judgment: AttemptJudgment) -> bool:
    """Return whether the outcome says something about the memories that were shown."""
    return (
        reply.ending not in INCONCLUSIVE_ENDINGS
        and attempt.cause is not FailureCause.SERVICE
        and judgment.category not in ("not_merged", "not_verified", "protected_files", "question", *LIMIT_CATEGORIES)
    )


def held_change(attempt: Attempt, found: IntegrityResult | None, at: str) -> HeldChange | None:
    """Return a change to protected files that waits for a person, as it is stored."""
    if found is None or found.passed or attempt.task_id is None:
        return None
    return HeldChange(
        task_id=attempt.task_id,
        run_id=attempt.run_id,
        iteration=attempt.iteration,
        digest=found.digest,
        reason=sanitize(found.reason),
        files=tuple(map(sanitize, found.files)),
        marks=found.marks,
        diff=found.diff,
        created_at=at,
    )


def _question(judgment: AttemptJudgment, attempt: Attempt, at: str) -> Question | None:
    if not judgment.question or attempt.task_id is None:
        return None
    return Question(
        task_id=attempt.task_id,
        run_id=attempt.run_id,
        iteration=attempt.iteration,
        text=judgment.question,
        asked_at=at,
    )


def _unreviewed_change(attempt: Attempt, at: str) -> HeldChange:
    """Return finished work that nobody reviewed, as it is stored for a person to accept."""
    assert attempt.task_id is not None
    return HeldChange(
        task_id=attempt.task_id,
        run_id=attempt.run_id,
        iteration=attempt.iteration,
        digest=hashlib.sha256(f"{attempt.run_id}/{attempt.iteration}".encode()).hexdigest(),
        reason=attempt.reason,
        diff=f"The gates passed, but nobody has reviewed the work. See it with: ralph task diff {attempt.task_id}",
        created_at=at,
    )


def _sum(one: int | None, other: int | None) -> int | None:
    return one if other is None else other + (one or 0)


def _handover_message(judgment: AttemptJudgment, move: HatMove | None) -> str:
    return move.text if move and judgment.handed_to else ""


def _rejected_requests(sigils: Sigils, judgment: AttemptJudgment, move: HatMove | None) -> list[str]:
    """Return one line for each request in the sigils that cannot be met."""
    problems = [move.problem] if move and move.problem else []
    if sigils.subtasks and not judgment.subtasks:
        problems.append("subtasks: only a stuck or planned task can be split, not a finished or deeply nested one")
    if sigils.question and not judgment.question:
        problems.append(f"question in an answer that finishes or splits the task: {one_line(sigils.question, 120)}")
    return problems


def _log_line(attempt: Attempt, status: TaskStatus) -> str:
    reason = f" ({attempt.reason})" if attempt.reason else ""
    is_handed_over = attempt.handed_to not in ("", attempt.hat)
    hand_over = f", handed over to the {attempt.handed_to}" if is_handed_over else ""
    model = f", asks for the model {attempt.next_model}" if attempt.next_model else ""
    return f"Attempt {attempt.number} {attempt.outcome}{reason}{hand_over}{model}; the task is now {status}."


# --- failure reports ---------------------------------------------------------------


def _report(
    attempt: Attempt,
    judgment: AttemptJudgment,
    reply: AgentReply,
    sigils: Sigils,
    verdict: VerificationResult,
    at: str,
) -> FailureReport:
    """Return the agent's own report, completed by the gates; without one, a report from the known facts."""
    assert attempt.task_id is not None
    assert attempt.number is not None
    own, category = sigils.report, judgment.category
    evidence = _error_output(reply, verdict) or judgment.details
    tried = (own.tried if own else "") or sigils.journal or _answer_tail(reply.text) or SAID_NOTHING
    why = own.why if own else ""
    if category == "findings":
        tried, evidence = f"The {attempt.hat} reviewed the work so far.", ""
    # After a failed gate the agent's own view was mistaken, so the gate comes first.
    if category == "no_sigil" and not own:
        why = MISSING_SIGIL_REASON
    elif category in FULL_TEXT_CATEGORIES:
        why = "\n".join([judgment.details or attempt.reason, *verdict.left_out])
    elif not own or not verdict.passed:
        left_out = (line for line in map(sanitize, verdict.left_out) if line not in attempt.reason)
        why = "\n".join(dict.fromkeys(filter(None, [attempt.reason, *left_out, _shorten(evidence), why])))
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


def _shorten(evidence: str) -> str:
    """Return what matters of a program's output, for a report."""
    return (
        excerpt(compact_output(evidence), MAX_EVIDENCE_CHARACTERS)
        if len(evidence) > MAX_EVIDENCE_CHARACTERS
        else evidence
    )


def _tail(text: str, length: int) -> str:
    return text if len(text) <= length else "…" + text[-length:].lstrip()


def _trace(evidence: str) -> str:
    """Return an error text from its first error line on."""
    lines = evidence.splitlines(keepends=True)
    first = next((index for index, line in enumerate(lines) if looks_like_error(line)), len(lines))
    return "".join(lines[first:])[:MAX_STACK_TRACE_CHARACTERS]


_VARYING = (
    r"0x[0-9a-f]+|/[\w./-]*/"
    r"|\b\d{4}-\d\d-\d\d(?:[t ]\d\d:\d\d\S*)?|\b\d\d?:\d\d(?::\d\d(?:\.\d+)?)?\b"
    r"|\bline \d+|:\d+(?::\d+)?\b|\bpid \d+|\b\d+(?:\.\d+)?\s?(?:ms|s|sec|seconds?|minutes?)\b|\b\d{5,}\b"
)
"""Addresses, directories, times, lines, processes and durations: they differ each time the same error occurs."""
_UNKNOWN = frozenset(
    "a agent an and did do error failed failure for gave i is it know known none no not n/a of reason said something"
    " the there this to unclear unknown went why work wrong".split()
)
"""Words of a reason that says nothing."""


def error_fingerprint(category: str, error: str) -> str:
    """Return a hash that is equal for the same error at another time, line or address; empty if it is not known."""
    if error in (NO_REASON, MISSING_SIGIL_REASON) or _UNKNOWN.issuperset(re.findall(r"[\w/']+", error.lower())):
        return ""
    normalized = re.sub(_VARYING, "#", f"{category} {error}".lower())
    return hashlib.sha256(" ".join(normalized.split()).encode("utf-8", "replace")).hexdigest()[:16]


# --- memories ----------------------------------------------------------------------


def _split_repeated(memories: list[Memory], injected: str) -> tuple[list[Memory], list[str]]:
    """Return the new memories, and one line for each that only repeats the prompt."""
    if not memories or not injected:
        return memories, []
    echo = EchoDetector(injected)
    new = [memory for memory in memories if not echo.is_copied(without_introduction(memory.content))]
    repeated = [memory for memory in memories if memory not in new]
    return new, [f"repeated from the prompt, not learned again: {one_line(one.title, 80)}" for one in repeated]


def _inferred(
    attempt: Attempt,
    reply: AgentReply,
    sigils: Sigils,
    verdict: VerificationResult,
    context: OutcomeContext,
    at: str,
) -> list[Memory]:
    """Return memories the agent did not state: from a hand-over, a fixed gate or a finished task."""
    found: list[Memory] = []
    if attempt.handed_to and not changes_files(attempt.hat):
        found = extract_at_handover(attempt.hat, attempt.handed_to, handover_text(sigils, reply.text), at)
    elif attempt.handed_to:  # its part is complete, and nobody asks its notes for more at the end
        found = extract_at_completion(sigils.journal, attempt.files, at)
    elif attempt.outcome is AttemptOutcome.DONE:
        fixes = _gate_fixes(attempt, verdict, context, at)
        noted = extract_at_completion(attempt.notes, attempt.files, at)
        said = extract_from_answer(strip_sigils(sanitize(reply.text[-MAX_ANSWER_CHARACTERS:])), noted, at)
        found = [*(one for one in (*noted, *said) if not any(tells_fix(fix, one) for fix in fixes)), *fixes]
    return [_from_attempt(memory, attempt) for memory in found]


def _gate_fixes(attempt: Attempt, verdict: VerificationResult, context: OutcomeContext, at: str) -> list[Memory]:
    """Return what fixed the gate that the last failure was about, by this attempt or by hats that handed over to it."""
    report = context.last_report
    if report is None or report.category in LIMIT_CATEGORIES:
        return []
    parts = (*context.handed_over, attempt)
    notes = "\n".join(filter(None, (one.notes for one in parts if changes_files(one.hat))))
    files = tuple(dict.fromkeys(path for one in parts for path in one.files))
    return [
        extract_gate_fix(gate.command, problem, notes, files, at)
        for gate in verdict.gates
        if (problem := _gate_problem(gate.command, report.why)) and (notes or files)
    ]


def _gate_problem(command: str, why: str) -> str:
    """Return what a failure report says about a gate, or an empty string."""
    _, found, rest = why.partition(gate_failure_prefix(command))
    return rest.split("\n", 1)[0] if found else ""


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
