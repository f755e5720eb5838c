"""Staleness checks: comparison of recorded file states with the current files.

Marks are like an index: derived from the files, updated without an event, and not part of the checksum of a row. The
result of a check depends on the working copy; if several share a store, the latest check wins.
"""

from __future__ import annotations

import os
from functools import cached_property
from stat import S_ISDIR, S_ISREG

from ralph.core.records import Memory, MemoryState, record, replace, timestamp
from ralph.core.tokenize import parse_string_list
from ralph.memory.lifecycle.staleness import (
    ABSENT_MARK,
    FOLDER_MARK,
    MATCHED_MARK,
    FileReferences,
    assess_staleness,
    compile_glob,
    content_marks,
    format_marks,
    is_pattern,
    parse_marks,
    project_path,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from ralph.store import Store
    from ralph.store.database import Row
    from ralph.store.memories import ChangeInfo, ChangeResult


MAX_FILES = 50
"""Maximum number of files checked per memory; one that names more is about none of them."""
MAX_READ_BYTES = 5 * 1024 * 1024
"""Size above which a file is identified by its size alone, in bytes."""
MAX_COMMITS = 3_000
"""Maximum number of commits read from the log."""
LOG_TIMEOUT_SECONDS = 5.0
"""Timeout of reading the log, in seconds."""
MAX_WALKED = 20_000
"""Maximum number of files listed without git."""


@record
class StalenessCheck:
    """Memories changed by a check."""

    marked: tuple[Memory, ...] = ()
    """Memories that became stale, or stale for another reason."""
    cleared: tuple[Memory, ...] = ()
    """Memories whose files are unchanged again."""


def record_file_marks(memory: Memory, directory: Path | str) -> Memory:
    """Return a memory with marks of the current state of its files."""
    folder = _Folder(directory)
    current = {path: folder.marks_at(path) for path in memory.files[:MAX_FILES] if not is_pattern(path)}
    marks = {
        path: path_marks[0] if path_marks else ABSENT_MARK
        for path, path_marks in current.items()
        if path_marks is not None
    }
    return replace(memory, seen=format_marks(marks), stale="")


def check_staleness(store: Store, directory: Path | str, paths: Collection[str] | None = None) -> StalenessCheck:
    """Mark active memories whose files have changed, and clear the mark of those whose files are as before.

    With `paths`, only check memories that name one of them. Files without a recorded mark are assumed unchanged, unless
    git recorded a change since the memory was written.
    """
    changes = [
        (row, format_marks(marks), stale)
        for row, files, marks, stale in _assess(store, directory, paths)
        if (marks, stale) != (files.marks, row["stale"])
    ]
    if not changes:
        return StalenessCheck()
    store.memories.set_file_state(changes)
    changed = {row["id"]: stale for row, _, stale in changes if stale != row["stale"]}
    memories = [memory for memory in store.memories.find_by_ids(changed) if memory.stale == changed[memory.id]]
    return StalenessCheck(
        marked=tuple(memory for memory in memories if memory.stale),
        cleared=tuple(memory for memory in memories if not memory.stale),
    )


def current_staleness(store: Store, directory: Path | str) -> dict[str, str]:
    """Return why active memories are stale as of now, by id; nothing is stored."""
    return {row["id"]: stale for row, _, _, stale in _assess(store, directory) if stale}


def _assess(
    store: Store, directory: Path | str, paths: Collection[str] | None = None
) -> Iterator[tuple[Row, FileReferences, dict[str, str], str]]:
    """Yield the memories with files, each with its references, its current marks, and why it is stale."""
    rows = store.memories.index.file_references(paths)
    if not rows:
        return
    named = [_file_references(row) for row in rows]
    here, touched = _current_state(_Folder(directory), named)
    for row, files in zip(rows, named, strict=True):
        marks, stale = assess_staleness(files, here, touched)
        yield row, files, marks, stale


def confirm_memories(
    store: Store,
    ids: Iterable[str],
    directory: Path | str | None,
    change: ChangeInfo,
    at: str,
    *,
    include_missing_files: bool = False,
) -> list[ChangeResult]:
    """Confirm that active memories are true for the current files, and return the confirmed ones.

    A memory with a missing file is only confirmed with `include_missing_files`, which is up to a person. Without a
    directory the files are not available here; their marks are recorded by the next check where they are.
    """
    memories = store.memories
    confirmed = []
    with store.transaction():
        for memory in memories.find_by_ids(ids):
            fresh = replace(memory, seen="") if directory is None else record_file_marks(memory, directory)
            if memory.state is MemoryState.ACTIVE and (include_missing_files or not _has_lost_file(memory, fresh)):
                fields = {"seen": fresh.seen, "stale": "", "verified_at": at}
                confirmed.append(memories.update(memory.id, "confirmed", change, **fields))
    return confirmed


def _has_lost_file(memory: Memory, fresh: Memory) -> bool:
    """Return whether a file of a memory existed before and is now missing."""
    before, after = parse_marks(memory.seen), parse_marks(fresh.seen)
    return any(mark == ABSENT_MARK and before.get(path, ABSENT_MARK) != ABSENT_MARK for path, mark in after.items())


def _file_references(row: Row) -> FileReferences:
    true_at = max(row["created_at"], row["verified_at"] or "")
    return FileReferences(
        files=tuple(dict.fromkeys(parse_string_list(row["files"])[:MAX_FILES])),
        marks=parse_marks(row["seen"]),
        verified_on=true_at[:10],
        since=max(true_at, row["updated_at"]),
    )


# --- files -------------------------------------------------------------------------------


def _current_state(
    folder: _Folder, references: Sequence[FileReferences]
) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """Return the marks of each path that memories name, and when git last recorded a change where needed."""
    since: dict[str, str] = {}
    unmarked: set[str] = set()
    for reference in references:
        for path in reference.files:
            since[path] = min(since.get(path, reference.since), reference.since)
            if path not in reference.marks and not is_pattern(path):
                unmarked.add(path)
    files = _Files(folder)
    states = {path: marks for path in since if (marks := files.marks_at(path)) is not None}
    unmarked &= states.keys()
    changed_at = _last_changes(folder.root, min(since[path] for path in unmarked)) if unmarked else {}
    return states, {path: changed_at.get(project_path(path), "") for path in unmarked}


class _Files:
    """Current files of a project; git is only run for what the files do not tell, once per question."""

    def __init__(self, folder: _Folder) -> None:
        self._folder = folder

    def marks_at(self, path: str) -> tuple[str, ...] | None:
        """Return the marks of a path; empty if nothing is there, None if that cannot be determined."""
        if is_pattern(path):
            return (MATCHED_MARK,) if self._has_match(path) else ()
        marks = self._folder.marks_at(path)
        # A sparse checkout leaves out files that still exist.
        return None if marks == () and self._tracked.get(project_path(path)) == "S" else marks

    @cached_property
    def _tracked(self) -> dict[str, str]:
        """Status letter of each file in the git index; empty without git."""
        entries = (entry.partition(" ") for entry in self._run_git("ls-files", "-t", "-z"))
        return {path: status for status, _, path in entries}

    def _run_git(self, *arguments: str) -> list[str]:
        from ralph.core.git import query_git

        return [part for part in (query_git(self._folder.root, *arguments) or "").split("\0") if part]

    def _has_match(self, pattern: str) -> bool:
        matches = compile_glob(pattern).fullmatch
        paths = (path for paths in (self._tracked, self._untracked) for path in paths if matches(path))
        return any(self._folder.marks_at(path) != () for path in paths)

    @cached_property
    def _untracked(self) -> list[str]:
        """Files not in the git index; without git, the first files found in the directory."""
        paths = self._run_git("ls-files", "--others", "--exclude-standard", "-z")
        if paths or self._tracked:
            return paths
        for folder, folders, names in os.walk(self._folder.root):
            folders[:] = [name for name in folders if not name.startswith(".")]
            paths += [os.path.relpath(f"{folder}/{name}", self._folder.root) for name in names]
            if len(paths) > MAX_WALKED:
                break
        return paths


class _Folder:
    """Project directory, without access to files outside."""

    def __init__(self, directory: Path | str) -> None:
        self.root = os.path.realpath(directory)
        self._real: dict[str, str] = {}

    def marks_at(self, path: str) -> tuple[str, ...] | None:
        """Return the marks of a path; empty if nothing is there, None if that cannot be determined.

        Links out of the project are not followed, and only regular files are read.
        """
        plain = project_path(path)
        try:
            where = self._resolve(plain)
            if not plain or not where.startswith(f"{self.root.rstrip('/')}/"):
                return None
            if "/.ralph/ralph.db" in where:
                return None  # closing a database file would release the locks this process holds on it
            file = os.open(where, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # do not block on a pipe
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except (OSError, ValueError):  # not a valid file name
            return None
        try:
            return _marks_of(file)
        except OSError:
            return None
        finally:
            os.close(file)

    def _resolve(self, path: str) -> str:
        """Return the real path; the directory part is resolved once."""
        folder, _, name = path.rpartition("/")
        if folder not in self._real:
            self._real[folder] = os.path.realpath(f"{self.root}/{folder}")
        where = f"{self._real[folder]}/{name}"
        return os.path.realpath(where) if os.path.islink(where) else where  # noqa: PTH114


def _marks_of(file: int) -> tuple[str, ...] | None:
    info = os.fstat(file)
    if S_ISDIR(info.st_mode):
        return (FOLDER_MARK,)
    if not S_ISREG(info.st_mode):
        return None
    if info.st_size > MAX_READ_BYTES:
        return (f"{info.st_size} bytes",)
    content = os.read(file, info.st_size + 1)
    while len(content) < info.st_size and (more := os.read(file, info.st_size)):
        content += more
    return content_marks(content)


# --- git log -----------------------------------------------------------------------------


def _last_changes(root: str, since: str) -> dict[str, str]:
    """Return when each file last changed in the commits since a time, within limits; empty without git."""
    from ralph.core.git import run_git

    result = run_git(
        root,
        "--no-optional-locks",
        "log",
        "--no-show-signature",
        "--no-renames",
        "--relative",
        "--name-only",
        "-z",
        "--format=%x01%ct",
        f"--since={since[:19]}Z",
        f"--max-count={MAX_COMMITS}",
        timeout_seconds=LOG_TIMEOUT_SECONDS,
    )
    changed_at: dict[str, str] = {}
    at = ""
    for part in result.stdout.split("\0") if result.ok else ():
        if part.startswith("\x01"):
            at = timestamp(int(part[1:] or 0))
        elif part.strip():
            changed_at.setdefault(part.lstrip("\n"), at)
    return changed_at
