"""Two working copies that keep one project in one file: neither takes away what only the other has written down."""

from __future__ import annotations

from pathlib import Path

import pytest

from ralph.project import Project
from ralph.store.memory_queries import MemoryFilter
from ralph.workspace import init_project

pytestmark = pytest.mark.sqlite


def known(directory: Path) -> set[str]:
    with Project.open(directory) as project:
        return {memory.content for memory in project.memory.list(MemoryFilter())}


def test_what_one_learned_stays_when_the_other_brings_its_files_up_to_date(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for directory in (one, other):
        directory.mkdir()
        init_project(directory, url=str(tmp_path / "ralph.db"), name="p")
    for directory, fact in ((one, "Learned in one."), (other, "Learned in the other."), (one, "And once more.")):
        with Project.open(directory) as project, project.synced():
            project.memory.add(fact)

    assert known(one) == known(other) == {"Learned in one.", "Learned in the other.", "And once more."}
    assert "Learned in the other." in (one / ".agent/memories.md").read_text()
