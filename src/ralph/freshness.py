"""Compare what memories say of files with the files as they are: note how they were, mark what became doubtful.

The marks are like an index: made from the files, renewed without an event, not counted in a row's checksum. What a
check finds depends on the working copy it is made in; where several share a store the latest check stands.
"""

from __future__ import annotations

import os
from functools import cached_property
from stat import S_ISDIR, S_ISREG

from ralph.memory.staleness import (
    ABSENT,
    EMPTY,
    FOLDER,
    MATCHED,
    UNKNOWN,
    Here,
    Named,
    compiled_pattern,
    confirmed_by,
    inside,
    is_pattern,
    judged,
    likely_move,
    marks_in,
    marks_of,
    seen_of,
)
from ralph.records import Memory, State, record, replace, timestamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from ralph.store import Store
    from ralph.store.database import Row
    from ralph.store.memories import Change, Changed

__all__ = ["Checked", "check", "confirm", "confirmed_by", "with_marks"]

MOST_FILES = 50
"""A memory that names more files than this is about none of them."""
LARGEST_READ = 5 * 1024 * 1024
"""Bytes. A larger file is known by its size alone."""
MOST_COMMITS = 3_000
LOG_SECONDS = 5.0
MOST_UNTRACKED = 500
"""So many files that git does not know yet are looked at for one that has moved."""
MOST_WALKED = 20_000
MOST_RENAMES = 10
_NO_BLOB = (UNKNOWN, ABSENT, FOLDER, MATCHED)


@record
class Checked:
    """What a check changed."""

    marked: tuple[Memory, ...] = ()
    """Those that became doubtful, or doubtful for another reason."""
    cleared: tuple[Memory, ...] = ()
    """Those whose files are again as they were."""


def with_marks(memory: Memory, directory: Path | str) -> Memory:
    """Give a memory with marks of the files it names as they are now, to be compared with later."""
    folder = _Folder(directory)
    looked = {path: folder.marks_at(path) for path in memory.files[:MOST_FILES] if not is_pattern(path)}
    marks = {path: found[0] if found else ABSENT for path, found in looked.items() if found is not None}
    return replace(memory, seen=seen_of(marks), stale="")


def check(store: Store, directory: Path | str, paths: Collection[str] | None = None) -> Checked:
    """Mark the active memories whose files are no longer as they were, and clear the mark of those that are again.

    With `paths`, only of those memories that name one of them. Files nobody noted a mark of are taken as they are now,
    unless git has seen a change of them since the memory was written.
    """
    rows = store.memories.naming_files(paths)
    if not rows:
        return Checked()
    named = [_named(row) for row in rows]
    here, touched = _look(_Folder(directory), named)
    changes = []
    for row, one in zip(rows, named, strict=True):
        marks, stale = judged(one, here, touched)
        if (marks, stale) != (one.marks, row["stale"]):
            changes.append((row, seen_of(marks), stale))
    store.memories.note_files(changes)
    changed = {row["id"]: stale for row, _, stale in changes if stale != row["stale"]}
    found = [memory for memory in store.memories.find_each(changed) if memory.stale == changed[memory.id]]
    return Checked(
        marked=tuple(memory for memory in found if memory.stale),
        cleared=tuple(memory for memory in found if not memory.stale),
    )


def confirm(
    store: Store, ids: Iterable[str], directory: Path | str | None, change: Change, at: str, *, also_gone: bool = False
) -> list[Changed]:
    """Note that memories in use hold as things are now; give those that were confirmed, as they are.

    One of whose files has gone meanwhile is confirmed only with `also_gone`: that is for a person to say. Without a
    directory the files are not here: they are looked at where they are.
    """
    memories = store.memories
    confirmed = []
    with store.transaction():
        for memory in memories.find_each(ids):
            fresh = replace(memory, seen="") if directory is None else with_marks(memory, directory)
            if memory.state is State.ACTIVE and (also_gone or not _lost(memory, fresh)):
                fields = {"seen": fresh.seen, "stale": "", "verified_at": at}
                confirmed.append(memories.changed(memory.id, "confirmed", change, **fields))
    return confirmed


def _lost(memory: Memory, fresh: Memory) -> bool:
    """Say whether a file of a memory was there and is not any more."""
    before, after = marks_in(memory.seen), marks_in(fresh.seen)
    return any(mark == ABSENT and before.get(path, ABSENT) != ABSENT for path, mark in after.items())


def _named(row: Row) -> Named:
    from ralph.memory.words import texts_in

    held_at = max(row["created_at"], row["verified_at"] or "")
    return Named(
        files=tuple(dict.fromkeys(texts_in(row["files"])[:MOST_FILES])),
        marks=marks_in(row["seen"]),
        held_on=held_at[:10],
        since=max(held_at, row["updated_at"]),
    )


# --- the files ---------------------------------------------------------------------------


def _look(folder: _Folder, named: Sequence[Named]) -> tuple[dict[str, Here], dict[str, str]]:
    """Give what is at each path that memories name, and when git last saw a change where that matters."""
    known: dict[str, set[str | None]] = {}
    since: dict[str, str] = {}
    for one in named:
        for path in one.files:
            known.setdefault(path, set()).add(one.marks.get(path))
            since[path] = min(since.get(path, one.since), one.since)
    files = _Files(folder)
    looked = {path: files.marks_at(path) for path in known}
    here = {path: Here(marks=found) for path, found in looked.items() if found is not None}
    gone = {path for path, one in here.items() if not one.marks and known[path] != {ABSENT} and not is_pattern(path)}
    files.find_by_content({mark for path in gone for mark in known[path] if mark})
    moved = {path: files.moved_to(path, known[path]) for path in gone}
    unsure = {path for path in here if None in known[path] and not is_pattern(path)}
    unsure |= {path for path, to in moved.items() if not to}
    log = _log(folder.root, min(since[path] for path in unsure)) if unsure else _Log()
    for path in gone:
        here[path] = Here(moved_to=moved[path] or files.renamed_to(path, log))
    return here, {path: log.touched.get(inside(path), "") for path in unsure}


class _Files:
    """The files of a project as they are now; git is asked only for what they do not tell, once for each thing."""

    def __init__(self, folder: _Folder) -> None:
        self._folder = folder
        self._root = folder.root
        self._places: dict[str, list[str]] = {}

    def marks_at(self, path: str) -> tuple[str, ...] | None:
        """Give the marks of what is at a path, none when nothing is; None when that cannot be known."""
        if is_pattern(path):
            return (MATCHED,) if self._is_met(path) else ()
        found = self._folder.marks_at(path)
        if found == () and inside(path) in self._set_aside:
            return (self._index[inside(path)],)
        return found

    @cached_property
    def _index(self) -> dict[str, str]:
        """What git has in its index, by path; nothing where git cannot tell."""
        return {path: id for path, id, _ in self._entries}

    @cached_property
    def _set_aside(self) -> set[str]:
        """The files that git has, but that this working copy was told to do without."""
        return {path for path, _, tag in self._entries if tag == "S"}

    @cached_property
    def _entries(self) -> list[tuple[str, str, str]]:
        found = []
        for entry in self._ask("ls-files", "--stage", "-t", "-z"):
            about, _, path = entry.partition("\t")
            tag, _, id, _ = about.split(" ")
            found.append((path, id, tag))
        return found

    @cached_property
    def _untracked(self) -> list[str]:
        return self._ask("ls-files", "--others", "--exclude-standard", "-z")

    def _ask(self, *arguments: str) -> list[str]:
        from ralph.git import ask_git

        return [part for part in (ask_git(self._root, *arguments) or "").split("\0") if part]

    def _is_met(self, pattern: str) -> bool:
        matches = compiled_pattern(pattern).fullmatch
        paths = (path for paths in (self._index, self._others) for path in paths if matches(path))
        return any(self._folder.marks_at(path) != () for path in paths)

    @cached_property
    def _others(self) -> list[str]:
        """The files that are not in git's index; where git cannot tell, the first of all there are."""
        if self._index or self._untracked:
            return self._untracked
        found: list[str] = []
        for folder, folders, names in os.walk(self._root):
            folders[:] = [name for name in folders if not name.startswith(".")]
            found += [os.path.relpath(f"{folder}/{name}", self._root) for name in names]
            if len(found) > MOST_WALKED:
                break
        return found

    # --- where they went -----------------------------------------------------------------

    def find_by_content(self, marks: Collection[str]) -> None:
        """Find out where contents are now: in git's index, or in files that git does not know yet."""
        wanted = {mark for mark in marks if mark not in _NO_BLOB and mark != EMPTY}
        if not wanted:
            return
        self._find(wanted, [path for path, id in self._index.items() if id in wanted])
        if left := wanted - self._places.keys():
            self._find(left, self._untracked[:MOST_UNTRACKED])

    def _find(self, wanted: set[str], paths: Iterable[str]) -> None:
        for path in paths:
            for mark in wanted.intersection(self._folder.marks_at(path) or ()):
                self._places.setdefault(mark, []).append(path)

    def moved_to(self, path: str, known: Collection[str | None]) -> str:
        """Give where the content of a file that is gone is now; empty when it is nowhere."""
        found = (likely_move(inside(path), self._places.get(mark or "", ())) for mark in known)
        return next(filter(None, found), "")

    def renamed_to(self, path: str, log: _Log) -> str:
        """Give where git says that a file went, as far as it is there."""
        place = inside(path)
        for _ in range(MOST_RENAMES):
            place = log.renamed.get(place, "")
            if place and self._folder.marks_at(place):
                return place
        return ""


class _Folder:
    """A project's directory, to be looked into and not out of."""

    def __init__(self, directory: Path | str) -> None:
        self.root = os.path.realpath(directory)
        self._real: dict[str, str] = {}

    def marks_at(self, path: str) -> tuple[str, ...] | None:
        """Give the marks of what is at a path, none when nothing is; None when that cannot be known.

        A link that leads out of the project is not followed, and nothing but plain files is read.
        """
        plain = inside(path)
        try:
            where = self._place_of(plain)
            if not plain or not where.startswith(f"{self.root.rstrip('/')}/"):
                return None
            if "/.ralph/ralph.db" in where:
                return None  # to close a file of a database ends the locks that this process has on it
            file = os.open(where, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # does not wait at the end of a pipe
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except (OSError, ValueError):  # no file has such a name
            return None
        try:
            return _marks_of(file)
        except OSError:
            return None
        finally:
            os.close(file)

    def _place_of(self, path: str) -> str:
        """Give where a path leads to, links followed; the folders on the way are looked at once."""
        folder, _, name = path.rpartition("/")
        if folder not in self._real:
            self._real[folder] = os.path.realpath(f"{self.root}/{folder}")
        where = f"{self._real[folder]}/{name}"
        return os.path.realpath(where) if os.path.islink(where) else where  # noqa: PTH114


def _marks_of(file: int) -> tuple[str, ...] | None:
    found = os.fstat(file)
    if S_ISDIR(found.st_mode):
        return (FOLDER,)
    if not S_ISREG(found.st_mode):
        return None
    if found.st_size > LARGEST_READ:
        return (f"{found.st_size} bytes",)
    content = os.read(file, found.st_size + 1)
    while len(content) < found.st_size and (more := os.read(file, found.st_size)):
        content += more
    return marks_of(content)


# --- what git saw ------------------------------------------------------------------------


@record
class _Log:
    """What commits did to files."""

    touched: Mapping[str, str] = {}
    """When each was last changed, by path."""
    renamed: Mapping[str, str] = {}
    """What each that was renamed was called next."""


def _log(root: str, since: str) -> _Log:
    """Give what the commits after a moment did, as far back as is worth looking; nothing where git cannot tell."""
    from ralph.git import run_git

    ran = run_git(
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
        f"--max-count={MOST_COMMITS}",
        seconds=LOG_SECONDS,
    )
    touched: dict[str, str] = {}
    renamed: dict[str, str] = {}
    at = ""
    parts = iter(ran.out.split("\0") if ran.ok else ())
    for part in parts:
        if part.startswith("\x01"):
            at = timestamp(int(part[1:] or 0))
            continue
        what, path = part.strip(), next(parts, "")
        touched.setdefault(path, at)
        if what.startswith("R"):
            new = next(parts, "")
            touched.setdefault(new, at)
            renamed.setdefault(path, new)
    return _Log(touched=touched, renamed=renamed)
