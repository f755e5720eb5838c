"""Links, pipes and names that lead out of a project, or nowhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ralph.core.errors import NotFoundError, RalphError
from ralph.formats.sync import sync
from ralph.project import Project
from ralph.store.maintenance.backup import backup_path
from ralph.workspace import init_project
from tests.cli.ran import run
from tests.faults import links
from tests.make import damaged_rows, set_up_project

pytestmark = pytest.mark.sqlite


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    links.make_clone(tmp_path / "clone")
    return tmp_path / "clone"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    return links.make_outside(tmp_path / "outside")


def put_link(path: Path, target: Path | str) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


@pytest.mark.slow
def test_no_thing_in_any_place_gets_at_what_is_outside(tmp_path: Path) -> None:
    shown = links.run(tmp_path, 16, 5)

    assert shown.lost == 0
    assert shown.tried == 16


def test_there_are_hundreds_of_cases() -> None:
    assert len(links.cases()) > 600


@pytest.mark.parametrize("linked", [".ralph", ".ralph/ralph.db"])
def test_a_project_that_a_link_leads_out_of_is_not_opened(
    clone: Path, outside: Path, linked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = links.state_of(outside)
    put_link(clone / linked, outside if linked == ".ralph" else outside / "ralph.db")

    ran = [run(capsys, clone, *words) for words in (("memory", "list"), ("backup",), ("restore", "--yes"))]

    assert [(one.code, one.error) for one in ran] == [(1, "outside-link")] * 3
    assert links.state_of(outside) == before


@pytest.mark.parametrize("name", [".ralph.toml", "ralph.yml"])
def test_settings_outside_are_not_read(
    clone: Path, outside: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    put_link(clone / name, outside / "settings")

    assert run(capsys, clone, "status").error == "invalid-config"


def test_a_link_inside_the_project_is_followed_and_stays(project: Project) -> None:
    kept = project.root / "docs" / "memories.md"
    kept.parent.mkdir()
    kept.write_text("# Memories\n\n## Patterns\n\n### mem-1-0001\n> Said in the docs.\n")
    put_link(project.root / ".agent" / "memories.md", "../docs/memories.md")

    with project.synced():
        project.memory.add("Learned later.")

    assert (project.root / ".agent" / "memories.md").is_symlink()
    assert "> Learned later." in kept.read_text()
    assert {one.content for one in project.store.memories.all()} == {"Said in the docs.", "Learned later."}


def test_settings_behind_a_link_inside_the_project_are_read(clone: Path) -> None:
    (clone / "settings").mkdir()
    (clone / "settings" / "ralph.toml").write_text("[memories]\nfiles = false\n")
    put_link(clone / ".ralph.toml", "settings/ralph.toml")

    with Project.open(clone) as project:
        assert not project.config.memories.files


def test_a_file_of_memories_that_is_a_link_to_the_database_is_left_alone(project: Project) -> None:
    put_link(project.root / ".agent" / "memories.md", "../.ralph/ralph.db")

    with project.synced():
        project.memory.add("Learned.")

    assert project.files.problems == [".agent/memories.md is a symlink to the database; it is not synced."]
    assert damaged_rows(project.store) == []


def test_memories_outside_are_not_copied_into_the_project(
    clone: Path, outside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put_link(clone / ".agent" / "memories.md", outside / "ralph.db")

    assert run(capsys, clone, "memory", "init", "--force").code == 1
    assert not (clone / ".agent" / "memories.md.bak").exists()


def test_skills_outside_are_not_moved_into_the_project(clone: Path, outside: Path) -> None:
    before = links.state_of(outside)
    put_link(clone / ".ralph" / "skills", outside)

    init_project(clone)

    assert links.state_of(outside) == before
    assert list((clone / ".claude" / "skills").iterdir()) == []


@pytest.mark.parametrize("place", [".ralph/knowledge", ".ralph/.gitignore", ".claude/skills"])
def test_a_directory_is_not_set_up_through_a_link(clone: Path, outside: Path, place: str) -> None:
    put_link(clone / place, outside / "new")

    with pytest.raises(RalphError) as refused:
        init_project(clone)

    assert refused.value.code == "outside-link"

    assert not (outside / "new").exists()


def test_backups_outside_are_none(clone: Path, outside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = links.state_of(outside)
    put_link(clone / ".ralph" / "backups", outside)

    assert run(capsys, clone, "restore", "--yes").code == 1
    assert links.state_of(outside) == before


def test_writers_do_not_queue_at_a_file_outside(clone: Path, outside: Path) -> None:
    put_link(clone / ".ralph" / "ralph.db.lock", outside / "new")

    with Project.open(clone) as project:
        project.memory.add("Learned.")

    assert not (outside / "new").exists()


def test_nobody_waits_for_a_pipe_in_the_place_of_the_queue(clone: Path) -> None:
    for ending in (".lock", ".next.lock"):
        (clone / ".ralph" / f"ralph.db{ending}").unlink(missing_ok=True)
        os.mkfifo(clone / ".ralph" / f"ralph.db{ending}")
    command = [sys.executable, "-m", "ralph", "-C", str(clone), "memory", "add", "Learned all the same."]

    asked = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)

    assert asked.returncode == 0, asked.stderr


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
def test_a_pipe_in_the_place_of_a_database_file_is_refused_at_once(clone: Path, ending: str) -> None:
    path = clone / ".ralph" / f"ralph.db{ending}"
    path.unlink(missing_ok=True)
    os.mkfifo(path)

    asked = subprocess.run(
        [sys.executable, "-m", "ralph", "-C", str(clone), "status"],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )

    assert asked.returncode == 1
    assert f"{path} is not a regular file" in asked.stderr


def test_a_pipe_in_the_place_of_a_mirrored_file_is_told_of(project: Project) -> None:
    folder = project.root / ".ralph" / "knowledge"
    folder.mkdir(exist_ok=True)
    os.mkfifo(folder / "pipe.md")
    (project.root / ".agent").mkdir(exist_ok=True)
    os.mkfifo(project.root / ".agent" / "memories.md")

    assert sync(project.store, project.root).problems == (
        ".agent/memories.md is not a regular file of at most 32 MB; it is not synced.",
        ".ralph/knowledge/pipe.md is not a regular file of at most 32 MB; it is not synced.",
    )


@pytest.mark.parametrize("linked", [".claude", ".claude/settings.local.json", ".ralph/setup"])
def test_setup_changes_nothing_outside_without_asking(
    clone: Path, outside: Path, linked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = links.state_of(outside)
    put_link(clone / linked, outside / "new.json" if linked.endswith(".json") else outside)

    assert run(capsys, clone, "setup", "claude", "--yes").code == 2
    assert links.state_of(outside) == before


def test_a_backup_with_a_name_that_no_file_can_have_is_not_found(tmp_path: Path) -> None:
    set_up_project(tmp_path)

    for name in ("x" * 5000, "../" * 2000, "nul\0byte"):
        with pytest.raises(NotFoundError):
            backup_path(str(tmp_path / ".ralph" / "ralph.db"), name)


def test_a_loop_of_links_is_a_file_that_cannot_be_written(project: Project) -> None:
    put_link(project.root / ".agent", ".agent")

    with project.synced():
        project.memory.add("Learned.")

    assert len(project.files.problems) == 1
    assert project.files.problems[0].startswith("Cannot write .agent/memories.md: ")


def test_a_store_that_the_settings_name_elsewhere_is_opened_as_ever(clone: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.db"
    shutil.move(clone / ".ralph" / "ralph.db", elsewhere)
    (clone / ".ralph.toml").write_text(f'[store]\nurl = "{elsewhere}"\nproject = "clone"\n')

    with Project.open(clone) as project:
        assert project.store.database.display_url == str(elsewhere)
