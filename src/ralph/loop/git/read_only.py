"""Protection of a working tree during a read-only session.

The state before is saved in git, including untracked but not ignored files. Reverted
changes stay available under refs/ralph/taken-back, and commits in the reflog. Without
git nothing is reverted.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ralph.core.errors import WorktreeError
from ralph.core.git import query_git, run_git
from ralph.core.records import record
from ralph.loop.git.working_tree import WorkingTree
from ralph.loop.git.worktrees import ADMIN_DIRECTORY

if TYPE_CHECKING:
    from typing import Self

    from ralph.loop.git.settings import GitSettings

_OWN_FILES = (".ralph", ".agent")
REVERTED_REFS = "refs/ralph/taken-back"
ATTIC = f"{ADMIN_DIRECTORY}/taken-back"
"""Where nested repositories are moved, inside the git directory."""


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
        files = (":/", *(f":(exclude,top,literal){prefix}{name}" for name in _OWN_FILES))
        self._tree = WorkingTree(Path(top.strip("\n")), files) if top and reverts else None
        self._before = _RepositoryState(tree="", branch="", commit="")
        self._index: bytes | None = None
        self._settings = settings.protect(directory)
        self.reverted: tuple[str, ...] = ()
        """Files that were changed and reverted, and HEAD if it was moved."""
        self.saved_ref = ""
        """Ref under which the reverted changes are saved; a person may have made them."""

    def __enter__(self) -> Self:
        if self._tree:
            self._index = self._tree.read_index()
            self._before = self._read_state(self._tree)
        self._changes = self._settings.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        # First of all, because git's settings could hide a change or run a program.
        self._settings.__exit__(None, None, None)
        self.reverted = tuple(str(change.path) for change in self._changes)
        if not self._tree or not self._before.tree:
            return
        after = self._read_state(self._tree)
        if not after.tree:
            self.reverted += ("the repository, which git can no longer read",)
            return
        if after.tree != self._before.tree:
            saved = self._tree.save(after.tree, f"{REVERTED_REFS}/{{}}", "Taken back after a verification")
            self.saved_ref = f"{REVERTED_REFS}/{saved[:12]}" if saved else ""
            try:
                changes = self._tree.changed_paths(self._before.tree, after.tree)
            except WorktreeError:
                self.reverted += ("the repository, which git can no longer read",)
                return
            self._tree.restore(self._before.tree, changes, self._tree.index_path().parent / ATTIC)
            self.reverted += tuple(path for _, path in changes)
        if (after.branch, after.commit) != (self._before.branch, self._before.commit):
            self._restore_head(self._tree.top)
            self.reverted += ("HEAD",)
        if self._index is not None and self._tree.read_index() != self._index:
            self._tree.index_path().write_bytes(self._index)

    def _read_state(self, tree: WorkingTree) -> _RepositoryState:
        branch = query_git(tree.top, "symbolic-ref", "-q", "HEAD") or ""
        commit = query_git(tree.top, "rev-parse", "-q", "--verify", "HEAD") or ""
        # From the index of before: a later one may mark files as unchanged.
        return _RepositoryState(tree=tree.write_tree(self._index), branch=branch.strip(), commit=commit.strip())

    def _restore_head(self, top: Path) -> None:
        """Move HEAD back; the files are restored already."""
        before, why = self._before, ("-m", "ralph: taken back after a verification")
        if before.branch:
            run_git(top, "symbolic-ref", *why, "HEAD", before.branch)
        if before.commit:
            run_git(top, "update-ref", *why, *([] if before.branch else ["--no-deref"]), "HEAD", before.commit)
        elif before.branch:
            run_git(top, "update-ref", "-d", before.branch)
