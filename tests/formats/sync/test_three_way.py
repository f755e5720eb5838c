from __future__ import annotations

import itertools

import pytest

from ralph.formats.sync.three_way import SyncAction, decide_sync

TEXTS = (None, "a", "b", "c")


@pytest.mark.parametrize(
    ("base", "file", "store", "step", "is_conflict"),
    [
        (None, None, None, SyncAction.NOTHING, False),
        ("a", "a", "a", SyncAction.NOTHING, False),
        ("a", "b", "b", SyncAction.NOTHING, False),
        ("a", "b", "a", SyncAction.IMPORT, False),
        ("a", "a", "b", SyncAction.EXPORT, False),
        ("a", "b", "c", SyncAction.IMPORT, True),
        (None, "a", None, SyncAction.IMPORT, False),
        (None, None, "a", SyncAction.EXPORT, False),
        (None, "a", "b", SyncAction.IMPORT, True),
        ("a", None, "a", SyncAction.DELETE, False),
        ("a", None, "b", SyncAction.EXPORT, True),
        ("a", "a", None, SyncAction.REMOVE, False),
        ("a", "b", None, SyncAction.IMPORT, True),
        ("a", None, None, SyncAction.NOTHING, False),
    ],
)
def test_each_side_that_alone_has_changed_wins_and_a_person_wins_a_conflict(
    base: str | None, file: str | None, store: str | None, step: SyncAction, is_conflict: bool
) -> None:
    assert decide_sync(base, file, store) == (step, is_conflict)


def test_no_step_loses_a_text_that_only_one_side_has() -> None:
    for base, file, store in itertools.product(TEXTS, repeat=3):
        step, _ = decide_sync(base, file, store)

        if step in (SyncAction.REMOVE, SyncAction.DELETE):
            assert base is not None
            assert (
                file if step is SyncAction.REMOVE else store
            ) == base  # it was agreed on, and the other side took it out
