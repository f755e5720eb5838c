"""A worktree and a branch for each task, with real repositories."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ralph.core.errors import WorktreeError
from ralph.core.git import run_git, trust_git_programs
from ralph.loop.git import repository
from ralph.loop.git.base_branch import MergeResult
from ralph.loop.git.branches import TaskBranches, branch_suffix
from ralph.loop.git.repository import Repository, StopRequestedError
from ralph.workspace import find_root, init_project

pytestmark = pytest.mark.storeless

BROKEN_OFF = """
import os, signal, sys
from pathlib import Path
from ralph.loop.git.branches import TaskBranches

branches = TaskBranches.open(Path(sys.argv[1]))
place = branches.prepare_worktree("t-1", "Write")
(place.directory / "new.txt").write_text("made\\n")
branches._base.merge_work = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
branches.commit_and_merge(place, "t-1", "Write")
"""

KILLED_DURING_A_MERGE = """
import sys
from pathlib import Path
from ralph.loop.git.repository import Repository

repository = Repository.open(Path(sys.argv[1]))
with repository.lock():
    repository.try_git(repository.top, "hash-object", sys.argv[2])
"""


def git(directory: Path, *arguments: str) -> str:
    ran = run_git(directory, *arguments)
    assert ran.ok, ran
    return ran.stdout.strip()


def commit(directory: Path, file: str, text: str) -> str:
    (directory / file).parent.mkdir(parents=True, exist_ok=True)
    (directory / file).write_text(text)
    git(directory, "add", "-A", "--", file)
    git(directory, "commit", "-qm", f"write {file}")
    return git(directory, "rev-parse", "HEAD")


def make(directory: Path) -> Path:
    directory.mkdir(parents=True)
    git(directory, "init", "-q", "-b", "main")
    git(directory, "config", "user.name", "Ada")
    git(directory, "config", "user.email", "ada@example.com")
    commit(directory, "a.txt", "one\ntwo\nthree\n")
    return directory


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.delenv("EMAIL", raising=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make(tmp_path / "repository")


@pytest.fixture
def branches(root: Path) -> TaskBranches:
    return TaskBranches.open(root)


def is_as_new(root: Path) -> bool:
    """Say whether nothing of any task is left in a repository, and no change in the person's tree."""
    names = git(root, "for-each-ref", "--format=%(refname)", "refs/heads/ralph/")
    trees = git(root, "worktree", "list", "--porcelain").count("worktree ")
    left = [path.name for path in (root / ".ralph/worktrees").iterdir()]
    return (names, trees, left, git(root, "status", "--porcelain")) == ("", 1, [".gitignore"], "")


# --- where it is refused -------------------------------------------------------------


def refusal(root: Path) -> str:
    with pytest.raises(WorktreeError) as caught:
        TaskBranches.open(root)
    assert caught.value.exit_code == 2
    return str(caught.value)


def refusal_code(root: Path) -> str:
    with pytest.raises(WorktreeError) as caught:
        TaskBranches.open(root)
    return caught.value.code


def test_without_a_repository_it_says_what_to_do(tmp_path: Path) -> None:
    assert refusal_code(tmp_path) == "no-repository"


def test_without_git_it_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(root))

    assert refusal(root) == "--parallel needs git: git cannot be started: No such file or directory"


def test_an_old_git_is_refused(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho git version 2.37.9\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    assert refusal_code(root) == "git-too-old"


def test_without_a_commit_there_is_nothing_to_start_from(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")

    assert refusal_code(tmp_path) == "no-commit"


def test_without_a_branch_nobody_knows_where_work_should_go(root: Path) -> None:
    git(root, "checkout", "-q", "--detach")

    assert refusal_code(root) == "detached-head"


def test_a_merge_in_progress_comes_first(root: Path) -> None:
    git(root, "checkout", "-qb", "other")
    commit(root, "a.txt", "other\n")
    git(root, "checkout", "-q", "main")
    commit(root, "a.txt", "main\n")
    run_git(root, "merge", "-q", "other")

    assert refusal(root).startswith("A merge is in progress")


def test_a_rebase_in_progress_comes_first(root: Path) -> None:
    git(root, "checkout", "-qb", "other")
    commit(root, "a.txt", "other\n")
    git(root, "checkout", "-q", "main")
    commit(root, "a.txt", "main\n")
    run_git(root, "rebase", "-q", "other")

    assert refusal(root).startswith("A rebase is in progress")


def test_changes_that_are_not_committed_are_named(root: Path) -> None:
    (root / "a.txt").write_text("changed\n")
    for number in range(4):
        (root / f"new{number}.txt").write_text("new\n")

    said = refusal(root)

    assert ": a.txt, new0.txt, new1.txt and 2 more." in said
    assert refusal_code(root) == "uncommitted-changes"


@pytest.mark.usefixtures("store_url")
def test_our_own_files_do_not_make_a_tree_dirty(root: Path) -> None:
    init_project(root)
    (root / ".agent").mkdir()
    (root / ".agent/memories.md").write_text("# Memories\n")

    assert TaskBranches.open(root).base == "main"


def test_a_branch_that_takes_our_names_is_refused(root: Path) -> None:
    git(root, "branch", "ralph")

    assert "git branch -m ralph" in refusal(root)


@pytest.mark.parametrize("linked", [".ralph", ".ralph/worktrees", ".ralph/worktrees/.gitignore"])
def test_a_link_that_came_with_the_repository_leads_nowhere(root: Path, tmp_path: Path, linked: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / linked).parent.mkdir(parents=True, exist_ok=True)
    (root / linked).symlink_to(outside / "file" if linked.endswith("ignore") else outside)

    if linked.endswith("ignore"):
        TaskBranches.open(root)
    else:
        with pytest.raises(WorktreeError) as caught:
            TaskBranches.open(root)
        assert (caught.value.code, caught.value.exit_code) == ("outside-link", 2)

    assert list(outside.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named(root: Path) -> None:
    (root / ".ralph").write_text("a file\n")

    said = refusal(root)

    assert said.startswith("Could not create worktrees")
    assert ".ralph" in said


# --- a place to work -------------------------------------------------------------------


def test_a_task_gets_a_worktree_and_a_branch_of_its_own(root: Path, branches: TaskBranches) -> None:
    place = branches.prepare_worktree("t-abc123", "Write")

    assert place.root == root / ".ralph/worktrees/t-abc123"
    assert (place.directory, place.branch, place.is_new, place.conflicts) == (place.root, "ralph/t-abc123", True, ())
    assert (place.directory / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert git(place.directory, "status", "--porcelain", "--branch") == "## ralph/t-abc123"
    assert git(root, "status", "--porcelain") == ""
    assert git(root, "worktree", "list", "--porcelain").count("worktree ") == 2
    assert git(root, "fsck") == ""


def test_work_of_an_earlier_attempt_is_kept_and_brought_up_to_date(root: Path, branches: TaskBranches) -> None:
    first = branches.prepare_worktree("t-1", "Write")
    (first.directory / "half.txt").write_text("half\n")
    commit(root, "b.txt", "meanwhile\n")

    again = branches.prepare_worktree("t-1", "Write")

    assert (again.directory, again.is_new, again.conflicts) == (first.directory, False, ())
    assert (again.directory / "half.txt").read_text() == "half\n"
    assert (again.directory / "b.txt").read_text() == "meanwhile\n"
    assert git(again.directory, "status", "--porcelain") == ""
    assert "wip: Write" in git(again.directory, "log", "--format=%s")


def test_a_conflict_with_the_base_is_left_in_the_tree(root: Path, branches: TaskBranches) -> None:
    first = branches.prepare_worktree("t-1", "Write")
    (first.directory / "a.txt").write_text("task\n")
    commit(root, "a.txt", "person\n")

    again = branches.prepare_worktree("t-1", "Write")

    assert again.conflicts == ("a.txt",)
    text = (again.directory / "a.txt").read_text()
    assert "task" in text
    assert "person" in text
    assert branches.prepare_worktree("t-1", "Write").conflicts == ("a.txt",)


def test_a_conflict_that_is_resolved_is_merged(root: Path, branches: TaskBranches) -> None:
    first = branches.prepare_worktree("t-1", "Write")
    (first.directory / "a.txt").write_text("task\n")
    commit(root, "a.txt", "person\n")
    again = branches.prepare_worktree("t-1", "Write")
    (again.directory / "a.txt").write_text("both\n")

    merge = branches.commit_and_merge(again, "t-1", "Write")

    assert merge.reason == ""
    assert (root / "a.txt").read_text() == "both\n"
    assert is_as_new(root)


def test_a_conflict_that_is_not_resolved_is_not_merged(root: Path, branches: TaskBranches) -> None:
    first = branches.prepare_worktree("t-1", "Write")
    (first.directory / "a.txt").write_text("task\n")
    commit(root, "a.txt", "person\n")
    again = branches.prepare_worktree("t-1", "Write")

    merge = branches.commit_and_merge(again, "t-1", "Write")
    git(again.directory, "add", "-A")
    added = branches.commit_and_merge(again, "t-1", "Write")

    for one in (merge, added):
        assert one == MergeResult(conflicts=("a.txt",), reason="The merge conflict is not resolved in a.txt.")
    assert (root / "a.txt").read_text() == "person\n"


def test_a_file_that_one_side_deleted_has_to_be_added_or_removed(root: Path, branches: TaskBranches) -> None:
    first = branches.prepare_worktree("t-1", "Write")
    (first.directory / "a.txt").write_text("task\n")
    git(root, "rm", "-q", "a.txt")
    git(root, "commit", "-qm", "remove")
    again = branches.prepare_worktree("t-1", "Write")

    refused = branches.commit_and_merge(again, "t-1", "Write")
    git(again.directory, "add", "a.txt")
    merged = branches.commit_and_merge(again, "t-1", "Write")

    assert refused.conflicts == ("a.txt",)
    assert merged.files == ("a.txt",)
    assert (root / "a.txt").read_text() == "task\n"


def test_a_directory_that_vanished_is_made_again_from_its_branch(root: Path, branches: TaskBranches) -> None:
    place = branches.prepare_worktree("t-1", "Write")
    commit(place.directory, "half.txt", "half\n")
    shutil.rmtree(place.root)

    again = branches.prepare_worktree("t-1", "Write")

    assert not again.is_new
    assert (again.directory / "half.txt").read_text() == "half\n"
    assert git(root, "worktree", "list", "--porcelain").count("worktree ") == 2


def test_what_is_left_when_an_attempt_ends_survives_its_directory(branches: TaskBranches) -> None:
    place = branches.prepare_worktree("t-1", "Write")
    (place.directory / "half.txt").write_text("half\n")

    branches.commit_unfinished(place, "Half", "refs/ralph/attempts/run-1/1", "")
    shutil.rmtree(place.root)

    assert (branches.prepare_worktree("t-1", "Write").directory / "half.txt").read_text() == "half\n"


@pytest.mark.parametrize("where", ["", ".ralph/worktrees/t-1"])
def test_a_branch_that_vanished_comes_back_from_its_worktree(root: Path, branches: TaskBranches, where: str) -> None:
    place = branches.prepare_worktree("t-1", "Write")
    commit(place.directory, "half.txt", "half\n")
    (place.directory / "more.txt").write_text("more\n")
    git(root / where, "update-ref", "-d", "refs/heads/ralph/t-1")

    again = branches.prepare_worktree("t-1", "Write")

    assert not again.is_new
    assert git(root, "show", "ralph/t-1:half.txt", "ralph/t-1:more.txt") == "half\nmore"
    assert git(again.directory, "status", "--porcelain") == ""


def test_something_else_in_the_way_is_named_and_left_alone(root: Path, branches: TaskBranches) -> None:
    (root / ".ralph/worktrees/t-1").write_text("a file\n")
    (root / ".ralph/worktrees/t-2").mkdir()
    (root / ".ralph/worktrees/t-2/notes.txt").write_text("notes\n")

    for id in ("t-1", "t-2"):
        with pytest.raises(WorktreeError, check=lambda error: error.code == "worktree-path-taken"):
            branches.prepare_worktree(id, "Write")

    assert (root / ".ralph/worktrees/t-2/notes.txt").read_text() == "notes\n"


def test_a_branch_that_is_checked_out_elsewhere_is_named(root: Path, branches: TaskBranches) -> None:
    git(root, "checkout", "-qb", "ralph/t-1")

    with pytest.raises(WorktreeError, check=lambda error: error.code == "branch-checked-out"):
        branches.prepare_worktree("t-1", "Write")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_that_cannot_be_written_is_named(root: Path, branches: TaskBranches) -> None:
    (root / ".ralph/worktrees").chmod(0o500)

    with pytest.raises(WorktreeError, check=lambda error: error.code == "worktree-not-created"):
        branches.prepare_worktree("t-1", "Write")


def test_a_folder_that_became_a_file_is_named(root: Path, branches: TaskBranches) -> None:
    shutil.rmtree(root / ".ralph/worktrees")
    (root / ".ralph/worktrees").write_text("a file\n")

    with pytest.raises(WorktreeError, check=lambda error: error.code == "worktree-not-created"):
        branches.prepare_worktree("t-1", "Write")


def test_a_worktree_that_was_killed_before_its_files_came_is_completed(root: Path, branches: TaskBranches) -> None:
    top = root / ".ralph/worktrees/t-1"
    git(root, "branch", "ralph/t-1")
    git(root, "worktree", "add", "-q", "--no-checkout", str(top), "ralph/t-1")

    place = branches.prepare_worktree("t-1", "Write")

    assert (place.directory / "a.txt").exists()
    assert git(root, "rev-parse", "ralph/t-1") == git(root, "rev-parse", "main")


def test_a_worktree_that_was_killed_before_git_knew_of_it_is_made(root: Path, branches: TaskBranches) -> None:
    top = root / ".ralph/worktrees/t-1"
    top.mkdir()
    (top / ".git").write_text(f"gitdir: {root}/.git/worktrees/t-1\n")

    assert branches.prepare_worktree("t-1", "Write").is_new


def test_a_lock_of_a_git_that_was_killed_is_no_obstacle(
    root: Path, branches: TaskBranches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository, "INDEX_LOCK_TIMEOUT_SECONDS", 0.5)
    place = branches.prepare_worktree("t-1", "Write")
    (place.directory / "new.txt").write_text("made\n")
    (root / ".git/worktrees/t-1/index.lock").touch()

    assert branches.commit_and_merge(place, "t-1", "Write").reason == ""


def test_a_repository_that_was_moved_keeps_its_work(root: Path, branches: TaskBranches) -> None:
    place = branches.prepare_worktree("t-1", "Write")
    (place.directory / "half.txt").write_text("half\n")
    moved = root.rename(root.with_name("moved"))

    again = TaskBranches.open(moved).prepare_worktree("t-1", "Write")

    assert again.root == moved / ".ralph/worktrees/t-1"
    assert (again.directory / "half.txt").read_text() == "half\n"


@pytest.mark.parametrize("id", ["t-abc123", "JIRA-12", "a_b"])
def test_an_id_that_can_be_a_name_is_kept(id: str) -> None:
    assert branch_suffix(id) == id


FOREIGN = ["../../etc", "a/b", "a b", "..", "-x", "é", "x.lock", "", "a\nb", "refs~1^2:3", "w" * 300, "HEAD@{1}"]


def test_foreign_ids_get_names_of_their_own(root: Path, branches: TaskBranches) -> None:
    assert len({branch_suffix(id) for id in [*FOREIGN, "a-b", "etc"]}) == len(FOREIGN) + 2

    for number, id in enumerate(FOREIGN):
        place = branches.prepare_worktree(id, "Write")
        assert place.root.parent == root / ".ralph/worktrees"
        (place.directory / f"{number}.txt").write_text("made\n")
        assert branches.commit_and_merge(place, id, "Write").reason == ""

    assert is_as_new(root)


# --- back again ------------------------------------------------------------------------


def test_finished_work_is_merged_and_the_place_is_gone(root: Path, branches: TaskBranches) -> None:
    place = branches.prepare_worktree("t-1", "Write the\nletter")
    (place.directory / "new.txt").write_text("made\n")

    merge = branches.commit_and_merge(place, "t-1", "Write the\nletter")

    assert merge == MergeResult(commit=git(root, "rev-parse", "main"), files=("new.txt",))
    assert (root / "new.txt").read_text() == "made\n"
    assert (
        git(root, "log", "-1", "--format=%B|%an <%ae>") == "Write the letter\n\nRalph-Task: t-1\n|Ada <ada@example.com>"
    )
    assert is_as_new(root)


def test_commits_of_the_agent_are_merged_as_well(root: Path, branches: TaskBranches) -> None:
    place = branches.prepare_worktree("t-1", "Write")
    done = commit(place.directory, "first.txt", "made\n")
    (place.directory / "second.txt").write_text("made\n")

    merge = branches.commit_and_merge(place, "t-1", "Write")

    assert merge.files == ("first.txt", "second.txt")
    assert done in git(root, "rev-list", "main")
    assert is_as_new(root)


def test_a_branch_the_agent_made_for_itself_is_merged(root: Path, branches: TaskBranches) -> None:
    place = branches.prepare_worktree("t-1", "Write")
    git(place.directory, "checkout", "-qb", "feature/new")
    commit(place.directory, "first.txt", "made\n")
    (place.directory / "second.txt").write_text("made\n")

    merge = branches.commit_and_merge(place, "t-1", "Write")

    assert merge.files == ("first.txt", "second.txt")
    assert is_as_new(root)


def test_a_branch_that_leads_elsewhere_is_not_merged(root: Path, branches: TaskBranches) -> None:
    git(root, "checkout", "-q", "--orphan", "other")
    git(root, "commit", "-qm", "elsewhere")
    git(root, "checkout", "-q", "main")
    place = branches.prepare_worktree("t-1", "Write")
    git(place.directory, "checkout", "-q", "other")

    merge = branches.commit_and_merge(place, "t-1", "Write")

    assert "does not descend from ralph/t-1" in merge.reason
    assert not merge.waits_for_person
    assert git(branches.prepare_worktree("t-1", "Write").directory, "branch", "--show-current") == "ralph/t-1"


def test_a_rebase_that_was_left_half_done_is_taken_back(root: Path, branches: TaskBranches) -> None:
    place = branches.prepare_worktree("t-1", "Write")
    commit(place.directory, "a.txt", "task\n")
    commit(root, "a.txt", "person\n")
    run_git(place.directory, "rebase", "-q", "main")

    merge = branches.commit_and_merge(place, "t-1", "Write")
    again = branches.prepare_worktree("t-1", "Write")

    assert "rebase was left unfinished" in merge.reason
    assert again.conflicts == ("a.txt",)


def test_without_a_change_nothing_is_merged(root: Path, branches: TaskBranches) -> None:
    before = git(root, "rev-parse", "main")
    place = branches.prepare_worktree("t-1", "Look")
    commit(root, "b.txt", "meanwhile\n")

    merge = branches.commit_and_merge(place, "t-1", "Look")

    assert merge == MergeResult()
    assert git(root, "rev-parse", "main^") == before
    assert is_as_new(root)


def test_what_others_have_done_already_is_not_merged_twice(root: Path, branches: TaskBranches) -> None:
    place = branches.prepare_worktree("t-1", "Write")
    (place.directory / "new.txt").write_text("made\n")
    done = commit(root, "new.txt", "made\n")

    assert branches.commit_and_merge(place, "t-1", "Write") == MergeResult()
    assert git(root, "rev-parse", "main") == done


def test_our_own_files_are_not_committed_from_a_worktree(root: Path, branches: TaskBranches) -> None:
    place = branches.prepare_worktree("t-1", "Write")
    for file in (".ralph/knowledge/tabs.md", ".agent/memories.md", ".agent/notes.md"):
        (place.directory / file).parent.mkdir(parents=True, exist_ok=True)
        (place.directory / file).write_text("text\n")

    assert branches.commit_and_merge(place, "t-1", "Write").files == (".agent/notes.md",)


def test_who_commits_is_ralph_where_git_knows_nobody(root: Path) -> None:
    git(root, "config", "--unset", "user.name")
    git(root, "config", "--unset", "user.email")
    branches = TaskBranches.open(root)
    place = branches.prepare_worktree("t-1", "Write")
    (place.directory / "new.txt").write_text("made\n")

    branches.commit_and_merge(place, "t-1", "Write")

    assert git(root, "log", "-1", "--format=%an <%ae> %cn <%ce>") == "Ralph <ralph@localhost> Ralph <ralph@localhost>"


def test_settings_of_a_person_do_not_get_in_the_way(root: Path, branches: TaskBranches) -> None:
    place = branches.prepare_worktree("t-1", "# Write")
    commit(root, "b.txt", "meanwhile\n")
    for name, value in {
        "merge.ff": "only",
        "merge.verifySignatures": "true",
        "commit.gpgSign": "true",
        "core.quotePath": "true",
        "status.showUntrackedFiles": "no",
        "commit.cleanup": "strip",
        "color.ui": "always",
    }.items():
        git(root, "config", name, value)
    (root / ".git/hooks/pre-commit").write_text("#!/bin/sh\nexit 1\n")
    (root / ".git/hooks/pre-commit").chmod(0o755)
    (place.directory / "größe \t.txt").write_text("made\n")

    merge = branches.commit_and_merge(place, "t-1", "# Write")

    assert merge.files == ("größe \t.txt",)
    assert git(root, "log", "-1", "--format=%s") == "# Write"


def test_work_that_conflicts_leaves_the_base_as_it_was(root: Path, branches: TaskBranches) -> None:
    place = branches.prepare_worktree("t-1", "Write")
    (place.directory / "a.txt").write_text("task\n")
    (place.directory / "new.txt").write_text("made\n")
    before = commit(root, "a.txt", "person\n")

    merge = branches.commit_and_merge(place, "t-1", "Write")

    assert merge.conflicts == ("a.txt",)
    assert not merge.waits_for_person
    assert "CONFLICT (content): Merge conflict in a.txt" in merge.reason
    assert git(root, "rev-parse", "main") == before
    assert git(root, "status", "--porcelain") == ""
    assert git(place.directory, "status", "--porcelain") == ""
    assert branches.prepare_worktree("t-1", "Write").conflicts == ("a.txt",)


def test_work_that_is_in_the_base_already_is_not_merged_again(root: Path, branches: TaskBranches) -> None:
    place, other = branches.prepare_worktree("t-1", "Write"), branches.prepare_worktree("t-2", "Look")
    (place.directory / "new.txt").write_text("made\n")
    commit(root, "b.txt", "meanwhile\n")

    merge = branches.commit_and_merge(place, "t-1", "Write")
    git(other.directory, "merge", "-q", "main")

    assert merge.files == ("new.txt",)
    assert branches.commit_and_merge(other, "t-2", "Look") == MergeResult()
    assert git(root, "log", "--first-parent", "--format=%s") == "Write\nwrite b.txt\nwrite a.txt"
    assert is_as_new(root)


def test_a_change_of_the_person_in_the_way_waits_for_the_person(root: Path, branches: TaskBranches) -> None:
    place = branches.prepare_worktree("t-1", "Write")
    (place.directory / "a.txt").write_text("task\n")
    (place.directory / "new.txt").write_text("task\n")
    (root / "a.txt").write_text("unsaved\n")
    (root / "new.txt").write_text("unsaved\n")
    before = git(root, "rev-parse", "main")

    merge = branches.commit_and_merge(place, "t-1", "Write")

    assert merge.waits_for_person
    assert "a.txt" in merge.reason
    assert "new.txt" in merge.reason
    assert (merge.commit, merge.conflicts, git(root, "rev-parse", "main")) == (None, (), before)
    assert (root / "a.txt").read_text() == "unsaved\n"


def test_work_that_waited_for_a_person_is_merged_later(root: Path, branches: TaskBranches) -> None:
    place = branches.prepare_worktree("t-1", "Write")
    (place.directory / "a.txt").write_text("task\n")
    (root / "a.txt").write_text("unsaved\n")
    branches.commit_and_merge(place, "t-1", "Write")
    git(root, "checkout", "-q", "a.txt")

    merge = branches.commit_and_merge(branches.prepare_worktree("t-1", "Write"), "t-1", "Write")

    assert merge.files == ("a.txt",)
    assert (root / "a.txt").read_text() == "task\n"


def test_changes_of_the_person_that_are_not_in_the_way_stay(root: Path, branches: TaskBranches) -> None:
    place = branches.prepare_worktree("t-1", "Write")
    (place.directory / "new.txt").write_text("made\n")
    (root / "a.txt").write_text("unsaved\n")

    merge = branches.commit_and_merge(place, "t-1", "Write")

    assert merge.files == ("new.txt",)
    assert git(root, "status", "--porcelain") == "M a.txt"


def test_a_rebase_the_person_has_begun_is_not_disturbed(root: Path, branches: TaskBranches) -> None:
    place = branches.prepare_worktree("t-1", "Write")
    (place.directory / "new.txt").write_text("made\n")
    git(root, "checkout", "-qb", "other")
    commit(root, "a.txt", "other\n")
    git(root, "checkout", "-q", "main")
    commit(root, "a.txt", "main\n")
    run_git(root, "rebase", "-q", "other")

    merge = branches.commit_and_merge(place, "t-1", "Write")

    assert merge.waits_for_person
    assert "rebase is in progress" in merge.reason


def test_when_the_person_switched_to_another_branch_the_tree_is_not_touched(root: Path, branches: TaskBranches) -> None:
    place = branches.prepare_worktree("t-1", "Write")
    (place.directory / "new.txt").write_text("made\n")
    git(root, "checkout", "-qb", "elsewhere")
    (root / "a.txt").write_text("unsaved\n")

    merge = branches.commit_and_merge(place, "t-1", "Write")

    assert merge.commit == git(root, "rev-parse", "main")
    assert git(root, "ls-tree", "--name-only", "main") == "a.txt\nnew.txt"
    assert not (root / "new.txt").exists()
    assert git(root, "status", "--porcelain", "--branch") == "## elsewhere\n M a.txt"


def test_a_tree_elsewhere_that_has_the_base_checked_out_moves_on_with_it(root: Path, branches: TaskBranches) -> None:
    place = branches.prepare_worktree("t-1", "Write")
    (place.directory / "new.txt").write_text("made\n")
    git(root, "checkout", "-qb", "elsewhere")
    git(root, "worktree", "add", "-q", "../second", "main")

    branches.commit_and_merge(place, "t-1", "Write")

    assert (root.parent / "second/new.txt").exists()
    assert git(root.parent / "second", "status", "--porcelain") == ""


def test_a_base_that_vanished_is_named_and_the_work_stays(root: Path, branches: TaskBranches) -> None:
    place = branches.prepare_worktree("t-1", "Write")
    (place.directory / "new.txt").write_text("made\n")
    git(root, "checkout", "-qb", "renamed")
    git(root, "branch", "-qD", "main")

    merge = branches.commit_and_merge(place, "t-1", "Write")

    assert merge == MergeResult(
        reason="The branch main no longer exists; the work is on ralph/t-1.", waits_for_person=True
    )
    assert "new.txt" in git(root, "ls-tree", "--name-only", "ralph/t-1")
    with pytest.raises(WorktreeError, check=lambda error: error.code == "base-branch-missing"):
        branches.prepare_worktree("t-2", "Write")


def test_a_worktree_that_vanished_before_its_end_is_told(branches: TaskBranches) -> None:
    place = branches.prepare_worktree("t-1", "Write")
    shutil.rmtree(place.root)

    merge = branches.commit_and_merge(place, "t-1", "Write")

    assert merge.reason == f"The worktree {place.root} no longer exists."


def test_what_cannot_be_committed_goes_back_to_the_task(branches: TaskBranches) -> None:
    place = branches.prepare_worktree("t-1", "Write")
    nested = place.directory / "nested"
    nested.mkdir()
    git(nested, "init", "-q")
    (nested / "x.txt").write_text("x\n")

    merge = branches.commit_and_merge(place, "t-1", "Write")

    assert "cannot be committed" in merge.reason
    assert not merge.waits_for_person
    assert (branches.prepare_worktree("t-1", "Write").directory / "nested/x.txt").exists()


def test_folders_nobody_may_change_do_not_keep_a_place(root: Path, branches: TaskBranches) -> None:
    commit(root, ".gitignore", "cache/\n")
    place = branches.prepare_worktree("t-1", "Write")
    (place.directory / "cache").mkdir()
    (place.directory / "cache/file").touch()
    (place.directory / "cache").chmod(0o500)

    branches.commit_and_merge(place, "t-1", "Write")

    assert is_as_new(root)


def test_a_file_that_only_looks_changed_is_no_obstacle(root: Path, branches: TaskBranches) -> None:
    commit(root, ".gitattributes", "*.txt text eol=lf\n")
    place = branches.prepare_worktree("t-1", "Write")
    (place.directory / "a.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")

    assert branches.commit_and_merge(place, "t-1", "Write").reason == ""


def test_somebody_who_merges_is_waited_for_until_it_is_time_to_stop(root: Path, branches: TaskBranches) -> None:
    place = branches.prepare_worktree("t-1", "Write")
    (place.directory / "new.txt").write_text("made\n")

    with Repository.open(root).lock():
        merge = branches.commit_and_merge(place, "t-1", "Write", should_stop=lambda: True)

    assert merge == MergeResult(reason="The run was stopped before the work was merged.")
    assert branches.commit_and_merge(place, "t-1", "Write").files == ("new.txt",)


def test_another_git_at_work_in_the_tree_is_waited_for(root: Path, branches: TaskBranches) -> None:
    place = branches.prepare_worktree("t-1", "Write")
    (place.directory / "new.txt").write_text("made\n")
    lock = root / ".git/index.lock"
    lock.touch()
    timer = threading.Timer(0.3, lock.unlink)
    timer.start()

    merge = branches.commit_and_merge(place, "t-1", "Write")
    timer.join()

    assert merge.files == ("new.txt",)


def test_a_git_that_outlives_its_run_holds_the_lock_of_the_run(root: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    run = subprocess.Popen([sys.executable, "-c", KILLED_DURING_A_MERGE, str(root), str(pipe)])
    writer = pipe.open("wb")  # opens once git reads
    run.kill()
    run.wait()
    others = Repository.open(root)

    with pytest.raises(StopRequestedError), others.lock(lambda: True):
        pass
    writer.close()
    with others.lock():
        assert git(root, "fsck") == ""


def test_work_is_committed_on_top_of_the_current_base(root: Path, branches: TaskBranches) -> None:
    place = branches.prepare_worktree("t-1", "Write")
    (place.directory / "new.txt").write_text("made\n")
    first = branches.commit_work(place, "t-1", "Write")
    moved = commit(root, "b.txt", "meanwhile\n")

    behind = branches.commit_work(place, "t-1", "Write", catches_up=False)
    current = branches.commit_work(place, "t-1", "Write")

    assert (first.base, behind.base, current.base) == (git(root, "rev-parse", "main~1"), "", moved)
    assert behind.commit == first.commit
    assert git(root, "ls-tree", "--name-only", current.tree).split() == ["a.txt", "b.txt", "new.txt"]
    assert branches.commit_and_merge(place, "t-1", "Write", work=current).files == ("new.txt",)
    assert git(root, "rev-parse", "main^{tree}") == current.tree


# --- several at once --------------------------------------------------------------------


def test_of_two_that_conflict_one_is_merged_and_the_other_told(root: Path, branches: TaskBranches) -> None:
    places = {id: branches.prepare_worktree(id, id) for id in ("t-1", "t-2")}
    for id, place in places.items():
        (place.directory / "a.txt").write_text(f"{id}\n")
    found: dict[str, MergeResult] = {}
    start = threading.Barrier(2)

    def finish(id: str) -> None:
        start.wait()
        found[id] = branches.commit_and_merge(places[id], id, id)

    threads = [threading.Thread(target=finish, args=(id,)) for id in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    merged = [id for id, merge in found.items() if merge.commit]
    refused = [merge for merge in found.values() if merge.reason]
    assert len(merged) == 1
    assert [merge.conflicts for merge in refused] == [("a.txt",)]
    assert (root / "a.txt").read_text() == f"{merged[0]}\n"
    assert git(root, "status", "--porcelain") == ""


@pytest.mark.slow
def test_eight_workers_lose_nothing(root: Path, branches: TaskBranches) -> None:
    problems: list[str] = []

    def work(worker: int) -> None:
        for number in range(5):
            id = f"t-{worker}-{number}"
            place = branches.prepare_worktree(id, id)
            (place.directory / f"{id}.txt").write_text("made\n")
            # An agent's own command may meet a worktree that git is just creating or removing, and is run again.
            ran = next(
                (ran for ran in (run_git(place.directory, "branch", "--list") for _ in range(5)) if ran.ok), None
            )
            merge = branches.commit_and_merge(place, id, id)
            if merge.reason or ran is None or merge.files != (f"{id}.txt",):
                problems.append(str(merge))

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert problems == []
    assert len(list(root.glob("t-*.txt"))) == 40
    assert len(git(root, "log", "--first-parent", "--format=%s").split()) == 42
    assert is_as_new(root)
    assert git(root, "fsck") == ""


def test_processes_take_turns(root: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from ralph.loop.git.branches import TaskBranches\n"
        "branches = TaskBranches.open(Path(sys.argv[1]))\n"
        "for number in range(5):\n"
        "    id = f't-{sys.argv[2]}-{number}'\n"
        "    place = branches.prepare_worktree(id, id)\n"
        "    (place.directory / id).write_text('made')\n"
        "    assert not branches.commit_and_merge(place, id, id).reason\n"
    )

    running = [subprocess.Popen([sys.executable, "-c", script, str(root), str(number)]) for number in range(3)]

    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert len(list(root.glob("t-*"))) == 15
    assert is_as_new(root)


def test_what_was_killed_between_commit_and_merge_is_found_again(root: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", BROKEN_OFF, str(root)], check=False)
    assert killed.returncode == -signal.SIGKILL
    before = git(root, "rev-parse", "main")

    branches = TaskBranches.open(root)
    place = branches.prepare_worktree("t-1", "Write")
    merge = branches.commit_and_merge(place, "t-1", "Write")

    assert not place.is_new
    assert merge.files == ("new.txt",)
    assert git(root, "rev-parse", "main^") == before
    assert is_as_new(root)


def test_a_git_that_takes_too_long_is_ended_with_all_it_started(root: Path, tmp_path: Path) -> None:
    said = tmp_path / "pid"
    git(root, "config", "filter.slow.clean", f"echo $$ > {said}; exec sleep 60")
    (root / ".gitattributes").write_text("*.slow filter=slow\n")
    (root / "x.slow").write_text("x\n")
    trust_git_programs(root)

    ran = run_git(root, "add", "-A", timeout_seconds=0.5)

    assert ran.stderr == "git took longer than 0.5 s"
    pid = int(said.read_text())
    deadline = time.monotonic() + 5
    while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# --- tidiness ---------------------------------------------------------------------------


def test_tidying_removes_only_what_is_merged_and_not_kept(root: Path, branches: TaskBranches) -> None:
    for id in ("kept", "idle", "dirty", "ahead", "vanished"):
        branches.prepare_worktree(id, "Write")
    worktrees = root / ".ralph/worktrees"
    (worktrees / "dirty/new.txt").write_text("made\n")
    commit(worktrees / "ahead", "new.txt", "made\n")
    shutil.rmtree(worktrees / "vanished")
    git(root, "branch", "ralph/alone")

    gone = branches.remove_merged(lambda: {"kept"})

    assert set(gone) == {"ralph/alone", "ralph/idle", "ralph/vanished"}
    assert sorted(place.name for place in worktrees.glob("[!.]*")) == ["ahead", "dirty", "kept"]
    assert git(root, "worktree", "list", "--porcelain").count("worktree ") == 4


def test_tidying_leaves_worktrees_of_other_projects_alone(root: Path, branches: TaskBranches) -> None:
    other = root / "other"
    commit(root, "other/file.txt", "text\n")
    theirs = TaskBranches.open(other).prepare_worktree("t-9", "Write")

    assert branches.remove_merged(lambda: ()) == ()
    assert theirs.directory.is_dir()


# --- a project below the top, and where commands find it ---------------------------------


def test_a_project_in_a_subdirectory_is_worked_on_in_the_same_one(root: Path) -> None:
    project = root / "sub/project"
    commit(root, "sub/project/b.txt", "text\n")
    commit(root, "c.txt", "text\n")
    branches = TaskBranches.open(project)
    place = branches.prepare_worktree("t-1", "Write")
    (place.directory / "b.txt").write_text("task\n")
    (place.directory / ".ralph/knowledge").mkdir(parents=True)
    (place.directory / ".ralph/knowledge/tabs.md").write_text("text\n")
    (place.root / "c.txt").write_text("task\n")

    merge = branches.commit_and_merge(place, "t-1", "Write")

    assert place.root == project / ".ralph/worktrees/t-1"
    assert place.directory == place.root / "sub/project"
    assert merge.files == ("../../c.txt", "b.txt")
    assert (project / "b.txt").read_text() == (root / "c.txt").read_text() == "task\n"


def test_conflicts_in_a_subdirectory_are_named_from_there(root: Path) -> None:
    commit(root, "sub/b.txt", "text\n")
    branches = TaskBranches.open(root / "sub")
    place = branches.prepare_worktree("t-1", "Write")
    (place.directory / "b.txt").write_text("task\n")
    commit(root, "sub/b.txt", "person\n")

    merge = branches.commit_and_merge(place, "t-1", "Write")
    again = branches.prepare_worktree("t-1", "Write")
    not_resolved = branches.commit_and_merge(again, "t-1", "Write")

    assert merge.conflicts == again.conflicts == not_resolved.conflicts == ("b.txt",)


def test_a_repository_that_runs_in_a_hook_does_not_lead_elsewhere(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
    branches = TaskBranches.open(root)
    place = branches.prepare_worktree("t-1", "Write")
    (place.directory / "new.txt").write_text("made\n")

    branches.commit_and_merge(place, "t-1", "Write")

    assert (root / "new.txt").exists()


@pytest.mark.usefixtures("store_url")
def test_in_a_worktree_commands_find_the_project_it_belongs_to(root: Path) -> None:
    init_project(root)
    commit(root, ".ralph.toml", '[store]\nurl = "sqlite:elsewhere.db"\n')
    commit(root, ".ralph/knowledge/tabs.md", "text\n")
    place = TaskBranches.open(root).prepare_worktree("t-1", "Write")
    (place.directory / "deep").mkdir()

    assert find_root(place.directory) == str(root)
    assert find_root(place.directory / "deep") == str(root)
    assert find_root(root) == str(root)
