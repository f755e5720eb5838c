"""Staleness checks: comparison of recorded file states with the current files.

Marks are like an index: derived from the files, updated without an event, and not part of the checksum of a row. The
result of a check depends on the working copy; if several share a store, the latest check wins.
"""

from __future__ import annotations

import os
from functools import cached_property
from stat import S_ISDIR, S_ISREG

from ralph.core.records import Memory, MemoryState, record, replace, timestamp
from ralph.memory.lifecycle.staleness import (
    ABSENT_MARK,
    EMPTY_BLOB_ID,
    FOLDER_MARK,
    MATCHED_MARK,
    UNKNOWN_MARK,
    FileReferences,
    PathState,
    assess_staleness,
    compile_glob,
    content_marks,
    format_marks,
    is_pattern,
    likely_move,
    parse_marks,
    project_path,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
MAX_UNTRACKED = 500
"""Maximum number of untracked files searched for a moved one."""
MAX_WALKED = 20_000
"""Maximum number of files listed without git."""
MAX_RENAMES = 10
"""Maximum number of renames followed."""
_NO_BLOB = (UNKNOWN_MARK, ABSENT_MARK, FOLDER_MARK, MATCHED_MARK)


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
    named = [_named_files(row) for row in rows]
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

    A memory with a missing file is only confirmed with `also_gone`, which is up to a person. Without a directory the
    files are not available here; their marks are recorded by the next check where they are.
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


def _named_files(row: Row) -> FileReferences:
    from ralph.core.tokenize import parse_string_list

    held_at = max(row["created_at"], row["verified_at"] or "")
    return FileReferences(
        files=tuple(dict.fromkeys(parse_string_list(row["files"])[:MAX_FILES])),
        marks=parse_marks(row["seen"]),
        verified_on=held_at[:10],
        since=max(held_at, row["updated_at"]),
    )


# --- files -------------------------------------------------------------------------------


def _current_state(folder: _Folder, named: Sequence[FileReferences]) -> tuple[dict[str, PathState], dict[str, str]]:
    """Return the state of each path that memories name, and when git last recorded a change where needed."""
    recorded: dict[str, set[str | None]] = {}
    since: dict[str, str] = {}
    for entry in named:
        for path in entry.files:
            recorded.setdefault(path, set()).add(entry.marks.get(path))
            since[path] = min(since.get(path, entry.since), entry.since)
    files = _Files(folder)
    marks = {path: files.marks_at(path) for path in recorded}
    here = {path: PathState(marks=path_marks) for path, path_marks in marks.items() if path_marks is not None}
    gone = {
        path
        for path, entry in here.items()
        if not entry.marks and recorded[path] != {ABSENT_MARK} and not is_pattern(path)
    }
    files.find_by_content({mark for path in gone for mark in recorded[path] if mark})
    moved = {path: files.moved_to(path, recorded[path]) for path in gone}
    uncertain = {path for path in here if None in recorded[path] and not is_pattern(path)}
    uncertain |= {path for path, to in moved.items() if not to}
    log = _log(folder.root, min(since[path] for path in uncertain)) if uncertain else _Log()
    for path in gone:
        here[path] = PathState(moved_to=moved[path] or files.renamed_to(path, log))
    return here, {path: log.touched.get(project_path(path), "") for path in uncertain}


class _Files:
    """Current files of a project; git is only run for what the files do not tell, once per question."""

    def __init__(self, folder: _Folder) -> None:
        self._folder = folder
        self._root = folder.root
        self._paths_by_mark: dict[str, list[str]] = {}

    def marks_at(self, path: str) -> tuple[str, ...] | None:
        """Return the marks of a path; empty if nothing is there, None if that cannot be determined."""
        if is_pattern(path):
            return (MATCHED_MARK,) if self._has_match(path) else ()
        marks = self._folder.marks_at(path)
        if marks == () and project_path(path) in self._skipped:
            return (self._index[project_path(path)],)
        return marks

    @cached_property
    def _index(self) -> dict[str, str]:
        """Blob ids in the git index, by path; empty without git."""
        return {path: id for path, id, _ in self._entries}

    @cached_property
    def _skipped(self) -> set[str]:
        """Files in the git index that a sparse checkout leaves out."""
        return {path for path, _, tag in self._entries if tag == "S"}

    @cached_property
    def _entries(self) -> list[tuple[str, str, str]]:
        entries = []
        for entry in self._run_git("ls-files", "--stage", "-t", "-z"):
            about, _, path = entry.partition("\t")
            tag, _, id, _ = about.split(" ")
            entries.append((path, id, tag))
        return entries

    @cached_property
    def _untracked(self) -> list[str]:
        return self._run_git("ls-files", "--others", "--exclude-standard", "-z")

    def _run_git(self, *arguments: str) -> list[str]:
        from ralph.core.git import query_git

        return [part for part in (query_git(self._root, *arguments) or "").split("\0") if part]

    def _has_match(self, pattern: str) -> bool:
        matches = compile_glob(pattern).fullmatch
        paths = (path for paths in (self._index, self._unindexed) for path in paths if matches(path))
        return any(self._folder.marks_at(path) != () for path in paths)

    @cached_property
    def _unindexed(self) -> list[str]:
        """Files not in the git index; without git, the first files found in the directory."""
        if self._index or self._untracked:
            return self._untracked
        paths: list[str] = []
        for folder, folders, names in os.walk(self._root):
            folders[:] = [name for name in folders if not name.startswith(".")]
            paths += [os.path.relpath(f"{folder}/{name}", self._root) for name in names]
            if len(paths) > MAX_WALKED:
                break
        return paths

    # --- moved files ---------------------------------------------------------------------

    def find_by_content(self, marks: Collection[str]) -> None:
        """Find the current paths of contents, in the git index or among untracked files."""
        blobs = {mark for mark in marks if mark not in _NO_BLOB and mark != EMPTY_BLOB_ID}
        if not blobs:
            return
        self._find(blobs, [path for path, id in self._index.items() if id in blobs])
        if missing := blobs - self._paths_by_mark.keys():
            self._find(missing, self._untracked[:MAX_UNTRACKED])

    def _find(self, blobs: set[str], paths: Iterable[str]) -> None:
        for path in paths:
            for mark in blobs.intersection(self._folder.marks_at(path) or ()):
                self._paths_by_mark.setdefault(mark, []).append(path)

    def moved_to(self, path: str, known: Collection[str | None]) -> str:
        """Return the path the content of a missing file is at now; empty if not found."""
        candidates = (likely_move(project_path(path), self._paths_by_mark.get(mark or "", ())) for mark in known)
        return next(filter(None, candidates), "")

    def renamed_to(self, path: str, log: _Log) -> str:
        """Return the path git says a file was renamed to, if it exists."""
        target = project_path(path)
        for _ in range(MAX_RENAMES):
            target = log.renamed.get(target, "")
            if target and self._folder.marks_at(target):
                return target
        return ""


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


@record
class _Log:
    """Changes to files in the git log."""

    touched: Mapping[str, str] = {}
    """Time of the last change, by path."""
    renamed: Mapping[str, str] = {}
    """Next path of each renamed file."""


def _log(root: str, since: str) -> _Log:
    """Return the changes of the commits since a time, within limits; empty without git."""
    from ralph.core.git import run_git

    result = run_git(
        root,
        "--no-optional-locks",
        "log",
        "--no-show-signature",
        "--relative",
        "-M",
        "--name-status",
        "-z",
        "--format=%x01%ct",
        f"--since={since[:19]}Z",
        f"--max-count={MAX_COMMITS}",
        timeout_seconds=LOG_TIMEOUT_SECONDS,
    )
    touched: dict[str, str] = {}
    renamed: dict[str, str] = {}
    at = ""
    parts = iter(result.stdout.split("\0") if result.ok else ())
    for part in parts:
        if part.startswith("\x01"):
            at = timestamp(int(part[1:] or 0))
            continue
        status, path = part.strip(), next(parts, "")
        touched.setdefault(path, at)
        if status.startswith("R"):
            new = next(parts, "")
            touched.setdefault(new, at)
            renamed.setdefault(path, new)
    return _Log(touched=touched, renamed=renamed)
