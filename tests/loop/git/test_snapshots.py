"""What a session changed, by one look at the files per session."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ralph.core.git import query_git
from ralph.loop.git import snapshots
from ralph.loop.git.snapshots import ChangeDetector


def git(root: Path, *words: str) -> None:
    """Run git as somebody."""
    identity = ("-c", "user.name=A", "-c", "user.email=a@b.example")
    subprocess.run(["git", *identity, *words], cwd=root, check=True, capture_output=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Give a repository with three committed files."""
    git(tmp_path, "init", "--quiet")
    (tmp_path / ".ralph").mkdir()
    for name in ("a.py", "b.py", "c.py"):
        (tmp_path / name).write_text("x = 1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    return tmp_path


def wait_for_the_clock(root: Path) -> None:
    """Wait until what is written next has a later date than what was written before."""
    before = snapshots.file_system_time(root)
    while snapshots.file_system_time(root) == before:
        pass


def test_a_session_changed_what_it_wrote_deleted_reverted_and_committed(root: Path) -> None:
    changes = ChangeDetector(root)
    changes.begin()
    (root / "a.py").write_text("x = 2\n")
    (root / "new.py").write_text("")
    assert changes.end() == ("a.py", "new.py")

    changes.begin()
    assert changes.end() == ()

    changes.begin()
    git(root, "checkout", "--quiet", "a.py")
    (root / "b.py").unlink()
    (root / "new.py").unlink()
    (root / "c.py").write_text("x = 3\n")
    git(root, "commit", "--quiet", "-m", "second", "c.py")
    assert changes.end() == ("a.py", "b.py", "c.py", "new.py")


def test_what_others_change_between_sessions_is_not_the_work_of_the_next(root: Path) -> None:
    changes = ChangeDetector(root)
    changes.begin()
    (root / "a.py").write_text("x = 2\n")
    (root / "new.py").write_text("")
    assert changes.end() == ("a.py", "new.py")
    git(root, "commit", "--quiet", "-m", "done", "a.py")
    (root / "new.py").unlink()
    (root / "b.py").write_text("x = 4\n")
    (root / "coverage.xml").write_text("from a gate")
    wait_for_the_clock(root)

    changes.begin()
    (root / "c.py").write_text("x = 5\n")
    assert changes.end() == ("c.py",)


def test_every_file_is_looked_at_once_per_session(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counted(directory: Path, *words: str) -> str | None:
        asked.append(words[0])
        return query_git(directory, *words)

    monkeypatch.setattr(snapshots, "query_git", counted)
    changes = ChangeDetector(root)
    for number in range(5):
        changes.begin()
        (root / "a.py").write_text(f"x = {number + 2}\n")
        assert changes.end() == ("a.py",)

    assert asked.count("status") == 6, "one more before the first session"


def test_outside_of_a_repository_nothing_is_known(tmp_path: Path) -> None:
    changes = ChangeDetector(tmp_path)
    changes.begin()
    assert changes.end() is None
