"""Installed packages and caches inside of a project, which a session can edit and gates execute.

They are too large to hash before every task. The kernel sets the time of a file's last status change (ctime), and no
program can set it back, so that a walk over them finds what was touched since the base was recorded.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from posixpath import basename, dirname

from ralph.loop.integrity.judge import ProtectedChange
from ralph.loop.integrity.protected import DEPENDENCY_DIRECTORIES, ProtectedKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from ralph.loop.integrity.snapshot import TreeSnapshot

MAX_REPORTED = 20
"""Number of changed files of installed packages that are reported."""
MAX_HASHED_BYTES = 5 * 1024 * 1024
_IGNORED_NAMES = frozenset({".package-lock.json", ".yarn-integrity", ".modules.yaml", ".yarn-state.yml", ".lock"})
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


def changed_dependencies(
    places: Mapping[str, str], known: Collection[str], since_ns: int, base: TreeSnapshot, now: TreeSnapshot
) -> list[ProtectedChange]:
    """Return the files of installed packages that changed since a moment, unless what is installed was changed.

    `known` are the directories that existed then.
    """
    if not since_ns or not places:
        return []
    is_declared = any(base.states.get(path) != now.states.get(path) for path in _manifests(base) | _manifests(now))
    changes: list[ProtectedChange] = []
    for folder, place in sorted(places.items()):
        is_install = is_declared or folder not in known
        for path in _touched(place, since_ns):
            if is_install and not _hijacks_programs(place, path):
                continue
            what = "changed without a change of what is installed"
            change = ProtectedChange(
                path=f"{folder}/{path}", kind=ProtectedKind.INTERPRETER, what=what, digest=_hash(f"{place}/{path}")
            )
            changes.append(change)
            if len(changes) >= MAX_REPORTED:
                return changes
    return changes


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


def _touched(place: str, since_ns: int) -> Iterator[str]:
    """Yield the files below a directory whose status changed since a moment, relative to it."""
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
                    if entry.stat(follow_symlinks=False).st_ctime_ns > since_ns:
                        yield f"{current}{entry.name}"
                except OSError:
                    continue


def _hash(path: str) -> str:
    try:
        if Path(path).is_symlink():
            return hashlib.sha256(os.fsencode(Path(path).readlink())).hexdigest()
        with Path(path).open("rb") as file:
            return hashlib.sha256(file.read(MAX_HASHED_BYTES)).hexdigest()
    except OSError:
        return "unreadable"
