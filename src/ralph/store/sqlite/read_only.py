"""Read-only access to a SQLite file on a full or read-only disk.

SQLite shares its index of the write-ahead log with other processes in a file. If that file cannot be written, the index
is kept in memory, which is safe only while nobody writes: so the database is locked, unless the disk is read-only.
"""

from __future__ import annotations

import os
from pathlib import Path

import apsw

from ralph.core.errors import StoreNotWritableError
from ralph.store.database import SCHEMA_VERSION
from ralph.store.sqlite.driver import APPLICATION_ID, SHORT_BUSY_MILLISECONDS, SqliteDatabase

_LOCKED = "", apsw.SQLITE_OPEN_READWRITE
_UNLOCKED = "?vfs=unix-none", apsw.SQLITE_OPEN_READONLY
_WITHOUT_LOG = "?immutable=1", apsw.SQLITE_OPEN_READONLY
"""Without a log, SQLite would try to create one."""


def open_sqlite_read_only(path: str, write_error: StoreNotWritableError) -> SqliteDatabase:
    """Open a database of the current schema read-only; raise `write_error` on every write, or if that is impossible."""
    for mode in (_LOCKED, _UNLOCKED if os.path.exists(f"{path}-wal") else _WITHOUT_LOG):  # noqa: PTH110
        try:
            return SqliteDatabase(connect_read_only(path, *mode), path, write_error)
        except apsw.BusyError:
            break  # another process is writing, so reading without a lock is not safe
        except (apsw.Error, ValueError):
            continue
    raise write_error


def connect_read_only(path: str, options: str, flags: int) -> apsw.Connection:
    """Open a database file without writing anything; raise an error if that is not possible."""
    connection = apsw.Connection(Path(path).absolute().as_uri() + options, flags=flags | apsw.SQLITE_OPEN_URI)
    try:
        connection.set_busy_timeout(SHORT_BUSY_MILLISECONDS)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.pragma("locking_mode", "exclusive")
        connection.pragma("query_only", True)
        connection.pragma("temp_store", "memory")
        if (connection.pragma("user_version"), connection.pragma("application_id")) != (SCHEMA_VERSION, APPLICATION_ID):
            raise ValueError("not a database of the current schema")
        connection.execute("SELECT 1 FROM sqlite_schema").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection
