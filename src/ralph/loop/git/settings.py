"""Protection of git's settings: what a session changes in them is undone.

The configuration, hooks and ignore rules of a repository decide what git does for everybody, and some of them run
programs. So does the person's own configuration. They are read before sessions and gates and put back afterwards,
without running git. The changed version is kept in the git directory, because a person may have made the change.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from ralph.core.git import find_git_directories, find_submodules, may_name_programs, user_config_paths
from ralph.core.git_index import find_top, git_directory
from ralph.core.records import record
from ralph.loop.git.worktrees import ADMIN_DIRECTORY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

UNDONE_DIRECTORY = "undone"
"""Directory inside the administrative directory for versions that were undone."""
_SHARED_FILES = (
    "commondir",
    "config",
    "config.worktree",
    "info/exclude",
    "info/attributes",
    "info/grafts",
    "objects/info/alternates",
)
_WORKTREE_FILES = ("config.worktree", "commondir", "gitdir", "info/sparse-checkout")
_SUBMODULE_FILES = ("config", "info/attributes")
_USER_MARKS = (
    *(b"hookspath", b"fsmonitor", b"templatedir", b"attributesfile", b"helper", b"program", b"cmd", b"command"),
    *(b"[alias", b"[pager", b"[interactive", b"[difftool", b"[mergetool", b"[browser", b"[man", b"[url", b"[web"),
)
"""Texts in the person's own configuration that may name programs, besides those that git of Ralph would run."""
_BRANCH_HEADER = re.compile(rb'\[branch "[^"\\\]]*"\]\s*')
_BRANCH_LINE = re.compile(rb"\s*(?:remote|merge|rebase|pushremote|description|[a-z-]*merge-base)\s*=[^\\\"#;\[]*", re.I)


@record
class GitFileState:
    """One of git's files at one moment."""

    content: bytes
    mode: int
    is_link: bool = False


@record
class GitEntry:
    """What is called `.git` in a working tree."""

    path: Path
    state: GitFileState | None
    """None for a directory."""
    number: int
    """Inode."""


@record
class UndoneChange:
    """Change to one of git's files that was undone."""

    path: Path
    copy: str = ""
    """Where the changed version is; empty if there was nothing to keep."""
    is_put_back: bool = True

    @property
    def message(self) -> str:
        """Return what happened, for a person."""
        if not self.is_put_back:
            return (
                f"{self.path} was replaced during a session and leads git to another place, whose settings may run"
                " programs. Put it back before you use git here."
            )
        kept = f" What was there is in {self.copy}." if self.copy else ""
        return f"{self.path} was changed during a session and put back, because git could run programs.{kept}"


class GitSettings:
    """Settings of the repository that a run works in; shared by all of its sessions."""

    def __init__(self, root: Path) -> None:
        found = find_git_directories(root)
        self._common = Path(found[1]) if found else None
        self._lock = threading.Lock()
        self._sessions = 0
        self._before: dict[Path, GitFileState | None] = {}
        self._submodules: list[Path] = []
        self._worktrees: list[Path] = []
        top = find_top(os.path.abspath(root))  # noqa: PTH100
        self._entry = _git_entry(Path(top)) if top else None
        """What is called `.git` in the working tree; a directory by its device and number."""
        # Resolved once: a session could put a link into the place of a directory.
        users = map(Path, user_config_paths())
        self._user_configs = [Path(os.path.realpath(path.parent), path.name) for path in users]

    @contextmanager
    def protect(self, directory: Path) -> Iterator[list[UndoneChange]]:
        """Undo what is changed in the block, and add each change to the list that is yielded."""
        undone: list[UndoneChange] = []
        if self._common is None:
            yield undone
            return
        own = _read_worktree_files(directory)
        self._enter(self._common)
        try:
            yield undone
        finally:
            undone += self._undo(own, self._common)
            undone += self._leave(self._common)

    def _enter(self, common: Path) -> None:
        with self._lock:
            self._sessions += 1
            # While others are at work, what is there now may be the work of one of them.
            if self._sessions == 1:
                self._submodules = [Path(path) for path in find_submodules(common)]
                self._worktrees = sorted((common / "worktrees").glob("*"))
                self._before = self._read_shared_files(common)

    def _leave(self, common: Path) -> list[UndoneChange]:
        with self._lock:
            self._sessions -= 1
            undone = self._restore_entry()
            # A submodule that a session has added is its work.
            new = [path for path in self._read_shared_files(common) if path not in self._before]
            undone += self._undo(dict.fromkeys(new), common)
            for path, state in self._before.items():
                if state and path.parent not in (*self._submodules, *self._worktrees):
                    _make_directory(path.parent)
            return undone + self._undo(self._before, common)

    def _restore_entry(self) -> list[UndoneChange]:
        """Put back what is called `.git` in the working tree, if a session has put something else in its place."""
        # A copy in the place of a directory is a directory like any other: its files are put back.
        if self._entry is None or _git_entry(self._entry.path.parent).state == self._entry.state:
            return []
        return [UndoneChange(path=self._entry.path, is_put_back=_put_back(self._entry))]

    def _read_shared_files(self, common: Path) -> dict[Path, GitFileState | None]:
        names = (common / name for name in _SHARED_FILES)
        replaced = (common / "refs" / "replace").glob("*")
        of_submodules = (
            path for one in self._submodules for path in (*(one / name for name in _SUBMODULE_FILES), *_hooks_in(one))
        )
        of_worktrees = (one / "config.worktree" for one in self._worktrees)
        shared = (*names, *_hooks_in(common), *replaced, *self._user_configs, *of_submodules, *of_worktrees)
        return {path: _read_file(path) for path in shared}

    def _undo(self, before: dict[Path, GitFileState | None], common: Path) -> list[UndoneChange]:
        """Put back the files that differ."""
        undone = []
        for path, state in before.items():
            if _is_elsewhere(path) or (now := _read_file(path)) == state:
                continue
            is_there = path.parent.is_dir()  # else it cannot be put back, which is reported for what is above it
            if is_there and not (
                _names_no_program(now) if path in self._user_configs else _is_harmless(path, state, now)
            ):
                undone.append(UndoneChange(path=path, copy=_keep(path, common)))
                _write_file(path, state)
        return undone


def _git_entry(top: Path) -> GitEntry:
    """Return what is called `.git` in a working tree."""
    path = top / ".git"
    try:
        number = path.lstat().st_ino
    except OSError:
        number = 0  # deleted with all that was in it
    return GitEntry(path=path, state=_read_file(path), number=number)


def _put_back(entry: GitEntry) -> bool:
    """Put back what was called `.git`: a file or link as it was, a directory from where it was moved to."""
    if entry.state:
        _write_file(entry.path, entry.state)
        return _read_file(entry.path) == entry.state
    moved = git_directory(os.fspath(entry.path.parent))
    try:
        # Any other directory may be somebody's repository.
        if not moved or Path(moved).stat().st_ino != entry.number:
            return False
        moved = os.path.realpath(moved)
        entry.path.unlink()
        Path(moved).rename(entry.path)
    except OSError:
        return False
    return True


def _make_directory(path: Path) -> None:
    """Make a directory of hooks or settings again that a session has deleted."""
    try:
        if not os.path.lexists(path):
            path.mkdir()
    except OSError:
        return  # what it is in is gone, too


def _is_elsewhere(path: Path) -> bool:
    """Return whether a session has put a link into the place of a directory, so that the path leads elsewhere."""
    return os.path.realpath(path.parent) != str(path.parent)


def _hooks_in(git_directory: Path) -> list[Path]:
    """Return the hooks of a repository, without samples, which git does not run; a link in place of their directory."""
    hooks = git_directory / "hooks"
    if not hooks.is_dir() or hooks.is_symlink():
        return [hooks]
    return sorted(path for path in hooks.iterdir() if not path.name.endswith(".sample"))


def _read_worktree_files(directory: Path) -> dict[Path, GitFileState | None]:
    """Return the files that tie a linked worktree to its repository; none for the main worktree."""
    found = find_git_directories(directory)
    if not found or Path(found[0]).samefile(found[1]):
        return {}
    top = next((one for one in (directory, *directory.parents) if (one / ".git").exists()), directory)
    own = Path(os.path.realpath(found[0]))
    return {path: _read_file(path) for path in (top.resolve() / ".git", *(own / name for name in _WORKTREE_FILES))}


def _read_file(path: Path) -> GitFileState | None:
    try:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            return GitFileState(content=os.fsencode(path.readlink()), mode=0, is_link=True)
        return GitFileState(content=path.read_bytes(), mode=stat.S_IMODE(mode))
    except OSError:
        return None


def _write_file(path: Path, state: GitFileState | None) -> None:
    if not path.parent.is_dir():
        return  # a worktree that was deleted must not look like one whose files were
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        path.unlink(missing_ok=True)
        if state is None:
            return
        if state.is_link:
            path.symlink_to(os.fsdecode(state.content))
        else:
            path.write_bytes(state.content)
            path.chmod(state.mode)
    except OSError:
        return  # git then fails, or overrides what it finds


def _keep(path: Path, common: Path) -> str:
    """Keep a copy of a file before it is put back; return where, or an empty string."""
    state = _read_file(path)
    if state is None:
        return ""
    folder = common / ADMIN_DIRECTORY / UNDONE_DIRECTORY
    copy = folder / f"{time.time_ns()}-{path.name.removeprefix('.')}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if _is_elsewhere(copy):
            return ""
        copy.write_bytes(state.content)
    except OSError:
        return ""
    return str(copy)


def _is_harmless(path: Path, before: GitFileState | None, after: GitFileState | None) -> bool:
    """Return whether only what git writes itself when it creates a branch differs."""
    if path.name != "config" or not before or not after or (before.is_link, before.mode) != (after.is_link, after.mode):
        return False
    return _without_branches(before.content) == _without_branches(after.content)


def _names_no_program(state: GitFileState | None) -> bool:
    """Return whether the person's own configuration is there and names no program."""
    if state is None or state.is_link or may_name_programs(state.content):
        return False
    lowered = state.content.lower()
    return not any(mark in lowered for mark in _USER_MARKS)


def _without_branches(config: bytes) -> list[bytes]:
    """Return the lines of a configuration without those that say what a branch follows."""
    kept, is_branch = [], False
    for line in config.splitlines():
        if line.lstrip().startswith(b"["):
            is_branch = _BRANCH_HEADER.fullmatch(line) is not None
            if is_branch:
                continue
        if not is_branch or not _BRANCH_LINE.fullmatch(line):
            kept.append(line)
    return kept
