"""Many writers of one SQLite file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.contention import LONGEST_SECONDS, write

pytestmark = pytest.mark.sqlite


def test_no_writer_is_refused_and_none_waits_long(tmp_path: Path) -> None:
    done = write(tmp_path, 12, 30)

    assert len(done.waits) == 12 * 30
    assert (done.errors, done.missing) == ([], 0)
    assert done.waits[-1] < LONGEST_SECONDS
    # They were really in each other's way, and nobody was served at once while others had to wait.
    assert done.at(0.5) > 2 * done.waits[0]
