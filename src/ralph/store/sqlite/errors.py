"""Translation of SQLite errors into messages that say what to do."""

from __future__ import annotations

import os

import apsw

from ralph.core.errors import RalphError, StatementError, StoreError, StoreNotWritableError, StoreUnavailableError
from ralph.core.files import DISK_FULL, DISK_READ_ONLY, disk_problem

_FULL_REASON = f"{DISK_FULL}. Free some space, then try again"
_DISK_REASONS = {DISK_FULL: _FULL_REASON, DISK_READ_ONLY: f"{DISK_READ_ONLY}. Make it writable, then try again"}


def translate_sqlite_error(error: apsw.Error, path: str) -> RalphError:
    """Return the error to raise for an SQLite error."""
    reasons = {
        apsw.FullError: (StoreNotWritableError, _FULL_REASON),
        apsw.ReadOnlyError: (
            StoreNotWritableError,
            "it is read-only. Check the permissions of the file and its directory",
        ),
        apsw.CantOpenError: (StoreNotWritableError, "it cannot be opened. Check that its directory is writable"),
        apsw.PermissionsError: (StoreError, "permission denied. Check the permissions of the file and its directory"),
        apsw.BusyError: (StoreUnavailableError, "another program has locked it for too long. Try again"),
        apsw.NotADBError: (StoreError, "it is not a database. Restore a backup with: ralph restore"),
        apsw.CorruptError: (StoreError, "it is damaged. Restore a backup with: ralph restore"),
        apsw.IOError: (StoreNotWritableError, f"the disk reported an error ({error}). Check the disk, then try again"),
    }
    if any(sign in str(error) for sign in ("fts5: corrupt", "invalid fts5", "vtable constructor")):
        return StoreError(f"The search index in {path} is damaged. Rebuild it with: ralph doctor --reindex")
    for kind, (error_class, reason) in reasons.items():
        if isinstance(error, kind):
            if error_class is StoreNotWritableError:
                # SQLite reports which call failed, not that the disk is full or read-only.
                reason = _DISK_REASONS.get(disk_problem(os.path.dirname(path) or "."), reason)  # noqa: PTH120
            return error_class(f"The database {path} cannot be used: {reason}.")
    return StatementError(f"The database {path} rejected a statement: {error}.")
