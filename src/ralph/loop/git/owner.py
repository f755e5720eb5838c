"""Whose unfinished work is in a working tree, as a file in the git directory.

It outlives a killed run, so that its work is told from a person's changes.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress

from ralph.core.files import read_bytes_or_none, write_atomically
from ralph.core.records import record, record_fields
from ralph.loop.git.worktrees import ADMIN_DIRECTORY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

OWNER_FILE = "unfinished.json"
"""Name of the file in the administrative directory."""
_COMMIT = re.compile(r"(?:[0-9a-f]{40,64})?")


@record
class WorkOwner:
    """Task whose unfinished work is in the working tree."""

    task_id: str
    run_id: str
    iteration: int
    head: str
    """Commit that was checked out before its work; empty before the first one."""
    branch: str
    foreign: tuple[str, ...] = ()
    """Paths that others have changed: a person, a gate, or a task whose work could not be set aside."""
    checkpoint: str = ""
    """Commit with its work so far; empty while a session is at work."""
    moves: int = 0
    """Number of entries in the log of HEAD before its work."""
    started_ns: int = 0
    """When its work began, by the clock of the file system; 0 if that is not known."""


class OwnerFile:
    """The file of one working tree."""

    def __init__(self, git_directory: Path) -> None:
        self._path = git_directory / ADMIN_DIRECTORY / OWNER_FILE

    def read(self) -> WorkOwner | None:
        """Return whose work is in the tree; None if nobody's, or if the file cannot be read."""
        content = read_bytes_or_none(self._path)
        try:
            fields = json.loads(content) if content else None
            if not isinstance(fields, dict):
                return None
            owner = WorkOwner(**{**fields, "foreign": tuple(map(str, fields["foreign"]))})
            names = (owner.task_id, owner.run_id, owner.branch)
            is_valid = all(isinstance(name, str) and not name.startswith("-") for name in names)
            is_valid &= all(isinstance(one, int) for one in (owner.iteration, owner.moves, owner.started_ns))
            is_valid &= bool(_COMMIT.fullmatch(owner.head) and _COMMIT.fullmatch(owner.checkpoint))
        except (ValueError, TypeError, KeyError):
            return None
        return owner if is_valid else None

    def write(self, owner: WorkOwner | None) -> None:
        """Say whose work is in the tree; a disk that is full does not stop the run."""
        with suppress(OSError):
            if owner is None:
                self._path.unlink(missing_ok=True)
            else:
                write_atomically(self._path, json.dumps(record_fields(owner)).encode())
