"""Atomic creation and removal of git worktrees.

`git worktree add` and `remove` expose a half-made worktree to other git commands
in the repository, which then fail ("failed to read commondir"). Here the files
that register a worktree are written elsewhere and moved into place by one rename;
removal works the same way.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from ralph.core.errors import WorktreeError
from ralph.core.git import run_git

ADMIN_DIRECTORY = "ralph"
"""Directory inside the git directory for locks and for worktrees being created or removed."""
REMOVED_PREFIX = ".gone-"
"""Name prefix of worktrees that are being removed."""
LEFTOVER_SECONDS = 3600.0
"""Age from which leftovers of killed processes are deleted, in seconds."""
WORKTREE_ADD_RETRIES = 5
"""Number of attempts to run `git worktree add`."""


def worktree_git_directory(top: Path) -> Path | None:
    """Return git's administrative directory of a worktree, or None if it is not registered."""
    try:
        text = (top / ".git").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    folder = top / text.removeprefix("gitdir: ").rstrip("\n")
    return folder if (folder / "HEAD").is_file() else None


def create_worktree(common: Path, top: Path, branch: str) -> None:
    """Create a worktree without files, on a branch that may not exist yet."""
    top.mkdir(exist_ok=True)
    if (common / "reftable").is_dir():
        _register_by_git(common, top, branch)
        return
    new = common / ADMIN_DIRECTORY / f"new-{os.urandom(6).hex()}"
    new.mkdir(parents=True)
    _write(new / "commondir", "../..\n")
    _write(new / "HEAD", f"ref: refs/heads/{branch}\n")
    _write(new / "gitdir", f"{top / '.git'}\n")
    worktrees = common / "worktrees"
    worktrees.mkdir(exist_ok=True)
    folder = worktrees / top.name
    if folder.exists():
        folder = worktrees / f"{top.name}-{os.urandom(4).hex()}"
    _write(top / ".git", f"gitdir: {folder}\n")
    new.rename(folder)


def _register_by_git(common: Path, top: Path, branch: str) -> None:
    """Create a worktree with git itself, as reftable repositories require."""
    for retry in range(WORKTREE_ADD_RETRIES):
        ran = run_git(common, "worktree", "add", "-q", "-f", "--no-checkout", "--detach", str(top), "HEAD")
        if ran.ok or "commondir" not in ran.stderr:
            break
        time.sleep(0.01 * 2**retry)
    if ran.ok:
        ran = run_git(top, "symbolic-ref", "HEAD", f"refs/heads/{branch}")
    if not ran.ok:
        raise WorktreeError(f"git could not create the worktree {top}: {ran.stderr.strip()}")


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", errors="surrogateescape")


def remove_worktree(common: Path, top: Path) -> None:
    """Remove a worktree, even if its directory no longer exists; its branch stays."""
    folders = [worktree_git_directory(top)] if worktree_git_directory(top) else _registered_at(common, top)
    if os.path.lexists(top):
        gone = top.with_name(f"{REMOVED_PREFIX}{os.urandom(6).hex()}")
        top.rename(gone)
        _delete(gone)
    for folder in folders:
        if folder:
            _discard(common, folder)


def _registered_at(common: Path, top: Path) -> list[Path | None]:
    """Return the administrative directories of worktrees registered at a path."""
    target = os.path.realpath(top / ".git")
    found: list[Path | None] = []
    for file in (common / "worktrees").glob("*/gitdir"):
        try:
            text = file.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            continue
        if os.path.realpath(text.rstrip("\n")) == target:
            found.append(file.parent)
    return found


def _discard(common: Path, folder: Path) -> None:
    gone = common / ADMIN_DIRECTORY / f"gone-{os.urandom(6).hex()}"
    gone.parent.mkdir(exist_ok=True)
    try:
        folder.rename(gone)
    except FileNotFoundError:
        return  # another process was faster
    _delete(gone)


def _delete(path: Path) -> None:
    """Delete a file or a directory as far as possible."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    try:
        shutil.rmtree(path)
    except OSError:
        # Some tools create read-only directories.
        for folder, _, _ in os.walk(path):
            try:
                os.chmod(folder, 0o700)  # noqa: PTH101
            except OSError:
                continue
        shutil.rmtree(path, ignore_errors=True)


def delete_leftovers(common: Path, folder: Path) -> None:
    """Delete leftovers of processes that were killed while creating or removing a worktree."""
    leftovers = [
        *folder.glob(f"{REMOVED_PREFIX}*"),
        *(path for path in (common / ADMIN_DIRECTORY).glob("*-*") if path.is_dir()),
    ]
    for path in leftovers:
        try:
            age_seconds = time.time() - path.stat().st_mtime
        except OSError:
            continue
        if age_seconds > LEFTOVER_SECONDS:
            _delete(path)
