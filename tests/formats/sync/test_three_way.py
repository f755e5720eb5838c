from __future__ import annotations

import itertools

import pytest

from ralph.formats.sync.three_way import Step, decide

TEXTS = (None, "a", "b", "c")


@pytest.mark.parametrize(
    ("base", "file", "store", "step", "is_conflict"),
    [
        (None, None, None, Step.NOTHING, False),
        ("a", "a", "a", Step.NOTHING, False),
        ("a", "b", "b", Step.NOTHING, False),
        ("a", "b", "a", Step.TAKE, False),
        ("a", "a", "b", Step.WRITE, False),
        ("a", "b", "c", Step.TAKE, True),
        (None, "a", None, Step.TAKE, False),
        (None, None, "a", Step.WRITE, False),
        (None, "a", "b", Step.TAKE, True),
        ("a", None, "a", Step.DELETE, False),
        ("a", None, "b", Step.WRITE, True),
        ("a", "a", None, Step.REMOVE, False),
        ("a", "b", None, Step.TAKE, True),
        ("a", None, None, Step.NOTHING, False),
    ],
)
def test_each_side_that_alone_has_changed_wins_and_a_person_wins_a_conflict(
    base: str | None, file: str | None, store: str | None, step: Step, is_conflict: bool
) -> None:
    assert decide(base, file, store) == (step, is_conflict)


def test_no_step_loses_a_text_that_only_one_side_has() -> None:
    for base, file, store in itertools.product(TEXTS, repeat=3):
        step, _ = decide(base, file, store)

        if step in (Step.REMOVE, Step.DELETE):
            assert base is not None
            assert (file if step is Step.REMOVE else store) == base  # it was agreed on, and the other side took it out
