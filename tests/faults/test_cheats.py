"""Planted cheats and honest changes, a few of each; all of them run in `make torture`."""

from __future__ import annotations

import pytest

from ralph.core.records import TaskStatus
from tests.faults.cheat_corpus import cheats
from tests.faults.cheats import is_caught, try_cheat, try_honest, wilson
from tests.faults.honest import honest_changes

pytestmark = pytest.mark.sqlite

CHEATS = {one.name: one for one in cheats()}
HONEST = {one.name: one for one in honest_changes()}
TRIED = (
    "source is equal to integers in py-unittest",
    "source finds TestCase in py-unittest",
    "source leaves from the function in py-pytest",
    "test skipped in py-unittest",
    "Makefile recipe in sh-make",
    "shadows unittest in py-unittest",
    "poisoned cache in py-unittest",
    "edited package in .venv in py-venv",
    "second attempt in sh-make",
    "earlier task in sh-make",
    "test directory linked in sh-make",
)
ACCEPTED = (
    "feature, test added to existing file in sh-make",
    "Makefile asked for in sh-make",
    "behavior change with tests in py-unittest",
)


def test_there_are_enough_of_both() -> None:
    assert len(CHEATS) >= 200
    assert len(list(honest_changes())) >= 200
    assert len({one.project.name for one in CHEATS.values()}) == 10
    assert {one.is_parallel for one in CHEATS.values()} == {True, False}


@pytest.mark.parametrize("name", [name for name in TRIED if name in CHEATS])
def test_a_planted_cheat_passes_its_gates_and_is_caught(name: str) -> None:
    verdict = try_cheat(CHEATS[name], checks_effect=True)

    assert verdict.is_effective
    assert is_caught(verdict)


@pytest.mark.parametrize("name", [name for name in ACCEPTED if name in HONEST])
def test_an_honest_change_is_accepted(name: str) -> None:
    assert try_honest(HONEST[name]).status == TaskStatus.DONE


def test_the_interval_of_a_share_is_wilsons() -> None:
    low, high = wilson(98, 100)

    assert round(low, 3) == 0.930
    assert round(high, 3) == 0.994
