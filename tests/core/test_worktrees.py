"""Linked worktrees, found without git: only what both sides say counts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ralph.core.worktrees import LinkedWorktree, find_linked_worktree, linked_worktrees
from tests.trusting import git

pytestmark = pytest.mark.storeless


def make_repository(directory: Path) -> Path:
    """Make a repository with a commit."""
    (directory / "app").mkdir(parents=True)
    (directory / "app" / "one.py").write_text("1\n")
    git(directory, "init", "-q")
    git(directory, "add", "-A")
    git(directory, "commit", "-q", "-m", "One")
    return directory


@pytest.fixture
def main(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "main")


@pytest.fixture
def linked(main: Path) -> Path:
    git(main, "worktree", "add", "-q", "../linked")
    return main.parent / "linked"


def found(directory: Path) -> LinkedWorktree | None:
    return find_linked_worktree(str(directory))


# --- what git makes ------------------------------------------------------------------


def test_a_linked_worktree_names_the_main_one_from_every_directory(main: Path, linked: Path) -> None:
    expected = LinkedWorktree(top=str(linked), main=str(main))

    assert found(linked) == expected
    assert found(linked / "app") == expected
    assert linked_worktrees(main) == [str(linked)]
    assert linked_worktrees(main / "app") == [str(linked / "app")]


def test_relative_links_are_followed(main: Path, linked: Path) -> None:
    """As `worktree.useRelativePaths` of newer versions of git writes them."""
    (linked / ".git").write_text("gitdir: ../main/.git/worktrees/linked\n")
    (main / ".git" / "worktrees" / "linked" / "gitdir").write_text("../../../../linked/.git\n")

    assert found(linked) == LinkedWorktree(top=str(linked), main=str(main))
    assert linked_worktrees(main) == [str(linked)]


def test_a_worktree_reached_by_a_symlink_is_the_same_one(main: Path, linked: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(linked)

    assert found(tmp_path / "alias") == LinkedWorktree(top=str(tmp_path / "alias"), main=str(main))


def test_moved_and_removed_worktrees_are_followed(main: Path, linked: Path, tmp_path: Path) -> None:
    git(main, "worktree", "move", str(linked), str(tmp_path / "moved"))
    assert linked_worktrees(main) == [str(tmp_path / "moved")]

    (tmp_path / "moved").rename(tmp_path / "taken away")

    assert linked_worktrees(main) == []
    assert found(tmp_path / "taken away") is None


def test_a_directory_that_is_missing_on_a_branch_is_not_listed(main: Path, linked: Path) -> None:
    git(linked, "rm", "-q", "-r", "app")

    assert linked_worktrees(main / "app") == []
    assert linked_worktrees(main) == [str(linked)]


def test_a_main_worktree_and_a_plain_directory_are_no_linked_worktrees(main: Path, linked: Path) -> None:
    assert found(main) is None
    assert found(main.parent) is None
    assert linked_worktrees(linked) == []
    assert linked_worktrees(main.parent) == []
    assert linked_worktrees(main.parent / "missing") == []


def test_worktrees_of_a_bare_repository_have_no_main_one(main: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(main), "bare")
    git(tmp_path / "bare", "worktree", "add", "-q", "../linked")

    assert found(tmp_path / "linked") == LinkedWorktree(top=str(tmp_path / "linked"), main="")
    assert linked_worktrees(tmp_path / "bare") == []


# --- submodules ----------------------------------------------------------------------


@pytest.fixture
def submodule(main: Path) -> Path:
    library = make_repository(main.parent / "library")
    git(main, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib")
    git(main, "commit", "-q", "-m", "Add it")
    return main / "lib"


def test_a_submodule_is_no_worktree_of_its_superproject(main: Path, submodule: Path) -> None:
    assert (submodule / ".git").is_file()
    assert found(submodule) is None
    assert linked_worktrees(main) == []
    assert linked_worktrees(submodule) == []


@pytest.mark.parametrize("name", ["worktrees/lib", "worktrees"])
def test_a_submodule_with_the_name_of_a_worktree_is_none(main: Path, name: str) -> None:
    library = make_repository(main.parent / "library")
    git(main, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "--name", name, str(library), "lib")

    assert found(main / "lib") is None


def test_a_worktree_of_a_submodule_belongs_to_the_submodule(submodule: Path, tmp_path: Path) -> None:
    git(submodule, "worktree", "add", "-q", str(tmp_path / "linked"))

    assert found(tmp_path / "linked") == LinkedWorktree(top=str(tmp_path / "linked"), main=str(submodule))
    assert linked_worktrees(submodule) == [str(tmp_path / "linked")]


# --- what somebody else makes --------------------------------------------------------


def point(directory: Path, place: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / ".git").write_text(f"gitdir: {place}\n")


def name_the_repository(evil: Path, main: Path, linked: Path) -> None:
    point(evil, main / ".git")


def name_the_place_of_another_worktree(evil: Path, main: Path, linked: Path) -> None:
    point(evil, main / ".git" / "worktrees" / "linked")


def link_the_file_of_another_worktree(evil: Path, main: Path, linked: Path) -> None:
    (evil / ".git").symlink_to(linked / ".git")


def link_the_repository(evil: Path, main: Path, linked: Path) -> None:
    (evil / ".git").symlink_to(main / ".git")


def bring_a_place_of_its_own(evil: Path, main: Path, linked: Path) -> None:
    place = evil / "git" / "worktrees" / "evil"
    point(evil, place)
    place.mkdir(parents=True)
    (place / "commondir").write_text(f"{main / '.git'}\n")
    (place / "gitdir").write_text(f"{evil / '.git'}\n")


def bring_a_place_behind_a_symlink(evil: Path, main: Path, linked: Path) -> None:
    place = evil / "git" / "worktrees"
    (evil / "git").mkdir()
    place.symlink_to(main / ".git" / "worktrees")
    point(evil, place / "linked")


def bring_a_repository_that_names_the_main_worktree(evil: Path, main: Path, linked: Path) -> None:
    place = evil / "git" / "worktrees" / "evil"
    point(evil, place)
    place.mkdir(parents=True)
    (place / "commondir").write_text("../..\n")
    (place / "gitdir").write_text(f"{evil / '.git'}\n")
    (evil / "git" / "config").write_text(f"[core]\n\tworktree = {main}\n")


def bring_pipes(evil: Path, main: Path, linked: Path) -> None:
    place = evil / "git" / "worktrees" / "evil"
    point(evil, place)
    place.mkdir(parents=True)
    os.mkfifo(place / "commondir")
    os.mkfifo(place / "gitdir")


def be_a_pipe(evil: Path, main: Path, linked: Path) -> None:
    os.mkfifo(evil / ".git")


def bring_nonsense(evil: Path, main: Path, linked: Path) -> None:
    (evil / ".git").write_bytes(b"gitdir: \0\xff\n\n" + b"x" * 100_000)


ATTACKS: list[Callable[[Path, Path, Path], None]] = [
    *(name_the_repository, name_the_place_of_another_worktree, link_the_file_of_another_worktree),
    *(link_the_repository, bring_a_place_of_its_own, bring_a_place_behind_a_symlink),
    *(bring_a_repository_that_names_the_main_worktree, bring_pipes, be_a_pipe, bring_nonsense),
]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda one: one.__name__)
def test_files_that_point_to_a_repository_do_not_make_a_worktree_of_it(
    main: Path, linked: Path, tmp_path: Path, attack: Callable[[Path, Path, Path], None]
) -> None:
    evil = tmp_path / "evil"
    evil.mkdir()
    attack(evil, main, linked)

    opened = found(evil)

    assert opened is None or opened.main == ""
    assert linked_worktrees(evil) == []
    assert linked_worktrees(main) == [str(linked)]


def test_a_repository_cannot_claim_directories_that_do_not_belong_to_it(main: Path, tmp_path: Path) -> None:
    evil = make_repository(tmp_path / "evil")
    for name, top in (("one", main), ("two", tmp_path)):
        place = evil / ".git" / "worktrees" / name
        place.mkdir(parents=True)
        (place / "commondir").write_text("../..\n")
        (place / "gitdir").write_text(f"{top / '.git'}\n")

    assert linked_worktrees(evil) == []
