"""`.ralph/knowledge/*.md` and the store stay in step, a file for each entry."""

from __future__ import annotations

from pathlib import Path

import pytest

from ralph.core.records import Memory, MemoryState
from ralph.formats.sync import sync
from ralph.project import Project
from ralph.store.memories import ChangeInfo
from tests.make import a_memory, remember

T = ChangeInfo(who="t", why="t")
NOTE = '---\ntitle: "Cargo bench requires nightly"\ntags: [testing, cargo]\nowner: team  # ours\n---\n\nUse rustup.\n'


def folder(project: Project) -> Path:
    return project.root / ".ralph" / "knowledge"


def learn(project: Project, title: str, body: str, tags: tuple[str, ...] = ("x",)) -> Memory:
    memory = remember(project.store, a_memory(title, body, tags=tags, feature="perf"))
    sync(project.store, project.root)
    return memory


def type_note(project: Project, name: str = "typed.md", text: str = NOTE) -> Path:
    path = folder(project) / name
    path.write_text(text)
    sync(project.store, project.root)
    return path


def titles(project: Project) -> list[str]:
    return [memory.title for memory in project.store.memories.all()]


def test_what_is_learned_becomes_a_file_named_after_its_title(project: Project) -> None:
    memory = learn(project, "Rust's testing: a guide!", "Run `cargo test`.", ("rust", "testing"))

    text = (folder(project) / "rust-s-testing-a-guide.md").read_text()
    assert text.startswith("---\n")
    assert "Rust's testing: a guide!" in text
    assert "tags: [rust, testing]" in text
    assert "perf" in text
    assert memory.created_at in text
    assert text.endswith("Run `cargo test`.\n")


def test_a_file_written_by_a_person_is_an_entry(project: Project) -> None:
    type_note(project)

    (memory,) = project.store.memories.all()
    assert (memory.kind, memory.title, memory.tags) == (
        "knowledge",
        "Cargo bench requires nightly",
        ("testing", "cargo"),
    )
    assert memory.content == "Use rustup."


def test_an_edited_file_changes_its_entry_and_keeps_its_history(project: Project) -> None:
    path = type_note(project)
    path.write_text(NOTE.replace("Use rustup.", "Use a toolchain file."))

    sync(project.store, project.root)

    (memory,) = project.store.memories.all()
    assert memory.content == "Use a toolchain file."
    assert [event.what for event in project.store.memories.history.of(memory.id)] == ["added", "edited"]


def test_an_updated_entry_changes_its_file_and_leaves_what_is_not_ours(project: Project) -> None:
    path = type_note(project)

    remember(project.store, a_memory("cargo bench requires NIGHTLY", "Use nightly.", tags=("rust",)), by_person=True)
    sync(project.store, project.root)

    text = path.read_text()
    assert "owner: team  # ours\n" in text
    assert "rust" in text
    assert text.endswith("\nUse nightly.\n")
    assert len(list(folder(project).glob("*.md"))) == 1


def test_a_renamed_file_keeps_its_memory(project: Project) -> None:
    path = type_note(project)
    (before,) = project.store.memories.all()
    path.rename(folder(project) / "another name.md")

    sync(project.store, project.root)
    (folder(project) / "another name.md").write_text(NOTE.replace("Use rustup.", "Changed later."))
    sync(project.store, project.root)

    (after,) = project.store.memories.all()
    assert (after.id, after.content) == (before.id, "Changed later.")
    assert [one.name for one in folder(project).glob("*.md")] == ["another name.md"]


@pytest.mark.sqlite  # where only one working copy speaks for the files
def test_a_deleted_file_deletes_its_entry_and_undo_writes_it_again(project: Project) -> None:
    path = type_note(project)
    type_note(project, "other.md", NOTE.replace("Cargo bench", "Cargo doc"))
    (memory,) = [one for one in project.store.memories.all() if "bench" in one.title]
    path.unlink()

    sync(project.store, project.root)
    deleted = project.store.memories.get(memory.id).state
    with project.synced():
        project.memory.undo(memory.id)

    assert deleted is MemoryState.PRUNED
    assert (folder(project) / "cargo-bench-requires-nightly.md").exists()


def test_a_folder_that_is_gone_forgets_nothing(project: Project) -> None:
    learn(project, "One", "First.")
    learn(project, "Two", "Second.")
    for path in folder(project).iterdir():
        path.unlink()
    folder(project).rmdir()

    sync(project.store, project.root)

    assert titles(project) == ["One", "Two"]
    assert sorted(path.name for path in folder(project).glob("*.md")) == ["one.md", "two.md"]


def test_a_deleted_memory_takes_its_file_away(project: Project) -> None:
    memory = learn(project, "One", "First.")

    with project.synced():
        project.memory.delete(memory.id)

    assert list(folder(project).glob("*.md")) == []


def test_files_without_a_valid_front_matter_are_left_alone_and_named(project: Project) -> None:
    texts = {
        "none.md": "just text\n",
        "untitled.md": "---\ntags: [a]\n---\nbody\n",
        "untagged.md": "---\ntitle: T\n---\nbody\n",
        "empty.md": "---\ntitle: T\ntags: [a]\n---\n",
        "bomb.md": "---\na: &a [x, x]\ntitle: *a\ntags: *a\n---\nbody\n",
        "binary.md": "\x00\x01",
    }
    for name, text in texts.items():
        (folder(project) / name).write_text(text)

    outcome = sync(project.store, project.root)

    assert titles(project) == []
    assert len(outcome.problems) == len(texts)
    assert {path.name: path.read_text() for path in folder(project).glob("*.md")} == texts


def test_a_file_spoiled_by_hand_does_not_delete_its_entry(project: Project) -> None:
    path = type_note(project)
    path.write_text("no front matter any more")

    sync(project.store, project.root)

    assert titles(project) == ["Cargo bench requires nightly"]
    assert [one.name for one in folder(project).glob("*.md")] == ["typed.md"]


def test_two_files_with_one_title_are_both_kept(project: Project) -> None:
    type_note(project, "a.md")
    type_note(project, "b.md", NOTE.replace("Use rustup.", "Something else."))

    sync(project.store, project.root)

    assert sorted(memory.content for memory in project.store.memories.all()) == ["Something else.", "Use rustup."]
    assert sorted(one.name for one in folder(project).glob("*.md")) == ["a.md", "b.md"]


def test_a_link_out_of_the_project_is_not_followed(project: Project, tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text(NOTE)
    (folder(project) / "link.md").symlink_to(outside)

    outcome = sync(project.store, project.root)

    assert titles(project) == []
    assert "points outside the project" in outcome.problems[0]


def test_titles_that_make_the_same_name_get_files_of_their_own(project: Project) -> None:
    learn(project, "A/B", "First.")
    learn(project, "A B", "Second.")
    learn(project, "???", "Third.")

    assert sorted(one.name for one in folder(project).glob("*.md")) == ["a-b-2.md", "a-b.md", "entry.md"]
