"""Detection of changed files through git; unavailable outside of a repository."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache

from ralph.core.git import query_git
from ralph.core.records import record
from ralph.loop.git.repository import STATUS_OPTIONS, parse_status
from ralph.loop.stuck import NO_CHANGE_MARK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MAX_RECORDED_FILES = 200
"""Maximum number of changed files recorded."""
_OWN_FILES = (".ralph/",)
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
MAX_HASHED_BYTES = 5 * 1024 * 1024
"""Size of a file up to which its content is hashed, in bytes."""


@record
class WorktreeSnapshot:
    """State of a working tree at one moment."""

    commit: str
    """Empty before the first one."""
    changed: tuple[tuple[str, int, int], ...]
    """Path, size and modification time of each file that differs from the commit."""


def take_snapshot(directory: Path) -> WorktreeSnapshot | None:
    """Return the state of the working tree, or None without git."""
    output = query_git(directory, "status", *STATUS_OPTIONS, "--untracked-files=all", "--", ".")
    if output is None:
        return None
    status, prefix = parse_status(output), _prefix(directory)
    paths = (path.removeprefix(prefix) for path in (*status.changed, *(path for path, _ in status.unmerged)))
    changed = [(path, *_stamp(directory / path)) for path in paths if not path.startswith(_OWN_FILES)]
    return WorktreeSnapshot(commit=status.head, changed=tuple(changed))


def changed_between(
    directory: Path, before: WorktreeSnapshot | None, after: WorktreeSnapshot | None
) -> tuple[str, ...]:
    """Return the files that changed between two snapshots, including committed changes."""
    if before is None or after is None:
        return ()
    paths = {entry[0] for entry in set(before.changed) ^ set(after.changed)}
    if before.commit != after.commit:
        base = before.commit or EMPTY_TREE
        committed = query_git(directory, "diff", "--name-only", "--relative", "-z", base, after.commit) or ""
        paths |= {path for path in committed.split("\0") if path and not path.startswith(_OWN_FILES)}
    return tuple(sorted(paths)[:MAX_RECORDED_FILES])


def change_hash(directory: Path, files: Sequence[str]) -> str:
    """Return a hash that is equal for attempts that left the same content in the same files."""
    if not files:
        return NO_CHANGE_MARK
    digest = hashlib.sha256()
    for file in files[:MAX_RECORDED_FILES]:
        digest.update(f"{file}\0{_content_hash(directory / file)}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:16]


def _content_hash(path: Path) -> str:
    try:
        size = os.lstat(path).st_size
        if size > MAX_HASHED_BYTES or path.is_symlink():
            return f"{size}"
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return "gone"


@lru_cache(64)
def _prefix(directory: Path) -> str:
    """Return the path from the top of the repository, to which git's paths are relative."""
    return (query_git(directory, "rev-parse", "--show-prefix") or "").strip("\n")


def _stamp(path: Path) -> tuple[int, int]:
    try:
        info = os.lstat(path)
    except OSError:
        return 0, 0
    return info.st_size, info.st_mtime_ns
