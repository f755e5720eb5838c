"""Power loss on a real filesystem: what was acknowledged is there afterwards."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.faults.power import files_not_kept, run, why_not

pytestmark = [pytest.mark.sqlite, pytest.mark.skipif(bool(why_not()), reason=why_not() or "it can be tried")]


def test_what_was_acknowledged_outlives_a_power_loss(tmp_path: Path) -> None:
    shown = run(tmp_path, 4, 7)

    assert (shown.tried, shown.lost) == (4, 0)
    counts = [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?= )", shown.says)]
    assert counts[0] >= 4  # in each cycle something was acknowledged
    assert counts[1] >= 1  # and the power went in the middle of something


def test_every_file_that_is_acknowledged_is_on_the_disk(tmp_path: Path) -> None:
    assert files_not_kept(tmp_path) == []
