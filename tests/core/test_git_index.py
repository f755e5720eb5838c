"""Whether git tracks a file, whatever form its index has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ralph.core import git_index
from ralph.core.errors import RalphError
from ralph.core.git_index import tracked_files
from tests.trusting import git

pytestmark = pytest.mark.storeless
FORMS: dict[str, list[tuple[str, ...]]] = {
    "plain": [],
    "extended flags": [("add", "-N", "later")],
    "prefix compression": [("update-index", "--index-version", "4")],
    "split": [("update-index", "--split-index")],
    "untracked cache": [("update-index", "--untracked-cache")],
}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    directory = tmp_path / "repository"
    (directory / ".ralph").mkdir(parents=True)
    for name in (".ralph/ralph.da", ".ralph/ralph.db", "later", "other"):
        (directory / name).write_text(name)
    git(directory, "init", "-q")
    git(directory, "add", "-f", ".ralph/ralph.da", "other")
    return directory


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_file_is_tracked_from_add_to_rm(repository: Path, form: list[tuple[str, ...]]) -> None:
    path = str(repository / ".ralph/ralph.db")
    for words in form:
        git(repository, *words)

    before = tracked_files(path)
    git(repository, "add", "-f", ".ralph/ralph.db")
    added = tracked_files(path)
    git(repository, "commit", "-q", "-m", "Add it")
    committed = tracked_files(path)
    git(repository, "rm", "-q", "--cached", ".ralph/ralph.db")

    assert before == []
    assert added == committed == [".ralph/ralph.db"]
    assert tracked_files(path) == []


def test_companions_of_a_file_are_found_and_namesakes_are_not(repository: Path) -> None:
    path = str(repository / ".ralph/ralph.db")
    for name in (".ralph/ralph.db-wal", ".ralph/ralph.db.md", "sub/.ralph/ralph.db", ".RALPH/RALPH.DB"):
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(name)
    git(repository, "add", "-f", ".ralph/ralph.db.md", "sub", ".RALPH")
    alone = tracked_files(path, ("", "-wal"))
    git(repository, "add", "-f", ".ralph/ralph.db-wal")

    assert alone == []
    assert tracked_files(path, ("", "-wal")) == [".ralph/ralph.db-wal"]


def test_links_submodules_and_worktrees_lead_to_the_index_that_counts(repository: Path, tmp_path: Path) -> None:
    git(repository, "add", "-f", ".ralph/ralph.db")
    git(repository, "commit", "-q", "-m", "Add it")
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(repository), "inner")
    (outer / "link.db").symlink_to("inner/.ralph/ralph.db")
    git(repository, "worktree", "add", "-q", str(tmp_path / "tree"))

    assert tracked_files(str(outer / "link.db")) == [".ralph/ralph.db"]
    assert tracked_files(str(tmp_path / "tree/.ralph/ralph.db")) == [".ralph/ralph.db"]


def test_a_directory_below_a_repository_is_part_of_it(repository: Path) -> None:
    (repository / "app/.ralph").mkdir(parents=True)
    (repository / "app/.ralph/ralph.db").write_text("it")
    before = tracked_files(str(repository / "app/.ralph/ralph.db"))
    git(repository, "add", "-f", "app")

    assert before == []
    assert tracked_files(str(repository / "app/.ralph/ralph.db")) == ["app/.ralph/ralph.db"]


def test_the_answer_about_a_large_index_is_remembered_until_it_changes(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(repository / ".ralph/ralph.db")
    monkeypatch.setattr(git_index, "MAX_SEARCHED_BYTES", 10)
    first = tracked_files(path)
    monkeypatch.setattr(git_index, "_ask", lambda *_: pytest.fail("asked again"))
    again = tracked_files(path)
    monkeypatch.undo()
    git(repository, "add", "-f", ".ralph/ralph.db")

    assert (first, again) == ([], [])
    assert tracked_files(path) == [".ralph/ralph.db"]


def test_without_git_what_is_in_the_index_counts(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(repository, "add", "-f", ".ralph/ralph.db")
    monkeypatch.setenv("PATH", os.devnull)

    assert tracked_files(str(repository / ".ralph/ralph.db")) == [".ralph/ralph.db"]
    assert tracked_files(str(repository / ".ralph/other.db")) == []


@pytest.mark.parametrize("form", ["prefix compression", "split"])
def test_without_git_an_index_that_cannot_be_searched_counts(
    repository: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    git(repository, "add", "-f", ".ralph/ralph.db")
    for words in FORMS[form]:
        git(repository, *words)
    monkeypatch.setenv("PATH", os.devnull)

    with pytest.raises(RalphError) as caught:
        tracked_files(str(repository / ".ralph/ralph.db"))
    assert caught.value.code == "database-tracked"


def test_a_failure_of_git_is_not_remembered(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(repository / ".ralph/ralph.db")
    for words in FORMS["prefix compression"]:
        git(repository, *words)
    with monkeypatch.context() as patched:
        patched.setenv("PATH", os.devnull)
        with pytest.raises(RalphError):
            tracked_files(path)

    assert tracked_files(path) == []


def test_a_path_that_is_not_utf_8_is_found(repository: Path) -> None:
    name = os.fsdecode(b"d\xff/x.db")
    (repository / name).parent.mkdir()
    (repository / name).write_text("it")
    (repository / ".ralph/ralph.db").unlink()
    (repository / ".ralph/ralph.db").symlink_to(repository / name)
    git(repository, "add", "-f", ".")

    assert tracked_files(str(repository / ".ralph/ralph.db")) == [name]
    assert tracked_files(str(repository / ".ralph/ralph.db")) == [name]  # what was remembered


def test_no_repository_and_a_new_one_track_nothing(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    git(tmp_path / "new", "init", "-q")

    assert tracked_files(str(tmp_path / "file")) == tracked_files(str(tmp_path / "new/file")) == []
