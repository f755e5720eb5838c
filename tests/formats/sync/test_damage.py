"""A damaged file, another branch or a restored database never costs a memory."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ralph.core.files import replace_if_unchanged
from ralph.core.records import MemoryState
from ralph.formats.sync import sync
from ralph.maintenance import backup_project, restore_project
from ralph.project import Project


def file(project: Project) -> Path:
    return project.root / ".agent" / "memories.md"


def bodies(project: Project) -> list[str]:
    return sorted(memory.content for memory in project.store.memories.all())


@pytest.mark.sqlite  # where only one working copy speaks for the files
@pytest.mark.parametrize(
    "damage", [b"\0" * 500, "# Memories\n".encode("utf-16"), b"# Memories\n", b"\xff\xfe\xfa" * 100]
)
def test_a_damaged_file_deletes_nothing_and_is_named(project: Project, damage: bytes) -> None:
    for n in range(3):
        with project.synced():
            project.memory.add(f"Thing number {n} is so.")
    file(project).write_bytes(damage)

    outcome = sync(project.store, project.root)

    assert len(bodies(project)) == 3
    assert outcome.problems


@pytest.mark.sqlite  # where only one working copy speaks for the files
def test_many_files_gone_at_once_are_not_believed(project: Project) -> None:
    for n in range(8):
        with project.synced():
            project.memory.add(f"Body {n}", type="knowledge", title=f"Title {n}", tags=["x"])
    for path in (project.root / ".ralph/knowledge").glob("*.md"):
        path.unlink()

    outcome = sync(project.store, project.root)

    assert len(bodies(project)) == 8
    assert outcome.held_count == 8


@pytest.mark.sqlite  # where only one working copy speaks for the files
def test_a_branch_without_most_entries_takes_none_away(project: Project) -> None:
    for n in range(12):
        with project.synced():
            project.memory.add(f"Fact {n} holds.")
    text = file(project).read_text()
    file(project).write_text("# Memories\n\n## Patterns\n")

    held = sync(project.store, project.root)
    during = len(bodies(project))
    file(project).write_text(text)
    back = sync(project.store, project.root)

    assert (during, len(bodies(project))) == (12, 12)
    assert held.held_count == 12
    assert (back.imported_count, back.written, back.problems) == (0, 0, ())


@pytest.mark.sqlite  # where only one working copy speaks for the files
def test_what_left_with_a_branch_can_be_learned_again_and_comes_back_as_itself(project: Project) -> None:
    with project.synced():
        kept = project.memory.add("Stays.", type="knowledge", title="Stays", tags=["x"]).memory
    with project.synced():
        gone = project.memory.add("Goes.", type="knowledge", title="Goes", tags=["x"]).memory
    path = project.root / ".ralph/knowledge/goes.md"
    text = path.read_text()
    path.unlink()
    sync(project.store, project.root)
    assert project.store.memories.get(gone.id).state is MemoryState.PRUNED

    path.write_text(text)
    sync(project.store, project.root)

    assert {memory.id for memory in project.store.memories.all()} == {kept.id, gone.id}


def test_a_knowledge_file_with_conflict_markers_is_left_alone(project: Project) -> None:
    with project.synced():
        memory = project.memory.add("Base.", type="knowledge", title="Base", tags=["x"]).memory
    path = project.root / ".ralph/knowledge/base.md"
    path.write_text(path.read_text().replace("Base.\n", "<<<<<<< HEAD\nOurs.\n=======\nTheirs.\n>>>>>>> other\n"))

    outcome = sync(project.store, project.root)

    assert project.store.memories.get(memory.id).content == "Base."
    assert "conflict markers" in outcome.problems[0]


def test_after_a_restore_the_files_follow_the_store(project: Project) -> None:
    with project.synced():
        edited = project.memory.add("Good text.").memory
    with project.synced():
        deleted = project.memory.add("Wanted.", type="fix").memory
    with project.synced():
        note = project.memory.add("Good note.", type="knowledge", title="Note", tags=["x"]).memory
    backup_project(project.root)
    with project.synced():
        project.memory.edit(edited.id, content="Bad text.")
    with project.synced():
        project.memory.edit(note.id, content="Bad note.")
    with project.synced():
        project.memory.delete(deleted.id)
    project.close()

    restore_project(project.root)

    with Project.open(project.root) as again:
        again.files.sync()
        assert bodies(again) == ["Good note.", "Good text.", "Wanted."]
        assert "> Good text." in file(again).read_text()
        assert "> Wanted." in file(again).read_text()
        assert "Good note." in (again.root / ".ralph/knowledge/note.md").read_text()
        assert "Bad text." in str(again.store.memories.history.of(edited.id))
        assert sync(again.store, again.root).imported_count == 0


def test_what_was_added_after_the_backup_comes_back_from_the_file(project: Project) -> None:
    with project.synced():
        project.memory.add("Before.")
    backup_project(project.root)
    with project.synced():
        later = project.memory.add("After.").memory
    project.close()

    restore_project(project.root)

    with Project.open(project.root) as again:
        again.files.sync()
        assert bodies(again) == ["After.", "Before."]
        assert again.store.memories.get(later.id).content == "After."


@pytest.mark.slow
def test_a_save_that_comes_between_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "file.md"
    path.write_text("0")
    stop = threading.Event()
    saved = 0

    def save() -> None:
        nonlocal saved
        while not stop.is_set():
            saved += 1
            new = tmp_path / "editor.tmp"
            new.write_text(f"person {saved} ")
            new.replace(path)
            time.sleep(0.0005)

    editor = threading.Thread(target=save)
    editor.start()
    replaced = 0
    for _ in range(300):
        before = path.stat()
        text = path.read_text()
        if path.stat().st_mtime_ns != before.st_mtime_ns:
            continue
        size = before.st_size, before.st_mtime_ns
        if replace_if_unchanged(path, f"{text}!".encode(), size, modified_ns=before.st_mtime_ns + 1, is_durable=False):
            replaced += 1
    stop.set()
    editor.join()

    assert replaced
    assert path.read_text().startswith("person ")
    assert not list(tmp_path.glob(".*.new"))


ADDER = """
import sys
from pathlib import Path
from ralph.project import Project
with Project.open(Path(sys.argv[1])) as project:
    for n in range(15):
        with project.synced():
            project.memory.add(f"Adder says number {n}.")
"""


@pytest.mark.slow
def test_a_person_saving_while_another_process_adds_loses_nothing(project: Project) -> None:
    with project.synced():
        project.memory.add("First.")
    adder = subprocess.Popen([sys.executable, "-c", ADDER, str(project.root)])
    typed = 0
    while adder.poll() is None:
        before = file(project).stat().st_mtime_ns
        text = file(project).read_text()
        new = file(project).with_name("editor.tmp")
        new.write_text(f"{text}\n### mem-{typed}-beef\n> A person says number {typed}.\n")
        if file(project).stat().st_mtime_ns == before:  # as careful as an editor that warns of changes on disk
            new.replace(file(project))
            typed += 1
        time.sleep(0.05)

    sync(project.store, project.root)

    said = bodies(project)
    assert [body for body in said if body.startswith("Adder")] == sorted(f"Adder says number {n}." for n in range(15))
    text = file(project).read_text()
    assert all(f"> {body}" in text for body in said)
