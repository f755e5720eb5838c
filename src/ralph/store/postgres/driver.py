"""PostgreSQL implementation of the `Database` interface, using psycopg.

Writers of a project are serialized by an advisory lock, as in SQLite: event numbers are then in commit order, and a
reader that follows them misses none. Claims run concurrently. There is no session state between transactions, so a
pooler may switch connections; and a worker that waits for its agent releases its connection.
"""

from __future__ import annotations

import zlib
from contextlib import nullcontext
from functools import cached_property

import psycopg
from psycopg.pq import TransactionStatus

from ralph.core.errors import RalphError, StatementError, StoreError, StoreUnavailableError
from ralph.store.database import SCHEMA_VERSION
from ralph.store.postgres.connection import ServerConnection, numbered
from ralph.store.postgres.watch import CHANNEL, NotificationWatch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType

    from ralph.store.database import Row
    from ralph.store.postgres.words import PostgresWordIndex

MIN_PROGRAM_SCHEMA = 6
"""Oldest schema version of a program that can still use the tables as this version leaves them.

Version 7 only adds an event table. A program of version 6 writes no events, on which nothing depends, and when it
deletes a project the server deletes its events by cascade.
"""
LONG_IDLE_SECONDS = 3600
"""Idle time after which the server aborts a long transaction, such as a copy of a project, in seconds."""
MIGRATION_LOCK = 0x52414C50  # "RALP"
"""Key of the advisory lock for migrations."""
PROJECT_LOCK = 0x52414C51
"""First key of the advisory locks of projects."""
VACUUM_LATER = "The server overwrites the deleted rows the next time it vacuums; its own log and backups may hold them."
MAX_RESERVED = 100_000_000
"""Maximum number of sequence values to reserve, which takes half a minute."""


def open_postgres(url: str, *, direct_url: str = "", create: bool = False) -> PostgresDatabase:
    """Open a database, migrating its tables first.

    If `direct_url` is given, `url` leads through a pooler, which may switch connections between transactions.
    """
    database = PostgresDatabase(url, direct_url)
    try:
        database.server.get()
        if database.server.version < SCHEMA_VERSION:
            if not database.server.version and not create:
                raise StoreError(
                    f"The database {database.display_url} has no Ralph tables yet. Create them with: ralph init"
                )
            _migrate(database)
    except RalphError:
        database.close()
        raise
    return database


def _migrate(database: PostgresDatabase) -> None:
    """Migrate the tables to the current schema; other machines wait meanwhile."""
    from ralph.store.maintenance.migrate import migrate_rows, migration_scripts

    server = database.server
    with PostgresTransaction(database, f"pg_advisory_xact_lock({MIGRATION_LOCK})"):
        server.check(server.get())  # another machine may have migrated them meanwhile
        if server.version >= SCHEMA_VERSION:
            return
        if not server.version:
            _refuse_foreign(database)
            database.execute("CREATE TABLE ralph_schema (version BIGINT NOT NULL, oldest BIGINT NOT NULL)")
            database.execute("INSERT INTO ralph_schema (version, oldest) VALUES (0, 0)")
        for script in migration_scripts(server.version, "postgres"):
            server.send(script)
        migrate_rows(database, server.version)
        database.execute(
            "UPDATE ralph_schema SET version = :version, oldest = :oldest",
            version=SCHEMA_VERSION,
            oldest=MIN_PROGRAM_SCHEMA,
        )
    server.version = SCHEMA_VERSION


def _refuse_foreign(database: PostgresDatabase) -> None:
    if database.query(
        """
        SELECT 1 AS one FROM pg_class WHERE relnamespace = to_regnamespace(quote_ident(current_schema()))
            AND relname IN ('tasks', 'memory', 'projects')
        """
    ):
        raise StoreError(
            f"The database {database.display_url} has tables of another program. "
            "Give Ralph a schema or database of its own: docs/postgres.md"
        )


class PostgresDatabase:
    """One connection to one PostgreSQL database, for one thread; opened on demand and reopened when it is lost."""

    skip_locked = "FOR UPDATE OF t SKIP LOCKED"
    for_update = "FOR UPDATE"
    row_key = "ctid"
    is_server = True
    write_error: StoreError | None = None
    ilike = "ILIKE"
    word_key = "project_id, seq"
    lease_expired = """lease_until < to_char(
        statement_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"""
    lease_end = """to_char((statement_timestamp() + make_interval(secs => CAST(:lease_seconds AS DOUBLE PRECISION)))
        AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"""

    def __init__(self, url: str, direct_url: str = "") -> None:
        self.server = ServerConnection(url, direct_url)
        self.display_url = self.server.display_url
        self._watch_url = direct_url or url
        self._depth = 0
        self._must_roll_back = False
        self._announced: dict[str, None] = {}

    @cached_property
    def words(self) -> PostgresWordIndex:
        """Word index of the database."""
        from ralph.store.postgres.words import PostgresWordIndex

        return PostgresWordIndex(self)

    def release_connection(self) -> None:
        """Close the connection until it is needed again."""
        self.server.release()

    def close(self) -> None:
        """Close the connection."""
        self.server.release()

    # --- statements --------------------------------------------------------------------

    def query(self, sql: str, **values: object) -> list[Row]:
        """Run a statement and return its rows as dictionaries."""
        return self.server.retry_reads(sql, lambda: self.server.run(sql, values).fetchall())

    def execute(self, sql: str, **values: object) -> int:
        """Run a statement and return the number of rows it changed."""
        return self.server.run(sql, values).rowcount

    def execute_many(self, sql: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Run a statement once per row."""
        if not rows:
            return
        text, names = numbered(sql)
        try:
            with self.server.get().cursor() as cursor:
                cursor.executemany(text, [[row[name] for name in names] for row in rows])
        except (psycopg.Error, UnicodeEncodeError) as error:
            raise self.server.handle_error(error) from error

    def insert_many(self, table: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Insert rows with the same columns in one COPY statement."""
        if not rows:
            return
        names = tuple(rows[0])
        connection = self.server.get()
        try:
            text = "".join("\t".join(_copy_text(row[name]) for name in names) + "\n" for row in rows)
            with connection.cursor() as cursor, cursor.copy(f"COPY {table} ({', '.join(names)}) FROM STDIN") as copy:
                copy.write(text.encode())
        except (psycopg.Error, UnicodeEncodeError) as error:
            raise self.server.handle_error(error) from error

    # --- transactions ------------------------------------------------------------------

    def transaction(self, project_id: str = "") -> PostgresTransaction:
        """Run the block in one transaction, or join the transaction that is open."""
        return PostgresTransaction(self, f"pg_advisory_xact_lock({PROJECT_LOCK}, {_lock_key(project_id)})")

    def snapshot(self) -> PostgresTransaction:
        """Run the block in a read-only transaction with a consistent view, or join the transaction that is open."""
        return PostgresTransaction(self, "", " ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def extend_idle_timeout(self) -> None:
        """Extend the idle timeout of the current transaction."""
        self.server.send(f"SET LOCAL idle_in_transaction_session_timeout = '{LONG_IDLE_SECONDS}s'")

    def concurrent_transaction(self) -> PostgresTransaction:
        """Run the block in one transaction, concurrently with other writers."""
        return PostgresTransaction(self, "")

    def single_statement(self) -> AbstractContextManager[None]:
        """Do nothing: a single statement is committed by itself."""
        return nullcontext()

    def begin(self, lock: str, kind: str = "") -> None:
        """Begin a transaction and acquire its lock, or join the transaction that is open."""
        if self._depth == 0:
            self._must_roll_back = False
            self._announced.clear()
            # In one round trip.
            acquire = f"; SELECT {lock}" if lock else ""
            self.server.retry(lambda: self.server.send(f"BEGIN{kind}{self.server.transaction_settings}{acquire}"))
            self.server.is_in_transaction = True
        self._depth += 1

    def end(self, failed: bool) -> None:
        """Commit or roll back the transaction, or leave the one that was joined."""
        self._depth -= 1
        self._must_roll_back = self._must_roll_back or failed
        if self._depth:
            return
        self.server.is_in_transaction = False
        if self._must_roll_back:
            if self.server.current is not None:
                try:
                    self.server.send("ROLLBACK")
                except RalphError:
                    self.server.release()  # closing the connection ends the transaction
            if not failed and self.server.current is None:
                raise self.server.lost_error()
            if not failed:
                raise StatementError("A part of the change had failed, so none of it was made.")
            return
        if self.server.current is None:
            raise self.server.lost_error()
        if self.server.current.info.transaction_status is TransactionStatus.INERROR:
            self.server.send("ROLLBACK")  # the server would accept a COMMIT and silently roll back
            raise StatementError("A part of the change had failed, so none of it was made.")
        notify = "".join(f"SELECT pg_notify('{CHANNEL}', {_quoted(payload)}); " for payload in self._announced)
        try:
            self.server.send(f"{notify}COMMIT")
        except StoreUnavailableError:
            raise StoreUnavailableError(
                f"The connection to {self.display_url} was lost during a commit. Check whether the change was made "
                "before you repeat it."
            ) from None

    def erase_deleted(self) -> str:
        """Do nothing: the server decides when it overwrites deleted rows."""
        return VACUUM_LATER

    def announce(self, project_id: str, topic: str) -> None:
        """Notify watches of this topic when the transaction commits."""
        self._announced[f"{project_id} {topic}"] = None

    def json_array(self, column: str, source: str) -> str:
        """Return SQL that aggregates a column of `source` into a JSON list."""
        return f"CAST(array_to_json(ARRAY(SELECT {column} FROM {source})) AS TEXT)"

    def reserve_numbers(self, table: str, column: str, until: int) -> None:
        """Advance the sequence of a column so that new rows get numbers above `until`."""
        # With nextval, because others draw numbers meanwhile: setval could set the sequence back.
        draw = "SELECT MAX(nextval(pg_get_serial_sequence(:table, :column))) AS n FROM generate_series(1, :count)"
        (first,) = self.query(draw, table=table, column=column, count=1)
        missing = until - first["n"]
        if missing > MAX_RESERVED:
            raise StoreError(
                f"The rows of {table} have numbers up to {until:,}, which is too high for {self.display_url}."
            )
        if missing > 0:
            self.query(draw, table=table, column=column, count=missing)

    # --- watching ----------------------------------------------------------------------

    def watch(self, project_id: str, *topics: str) -> NotificationWatch:
        """Return a watch for changes to these topics of a project, on a connection of its own."""
        return NotificationWatch(self._watch_url, self.display_url, [f"{project_id} {topic}" for topic in topics])


class PostgresTransaction:
    """Transaction that first acquires the advisory lock of its project, if it has one."""

    def __init__(self, database: PostgresDatabase, lock: str, kind: str = "") -> None:
        self._database = database
        self._lock = lock
        self._kind = kind

    def __enter__(self) -> None:
        self._database.begin(self._lock, self._kind)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database.end(kind is not None)


def _lock_key(project_id: str) -> int:
    """Return the advisory lock key of a project; projects that share a key only wait for each other."""
    return zlib.crc32(project_id.encode()) - 2**31


def _copy_text(value: object) -> str:
    """Return a value in the text format of COPY."""
    if isinstance(value, str):
        if "\\" in value:
            value = value.replace("\\", "\\\\")
        return value.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    if value is None:
        return "\\N"
    return f"\\\\x{value.hex()}" if isinstance(value, bytes) else repr(value)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
