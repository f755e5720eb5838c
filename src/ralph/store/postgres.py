"""PostgreSQL behind the `Database` seam, through psycopg.

Writers of one project take turns at a lock of the database, as they do in SQLite: so the numbers of events are in the
order they became visible, and who follows them misses none. Claims go side by side. Nothing is kept on the server
between two transactions, so a pooler may hand out another connection each time; and a worker that waits for its agent
lets go of its connection.
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

from ralph.errors import (
    RalphError,
    StatementError,
    StoreError,
    StoreTooNewError,
    StoreUnavailableError,
    TooManyConnectionsError,
)
from ralph.store.database import SCHEMA_VERSION, Found
from ralph.store.postgres_errors import explained, not_reached, unreadable
from ralph.store.postings import few_enough, heaviest
from ralph.store.url import without_password

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Any, TypeVar

    from ralph.store.database import Row

    R = TypeVar("R")
    Connection = psycopg.Connection[Row]

OLDEST_PROGRAM = 6
"""The oldest program, by the newest schema it knows, that still works with tables as this one leaves them.

Version 7 only adds a table of events. A program of version 6 writes none, which nobody relies on, and what it deletes
with a project the server deletes there too.
"""
OLDEST_SERVER = 14
"""The oldest PostgreSQL this is made for: older ones get no mending any more."""
CONNECT_SECONDS = 10
SILENT = {"keepalives_idle": 20, "keepalives_interval": 5, "keepalives_count": 4, "tcp_user_timeout": 40_000}
"""After about 40 seconds a machine that says nothing any more is taken for gone; by itself that takes two hours."""
TURN_SECONDS = 30
"""So long a writer waits for its turn."""
IDLE_SECONDS = 60
"""A writer that stops in the middle of its turn, with its machine for example, loses it after so long."""
CROWDED_SECONDS = 0.5
LONG_SECONDS = 3600
"""So long it may stop when it has much to do elsewhere meanwhile, as to copy a whole project."""
PATIENCE_SECONDS = 10.0
"""So long a lost connection is looked for again before somebody is told."""
CHANNEL = "ralph"
MIGRATING = 0x52414C50  # "RALP": nobody else's lock
TURNS = 0x52414C51
_TABLES = {"memory": "memory", "attempt": "attempts", "failure": "failures"}
"""The table behind each index."""
SAMPLE = 128
"""Of so many of the newest rows the words are counted, to know which words are everywhere."""
SMALL = 2_000
"""A project with no more rows than this is searched without looking for frequent words first."""
POSTINGS = 20_000
"""So many rows a search reads by their words at most, those of the telling words first."""
LONGEST_LEXEME = 200
"""Longer than any that is indexed."""
MOST_RESERVED = 100_000_000
"""So many numbers are drawn at once at most: it takes half a minute."""
NARROW_POSTINGS = 100_000
"""So many at most when most of what is found is ruled out, by its kind for example."""

VECTOR_SIZE = 384
"""So many numbers a vector has that the server compares by itself."""
_COMPARING = (
    # What is kept as bytes, as a direction the server can compare; nothing of one that is damaged. The index is one
    # for all projects.
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
    # The index holds all projects: it is read on until enough of this one are found.
    "hnsw.iterative_scan": "relaxed_order",
    "hnsw.ef_search": "200",
    # By how many vectors a project has the server decides whether to use the index.
    "plan_cache_mode": "force_custom_plan",
}

_SETTINGS = {
    "lock_timeout": f"{TURN_SECONDS}s",
    "idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s",
    # What looks costly to the planner is quick here, and would be compiled each time.
    "jit": "off",
    # To plan a claim takes twice as long as to make it.
    "plan_cache_mode": "force_generic_plan",
}


def open_postgres(url: str, *, direct_url: str = "", create: bool = False) -> PostgresDatabase:
    """Open a database, bringing its tables up to date first.

    With a `direct_url` the other one leads through a pooler, which changes connections between transactions.
    """
    database = PostgresDatabase(url, direct_url)
    try:
        database.connected()
        if database.version < SCHEMA_VERSION:
            if not database.version and not create:
                raise StoreError(
                    f"The database {database.where} has no tables of Ralph yet. Make them with: ralph init"
                )
            database.migrate()
    except RalphError:
        database.close()
        raise
    return database


def connect(url: str, where: str, *, is_pooled: bool) -> Connection:
    """Give a new connection; behind a pooler nothing is prepared on it and nothing set for it."""
    options = "" if is_pooled else " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items())
    try:
        given: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(url)
        if not re.fullmatch(r"[\d,]*", str(given.get("port", ""))):
            raise psycopg.ProgrammingError("the port is no number")
        if options:
            given["options"] = f"{options} {given.get('options', '')}".strip()  # what the URL says goes last and wins
        given = {"connect_timeout": CONNECT_SECONDS, "application_name": "ralph", **SILENT, **given}
        return psycopg.Connection.connect(
            **given,
            autocommit=True,
            cursor_factory=psycopg.RawCursor,
            row_factory=dict_row,
            prepare_threshold=None if is_pooled else 1,
        )
    except (psycopg.ProgrammingError, UnicodeError) as error:
        raise unreadable(url, error) from None
    except psycopg.Error as error:
        raise not_reached(error, where) from error


# --- statements ----------------------------------------------------------------------------

_NAMED = re.compile(r"'(?:[^']|'')*'|(?<![:\w]):([a-z_]\w*)")


@lru_cache(maxsize=500)
def _numbered(sql: str) -> tuple[str, tuple[str, ...]]:
    """Give a statement with its values by number, and their names in that order."""
    numbers: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        name = found[1]
        return f"${numbers.setdefault(name, len(numbers) + 1)}" if name else found[0]

    return _NAMED.sub(number, sql), tuple(numbers)


# --- the database --------------------------------------------------------------------------


class PostgresDatabase:
    """One connection to one PostgreSQL database, for one thread; made when it is needed, and anew when it is lost."""

    skip_locked = "FOR UPDATE OF t SKIP LOCKED"
    for_update = "FOR UPDATE"
    row = "ctid"
    is_server = True
    hindrance: StoreError | None = None
    like_any_case = "ILIKE"
    seq_key = "project_id, seq"
    lease_is_over = """lease_until < to_char(
        statement_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"""
    lease_end = """to_char((statement_timestamp() + make_interval(secs => CAST(:lease_seconds AS DOUBLE PRECISION)))
        AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"""

    def __init__(self, url: str, direct_url: str = "") -> None:
        self.where = without_password(url)
        self.url = url
        self.direct_url = direct_url
        self._connection: Connection | None = None
        self._was_connected = False
        self._depth = 0
        self._is_doomed = False
        self._announced: dict[str, None] = {}

    # --- the connection ----------------------------------------------------------------

    def connected(self) -> Connection:
        """Give the connection, a new one if there is none."""
        if self._connection is None:
            if self._depth:
                # What was done in the transaction is gone: nothing more must be done as if it were there.
                raise self._lost()
            connection = self._connect()
            try:
                self._check(connection)  # another machine may have brought the tables up to date meanwhile
            except RalphError:
                connection.close()
                raise
            self._connection = connection
            self._was_connected = True
        return self._connection

    def _connect(self) -> Connection:
        """Give a new connection; a server that is crowded is waited for a little."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return connect(self.url, self.where, is_pooled=bool(self.direct_url))
            except TooManyConnectionsError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(CROWDED_SECONDS)
            except StoreUnavailableError:
                raise
            except StoreError as error:
                # It worked before, so it is the way there: names are not found when the network is down.
                raise (StoreUnavailableError(str(error)) if self._was_connected else error) from None

    def _check(self, connection: Connection) -> None:
        """Refuse a server or tables that this program cannot work with."""
        info = connection.info
        if info.server_version // 10_000 < OLDEST_SERVER:
            found = info.server_version // 10_000
            raise StoreError(f"{self.where} is PostgreSQL {found}. Ralph needs {OLDEST_SERVER} or newer.")
        if (encoding := info.parameter_status("server_encoding")) != "UTF8":
            raise StoreError(f"The database {self.where} has the encoding {encoding}. Make one with the encoding UTF8.")
        try:
            (there,) = connection.execute("SELECT to_regclass('ralph_schema') IS NOT NULL AS is_there").fetchall()
            rows = (
                connection.execute("SELECT version, oldest FROM ralph_schema").fetchall() if there["is_there"] else []
            )
        except psycopg.Error as error:
            raise explained(error, self.where, is_lost=connection.closed) from error
        self.version = rows[0]["version"] if rows else 0
        if self.version > SCHEMA_VERSION and rows[0]["oldest"] > SCHEMA_VERSION:
            raise StoreTooNewError(self.where, self.version, SCHEMA_VERSION)

    def _lost(self) -> StoreUnavailableError:
        return StoreUnavailableError(f"The connection to {self.where} was lost before the change was made.")

    def failed(self, error: psycopg.Error | UnicodeEncodeError) -> RalphError:
        """Say what went wrong, and let go of a connection that is lost."""
        if isinstance(error, UnicodeEncodeError):
            return StatementError(f"The database {self.where} refused a text that is none.")
        is_lost = self._connection is None or self._connection.closed or self._connection.broken
        if is_lost:
            self.rest()
        return explained(error, self.where, is_lost=bool(is_lost))

    def patiently(self, work: Callable[[], R]) -> R:
        """Do something that changes nothing, or has changed nothing yet, also when the connection is lost meanwhile."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        pause = 0.05
        while True:
            try:
                return work()
            except StoreUnavailableError:
                # Who never was connected is told at once: the URL may be wrong.
                if not self._was_connected or time.monotonic() + pause > deadline:
                    raise
                time.sleep(pause)
                pause = min(pause * 2, 1.0)

    def rest(self) -> None:
        """Let go of the connection until it is needed again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        """Let go of the connection."""
        self.rest()

    # --- statements --------------------------------------------------------------------

    def query(self, sql: str, **values: object) -> list[Row]:
        """Run one statement and give its rows by column name."""
        return self._reading(sql, lambda: self._run(sql, values).fetchall())

    def execute(self, sql: str, **values: object) -> int:
        """Run one statement and say how many rows it changed."""
        return self._run(sql, values).rowcount

    def execute_all(self, sql: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Run one statement once for each of the rows."""
        if not rows:
            return
        text, names = _numbered(sql)
        try:
            with self.connected().cursor() as cursor:
                cursor.executemany(text, [[row[name] for name in names] for row in rows])
        except (psycopg.Error, UnicodeEncodeError) as error:
            raise self.failed(error) from error

    def insert_many(self, table: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Add many rows with the same columns, in one statement."""
        if not rows:
            return
        names = tuple(rows[0])
        connection = self.connected()
        try:
            text = "".join("\t".join(_copied(row[name]) for name in names) + "\n" for row in rows)
            with connection.cursor() as cursor, cursor.copy(f"COPY {table} ({', '.join(names)}) FROM STDIN") as copy:
                copy.write(text.encode())
        except (psycopg.Error, UnicodeEncodeError) as error:
            raise self.failed(error) from error

    def _run(self, sql: str, values: Mapping[str, object], *, binary: bool = False) -> psycopg.Cursor[Row]:
        text, names = _numbered(sql)
        connection = self.connected()
        try:
            return connection.execute(text, [values[name] for name in names], binary=binary)
        except (psycopg.Error, UnicodeEncodeError) as error:
            raise self.failed(error) from error

    def _reading(self, sql: str, work: Callable[[], R]) -> R:
        """Do what a statement asks; what only reads is asked again when the connection was lost."""
        if self._depth or not sql.lstrip()[:6].upper().startswith(("SELECT", "WITH")):
            return work()
        return self.patiently(work)

    # --- transactions ------------------------------------------------------------------

    def transaction(self, project_id: str = "") -> Turn:
        """Make everything inside one durable change, or none; inside another one it joins that one."""
        return Turn(self, f"pg_advisory_xact_lock({TURNS}, {_number_of(project_id)})")

    def snapshot(self) -> Turn:
        """Read everything inside as it is at one moment, while others write on; a transaction is joined."""
        return Turn(self, "", " ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def take_time(self) -> None:
        """Let the transaction last though nothing is asked for a while, but not as long as a machine sleeps."""
        self._say(f"SET LOCAL idle_in_transaction_session_timeout = '{LONG_SECONDS}s'")

    def claiming(self) -> Turn:
        """Make everything inside one durable change, beside all other writers."""
        return Turn(self, "")

    def single(self) -> AbstractContextManager[None]:
        """Let one statement be a durable change by itself."""
        return nullcontext()

    def begin(self, lock: str, kind: str = "") -> None:
        """Begin a transaction when it is our turn, or join the one that is open."""
        if self._depth == 0:
            self._is_doomed = False
            self._announced.clear()
            # In one go: each statement by itself would be one more way to the server and back.
            turn = f"; SELECT {lock}" if lock else ""
            self.patiently(lambda: self._say(f"BEGIN{kind}{self._settings}{turn}"))
        self._depth += 1

    def end(self, failed: bool) -> None:
        """End the transaction, or what had joined it."""
        self._depth -= 1
        self._is_doomed = self._is_doomed or failed
        if self._depth:
            return
        if self._is_doomed:
            if self._connection is not None:
                try:
                    self._say("ROLLBACK")
                except RalphError:
                    self.rest()  # with its connection goes the transaction
            if not failed and self._connection is None:
                raise self._lost()
            if not failed:
                raise StatementError("A part of the change had failed, so none of it was made.")
            return
        if self._connection is None:
            raise self._lost()
        if self._connection.info.transaction_status is TransactionStatus.INERROR:
            self._say("ROLLBACK")  # the server would take a COMMIT for one, and say nothing
            raise StatementError("A part of the change had failed, so none of it was made.")
        told = "".join(f"SELECT pg_notify('{CHANNEL}', {_quoted(one)}); " for one in self._announced)
        try:
            self._say(f"{told}COMMIT")
        except StoreUnavailableError:
            raise StoreUnavailableError(
                f"The connection to {self.where} was lost while a change was made: look whether it was, "
                "before you do it again."
            ) from None

    def announce(self, project_id: str, topic: str) -> None:
        """Wake who watches a project for this, once the transaction is made."""
        self._announced[f"{project_id} {topic}"] = None

    @property
    def _settings(self) -> str:
        """Give what a transaction sets for itself behind a pooler; else the connection has it set."""
        if not self.direct_url:
            return ""
        return "".join(f"; SET LOCAL {name} = '{value}'" for name, value in _SETTINGS.items())

    def _say(self, statements: str) -> None:
        connection = self.connected()
        try:
            connection.execute(statements)
        except psycopg.Error as error:
            failure = self.failed(error)
            if statements.startswith("BEGIN") and not connection.closed:
                try:
                    connection.execute("ROLLBACK")
                except psycopg.Error:
                    self.rest()
            raise failure from error

    def migrate(self) -> None:
        """Bring the tables up to what this program knows; of several machines one does it, and the others wait."""
        from ralph.store.migrate import renew, scripts

        with Turn(self, f"pg_advisory_xact_lock({MIGRATING})"):
            self._check(self.connected())  # another machine may have been quicker
            if self.version >= SCHEMA_VERSION:
                return
            if not self.version:
                self._refuse_foreign()
                self.execute("CREATE TABLE ralph_schema (version BIGINT NOT NULL, oldest BIGINT NOT NULL)")
                self.execute("INSERT INTO ralph_schema (version, oldest) VALUES (0, 0)")
            for script in scripts(self.version, "postgres"):
                self._say(script)
            renew(self, self.version)
            self._add_comparing()
            self.execute(
                "UPDATE ralph_schema SET version = :version, oldest = :oldest",
                version=SCHEMA_VERSION,
                oldest=OLDEST_PROGRAM,
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
                f"The database {self.where} has tables of another program. Give Ralph a schema or database of its own:"
                " docs/postgres.md"
            )

    # --- vectors -----------------------------------------------------------------------

    def compares_vectors(self, size: int = VECTOR_SIZE) -> bool:
        """Say whether the server compares vectors of this size: it has pgvector, and they are kept as that needs."""
        return size == VECTOR_SIZE and bool(
            self.query(
                """
                SELECT 1 AS one FROM pg_attribute WHERE attrelid = to_regclass('memory_vectors') AND attname = 'near'
                    AND NOT attisdropped AND to_regtype('halfvec') IS NOT NULL
                """
            )
        )

    def add_vectors(self) -> bool:
        """Let the server compare vectors by itself if it can and does not yet; say whether it does."""
        if self.compares_vectors():
            return True
        with Turn(self, f"pg_advisory_xact_lock({MIGRATING})"):
            return self.compares_vectors() or self._add_comparing()

    def _add_comparing(self) -> bool:
        """Do so inside a transaction, which goes on when it cannot be done: that takes the package, and the right."""
        self._say("SAVEPOINT comparing")
        try:
            for statement in _COMPARING:
                self._say(statement)
            # Before 0.8 an index gives up when the nearest are of other projects.
            known = "SELECT CAST(string_to_array(extversion, '.') AS INT[]) >= '{0,8}' AS is_new_enough"
            (found,) = self.query(f"{known} FROM pg_extension WHERE extname = 'vector'")
            is_done = bool(found["is_new_enough"])
        except StoreUnavailableError:
            raise
        except RalphError:
            is_done = False
        self._say("RELEASE SAVEPOINT comparing" if is_done else "ROLLBACK TO SAVEPOINT comparing")
        return is_done

    def nearest_vectors(self, project_id: str, model: str, direction: Sequence[float], most: int) -> list[Row]:
        """Give number and vector of those of a project that point most the same way, about the nearest first."""
        values: dict[str, object] = {
            "project_id": project_id,
            "model": model,
            "direction": f"[{','.join(map(str, direction))}]",
        }

        def ask(order: str) -> list[Row]:
            rows = self._run(
                f"""
                SELECT seq, vector FROM memory_vectors
                WHERE project_id = :project_id AND model = :model AND near IS NOT NULL ORDER BY {order} LIMIT {most:d}
                """,
                values,
            )
            return rows.fetchall()

        def read() -> list[Row]:
            distance = "near <#> CAST(:direction AS halfvec)"
            with self.snapshot():
                self._say("".join(f"SET LOCAL {name} = '{value}'; " for name, value in _NEAR_SETTINGS.items()))
                found = ask(distance)
                # The index gives up after a while; what is no longer its order is worked out for all of the project.
                return found if len(found) == most else ask(f"({distance}) + 0")

        return read() if self._depth else self.patiently(read)

    def some_vectors(self, project_id: str, model: str, size: int, spots: int, each: int) -> list[Row]:
        """Give vectors of a project from so many spots spread over all of it, and so many of each."""
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

    def look_up(self, index: str, words: Mapping[str, float], limit: int, where: str, **values: object) -> Found:
        """Give rows that hold the words, those with the most of their weight first, and how rare each word is."""
        if not words:
            return Found([], {}, 0)
        total, counts = self._sampled(index, words, values)
        if not total:
            return Found([], {}, 0)
        read = few_enough(counts, words, total, POSTINGS)
        found = self._postings(f"{index}_words AS w", "w.project_id = :project_id", read, values)
        held_by = {word: len(found[word]) if word in found else counts[word] for word in words}
        best = heaviest(found, held_by, words, total, 2 * limit)
        rows = self._rows(index, best[:limit], where, values)
        if len(rows) < limit < len(best):
            rows += self._rows(index, best[limit:], where, values)
        if len(rows) < limit and (len(best) == 2 * limit or len(read) < len(words)):
            # Too many of the best are ruled out: rule them out first, which takes longer.
            few = few_enough(held_by, words, total, NARROW_POSTINGS)
            source = f"{index}_words AS w JOIN {_TABLES[index]} AS r ON r.project_id = w.project_id AND r.seq = w.seq"
            found = self._postings(source, where, few, values)
            more = self._rows(index, heaviest(found, held_by, words, total, limit), where, values)
            rows = list({row["seq"]: row for row in (*rows, *more)}.values())
        return Found(rows[:limit], held_by, total)

    def _sampled(
        self, index: str, words: Mapping[str, float], values: Mapping[str, object]
    ) -> tuple[int, dict[str, int]]:
        """Give how many rows a project has in an index, and about how many hold each word, by its newest rows."""
        (ends,) = self._tuples(
            f"""
            SELECT COUNT(*), MIN(seq), MAX(seq), (SELECT MIN(seq) FROM {index}_words WHERE project_id = :project_id)
            FROM (SELECT seq FROM {index}_words WHERE project_id = :project_id ORDER BY seq DESC LIMIT {SMALL + 1}) AS w
            """,
            values,
        )
        count, first, last, oldest = ends
        if count <= SMALL:
            return count, dict.fromkeys(words, 0)
        total = max(count, (last - oldest + 1) * count // (last - first + 1))
        counted = dict(
            self._tuples(
                f"""
                SELECT l.lexeme, COUNT(*) FROM (
                    SELECT found_by FROM {index}_words WHERE project_id = :project_id ORDER BY seq DESC LIMIT {SAMPLE}
                ) AS w CROSS JOIN LATERAL unnest(w.found_by) AS l
                JOIN unnest(CAST(:words AS TEXT[])) AS a (word) ON a.word = l.lexeme GROUP BY l.lexeme
                """,
                {**values, "words": [f"{values['project_id']}/{_plain(word)}" for word in words]},
            )
        )
        return total, {word: counted.get(f"{values['project_id']}/{word}", 0) * total // SAMPLE for word in words}

    def _postings(
        self, source: str, where: str, words: Mapping[str, float], values: Mapping[str, object]
    ) -> dict[str, array[int]]:
        """Give the numbers of the rows that hold each word, newest first."""
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

        return self._reading(sql, read)

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

    def rows(self, index: str, seqs: Sequence[int], where: str, **values: object) -> list[Row]:
        """Give rows of an index by their numbers, with the words they are indexed by."""
        return self._rows(index, seqs, where, values) if seqs else []

    def json_list(self, column: str, source: str) -> str:
        """Give the SQL that gathers a column of what is found in a source into one JSON list."""
        return f"CAST(array_to_json(ARRAY(SELECT {column} FROM {source})) AS TEXT)"

    def tidy(self, *, whole: bool = False) -> None:
        """Leave the upkeep to the server, which does it by itself."""

    def put_off_upkeep(self, is_bulk: bool) -> None:
        """Let the server look at what was added, once many rows were: it plans by what it knows of the tables."""
        if not is_bulk:
            self.execute("ANALYZE memory, memory_words, memory_files, memory_events")

    def add_words(self, index: str, rows: Sequence[Row]) -> None:
        """Index many rows that are not indexed yet by their words."""
        self.insert_many(f"{index}_words", rows)

    def clear_indexes(self, project_id: str) -> str:
        """Take away the words and files of one project."""
        for table in (*(f"{index}_words" for index in _TABLES), "memory_files"):
            self.execute(f"DELETE FROM {table} WHERE project_id = :project_id", project_id=project_id)
        return project_id

    def renew_indexes(self) -> None:
        """Do nothing: the index follows the words."""

    def reserve(self, table: str, column: str, until: int) -> None:
        """Give no number up to this one to a new row any more."""
        # One by one, because others draw numbers meanwhile: to set the counter could set it back for them.
        drawn = "SELECT MAX(nextval(pg_get_serial_sequence(:table, :column))) AS n FROM generate_series(1, :count)"
        (first,) = self.query(drawn, table=table, column=column, count=1)
        missing = until - first["n"]
        if missing > MOST_RESERVED:
            raise StoreError(f"The rows of {table} have numbers as high as {until:,}, too high for {self.where}.")
        if missing > 0:
            self.query(drawn, table=table, column=column, count=missing)

    # --- what others do ----------------------------------------------------------------

    def watch(self, project_id: str, *topics: str) -> Watch:
        """Give what waits for a change of a project by anybody, on a connection of its own."""
        return Watch(self.direct_url or self.url, self.where, [f"{project_id} {topic}" for topic in topics])


class Turn:
    """A transaction that first waits for its turn among all writers of a project."""

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


class Watch:
    """Waits for what others announce; after a lost connection it wakes once, because something may have been missed."""

    def __init__(self, url: str, where: str, awaited: Sequence[str]) -> None:
        self._url = url
        self._where = where
        self._awaited = awaited
        self._connection: Connection | None = None
        self._pause = 0.0
        self._not_before = 0.0

    def wait(self, seconds: float) -> bool:
        """Give True as soon as something changed, or may have; False when nothing did for so long."""
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
                for told in self._connection.notifies(timeout=left, stop_after=1):
                    if told.payload in self._awaited:
                        return True
        except (psycopg.Error, StoreError):  # whoever waits looks now and then without being woken, too
            self._pause = min(max(2 * self._pause, 0.1), 5.0)
            self._not_before = time.monotonic() + self._pause
            self.close()
        return False

    def close(self) -> None:
        """Stop watching."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _number_of(project_id: str) -> int:
    """Give the number a project's lock goes by; two with the same one only wait for each other."""
    return zlib.crc32(project_id.encode()) - 2**31


def _copied(value: object) -> str:
    """Give a value the way COPY takes it."""
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
    """Give a word the way a search takes it for one, whatever it holds."""
    return "'" + _plain(word).replace("\\", "\\\\").replace("'", "''") + "'"


def _plain(word: str) -> str:
    """Give a word as far as the server takes it for text."""
    return word[:LONGEST_LEXEME].replace("\0", "").encode("utf-8", "replace").decode()
