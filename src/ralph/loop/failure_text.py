"""Rendering of failed attempts for prompts: what was tried, why it failed, what to do instead."""

from __future__ import annotations

from ralph.core.text import compact_output, one_line, truncate, without_gate_prefix
from ralph.memory.lifecycle.failure_cause import SAID_NOTHING, is_service_error
from ralph.memory.recall.render import close_fences, escape_inline, escape_untrusted, fence_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.core.records import Attempt, FailureReport

MAX_TRIED_CHARACTERS, MAX_WHY_CHARACTERS, MAX_SUGGESTION_CHARACTERS = 1_200, 2_000, 400
"""Length of what was tried, of why it failed, and of the suggestion of another task, in characters."""
MAX_LINE_CHARACTERS = 120
"""Length of why an older attempt failed, in characters."""
MAX_SUMMARY_CHARACTERS = 300
"""Length of why another task failed, in characters."""
MAX_REPEATED_CHARACTERS = 120
"""Length up to which what was tried need not be repeated as what to avoid, in characters."""
MAX_FILES = 20

_AVOID = {
    "no_sigil": "ending a session without task-done or task-failed",
    "findings": "leaving the findings unresolved",
    "verification": "claiming that it is done before the missing parts are there",
    "not_verified": "nothing in particular: the work was not reviewed",
    "merge_conflict": "undoing the changes that others made meanwhile",
    "not_merged": "nothing in particular: the merge failed for another reason",
}


def report_text(report: FailureReport, *, with_suggestion: bool = True) -> str:
    """Render a failure report for a prompt; `with_suggestion` if its advice was not refuted since."""
    lines = [f"#### Attempt {report.attempt_number} [{escape_inline(report.category)}], {report.created_at[:10]}"]
    if report.retry_suggestion and with_suggestion:
        lines.append(f"- **Try instead**: {escape_untrusted(report.retry_suggestion)}")
    tried = _tried(report)
    if tried not in ("", SAID_NOTHING, report.why):  # prose without a report is kept as both
        lines.append(f"- **Tried**: {close_fences(truncate(escape_untrusted(tried), MAX_TRIED_CHARACTERS))}")
    lines.append(f"- **Why it failed**: {_why(report.why)}")
    if avoid := _avoid(report):
        lines.append(f"- **Avoid**: {avoid}")
    if report.files:
        lines.append(f"- **Files**: {', '.join(escape_inline(path) for path in report.files[:MAX_FILES])}")
    if report.trace and report.trace not in report.why:
        lines.append(f"- **Error**:\n\n{_fenced(report.trace)}")
    return "\n".join(lines) + "\n"


def similar_failure_text(report: FailureReport) -> str:
    """Render the failure of another task in a line: its error, without what the test runner printed around it."""
    headline = without_gate_prefix(report.why).split("\n", 1)[0]
    name = f"{report.task_id}, attempt {report.attempt_number}"
    text = (
        f"- **{name}** [{escape_inline(report.category)}], {report.created_at[:10]}:"
        f" {escape_inline(one_line(headline, MAX_SUMMARY_CHARACTERS))}\n"
    )
    if report.retry_suggestion:
        suggestion = one_line(escape_untrusted(report.retry_suggestion), 2000)
        text += f"  Try instead: {truncate(suggestion, MAX_SUGGESTION_CHARACTERS)}\n"
    return text


def report_line(report: FailureReport) -> str:
    """Render a failure report in a line."""
    headline = without_gate_prefix(report.why).split("\n", 1)[0]
    return (
        f"- Attempt {report.attempt_number} [{escape_inline(report.category)}], {report.created_at[:10]}:"
        f" {escape_inline(one_line(headline, MAX_LINE_CHARACTERS))}\n"
    )


def interruption_text(entry: Attempt) -> str:
    """Render an attempt without a failure report: what the person said who stopped it, and what its agent noted."""
    notes = truncate(entry.notes.removeprefix(entry.feedback).strip(), MAX_WHY_CHARACTERS)
    lines = [f"#### Attempt {entry.number} [{entry.outcome}], {entry.started_at[:10]}"]
    if entry.feedback:
        lines.append(f"- **The person who stopped it said**: {escape_untrusted(entry.feedback)}")
    elif entry.reason:
        lines.append(f"- **Ended**: {escape_inline(one_line(entry.reason, MAX_SUMMARY_CHARACTERS))}")
    if notes:
        lines.append(f"- **Its notes**: {escape_untrusted(notes)}")
    return "\n".join(lines) + "\n"


def attempt_line(entry: Attempt) -> str:
    """Render an attempt without a failure report in a line."""
    said = one_line(entry.feedback or entry.reason or entry.notes, MAX_LINE_CHARACTERS)
    what = f": {escape_inline(said)}" if said else ""
    return f"- Attempt {entry.number} [{entry.outcome}], {entry.started_at[:10]}{what}\n"


def _why(why: str) -> str:
    """Return why an attempt failed; what a gate printed is a code block below the line that says most."""
    why = truncate(why, MAX_WHY_CHARACTERS)
    headline, _, output = why.partition("\n")
    if without_gate_prefix(headline) == headline:
        return close_fences(escape_untrusted(why))
    printed = compact_output(output)
    printed = "" if printed.strip() == without_gate_prefix(headline).strip() else printed  # it printed nothing else
    return f"{escape_inline(headline)}\n\n{_fenced(printed)}\n" if printed else escape_inline(headline)


def _fenced(text: str) -> str:
    text = escape_untrusted(text)
    fence = fence_for(text)
    return f"{fence}\n{text}\n{fence}"


def _is_broken_off(report: FailureReport) -> bool:
    """Return whether the service of the model ended a session, which says nothing about what it tried."""
    is_session_error = report.category in ("crash", "timeout")
    return report.category == "model_failed" or (is_session_error and is_service_error(report.why))


def _tried(report: FailureReport) -> str:
    """Return what an attempt tried, without the error of a service, which is why it failed."""
    if not _is_broken_off(report):
        return report.tried
    return "\n".join(line for line in report.tried.splitlines() if line.strip() and line.strip() not in report.why)


def _avoid(report: FailureReport) -> str:
    if report.category in _AVOID:
        return _AVOID[report.category]
    if _is_broken_off(report):
        return "nothing in particular: the service of the model failed"
    if report.tried == SAID_NOTHING:
        return ""
    tried = one_line(escape_untrusted(report.tried), MAX_REPEATED_CHARACTERS)
    is_short = tried == report.tried.strip()
    return "doing the same again" if is_short else f"repeating the same approach: {tried}"
