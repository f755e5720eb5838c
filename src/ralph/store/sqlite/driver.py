"""SQLite implementation of the `Database` interface, using apsw.

Commits are durable: write-ahead log, `synchronous=FULL` and `BEGIN IMMEDIATE` for every write. Writers queue at a lock
file first, because SQLite's own busy handler is unfair: with 50 concurrent writers some waited 15 seconds.
"""

from __future__ import annotations

import os
from functools import cached_property

import apsw

from ralph.core.errors import (
    StoreError,
    StoreNotWritableError,
    StoreTooNewError,
)
from ralph.core.files import disk_problem
from ralph.store.database import SCHEMA_VERSION
from ralph.store.sqlite.errors import translate_sqlite_error
from ralph.store.sqlite.transactions import BUSY_MILLISECONDS, ReadTransaction, WriteTransaction
from ralph.store.sqlite.watch import FileWatch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ralph.store.database import Row
    from ralph.store.sqlite.words import SqliteWordIndex

APPLICATION_ID = 0x52414C50  # "RALP"
SHORT_BUSY_MILLISECONDS = 1_000
"""Time to wait for the write lock if the disk is not writable, in milliseconds."""
SIDECARS = ("-wal", "-shm", "-journal")
"""Suffixes of the files that SQLite keeps next to a database."""
MIN_DATABASE_BYTES = 512
"""Minimum size of a SQLite database, in bytes."""


def open_sqlite(path: str, *, create: bool = False, allow_read_only: bool = False) -> SqliteDatabase:
    """Open a database file, migrating its tables first.

    If `allow_read_only` is true, a file on a full or read-only disk is opened read-only instead of being refused.
    """
    if not create and not os.path.exists(path):  # noqa: PTH110
        raise StoreError(f"The database {path} does not exist. Create it with: ralph init", code="store-missing")
    if name := find_irregular_file(path):
        raise StoreError(f"{name} is not a regular file. Move it out of the way and try again.")
    _refuse_emptied(path, create=create)
    try:
        connection = None
        connection = apsw.Connection(path)
        _prepare(connection, path, create=create, waits=not (allow_read_only and disk_problem(path)))
        database = SqliteDatabase(connection, path)
        if connection.pragma("user_version") < SCHEMA_VERSION:
            _migrate(connection, database, path)
    except apsw.Error as error:
        store_error = translate_sqlite_error(error, path)
        if allow_read_only and isinstance(store_error, StoreNotWritableError):
            from ralph.store.sqlite.read_only import open_sqlite_read_only

            if connection is not None:
                connection.close()  # its lock would block the read-only connection
            return open_sqlite_read_only(path, store_error)
        raise store_error from error
    except UnicodeEncodeError:
        raise StoreError(f"The path {path!r} is not valid UTF-8, which SQLite needs. Rename the directory.") from None
    return database


def _refuse_emptied(path: str, *, create: bool) -> None:
    """Refuse a truncated file: SQLite would delete its write-ahead log, which may contain all of the data."""
    try:
        is_empty = os.stat(path).st_size < MIN_DATABASE_BYTES  # noqa: PTH116
        has_log = is_empty and os.path.exists(f"{path}-wal")  # noqa: PTH110
    except (OSError, ValueError):
        return  # opening it reports the error
    if is_empty and (has_log or not create):
        raise StoreError(
            f"The database {path} is empty. Restore a backup with: ralph restore. "
            "If it never contained anything, move it out of the way and run: ralph init"
        )


def find_irregular_file(path: str) -> str:
    """Return the first file of a database that is not a regular file, if any. SQLite would block on a pipe forever."""
    import stat

    for name, get_status in ((path, os.stat), *((path + suffix, os.lstat) for suffix in SIDECARS)):
        try:
            if not stat.S_ISREG(get_status(name).st_mode):
                return name
        except OSError:
            continue
    return ""


def _prepare(connection: apsw.Connection, path: str, *, create: bool, waits: bool) -> None:
    # On a disk that is not writable, readers hold exclusive locks for a long time.
    connection.set_busy_timeout(BUSY_MILLISECONDS if waits else SHORT_BUSY_MILLISECONDS)
    # Until the checks below have passed, closing must not change the file either.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    if _version(connection, path) == 0 and (not create or connection.execute("SELECT 1 FROM sqlite_schema").fetchall()):
        connection.close()
        raise StoreError(f"{path} is empty or belongs to another program. Move it out of the way and run: ralph init")
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "full")
    connection.pragma("foreign_keys", True)


def _version(connection: apsw.Connection, path: str) -> int:
    version = int(connection.pragma("user_version"))
    if version > SCHEMA_VERSION:
        connection.close()
        raise StoreTooNewError(path, version, SCHEMA_VERSION)
    if version and connection.pragma("application_id") != APPLICATION_ID:
        connection.close()
        raise StoreError(f"{path} is a database of another program. Nothing was changed.")
    return version


def _migrate(connection: apsw.Connection, database: SqliteDatabase, path: str) -> None:
    from ralph.store.maintenance.migrate import migrate_rows, migration_scripts

    with database.transaction():
        version = _version(connection, path)  # another process may have migrated it meanwhile
        if 0 < version < SCHEMA_VERSION:
            from ralph.store.maintenance.backup import make_backup

            make_backup(path, f"before schema {SCHEMA_VERSION}")
        for script in migration_scripts(version, "sqlite"):
            for _ in connection.execute(script):
                pass
        migrate_rows(database, version)
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", SCHEMA_VERSION)


def _lease_end(*values: Any) -> str:
    from ralph.store.sqlite.leases import lease_end

    return lease_end(values[0])


def _lease_is_over(*values: Any) -> bool:
    from ralph.store.sqlite.leases import is_expired

    return is_expired(values[0])


class SqliteDatabase:
    """One connection to one SQLite file, for one thread."""

    skip_locked = for_update = ""  # writers are serialized
    row_key = "seq"
    is_server = False
    ilike = "LIKE"
    word_key = "seq"
    lease_end = "lease_end(:lease_seconds)"
    lease_expired = "lease_is_over(lease_until)"

    def __init__(self, connection: apsw.Connection, path: str, write_error: StoreError | None = None) -> None:
        """`write_error` is the error to raise on every write, if the database is read-only."""
        self.display_url = path
        self.write_error = write_error
        self._connection = connection
        self._turn = WriteTransaction(connection, path, write_error)
        connection.create_scalar_function("lease_end", _lease_end, 1)
        connection.create_scalar_function("lease_is_over", _lease_is_over, 1)

    def query(self, sql: str, **values: object) -> list[Row]:
        """Run a statement and return its rows as dictionaries."""
        try:
            cursor = self._connection.execute(sql, values)
            rows: list[Row] = []
            names: tuple[str, ...] = ()
            for row in cursor:
                names = names or tuple(column[0] for column in cursor.get_description())
                rows.append(dict(zip(names, row, strict=True)))
        except apsw.Error as error:
            raise translate_sqlite_error(error, self.display_url) from error
        except UnicodeDecodeError as error:
            raise StoreError(
                f"The database {self.display_url} is damaged: it contains invalid UTF-8. Restore a backup with: ralph restore"
            ) from error
        return rows

    def execute(self, sql: str, **values: object) -> int:
        """Run a statement and return the number of rows it changed."""
        try:
            self._connection.execute(sql, values)
        except apsw.Error as error:
            raise translate_sqlite_error(error, self.display_url) from error
        return self._connection.changes()

    def execute_many(self, sql: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Run a statement once per row."""
        try:
            self._connection.executemany(sql, rows)
        except apsw.Error as error:
            raise translate_sqlite_error(error, self.display_url) from error

    def insert_many(self, table: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Insert rows with the same columns."""
        if not rows:
            return
        placeholders = ", ".join(f":{name}" for name in rows[0])
        self.execute_many(f"INSERT INTO {table} ({', '.join(rows[0])}) VALUES ({placeholders})", rows)

    def transaction(self, project_id: str = "") -> WriteTransaction:
        """Return the transaction of this connection; nested blocks join the outermost one."""
        return self._turn

    def snapshot(self) -> ReadTransaction:
        """Run the block in a read-only transaction."""
        return ReadTransaction(self._connection)

    def extend_idle_timeout(self) -> None:
        """Do nothing: transactions have no idle timeout."""

    def concurrent_transaction(self) -> WriteTransaction:
        """Return the transaction of this connection: all writers of a file are serialized."""
        return self._turn

    def single_statement(self) -> WriteTransaction:
        """Return the transaction of this connection: all writers of a file are serialized."""
        return self._turn

    def announce(self, project_id: str, topic: str) -> None:
        """Do nothing: a watch polls the file."""

    def watch(self, project_id: str, *topics: str) -> FileWatch:
        """Return a watch for any change to the file."""
        return FileWatch(self.display_url)

    def release_connection(self) -> None:
        """Do nothing: an open file does not get in anybody's way."""

    def _tuples(self, sql: str, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(sql, values).fetchall()
        except apsw.Error as error:
            raise translate_sqlite_error(error, self.display_url) from error

    def reserve_numbers(self, table: str, column: str, until: int) -> None:
        """Advance the sequence of a column so that new rows get numbers above `until`."""
        if not self.execute("UPDATE sqlite_sequence SET seq = MAX(seq, :n) WHERE name = :name", n=until, name=table):
            self.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :n)", n=until, name=table)

    @cached_property
    def words(self) -> SqliteWordIndex:
        """Word index of the file."""
        from ralph.store.sqlite.words import SqliteWordIndex

        return SqliteWordIndex(self, self._tuples)

    def json_array(self, column: str, source: str) -> str:
        """Return SQL that aggregates a column of `source` into a JSON list."""
        return f"(SELECT json_group_array({column}) FROM {source})"

    def close(self) -> None:
        """Close the connection."""
        self._turn.close()
        self._connection.close()
