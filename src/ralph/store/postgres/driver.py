"""PostgreSQL implementation of the `Database` interface, using psycopg.

Writers of a project are serialized by an advisory lock, as in SQLite: event numbers are then in commit order, and a
reader that follows them misses none. Claims run concurrently. There is no session state between transactions, so a
pooler may switch connections; and a worker that waits for its agent releases its connection.
"""

from __future__ import annotations

import re
import time
import zlib
from array import array
from contextlib import nullcontext
from functools import lru_cache

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row, tuple_row

from ralph.core.errors import (
    RalphError,
    StatementError,
    StoreError,
    StoreTooNewError,
    StoreUnavailableError,
    TooManyConnectionsError,
)
from ralph.store.database import SCHEMA_VERSION, WordMatches
from ralph.store.postgres.errors import connection_error, malformed_url_error, translate_postgres_error
from ralph.store.postings import most_selective, top_rows
from ralph.store.url import strip_password

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Any, TypeVar

    from ralph.store.database import Row

    R = TypeVar("R")
    Connection = psycopg.Connection[Row]

MIN_PROGRAM_SCHEMA = 6
"""Oldest schema version of a program that can still use the tables as this version leaves them.

Version 7 only adds an event table. A program of version 6 writes no events, on which nothing depends, and when it
deletes a project the server deletes its events by cascade.
"""
MIN_SERVER_VERSION = 14
"""Oldest supported major version of PostgreSQL; older ones are end-of-life."""
CONNECT_SECONDS = 10
"""Connection timeout, in seconds."""
KEEPALIVE_OPTIONS = {"keepalives_idle": 20, "keepalives_interval": 5, "keepalives_count": 4, "tcp_user_timeout": 40_000}
"""TCP settings that detect a dead peer after about 40 seconds instead of two hours."""
LOCK_SECONDS = 30
"""Time a writer waits for the lock of a project, in seconds."""
IDLE_SECONDS = 60
"""Idle time after which the server aborts a transaction, in seconds."""
CONNECT_RETRY_SECONDS = 0.5
"""Pause between connection attempts while the server has no free connections, in seconds."""
LONG_IDLE_SECONDS = 3600
"""Idle time after which the server aborts a long transaction, such as a copy of a project, in seconds."""
RECONNECT_SECONDS = 10.0
"""Time to retry after a lost connection before the error is raised, in seconds."""
CHANNEL = "ralph"
MIGRATION_LOCK = 0x52414C50  # "RALP"
"""Key of the advisory lock for migrations."""
PROJECT_LOCK = 0x52414C51
"""First key of the advisory locks of projects."""
_TABLES = {"memory": "memory", "attempt": "attempts", "failure": "failures"}
"""Table that each index covers."""
SAMPLE_ROWS = 128
"""Number of newest rows from which word frequencies are estimated."""
MAX_UNSAMPLED_ROWS = 2_000
"""Maximum number of rows of a project that is searched without estimating word frequencies."""
MAX_POSTINGS = 20_000
"""Maximum number of postings that a search reads, rarest words first."""
MAX_LEXEME_LENGTH = 200
"""Maximum length of a search word, in characters; no indexed word is longer."""
MAX_RESERVED = 100_000_000
"""Maximum number of sequence values to reserve, which takes half a minute."""
MAX_FILTERED_POSTINGS = 100_000
"""Maximum number of postings that a search reads if a filter excludes most matches."""

VECTOR_SIZE = 384
"""Number of dimensions of the vectors that pgvector compares."""
_PGVECTOR_SETUP = (
    # Vectors are stored as bytes; damaged ones are not converted. One index covers all projects.
    "CREATE EXTENSION IF NOT EXISTS vector",
    f"""
    CREATE OR REPLACE FUNCTION ralph_direction(kept BYTEA) RETURNS halfvec
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE BEGIN ATOMIC
        SELECT CASE WHEN LENGTH(kept) = {VECTOR_SIZE} AND BTRIM(kept, decode('00', 'hex')) <> decode('', 'hex') THEN
            l2_normalize(CAST(ARRAY(
                SELECT (get_byte(kept, n) + 128) % 256 - 128 FROM generate_series(0, {VECTOR_SIZE - 1}) AS n ORDER BY n
            ) AS halfvec)) END;
    END
    """,
    f"""
    ALTER TABLE memory_vectors
        ADD COLUMN near halfvec({VECTOR_SIZE}) GENERATED ALWAYS AS (ralph_direction(vector)) STORED
    """,
    "CREATE INDEX memory_vectors_near ON memory_vectors USING hnsw (near halfvec_ip_ops)",
)
_NEAR_SETTINGS = {
    # The index covers all projects: scan on until enough rows of this one are found.
    "hnsw.iterative_scan": "relaxed_order",
    "hnsw.ef_search": "200",
    # Whether the index pays off depends on the number of vectors of the project.
    "plan_cache_mode": "force_custom_plan",
}

_SETTINGS = {
    "lock_timeout": f"{LOCK_SECONDS}s",
    "idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s",
    # The planner overestimates these queries, and would compile each of them.
    "jit": "off",
    # Planning a claim takes twice as long as executing it.
    "plan_cache_mode": "force_generic_plan",
}


def open_postgres(url: str, *, direct_url: str = "", create: bool = False) -> PostgresDatabase:
    """Open a database, migrating its tables first.

    If `direct_url` is given, `url` leads through a pooler, which may switch connections between transactions.
    """
    database = PostgresDatabase(url, direct_url)
    try:
        database.get_connection()
        if database.version < SCHEMA_VERSION:
            if not database.version and not create:
                raise StoreError(
                    f"The database {database.display_url} has no Ralph tables yet. Create them with: ralph init"
                )
            database.migrate()
    except RalphError:
        database.close()
        raise
    return database


def connect(url: str, where: str, *, is_pooled: bool) -> Connection:
    """Open a connection; behind a pooler, without prepared statements and session settings."""
    options = "" if is_pooled else " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items())
    try:
        params: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(url)
        if not re.fullmatch(r"[\d,]*", str(params.get("port", ""))):
            raise psycopg.ProgrammingError("the port is not a number")
        if options:
            params["options"] = f"{options} {params.get('options', '')}".strip()  # options in the URL take precedence
        params = {"connect_timeout": CONNECT_SECONDS, "application_name": "ralph", **KEEPALIVE_OPTIONS, **params}
        return psycopg.Connection.connect(
            **params,
            autocommit=True,
            cursor_factory=psycopg.RawCursor,
            row_factory=dict_row,
            prepare_threshold=None if is_pooled else 1,
        )
    except (psycopg.ProgrammingError, UnicodeError) as error:
        raise malformed_url_error(url, error) from None
    except psycopg.Error as error:
        raise connection_error(error, where) from error


# --- statements ----------------------------------------------------------------------------

_NAMED = re.compile(r"'(?:[^']|'')*'|(?<![:\w]):([a-z_]\w*)")


@lru_cache(maxsize=500)
def _numbered(sql: str) -> tuple[str, tuple[str, ...]]:
    """Return a statement with numbered parameters, and the parameter names in that order."""
    numbers: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        name = match[1]
        return f"${numbers.setdefault(name, len(numbers) + 1)}" if name else match[0]

    return _NAMED.sub(number, sql), tuple(numbers)


# --- the database --------------------------------------------------------------------------


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
        self.display_url = strip_password(url)
        self.url = url
        self.direct_url = direct_url
        self._connection: Connection | None = None
        self._was_connected = False
        self._depth = 0
        self._must_roll_back = False
        self._announced: dict[str, None] = {}

    # --- the connection ----------------------------------------------------------------

    def get_connection(self) -> Connection:
        """Return the connection, opening one if necessary."""
        if self._connection is None:
            if self._depth:
                # The transaction is lost, so none of its remaining statements may run.
                raise self._connection_lost()
            connection = self._connect()
            try:
                self._check(connection)  # another machine may have migrated the tables meanwhile
            except RalphError:
                connection.close()
                raise
            self._connection = connection
            self._was_connected = True
        return self._connection

    def _connect(self) -> Connection:
        """Open a connection, retrying for a while if the server has no free ones."""
        deadline = time.monotonic() + RECONNECT_SECONDS
        while True:
            try:
                return connect(self.url, self.display_url, is_pooled=bool(self.direct_url))
            except TooManyConnectionsError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(CONNECT_RETRY_SECONDS)
            except StoreUnavailableError:
                raise
            except StoreError as error:
                # It worked before, so this is temporary: without a network, host names are not found either.
                raise (StoreUnavailableError(str(error)) if self._was_connected else error) from None

    def _check(self, connection: Connection) -> None:
        """Refuse an unsupported server, encoding or schema version."""
        info = connection.info
        if info.server_version // 10_000 < MIN_SERVER_VERSION:
            major = info.server_version // 10_000
            raise StoreError(f"{self.display_url} is PostgreSQL {major}. Ralph needs {MIN_SERVER_VERSION} or newer.")
        if (encoding := info.parameter_status("server_encoding")) != "UTF8":
            raise StoreError(
                f"The database {self.display_url} has the encoding {encoding}. Create one with the encoding UTF8."
            )
        try:
            (found,) = connection.execute("SELECT to_regclass('ralph_schema') IS NOT NULL AS is_there").fetchall()
            rows = (
                connection.execute("SELECT version, oldest FROM ralph_schema").fetchall() if found["is_there"] else []
            )
        except psycopg.Error as error:
            raise translate_postgres_error(error, self.display_url, is_lost=connection.closed) from error
        self.version = rows[0]["version"] if rows else 0
        if self.version > SCHEMA_VERSION and rows[0]["oldest"] > SCHEMA_VERSION:
            raise StoreTooNewError(self.display_url, self.version, SCHEMA_VERSION)

    def _connection_lost(self) -> StoreUnavailableError:
        return StoreUnavailableError(f"The connection to {self.display_url} was lost before the change was committed.")

    def handle_error(self, error: psycopg.Error | UnicodeEncodeError) -> RalphError:
        """Return the error to raise, and discard a lost connection."""
        if isinstance(error, UnicodeEncodeError):
            return StatementError(f"The database {self.display_url} rejected text that is not valid Unicode.")
        is_lost = self._connection is None or self._connection.closed or self._connection.broken
        if is_lost:
            self.release_connection()
        return translate_postgres_error(error, self.display_url, is_lost=bool(is_lost))

    def retry_when_disconnected(self, work: Callable[[], R]) -> R:
        """Call `work`, which must not have changed anything yet, again if the connection is lost meanwhile."""
        deadline = time.monotonic() + RECONNECT_SECONDS
        pause = 0.05
        while True:
            try:
                return work()
            except StoreUnavailableError:
                # Do not retry the first connection: the URL may be wrong.
                if not self._was_connected or time.monotonic() + pause > deadline:
                    raise
                time.sleep(pause)
                pause = min(pause * 2, 1.0)

    def release_connection(self) -> None:
        """Close the connection until it is needed again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        """Close the connection."""
        self.release_connection()

    # --- statements --------------------------------------------------------------------

    def query(self, sql: str, **values: object) -> list[Row]:
        """Run a statement and return its rows as dictionaries."""
        return self._retry_reads(sql, lambda: self._run(sql, values).fetchall())

    def execute(self, sql: str, **values: object) -> int:
        """Run a statement and return the number of rows it changed."""
        return self._run(sql, values).rowcount

    def execute_many(self, sql: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Run a statement once per row."""
        if not rows:
            return
        text, names = _numbered(sql)
        try:
            with self.get_connection().cursor() as cursor:
                cursor.executemany(text, [[row[name] for name in names] for row in rows])
        except (psycopg.Error, UnicodeEncodeError) as error:
            raise self.handle_error(error) from error

    def insert_many(self, table: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Insert rows with the same columns in one COPY statement."""
        if not rows:
            return
        names = tuple(rows[0])
        connection = self.get_connection()
        try:
            text = "".join("\t".join(_copy_text(row[name]) for name in names) + "\n" for row in rows)
            with connection.cursor() as cursor, cursor.copy(f"COPY {table} ({', '.join(names)}) FROM STDIN") as copy:
                copy.write(text.encode())
        except (psycopg.Error, UnicodeEncodeError) as error:
            raise self.handle_error(error) from error

    def _run(self, sql: str, values: Mapping[str, object], *, binary: bool = False) -> psycopg.Cursor[Row]:
        text, names = _numbered(sql)
        connection = self.get_connection()
        try:
            return connection.execute(text, [values[name] for name in names], binary=binary)
        except (psycopg.Error, UnicodeEncodeError) as error:
            raise self.handle_error(error) from error

    def _retry_reads(self, sql: str, work: Callable[[], R]) -> R:
        """Call `work`, again after a lost connection if the statement only reads."""
        if self._depth or not sql.lstrip()[:6].upper().startswith(("SELECT", "WITH")):
            return work()
        return self.retry_when_disconnected(work)

    # --- transactions ------------------------------------------------------------------

    def transaction(self, project_id: str = "") -> PostgresTransaction:
        """Run the block in one transaction, or join the transaction that is open."""
        return PostgresTransaction(self, f"pg_advisory_xact_lock({PROJECT_LOCK}, {_lock_key(project_id)})")

    def snapshot(self) -> PostgresTransaction:
        """Run the block in a read-only transaction with a consistent view, or join the transaction that is open."""
        return PostgresTransaction(self, "", " ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def extend_idle_timeout(self) -> None:
        """Extend the idle timeout of the current transaction."""
        self._send(f"SET LOCAL idle_in_transaction_session_timeout = '{LONG_IDLE_SECONDS}s'")

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
            self.retry_when_disconnected(lambda: self._send(f"BEGIN{kind}{self._settings}{acquire}"))
        self._depth += 1

    def end(self, failed: bool) -> None:
        """Commit or roll back the transaction, or leave the one that was joined."""
        self._depth -= 1
        self._must_roll_back = self._must_roll_back or failed
        if self._depth:
            return
        if self._must_roll_back:
            if self._connection is not None:
                try:
                    self._send("ROLLBACK")
                except RalphError:
                    self.release_connection()  # closing the connection ends the transaction
            if not failed and self._connection is None:
                raise self._connection_lost()
            if not failed:
                raise StatementError("A part of the change had failed, so none of it was made.")
            return
        if self._connection is None:
            raise self._connection_lost()
        if self._connection.info.transaction_status is TransactionStatus.INERROR:
            self._send("ROLLBACK")  # the server would accept a COMMIT and silently roll back
            raise StatementError("A part of the change had failed, so none of it was made.")
        notify = "".join(f"SELECT pg_notify('{CHANNEL}', {_quoted(payload)}); " for payload in self._announced)
        try:
            self._send(f"{notify}COMMIT")
        except StoreUnavailableError:
            raise StoreUnavailableError(
                f"The connection to {self.display_url} was lost during a commit. Check whether the change was made "
                "before you repeat it."
            ) from None

    def announce(self, project_id: str, topic: str) -> None:
        """Notify watches of this topic when the transaction commits."""
        self._announced[f"{project_id} {topic}"] = None

    @property
    def _settings(self) -> str:
        """SQL that applies the settings per transaction behind a pooler, where sessions cannot have settings."""
        if not self.direct_url:
            return ""
        return "".join(f"; SET LOCAL {name} = '{value}'" for name, value in _SETTINGS.items())

    def _send(self, statements: str) -> None:
        connection = self.get_connection()
        try:
            connection.execute(statements)
        except psycopg.Error as error:
            failure = self.handle_error(error)
            if statements.startswith("BEGIN") and not connection.closed:
                try:
                    connection.execute("ROLLBACK")
                except psycopg.Error:
                    self.release_connection()
            raise failure from error

    def migrate(self) -> None:
        """Migrate the tables to the current schema; other machines wait meanwhile."""
        from ralph.store.maintenance.migrate import migrate_rows, migration_scripts

        with PostgresTransaction(self, f"pg_advisory_xact_lock({MIGRATION_LOCK})"):
            self._check(self.get_connection())  # another machine may have migrated them meanwhile
            if self.version >= SCHEMA_VERSION:
                return
            if not self.version:
                self._refuse_foreign()
                self.execute("CREATE TABLE ralph_schema (version BIGINT NOT NULL, oldest BIGINT NOT NULL)")
                self.execute("INSERT INTO ralph_schema (version, oldest) VALUES (0, 0)")
            for script in migration_scripts(self.version, "postgres"):
                self._send(script)
            migrate_rows(self, self.version)
            self._set_up_pgvector()
            self.execute(
                "UPDATE ralph_schema SET version = :version, oldest = :oldest",
                version=SCHEMA_VERSION,
                oldest=MIN_PROGRAM_SCHEMA,
            )
        self.version = SCHEMA_VERSION

    def _refuse_foreign(self) -> None:
        if self.query(
            """
            SELECT 1 AS one FROM pg_class WHERE relnamespace = to_regnamespace(quote_ident(current_schema()))
                AND relname IN ('tasks', 'memory', 'projects')
            """
        ):
            raise StoreError(
                f"The database {self.display_url} has tables of another program. Give Ralph a schema or database of its own:"
                " docs/postgres.md"
            )

    # --- vectors -----------------------------------------------------------------------

    def has_pgvector(self, size: int = VECTOR_SIZE) -> bool:
        """Return whether pgvector is installed and the vectors of this size are stored for it."""
        return size == VECTOR_SIZE and bool(
            self.query(
                """
                SELECT 1 AS one FROM pg_attribute WHERE attrelid = to_regclass('memory_vectors') AND attname = 'near'
                    AND NOT attisdropped AND to_regtype('halfvec') IS NOT NULL
                """
            )
        )

    def enable_pgvector(self) -> bool:
        """Set up pgvector if the server has it; return whether it is in use."""
        if self.has_pgvector():
            return True
        with PostgresTransaction(self, f"pg_advisory_xact_lock({MIGRATION_LOCK})"):
            return self.has_pgvector() or self._set_up_pgvector()

    def _set_up_pgvector(self) -> bool:
        """Set up pgvector in the current transaction, which stays usable if the server or role does not allow it."""
        self._send("SAVEPOINT pgvector_setup")
        try:
            for statement in _PGVECTOR_SETUP:
                self._send(statement)
            # Before 0.8, an index scan ends early if the nearest vectors belong to other projects.
            version = "SELECT CAST(string_to_array(extversion, '.') AS INT[]) >= '{0,8}' AS is_new_enough"
            (row,) = self.query(f"{version} FROM pg_extension WHERE extname = 'vector'")
            is_done = bool(row["is_new_enough"])
        except StoreUnavailableError:
            raise
        except RalphError:
            is_done = False
        self._send("RELEASE SAVEPOINT pgvector_setup" if is_done else "ROLLBACK TO SAVEPOINT pgvector_setup")
        return is_done

    def nearest_vectors(self, project_id: str, model: str, direction: Sequence[float], limit: int) -> list[Row]:
        """Return the `seq` and vector of the approximate nearest neighbors of `direction`, nearest first."""
        values: dict[str, object] = {
            "project_id": project_id,
            "model": model,
            "direction": f"[{','.join(map(str, direction))}]",
        }

        def select(order: str) -> list[Row]:
            rows = self._run(
                f"""
                SELECT seq, vector FROM memory_vectors
                WHERE project_id = :project_id AND model = :model AND near IS NOT NULL ORDER BY {order} LIMIT {limit:d}
                """,
                values,
            )
            return rows.fetchall()

        def read() -> list[Row]:
            distance = "near <#> CAST(:direction AS halfvec)"
            with self.snapshot():
                self._send("".join(f"SET LOCAL {name} = '{value}'; " for name, value in _NEAR_SETTINGS.items()))
                found = select(distance)
                # An index scan may end early; the `+ 0` avoids the index and compares all vectors of the project.
                return found if len(found) == limit else select(f"({distance}) + 0")

        return read() if self._depth else self.retry_when_disconnected(read)

    def sample_vectors(self, project_id: str, model: str, size: int, spots: int, each: int) -> list[Row]:
        """Return a sample of a project's vectors: `each` vectors from each of `spots` evenly spread positions."""
        return self.query(
            """
            SELECT v.made, v.seq, v.vector
            FROM (
                SELECT MIN(made) AS first, MAX(made) AS last FROM memory_vectors WHERE project_id = :project_id
            ) AS e CROSS JOIN generate_series(0, CAST(:spots AS BIGINT) - 1) AS s (spot)
            CROSS JOIN LATERAL (
                SELECT made, seq, vector FROM memory_vectors
                WHERE project_id = :project_id AND model = :model AND LENGTH(vector) = :size
                    AND made >= e.first + (e.last - e.first) * s.spot / :spots
                ORDER BY made LIMIT :each
            ) AS v
            """,
            project_id=project_id,
            model=model,
            size=size,
            spots=spots,
            each=each,
        )

    # --- search ------------------------------------------------------------------------

    def search_words(
        self, index: str, words: Mapping[str, float], limit: int, where: str, **values: object
    ) -> WordMatches:
        """Return rows that contain the words, ordered by total word weight, with the frequency of each word."""
        if not words:
            return WordMatches([], {}, 0)
        total, counts = self._estimate_counts(index, words, values)
        if not total:
            return WordMatches([], {}, 0)
        read = most_selective(counts, words, total, MAX_POSTINGS)
        found = self._postings(f"{index}_words AS w", "w.project_id = :project_id", read, values)
        held_by = {word: len(found[word]) if word in found else counts[word] for word in words}
        best = top_rows(found, held_by, words, total, 2 * limit)
        rows = self._rows(index, best[:limit], where, values)
        if len(rows) < limit < len(best):
            rows += self._rows(index, best[limit:], where, values)
        if len(rows) < limit and (len(best) == 2 * limit or len(read) < len(words)):
            # The filter excludes too many of these: search again with the filter in the query, which is slower.
            few = most_selective(held_by, words, total, MAX_FILTERED_POSTINGS)
            source = f"{index}_words AS w JOIN {_TABLES[index]} AS r ON r.project_id = w.project_id AND r.seq = w.seq"
            found = self._postings(source, where, few, values)
            more = self._rows(index, top_rows(found, held_by, words, total, limit), where, values)
            rows = list({row["seq"]: row for row in (*rows, *more)}.values())
        return WordMatches(rows[:limit], held_by, total)

    def _estimate_counts(
        self, index: str, words: Mapping[str, float], values: Mapping[str, object]
    ) -> tuple[int, dict[str, int]]:
        """Return the number of rows of a project in an index, and per word, estimated from its newest rows."""
        (ends,) = self._tuples(
            f"""
            SELECT COUNT(*), MIN(seq), MAX(seq), (SELECT MIN(seq) FROM {index}_words WHERE project_id = :project_id)
            FROM (SELECT seq FROM {index}_words WHERE project_id = :project_id ORDER BY seq DESC LIMIT {MAX_UNSAMPLED_ROWS + 1}) AS w
            """,
            values,
        )
        count, first, last, oldest = ends
        if count <= MAX_UNSAMPLED_ROWS:
            return count, dict.fromkeys(words, 0)
        total = max(count, (last - oldest + 1) * count // (last - first + 1))
        counted = dict(
            self._tuples(
                f"""
                SELECT l.lexeme, COUNT(*) FROM (
                    SELECT found_by FROM {index}_words WHERE project_id = :project_id ORDER BY seq DESC LIMIT {SAMPLE_ROWS}
                ) AS w CROSS JOIN LATERAL unnest(w.found_by) AS l
                JOIN unnest(CAST(:words AS TEXT[])) AS a (word) ON a.word = l.lexeme GROUP BY l.lexeme
                """,
                {**values, "words": [f"{values['project_id']}/{_plain(word)}" for word in words]},
            )
        )
        return total, {word: counted.get(f"{values['project_id']}/{word}", 0) * total // SAMPLE_ROWS for word in words}

    def _postings(
        self, source: str, where: str, words: Mapping[str, float], values: Mapping[str, object]
    ) -> dict[str, array[int]]:
        """Return the `seq` values of the rows that contain each word, newest first."""
        asked = [_lexeme(f"{values['project_id']}/{word}") for word in words]
        rows = self._tuples(
            f"""
            SELECT q.place, (
                SELECT string_agg(int8send(w.seq), CAST('' AS BYTEA) ORDER BY w.seq DESC) FROM {source}
                WHERE w.found_by @@ q.word AND {where}
            ) FROM unnest(CAST(:asked AS TSQUERY[])) WITH ORDINALITY AS q (word, place)
            """,
            {**values, "asked": asked},
            binary=True,
        )
        found = dict.fromkeys(words, array("q"))
        names = list(words)
        for place, packed in rows:
            if packed:
                seqs = array("q", packed)
                seqs.byteswap()
                found[names[place - 1]] = seqs
        return found

    def _tuples(self, sql: str, values: Mapping[str, object], *, binary: bool = False) -> list[tuple[Any, ...]]:
        def read() -> list[tuple[Any, ...]]:
            cursor = self._run(sql, values, binary=binary)
            cursor.row_factory = tuple_row  # type: ignore[assignment]
            return cursor.fetchall()  # type: ignore[return-value]

        return self._retry_reads(sql, read)

    def _rows(self, index: str, seqs: Sequence[int], where: str, values: Mapping[str, object]) -> list[Row]:
        return self.query(
            f"""
            SELECT r.*, w.title AS title_words, w.body AS body_words, w.paths AS path_words, w.tags AS tag_words
            FROM unnest(CAST(:seqs AS BIGINT[])) WITH ORDINALITY AS s (seq, place)
                JOIN {_TABLES[index]} AS r ON r.project_id = :project_id AND r.seq = s.seq
                JOIN {index}_words AS w ON w.project_id = :project_id AND w.seq = s.seq
            WHERE {where} ORDER BY s.place
            """,
            seqs=list(seqs),
            **values,
        )

    def rows_by_seq(self, index: str, seqs: Sequence[int], where: str, **values: object) -> list[Row]:
        """Return the rows of an index with these `seq` values, including the words they are indexed under."""
        return self._rows(index, seqs, where, values) if seqs else []

    def json_array(self, column: str, source: str) -> str:
        """Return SQL that aggregates a column of `source` into a JSON list."""
        return f"CAST(array_to_json(ARRAY(SELECT {column} FROM {source})) AS TEXT)"

    def optimize_indexes(self, *, is_full: bool = False) -> None:
        """Do nothing: the server maintains its indexes."""

    def set_bulk_mode(self, is_bulk: bool) -> None:
        """Update the planner statistics after a bulk insert."""
        if not is_bulk:
            self.execute("ANALYZE memory, memory_words, memory_files, memory_events")

    def index_rows(self, index: str, rows: Sequence[Row]) -> None:
        """Index rows that are not indexed yet."""
        self.insert_many(f"{index}_words", rows)

    def clear_indexes(self, project_id: str) -> str:
        """Delete the indexed words and files of one project."""
        for table in (*(f"{index}_words" for index in _TABLES), "memory_files"):
            self.execute(f"DELETE FROM {table} WHERE project_id = :project_id", project_id=project_id)
        return project_id

    def rebuild_indexes(self) -> None:
        """Do nothing: the indexes are updated with the word tables."""

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
        return NotificationWatch(
            self.direct_url or self.url, self.display_url, [f"{project_id} {topic}" for topic in topics]
        )


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


class NotificationWatch:
    """Watch for notifications; it reports a change after a lost connection, because some may have been missed."""

    def __init__(self, url: str, where: str, payloads: Sequence[str]) -> None:
        self._url = url
        self._where = where
        self._payloads = payloads
        self._connection: Connection | None = None
        self._pause = 0.0
        self._not_before = 0.0

    def wait(self, seconds: float) -> bool:
        """Wait until something changed or may have changed; return False on timeout."""
        deadline = time.monotonic() + seconds
        try:
            if self._connection is None:
                if (left := self._not_before - time.monotonic()) > 0:
                    time.sleep(min(left, seconds))
                    return False
                self._connection = connect(self._url, self._where, is_pooled=True)
                self._connection.execute(f"LISTEN {CHANNEL}")
                self._pause = 0.0
                return True
            while (left := deadline - time.monotonic()) > 0:
                for notification in self._connection.notifies(timeout=left, stop_after=1):
                    if notification.payload in self._payloads:
                        return True
        except (psycopg.Error, StoreError):  # callers also poll, so it is enough to reconnect later
            self._pause = min(max(2 * self._pause, 0.1), 5.0)
            self._not_before = time.monotonic() + self._pause
            self.close()
        return False

    def close(self) -> None:
        """Stop watching."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


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


def _lexeme(word: str) -> str:
    """Return a word as a quoted lexeme."""
    return "'" + _plain(word).replace("\\", "\\\\").replace("'", "''") + "'"


def _plain(word: str) -> str:
    """Return a word without characters that PostgreSQL does not accept."""
    return word[:MAX_LEXEME_LENGTH].replace("\0", "").encode("utf-8", "replace").decode()
