"""Clean checkouts of what will be merged, in which gates and reviews run.

A checkout has what is committed and nothing else, except for the directories in `[execution] reuse`, which git
ignores and which would take long to make again: they are directories of links.
"""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import contextmanager
from pathlib import Path

from ralph.core.git import run_git
from ralph.loop.git import worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ralph.loop.git.repository import Repository

CHECKOUT_PREFIX = ".check-"
"""Prefix of the directory names of checkouts, next to the worktrees of tasks."""


@contextmanager
def clean_checkout(
    repository: Repository, top: Path, commit: str, source: Path, reuse: Sequence[str]
) -> Iterator[Path]:
    """Yield the project directory in a new checkout of a commit, which is removed afterwards.

    The directories in `reuse` come from the `source`, which must not be where an agent works: what an agent writes
    into an ignored directory is not merged.
    """
    if os.path.lexists(top):  # a killed run has left it
        worktrees.remove_worktree(repository, top)
    try:
        worktrees.add_checkout(repository, top, commit)
        directory = top / repository.prefix
        directory.mkdir(parents=True, exist_ok=True)
        for name in reuse:
            _link(directory / name, source / name)
        yield directory
    finally:
        worktrees.remove_worktree(repository, top)


def changed_files(directory: Path, commit: str) -> list[str]:
    """Return the files of a checkout that are not as its commit has them; caches, which are discarded, do not count."""
    with tempfile.TemporaryDirectory(prefix="ralph-index-") as folder:
        # The checkout's own index may hide changes: its flags are in the hands of whoever writes there.
        index = {"GIT_INDEX_FILE": f"{folder}/index"}
        run_git(directory, "read-tree", commit, environment=index)
        options = ("--name-only", "--no-ext-diff", "-z", "--no-relative", "--ignore-submodules=dirty")
        found = run_git(directory, "diff", *options, environment=index)
    return (
        [path for path in found.stdout.split("\0") if path and not path.endswith(".pyc")]
        if found.ok
        else ["(git could not compare them)"]
    )


def untracked_files(directory: Path, commit: str, reuse: Sequence[str]) -> list[str]:
    """Return the files of a checkout that its commit does not have, whatever git ignores."""
    with tempfile.TemporaryDirectory(prefix="ralph-index-") as folder:
        index = {"GIT_INDEX_FILE": f"{folder}/index"}
        run_git(directory, "read-tree", commit, environment=index)
        found = run_git(directory, "ls-files", "--others", "-z", environment=index)
    reused = tuple(f"{name.rstrip('/')}/" for name in reuse)
    return [path for path in found.stdout.split("\0") if path and not path.startswith(reused)]


def _link(path: Path, source: Path) -> None:
    """Fill a directory with links to what a source has; do nothing if it is committed."""
    if not source.is_dir() or path.exists() or path.is_symlink():
        return
    # Git matches a rule such as `node_modules/` with a directory only, not with a link to one.
    path.mkdir(parents=True)
    for child in source.iterdir():
        (path / child.name).symlink_to(child.resolve() if child.is_symlink() else child.absolute())


def editable_install_paths(directory: Path, root: Path) -> list[str]:
    """Return the directories of a checkout whose modules a reused Python environment would take from the project.

    An editable install names the directory that it was made in, so that gates would judge the code there.
    """
    found: dict[str, None] = {}
    for pattern in ("*.pth", "__editable__*_finder.py"):
        for file in directory.glob(f"*/lib/python*/site-packages/{pattern}"):
            text = file.read_text(encoding="utf-8", errors="replace")
            for path in re.findall(rf"^{re.escape(str(root))}.*$|(?<=')" + re.escape(str(root)) + "[^']*", text, re.M):
                place = directory / os.path.relpath(path, root)
                # A finder maps a package to its directory, whose parent is searched for modules.
                found[str(place if pattern == "*.pth" else place.parent)] = None
    return [path for path in found if os.path.isdir(path)]  # noqa: PTH112
