"""Files other programs and people use too: read whole, replaced whole.

A file is never half written: the new one is complete and on the disk before it
takes the old one's place.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


def write_whole(path: Path, content: bytes, changed_ns: int | None = None) -> os.stat_result:
    """Put a file in place of the one at a path, durably, with the same permissions; give what it is like now.

    `changed_ns` is the date to give it, if not now.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name[:200]}.{os.getpid()}.{os.urandom(3).hex()}.new")
    try:
        with new.open("xb") as file:
            if path.exists():
                os.fchmod(file.fileno(), path.stat().st_mode & 0o7777)
            file.write(content)
            file.flush()
            if changed_ns is not None:
                os.utime(file.fileno(), ns=(changed_ns, changed_ns))
            os.fsync(file.fileno())
            written = os.fstat(file.fileno())
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
    return written


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


def is_inside(path: Path, root: Path) -> bool:
    """Say whether a path leads to a place inside a folder, links followed."""
    return path.resolve().is_relative_to(root.resolve())
