"""Trees of what is in a working tree, and the way back to one of them.

Trees are written with a temporary index, so that the person's own index and files stay as they are. They have
untracked files too, but none that git ignores.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from ralph.core.errors import WorktreeError
from ralph.core.files import read_bytes_or_none
from ralph.core.git import query_git, run_git
from ralph.loop.git.commits import LIST_INDEX, nested_repositories
from ralph.loop.git.repository import INDEX_LOCK_POLL_SECONDS, INDEX_LOCK_TIMEOUT_SECONDS, git_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

SNAPSHOT_SECONDS = 120.0
"""Timeout for adding all files to a tree, in seconds."""
RESTORE_BATCH_SIZE = 200
"""Number of files restored by one git command."""
ADD_SKIPPED_EXIT_CODE = 1
"""Exit code of `git add` when it skipped an unreadable file or a repository without a commit."""
SAVED_IDENTITY = ("-c", "user.name=Ralph", "-c", "user.email=ralph@localhost")
"""Identity of commits that only save something."""
_UNREADABLE = "\ufffd"
"""Character in place of those of a path that are not UTF-8."""
_REPOSITORY_MODE = b"\0\0\xe0\0"
"""Mode of a nested repository in an index, among other bytes."""


class WorkingTree:
    """Working tree of a repository, without the paths that are never saved."""

    def __init__(self, top: Path, pathspecs: Sequence[str]) -> None:
        """`pathspecs` say which files count."""
        self.top = top
        self._pathspecs = tuple(pathspecs)
        self._index_path: Path | None = None
        self._behind: set[str] = set()
        """Paths that the index has not as HEAD does, because it was locked."""

    def read_index(self) -> bytes | None:
        """Return the content of the index; None if there is none."""
        return read_bytes_or_none(self.index_path())

    def index_path(self) -> Path:
        """Return the path of the index."""
        if self._index_path is None:
            path = query_git(self.top, "rev-parse", "--git-path", "index") or ""
            self._index_path = self.top / path.strip("\n")
        return self._index_path

    def write_tree(
        self,
        index: bytes | None,
        skipped: Collection[str] = (),
        unstaged: Collection[str] = (),
        changed: Collection[str] | None = None,
    ) -> str:
        """Write a tree with all files and return its id; empty if git could not.

        `index` is where it starts from, `skipped` are paths that stay as they are there, and `unstaged` are paths that
        are first put back to what HEAD has. `changed` are the files to look at, if they are known; otherwise git looks
        at every file.
        """
        with tempfile.TemporaryDirectory(prefix="ralph-") as folder:
            copy = {"GIT_INDEX_FILE": f"{folder}/index"}
            if index is not None:
                Path(copy["GIT_INDEX_FILE"]).write_bytes(index)
            if unstaged:
                self.reset_index(unstaged, copy)
            has_nested = index is not None and _REPOSITORY_MODE in index
            nested = self._nested_repositories(copy) if has_nested else []
            if changed is not None and not nested and self._update_index(changed, copy):
                return run_git(self.top, "write-tree", environment=copy).stdout.strip()
            excluded = (f":(exclude,top,literal){path}" for path in (*nested, *skipped))
            listed = _list_paths(folder, (*self._pathspecs, *excluded))
            add = ("add", "-A", "--ignore-errors", *listed)
            added = run_git(self.top, *add, timeout_seconds=SNAPSHOT_SECONDS, environment=copy)
            if nested:
                run_git(self.top, "update-index", "--remove", "--", *nested, environment=copy)
            written = run_git(self.top, "write-tree", environment=copy)
        return written.stdout.strip() if added.exit_code in (0, ADD_SKIPPED_EXIT_CODE) and written.ok else ""

    def _nested_repositories(self, environment: Mapping[str, str]) -> list[str]:
        ran = run_git(self.top, *LIST_INDEX, environment=environment, errors="surrogateescape")
        return nested_repositories(ran.stdout)

    def _update_index(self, paths: Collection[str], environment: Mapping[str, str]) -> bool:
        """Take files into an index as they are; return False if git could not, or if their names are not known."""
        if any(path.endswith("/") or _UNREADABLE in path for path in paths):
            return False
        update = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")
        listed = "".join(f"{path}\0" for path in paths).encode("utf-8", "surrogateescape")
        return not paths or run_git(self.top, *update, environment=environment, stdin=listed).ok

    def reset_index(self, paths: Collection[str], environment: Mapping[str, str] | None = None) -> bool:
        """Put paths in an index back to what HEAD has, by default in that of the working tree.

        Return False if it stays locked: the index of the working tree is then behind HEAD until `retry_reset`.
        """
        if not paths:
            return True
        with tempfile.TemporaryDirectory(prefix="ralph-") as folder:
            listed = _list_paths(folder, [f":(top,literal){path}" for path in paths])
            deadline = time.monotonic() + INDEX_LOCK_TIMEOUT_SECONDS
            while True:
                ran = run_git(self.top, "reset", "-q", "--no-refresh", *listed, environment=environment)
                if ran.ok or "index.lock" not in ran.stderr or time.monotonic() > deadline:
                    break
                time.sleep(INDEX_LOCK_POLL_SECONDS)
            is_locked = not ran.ok and "index.lock" in ran.stderr
            if is_locked and environment is None:
                self._behind.update(paths)
            elif not ran.ok:  # there is no commit yet
                forget = ("rm", "-r", "-q", "--cached", "--ignore-unmatch", "-f")
                run_git(self.top, *forget, *listed, environment=environment)
        return not is_locked

    def retry_reset(self) -> bool:
        """Put back what was locked before, unless it still is; return whether the index has changed."""
        if not self._behind or self._lock_path().exists():
            return False
        paths, self._behind = self._behind, set()
        return self.reset_index(paths)

    def lock_note(self) -> str:
        """Return what a person should know of an index that stays locked."""
        return (
            "Git's index is locked, so git status shows the commit as changes that take it back. When no git command is"
            f" running, remove {os.path.relpath(self._lock_path(), self.top)} and run: git reset"
        )

    def _lock_path(self) -> Path:
        return self.index_path().with_name("index.lock")

    def changed_paths(self, before: str, after: str) -> list[tuple[str, str]]:
        """Return git's status letter and the path of each file that differs between two trees.

        Raise WorktreeError if git fails: no difference would be taken for the same content.
        """
        command = ("diff", "--name-status", "--no-renames", "--no-relative", "-z", before, after)
        ran = run_git(self.top, "--no-optional-locks", *command, errors="surrogateescape")
        if not ran.ok:
            raise WorktreeError(f"git could not compare the changes in {self.top}: {git_error(ran)}")
        fields = ran.stdout.split("\0")
        return list(zip(fields[::2], fields[1::2], strict=False))

    def read(self, tree: str, path: str) -> tuple[bytes, bool] | None:
        """Return the content of a file in a tree, and whether it is executable; None if it is no regular file there."""
        listed = run_git(self.top, "ls-tree", "-z", "--full-tree", tree, "--", f":(literal){path}").stdout
        mode = listed[:6]
        if mode not in ("100644", "100755"):
            return None
        ran = run_git(self.top, "cat-file", "blob", f"{tree}:{path}", errors="surrogateescape")
        return (ran.stdout.encode("utf-8", "surrogateescape"), mode == "100755") if ran.ok else None

    def restore(self, tree: str, changes: Sequence[tuple[str, str]], attic: Path | None = None) -> None:
        """Put changed files back to what a tree has; added ones are deleted.

        Nested repositories, whose files git does not have, are moved to `attic`, or stay where they are.
        """
        for status, path in changes:
            if status == "A":
                _remove(self.top / path, attic)
        changed = [path for status, path in changes if status != "A"]
        with _index_of(self.top, tree) as index:
            for start in range(0, len(changed), RESTORE_BATCH_SIZE):
                batch = changed[start : start + RESTORE_BATCH_SIZE]
                run_git(self.top, "checkout-index", "-f", "--", *batch, environment=index)

    def save(self, tree: str, ref: str, message: str, parents: Sequence[str] = ()) -> str:
        """Save a tree as a commit under a ref, and return the commit; empty if git could not.

        A `{}` in the name of the ref stands for the beginning of the commit's id.
        """
        listed = (word for parent in parents for word in ("-p", parent))
        ran = run_git(self.top, *SAVED_IDENTITY, "commit-tree", tree, *listed, "-m", message)
        commit = ran.stdout.strip()
        is_saved = ran.ok and run_git(self.top, "update-ref", ref.replace("{}", commit[:12]), commit).ok
        return commit if is_saved else ""


def _list_paths(folder: str, pathspecs: Iterable[str]) -> tuple[str, str]:
    """Return the options of git for paths in a file: there may be more than a command line can have."""
    file = Path(folder) / "paths"
    file.write_bytes("\0".join(pathspecs).encode("utf-8", "surrogateescape"))
    return f"--pathspec-from-file={file}", "--pathspec-file-nul"


@contextmanager
def _index_of(top: Path, tree: str) -> Iterator[dict[str, str]]:
    """Yield the environment of git for an index of its own that has a tree."""
    with tempfile.TemporaryDirectory(prefix="ralph-") as folder:
        index = {"GIT_INDEX_FILE": f"{folder}/index"}
        run_git(top, "read-tree", tree, environment=index)
        yield index


def _remove(path: Path, attic: Path | None) -> None:
    if path.is_symlink() or not path.is_dir():
        with suppress(NotADirectoryError):
            path.unlink(missing_ok=True)
    elif attic:
        attic.mkdir(parents=True, exist_ok=True)
        shutil.move(path, tempfile.mkdtemp(dir=attic))
