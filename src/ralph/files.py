"""Files other programs and people use too: read whole, replaced whole.

A file is never half written: the new one is complete and on the disk before it
takes the old one's place. What somebody saved meanwhile is never overwritten.
"""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    Size = tuple[int, int]
    """Bytes, and when it was changed in nanoseconds."""

NOTHING = (-1, -1)
AT_FDCWD = -100
RENAME_EXCHANGE = 2
F_SETSIG = 10
FULL, READ_ONLY = "the disk is full", "the disk is read-only"
LEAST_FILES = 8
LEFTOVER_SECONDS = 3600.0


def kept_for(root: Path | str, what: str) -> str:
    """Give the place for what is kept for a person about a project, and apart from it: nobody else writes there."""
    from binascii import crc32

    root = os.path.realpath(root)  # agents and people come to it in different ways
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111
    end = os.fsencode(root.strip("/").replace("/", "-"))[-150:].decode("utf-8", "ignore")
    return f"{state}/ralph/{what}/{end}-{crc32(os.fsencode(root)):08x}"


def is_there(path: str) -> bool:
    """Say whether there is something at a path, links followed; raises when that cannot be known."""
    try:
        os.stat(path)  # noqa: PTH116
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise
        return False
    return True


def trouble_of_disk(path: Path | str, least_bytes: int = 64 * 1024) -> str:
    """Say what keeps everybody from writing where a path is: that the disk is full or read-only; empty when nothing."""
    try:
        found = os.statvfs(path)
    except (OSError, AttributeError):  # not on this system
        return ""
    if found.f_flag & os.ST_RDONLY:
        return READ_ONLY
    blocks, files = (found.f_bfree, found.f_ffree) if os.geteuid() == 0 else (found.f_bavail, found.f_favail)
    is_full = blocks * found.f_frsize < least_bytes or (found.f_files > 0 and files < LEAST_FILES)
    return FULL if is_full else ""


def content_of(path: Path) -> bytes | None:
    """Give what a file holds; None when it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def is_being_written(path: Path | str) -> bool:
    """Say whether a program has a file open to write to it; False where the system cannot tell.

    Nobody can have a lease to read on such a file, and whoever asks for one is told.
    """
    try:
        import fcntl
        from signal import SIGURG
    except ImportError:  # not on this system
        return False
    if not hasattr(fcntl, "F_SETLEASE"):
        return False
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # Who opens the file meanwhile makes the system tell us; its usual way, SIGIO, would end this program.
        fcntl.fcntl(handle, F_SETSIG, SIGURG)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except OSError:  # the file of another user, or a system of files without leases
        return False
    finally:
        os.close(handle)
    return False


def write_whole(path: Path, content: bytes) -> None:
    """Put a file in place of the one at a path, durably, with the same permissions."""
    make_folder(path.parent)
    new = _complete(path, content, None, durably=True)
    try:
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def replace_seen(path: Path, content: bytes, seen: Size | None, *, changed_ns: int, durably: bool = True) -> bool:
    """Put a file in place of the one that was seen at a path; False when somebody has saved another one since.

    `seen` is its size and date, None when there was none; `changed_ns` is the date to give the new one. Whoever
    writes many may make them durable together, later.
    """
    make_folder(path.parent)
    new = _complete(path, content, changed_ns, durably=durably)
    ours = _size(new)
    try:
        if not _put_in_place(new, path, seen or NOTHING):
            if _size(new) not in (ours, NOTHING) or is_being_written(new):
                _keep_beside(new, path)  # somebody wrote to it while it stood there
            return False
    finally:
        new.unlink(missing_ok=True)
    if durably:
        sync_folder(path.parent)
    return True


def remove_seen(path: Path, seen: Size) -> bool:
    """Take away the file that was seen at a path; False when somebody has saved another one since."""
    if _size(path) != seen or is_being_written(path):
        return False
    aside = _hidden(path)
    path.rename(aside)
    if _size(aside) == seen and not is_being_written(aside):
        aside.unlink()
        sync_folder(path.parent)
        return True
    try:
        path.hardlink_to(aside)
        aside.unlink()
    except FileExistsError:  # two saves, one in place and one as a new file
        _keep_beside(aside, path)
    return False


def _hidden(path: Path) -> Path:
    return path.with_name(f".{path.name[:200]}.{os.getpid()}.{os.urandom(3).hex()}.new")


def _keep_beside(file: Path, path: Path) -> None:
    """Leave what somebody wrote where a person sees it."""
    file.rename(path.with_name(f"{path.name[:200]}.saved-{os.urandom(3).hex()}"))


def _complete(path: Path, content: bytes, changed_ns: int | None, *, durably: bool) -> Path:
    """Write all of a file next to where it is to be, with the permissions of the one that is there."""
    new = _hidden(path)
    try:
        with new.open("xb") as file:
            if path.exists():
                there = path.stat()
                try:
                    os.fchown(file.fileno(), there.st_uid, there.st_gid)
                except OSError:  # only root may, and not everywhere
                    pass
                os.fchmod(file.fileno(), there.st_mode & 0o7777)
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


def sweep(folder: str) -> None:
    """Remove what writers that were killed have left half made in a folder; what is younger may still be at work."""
    import re
    import time

    try:
        with os.scandir(folder) as entries:
            left = [one.path for one in entries if re.fullmatch(r"\..+\.\d+\.[0-9a-f]{6}\.new", one.name)]
        for path in left:
            if time.time() - os.lstat(path).st_mtime > LEFTOVER_SECONDS:
                os.unlink(path)  # noqa: PTH108
    except OSError:
        pass  # one too many is no harm


def _put_in_place(new: Path, path: Path, seen: Size) -> bool:
    """Let a new file take the place of the one that was seen; what it displaces is looked at once more."""
    if _size(path) != seen or is_being_written(path):
        return False
    if seen == NOTHING:
        try:
            path.hardlink_to(new)
        except FileExistsError:
            return False
        return True
    if not _exchange(new, path):
        new.replace(path)
    elif _size(new) != seen or is_being_written(new):  # a save came between the look and the exchange: it goes back
        _exchange(new, path)
        return False
    return True


def _size(path: Path) -> Size:
    try:
        found = path.stat()
    except FileNotFoundError:
        return NOTHING
    return found.st_size, found.st_mtime_ns


def _exchange(one: Path, other: Path) -> bool:
    """Let two files trade places in one step; False where the system cannot."""
    import ctypes

    try:
        exchange = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError):
        return False
    return bool(exchange(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0)


def make_folder(folder: Path) -> None:
    """Make a folder, durably, with those above it; one that is there stays as it is."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make names that were added to or taken out of a folder durable."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # not on this system
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def is_inside(path: Path | str, root: Path | str) -> bool:
    """Say whether a path leads to a place inside a folder, or to the folder, links followed."""
    real, folder = os.path.realpath(path), os.path.realpath(root)
    return real == folder or real.startswith(folder.rstrip("/") + "/")
