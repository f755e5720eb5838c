"""Tell a task that is stuck from one that only takes longer.

A count of failures alone raises false alarms: an attempt that got further than
all before it is progress, whatever else it has in common with them.
"""

from __future__ import annotations

from enum import StrEnum

from ralph.records import FAILURES, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.records import Outcome

STRONGER_AFTER = 2
"""So many failures in a row bring a stronger model."""
NOTHING = "nothing"
"""The mark of an attempt that changed no file."""
WRITING_HATS = ("creator", "editor")
"""Only of these it is a sign when no file changed."""

SMALLEST = "reproduce it in the smallest way that still shows it, and read that output before you change anything."
CHANGE = "make a change at all, however small, or say in the failure report what stands in the way."
ELSEWHERE = "that change does not help. Undo it and start in another place."


class Step(StrEnum):
    """How far a task is on the way from a failure to a person."""

    NONE = "none"
    REPORT = "report"
    """The next attempt is told what failed."""
    STRONGER = "stronger"
    """It also gets a stronger model."""
    DECOMPOSE = "decompose"
    """It is also warned, and asked to split the task."""
    PERSON = "person"
    """There is no next attempt until a person has looked."""


@record
class Past:
    """One ended attempt at a task since it was last reset or done."""

    number: int
    hat: str = "creator"
    model: str = ""
    outcome: Outcome
    fingerprint: str = ""
    """The same for the same error; empty when there is no failure report."""
    changed_files: bool = True
    """Also true where nobody can tell."""
    change_mark: str = ""
    """The same for attempts that left the same text in the same files."""
    checks_passed: int = 0
    """How many gates it passed."""
    checks_failed: int = 0
    """How many single checks were wrong; 0 when that is not known."""
    """The model it asked for to go on with."""


@record
class Trouble:
    """What the failures at a task since it was last reset or done have in common."""

    failures: int = 0
    step: Step = Step.NONE
    signs: tuple[str, ...] = ()
    """Plain sentences without a full stop; for a task that gets further, how far."""
    advice: tuple[str, ...] = ()
    """Another approach for each of the signs."""
    is_repeating: bool = False
    """The same error twice in a row, the same change again, or no change twice in a row."""
    is_progressing: bool = False
    """The latest failure got further than all before it."""
    failed_model: str = ""
    """The model of the latest failure."""


def look(past: Sequence[Past], *, stuck_after: int, max_retries: int) -> Trouble:
    """Give what the attempts at a task, newest first, say about how stuck it is.

    Only failures count: an interruption says nothing about the task, and a hand-over is no failure.
    """
    failures = [one for one in past if one.outcome in FAILURES]
    if not failures:
        return Trouble()
    progress = _progress(failures)
    signs = () if progress else _signs(failures)
    return Trouble(
        failures=len(failures),
        step=_step(len(failures), bool(progress), stuck_after=stuck_after, max_retries=max_retries),
        signs=(progress,) if progress else tuple(sign for sign, _ in signs),
        advice=tuple(advice for _, advice in signs),
        is_repeating=not progress and _is_repeating(failures),
        is_progressing=bool(progress),
        failed_model=failures[0].model,
    )


def warning(trouble: Trouble) -> list[str]:
    """Give a sentence or two for each sign of a stuck task, with another approach that fits it; one line each."""
    told = zip(trouble.signs, trouble.advice, strict=False)  # for a sign of progress there is no advice
    return [f"{sign[0].upper()}{sign[1:]}: {advice}" for sign, advice in told]


def _step(failures: int, is_progressing: bool, *, stuck_after: int, max_retries: int) -> Step:
    if failures > max_retries:
        return Step.PERSON
    if failures >= stuck_after and not is_progressing:
        return Step.DECOMPOSE
    return Step.STRONGER if failures >= STRONGER_AFTER else Step.REPORT


def _progress(failures: Sequence[Past]) -> str:
    """Give in what way the latest failure got further than all before it; empty if it did not."""
    latest, before = failures[0], failures[1:]
    if not before:
        return ""
    furthest = max(one.checks_passed for one in before)
    if latest.checks_passed > furthest:
        return f"gets further: {_count(furthest, 'gate')} passed, then {latest.checks_passed}"
    wrong = [one.checks_failed for one in before if one.checks_passed == furthest and one.checks_failed]
    if latest.checks_passed == furthest and wrong and 0 < latest.checks_failed < min(wrong):
        return f"gets further: {_count(min(wrong), 'failing check')}, then {latest.checks_failed}"
    return ""


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _signs(failures: Sequence[Past]) -> tuple[tuple[str, str], ...]:
    """Give what the failures have in common, and another approach for each."""
    errors, idle, twin = _same_errors(failures), _idle(failures), _same_change(failures)
    found = []
    if errors > 1:
        found.append((f"the same error came {errors} times in a row", SMALLEST))
    if idle:
        found.append((f"the last {'two attempts' if idle > 1 else 'attempt'} changed no file", CHANGE))
    if twin and twin is failures[1]:
        found.append(("the last two attempts left the same change", ELSEWHERE))
    elif twin:
        found.append((f"the last attempt left the same change as attempt {twin.number}", ELSEWHERE))
    return tuple(found)


def _is_repeating(failures: Sequence[Past]) -> bool:
    return _same_errors(failures) > 1 or _idle(failures) > 1 or _same_change(failures) is not None


def _same_errors(failures: Sequence[Past]) -> int:
    """Give how often the latest error came in a row."""
    latest = failures[0].fingerprint
    if not latest:
        return 0
    return next((n for n, one in enumerate(failures) if one.fingerprint != latest), len(failures))


def _idle(failures: Sequence[Past]) -> int:
    """Give how many of the latest failures in a row should have changed a file and did not."""
    return next((n for n, one in enumerate(failures) if not _is_idle(one)), len(failures))


def _is_idle(one: Past) -> bool:
    return one.hat in WRITING_HATS and not one.changed_files


def _same_change(failures: Sequence[Past]) -> Past | None:
    """Give the earlier failure that left the same change as the latest one."""
    latest = failures[0]
    if not latest.changed_files or not latest.change_mark:
        return None
    return next((one for one in failures[1:] if one.change_mark == latest.change_mark), None)
