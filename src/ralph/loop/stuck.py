"""Detection of stuck tasks.

Counting failures alone gives false alarms: an attempt that got further than all
before it is progress, whatever else it has in common with them.
"""

from __future__ import annotations

from enum import StrEnum

from ralph.core.records import FAILED_OUTCOMES, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.core.records import AttemptOutcome

STRONGER_MODEL_AFTER = 2
"""Number of consecutive failures after which a stronger model is used."""
NO_CHANGE_MARK = "nothing"
"""Change mark of an attempt that changed no file."""
WRITING_HATS = ("creator", "editor")
"""Hats that are expected to change files."""

REPRODUCE_HINT = "reproduce it with the smallest example that shows it, and read the output before anything else."
MAKE_CHANGE_HINT = "make a change, however small, or explain in the failure report what prevents it."
OTHER_PLACE_HINT = "that change does not help. Undo it and start elsewhere."


class EscalationStep(StrEnum):
    """Step of the escalation path of a failing task."""

    NONE = "none"
    REPORT = "report"
    """The next attempt is told what failed."""
    STRONGER = "stronger"
    """It also gets a stronger model."""
    DECOMPOSE = "decompose"
    """It is also warned, and asked to split the task."""
    PERSON = "person"
    """It waits for a person before the next attempt."""


@record
class PastAttempt:
    """Finished attempt at a task since it was last reset or done."""

    number: int
    hat: str = "creator"
    model: str = ""
    outcome: AttemptOutcome
    fingerprint: str = ""
    """Hash of the error; empty when there is no failure report."""
    changed_files: bool = True
    """True also where that is unknown."""
    change_mark: str = ""
    """Hash of the changed files and their content."""
    checks_passed: int = 0
    """Number of gates passed."""
    checks_failed: int = 0
    """Number of failing checks reported by the gates; 0 when unknown."""


@record
class StuckState:
    """Common traits of the failures of a task since it was last reset or done."""

    failures: int = 0
    step: EscalationStep = EscalationStep.NONE
    signs: tuple[str, ...] = ()
    """Sentences without a period; for a task that makes progress, how far it got."""
    advice: tuple[str, ...] = ()
    """Alternative approach for each of the signs."""
    is_repeating: bool = False
    """Whether the same error occurred twice in a row, the same change again, or no change twice in a row."""
    is_progressing: bool = False
    """Whether the latest failure got further than all before it."""
    failed_model: str = ""
    """Model of the latest failure."""


def assess_attempts(attempts: Sequence[PastAttempt], *, stuck_after: int, max_retries: int) -> StuckState:
    """Return how stuck a task is, given its attempts, newest first.

    Only failures count: interruptions and hand-overs say nothing about the task.
    """
    failures = [one for one in attempts if one.outcome in FAILED_OUTCOMES]
    if not failures:
        return StuckState()
    progress = _progress(failures)
    signs = () if progress else _signs(failures)
    return StuckState(
        failures=len(failures),
        step=_step(len(failures), bool(progress), stuck_after=stuck_after, max_retries=max_retries),
        signs=(progress,) if progress else tuple(sign for sign, _ in signs),
        advice=tuple(advice for _, advice in signs),
        is_repeating=not progress and _is_repeating(failures),
        is_progressing=bool(progress),
        failed_model=failures[0].model,
    )


def stuck_warning_lines(stuck_state: StuckState) -> list[str]:
    """Return one line for each sign of a stuck task, with a suitable alternative approach."""
    pairs = zip(stuck_state.signs, stuck_state.advice, strict=False)  # signs of progress have no advice
    return [f"{sign[0].upper()}{sign[1:]}: {advice}" for sign, advice in pairs]


def _step(failures: int, is_progressing: bool, *, stuck_after: int, max_retries: int) -> EscalationStep:
    if failures > max_retries:
        return EscalationStep.PERSON
    if failures >= stuck_after and not is_progressing:
        return EscalationStep.DECOMPOSE
    return EscalationStep.STRONGER if failures >= STRONGER_MODEL_AFTER else EscalationStep.REPORT


def _progress(failures: Sequence[PastAttempt]) -> str:
    """Return how the latest failure got further than all before it, or an empty string."""
    latest, before = failures[0], failures[1:]
    if not before:
        return ""
    furthest = max(one.checks_passed for one in before)
    if latest.checks_passed > furthest:
        return f"gets further: {_count(furthest, 'gate')} passed, then {latest.checks_passed}"
    failing = [one.checks_failed for one in before if one.checks_passed == furthest and one.checks_failed]
    if latest.checks_passed == furthest and failing and 0 < latest.checks_failed < min(failing):
        return f"gets further: {_count(min(failing), 'failing check')}, then {latest.checks_failed}"
    return ""


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _signs(failures: Sequence[PastAttempt]) -> tuple[tuple[str, str], ...]:
    """Return what the failures have in common, with an alternative approach for each."""
    errors, idle, repeated = _same_errors(failures), _idle(failures), _same_change(failures)
    found = []
    if errors > 1:
        found.append((f"the same error occurred {errors} times in a row", REPRODUCE_HINT))
    if idle:
        found.append((f"the last {'two attempts' if idle > 1 else 'attempt'} changed no file", MAKE_CHANGE_HINT))
    if repeated and repeated is failures[1]:
        found.append(("the last two attempts left the same change", OTHER_PLACE_HINT))
    elif repeated:
        found.append((f"the last attempt left the same change as attempt {repeated.number}", OTHER_PLACE_HINT))
    return tuple(found)


def _is_repeating(failures: Sequence[PastAttempt]) -> bool:
    return _same_errors(failures) > 1 or _idle(failures) > 1 or _same_change(failures) is not None


def _same_errors(failures: Sequence[PastAttempt]) -> int:
    """Return how many times in a row the latest error occurred."""
    latest = failures[0].fingerprint
    if not latest:
        return 0
    return next((n for n, one in enumerate(failures) if one.fingerprint != latest), len(failures))


def _idle(failures: Sequence[PastAttempt]) -> int:
    """Return how many of the latest failures in a row should have changed a file but did not."""
    return next((n for n, one in enumerate(failures) if not _is_idle(one)), len(failures))


def _is_idle(one: PastAttempt) -> bool:
    return one.hat in WRITING_HATS and not one.changed_files


def _same_change(failures: Sequence[PastAttempt]) -> PastAttempt | None:
    """Return the earlier failure that left the same change as the latest one."""
    latest = failures[0]
    if not latest.changed_files or not latest.change_mark:
        return None
    return next((one for one in failures[1:] if one.change_mark == latest.change_mark), None)
