"""Protection of a working tree during a read-only session.

The state before is saved in git, including untracked but not ignored files. Reverted
changes stay available under refs/ralph/taken-back, and commits in the reflog. Without
git nothing is reverted.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ralph.core.files import read_bytes_or_none
from ralph.core.git import query_git, run_git
from ralph.core.records import record
from ralph.loop.git.commits import LIST_INDEX, nested_repositories

if TYPE_CHECKING:
    from typing import Self

    from ralph.loop.git.settings import GitSettings

SNAPSHOT_SECONDS = 120.0
"""Timeout for adding all files to the snapshot, in seconds."""
RESTORE_BATCH_SIZE = 200
"""Number of files restored by one git command."""
ADD_SKIPPED_EXIT_CODE = 1
"""Exit code of `git add` when it skipped an unreadable file or a repository without a commit."""
_OWN_FILES = (".ralph", ".agent")
_IDENTITY = ("-c", "user.name=Ralph", "-c", "user.email=ralph@localhost")
REVERTED_REFS = "refs/ralph/taken-back"


@record
class _RepositoryState:
    """State of a repository at one moment."""

    tree: str
    """Tree with all files; empty if git could not write it."""
    branch: str
    """Empty when HEAD is detached."""
    commit: str
    """Empty when there is no commit yet."""


class ReadOnlyWorktree:
    """Context manager that reverts changes made to a working tree inside the block."""

    def __init__(self, directory: Path, settings: GitSettings, *, reverts: bool = True) -> None:
        """Without `reverts` no file is reverted, because another run works in the same directory."""
        top = query_git(directory, "rev-parse", "--show-toplevel")
        prefix = (query_git(directory, "rev-parse", "--show-prefix") or "").strip("\n")
        self._top = Path(top.strip("\n")) if top and reverts else None
        self._files = (".", *(f":(exclude,top,literal){prefix}{name}" for name in _OWN_FILES))
        self._before = _RepositoryState(tree="", branch="", commit="")
        self._index: bytes | None = None
        self._settings = settings.protect(directory)
        self.reverted: tuple[str, ...] = ()
        """Files that were changed and reverted, and HEAD if it was moved."""
        self.saved_ref = ""
        """Ref under which the reverted changes are saved; a person may have made them."""

    def __enter__(self) -> Self:
        if self._top:
            self._index = read_bytes_or_none(_index_path(self._top))
            self._before = self._read_state(self._top)
        self._changes = self._settings.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        # First of all, because git's settings could hide a change or run a program.
        self._settings.__exit__(None, None, None)
        self.reverted = tuple(str(change.path) for change in self._changes)
        if not self._top or not self._before.tree:
            return
        after = self._read_state(self._top)
        if not after.tree:
            self.reverted += ("the repository, which git can no longer read",)
            return
        if after.tree != self._before.tree:
            self.saved_ref = self._save_tree(self._top, after.tree)
            self.reverted += self._restore(self._top, after.tree)
        if (after.branch, after.commit) != (self._before.branch, self._before.commit):
            self._restore_head(self._top)
            self.reverted += ("HEAD",)
        index = _index_path(self._top)
        if self._index is not None and read_bytes_or_none(index) != self._index:
            index.write_bytes(self._index)

    def _read_state(self, top: Path) -> _RepositoryState:
        branch = query_git(top, "symbolic-ref", "-q", "HEAD") or ""
        commit = query_git(top, "rev-parse", "-q", "--verify", "HEAD") or ""
        return _RepositoryState(tree=self._write_tree(top), branch=branch.strip(), commit=commit.strip())

    def _write_tree(self, top: Path) -> str:
        """Write a tree with all files, using a temporary index, and return its id."""
        with tempfile.TemporaryDirectory(prefix="ralph-") as folder:
            copy = {"GIT_INDEX_FILE": f"{folder}/index"}
            if self._index is not None:  # the one from before: a later one may mark files as unchanged
                Path(copy["GIT_INDEX_FILE"]).write_bytes(self._index)
            nested = nested_repositories(run_git(top, *LIST_INDEX, environment=copy).stdout)
            skipped = (f":(exclude,top,literal){path}" for path in nested)
            add = ("add", "-A", "--ignore-errors", "--", *self._files, *skipped)
            added = run_git(top, *add, timeout_seconds=SNAPSHOT_SECONDS, environment=copy)
            if nested:
                run_git(top, "update-index", "--remove", "--", *nested, environment=copy)
            written = run_git(top, "write-tree", environment=copy)
        return written.stdout.strip() if added.exit_code in (0, ADD_SKIPPED_EXIT_CODE) and written.ok else ""

    def _save_tree(self, top: Path, after: str) -> str:
        """Save a tree under a ref and return the ref's name."""
        commit = run_git(top, *_IDENTITY, "commit-tree", after, "-m", "Taken back after a verification")
        name = f"{REVERTED_REFS}/{commit.stdout.strip()[:12]}"
        return name if commit.ok and run_git(top, "update-ref", name, commit.stdout.strip()).ok else ""

    def _restore(self, top: Path, after: str) -> tuple[str, ...]:
        diff = query_git(top, "diff", "--name-status", "--no-renames", "-z", self._before.tree, after) or ""
        fields = diff.split("\0")
        changes = list(zip(fields[::2], fields[1::2], strict=False))
        for status, path in changes:
            if status == "A":
                _remove(top / path)
        changed = [path for status, path in changes if status != "A"]
        with tempfile.TemporaryDirectory(prefix="ralph-") as folder:
            copy = {"GIT_INDEX_FILE": f"{folder}/index"}
            run_git(top, "read-tree", self._before.tree, environment=copy)
            for start in range(0, len(changed), RESTORE_BATCH_SIZE):
                run_git(
                    top, "checkout-index", "-f", "--", *changed[start : start + RESTORE_BATCH_SIZE], environment=copy
                )
        return tuple(path for _, path in changes)

    def _restore_head(self, top: Path) -> None:
        """Move HEAD back; the files are restored already."""
        before, why = self._before, ("-m", "ralph: taken back after a verification")
        if before.branch:
            run_git(top, "symbolic-ref", *why, "HEAD", before.branch)
        if before.commit:
            run_git(top, "update-ref", *why, *([] if before.branch else ["--no-deref"]), "HEAD", before.commit)
        elif before.branch:
            run_git(top, "update-ref", "-d", before.branch)


def _index_path(top: Path) -> Path:
    return top / (query_git(top, "rev-parse", "--git-path", "index") or "").strip("\n")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():  # a nested repository
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
