"""Ask git what an agent changed. Without git, or outside a repository, nobody knows."""

from __future__ import annotations

import os
from functools import lru_cache

from ralph.git import ask_git
from ralph.loop.stuck import NOTHING
from ralph.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MOST_FILES = 200
_OURS = (".ralph/",)
LARGEST_READ = 5 * 1024 * 1024


@record
class Snapshot:
    """The state of a working tree at one moment."""

    commit: str
    changed: tuple[tuple[str, str, int, int], ...]
    """Of every file that differs from the commit: path, status, size, time of change."""


def snapshot(directory: Path) -> Snapshot | None:
    """Give the state of the working tree, or None where there is no git to ask."""
    status = ask_git(directory, "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--", ".")
    if status is None:
        return None
    prefix = _prefix(directory)
    commit = ""
    changed = []
    fields = iter(status.split("\0"))
    for field in fields:
        if field.startswith("# branch.oid "):
            commit = field.removeprefix("# branch.oid ")
        elif field[:2] in ("1 ", "2 ", "u ", "? "):
            parts = {"1": 8, "2": 9, "u": 10, "?": 1}[field[0]]
            state, path = field.split(" ", 2)[1] if parts > 1 else "?", field.split(" ", parts)[parts]
            path = path.removeprefix(prefix)
            if field[0] == "2":
                next(fields, "")  # a renamed file's old path
            if not path.startswith(_OURS):
                changed.append((path, state, *_stamp(directory / path)))
    return Snapshot(commit=commit, changed=tuple(changed))


def changed_between(directory: Path, before: Snapshot | None, after: Snapshot | None) -> tuple[str, ...]:
    """Give the files that changed between two moments, also when they were committed in between."""
    if before is None or after is None:
        return ()
    paths = {entry[0] for entry in set(before.changed) ^ set(after.changed)}
    if before.commit != after.commit:
        base = before.commit if before.commit != "(initial)" else "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
        committed = ask_git(directory, "diff", "--name-only", "--relative", "-z", base, after.commit) or ""
        paths |= {path for path in committed.split("\0") if path and not path.startswith(_OURS)}
    return tuple(sorted(paths)[:MOST_FILES])


def mark_of(directory: Path, files: Sequence[str]) -> str:
    """Give what is the same for attempts that left the same text in the same files."""
    import hashlib

    if not files:
        return NOTHING
    whole = hashlib.sha256()
    for file in files[:MOST_FILES]:
        whole.update(f"{file}\0{_content_mark(directory / file)}\0".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()[:16]


def _content_mark(path: Path) -> str:
    import hashlib

    try:
        size = os.lstat(path).st_size
        if size > LARGEST_READ or path.is_symlink():
            return f"{size}"
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return "gone"


@lru_cache(64)
def _prefix(directory: Path) -> str:
    """Give the path from the top of the repository, since that is where git counts from."""
    return (ask_git(directory, "rev-parse", "--show-prefix") or "").strip("\n")


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = os.lstat(path)
    except OSError:
        return 0, 0
    return found.st_size, found.st_mtime_ns
