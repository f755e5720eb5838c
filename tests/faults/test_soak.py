"""Everything at once, for a few seconds: `make soak` does it for half an hour."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import soak


@pytest.mark.slow
@pytest.mark.sqlite
def test_loops_servers_and_writers_that_are_killed_lose_nothing_and_leave_nothing(tmp_path: Path) -> None:
    shown = soak.run(tmp_path, 10, seed=1)

    assert shown.lost == 0
    assert shown.tried >= 3
