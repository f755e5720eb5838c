"""Creation and removal of git worktrees."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ralph.core.files import is_inside, read_bytes_or_none

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.loop.git.repository import Repository

ADMIN_DIRECTORY = "ralph"
"""Directory inside the git directory for the locks of tasks and of merges."""
SESSION_ACTION = "ralph session"
"""What git writes into its logs for commands of sessions and gates."""
_MERGED = ("Merge made by the 'ort' strategy.", "Merge made by the 'recursive' strategy.")
"""Ends of entries in git's log for merges."""


def worktree_git_directory(top: Path) -> Path | None:
    """Return git's administrative directory of a worktree, or None if it is not registered, or a link elsewhere."""
    if top.is_symlink():
        return None
    try:
        text = (top / ".git").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    folder = top / text.removeprefix("gitdir: ").rstrip("\n")
    return folder if (folder / "HEAD").is_file() else None


def last_commit(top: Path) -> str:
    """Return the last commit checked out in a worktree, from its log; empty if there is none."""
    return next((commit for commit, _ in reversed(_log_of(top)) if commit.strip("0")), "")


def made_commits(top: Path) -> set[str]:
    """Return the commits made in a worktree, from its log."""
    return {commit for commit, what in _log_of(top) if what.startswith(("commit", SESSION_ACTION))}


def _log_of(top: Path) -> list[tuple[str, str]]:
    folder = worktree_git_directory(top)
    return read_log(folder) if folder else []


def read_log(git_directory: Path) -> list[tuple[str, str]]:
    """Return the commits that were checked out in a worktree, oldest first, and what led to each."""
    text = (read_bytes_or_none(git_directory / "logs" / "HEAD") or b"").decode("utf-8", "replace")
    entries = (line.partition("\t") for line in text.splitlines())
    return [(fields.split(" ")[1], what) for fields, _, what in entries if " " in fields]


def is_commit_made(what: str, subject: str) -> bool:
    """Return whether an entry of git's log made a commit, rather than move to one that was there."""
    return what.rstrip().endswith((f": {' '.join(subject.split())}".rstrip(), *_MERGED))


def add_worktree(repository: Repository, top: Path, branch: str, commit: str) -> None:
    """Create a worktree without files, on a branch at a commit."""
    # Forced twice: an earlier worktree at this path may have been deleted while git had it locked.
    options = ("-q", "--force", "--force", "--no-checkout", "--no-track", "-B", branch)
    repository.run_git_checked(repository.top, "worktree", "add", *options, str(top), commit)


def add_checkout(repository: Repository, top: Path, commit: str) -> None:
    """Create a worktree with the files of a commit, on no branch."""
    repository.run_git_checked(
        repository.top, "worktree", "add", "-q", "--force", "--force", "--detach", str(top), commit
    )


def remove_worktree(repository: Repository, top: Path) -> None:
    """Remove a worktree, even if its directory no longer exists; its branch stays.

    A link in its place is removed, and never what it leads to: a session can have put it there.
    """
    if top.is_symlink():
        top.unlink()
    elif os.path.lexists(top) and not is_inside(top, repository.top):
        return
    repository.try_git(repository.top, "worktree", "remove", "--force", "--force", str(top))
    if os.path.lexists(top):
        _delete(top)


def _delete(path: Path) -> None:
    """Delete what git could not delete, such as read-only directories, as far as possible."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    for folder, _, _ in os.walk(path):
        try:
            os.chmod(folder, 0o700)  # noqa: PTH101
        except OSError:
            continue
    shutil.rmtree(path, ignore_errors=True)
