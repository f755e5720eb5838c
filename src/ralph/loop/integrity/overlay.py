"""Copy of a project in which gates run with other versions of some files; the project itself is never changed."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from contextlib import contextmanager
from pathlib import Path
from posixpath import basename

from ralph.loop.integrity.protected import DEPENDENCY_DIRECTORIES, SKIPPED_DIRECTORIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from ralph.loop.integrity.snapshot import TreeSnapshot

MAX_COPIED_BYTES = 1024 * 1024 * 1024
"""Size of a project up to which it is copied, in bytes."""
_LINKED_FILES = (".git",)


class CopyRefusedError(Exception):
    """The project is too large, or cannot be read."""


@contextmanager
def copied_project(directory: Path) -> Iterator[Path]:
    """Yield a copy of a project that is deleted afterwards; installed packages are linked, not copied.

    The rest of its repository is copied too, as far as it is not too large: gates may use what lies next to it.
    """
    with tempfile.TemporaryDirectory(prefix="ralph-base-", ignore_cleanup_errors=True) as folder:
        copy = Path(folder) / "project"  # not the project's name: a path must not tell which run this is
        top = _top_of(directory)
        try:
            try:
                _copy(top, copy, [MAX_COPIED_BYTES])
            except CopyRefusedError:
                if top == directory:
                    raise
                shutil.rmtree(copy)
                top = directory
                _copy(top, copy, [MAX_COPIED_BYTES])
        except OSError as error:
            raise CopyRefusedError(f"{error.strerror}: {error.filename}") from error
        yield copy / directory.relative_to(top)


def _top_of(directory: Path) -> Path:
    """Return the top of the repository that a directory is in, or the directory itself."""
    return next((one for one in (directory, *directory.parents) if os.path.lexists(one / ".git")), directory)


def _copy(source: Path, target: Path, left: list[int]) -> None:
    target.mkdir()
    for entry in os.scandir(source):
        to = target / entry.name
        info = entry.stat(follow_symlinks=False)
        if stat.S_ISLNK(info.st_mode):
            to.symlink_to(Path(entry.path).readlink())
        elif entry.name in DEPENDENCY_DIRECTORIES or entry.name in _LINKED_FILES:
            to.symlink_to(entry.path)
        elif stat.S_ISDIR(info.st_mode):
            if entry.name not in SKIPPED_DIRECTORIES:
                _copy(Path(entry.path), to, left)
        elif stat.S_ISREG(info.st_mode):
            left[0] -= info.st_size
            if left[0] < 0:
                raise CopyRefusedError("the project is larger than 1 GB")
            shutil.copy2(entry.path, to)


def restore_files(
    copy: Path, base: TreeSnapshot, paths: Collection[str], rename: Callable[[bytes], bytes] = bytes
) -> tuple[str, ...]:
    """Restore the base version of files in a copy; return those that cannot be restored.

    `rename` replaces names in them that a person asked to change.
    """
    return tuple(path for path in paths if not _restore(copy, base, path, rename))


def _restore(copy: Path, base: TreeSnapshot, path: str, rename: Callable[[bytes], bytes]) -> bool:
    state, content = base.states.get(path), base.read(path)
    target = copy / path
    _clear_parents(copy, path)
    if state is None:
        target.unlink(missing_ok=True)
        return True
    if content is None:
        return False
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    target.unlink(missing_ok=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    if state.is_link:
        target.symlink_to(os.fsdecode(content))
        return True
    target.write_bytes(rename(content))
    target.chmod(0o755 if state.is_executable else 0o644)
    return True


def _clear_parents(copy: Path, path: str) -> None:
    """Remove links and files that stand where directories of a path belong."""
    folder = copy
    for part in path.split("/")[:-1]:
        folder = folder / part
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            folder.unlink()


def remove_moved_tests(copy: Path, restored: Collection[str], new: Collection[str]) -> None:
    """Remove new tests that have the name of a restored one: test tools refuse two modules of one name."""
    names = {basename(path) for path in restored}
    for path in new:
        if basename(path) in names:
            (copy / path).unlink(missing_ok=True)


def write_new_tests(copy: Path, now: Callable[[str], bytes | None], paths: Collection[str]) -> None:
    """Write new tests into a copy of the base."""
    for path in paths:
        content = now(path)
        if content is not None:
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            (copy / path).write_bytes(content)
