"""Safe reading of settings files from untrusted projects."""

from __future__ import annotations

import os
import stat

from ralph.core.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from ralph.core.files import FileStamp

MAX_SETTINGS_MEGABYTES = 16
"""Maximum size of a settings file, in megabytes. The user file of Claude Code can be a few megabytes long."""


def read_settings_file(path: Path) -> tuple[bytes, FileStamp] | None:
    """Return the content of a file with its size and modification time, or None if there is no file.

    Anything but a regular file is rejected: a device may be endless, and opening a pipe may block forever.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise _read_error(path, "it is not a regular file")
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise _read_error(path, "it is not a regular file")
            content = file.read(MAX_SETTINGS_MEGABYTES * 2**20 + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _read_error(path, reason) from error
    if len(content) > MAX_SETTINGS_MEGABYTES * 2**20:
        raise _read_error(path, f"it is larger than {MAX_SETTINGS_MEGABYTES} MB")
    return content, (found.st_size, found.st_mtime_ns)


def _read_error(path: Path, reason: str) -> UsageError:
    return UsageError(f"Cannot read {path}: {reason}. Nothing was changed.", code="unreadable-settings")
