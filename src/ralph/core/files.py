"""Atomic replacement of files that other programs and people also edit.

A file is never half written: the new one is complete and on disk before it replaces the old one, unless somebody else
has saved it in the meantime.
"""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    FileStamp = tuple[int, int]
    """Size in bytes and modification time in nanoseconds."""

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
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111
    suffix = os.fsencode(root.strip("/").replace("/", "-"))[-150:].decode("utf-8", "ignore")
    return f"{state}/ralph/{what}/{suffix}-{crc32(os.fsencode(root)):08x}"


def path_exists(path: str) -> bool:
    """Return whether a path exists, following links; raise if that cannot be determined."""
    try:
        os.stat(path)  # noqa: PTH116
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


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file durably, with the same permissions."""
    make_folder_durably(path.parent)
    new = _write_temporary(path, content, None, durably=True)
    try:
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def replace_if_unchanged(
    path: Path, content: bytes, expected: FileStamp | None, *, modified_ns: int, is_durable: bool = True
) -> bool:
    """Replace the file at a path; return False if it has changed or somebody is writing to it.

    `expected` is its size and modification time, None if there was no file; `modified_ns` is the modification time of
    the new file. Callers that write many files can pass `is_durable=False` and sync them together later.
    """
    make_folder_durably(path.parent)
    if not _is_unchanged(path, expected):
        return False
    new = _write_temporary(path, content, modified_ns, durably=is_durable)
    try:
        if not _is_unchanged(path, expected):
            return False
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    if is_durable:
        sync_folder(path.parent)
    return True


def remove_if_unchanged(path: Path, expected: FileStamp) -> bool:
    """Delete the file at a path; return False if it has changed or somebody is writing to it."""
    if not _is_unchanged(path, expected):
        return False
    path.unlink()
    sync_folder(path.parent)
    return True


def _is_unchanged(path: Path, expected: FileStamp | None) -> bool:
    try:
        status = path.stat()
    except FileNotFoundError:
        return expected is None
    return (status.st_size, status.st_mtime_ns) == expected and not is_being_written(path)


def _temporary_path(path: Path) -> Path:
    return path.with_name(f".{path.name[:200]}.{os.getpid()}.{os.urandom(3).hex()}.new")


def _write_temporary(path: Path, content: bytes, changed_ns: int | None, *, durably: bool) -> Path:
    """Write a complete file next to its destination, with the permissions of the existing one."""
    new = _temporary_path(path)
    try:
        with new.open("xb") as file:
            if path.exists():
                existing = path.stat()
                try:
                    os.fchown(file.fileno(), existing.st_uid, existing.st_gid)
                except OSError:  # needs root, and support by the file system
                    pass
                os.fchmod(file.fileno(), existing.st_mode & 0o7777)
            file.write(content)
            file.flush()
            if changed_ns is not None:
                os.utime(file.fileno(), ns=(changed_ns, changed_ns))
            if durably:
                os.fsync(file.fileno())
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    return new


def delete_temporary_files(folder: str) -> None:
    """Delete temporary files left in a folder by killed writers, unless they are recent."""
    import re
    import time

    try:
        with os.scandir(folder) as entries:
            leftovers = [one.path for one in entries if re.fullmatch(r"\..+\.\d+\.[0-9a-f]{6}\.new", one.name)]
        for path in leftovers:
            if time.time() - os.lstat(path).st_mtime > TEMPORARY_FILE_SECONDS:
                os.unlink(path)  # noqa: PTH108
    except OSError:
        pass  # leftovers are harmless


def make_folder_durably(folder: Path) -> None:
    """Create a folder and its parents durably, unless it exists."""
    if folder.is_dir():
        return
    make_folder_durably(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make added and removed directory entries durable."""
    try:
        handle = os.open(folder, os.O_RDONLY)
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
