from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.records import FAILED_OUTCOMES, AttemptOutcome, record_fields, replace
from ralph.loop.stuck import EscalationStep, PastAttempt, StuckState, assess_attempts, stuck_warning_lines


def failures(*newest_first: Mapping[str, object]) -> list[PastAttempt]:
    """Give failed attempts that have nothing in common but what is said."""
    count = len(newest_first)
    return [
        replace(
            PastAttempt(
                number=count - n, outcome=AttemptOutcome.RETRIED, fingerprint=f"error {n}", change_mark=f"change {n}"
            ),
            **said,
        )
        for n, said in enumerate(newest_first)
    ]


def seen(past: list[PastAttempt], stuck_after: int = 3, max_retries: int = 10) -> StuckState:
    return assess_attempts(past, stuck_after=stuck_after, max_retries=max_retries)


# --- the steps -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "step"), [(0, "none"), (1, "report"), (2, "stronger"), (3, "decompose"), (4, "person"), (9, "person")]
)
def test_failures_lead_from_a_report_to_a_person(count: int, step: str) -> None:
    trouble = assess_attempts(failures(*[{}] * count), stuck_after=3, max_retries=3)

    assert trouble.step == step
    assert trouble.failures == count


@pytest.mark.parametrize(
    ("stuck_after", "max_retries", "steps"),
    [
        (0, 3, ["decompose", "decompose", "decompose", "person"]),
        (1, 3, ["decompose", "decompose", "decompose", "person"]),
        (2, 3, ["report", "decompose", "decompose", "person"]),
        (5, 10, ["report", "stronger", "stronger", "stronger", "decompose", "decompose"]),
        (5, 3, ["report", "stronger", "stronger", "person"]),
        (3, 1, ["report", "person"]),
        (3, 0, ["person"]),
        (1, 0, ["person"]),
    ],
)
def test_the_steps_follow_the_settings(stuck_after: int, max_retries: int, steps: list[str]) -> None:
    found = [seen(failures(*[{}] * count), stuck_after, max_retries).step for count in range(1, len(steps) + 1)]

    assert found == steps


def test_interruptions_and_hand_overs_are_no_failures() -> None:
    past = failures(
        {"outcome": AttemptOutcome.INTERRUPTED}, {}, {"outcome": AttemptOutcome.DONE}, {"outcome": AttemptOutcome.ERROR}
    )

    assert seen(past).failures == 2
    assert seen([past[0], past[2]]) == StuckState()


def test_an_interruption_does_not_part_what_repeats() -> None:
    past = failures({"fingerprint": "e"}, {"outcome": AttemptOutcome.INTERRUPTED}, {"fingerprint": "e"})

    assert seen(past).signs == ("the same error occurred 2 times in a row",)


def test_the_model_that_failed_last_is_told() -> None:
    past = failures({"outcome": AttemptOutcome.INTERRUPTED, "model": "c"}, {"model": "b"}, {"model": "a"})

    assert seen(past).failed_model == "b"


# --- signs ------------------------------------------------------------------------


def test_failures_that_differ_have_nothing_in_common() -> None:
    trouble = seen(failures({}, {}, {}))

    assert trouble.signs == ()
    assert not trouble.is_repeating
    assert trouble.step is EscalationStep.DECOMPOSE


def test_the_same_error_is_counted_as_long_as_it_came_in_a_row() -> None:
    same = {"fingerprint": "e"}

    assert seen(failures(same, same, same, {}, same)).signs == ("the same error occurred 3 times in a row",)
    assert seen(failures(same, {}, same)).signs == ()


def test_failures_without_a_report_have_no_error_in_common() -> None:
    assert not seen(failures({"fingerprint": ""}, {"fingerprint": ""})).is_repeating


def test_one_attempt_without_a_change_is_a_sign_and_two_are_a_repetition() -> None:
    idle = {"changed_files": False, "change_mark": ""}

    once, twice, before = seen(failures(idle, {})), seen(failures(idle, idle)), seen(failures({}, idle))

    assert (once.signs, once.is_repeating) == (("the last attempt changed no file",), False)
    assert (twice.signs, twice.is_repeating) == (("the last two attempts changed no file",), True)
    assert before.signs == ()


@pytest.mark.parametrize("hat", ["explorer", "planner", "critic"])
def test_a_hat_that_only_reads_need_not_change_files(hat: str) -> None:
    idle = {"changed_files": False, "change_mark": "", "hat": hat}

    assert seen(failures(idle, idle)) == StuckState(failures=2, step=EscalationStep.STRONGER)


def test_the_same_change_again_is_a_repetition() -> None:
    same = {"change_mark": "c"}

    in_a_row, back_again = seen(failures(same, same)), seen(failures(same, {}, same))

    assert (in_a_row.signs, in_a_row.is_repeating) == (("the last two attempts left the same change",), True)
    assert back_again.signs == ("the last attempt left the same change as attempt 1",)
    assert back_again.is_repeating


def test_no_change_is_not_the_same_change() -> None:
    empty = {"change_mark": "of nothing", "changed_files": False}

    assert seen(failures(empty, empty)).signs == ("the last two attempts changed no file",)


def test_one_failure_repeats_nothing() -> None:
    assert not seen(failures({"changed_files": False})).is_repeating


# --- progress -----------------------------------------------------------------------


def test_fewer_failing_checks_are_progress() -> None:
    trouble = seen(failures({"checks_failed": 1}, {"checks_failed": 3}, {"checks_failed": 7}))

    assert trouble.is_progressing
    assert trouble.step is EscalationStep.STRONGER
    assert trouble.signs == ("gets further: 3 failing checks, then 1",)
    assert stuck_warning_lines(trouble) == []


def test_more_gates_passed_are_progress_whatever_fails_in_the_next() -> None:
    trouble = seen(failures({"checks_passed": 2, "checks_failed": 50}, {"checks_passed": 1, "checks_failed": 1}, {}))

    assert trouble.step is EscalationStep.STRONGER
    assert trouble.signs == ("gets further: 1 gate passed, then 2",)


def test_progress_is_no_repetition_though_the_error_reads_the_same() -> None:
    same = {"fingerprint": "# tests failed"}

    trouble = seen(failures({**same, "checks_failed": 2}, {**same, "checks_failed": 9}))

    assert trouble.is_progressing
    assert not trouble.is_repeating


@pytest.mark.parametrize(
    ("latest", "before"),
    [
        ([2, 3], [[2, 3]]),
        ([2, 4], [[2, 3]]),
        ([1, 1], [[2, 3]]),
        ([2, 0], [[2, 3]]),
        ([2, 1], [[2, 0]]),
        ([2, 2], [[2, 3], [2, 1]]),
        ([1, 1], [[1, 5], [2, 9]]),
        ([1, 0], []),
    ],
)
def test_not_further_than_all_before_is_no_progress(latest: list[int], before: list[list[int]]) -> None:
    past = failures(*({"checks_passed": passed, "checks_failed": failed} for passed, failed in [latest, *before]))

    assert not seen(past).is_progressing


def test_a_task_whose_progress_ended_is_stuck() -> None:
    past = failures({"checks_failed": 1}, {"checks_failed": 1}, {"checks_failed": 5})

    assert seen(past).step is EscalationStep.DECOMPOSE


def test_progress_does_not_keep_a_task_from_the_person_it_waits_for() -> None:
    past = failures({"checks_failed": 1}, {"checks_failed": 2})

    assert assess_attempts(past, stuck_after=3, max_retries=1).step is EscalationStep.PERSON


# --- the warning ---------------------------------------------------------------------


def test_each_sign_gets_its_own_approach() -> None:
    error, change, idle = {"fingerprint": "e"}, {"change_mark": "c"}, {"changed_files": False}

    assert "smallest" in "".join(stuck_warning_lines(seen(failures(error, error))))
    assert "Undo it" in "".join(stuck_warning_lines(seen(failures(change, change))))
    assert "make a change," in "".join(stuck_warning_lines(seen(failures(idle, {}))))
    assert stuck_warning_lines(seen(failures({}, {}))) == []


def test_the_warning_has_a_line_for_each_sign() -> None:
    same = {"fingerprint": "e", "change_mark": "c"}

    lines = stuck_warning_lines(seen(failures(same, same, same)))

    assert lines[0].startswith("The same error occurred 3 times in a row: ")
    assert lines[1].startswith("The last two attempts left the same change: ")
    assert all(line.endswith(".") for line in lines)


# --- any past ----------------------------------------------------------------------------

MARKS = st.sampled_from(["", "a", "b"])
PASTS = st.lists(
    st.builds(
        PastAttempt,
        number=st.integers(1, 20),
        hat=st.sampled_from(["creator", "planner", "editor"]),
        model=MARKS,
        outcome=st.sampled_from(AttemptOutcome),
        fingerprint=MARKS,
        changed_files=st.booleans(),
        change_mark=MARKS,
        checks_passed=st.integers(0, 3),
        checks_failed=st.integers(0, 3),
    ),
    max_size=12,
)


@given(PASTS, st.integers(0, 12), st.integers(0, 10))
def test_any_past_gives_a_step_that_fits(past: list[PastAttempt], stuck_after: int, max_retries: int) -> None:
    trouble = assess_attempts(past, stuck_after=stuck_after, max_retries=max_retries)

    assert trouble.failures == sum(one.outcome in FAILED_OUTCOMES for one in past)
    assert (trouble.step is EscalationStep.NONE) == (trouble.failures == 0)
    assert (trouble.step is EscalationStep.PERSON) == (trouble.failures > max_retries)
    assert not (trouble.is_progressing and (trouble.is_repeating or trouble.step is EscalationStep.DECOMPOSE))
    assert not (trouble.is_repeating and not trouble.signs)
    assert len(stuck_warning_lines(trouble)) == len(trouble.advice)
    assert all(text == text.strip() and "\n" not in text for text in trouble.signs)


@given(PASTS)
def test_what_is_no_failure_changes_nothing(past: list[PastAttempt]) -> None:
    only_failures = [one for one in past if one.outcome in FAILED_OUTCOMES]

    assert record_fields(seen(past)) == record_fields(seen(only_failures))
