"""Decide what an attempt came to and what it taught. Pure.

Done is never taken on trust alone: the sigil must name this task, the session
must have ended well, and every gate must have passed.
"""

from __future__ import annotations

import re

from ralph.memory.lifecycle import START
from ralph.records import (
    FAILURES,
    Capture,
    Ending,
    ErrorType,
    FailureReport,
    Memory,
    Outcome,
    Source,
    State,
    Status,
    memory_id,
    record,
    replace,
)
from ralph.text import TRACE_CHARACTERS, accept, cut, one_line, paths_in, title_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.records import Attempt, GateResult, Reply, Sigils, Task, TaskMetrics, Verdict

MOST_PROBLEMS = 10
NO_SIGIL = "no sigil"
UNSAID = (
    "The session ended without a task-done or task-failed sigil. Its work may be complete:"
    " check what is there, finish it, and end with the sigil."
)

# How a session that did not finish counts: outcome, error type, and category of its report.
_ENDINGS = {
    Ending.CRASHED: (Outcome.ERROR, ErrorType.TOOL_ERROR, "crash"),
    Ending.TIMED_OUT: (Outcome.ERROR, ErrorType.TIMEOUT, "timeout"),
    Ending.WENT_SILENT: (Outcome.ERROR, ErrorType.TIMEOUT, "timeout"),
    Ending.FLOODED: (Outcome.ERROR, ErrorType.TOOL_ERROR, "output_flood"),
    Ending.REFUSED: (Outcome.FAILED, ErrorType.UNKNOWN, "refusal"),
    Ending.OUT_OF_TURNS: (Outcome.BLOCKED, ErrorType.UNKNOWN, "out_of_turns"),
    Ending.STOPPED: (Outcome.INTERRUPTED, None, ""),
}

# The first that fits names the trouble: its category in reports, and its error type.
_TROUBLES = (
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
class Judgement:
    """How an attempt ended, and why."""

    outcome: Outcome
    reason: str = ""
    error_type: ErrorType | None = None
    category: str = "unknown"
    """For the failure report, if there is one and the agent gave none."""


def claims_done(task_id: str, reply: Reply, sigils: Sigils) -> bool:
    """Say whether the agent finished properly and calls this very task done."""
    return reply.ending is Ending.FINISHED and task_id in sigils.done_ids


def judge(task_id: str, reply: Reply, sigils: Sigils, verdict: Verdict) -> Judgement:
    """Say how the attempt ended."""
    if reply.ending is not Ending.FINISHED:
        outcome, error_type, category = _ENDINGS[reply.ending]
        reason = reply.detail or reply.ending.value
        return Judgement(outcome=outcome, reason=reason, error_type=error_type, category=category)
    if task_id in sigils.done_ids:
        return _verified(verdict)
    if task_id in sigils.failed_ids:
        why = sigils.report.why if sigils.report else "the agent gave no reason"
        category, error_type = trouble(why)
        return Judgement(outcome=Outcome.FAILED, reason=one_line(why), error_type=error_type, category=category)
    if others := [*sigils.done_ids, *sigils.failed_ids]:
        reason, category = f"spoke of another task: {one_line(', '.join(others), 80)}", "wrong_task"
    else:
        reason, category = NO_SIGIL, "no_sigil"
    return Judgement(outcome=Outcome.BLOCKED, reason=reason, error_type=ErrorType.UNKNOWN, category=category)


def _verified(verdict: Verdict) -> Judgement:
    failed = next((gate for gate in verdict.gates if not gate.passed), None)
    if failed is None:
        return Judgement(outcome=Outcome.DONE)
    # How we ended it counts more than what it printed until then.
    category, error_type = ("timeout", ErrorType.TIMEOUT) if failed.timed_out else trouble(failed.output)
    return Judgement(
        outcome=Outcome.RETRIED,
        reason=f"{_gate_failed(failed.command)}{telling_line(failed)}",
        error_type=error_type,
        category=category if category != "unknown" else "gate_failure",
    )


def telling_line(gate: GateResult) -> str:
    """Give the line of a failed gate's output that says most, or how it ended."""
    lines = [line.strip() for line in gate.output.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\w*(?:Error|Exception)\b:|\berror:|panicked at", line)]
    said = errors[0] if errors else lines[-1] if lines and not gate.timed_out else gate.detail
    return one_line(accept(said), 160)


def trouble(text: str) -> tuple[str, ErrorType]:
    """Give the category and the error type that an error text speaks of."""
    for pattern, category, error_type in _TROUBLES:
        if re.search(pattern, text, re.IGNORECASE | re.MULTILINE):
            return category, error_type
    return "unknown", ErrorType.UNKNOWN


def conclude(
    task: Task,
    attempt: Attempt,
    reply: Reply,
    sigils: Sigils,
    verdict: Verdict,
    metrics: TaskMetrics,
    *,
    max_retries: int,
    at: str,
    feedback: str = "",
    injected: str = "",
    before: FailureReport | None = None,
) -> Capture:
    """Give all that is to be kept of an attempt, ready to be settled.

    `metrics` are those before this attempt; `feedback` is what a person said who interrupted it;
    `injected` is what the prompt told of earlier work; `before` is the task's latest failure report.
    """
    judgement = judge(task.id, reply, sigils, verdict)
    judgement = replace(judgement, reason=accept(judgement.reason))
    ended = replace(
        attempt,
        model=accept(attempt.model) if attempt.model else attempt.model,
        outcome=judgement.outcome,
        reason=judgement.reason,
        error_type=judgement.error_type,
        seconds=reply.seconds,
        cost_usd=reply.cost_usd,
        tokens_in=reply.tokens_in,
        tokens_out=reply.tokens_out,
        files=tuple(accept(path) for path in reply.files or ()),
        notes="\n".join(filter(None, [feedback, sigils.journal])),
        difficulty=sigils.difficulty,
        ended_at=at,
    )
    status, reason = _next_status(judgement, metrics.failures_since_reset, max_retries)
    failed = judgement.outcome in FAILURES
    learned, repeated = _news(memories_of(sigils, ended, task, at), injected)
    noticed, _ = _news(_noticed(ended, verdict, before, at), injected)
    problems = (*sigils.problems[:MOST_PROBLEMS], *repeated)
    return Capture(
        attempt=ended,
        report=_report(ended, judgement.category, reply, sigils, verdict, at) if failed else None,
        memories=(*learned, *(_from_attempt(memory, ended) for memory in noticed)),
        task_status=status,
        task_reason=reason,
        log=(_log_line(ended, status), *(f"Ignored: {problem}" for problem in problems)),
        ignored=problems,
    )


def _next_status(judgement: Judgement, failures: int, max_retries: int) -> tuple[Status, str]:
    if judgement.outcome is Outcome.DONE:
        return Status.DONE, ""
    if judgement.outcome in FAILURES and failures + 1 > max_retries:
        return Status.BLOCKED, f"failed {failures + 1} times, waits for a person; last: {judgement.reason}"
    return Status.PENDING, ""


def _log_line(attempt: Attempt, status: Status) -> str:
    reason = f" ({attempt.reason})" if attempt.reason else ""
    return f"Attempt {attempt.number} {attempt.outcome}{reason}; the task is now {status}."


# --- failure reports ---------------------------------------------------------------


def _report(attempt: Attempt, category: str, reply: Reply, sigils: Sigils, verdict: Verdict, at: str) -> FailureReport:
    """Give the agent's own report, completed by what the gates said; without one, the facts we have."""
    assert attempt.task_id is not None
    assert attempt.number is not None
    own = sigils.report
    evidence = _evidence(reply, verdict)
    tried = own.tried if own else sigils.journal or _last_words(reply.text) or "The agent said nothing."
    why = own.why if own else ""
    # When a gate spoke, the agent's own view of things was mistaken: the gate comes first.
    if category == "no_sigil" and not own:
        why = UNSAID
    elif not own or not verdict.passed:
        why = "\n".join(dict.fromkeys(filter(None, [attempt.reason, _end_of(evidence), why])))
    trace = (own.trace if own else "") or _trace(evidence)
    return FailureReport(
        run_id=attempt.run_id,
        iteration=attempt.iteration,
        task_id=attempt.task_id,
        attempt_number=attempt.number,
        tried=cut(accept(tried), 4000),
        why=cut(accept(why), 4000),
        category=own.category if own and own.category != "unknown" else category,
        files=own.files if own and own.files else attempt.files,
        trace=accept(trace)[:TRACE_CHARACTERS],
        retry_suggestion=sigils.retry_suggestion,
        fingerprint=fingerprint(category, trace or why),
        made_by="agent" if own else "ralph",
        created_at=at,
    )


def _evidence(reply: Reply, verdict: Verdict) -> str:
    failed = [gate for gate in verdict.gates if not gate.passed]
    if failed:
        return "\n".join(gate.output for gate in failed)
    return reply.detail if reply.ending is not Ending.FINISHED else ""


def _last_words(text: str) -> str:
    """Give the end of an answer, without the sigils' tags."""
    return _end_of(re.sub(r"<[/\w][^<>\n]{0,200}>", "", accept(text[-40_000:])).strip(), 1000)


def _end_of(text: str, length: int = 1500) -> str:
    return text if len(text) <= length else "…" + text[-length:].lstrip()


def _trace(evidence: str) -> str:
    """Give the part of an error text that starts where the trouble starts."""
    found = re.search(r"^.*(?:Traceback|Error\b|FAIL|panicked|Exception|error:).*$", evidence, re.MULTILINE)
    return evidence[found.start() :][:TRACE_CHARACTERS] if found else ""


def fingerprint(category: str, error: str) -> str:
    """Give a short mark that is the same for the same error at another time, line or address."""
    import hashlib

    same = re.sub(r"0x[0-9a-f]+|\d+|/[\w./-]*/", "#", f"{category} {error}".lower())
    return hashlib.sha256(" ".join(same.split()).encode("utf-8", "replace")).hexdigest()[:16]


# --- memories ----------------------------------------------------------------------


def _news(memories: list[Memory], injected: str) -> tuple[list[Memory], list[str]]:
    """Give the memories that say something new, and a line for each that only repeats what the prompt told."""
    if not memories or not injected:
        return memories, []
    from ralph.memory.fingerprint import Echo

    echo = Echo(injected)
    news = [memory for memory in memories if not echo.repeats(memory.body)]
    repeated = [memory for memory in memories if memory not in news]
    return news, [f"repeated from the prompt, not learned again: {one_line(one.title, 80)}" for one in repeated]


def _noticed(attempt: Attempt, verdict: Verdict, before: FailureReport | None, at: str) -> list[Memory]:
    """Give what a done attempt shows without saying so: what mended a gate, and what its notes tell of the project."""
    if attempt.outcome is not Outcome.DONE:
        return []
    from ralph.memory.handover import after_gate, at_completion

    found = at_completion(attempt.notes, attempt.files, at)
    for gate in verdict.gates if before else ():
        problem = _what_failed(gate.command, before.why if before else "")
        if problem and (attempt.notes or attempt.files):
            found.append(after_gate(gate.command, problem, attempt.notes, attempt.files, at))
    return found


def _what_failed(command: str, why: str) -> str:
    """Give what a report says of the failure of a gate, if that is what it is about."""
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


def memories_of(sigils: Sigils, attempt: Attempt, task: Task, at: str) -> list[Memory]:
    """Give what the agent asked to have remembered."""
    said = [("knowledge", one.title, one.body, one.tags) for one in sigils.knowledge]
    said += [(one.category, title_of(one.content), one.content, one.tags) for one in sigils.learnings]
    said += [(one.kind, one.title, one.content, ()) for one in sigils.signals]
    return [
        Memory(
            id=memory_id(),
            kind=kind,
            title=title,
            body=body,
            tags=tags,
            files=tuple(dict.fromkeys(paths_in(body) + tuple(tag for tag in tags if "/" in tag)))[:20],
            source=Source.EXPLICIT,
            state=State.ACTIVE,
            hat=attempt.hat,
            confidence=START[Source.EXPLICIT],
            origin_task=task.id,
            origin_run=attempt.run_id,
            origin_attempt=attempt.number,
            created_at=at,
            updated_at=at,
        )
        for kind, title, body, tags in said
    ]
