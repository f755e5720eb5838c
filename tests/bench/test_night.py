"""A short night with every disturbance gets done what an undisturbed one gets done."""

from __future__ import annotations

import pytest
from bench.night import DISTURBANCES, play_night

pytestmark = pytest.mark.slow


def test_every_disturbance_in_a_short_night_costs_nothing() -> None:
    night = play_night(5, tuple(dict.fromkeys(DISTURBANCES)))

    assert set(DISTURBANCES) <= set(night.happened)
    assert night.done == night.commits == 5
    assert night.failing_commits == 0
    assert night.used_up == night.happened.get("bad", 0), night.detail
    assert night.spent_usd <= night.limit_usd
