"""`ralph doctor`: what it finds, and what it says to do."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from ralph.project import Project, init_project
from ralph.records import Memory, State, now
from ralph.store.memories import Change
from tests.cli.ran import Ralph, run


@pytest.fixture
def here(tmp_path: Path) -> Path:
    init_project(tmp_path)
    return tmp_path


@pytest.fixture
def ralph(here: Path, capsys: pytest.CaptureFixture[str]) -> Ralph:
    return lambda *words: run(capsys, here, *words)


def stage(here: Path, body: str) -> None:
    with Project.open(here) as project:
        at = now()
        memory = Memory(id="", kind="pitfall", title=body, body=body, state=State.STAGED, created_at=at, updated_at=at)
        project.store.memories.insert(memory, Change(who="ralph", why="extracted"))


def test_a_sound_project_is_well(here: Path, ralph: Ralph) -> None:
    ralph("memory", "add", "Docker first", "-t", "fix")

    ran = ralph("doctor")

    assert ran.code == 0, ran.out
    assert "sound; 1 active memory, 0 attempts\n" in ran.out
    assert "1 entry in .agent/memories.md\n" in ran.out
    assert ran.out.endswith("\nAll is well.\n")


def test_what_waits_for_a_person_is_said_last(here: Path, ralph: Ralph) -> None:
    stage(here, "One")
    one = ralph("doctor").out.splitlines()[-1]
    stage(here, "Two")

    two = ralph("doctor").out.splitlines()[-1]

    assert one == "All is well; 1 learning waits for you: ralph learn review"
    assert two == "All is well; 2 learnings wait for you: ralph learn review"


def test_a_damaged_memory_is_named_and_can_be_mended(here: Path, ralph: Ralph) -> None:
    id = ralph("memory", "add", "Docker first", "--format", "quiet").out.strip()
    connection = apsw.Connection(str(here / ".ralph/ralph.db"))
    connection.execute("UPDATE memory SET body = 'Podman first'")
    connection.close()

    wrong = ralph("doctor")
    ralph("memory", "edit", id, "--content", "Podman first")

    assert wrong.code == 1
    assert f"1 memory does not match its checksum: {id}." in wrong.out
    assert "ralph memory edit ID --content TEXT" in wrong.out
    assert ralph("doctor").code == 0


def test_what_a_reading_command_points_to_is_found(
    here: Path, ralph: Ralph, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "memories.md"
    elsewhere.write_text("# Memories\n")
    (here / ".agent").mkdir(exist_ok=True)
    (here / ".agent/memories.md").unlink(missing_ok=True)
    (here / ".agent/memories.md").symlink_to(elsewhere)

    listed, ran = ralph("memory", "list"), ralph("doctor")

    assert listed.err == "Warning: 1 thing in the memory files needs attention: ralph doctor\n"
    assert ran.code == 1
    assert ".agent/memories.md is a link that leads out of the project" in ran.out


def test_entries_that_are_gone_all_at_once_are_found(here: Path, ralph: Ralph) -> None:
    for n in range(20):
        ralph("memory", "add", f"Fact {n} about parsers", "-t", "fix")
    file = here / ".agent/memories.md"
    text = file.read_text()
    file.write_text(text[: text.index("### mem-", text.index("### mem-") + 1)])

    listed, ran = ralph("memory", "list"), ralph("doctor")

    assert "ralph doctor" in listed.err
    assert "19 memories are not in .agent/memories.md" in ran.out
