"""Bars of long commands: with totals on a terminal's standard error, and never anywhere else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ralph.cli.bars import ProgressBar
from ralph.core.tracking import Tracking, is_tracked, report_progress, track
from ralph.maintenance import backup_project, check_project, copy_store, reindex_project
from ralph.project import Project
from tests.cli.terminal import at_terminal
from tests.make import a_memory, remember

MEMORIES = 30


@pytest.fixture
def here(project: Project) -> Path:
    for number in range(MEMORIES):
        remember(project.store, a_memory(f"Title {number}", f"Something about number {number}."))
    return project.root


def told(work: Callable[[], object]) -> dict[str, tuple[int, int]]:
    """Return the last report of each step of some work, and check that none goes beyond its total."""
    seen: dict[str, tuple[int, int]] = {}

    def listen(what: str, done: int, total: int) -> None:
        assert 0 <= done <= total or not total, (what, done, total)
        seen[what] = (done, total)

    with Tracking(listen):
        work()
    assert not is_tracked()
    return seen


def test_every_long_operation_says_how_far_it_is(here: Path, project: Project, tmp_path: Path) -> None:
    indexed = told(lambda: reindex_project(here))["Indexing entries"]
    assert indexed == (MEMORIES, MEMORIES)
    if not project.store.is_shared:
        assert told(lambda: check_project(here, deep=True))["Checking memory"] == (MEMORIES - 1, MEMORIES)
        assert "Copying the database" in told(lambda: backup_project(here))
    compared = told(lambda: check_project(here, deep=True))["Comparing the index of memories"]
    assert compared[1] == MEMORIES
    copied = told(lambda: copy_store(str(here), str(tmp_path / "copy.db")))
    assert copied["Copying memory"] == (MEMORIES, MEMORIES)
    assert "Comparing memory" in copied


def test_an_import_counts_what_it_imports(project: Project, tmp_path: Path) -> None:
    one = {"id": "", "type": "fix", "title": "", "content": "", "confidence": 0.5, "tags": [], "file_refs": []}
    memories = [{**one, "id": f"mem-{n}", "title": f"Title {n}", "content": f"About {n}."} for n in range(MEMORIES)]
    file = tmp_path / "memories.json"
    file.write_text(json.dumps({"version": 1, "project": "x", "exported_at": "2026-01-01", "memories": memories}))

    seen = told(lambda: project.transfer.import_path(file))

    assert seen["Importing memories of memories.json"] == (MEMORIES - 1, MEMORIES)


def test_nobody_listens_by_default() -> None:
    report_progress("Something", 1, 2)
    assert list(track("Something", [1, 2], 2)) == [1, 2]


@pytest.mark.parametrize("columns", [20, 40, 60, 140])
def test_a_bar_fits_on_its_line(columns: int) -> None:
    bar = ProgressBar()
    for done, total in ((0, 0), (0, 50_000), (25_000, 50_000), (50_000, 50_000), (7, 5)):
        bar.show("Comparing the index of journal entries", done, total)
        assert len(bar._line(columns)) < columns


SLOW = """
import sys, time
from ralph.cli.bars import progress_bar
from ralph.core.tracking import report_progress
with progress_bar():
    for number in range(10):
        report_progress("Counting", number, 10)
        time.sleep(0.1)
print("counted")
"""


def test_without_a_terminal_nothing_is_drawn() -> None:
    ran = subprocess.run([sys.executable, "-c", SLOW], capture_output=True, text=True, check=True)

    assert (ran.stdout, ran.stderr) == ("counted\n", "")


def test_on_a_terminal_it_is_drawn_and_cleared(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    code, seen = at_terminal(tmp_path, program=[sys.executable, str(tmp_path / "slow.py")])

    assert code == 0
    assert re.search(r"Counting: \d of 10  \d s", seen)
    assert seen.endswith("\r\x1b[Kcounted\n")
