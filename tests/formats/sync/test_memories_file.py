"""`.agent/memories.md` and the store stay in step, whatever people, git and other processes do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ralph.core.records import Memory, MemoryState
from ralph.formats.sync import sync
from ralph.project import Project
from ralph.store.memories import ChangeInfo
from tests.store.make import found_by

T = ChangeInfo(who="t", why="t")


def path(project: Project) -> Path:
    return project.root / ".agent" / "memories.md"


def add(project: Project, body: str, kind: str = "pattern", tags: tuple[str, ...] = ()) -> Memory:
    with project.synced():
        return project.memory.add(body, type=kind, tags=tags).memory


def bodies(project: Project) -> list[str]:
    return sorted(memory.content for memory in project.store.memories.all())


def edit(project: Project, old: str, new: str) -> None:
    text = path(project).read_bytes().decode()
    assert old in text
    path(project).write_bytes(text.replace(old, new).encode())


def test_what_is_added_by_command_is_in_the_file_as_the_document_has_it(project: Project) -> None:
    memory = add(project, "Uses barrel exports.\nEach folder has one.", tags=("imports", "structure"))

    assert path(project).read_text() == (
        "# Memories\n\n## Patterns\n\n"
        f"### {memory.id}\n> Uses barrel exports.\n> Each folder has one.\n"
        f"<!-- tags: imports, structure | created: {memory.created_at[:10]} -->\n"
        "\n## Decisions\n\n## Fixes\n\n## Context\n"
    )


def test_other_kinds_have_no_place_in_the_file(project: Project) -> None:
    add(project, "Never call it twice.", kind="pitfall")

    assert not path(project).exists()


def test_an_entry_typed_by_a_person_becomes_a_memory_with_that_id(project: Project) -> None:
    path(project).parent.mkdir()
    path(project).write_text("# Memories\n\n## Fixes\n\n### mem-1-abcd\n> Start docker first.\n<!-- tags: docker -->\n")

    sync(project.store, project.root)

    memory = project.store.memories.get("mem-1-abcd")
    assert (memory.kind, memory.content, memory.tags, memory.confidence) == (
        "fix",
        "Start docker first.",
        ("docker",),
        0.6,
    )


def test_a_hand_edit_wins_and_the_old_words_stay_in_the_history(project: Project) -> None:
    memory = add(project, "Old words.")

    edit(project, "> Old words.", "> New words.")
    sync(project.store, project.root)

    assert project.store.memories.get(memory.id).content == "New words."
    assert "Old words." in (project.store.memories.history.of(memory.id)[-1].was or "")
    assert found_by(project.store, "new") == ["New words"]
    assert found_by(project.store, "old") == []


def test_when_both_sides_changed_the_person_wins_and_the_other_version_is_kept(project: Project) -> None:
    memory = add(project, "Base words.")
    edit(project, "Base words.", "A person's words.")
    project.store.memories.update(memory.id, "edited", T, content="Another worker's words.")

    sync(project.store, project.root)

    assert project.store.memories.get(memory.id).content == "A person's words."
    last = project.store.memories.history.of(memory.id)[-1]
    assert last.what == "conflict"
    assert "Another worker's words." in (last.was or "")


@pytest.mark.sqlite  # where only one working copy speaks for the files
def test_a_block_taken_out_deletes_the_memory_and_undo_writes_it_back(project: Project) -> None:
    memory = add(project, "Goes away.")
    add(project, "Stays.")
    before = path(project).read_text()
    start = before.index(f"### {memory.id}")
    block = before[start : before.index("\n## Decisions")]
    edit(project, block, "")

    sync(project.store, project.root)
    after_delete = bodies(project)
    with project.synced():
        project.memory.undo(memory.id)

    assert after_delete == ["Stays."]
    assert "> Goes away." in path(project).read_text()


def test_a_deletion_does_not_win_over_a_change(project: Project) -> None:
    memory = add(project, "Old.")
    add(project, "Other.")
    edit(project, f"### {memory.id}\n> Old.\n", "")
    project.store.memories.update(memory.id, "edited", T, content="Changed since.")

    sync(project.store, project.root)

    assert project.store.memories.get(memory.id).state is MemoryState.ACTIVE
    assert "> Changed since." in path(project).read_text()


@pytest.mark.parametrize("how", ["gone", "empty", "blank"])
def test_a_file_that_is_gone_or_empty_forgets_nothing(project: Project, how: str) -> None:
    add(project, "One.")
    add(project, "Two.", kind="fix")
    if how == "gone":
        path(project).unlink()
    else:
        path(project).write_text("" if how == "empty" else "\n\n")

    sync(project.store, project.root)

    assert bodies(project) == ["One.", "Two."]
    assert "> One." in path(project).read_text()
    assert "> Two." in path(project).read_text()


def test_a_deleted_memory_leaves_the_file_and_foreign_text_stays(project: Project) -> None:
    memory = add(project, "Goes.")
    add(project, "Stays.")
    edit(project, "# Memories\n", "# Memories\n\nA word from the team.\r\n\n## Our own heading\n* list\n")

    with project.synced():
        project.memory.delete(memory.id)

    text = path(project).read_bytes().decode()
    assert "Goes." not in text
    assert "\nA word from the team.\r\n\n## Our own heading\n* list\n" in text


def test_malformed_blocks_and_other_text_are_kept_byte_for_byte(project: Project) -> None:
    foreign = b"# Memories\n\n### mem-1-aaaa\n\n### not an id\n\n## Fixes\n"
    foreign += b"\xff\xfe broken bytes\n\n## Patterns\n"
    path(project).parent.mkdir()
    path(project).write_bytes(foreign)

    add(project, "New.")
    problems = project.files.problems

    assert path(project).read_bytes().replace(b"\xff\xfe", b"").startswith(foreign.replace(b"\xff\xfe", b"")[:-1])
    assert b"\xff\xfe broken bytes" in path(project).read_bytes()
    assert len(problems) == 2
    assert bodies(project) == ["New."]


# --- entries in the forms of other people and programs --------------------------------

OTHER_FORMS = """\
# Memories

Facts that hold across sessions.

## Patterns

- Run the migrations first.

### sqlite-wal (2026-03-04)
Checkpoint the log before a copy.

It is empty then.

### Naming
- Tables are plural.

## HTTP encoding (2026-03-05)
Decode the bytes, not the text.
"""


def write_other_forms(project: Project, text: str = OTHER_FORMS) -> None:
    path(project).parent.mkdir()
    path(project).write_bytes(text.encode())
    sync(project.store, project.root)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_entries_in_other_forms_become_memories_and_the_file_stays_as_it_is(project: Project, newline: str) -> None:
    text = OTHER_FORMS.replace("\n", newline)

    write_other_forms(project, text)
    again = sync(project.store, project.root)

    memory = project.store.memories.get("mem-sqlite-wal-2026-03-04")
    assert (memory.title, memory.kind, memory.created_at[:10]) == ("sqlite-wal", "pattern", "2026-03-04")
    assert bodies(project) == [
        "- Tables are plural.",
        "Checkpoint the log before a copy.\n\nIt is empty then.",
        "Decode the bytes, not the text.",
        "Run the migrations first.",
    ]
    assert path(project).read_bytes() == text.encode()
    assert (again.imported_count, again.written, again.problems) == (0, 0, ())


def test_seventy_nine_entries_with_a_slug_and_a_date_are_seventy_nine_memories(project: Project) -> None:
    entries = "".join(f"### lesson-{n} (2026-03-{n % 28 + 1:02})\nLesson number {n}.\n\n" for n in range(77))

    write_other_forms(project, f"# Memories\n\n### mem-1-aaaa\n> One.\n\n{entries}### mem-2-bbbb\n> Two.\n")

    assert len(bodies(project)) == 79


def test_new_memories_join_entries_in_other_forms(project: Project) -> None:
    write_other_forms(project)

    memory = add(project, "Indexes are concurrent.")

    text = path(project).read_text()
    assert text.replace(f"### {memory.id}\n> Indexes are concurrent.\n", "").startswith(OTHER_FORMS[:80])
    assert len(bodies(project)) == 5
    sync(project.store, project.root)
    assert len(bodies(project)) == 5


def test_an_edit_of_an_entry_in_another_form_is_an_edit_of_its_memory(project: Project) -> None:
    write_other_forms(project)

    edit(project, "It is empty then.", "It is short then.")
    sync(project.store, project.root)

    memory = project.store.memories.get("mem-sqlite-wal-2026-03-04")
    assert memory.content.endswith("It is short then.")
    assert memory.title == "sqlite-wal"


def test_a_memory_that_changes_is_written_in_our_form_and_the_rest_stays(project: Project) -> None:
    write_other_forms(project)

    with project.synced():
        project.memory.edit("mem-sqlite-wal-2026-03-04", content="Copy with VACUUM INTO.")
        project.memory.delete("mem-Naming")

    expected = OTHER_FORMS.replace(
        "### sqlite-wal (2026-03-04)\nCheckpoint the log before a copy.\n\nIt is empty then.\n\n"
        "### Naming\n- Tables are plural.\n",
        "### mem-sqlite-wal-2026-03-04\n> Copy with VACUUM INTO.\n<!-- tags:  | created: 2026-03-04 -->\n",
    )
    assert path(project).read_text() == expected
    assert len(bodies(project)) == 3


@pytest.mark.sqlite  # on a shared store, an entry that vanishes from one working copy is not deleted
@pytest.mark.parametrize("is_committed", [False, True])
def test_an_entry_in_another_form_that_a_person_removes_is_deleted(project: Project, is_committed: bool) -> None:
    write_other_forms(project)
    add(project, "Shows that the file is not an older one.")
    git(project, "init", "-q", "-b", "main")
    git(project, "add", ".agent")
    git(project, "commit", "-qm", "base")
    edit(project, "- Run the migrations first.\n", "")
    edit(project, "### Naming\n- Tables are plural.\n", "")
    if is_committed:
        git(project, "commit", "-qam", "removed")

    done = sync(project.store, project.root)

    assert done.held_count == 0
    assert len(bodies(project)) == 3


def test_two_blocks_with_one_id_are_two_memories(project: Project) -> None:
    path(project).parent.mkdir()
    path(project).write_text("## Patterns\n\n### mem-1-aaaa\n> One thing.\n\n### mem-1-aaaa\n> Another thing.\n")

    sync(project.store, project.root)
    sync(project.store, project.root)

    assert bodies(project) == ["Another thing.", "One thing."]
    assert path(project).read_text().count("### mem-1-aaaa\n") == 1


def test_the_same_block_twice_is_one_memory_and_goes_as_one(project: Project) -> None:
    path(project).parent.mkdir()
    path(project).write_text("## Patterns\n\n### mem-1-aaaa\n> Same.\n\n### mem-1-aaaa\n> Same.\n")
    sync(project.store, project.root)

    with project.synced():
        project.memory.delete("mem-1-aaaa")
    sync(project.store, project.root)

    assert bodies(project) == []
    assert "Same." not in path(project).read_text()


def test_a_memory_that_changes_its_kind_moves_or_leaves_the_file(project: Project) -> None:
    memory = add(project, "Moves.")

    with project.synced():
        project.memory.edit(memory.id, type="fix")
    moved = path(project).read_text()
    with project.synced():
        project.memory.edit(memory.id, type="pitfall")

    assert moved.index("## Fixes") < moved.index("> Moves.") < moved.index("## Context")
    assert "> Moves." not in path(project).read_text()
    assert project.store.memories.get(memory.id).state is MemoryState.ACTIVE


def test_the_other_known_place_is_used_when_it_is_there(project: Project) -> None:
    other = project.root / ".ralph" / "agent" / "memories.md"
    other.parent.mkdir()
    other.write_text("# Memories\n")

    add(project, "Goes there.")

    assert "> Goes there." in other.read_text()
    assert not path(project).exists()


def test_a_secret_in_the_file_is_not_stored_and_the_file_stays_as_it_is(project: Project) -> None:
    secret = "ghp_" + "a1B2" * 9
    path(project).parent.mkdir()
    text = f"## Patterns\n\n### mem-1-aaaa\n> The token is {secret}.\n"
    path(project).write_text(text)

    sync(project.store, project.root)
    sync(project.store, project.root)

    assert bodies(project) == ["The token is [redacted]."]
    assert path(project).read_text() == text
    assert len(project.store.memories.history.of("mem-1-aaaa")) == 1


def test_a_file_that_cannot_be_used_is_a_problem_and_nothing_is_lost(project: Project, tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("# Memories\n")
    path(project).parent.mkdir()
    path(project).symlink_to(outside)

    add(project, "Kept.")

    assert bodies(project) == ["Kept."]
    assert outside.read_text() == "# Memories\n"
    assert "points outside the project" in project.files.problems[0]


def test_a_folder_in_the_place_of_the_file_is_a_problem(project: Project) -> None:
    path(project).mkdir(parents=True)

    add(project, "Kept.")

    assert bodies(project) == ["Kept."]
    assert "not a regular file" in project.files.problems[0]


def test_without_files_nothing_is_written(project: Project) -> None:
    (project.root / ".ralph.toml").write_text("[memories]\nfiles = false\n")
    with Project.open(project.root) as opened, opened.synced():
        opened.memory.add("Only in the store.")

    assert not path(project).exists()


# --- git ---------------------------------------------------------------------------


def git(project: Project, *words: str, check: bool = True) -> None:
    identity = {
        "GIT_AUTHOR_NAME": "x",
        "GIT_AUTHOR_EMAIL": "x@x",
        "GIT_COMMITTER_NAME": "x",
        "GIT_COMMITTER_EMAIL": "x@x",
    }
    subprocess.run(["git", *words], cwd=project.root, env={**os.environ, **identity}, check=check, capture_output=True)


def test_a_real_merge_conflict_loses_neither_side(project: Project) -> None:
    memory = add(project, "Base words.")
    git(project, "init", "-q", "-b", "main")
    git(project, "add", ".agent")
    git(project, "commit", "-qm", "base")
    git(project, "checkout", "-qb", "theirs")
    edit(project, "Base words.", "Their words.")
    git(project, "commit", "-qam", "theirs")
    git(project, "checkout", "-q", "main")
    edit(project, "Base words.", "Our words.")
    git(project, "commit", "-qam", "ours")
    git(project, "merge", "-q", "theirs", check=False)
    conflicted = path(project).read_text()
    assert "<<<<<<<" in conflicted

    outcome = sync(project.store, project.root)
    sync(project.store, project.root)

    assert path(project).read_text() == conflicted
    assert "conflict markers" in outcome.problems[-1]
    assert project.store.memories.get(memory.id).content == "Our words."
    events = project.store.memories.history.of(memory.id)
    assert sum("Their words." in (event.became or "") for event in events) == 1

    path(project).write_text(conflicted.split("<<<<<<<")[0] + "> Their words.\n" + conflicted.split("\n", 20)[-1])
    git(project, "checkout", "-q", "--theirs", ".agent/memories.md")
    sync(project.store, project.root)
    assert project.store.memories.get(memory.id).content == "Their words."


@pytest.mark.sqlite  # where only one working copy speaks for the files
def test_switching_branches_back_and_forth_forgets_nothing(project: Project) -> None:
    add(project, "On both.")
    git(project, "init", "-q", "-b", "main")
    git(project, "add", ".agent")
    git(project, "commit", "-qm", "base")
    git(project, "checkout", "-qb", "side")
    add(project, "On the side only.")
    git(project, "commit", "-qam", "side")

    git(project, "checkout", "-q", "main")
    sync(project.store, project.root)
    on_main = bodies(project)
    git(project, "checkout", "-q", "side")
    sync(project.store, project.root)

    assert on_main == ["On both.", "On the side only."]
    assert bodies(project) == ["On both.", "On the side only."]


# --- several processes -------------------------------------------------------------

WRITER = """
import sys
from pathlib import Path
from ralph.project import Project
with Project.open(Path(sys.argv[1])) as project:
    for n in range(int(sys.argv[3])):
        with project.synced():
            project.memory.add(f"Writer {sys.argv[2]} says number {n}.")
"""


@pytest.mark.slow
def test_writers_at_once_and_a_person_lose_nothing(project: Project) -> None:
    each = 15
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(project.root), str(w), str(each)]) for w in range(3)]
    typed = 0
    while any(writer.poll() is None for writer in writers):
        if path(project).exists():
            block = f"\n### mem-{typed}-beef\n> A person says number {typed}.\n"
            new = path(project).with_name("editor.tmp")
            before = path(project).read_bytes()
            new.write_bytes(before + block.encode())
            if path(project).read_bytes() == before:  # as an editor does: saved in one go
                new.replace(path(project))
                typed += 1
                sync(project.store, project.root)
    assert [writer.wait() for writer in writers] == [0, 0, 0]

    sync(project.store, project.root)

    said = bodies(project)
    for w in range(3):
        assert [body for body in said if body.startswith(f"Writer {w} ")] == sorted(
            f"Writer {w} says number {n}." for n in range(each)
        )
    text = path(project).read_text()
    assert all(f"> {body}" in text for body in said)
