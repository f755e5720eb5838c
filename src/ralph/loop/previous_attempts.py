"""Sections of a prompt on earlier attempts at its task: what they tried, how they ended, what they left. Pure."""

from __future__ import annotations

from ralph.core.records import LIMIT_CATEGORIES, AttemptOutcome, OmittedItem, record
from ralph.core.text import CHARACTERS_PER_TOKEN, one_line, truncate
from ralph.loop.failure_text import attempt_line, interruption_text, report_line, report_text
from ralph.memory.recall.render import close_fences, escape_inline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.core.records import Attempt, FailureReport, PromptContext

ATTEMPTS_TOKENS = 1_500
HEAD = "### Previous Attempts\n\nUse what these found out; do not repeat what failed.\n"
OLDER = "\n#### Older Attempts\n"
SUMMARY_CHARACTERS = 80
"""Room kept for the line on attempts that are too many to be listed, in characters."""
MIN_REFUTED_SHARE = 0.6
"""Share of the words of a suggestion that a later failure has in common with it if it followed the suggestion."""
MAX_UNFINISHED = 30
"""Maximum number of changed files listed after an attempt that was cut off."""
_INCONCLUSIVE = (
    *("crash", "timeout", "output_flood", "model_failed", "no_sigil", "refusal", "out_of_turns", "not_merged"),
    *LIMIT_CATEGORIES,
)
"""Categories of failures that say nothing about what was suggested before."""


@record
class AttemptsText:
    """Section on earlier attempts, with the attempts it names."""

    text: str
    shown: tuple[str, ...]
    left_out: tuple[OmittedItem, ...] = ()


def render_attempts(context: PromptContext) -> AttemptsText | None:
    """Return all earlier attempts at a task, newest first: as many in full as fit, older ones in a line each."""
    entries = _entries(context)
    if not entries:
        return None
    limit = ATTEMPTS_TOKENS * CHARACTERS_PER_TOKEN
    text, place = HEAD, 0
    shown: list[str] = []
    for place, (number, full, _) in enumerate(entries):
        older = sum(len(line) for _, _, line in entries[place + 1 :]) + len(OLDER) + SUMMARY_CHARACTERS
        room = limit - len(text) - older
        block = f"\n{full}"
        if not shown:  # the newest is cut rather than left out
            room = max(room, limit // 2)
            block = close_fences(truncate(block, room, suffix=" [cut]\n"))
        if len(block) > room:
            break
        text += block
        shown.append(f"attempt {number}")
    else:
        place = len(entries)
    rest = entries[place:]
    text += OLDER if rest else ""
    for number, _, line in rest:
        if len(text) + len(line) + SUMMARY_CHARACTERS > limit:
            text += f"- Attempts {rest[-1][0]} to {number}: `ralph task show {context.task.id}`\n"
            left_out = [OmittedItem(what=f"attempt {n}", why="too many attempts") for n, _, _ in rest if n <= number]
            return AttemptsText(text=text, shown=tuple(shown), left_out=tuple(left_out))
        text += line
        shown.append(f"attempt {number}")
    return AttemptsText(text=text, shown=tuple(shown))


def _entries(context: PromptContext) -> list[tuple[int, str, str]]:
    """Return number, full text and line of each attempt that another section does not tell, newest first."""
    reports = sorted(context.reports, key=lambda report: -report.attempt_number)
    entries = {
        report.attempt_number: (
            report_text(report, with_suggestion=not is_refuted(report, reports[:place])),
            report_line(report),
        )
        for place, report in enumerate(reports)
    }
    told = {one.number for one in context.handovers}
    for attempt in context.attempts:
        if attempt.number and attempt.number not in entries and attempt.number not in told:
            entries[attempt.number] = (interruption_text(attempt), attempt_line(attempt))
    return [(number, *entries[number]) for number in sorted(entries, reverse=True)]


def is_refuted(report: FailureReport, later: Sequence[FailureReport]) -> bool:
    """Return whether a later attempt followed a suggestion and failed, or made the same one."""
    from ralph.core.tokenize import tokenize

    words = set(tokenize(report.retry_suggestion))
    if not words:
        return False
    for other in later:
        if other.retry_suggestion == report.retry_suggestion:
            return True
        if other.category in _INCONCLUSIVE:
            continue
        if len(words.intersection(tokenize(f"{other.tried}\n{other.why}"))) >= MIN_REFUTED_SHARE * len(words):
            return True
    return False


# --- attempts that were cut off ------------------------------------------------------


def cut_off_attempt(context: PromptContext) -> Attempt | None:
    """Return the last attempt at a task if it ended before its agent could report."""
    last = context.attempts[0] if context.attempts else None
    if last is None or any(one.attempt_number > (last.number or 0) for one in context.reports):
        return None
    ran_out = any(one.category == "out_of_turns" for one in context.reports if one.attempt_number == last.number)
    is_cut_off = ran_out or last.outcome in (AttemptOutcome.INTERRUPTED, AttemptOutcome.ERROR)
    return last if is_cut_off else None


def render_unfinished(context: PromptContext, *, changes_files: bool) -> str:
    """Return what an attempt that was cut off left in the working tree; empty if the last one was not."""
    last = cut_off_attempt(context)
    if last is None:
        return ""
    reason = f" ({escape_inline(one_line(last.reason, 160))})" if last.reason else ""
    text = f"### Unfinished Work\n\nAttempt {last.number} was cut off{reason} before it could report."
    if not context.unfinished:
        return f"{text} It left no uncommitted changes.\n"
    listed = "".join(f"- {escape_inline(line)}\n" for line in context.unfinished[:MAX_UNFINISHED])
    more = len(context.unfinished) - MAX_UNFINISHED
    if more > 0:
        listed += f"- and {more} more\n"
    advice = (
        "Read these changes first: keep what is right, finish it, and undo what is not."
        if changes_files
        else "They may be incomplete."
    )
    return f"{text} The working tree holds these changes, of that attempt or from before it. {advice}\n\n{listed}"
