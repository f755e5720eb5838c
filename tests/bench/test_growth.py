"""Adding a memory costs about the same, however many there are."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.growth import DOORS, FEW, GROWTH, MANY, make_project

ROUNDS = 20
"""Rounds of measurement before a ratio counts as too large; noise only ever adds time."""


@pytest.mark.slow
def test_one_memory_among_many_costs_at_most_twice_the_cpu_of_one_among_few(tmp_path: Path) -> None:
    few, many = (make_project(tmp_path / str(count), count) for count in (FEW, MANY))

    for door, measure in DOORS.items():
        least = [measure(few), measure(many)]
        for _ in range(ROUNDS):
            if least[1] <= GROWTH * least[0]:
                break
            least = [min(least[0], measure(few)), min(least[1], measure(many))]
        assert least[1] <= GROWTH * least[0], door
