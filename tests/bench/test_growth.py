"""Adding a memory costs about the same, however many there are."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.growth import DOORS, FEW, GROWTH, MANY, make_project

POSTGRES_GROWTH = 3.0
"""Ratio on PostgreSQL, where the server does most of the work, so that comparing a few similar memories counts more."""
ROUNDS = 20
"""Rounds of measurement before a ratio counts as too large; noise only ever adds time."""


@pytest.mark.slow
def test_one_memory_among_many_costs_little_more_cpu_than_one_among_few(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    growth = POSTGRES_GROWTH if request.config.getoption("--store") == "postgres" else GROWTH
    few, many = (make_project(tmp_path / str(count), count) for count in (FEW, MANY))

    for door, measure in DOORS.items():
        least = [measure(few), measure(many)]
        for _ in range(ROUNDS):
            if least[1] <= growth * least[0]:
                break
            least = [min(least[0], measure(few)), min(least[1], measure(many))]
        assert least[1] <= growth * least[0], door
