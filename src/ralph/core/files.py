"""Atomic replacement of files that other programs and people also edit.

A file is never half written: the new one is complete and on disk before it replaces the old one, unless somebody else
has saved it in the meantime.
"""

# pathlib takes milliseconds to import, which short commands can save.
# ruff: noqa: PTH102, PTH105, PTH108, PTH111, PTH112, PTH116, PTH118, PTH120, PTH123

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    FileStamp = tuple[int, int]
    """Size in bytes and modification time in nanoseconds."""
    FileParts = Sequence[bytes | memoryview]
    """The content of a file in parts; joining them would copy a large file."""

F_SETSIG = 10
SANDBOX_VARIABLE = "RALPH_SANDBOX"
"""Variable that is set in a sandbox, where the database can only be read."""
DISK_FULL, DISK_READ_ONLY = "the disk is full", "the disk is read-only"
MIN_FREE_INODES = 8
"""Number of free inodes below which a disk counts as full."""
TEMPORARY_FILE_SECONDS = 3600.0
"""Age at which a temporary file counts as abandoned, in seconds."""


def state_path(root: Path | str, what: str) -> str:
    """Return a per-project path in the user's state directory, outside the project."""
    from binascii import crc32

    root = os.path.realpath(root)  # the same directory can be reached by different paths
    suffix = os.fsencode(root.strip("/").replace("/", "-"))[-150:].decode("utf-8", "ignore")
    return f"{state_directory()}/{what}/{suffix}-{crc32(os.fsencode(root)):08x}"


def state_directory() -> str:
    """Return the directory with what Ralph records for this user."""
    return f"{os.environ.get('XDG_STATE_HOME') or os.path.expanduser('~/.local/state')}/ralph"


def path_exists(path: str) -> bool:
    """Return whether a path exists, following links; raise if that cannot be determined."""
    try:
        os.stat(path)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise
        return False
    return True


def disk_problem(path: Path | str, min_free_bytes: int = 64 * 1024) -> str:
    """Return why nothing can be written at a path: disk full or read-only; empty if it can."""
    try:
        usage = os.statvfs(path)
    except (OSError, AttributeError):  # unsupported on this system
        return ""
    if usage.f_flag & os.ST_RDONLY:
        return DISK_READ_ONLY
    blocks, files = (usage.f_bfree, usage.f_ffree) if os.geteuid() == 0 else (usage.f_bavail, usage.f_favail)
    is_full = blocks * usage.f_frsize < min_free_bytes or (usage.f_files > 0 and files < MIN_FREE_INODES)
    return DISK_FULL if is_full else ""


def read_bytes_or_none(path: Path) -> bytes | None:
    """Return the content of a file, or None if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def is_being_written(path: Path | str) -> bool:
    """Return whether a program has the file open for writing; False where the system cannot tell.

    A read lease cannot be obtained on such a file.

    """
    try:
        import fcntl
        from signal import SIGURG
    except ImportError:  # unsupported on this system
        return False
    if not hasattr(fcntl, "F_SETLEASE"):
        return False
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # If somebody opens the file meanwhile, we get a signal; the default, SIGIO, would kill this process.
        fcntl.fcntl(handle, F_SETSIG, SIGURG)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except OSError:  # another user's file, or a file system without leases
        return False
    finally:
        os.close(handle)
    return False


def write_atomically(path: Path | str, content: bytes) -> None:
    """Replace a file durably, with the same permissions."""
    path = os.fspath(path)
    folder = os.path.dirname(path)
    make_folder_durably(folder)
    new = _write_temporary(path, [content], None, durably=True)
    try:
        os.replace(new, path)
    except BaseException:
        _remove_if_exists(new)
        raise
    sync_folder(folder)


def replace_if_unchanged(
    path: Path | str,
    content: bytes | FileParts,
    expected: FileStamp | None,
    *,
    modified_ns: int,
    is_durable: bool = True,
) -> bool:
    """Replace the file at a path; return False if it has changed or somebody is writing to it.

    `expected` is its size and modification time, None if there was no file; `modified_ns` is the modification time of
    the new file. Callers that write many files can pass `is_durable=False` and sync them together later.
    """
    path = os.fspath(path)
    folder = os.path.dirname(path)
    make_folder_durably(folder)
    if not _is_unchanged(path, expected):
        return False
    parts = [content] if isinstance(content, bytes) else content
    new = _write_temporary(path, parts, modified_ns, durably=is_durable)
    try:
        if not _is_unchanged(path, expected):
            return False
        os.replace(new, path)
    finally:
        _remove_if_exists(new)
    if is_durable:
        sync_folder(folder)
    return True


def remove_if_unchanged(path: Path | str, expected: FileStamp) -> bool:
    """Delete the file at a path; return False if it has changed or somebody is writing to it."""
    if not _is_unchanged(path, expected):
        return False
    os.unlink(path)
    sync_folder(os.path.dirname(path))
    return True


def _is_unchanged(path: Path | str, expected: FileStamp | None) -> bool:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return expected is None
    return (status.st_size, status.st_mtime_ns) == expected and not is_being_written(path)


def _temporary_path(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name[:200]}.{os.getpid()}.{os.urandom(3).hex()}.new")


def _remove_if_exists(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _write_temporary(path: str, parts: FileParts, changed_ns: int | None, *, durably: bool) -> str:
    """Write a complete file next to its destination, with the permissions of the existing one."""
    new = _temporary_path(path)
    try:
        with open(new, "xb") as file:
            if path_exists(path):
                existing = os.stat(path)
                try:
                    os.fchown(file.fileno(), existing.st_uid, existing.st_gid)
                except OSError:  # needs root, and support by the file system
                    pass
                os.fchmod(file.fileno(), existing.st_mode & 0o7777)
            file.writelines(parts)
            file.flush()
            if changed_ns is not None:
                os.utime(file.fileno(), ns=(changed_ns, changed_ns))
            if durably:
                os.fsync(file.fileno())
    except BaseException:
        _remove_if_exists(new)
        raise
    return new


def delete_temporary_files(folder: str) -> None:
    """Delete temporary files left in a folder by killed writers, unless they are recent."""
    import re
    import time

    try:
        with os.scandir(folder) as entries:
            names = [one.name for one in entries if one.name.endswith(".new")]
        leftovers = [name for name in names if re.fullmatch(r"\..+\.\d+\.[0-9a-f]{6}\.new", name)]
        for path in (os.path.join(folder, name) for name in leftovers):
            if time.time() - os.lstat(path).st_mtime > TEMPORARY_FILE_SECONDS:
                os.unlink(path)
    except OSError:
        pass  # leftovers are harmless


def make_folder_durably(folder: Path | str) -> None:
    """Create a folder and its parents durably, unless it exists."""
    if not folder or os.path.isdir(folder):
        return
    parent = os.path.dirname(folder)
    make_folder_durably(parent)
    try:
        os.mkdir(folder)
    except FileExistsError:
        if not os.path.isdir(folder):
            raise
    sync_folder(parent)


def sync_folder(folder: Path | str) -> None:
    """Make added and removed directory entries durable."""
    try:
        handle = os.open(folder or ".", os.O_RDONLY)
    except OSError:  # unsupported on this system
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def is_inside(path: Path | str, root: Path | str) -> bool:
    """Return whether a path resolves to a folder or to something inside it."""
    real, folder = os.path.realpath(path), os.path.realpath(root)
    return real == folder or real.startswith(folder.rstrip("/") + "/")


def is_own_path(path: Path | str, root: Path | str) -> bool:
    """Return whether a path resolves to something inside a project, but not to data of a project further down."""
    top = os.path.realpath(root).rstrip("/") + "/"
    real = os.path.realpath(path)
    return real.startswith(top) and "/.ralph/" not in real[len(top) :]
