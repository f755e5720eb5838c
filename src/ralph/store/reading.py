"""A SQLite file on a disk that takes nothing: what is there can be read, without room for a single byte.

SQLite shares what it knows of the write-ahead log with other processes in a file. Without room for that one it is
kept in memory, which is safe while nobody else writes: so the file is locked, unless the whole disk is read-only.
"""

from __future__ import annotations

import os
from pathlib import Path

import apsw

from ralph.errors import StoreNotWritableError
from ralph.store.database import SCHEMA_VERSION
from ralph.store.sqlite import APPLICATION_ID, LITTLE_MILLISECONDS, SqliteDatabase

_LOCKED = "", apsw.SQLITE_OPEN_READWRITE
_UNLOCKED = "?vfs=unix-none", apsw.SQLITE_OPEN_READONLY
_WITHOUT_LOG = "?immutable=1", apsw.SQLITE_OPEN_READONLY
"""Where there is no log SQLite would make one."""


def open_to_read(path: str, hindrance: StoreNotWritableError) -> SqliteDatabase:
    """Open a database of this version for reading alone; whoever would write is told what hinders it."""
    for way in (_LOCKED, _UNLOCKED if os.path.exists(f"{path}-wal") else _WITHOUT_LOG):  # noqa: PTH110
        try:
            return SqliteDatabase(connect_to_read(path, *way), path, hindrance)
        except apsw.BusyError:
            break  # somebody is at work on it, and has room: to read beside that without a lock is no reading
        except (apsw.Error, ValueError):
            continue
    raise hindrance


def connect_to_read(path: str, options: str, flags: int) -> apsw.Connection:
    """Open a file so that nothing has to be written for it; raises where that is not possible."""
    connection = apsw.Connection(Path(path).absolute().as_uri() + options, flags=flags | apsw.SQLITE_OPEN_URI)
    try:
        connection.set_busy_timeout(LITTLE_MILLISECONDS)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.pragma("locking_mode", "exclusive")
        connection.pragma("query_only", True)
        connection.pragma("temp_store", "memory")
        if (connection.pragma("user_version"), connection.pragma("application_id")) != (SCHEMA_VERSION, APPLICATION_ID):
            raise ValueError("It is of another version.")
        connection.execute("SELECT 1 FROM sqlite_schema").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection
