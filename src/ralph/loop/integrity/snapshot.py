"""Contents of a project at one moment, from its directory or from a commit.

A directory is read from the disk: `git status` can be blinded by ignore rules, filters and flags of the index.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from contextlib import suppress
from itertools import chain
from pathlib import Path
from posixpath import basename, dirname, relpath

from ralph.core.errors import WorktreeError
from ralph.core.git import run_git
from ralph.core.records import record
from ralph.loop.integrity.hijacks import MAX_SCANNED_BYTES, TOO_LARGE, find_hijacks, is_scanned
from ralph.loop.integrity.protected import DEPENDENCY_DIRECTORIES, SKIPPED_DIRECTORIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

MAX_KEPT_BYTES = 2 * 1024 * 1024
"""Size of a protected file up to which its content is kept, in bytes."""
MAX_KEPT_TOTAL = 64 * 1024 * 1024
"""Size of all kept contents, in bytes."""
MAX_PATHS_AT_ONCE = 1000
"""Number of files that git is asked for at once."""
GIT_SECONDS = 120.0
"""Timeout for listing a tree, in seconds."""
_NO_SOURCE = frozenset({"objects", "worktrees", "modules", "lfs"})
"""Directories of git and of Ralph that hold no source code in files of their own."""
_LINK_MODE = "120000"
_EXECUTABLE_MODE = "100755"


@record
class FileState:
    """State of a file: two files with equal states have the same content."""

    digest: str
    is_link: bool = False
    is_executable: bool = False


def state_digest(state: FileState | None) -> str:
    """Return what identifies the content and the mode of a file, or its absence."""
    return "deleted" if state is None else state.digest + ("x" if state.is_executable else "")


class TreeSnapshot:
    """Files of a project at one moment."""

    def __init__(self, states: dict[str, FileState], taken_at_ns: int = 0) -> None:
        self.states = states
        self.taken_at_ns = taken_at_ns
        """Time of the snapshot; 0 for a commit."""
        self.dependencies: frozenset[str] = frozenset()
        """Directories with installed packages."""
        self.contents: dict[str, bytes] = {}
        self.hijacks: dict[str, frozenset[str]] = {}
        """Statements found in source files that can change how a gate ends."""

    def read(self, path: str) -> bytes | None:
        """Return the content of a file, or the target of a link; None if it was not kept."""
        return self.contents.get(path)

    def read_text(self, paths: Sequence[str]) -> str:
        """Return the text of several files, as far as it was kept."""
        return "\n".join((self.read(path) or b"").decode("utf-8", "replace") for path in paths)

    def hijacks_in(self, path: str) -> frozenset[str]:
        """Return the statements of a source file that can change how a gate ends."""
        return self.hijacks.get(path, frozenset())

    def has_directory(self, folder: str) -> bool:
        """Return whether a directory held any file."""
        return not folder or any(path.startswith(f"{folder}/") for path in self.states)

    def packages(self) -> set[str]:
        """Return the directories that are Python packages."""
        return {dirname(path) for path in self.states if basename(path).startswith("__init__.py")}


class DirectorySnapshot(TreeSnapshot):
    """Files of a directory, with the contents of those that matter."""

    def __init__(self, root: Path, is_kept: Callable[[str], bool], known: DirectorySnapshot | None = None) -> None:
        """`known` is an earlier snapshot of the same directory, whose unchanged files are not read again.

        `is_kept` looks at the path alone: what it said about a file is known from a snapshot with the same one.
        """
        super().__init__({}, time.time_ns())
        self._root = os.fspath(root)
        self._stamps: dict[str, tuple[int, ...]] = {}
        self._known = known
        self._is_kept = is_kept
        self._kept_bytes = 0
        dependencies: list[str] = []
        known_folders = _folders(known.states) if known else frozenset()
        judged = known._stamps if known and known._is_kept == is_kept else {}
        for path, info in chain(_walk(self._root, dependencies, known_folders), _files_above(self._root)):
            before = judged.get(path)
            self._add(path, info, bool(before[-1]) if before else is_kept(path))
        self.dependencies = frozenset(dependencies)
        self._known = None

    def _add(self, path: str, info: os.stat_result, is_kept: bool) -> None:
        stamp = (info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_mode, is_kept)
        self._stamps[path] = stamp
        known = self._known
        if known and known._stamps.get(path) == stamp:
            self._keep(path, known.states[path], known.contents.get(path))
            self.hijacks[path] = known.hijacks_in(path)
            return
        is_link = stat.S_ISLNK(info.st_mode)
        scans = is_scanned(path) and not is_link
        if scans and info.st_size > MAX_SCANNED_BYTES:
            scans, self.hijacks[path] = False, frozenset({TOO_LARGE})
        content = _read(f"{self._root}/{path}", is_link) if is_kept or is_link or scans else None
        if scans and content is not None:
            self.hijacks[path] = find_hijacks(path, content)
        is_executable = bool(info.st_mode & 0o100) and not is_link
        digest = content_digest(content) if is_kept or is_link or scans else ":".join(map(str, stamp))
        state = FileState(digest=digest, is_link=is_link, is_executable=is_executable)
        self._keep(path, state, content if is_kept or is_link or self.hijacks.get(path) else None)

    def _keep(self, path: str, state: FileState, content: bytes | None) -> None:
        self.states[path] = state
        if content is not None and len(content) <= MAX_KEPT_BYTES and self._kept_bytes <= MAX_KEPT_TOTAL:
            self.contents[path] = content
            self._kept_bytes += len(content)


class CommitSnapshot(TreeSnapshot):
    """Files of a commit, read from git's objects, which are named by their contents."""

    def __init__(self, repository: Path, commit: str, prefix: str = "") -> None:
        """`prefix` is the path from the top of the repository to the project, with a slash, or empty.

        Files outside of the project are part of what is merged, and gates may find them (`../conftest.py`).
        """
        super().__init__({})
        self._repository, self._commit = repository, commit
        listed = run_git(
            repository,
            "ls-tree",
            "-r",
            "-z",
            "--full-tree",
            commit,
            timeout_seconds=GIT_SECONDS,
            errors="surrogateescape",
        )
        if not listed.ok:
            raise WorktreeError(f"git could not list the files of {commit[:12]}: {listed.stderr.strip()}")
        for entry in filter(None, listed.stdout.split("\0")):
            meta, _, path = entry.partition("\t")
            mode, _, digest = meta.split(" ")[:3]
            state = FileState(digest=digest, is_link=mode == _LINK_MODE, is_executable=mode == _EXECUTABLE_MODE)
            self.states[relpath(path, prefix) if prefix else path] = state

    def read(self, path: str) -> bytes | None:
        """Return the content of a file, or the target of a link."""
        if path not in self.contents and path in self.states:
            digest = self.states[path].digest
            found = run_git(
                self._repository, "cat-file", "blob", digest, timeout_seconds=GIT_SECONDS, errors="surrogateescape"
            )
            if found.ok:
                self.contents[path] = found.stdout.encode("utf-8", "surrogateescape")
        return self.contents.get(path)

    def read_text(self, paths: Sequence[str]) -> str:
        """Return the text of several files, read at once."""
        texts = []
        for start in range(0, len(paths), MAX_PATHS_AT_ONCE):
            named = (f":(literal){path}" for path in paths[start : start + MAX_PATHS_AT_ONCE])
            words = ("grep", "-h", "-I", "--no-color", "-e", "", self._commit, "--", *named)
            texts.append(run_git(self._repository, *words, timeout_seconds=GIT_SECONDS).stdout)
        return "\n".join(texts)

    def hijacks_in(self, path: str) -> frozenset[str]:
        """Return the statements of a source file that can change how a gate ends."""
        if path not in self.hijacks and path in self.states and is_scanned(path):
            self.hijacks[path] = find_hijacks(path, self.read(path) or b"")
        return self.hijacks.get(path, frozenset())


def _folders(paths: Iterable[str]) -> set[str]:
    """Return the directories that paths are in."""
    found: set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return found


def _walk(
    root: str, dependencies: list[str], known: Collection[str], folder: str = "", *, is_cache: bool = False
) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files and links below a directory; directories of installed packages are only noted.

    `known` are directories that held files of the project before. Of caches only source code matters.
    """
    try:
        entries = list(os.scandir(f"{root}/{folder}"))
    except OSError:
        return
    for entry in entries:
        path = f"{folder}{entry.name}"
        try:
            if not entry.is_dir(follow_symlinks=False):
                if not is_cache or is_scanned(path):
                    yield path, entry.stat(follow_symlinks=False)
            elif is_cache and entry.name in _NO_SOURCE:
                continue
            elif path not in known and _holds_packages(f"{root}/{path}", entry.name, is_nested=bool(folder)):
                dependencies.append(path)
            else:
                skipped = is_cache or entry.name in SKIPPED_DIRECTORIES
                yield from _walk(root, dependencies, known, f"{path}/", is_cache=skipped)
        except OSError:
            continue


def package_directories(root: Path) -> list[str]:
    """Return the directories with installed packages in a project, relative to it."""
    found: list[str] = []
    for _ in _walk(os.fspath(root), found, ()):
        pass
    return found


def _files_above(root: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files in the directories above a project, up to the top of its repository: tools read them."""
    ups = [up for up in range(len(Path(root).parts) - 1) if os.path.lexists(f"{root}/{'../' * up}.git")]
    for up in range(1, ups[0] + 1 if ups else 1):
        folder = "../" * up
        with suppress(OSError):
            for entry in os.scandir(f"{root}/{folder}"):
                if not entry.is_dir(follow_symlinks=False):
                    yield f"{folder}{entry.name}", entry.stat(follow_symlinks=False)


def _holds_packages(path: str, name: str, *, is_nested: bool) -> bool:
    """Return whether a directory is one that a package manager made, rather than one that only looks like it."""
    if name == "node_modules" and is_nested:
        return os.path.lexists(f"{dirname(path)}/package.json")
    if name in DEPENDENCY_DIRECTORIES:
        return True
    # A package of this name would be imported, whatever else lies in it.
    is_environment = os.path.lexists(f"{path}/pyvenv.cfg") and os.path.lexists(f"{path}/bin/python")
    return is_environment and not any(one.name.startswith("__init__.") for one in os.scandir(path))


def _read(path: str, is_link: bool) -> bytes | None:
    try:
        if is_link:
            return os.fsencode(Path(path).readlink())
        with open(path, "rb", opener=_open_regular) as file:
            return file.read()
    except OSError:
        return None


def _open_regular(path: str, flags: int) -> int:
    # Without O_NONBLOCK, a named pipe would block for ever.
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def content_digest(content: bytes | None) -> str:
    """Return what identifies the content of a file that was read."""
    return hashlib.sha256(content).hexdigest() if content is not None else "unreadable"
