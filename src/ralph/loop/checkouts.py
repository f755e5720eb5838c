"""Worktrees that come and go in one step.

`git worktree add` and `remove` let every other git command in the repository
see a half-made worktree, and die of it ("failed to read commondir"). Here the
files that make one known to git are put together elsewhere and moved into
place whole; on the way out they leave the same way.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from ralph.errors import WorktreeError
from ralph.git import run_git

ROOM = "ralph"
"""Our folder in the repository's own: for locks, and for what is being made or thrown away."""
GONE = ".gone-"
"""How the name of a worktree that is being removed begins; no task's does."""
LITTER_SECONDS = 3600.0
TRIES = 5


def registered(top: Path) -> Path | None:
    """Give the folder in which git keeps what it knows of a worktree; None if it knows nothing of it."""
    try:
        text = (top / ".git").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    folder = top / text.removeprefix("gitdir: ").rstrip("\n")
    return folder if (folder / "HEAD").is_file() else None


def register(common: Path, top: Path, branch: str) -> None:
    """Make a worktree without files, on a branch that may not be there yet."""
    top.mkdir(exist_ok=True)
    if (common / "reftable").is_dir():
        _register_by_git(common, top, branch)
        return
    new = common / ROOM / f"new-{os.urandom(6).hex()}"
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
    """Let git do it: references are kept in a way that only it knows."""
    for again in range(TRIES):
        ran = run_git(common, "worktree", "add", "-q", "-f", "--no-checkout", "--detach", str(top), "HEAD")
        if ran.ok or "commondir" not in ran.error:
            break
        time.sleep(0.01 * 2**again)
    if ran.ok:
        ran = run_git(top, "symbolic-ref", "HEAD", f"refs/heads/{branch}")
    if not ran.ok:
        raise WorktreeError(f"git cannot make the worktree {top}: {ran.error.strip()}")


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", errors="surrogateescape")


def forget(common: Path, top: Path) -> None:
    """Remove a worktree, also one whose directory has vanished; its branch stays."""
    folders = [registered(top)] if registered(top) else _known_at(common, top)
    if os.path.lexists(top):
        gone = top.with_name(f"{GONE}{os.urandom(6).hex()}")
        top.rename(gone)
        _delete(gone)
    for folder in folders:
        if folder:
            _throw_away(common, folder)


def _known_at(common: Path, top: Path) -> list[Path | None]:
    """Give the folders of worktrees that git believes to be at a path."""
    wanted = os.path.realpath(top / ".git")
    found: list[Path | None] = []
    for file in (common / "worktrees").glob("*/gitdir"):
        try:
            text = file.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            continue
        if os.path.realpath(text.rstrip("\n")) == wanted:
            found.append(file.parent)
    return found


def _throw_away(common: Path, folder: Path) -> None:
    gone = common / ROOM / f"gone-{os.urandom(6).hex()}"
    gone.parent.mkdir(exist_ok=True)
    try:
        folder.rename(gone)
    except FileNotFoundError:
        return  # somebody else was faster
    _delete(gone)


def _delete(path: Path) -> None:
    """Delete a folder, or a file; what cannot be deleted is in nobody's way any more."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    try:
        shutil.rmtree(path)
    except OSError:
        # Some tools write folders that nobody may change.
        for folder, _, _ in os.walk(path):
            try:
                os.chmod(folder, 0o700)  # noqa: PTH101
            except OSError:
                continue
        shutil.rmtree(path, ignore_errors=True)


def sweep(common: Path, folder: Path) -> None:
    """Delete what was being made or thrown away when somebody was killed."""
    litter = [*folder.glob(f"{GONE}*"), *(path for path in (common / ROOM).glob("*-*") if path.is_dir())]
    for path in litter:
        try:
            age_seconds = time.time() - path.stat().st_mtime
        except OSError:
            continue
        if age_seconds > LITTER_SECONDS:
            _delete(path)
