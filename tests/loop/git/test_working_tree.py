"""A tree of the files that git status names is the tree of all files, and is written without looking at the others."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ralph.core import git as core_git
from ralph.loop.git import working_tree
from ralph.loop.git.repository import Repository
from ralph.loop.git.working_tree import WorkingTree

CHANGES = {
    "modified": "echo 2 > a.py",
    "new": "mkdir -p new/folder && echo 1 > new/folder/b.py",
    "deleted": "rm a.py",
    "staged and changed again": "echo 2 > a.py && git add a.py && echo 3 > a.py",
    "staged and deleted": "echo 2 > c.py && git add c.py && rm c.py",
    "executable": "chmod +x a.py",
    "link": "ln -s a.py link && ln -sf a.py folder/d.py",
    "file to directory": "rm a.py && mkdir a.py && echo 1 > a.py/inner",
    "directory to file": "rm -r folder && echo 1 > folder",
    "directory to link": "mv folder moved && ln -s moved folder",
    "names with any characters": r"""touch ' :(top)x*' -- "-n" 'quo"te' "$(printf 'new\nline')" """,
    "name that is not UTF-8": r"""echo 1 > "$(printf 'latin\351')" """,
    "other line endings": "git config core.autocrlf true && printf 'x = 1\\r\\n' > a.py",
    "conflict": "git checkout -qb b && echo b > a.py && git commit -qam b && git checkout -q - && echo c > a.py"
    " && git commit -qam c && ! git merge -q b",
    "deleted in a conflict": "git checkout -qb b && echo b > a.py && git commit -qam b && git checkout -q -"
    " && git rm -q a.py && git commit -qm c && ! git merge -q b && rm a.py",
    "nested repository": "git init -q inner && git -C inner -c user.name=A -c user.email=a@b.c commit -q --allow-empty"
    " -m x",
    "ignored but tracked": "echo '*.py' > .gitignore && echo 2 > a.py && echo 1 > ignored.py",
    "intent to add": "echo 1 > later.py && git add -N later.py",
    "unreadable": "echo 1 > secret && chmod 000 secret && echo 2 > a.py",
}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """Give a repository with two files."""
    shell(tmp_path, "git init -q && git config user.name A && git config user.email a@b.c && mkdir folder")
    shell(tmp_path, "echo 'x = 1' > a.py && echo 1 > folder/d.py && git add -A && git commit -qm first")
    return tmp_path


def shell(directory: Path, script: str) -> None:
    """Run a script, which must succeed."""
    subprocess.run(["sh", "-c", script], cwd=directory, check=True, capture_output=True)


@pytest.mark.parametrize("script", CHANGES.values(), ids=CHANGES)
def test_a_tree_of_the_changed_files_is_the_tree_of_all(top: Path, script: str) -> None:
    shell(top, script)
    tree, state = WorkingTree(top, (":/",)), Repository.open(top).status(top, "--untracked-files=all")
    index = tree.read_index()

    of_changed = tree.write_tree(index, changed=(*state.changed, *(path for path, _ in state.unmerged)))

    assert of_changed
    assert of_changed == tree.write_tree(index)
    assert tree.read_index() == index


def test_a_tree_of_changed_files_looks_at_no_others(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (top / "a.py").write_text("x = 2\n")
    (top / "other.py").write_text("")
    started: list[str] = []
    run = core_git._run

    def counted(directory: Path, arguments: tuple[str, ...], *rest: object) -> core_git.GitResult:
        started.append(next(word for word in arguments if word in ("update-index", "write-tree", "add", "status")))
        return run(directory, arguments, *rest)  # type: ignore[arg-type]

    tree = WorkingTree(top, (":/",))
    index = tree.read_index()
    monkeypatch.setattr(core_git, "_run", counted)
    written = tree.write_tree(index, changed=["a.py"])
    monkeypatch.undo()

    assert started == ["update-index", "write-tree"]
    listed = subprocess.run(["git", "ls-tree", "-r", "--name-only", written], cwd=top, capture_output=True, check=True)
    assert listed.stdout.split() == [b"a.py", b"folder/d.py"]


def test_an_index_that_was_locked_is_caught_up_with_later(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working_tree, "INDEX_LOCK_TIMEOUT_SECONDS", 0.1)
    tree, lock = WorkingTree(top, (":/",)), top / ".git/index.lock"
    shell(top, "echo 2 > a.py && git add a.py")
    lock.touch()

    assert not tree.reset_index(["a.py"])
    assert not tree.retry_reset()
    lock.unlink()
    assert tree.retry_reset()

    shell(top, "git diff --cached --quiet")
