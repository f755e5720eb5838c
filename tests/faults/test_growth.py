"""A few requests of each kind; `make torture` asks tens of thousands and looks at the memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import growth
from tests.faults.growth import slope


@pytest.mark.sqlite
def test_all_kinds_of_requests_are_answered(tmp_path: Path) -> None:
    shown = growth.run(tmp_path, 120, seed=1)

    assert shown.lost == 0
    assert shown.tried >= 120


def test_a_slope_is_told_from_noise() -> None:
    noise = [1.0, -1.0, 2.0, -2.0, 0.0] * 8
    flat = slope([(float(x), 100 + noise[x]) for x in range(40)])
    steep = slope([(float(x), 100 + noise[x] + x) for x in range(40)])

    assert abs(flat.value) < flat.error
    assert steep.value - steep.error > 0.9
