"""Installed packages and caches inside of a project, which a session can edit and gates execute.

The kernel sets the time of a file's last status change (ctime), and no program can set it back, so that a walk finds
what was touched since the run started. What was touched counts as changed unless its content is the same as before.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from pathlib import Path
from posixpath import basename, dirname

from ralph.loop.integrity.judge import ProtectedChange
from ralph.loop.integrity.protected import DEPENDENCY_DIRECTORIES, ProtectedKind
from ralph.loop.integrity.snapshot import package_directories

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ralph.loop.integrity.snapshot import TreeSnapshot

MAX_REPORTED = 20
"""Number of changed files of installed packages that are reported."""
MAX_WAIT_SECONDS = 2.0
"""Time that the first session waits until installed packages are read, in seconds; the rest is read meanwhile."""
_IGNORED_NAMES = frozenset(
    {
        *(".package-lock.json", ".yarn-integrity", ".modules.yaml", ".yarn-state.yml", ".lock"),
        *("REQUESTED", "INSTALLER", "direct_url.json"),
    }
)
"""Files in which a package manager notes when and how it installed something."""
_IGNORED_DIRECTORIES = frozenset({"__pycache__", ".cache", ".vite", ".vitest", ".tmp", "log"})
_CORE_PROGRAMS = frozenset(
    {
        "node",
        "npm",
        "npx",
        "sh",
        "bash",
        "env",
        "make",
        "python",
        "python3",
        "cargo",
        "git",
        "cc",
        "gcc",
        "test",
        "true",
    }
)
MANIFESTS = frozenset(
    {
        *("package.json", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lockb"),
        *("pyproject.toml", "setup.py", "setup.cfg", "poetry.lock", "uv.lock", "Pipfile", "Pipfile.lock", "pdm.lock"),
    }
)
"""Files that declare which packages are installed; so does every requirements*.txt."""


def installed_places(directory: Path) -> dict[str, str]:
    """Return the directories with installed packages that gates find in a directory, and where they really are.

    In a clean checkout they are directories of links.
    """
    places = {}
    for name in DEPENDENCY_DIRECTORIES:
        if (directory / name).is_dir():
            links = (child for child in os.scandir(directory / name) if child.is_symlink())
            linked = next((os.path.realpath(child.path) for child in links if basename(child.name) != "python"), "")
            places[name] = dirname(linked) if linked and basename(dirname(linked)) == name else f"{directory}/{name}"
    return places


class InstalledPackages:
    """Installed packages as they were before the sessions of a run."""

    def __init__(self, root: Path, *, is_compared: bool = True) -> None:
        self._known = {folder: f"{root}/{folder}" for folder in (package_directories(root) if is_compared else ())}
        self._digests: dict[str, str] = {}
        self._since_ns = time.time_ns()
        self._reader = threading.Thread(target=self._read, name="installed-packages", daemon=True)
        if self._known:
            self._reader.start()

    def wait(self) -> None:
        """Wait until the packages are read, but not for long."""
        if self._reader.is_alive():
            self._reader.join(MAX_WAIT_SECONDS)

    def _read(self) -> None:
        for folder, place in self._known.items():
            for path, changed_ns in _files(place):
                if changed_ns <= self._since_ns:
                    digest = _hash(f"{place}/{path}")
                    if _changed_ns(f"{place}/{path}") == changed_ns:
                        self._digests[f"{folder}/{path}"] = digest

    def changes(self, directory: Path, base: TreeSnapshot, now: TreeSnapshot) -> list[ProtectedChange]:
        """Return what sessions changed in the packages that gates find in a directory, unless they installed some."""
        is_declared = any(base.states.get(path) != now.states.get(path) for path in _manifests(base) | _manifests(now))
        changes: list[ProtectedChange] = []
        for folder, place in sorted({**installed_places(directory), **self._known}.items()):
            is_install = is_declared or folder not in self._known
            for path, changed_ns in _files(place):
                if changed_ns <= self._since_ns or (is_install and not _hijacks_programs(place, path)):
                    continue
                name, digest = f"{folder}/{path}", _hash(f"{place}/{path}")
                if digest != self._digests.get(name):
                    changes.append(_change(name, digest, self._digests.get(name, "")))
                if len(changes) >= MAX_REPORTED:
                    return changes
        return changes

    def has_found(self, path: str, digest: str) -> bool:
        """Return whether a file of a package had a content before the sessions of this run, and still has it."""
        places = (
            place + path.removeprefix(folder) for folder, place in self._known.items() if path.startswith(f"{folder}/")
        )
        return any(_changed_ns(place) <= self._since_ns and _hash(place) == digest for place in places)

    def discard_caches(self, directory: Path) -> None:
        """Delete compiled Python files that sessions may have written where gates would load them."""
        for place in (os.fspath(directory), *installed_places(directory).values()):
            discard_caches(place, self._since_ns)


def _change(path: str, digest: str, was: str) -> ProtectedChange:
    what = "changed without a change of what is installed"
    return ProtectedChange(path=path, kind=ProtectedKind.INTERPRETER, what=what, digest=digest, was=was)


def discard_caches(root: str, since_ns: int) -> int:
    """Delete compiled Python files written since a moment, and return how many; Python compiles them again."""
    deleted = 0
    for folder, _, names in os.walk(root):
        if basename(folder) != "__pycache__":
            continue
        for name in names:
            path = f"{folder}/{name}"
            try:
                if name.endswith(".pyc") and os.lstat(path).st_ctime_ns > since_ns:
                    Path(path).unlink()
                    deleted += 1
            except OSError:
                continue
    return deleted


def _manifests(tree: TreeSnapshot) -> set[str]:
    return {
        path
        for path in tree.states
        if (name := basename(path)) in MANIFESTS or (name.startswith("requirements") and name.endswith((".txt", ".in")))
    }


def _hijacks_programs(place: str, path: str) -> bool:
    """Return whether a file stands in for a program or changes how Python starts, which no package does."""
    name = basename(path)
    if name in ("sitecustomize.py", "usercustomize.py"):
        return True
    if basename(place) == "node_modules":
        return path.startswith(".bin/") and name in _CORE_PROGRAMS
    # The interpreter of an environment is a link to another one, or a copy of it.
    return path.startswith("bin/python") and _is_script(f"{place}/{path}")


def _is_script(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def _files(place: str) -> Iterator[tuple[str, int]]:
    """Yield the files below a directory, relative to it, and when their status changed."""
    stack = [""]
    while stack:
        current = stack.pop()
        try:
            entries = list(os.scandir(f"{place}/{current}"))
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _IGNORED_DIRECTORIES:
                    stack.append(f"{current}{entry.name}/")
            elif entry.name not in _IGNORED_NAMES and not entry.name.endswith(".pyc"):
                try:
                    yield f"{current}{entry.name}", entry.stat(follow_symlinks=False).st_ctime_ns
                except OSError:
                    continue


def _changed_ns(path: str) -> int:
    try:
        return os.lstat(path).st_ctime_ns
    except OSError:
        return 0


def _hash(path: str) -> str:
    """Return what identifies the content and the mode of a file; that of a special file is not read."""
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            return hashlib.sha256(os.fsencode(Path(path).readlink())).hexdigest()
        if not stat.S_ISREG(mode):
            return "special"
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() + ("x" if mode & 0o100 else "")
    except OSError:
        return "unreadable"
