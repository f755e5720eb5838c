"""Linked worktrees of a git repository, found without starting git.

A `.git` file may come with anybody's files and name any repository. So a directory counts as a linked worktree only if
that repository has registered it: both sides have to name each other.
"""

# pathlib takes milliseconds to import, which short commands can save.
# ruff: noqa: PTH110, PTH118, PTH119, PTH120, PTH208

from __future__ import annotations

import os

from ralph.core.git_index import find_top, git_directory
from ralph.core.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

MAX_READ_BYTES = 64 * 1024
"""Number of bytes that are read of a file of git; those with a path are shorter."""


@record
class LinkedWorktree:
    """A directory that `git worktree add` has made."""

    top: str
    main: str
    """The main worktree; empty if the repository has none, such as a bare one."""


def find_linked_worktree(directory: str) -> LinkedWorktree | None:
    """Return the linked worktree that a directory is in, or None if its repository has its worktree there."""
    top = find_top(directory)
    common = _common_directory(top) if top else ""
    return LinkedWorktree(top=top, main=_main_worktree(common)) if common else None


def linked_worktrees(root: Path | str, *, with_gone: bool = False) -> list[str]:
    """Return the directories that correspond to a directory of a main worktree in its linked worktrees.

    For the top of the main worktree, these are the linked worktrees themselves. None are returned for a directory that
    is in no repository or in a linked worktree. Those whose files are gone are returned only with `with_gone`, as long
    as the repository has them registered.
    """
    real = os.path.realpath(root)
    top = find_top(real)
    common = _git_directory(top) if top else ""
    if not common or _main_worktree(common) != top:
        return []
    try:
        names = sorted(os.listdir(f"{common}/worktrees"))
    except OSError:
        return []
    tops = [one for name in names if (one := _registered_top(f"{common}/worktrees/{name}"))]
    places = [f"{one}{real[len(top) :]}" for one in tops if _common_directory(one) == common]
    gone = [f"{one}{real[len(top) :]}" for one in tops if with_gone and not os.path.lexists(one)]
    return [*(place for place in places if os.path.exists(place)), *gone]


def _common_directory(top: str) -> str:
    """Return the git directory of the repository that has registered a linked worktree; empty if none has."""
    administrative = _git_directory(top)
    folder = os.path.dirname(administrative)
    common = os.path.dirname(folder)
    # A submodule has no such file; any other place than `worktrees` could be made by whoever made the `.git` file.
    is_inside = os.path.basename(folder) == "worktrees"
    if not is_inside or _resolve(administrative, _read(f"{administrative}/commondir")) != common:
        return ""
    return common if _registered_top(administrative) == os.path.realpath(top) else ""


def _git_directory(top: str) -> str:
    """Return the real path of the git directory of a worktree; empty if it has none."""
    return _resolve(top, git_directory(top)) if find_top(top) == top else ""


def _registered_top(administrative: str) -> str:
    """Return the linked worktree that an administrative directory of git belongs to; empty if it names none."""
    folder, name = os.path.split(_read(f"{administrative}/gitdir").strip())
    return _resolve(administrative, folder) if name == ".git" else ""


def _main_worktree(common: str) -> str:
    if os.path.basename(common) == ".git":
        return os.path.dirname(common)
    # That of a submodule, or of a repository with a separate git directory.
    main = _resolve(common, _configured_worktree(common))
    return main if main and _git_directory(main) == common else ""


def _configured_worktree(common: str) -> str:
    """Return the value of `core.worktree`; empty if the repository does not set it."""
    section = found = ""
    for line in f"{_read(f'{common}/config')}\n{_read(f'{common}/config.worktree')}".splitlines():
        name, _, value = line.partition("=")
        if line.lstrip().startswith("["):
            section = line.strip().lower()
        elif section == "[core]" and name.strip().lower() == "worktree":
            found = value.strip().strip('"')
    return found


def _resolve(folder: str, path: str) -> str:
    """Return the real path that a file of git names, relative to a folder; empty if it names none."""
    path = path.strip()
    return os.path.realpath(os.path.join(folder, path)) if path and "\0" not in path else ""


def _read(path: str) -> str:
    """Return the beginning of a file; empty if it cannot be read, and without waiting for a pipe."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    try:
        return os.fsdecode(os.read(file, MAX_READ_BYTES))
    except OSError:  # a directory, or a pipe
        return ""
    finally:
        os.close(file)
