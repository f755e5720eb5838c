"""Files that several programs and a person write to at once."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ralph.core.files import is_being_written, remove_if_unchanged, replace_if_unchanged
from ralph.core.records import MemoryState
from ralph.formats.memories_document import parse_document
from ralph.formats.sync import sync
from ralph.formats.sync.disk import SyncedFiles
from ralph.formats.sync.memories_file import MemoriesFileSync
from ralph.project import Project
from ralph.store.memories import ChangeInfo
from ralph.store.memory_queries import MemoryFilter
from tests.faults import files

pytestmark = pytest.mark.sqlite


def memories(project: Project) -> Path:
    return project.root / ".agent" / "memories.md"


def bodies(project: Project) -> set[str]:
    return {memory.content for memory in project.store.memories.all()}


def seen(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def let_settle() -> None:
    time.sleep(0.03)


@pytest.mark.slow
def test_four_writers_and_a_person_lose_nothing(tmp_path: Path) -> None:
    shown = files.run(tmp_path, 150, 3)

    assert shown.lost == 0
    assert shown.tried >= 150
    assert "0 saves in two halves" not in shown.says
    assert "0 merges" not in shown.says


# --- a save in place ---------------------------------------------------------------------


def test_a_file_that_is_open_for_writing_is_told_from_one_that_is_not(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")

    assert not is_being_written(path)
    with path.open("a"):
        assert is_being_written(path)
    with path.open():
        assert not is_being_written(path)
    assert not is_being_written(tmp_path / "none")


def test_who_opens_a_file_while_it_is_looked_at_ends_nobody(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    opener = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time\nend = time.time() + 0.5\nwhile time.time() < end: open(sys.argv[1], 'a')",
            path,
        ]
    )

    looks = set()
    while opener.poll() is None:
        looks.add(is_being_written(path))

    assert opener.returncode == 0
    assert True in looks
    assert False in looks


@pytest.mark.parametrize("part", [0.0, 0.5, 0.9], ids=["nothing yet", "half of it", "most of it"])
def test_half_a_save_is_not_taken_for_deletions(project: Project, part: float) -> None:
    for n in range(20):
        with project.synced():
            project.memory.add(f"Fact {n} holds.")
    text = memories(project).read_text()

    with memories(project).open("w") as editor:
        editor.write(text[: int(len(text) * part)])
        editor.flush()
        let_settle()
        outcome = sync(project.store, project.root)
        during = bodies(project)
        editor.write(text[int(len(text) * part) :] + "\n# Mine\n")

    let_settle()
    sync(project.store, project.root)

    assert len(during) == 20
    assert outcome.problems == (".agent/memories.md is being written by another program; it will be synced later.",)
    assert len(bodies(project)) == 20
    assert memories(project).read_text().endswith("\n# Mine\n")


def test_what_was_learned_during_a_save_is_written_after_it(project: Project) -> None:
    with project.synced():
        project.memory.add("Fact one holds.")

    with memories(project).open("a") as editor:
        with project.synced():
            project.memory.add("Learned meanwhile.")
        editor.write("\n# Mine\n")
    let_settle()
    project.files.sync()

    assert "> Learned meanwhile." in memories(project).read_text()
    assert "# Mine\n" in memories(project).read_text()


def test_a_file_is_not_replaced_while_somebody_writes_to_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old\n")

    with path.open("a") as appender:
        is_replaced = replace_if_unchanged(path, b"new\n", seen(path), modified_ns=1)
        appender.write("appended\n")

    assert not is_replaced
    assert path.read_text() == "old\nappended\n"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_a_file_is_not_removed_while_somebody_writes_to_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old\n")

    with path.open("a") as appender:
        is_removed = remove_if_unchanged(path, seen(path))
        appender.write("appended\n")

    assert not is_removed
    assert path.read_text() == "old\nappended\n"
    assert remove_if_unchanged(path, seen(path))
    assert list(tmp_path.iterdir()) == []


# --- what is gone from a file ---------------------------------------------------------------


def test_entries_that_were_held_are_not_deleted_when_there_are_more_others(project: Project) -> None:
    for n in range(2):
        with project.synced():
            project.memory.add(f"Early fact {n} holds.")
    memories(project).write_text("# Memories\n")
    let_settle()
    project.files.sync()
    for n in range(12):
        with project.synced():
            project.memory.add(f"Later fact {n} holds.")

    project.files.check()

    assert len(bodies(project)) == 14
    assert len(project.files.held()) == 2
    assert len(project.files.problems) == 1


def test_files_that_were_held_are_not_deleted_when_there_are_more_others(project: Project) -> None:
    for n in range(2):
        with project.synced():
            project.memory.add(f"Early fact {n}.", type="knowledge", title=f"Early {n}", tags=["x"])
    folder = project.root / ".ralph" / "knowledge"
    for path in folder.glob("*.md"):
        path.unlink()
    project.files.sync()
    for name in "abcdefghijkl":
        with project.synced():
            project.memory.add(f"It is about {name * 9}.", type="knowledge", title=f"On {name * 9}", tags=["x"])

    project.files.check()

    assert len(bodies(project)) == 14
    assert len(project.files.held()) == 2
    assert len(project.files.problems) == 1


def test_entries_that_were_held_come_back_as_they_were_and_can_be_deleted_one_by_one(project: Project) -> None:
    with project.synced():
        ids = [project.memory.add(f"Fact {n} holds.").memory.id for n in range(3)]
    text = memories(project).read_text()
    memories(project).write_text("# Memories\n")
    let_settle()
    project.files.sync()

    memories(project).write_text(text)
    let_settle()
    project.files.sync()
    memories(project).write_text(text.replace(f"### {ids[0]}\n> Fact 0 holds.\n", ""))
    let_settle()
    project.files.sync()
    project.files.check()

    assert bodies(project) == {"Fact 1 holds.", "Fact 2 holds."}
    assert project.files.problems == []


# --- git ---------------------------------------------------------------------------------


def in_conflict(project: Project, line: str, ours: str, theirs: str) -> str:
    block = f"<<<<<<< HEAD\n{ours}\n=======\n{theirs}\n>>>>>>> side"
    return memories(project).read_text().replace(line, block)


def test_both_sides_of_a_merge_are_kept_and_the_one_that_loses_is_in_the_history(project: Project) -> None:
    with project.synced():
        id = project.memory.add("First text.").memory.id
    memories(project).write_text(in_conflict(project, "> First text.", "> Ours.", "> Theirs."))
    let_settle()

    project.files.sync()
    during = memories(project).read_text()
    memories(project).write_text(during.replace("<<<<<<< HEAD\n> Ours.\n=======\n", "").replace("\n>>>>>>> side", ""))
    let_settle()
    project.files.sync()

    assert "<<<<<<< HEAD" in during
    assert project.memory.get(id).content == "Theirs."
    events = project.memory.history(id)
    said = [json.loads(event.became or "{}").get("body") for event in events]
    assert {"First text.", "Ours.", "Theirs."} <= {*said, json.loads(events[1].was or "{}")["body"]}
    assert "conflict" in {event.what for event in events}
    assert project.files.problems == [
        ".agent/memories.md has git conflict markers. Both sides were imported; resolve the conflict."
    ]


def test_a_conflict_in_one_entry_does_not_take_back_what_is_learned_about_another(project: Project) -> None:
    with project.synced():
        project.memory.add("Torn apart.")
    with project.synced():
        other = project.memory.add("Before the merge.").memory.id
    memories(project).write_text(in_conflict(project, "> Torn apart.", "> Ours.", "> Theirs."))
    let_settle()
    project.files.sync()

    with project.synced():
        project.memory.edit(other, content="Learned during the merge.")
    project.files.sync()

    assert project.memory.get(other).content == "Learned during the merge."


def test_an_entry_that_comes_back_before_the_file_could_be_written_stays(project: Project) -> None:
    """A person removes an entry, saves, thinks better of it and saves again, while we are at it."""
    with project.synced():
        kept = [project.memory.add(f"Fact {n} holds.").memory for n in range(8)]
    whole = memories(project).read_text()
    memories(project).write_text(whole.replace(f"### {kept[0].id}\n> Fact 0 holds.\n", ""))
    let_settle()
    with project.store.transaction():
        disk = SyncedFiles(project.store, project.root, "")
        one = MemoriesFileSync(project.store, disk, ChangeInfo(who="file", why=""))
        content = disk.read(".agent/memories.md")
        assert content
        one._decide(one._entries_by_id(parse_document(content.text))[0], set(), is_emptied=False)
        memories(project).write_text(whole)
        let_settle()
        one.sync()
        disk.finish()

    assert kept[0].content in bodies(project)
    assert memories(project).read_text() == whole


def test_nothing_that_left_a_file_is_without_a_history(project: Project) -> None:
    for n in range(8):
        with project.synced():
            project.memory.add(f"Fact {n} holds.")
    text = memories(project).read_text()
    memories(project).write_text(text.replace("> Fact 3 holds.", "> Fact three holds."))
    let_settle()

    project.files.sync()

    changed = next(
        one for one in project.store.memories.find(MemoryFilter(states=tuple(MemoryState))) if "three" in one.content
    )
    assert any("Fact 3 holds." in (event.was or "") for event in project.memory.history(changed.id))
