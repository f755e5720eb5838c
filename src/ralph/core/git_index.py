"""Whether git tracks a file, without starting git.

Every command asks this about the database, so it reads the index itself: paths are stored in it as they are. Git is
started only if the index stores them in another way, or to confirm a hit, and its answer is remembered.
"""

from __future__ import annotations

import os

from ralph.core.errors import RalphError
from ralph.core.files import state_path

MAX_SEARCHED_BYTES = 512 * 1024
"""Size of an index from which the answer is remembered until it changes, in bytes."""
_PLAIN_VERSIONS = (b"\0\0\0\2", b"\0\0\0\3")
_EXTENSIONS = (b"link\0", b"sdir\0")
"""Signatures of a split and of a sparse index, which lack paths."""


def tracked_files(path: str, suffixes: tuple[str, ...] = ("",)) -> list[str]:
    """Return which of a file and its companions git tracks, as paths relative to the working tree.

    If git cannot answer, what is in a plain index counts as tracked; any other index is an error.
    """
    real = os.path.realpath(path)
    top, index = _find_index(real)
    if not top:
        return []
    relative = os.path.relpath(real, top)
    try:
        status = os.stat(index)  # noqa: PTH116
        stamp = f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {relative}"
        if status.st_size <= MAX_SEARCHED_BYTES and not _may_contain(index, relative):
            return []
    except OSError:
        return []  # nothing was ever added
    memo = state_path(top, "index")
    if (known := _read_memo(memo, stamp)) is not None:
        return known
    found = _ask(top, relative, suffixes) if _may_contain(index, relative) else []
    if found is None:
        if _is_plain(_read_index(index)):
            return [relative]
        raise RalphError(
            f"{path} is not opened because git may track it, so it may come from somebody else, and git cannot answer."
            f" See why with: git -C {top} ls-files",
            code="database-tracked",
        )
    _write_memo(memo, stamp, found)
    return found


def _find_index(path: str) -> tuple[str, str]:
    """Return the working tree that a file is in, and the index of it; empty if there is none."""
    top = find_top(os.path.dirname(path))  # noqa: PTH120
    return top, f"{git_directory(top)}/index" if top else ""


def find_top(directory: str) -> str:
    """Return the working tree that a directory is in; empty if there is none."""
    folder, below = directory, ""
    while folder != below:
        git = f"{folder}/.git"
        if os.path.isdir(git) or os.path.isfile(git):  # noqa: PTH112, PTH113 -- a linked worktree or a submodule
            return folder
        folder, below = os.path.dirname(folder), folder  # noqa: PTH120
    return ""


def git_directory(top: str) -> str:
    """Return the git directory of a working tree, which a `.git` file may name; empty if that cannot be read."""
    git = f"{top}/.git"
    if os.path.isdir(git):  # noqa: PTH112
        return git
    try:
        with open(git, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
            return os.path.join(top, file.read(8192).removeprefix("gitdir:").strip())  # noqa: PTH118
    except OSError:
        return ""


def current_branch(directory: str) -> str:
    """Return the branch that is checked out, without running git; empty if there is none."""
    top = find_top(directory)
    try:
        with open(f"{git_directory(top)}/HEAD", encoding="utf-8") as file:  # noqa: PTH123
            head = file.read(1_000)
    except (OSError, ValueError):
        return ""
    return head.removeprefix("ref: refs/heads/").strip() if head.startswith("ref: refs/heads/") else ""


def _may_contain(index: str, relative: str) -> bool:
    """Return whether an index may have a path; case is ignored, as some file systems do."""
    content = _read_index(index)
    return not _is_plain(content) or os.fsencode(relative).lower() in content.lower()


def _is_plain(content: bytes) -> bool:
    """Return whether an index has all paths as they are."""
    return content[4:8] in _PLAIN_VERSIONS and not any(one in content for one in _EXTENSIONS)


def _read_index(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read()


def _ask(top: str, relative: str, suffixes: tuple[str, ...]) -> list[str] | None:
    """Ask git; return None if it cannot answer."""
    from ralph.core.git import run_git

    listed = run_git(top, "--no-optional-locks", "ls-files", "-z", errors="surrogateescape")
    if not listed.ok:
        return None
    wanted = {f"{relative}{suffix}" for suffix in suffixes}
    folded = {name.lower() for name in wanted}
    names = [name for name in listed.stdout.split("\0") if name.lower() in folded]
    return [name for name in names if name in wanted or _is_same(f"{top}/{name}", wanted, top)]


def _is_same(path: str, wanted: set[str], top: str) -> bool:
    """Return whether a path that differs in case only is the same file."""
    for name in wanted:
        try:
            if os.path.samefile(path, f"{top}/{name}"):  # noqa: PTH121
                return True
        except OSError:
            continue
    return False


def _read_memo(path: str, stamp: str) -> list[str] | None:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
            first, *found = file.read().split("\0")
    except OSError:
        return None
    return found if first == stamp else None


def _write_memo(path: str, stamp: str, found: list[str]) -> None:
    from pathlib import Path

    from ralph.core.files import write_atomically

    memo = Path(path)
    try:
        memo.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(memo, "\0".join([stamp, *found]).encode("utf-8", "surrogateescape"))
    except OSError:
        pass  # git is asked again
