"""SQLite implementation of the `Database` interface, using apsw.

Commits are durable: write-ahead log, `synchronous=FULL` and `BEGIN IMMEDIATE` for every write. Writers queue at a lock
file first, because SQLite's own busy handler is unfair: with 50 concurrent writers some waited 15 seconds.
"""

from __future__ import annotations

import os
from functools import cached_property

import apsw

from ralph.core.errors import (
    RalphError,
    StatementError,
    StoreError,
    StoreNotWritableError,
    StoreTooNewError,
    StoreUnavailableError,
)
from ralph.core.files import DISK_FULL, DISK_READ_ONLY, SANDBOX_VARIABLE, disk_problem
from ralph.store.database import SCHEMA_VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import Any

    from ralph.store.database import Row
    from ralph.store.sqlite.watch import FileWatch
    from ralph.store.sqlite.words import SqliteWordIndex
    from ralph.store.sqlite.write_queue import WriterQueue

APPLICATION_ID = 0x52414C50  # "RALP"
BUSY_MILLISECONDS = 30_000
"""Time to wait for the write lock, in milliseconds."""
SHORT_BUSY_MILLISECONDS = 1_000
"""Time to wait for the write lock if the disk is not writable, in milliseconds."""
SIDECARS = ("-wal", "-shm", "-journal")
"""Suffixes of the files that SQLite keeps next to a database."""
SERVER_CACHE_KIB = 512
"""Size of the page cache of each connection of a server, in KiB; otherwise SQLite's own limit is 2,000."""
MAX_STATEMENTS = 500
"""Number of prepared statements that a connection keeps; an iteration of the loop uses more than 100."""
READ_MEANWHILE = "Another process is reading the database: its write-ahead log holds the bytes until that ends."
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
        connection = apsw.Connection(path, statementcachesize=MAX_STATEMENTS)
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


def limit_page_caches() -> None:
    """Limit the connections that this process opens from now on to small page caches.

    A server has one or more per thread, and each drops its cache whenever another one writes, so that larger ones
    would only make it grow with the database.
    """
    SqliteDatabase.cache_kib = SERVER_CACHE_KIB


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


_FULL_REASON = f"{DISK_FULL}. Free some space, then try again"
_READ_ONLY_REASON = (
    "this session runs in a sandbox, where Ralph's data (tasks, memories, logs) can only be read. What you state in"
    " your answer is recorded: sigils, and memories one line each as MEMORY:pattern:TEXT"
    if os.environ.get(SANDBOX_VARIABLE)
    else f"{DISK_READ_ONLY}. Make it writable, then try again"
)
_DISK_REASONS = {DISK_FULL: _FULL_REASON, DISK_READ_ONLY: _READ_ONLY_REASON}


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
    cache_kib = 0
    """Size of the page cache, in KiB; 0 for SQLite's default."""

    def __init__(self, connection: apsw.Connection, path: str, write_error: StoreError | None = None) -> None:
        """`write_error` is the error to raise on every write, if the database is read-only."""
        self.display_url = path
        self.write_error = write_error
        self._connection = connection
        self._turn = WriteTransaction(connection, path, write_error)
        connection.create_scalar_function("lease_end", _lease_end, 1)
        connection.create_scalar_function("lease_is_over", _lease_is_over, 1)
        if self.cache_kib:
            connection.pragma("cache_size", -self.cache_kib)

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
                f"The database {self.display_url} is damaged: it contains invalid UTF-8. "
                "Restore a backup with: ralph restore"
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

    def erase_deleted(self) -> str:
        """Write the file anew without what was deleted; even `secure_delete` leaves copies in other pages."""
        self.words.optimize(is_full=True)
        self.execute("VACUUM")
        (checkpoint,) = self.query("PRAGMA wal_checkpoint(TRUNCATE)")
        return READ_MEANWHILE if checkpoint["busy"] else ""

    def announce(self, project_id: str, topic: str) -> None:
        """Do nothing: a watch polls the file."""

    def watch(self, project_id: str, *topics: str) -> FileWatch:
        """Return a watch for any change to the file."""
        from ralph.store.sqlite.watch import FileWatch

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


def _identity(path: str) -> tuple[int, int]:
    """Return the device and inode of a file, or zeros if there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return 0, 0
    return status.st_dev, status.st_ino


class ReadTransaction:
    """Read-only transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._is_own = False

    def __enter__(self) -> None:
        self._is_own = not self._connection.in_transaction
        if self._is_own:
            self._connection.execute("BEGIN")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_own and self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


class WriteTransaction:
    """Write transaction that first queues behind the other writers of the file."""

    def __init__(self, connection: apsw.Connection, path: str, write_error: StoreError | None = None) -> None:
        self._connection = connection
        self._path = path
        self._write_error = write_error
        self._queue: WriterQueue | None = None
        self._depth = 0
        self._must_roll_back = False
        self._file = _identity(path)
        self._log = (0, 0)

    def __enter__(self) -> None:
        if self._write_error:
            raise self._write_error
        if self._depth == 0:
            self._must_roll_back = False
            self._wait_in_queue()
            try:
                self._refuse_replaced_file()  # it may have been replaced while we queued
                self._connection.execute("BEGIN IMMEDIATE")
                self._refuse_replaced_file()  # or while we waited for a writer that did not queue
                self._log = self._log if self._log[1] else _identity(f"{self._path}-wal")
            except StoreError:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                self._leave_queue()
                raise
            except apsw.Error as error:
                self._leave_queue()
                raise translate_sqlite_error(error, self._path) from error
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        self._must_roll_back = self._must_roll_back or kind is not None
        if self._depth:
            return
        try:
            self._connection.execute("ROLLBACK" if self._must_roll_back else "COMMIT")
            if self._queue is not None:
                self._queue.record_progress()
        except apsw.Error as failed:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if kind is None:
                raise translate_sqlite_error(failed, self._path) from failed
        finally:
            self._leave_queue()
        if self._must_roll_back and kind is None:
            raise StatementError("Part of the transaction failed, so nothing was changed.")

    def _refuse_replaced_file(self) -> None:
        """Refuse to write once the database file or its log has been replaced: the write would be lost."""
        if _identity(self._path) != self._file or (self._log[1] and _identity(f"{self._path}-wal") != self._log):
            raise StoreError(f"The database {self._path} was moved or deleted while it was in use.")

    def _wait_in_queue(self) -> None:
        """Queue for the write lock, for a limited time: its holder may be suspended."""
        try:
            if self._queue is None:
                from ralph.store.sqlite.write_queue import WriterQueue

                self._queue = WriterQueue(self._path)
            self._queue.acquire(BUSY_MILLISECONDS / 1000)
        except ImportError:  # no fcntl on this platform: rely on the busy timeout
            pass
        except OSError:
            pass  # BEGIN reports that the directory is not writable

    def _leave_queue(self) -> None:
        if self._queue is not None:
            self._queue.release()

    def close(self) -> None:
        """Leave the queue and close its files."""
        if self._queue is not None:
            self._queue.close()
            self._queue = None
