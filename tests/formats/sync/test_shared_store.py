"""Files of several working copies of one project, whose store they share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ralph.core.records import MemoryState
from ralph.project import Project
from ralph.workspace import init_project

pytestmark = pytest.mark.postgres
MEMORIES = ".agent/memories.md"

Copy = Callable[[str], Path]


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    """Give a way to make one more working copy of the same project."""

    def make(name: str) -> Path:
        directory = tmp_path / name
        directory.mkdir()
        init_project(directory, name="team")
        return directory

    return make


def learn(directory: Path, *contents: str, kind: str = "pattern") -> list[str]:
    with Project.open(directory) as project, project.synced():
        return [project.memory.add(one, type=kind, tags=("t",)).memory.id for one in contents]


def known(directory: Path) -> set[str]:
    with Project.open(directory) as project:
        project.files.sync()
        return {memory.content for memory in project.store.memories.all()}


def test_what_one_learns_is_in_the_files_of_the_other(copy: Copy) -> None:
    one, other = copy("one"), copy("other")
    learn(one, "Docker first")
    learn(one, "Money is rounded half up", kind="knowledge")

    known(other)

    assert "Docker first" in (other / MEMORIES).read_text()
    assert any("half up" in file.read_text() for file in (other / ".ralph/knowledge").glob("*.md"))


def test_entries_that_git_takes_away_in_one_copy_are_not_forgotten_for_all(copy: Copy) -> None:
    one, other = copy("one"), copy("other")
    learn(one, "Docker first", "Podman second", "Tabs third")
    learn(one, "Money is rounded half up", kind="knowledge")
    everything = known(other)
    before = (one / MEMORIES).read_text()

    head, *blocks = before.split("### mem-")
    rest = blocks[-1].partition("\n## ")[2]
    (one / MEMORIES).write_text(f"{head}### mem-{blocks[0]}## {rest}")
    for file in (one / ".ralph/knowledge").glob("*.md"):
        file.unlink()

    assert known(one) == everything
    assert "Tabs third" in (one / MEMORIES).read_text()
    assert len(list((one / ".ralph/knowledge").glob("*.md"))) == 1
    (one / MEMORIES).unlink()
    assert known(one) == known(other) == everything


def test_what_a_person_deleted_is_not_brought_back_by_a_fresh_clone(copy: Copy) -> None:
    one = copy("one")
    (id,) = learn(one, "Docker first")
    (note,) = learn(one, "Money is rounded half up", kind="knowledge")
    learn(one, "Stays")
    files = {path: path.read_bytes() for path in (one / MEMORIES, *(one / ".ralph/knowledge").glob("*.md"))}
    with Project.open(one) as project, project.synced():
        project.memory.delete(id, note)

    clone = copy("clone")
    for path, content in files.items():
        target = clone / path.relative_to(one)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)

    assert known(clone) == {"Stays"}
    assert "Docker first" not in (clone / MEMORIES).read_text()
    assert not list((clone / ".ralph/knowledge").glob("*.md"))
    with Project.open(clone) as project:
        assert project.store.memories.get(id).state is MemoryState.PRUNED


def test_an_old_text_in_a_fresh_clone_does_not_win_over_the_store(copy: Copy) -> None:
    one = copy("one")
    (id,) = learn(one, "Docker first")
    old = (one / MEMORIES).read_bytes()
    with Project.open(one) as project, project.synced():
        project.memory.edit(id, content="Podman first")

    clone = copy("clone")
    (clone / ".agent").mkdir(exist_ok=True)
    (clone / MEMORIES).write_bytes(old)

    assert known(clone) == {"Podman first"}
    assert "Podman first" in (clone / MEMORIES).read_text()


def test_an_edit_and_a_new_entry_in_one_copy_reach_the_other(copy: Copy) -> None:
    one, other = copy("one"), copy("other")
    learn(one, "Docker first")
    known(other)

    text = (other / MEMORIES).read_text()
    (other / MEMORIES).write_text(text.replace("> Docker first", "> Podman first"))

    assert known(other) == known(one) == {"Podman first"}
    assert "Podman first" in (one / MEMORIES).read_text()


def test_a_copied_folder_is_another_working_copy(copy: Copy, tmp_path: Path) -> None:
    import shutil

    one = copy("one")
    learn(one, "Docker first")
    shutil.copytree(one, tmp_path / "moved")
    (tmp_path / "moved" / MEMORIES).unlink()

    assert known(tmp_path / "moved") == {"Docker first"}
    assert (one / ".ralph/place").read_text() != (tmp_path / "moved/.ralph/place").read_text()


def test_a_working_copy_that_was_not_seen_for_long_is_forgotten_and_may_come_back(copy: Copy) -> None:
    old = copy("old")
    learn(old, "Docker first")
    learn(old, "Money is rounded half up", kind="knowledge")
    with Project.open(old) as project:
        project.store.database.execute("UPDATE synced_places SET seen_at = '2020-01-01T00:00:00.000Z'")

    new = copy("new")
    known(new)

    with Project.open(new) as project:
        places = project.store.database.query("SELECT DISTINCT place FROM synced_entries")
        assert (old / ".ralph/place").read_text().split()[0] not in {row["place"] for row in places}
    assert known(old) == known(new) == {"Docker first", "Money is rounded half up"}
