"""Detection of changed files through git; unavailable outside of a repository."""

from __future__ import annotations

import hashlib
import os
import tempfile
from functools import lru_cache

from ralph.core.git import query_git
from ralph.core.records import record
from ralph.loop.git.repository import STATUS_OPTIONS, parse_status
from ralph.loop.stuck import NO_CHANGE_MARK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ralph.loop.git.repository import WorktreeStatus

    FileStamp = tuple[int, int]

MAX_RECORDED_FILES = 200
"""Maximum number of changed files recorded."""
OWN_FILES = (".ralph/",)
_GONE = (0, 0)
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
MAX_HASHED_BYTES = 5 * 1024 * 1024
"""Size of a file up to which its content is hashed, in bytes."""


@record
class WorktreeSnapshot:
    """State of a working tree at one moment."""

    commit: str
    """Empty before the first one."""
    changed: Mapping[str, FileStamp]
    """Size and modification time of each file that differs from the commit."""


class ChangeDetector:
    """Detection of the files that each session in a directory changes.

    `git status` looks at every file, so it runs once per session: what differed before is known from the session
    before, and a file that differs since is the work of this one if it was written after the start.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._last: WorktreeSnapshot | None = None
        self._before: WorktreeSnapshot | None = None
        self._started_ns = 0
        """Time by the clock of the file system; 0 if everything that differs from `_before` was changed since."""

    def begin(self, state: WorktreeStatus | None = None) -> None:
        """Remember the state before a session, which may be known."""
        last, self._last = self._last, None
        if state:
            self._started_ns, self._before = 0, _snapshot_of(self._directory, state)
            return
        self._started_ns = file_system_time(self._directory) if last else 0
        if last and self._started_ns:
            head = (query_git(self._directory, "rev-parse", "--verify", "--quiet", "HEAD") or "").strip()
            committed = _committed_between(self._directory, last.commit, head)
            changed = {
                path: now
                for path, stamp in last.changed.items()
                # What was deleted and is not tracked differs from nothing.
                if path not in committed and ((now := file_stamp(self._directory / path)) != _GONE or stamp == _GONE)
            }
            self._before = WorktreeSnapshot(commit=head, changed=changed)
        else:
            self._before = take_snapshot(self._directory)

    def end(self, state: WorktreeStatus | None = None) -> tuple[str, ...] | None:
        """Return the files that the session changed, including committed changes; None if that is not known.

        `state` is the status of the repository now, if it is known.
        """
        before = self._before
        after = _snapshot_of(self._directory, state) if state else take_snapshot(self._directory)
        self._last = after
        if before is None or after is None:
            return None
        paths = {
            path
            for path in {**before.changed, **after.changed}
            if before.changed.get(path) != after.changed.get(path)
            and (path in before.changed or is_written_since(self._directory / path, self._started_ns))
        }
        paths |= _committed_between(self._directory, before.commit, after.commit)
        # The names of files need not be UTF-8, but what is recorded is.
        readable = (path.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for path in sorted(paths))
        return tuple(readable)[:MAX_RECORDED_FILES]


def take_snapshot(directory: Path) -> WorktreeSnapshot | None:
    """Return the state of the working tree, or None without git."""
    output = query_git(directory, "status", *STATUS_OPTIONS, "--untracked-files=all", "--", ".")
    return None if output is None else _snapshot_of(directory, parse_status(output))


def _snapshot_of(directory: Path, status: WorktreeStatus) -> WorktreeSnapshot:
    """Return the state of the working tree with a status, as far as it is in a directory."""
    prefix = _prefix(directory)
    listed = (*status.changed, *(path for path, _ in status.unmerged))
    paths = (path.removeprefix(prefix) for path in listed if path.startswith(prefix))
    changed = {path: file_stamp(directory / path) for path in paths if not path.startswith(OWN_FILES)}
    return WorktreeSnapshot(commit=status.head, changed=changed)


def _committed_between(directory: Path, base: str, commit: str) -> set[str]:
    """Return the files that differ between two commits; empty strings stand for the time before the first one."""
    if base == commit:
        return set()
    ends = (base or EMPTY_TREE, commit or EMPTY_TREE)
    found = query_git(directory, "diff", "--name-only", "--relative", "-z", *ends) or ""
    return {path for path in found.split("\0") if path and not path.startswith(OWN_FILES)}


def file_system_time(directory: Path) -> int:
    """Return the time by which files in a directory are dated, in nanoseconds; 0 if nothing can be written there."""
    try:
        with tempfile.TemporaryFile(dir=directory / ".ralph") as file:
            return os.fstat(file.fileno()).st_ctime_ns
    except OSError:
        return 0


def is_written_since(path: Path, started_ns: int) -> bool:
    """Return whether a file was written, or a directory entry changed, since a time; also if it is gone."""
    try:
        return os.lstat(path).st_ctime_ns >= started_ns
    except OSError:
        return True


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


def file_stamp(path: Path) -> FileStamp:
    """Return the size and the modification time of a file; zeros if there is none."""
    try:
        info = os.lstat(path)
    except OSError:
        return _GONE
    return info.st_size, info.st_mtime_ns
