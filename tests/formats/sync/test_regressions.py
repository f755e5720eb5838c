"""A file that goes back to an older version takes no memory with it: git, stale editors, two working copies."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ralph.cli import main
from ralph.core.records import MemoryState
from ralph.formats.sync.three_way import FileChoice
from ralph.project import Project
from ralph.store.memories import ChangeInfo
from ralph.workspace import init_project

T = ChangeInfo(who="t", why="t")
NOTES = ".ralph/knowledge"
IDENTITY = {f"GIT_{who}_{what}": "x@x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def git(root: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=root, env={**os.environ, **IDENTITY}, check=True, capture_output=True)


def commit(root: Path, message: str = "work") -> None:
    git(root, "add", "-A")
    git(root, "commit", "-qm", message)


def file(project: Project) -> Path:
    return project.root / ".agent/memories.md"


def add(project: Project, text: str, kind: str = "pattern", title: str = "") -> str:
    with project.synced():
        return project.memory.add(text, type=kind, title=title, tags=["x"]).memory.id


def change(project: Project, id: str, text: str) -> None:
    with project.synced():
        project.store.memories.update(id, "edited", T, content=text)


def known(project: Project) -> set[str]:
    project.files.sync()
    return {memory.content for memory in project.store.memories.all()}


def held(project: Project) -> set[str]:
    return {id for _, id in project.files.held()}


@pytest.fixture
def repository(project: Project) -> Project:
    """A project whose memory files are committed, with two memories and two knowledge entries."""
    git(project.root, "init", "-q", "-b", "main")
    add(project, "First.")
    add(project, "Second.")
    add(project, "First note.", "knowledge", "Alpha")
    add(project, "Second note.", "knowledge", "Beta")
    commit(project.root)
    return project


OLD = {"First.", "Second.", "First note.", "Second note."}

# --- git ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "commands",
    [
        ["reset --hard"],
        ["stash"],
        ["stash -u"],
        ["checkout ."],
        ["restore ."],
        ["add -A", "commit -qm later", "reset -q --hard HEAD~1"],
        ["add -A", "commit -qm later", "revert --no-edit HEAD"],
        ["checkout -qb side", "add -A", "commit -qm later", "checkout -q main"],
        ["checkout -qb side", "add -A", "commit -qm later", "checkout -q --detach HEAD~1"],
        ["add -A", "commit -qm later", "checkout HEAD~1 -- .agent .ralph"],
    ],
    ids=lambda commands: "; ".join(commands),
)
@pytest.mark.parametrize("choice", list(FileChoice))
def test_git_takes_no_memory_away(repository: Project, commands: list[str], choice: FileChoice) -> None:
    project = repository
    edited = next(one for one in project.store.memories.all() if one.content == "First.")
    note = next(one for one in project.store.memories.all() if one.content == "First note.")
    added = add(project, "Third.")
    change(project, edited.id, "First, corrected.")
    change(project, note.id, "First note, corrected.")
    now = {"First, corrected.", "Second.", "Third.", "First note, corrected.", "Second note."}

    for command in commands:
        git(project.root, *command.split())

    assert known(project) == now
    is_shared = project.store.is_shared  # where what is missing is written again at once
    assert held(project) == {edited.id, note.id, *([] if is_shared else [added])}
    assert project.files.problems
    assert known(project) == now  # and stays so

    project.files.resolve_held(choice)

    accepted = OLD | {"Third."} if is_shared else OLD
    assert known(project) == (now if choice is FileChoice.RESTORE else accepted)
    assert not project.files.problems
    assert ("> First, corrected." in file(project).read_text()) is (choice is FileChoice.RESTORE)
    assert ("> Third." in file(project).read_text()) is (choice is FileChoice.RESTORE or is_shared)


def test_a_stash_that_comes_back_settles_everything(repository: Project) -> None:
    project = repository
    third = add(project, "Third.")
    before = file(project).read_text()
    git(project.root, "stash")
    assert "Third." in known(project)
    if project.store.is_shared:
        git(project.root, "checkout", ".")  # it was written again, which git would not overwrite

    git(project.root, "stash", "pop")

    assert known(project) == {*OLD, "Third."}
    assert (held(project), project.files.problems) == (set(), [])
    assert file(project).read_text() == before
    assert project.store.memories.history.of(third)[-1].what == "added"


@pytest.mark.sqlite  # on a server, what is missing is written again at once
def test_memories_of_two_branches_stay_whatever_is_checked_out(repository: Project) -> None:
    project = repository
    git(project.root, "branch", "side")
    add(project, "On main.")
    commit(project.root)
    git(project.root, "checkout", "-q", "side")
    assert "On main." in known(project)
    add(project, "On the side.")
    commit(project.root)
    everything = {*OLD, "On main.", "On the side."}

    for branch in ("main", "side", "main", "side"):
        git(project.root, "checkout", "-q", branch)
        assert known(project) == everything
        assert len(held(project)) == 1

    project.files.resolve_held(FileChoice.RESTORE)
    assert known(project) == everything
    assert "> On main." in file(project).read_text()


@pytest.mark.sqlite  # on a server, no file deletes anything
def test_a_rebase_and_a_revert_in_the_middle_forget_nothing(repository: Project) -> None:
    project = repository
    git(project.root, "checkout", "-qb", "side")
    (project.root / "code.py").write_text("1\n")
    commit(project.root, "code")
    git(project.root, "checkout", "-q", "main")
    add(project, "Third.")
    commit(project.root, "third")
    git(project.root, "checkout", "-q", "side")
    known(project)

    git(project.root, "rebase", "-q", "main")

    assert known(project) == {*OLD, "Third."}
    assert held(project) == set()

    add(project, "Fourth.", "fix")
    commit(project.root, "fourth")
    git(project.root, "revert", "--no-edit", "HEAD~2")  # "third", while "fourth" stays

    assert known(project) == {*OLD, "Third.", "Fourth."}
    assert len(held(project)) == 1


def test_git_clean_of_untracked_files_forgets_nothing(project: Project) -> None:
    git(project.root, "init", "-q", "-b", "main")
    (project.root / "code.py").write_text("1\n")
    git(project.root, "add", "code.py")
    git(project.root, "commit", "-qm", "base")
    add(project, "First.")
    add(project, "A note.", "knowledge", "Alpha")
    git(project.root, "clean", "-fdq", ".agent", NOTES)

    assert known(project) == {"First.", "A note."}
    assert "> First." in file(project).read_text()
    assert len(list((project.root / NOTES).glob("*.md"))) == 1


@pytest.mark.sqlite  # on a server, no file deletes anything
def test_git_clean_of_one_untracked_note_forgets_nothing(repository: Project) -> None:
    third = add(repository, "Third note.", "knowledge", "Gamma")
    git(repository.root, "clean", "-fdq")

    assert known(repository) == {*OLD, "Third note."}
    assert held(repository) == {third}


# --- editors -----------------------------------------------------------------------------------


def test_a_stale_buffer_brings_its_edits_and_takes_nothing(project: Project) -> None:
    first = add(project, "First.")
    add(project, "Second.")
    buffer = file(project).read_text()
    third = add(project, "Third.")
    change(project, first, "First, corrected.")

    file(project).write_text(
        buffer.replace("> Second.", "> Second, by hand.") + "\n### mem-1700000000-abcd\n> Typed by hand.\n"
    )

    assert known(project) == {"First, corrected.", "Second, by hand.", "Third.", "Typed by hand."}
    assert held(project) == ({first} if project.store.is_shared else {first, third})

    add(project, "Fourth, meanwhile.")
    assert "> Fourth, meanwhile." in file(project).read_text()
    assert "> Typed by hand." in file(project).read_text()
    assert first in held(project)


@pytest.mark.sqlite  # on a server, no file deletes anything
def test_a_stale_buffer_does_not_delete_what_came_in_by_several_writes(project: Project) -> None:
    add(project, "First.")
    add(project, "Second.")
    add(project, "Third.")
    buffer = file(project).read_text()
    new = {add(project, "Fourth."), add(project, "Fifth.")}

    file(project).write_text(buffer)

    assert len(known(project)) == 5
    assert held(project) == new


@pytest.mark.sqlite  # on a server, no file deletes anything
@pytest.mark.parametrize("positions", [(0,), (1,), (0, 1), (2,)])
def test_a_person_deletes_entries_as_before(repository: Project, positions: tuple[int, ...]) -> None:
    project = repository
    ids = [add(project, f"Entry {n}.") for n in range(8)]
    text = file(project).read_text()
    for position in positions:
        start = text.index(f"### {ids[position]}")
        text = text[:start] + text[text.index("-->\n", start) + 5 :]
    file(project).write_text(text)

    known(project)

    assert held(project) == set()
    deleted = {id for id in ids if project.store.memories.get(id).state is MemoryState.PRUNED}
    assert deleted == {ids[position] for position in positions}
    with project.synced():
        project.memory.undo(ids[positions[0]])
    assert f"### {ids[positions[0]]}" in file(project).read_text()


@pytest.mark.sqlite  # on a server, no file deletes anything
def test_a_person_deletes_the_last_of_those_that_came_together(project: Project) -> None:
    with project.synced(), project.store.transaction():
        ids = [project.memory.add(f"Entry {n}.", tags=["x"]).memory.id for n in range(3)]
    add(project, "Later.")
    text = file(project).read_text()
    start = text.index(f"### {ids[2]}")
    file(project).write_text(text[:start] + text[text.index("-->\n", start) + 5 :])

    assert known(project) == {"Entry 0.", "Entry 1.", "Later."}


@pytest.mark.sqlite  # on a server, no file deletes anything
def test_a_colleague_deletes_by_git_what_was_committed(repository: Project, tmp_path: Path) -> None:
    project = repository
    first = next(one.id for one in project.store.memories.all() if one.content == "First.")
    git(tmp_path, "clone", "-q", str(project.root), "clone")
    clone = tmp_path / "clone"
    theirs = clone / ".agent/memories.md"
    text = theirs.read_text()
    start = text.index(f"### {first}")
    text = text[:start] + text[text.index("-->\n", start) + 5 :]
    theirs.write_text(text + "\n### mem-1700000000-abcd\n> From a colleague.\n")
    (clone / NOTES / "alpha.md").unlink()
    commit(clone)

    git(project.root, "pull", "-q", str(clone), "main")

    assert known(project) == {"Second.", "Second note.", "From a colleague."}
    assert held(project) == set()


# --- deleted in the store ------------------------------------------------------------------------


@pytest.mark.sqlite  # on a server, an entry that is deleted there never comes back from a file
@pytest.mark.parametrize("choice", list(FileChoice))
def test_a_deleted_memory_does_not_come_back_with_an_old_file(repository: Project, choice: FileChoice) -> None:
    project = repository
    first, note = (
        next(one.id for one in project.store.memories.all() if one.content == content)
        for content in ("First.", "First note.")
    )
    with project.synced():
        project.memory.delete(first, note)

    git(project.root, "checkout", ".")

    assert known(project) == {"Second.", "Second note."}
    assert known(project) == {"Second.", "Second note."}
    assert held(project) == {first, note}
    project.files.resolve_held(choice)
    assert known(project) == ({"Second.", "Second note."} if choice is FileChoice.RESTORE else OLD)
    assert held(project) == set()
    assert ("> First." in file(project).read_text()) is (choice is FileChoice.ACCEPT)
    assert (project.root / NOTES / "alpha.md").exists() is (choice is FileChoice.ACCEPT)


def test_ours_in_a_conflict_does_not_take_a_memory_back(repository: Project) -> None:
    project = repository
    first = next(one.id for one in project.store.memories.all() if one.content == "First.")
    change(project, first, "First, corrected.")
    text = file(project).read_text()
    file(project).write_text(
        text.replace(
            "> First, corrected.\n",
            "<<<<<<< Updated upstream\n> First.\n=======\n> First, corrected.\n>>>>>>> Stashed changes\n",
        )
    )

    assert "First, corrected." in known(project)

    file(project).write_text(text)
    assert "First, corrected." in known(project)
    assert held(project) == set()


# --- two working copies ------------------------------------------------------------------------


def test_a_reset_in_one_working_copy_takes_nothing_from_the_other(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    url = os.environ.get("RALPH_STORE") or str(tmp_path / "ralph.db")
    one.mkdir()
    git(one, "init", "-q", "-b", "main")
    init_project(one, url=url, name="team")
    with Project.open(one) as project:
        first = add(project, "First.")
        commit(one)
    git(one, "worktree", "add", "-q", str(other))
    init_project(other, url=url, name="team")
    with Project.open(other) as project:
        known(project)
        change(project, first, "First, corrected.")
        add(project, "Second.")
    with Project.open(one) as project:
        assert known(project) == {"First, corrected.", "Second."}
    for root in (one, other, one):
        git(root, "reset", "-q", "--hard")
        with Project.open(root) as project:
            assert known(project) == {"First, corrected.", "Second."}
            assert first in held(project)
    for root in (one, other):
        with Project.open(root) as project:
            project.files.sync()
            project.files.resolve_held(FileChoice.RESTORE)
            assert known(project) == {"First, corrected.", "Second."}
            assert not project.files.problems
            assert "> First, corrected." in file(project).read_text()


# --- what people see -----------------------------------------------------------------------------


def test_every_place_reports_it_and_one_command_settles_it(
    repository: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project = repository
    first = next(one.id for one in project.store.memories.all() if one.content == "First.")
    change(project, first, "First, corrected.")
    git(project.root, "reset", "-q", "--hard")
    run = ["-C", str(project.root)]

    assert main([*run, "status"]) == 0  # before any command that syncs
    assert "ralph memory files" in capsys.readouterr().out
    assert main([*run, "doctor"]) == 1
    assert "ralph memory files restore" in capsys.readouterr().out
    for command in (["memory", "list"], ["memory", "add", "Another."], ["memory", "add", "One more."]):
        assert main([*run, *command]) == 0
        assert "Warning" in capsys.readouterr().err
    assert main([*run, "status"]) == 0
    assert "ralph memory files" in capsys.readouterr().out
    assert main([*run, "memory", "files"]) == 0
    assert first in capsys.readouterr().out

    assert main([*run, "memory", "files", "accept"]) == 0
    accepted = capsys.readouterr()
    assert project.store.memories.get(first).content == "First."
    assert main([*run, *accepted.out.strip().rpartition("ralph ")[2].split()]) == 0  # its undo command
    assert project.store.memories.get(first).content == "First, corrected."
    assert "> First, corrected." in file(project).read_text()
    capsys.readouterr()
    for command in (["doctor"], ["status"], ["memory", "files", "restore"]):
        assert main([*run, *command]) == 0
        assert "older" not in capsys.readouterr().out


def test_agents_do_not_decide(repository: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    first = next(one.id for one in repository.store.memories.all() if one.content == "First.")
    change(repository, first, "First, corrected.")
    git(repository.root, "reset", "-q", "--hard")
    monkeypatch.setenv("RALPH_SESSION", "s-1")

    assert main(["-C", str(repository.root), "memory", "files", "accept"]) == 2

    assert repository.store.memories.get(first).content == "First, corrected."
