"""Read settings that anybody may have put there: only regular files, and no endless ones."""

from __future__ import annotations

import os
import stat

from ralph.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from ralph.files import Size

MOST_MEGABYTES = 16
"""Claude Code's file of all projects can be a few megabytes; nothing that people write is longer."""


def settings_in(path: Path) -> tuple[bytes, Size] | None:
    """Give what a file holds, with its size and date, links followed; None when there is none.

    What is no regular file is refused before it is opened: a device may be endless, and a pipe waits forever.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise _refused(path, "it is not a regular file")
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise _refused(path, "it is not a regular file")
            content = file.read(MOST_MEGABYTES * 2**20 + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _refused(path, reason) from error
    if len(content) > MOST_MEGABYTES * 2**20:
        raise _refused(path, f"it is larger than {MOST_MEGABYTES} MB")
    return content, (found.st_size, found.st_mtime_ns)


def _refused(path: Path, reason: str) -> UsageError:
    return UsageError(f"{path} cannot be read: {reason}. Nothing was changed.")
