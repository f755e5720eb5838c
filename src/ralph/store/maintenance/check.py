"""Integrity checks of a database file, or of a project on a server.

Files are opened read-only and never repaired: a damaged one has to stay as it is, so that everything that is still
readable can be recovered.
"""

from __future__ import annotations

import errno
import re
import stat
from contextlib import closing
from pathlib import Path

import apsw

from ralph.core.errors import RalphError, StoreUnavailableError
from ralph.core.records import record
from ralph.core.text import clean, one_line
from ralph.core.tracking import is_tracked, report_progress, track
from ralph.store.database import CHECKED_TABLES, SCHEMA_VERSION, TABLE_SINCE, matches_checksum
from ralph.store.maintenance.migrate import read_entries, schema_entries, search_indexes
from ralph.store.sqlite.driver import (
    APPLICATION_ID,
    BUSY_MILLISECONDS,
    MIN_DATABASE_BYTES,
    SqliteDatabase,
    find_irregular_file,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from ralph.store import Store
    from ralph.store.database import Database, ProjectScope, Row
    from ralph.store.index import IndexComparison

MAX_PROBLEMS = 20
"""Maximum number of structural problems to report."""
MAX_ROWS_SHOWN = 5
"""Maximum number of rows to name in one problem."""
PAGE = 500
"""Number of rows to read at once."""
STOP_CHECK_STEPS = 20_000
"""Number of steps of SQLite's virtual machine after which a check may be interrupted."""
UNREADABLE, NEWER_VERSION = "It cannot be read", "written by a newer Ralph"
"""Phrases in problems that are not necessarily damage."""
CHECKSUM_SUFFIX = ".sha256"
"""Suffix of the file with the SHA-256 of a backup."""
_INDEX_NOUNS = {
    "memory": ("memory", "memories"),
    "attempt": ("journal entry", "journal entries"),
    "failure": ("failure report", "failure reports"),
    "episode": ("episode", "episodes"),
}
"""Singular and plural noun for the rows of each index."""
_NAMED = ("memory", "tasks", "features", "sessions", "episodes")
"""Tables whose rows are reported by id."""
_INDEX_PROBLEM = re.compile(r"(?:memory|attempt|failure|episode)_(?:words|index)|memory_files|fts5|search index")
_OTHER_PROBLEM = re.compile(" checksum: |malformed database schema")
"""Problems that must not be mistaken for index problems: row ids may be any text, and a bad schema hides the file."""


@record
class HealthReport:
    """Result of a check: one sentence per problem, none if the data is intact."""

    problems: tuple[str, ...] = ()
    outdated_entries: str = ""
    """Number of entries indexed by the rules of another version, as text; they are still found, but not as well."""


@record
class DatabaseInfo:
    """Kind and version of a database."""

    database: str
    version: str
    schema: int


def database_info(database: Database) -> DatabaseInfo:
    """Return the kind and version of a database."""
    if not database.is_server:
        return DatabaseInfo(database="sqlite", version=apsw.sqlite_lib_version(), schema=SCHEMA_VERSION)
    row = database.query(
        "SELECT current_setting('server_version') AS version, (SELECT MAX(version) FROM ralph_schema) AS schema"
    )[0]
    return DatabaseInfo(database="postgresql", version=row["version"].partition(" ")[0], schema=row["schema"])


def is_index_problem(problem: str) -> bool:
    """Return whether a problem affects only search indexes, which can be rebuilt."""
    return bool(_INDEX_PROBLEM.search(problem)) and not _OTHER_PROBLEM.search(problem)


def check_database(path: str, *, deep: bool = False, should_stop: Callable[[], bool] | None = None) -> HealthReport:
    """Check a database file without changing it; `deep` also compares the search indexes with their texts.

    The report means nothing once `should_stop` has returned true.
    """
    checks = [_foreign, _structure, _definitions_differ, _broken_links, _broken_rows, _broken_texts]
    checks += [_broken_indexes] if deep else []
    problems: list[str] = []
    compared: dict[str, IndexComparison | None] = {}
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            return HealthReport(problems=("It is not a file.",))
        problems += _digest_differs(Path(path))
        with closing(open_read_only(Path(path))) as connection:
            connection.set_progress_handler(should_stop, STOP_CHECK_STEPS)
            connection.execute("BEGIN")  # so that all checks see the same snapshot
            for number, run_check in enumerate(checks):
                report_progress("Checking the database", number, len(checks))
                try:
                    problems += run_check(connection)
                except (apsw.Error, UnicodeError) as error:
                    problems.append(f"It is damaged: {error_text(error)}")
            if deep and connection.pragma("user_version") == SCHEMA_VERSION:
                compared = _compare(SqliteDatabase(connection, "it"))
    except (OSError, apsw.Error, UnicodeError) as error:
        problems.append(f"{UNREADABLE}: {error_text(error)}")
    problems += _wrong_words(compared)
    return HealthReport(problems=tuple(dict.fromkeys(problems)), outdated_entries=_outdated(compared))


def check_store(store: Store, *, deep: bool = False) -> HealthReport:
    """Check the whole database file of a store, or its project on a server."""
    if not store.is_shared:
        return check_database(store.database.display_url, deep=deep)
    with store.database.snapshot():
        return check_rows(store.scope, deep=deep)


def check_rows(scope: ProjectScope, *, deep: bool = False) -> HealthReport:
    """Check the rows of a project against their checksums; `deep` also compares the search indexes with their texts."""
    problems: list[str] = []
    for number, table in enumerate(CHECKED_TABLES):
        report_progress("Checking tables", number, len(CHECKED_TABLES))
        wrong = _wrong_rows(scope, table)
        if wrong:
            problems.append(_checksum_problem(table, wrong))
    compared = _compare(scope.database, scope.project_id) if deep else {}
    problems += _wrong_words(compared)
    return HealthReport(problems=tuple(problems), outdated_entries=_outdated(compared))


def _wrong_rows(scope: ProjectScope, table: str) -> list[str]:
    """Return the names of the rows that do not match their checksums."""
    last = 0
    wrong: list[str] = []
    while rows := scope.query(
        f"SELECT * FROM {table} WHERE project_id = :project_id AND seq > :last ORDER BY seq LIMIT {PAGE}", last=last
    ):
        last = rows[-1]["seq"]
        wrong += [
            one_line(clean(str(row["id"])), 40) if table in _NAMED else str(row["seq"])
            for row in rows
            if not matches_checksum(row)
        ]
    return wrong


def error_text(error: Exception) -> str:
    """Return the message of an error as the end of a sentence."""
    message = str(error)
    if isinstance(error, OSError):
        message = f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
    elif isinstance(error, UnicodeEncodeError):
        message = "its path is not valid UTF-8"
    elif isinstance(error, UnicodeError):
        message = "it contains invalid UTF-8"
    return one_line(clean(message)).rstrip(".") + "."


def open_read_only(path: Path) -> apsw.Connection:
    """Open a database file read-only."""
    if name := find_irregular_file(str(path)):
        raise OSError(errno.EINVAL, "It is not a regular file", name)
    if path.exists() and path.stat().st_size < MIN_DATABASE_BYTES:
        # SQLite would delete its write-ahead log, which may contain all of the data.
        raise apsw.NotADBError("it is empty")
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        connection.pragma("cell_size_check", True)
        connection.pragma("user_version")
    except apsw.CantOpenError:
        # On a read-only disk, SQLite has to know that nobody else writes either.
        if not path.exists() or Path(f"{path}-wal").exists():
            raise
        uri = path.absolute().as_uri() + "?immutable=1"
        connection = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    return connection


def _digest_differs(path: Path) -> Iterator[str]:
    sum_path = Path(f"{path}{CHECKSUM_SUFFIX}")
    if sum_path.is_file() and sum_path.read_bytes()[:64] != file_digest(path).encode():
        yield "It has changed since it was made: its SHA-256 does not match."


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    import hashlib

    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _foreign(connection: apsw.Connection) -> Iterator[str]:
    version = int(connection.pragma("user_version"))
    if version == 0 or connection.pragma("application_id") != APPLICATION_ID:
        yield "It is empty or belongs to another program."
    elif not 0 < version <= SCHEMA_VERSION:
        yield f"It was {NEWER_VERSION} (schema {version}, this program knows {SCHEMA_VERSION}): upgrade ralph."


def _structure(connection: apsw.Connection) -> Iterator[str]:
    for (message,) in connection.execute(f"PRAGMA integrity_check({MAX_PROBLEMS})"):
        if message != "ok":
            yield f"Its structure is damaged: {one_line(clean(str(message)))}."


def _definitions_differ(connection: apsw.Connection) -> Iterator[str]:
    if connection.pragma("user_version") == SCHEMA_VERSION:
        actual = read_entries(connection)
        for name, text in schema_entries().items():
            if actual.get(name) != text:
                yield f"The definition of {name} is {'damaged' if name in actual else 'missing'}."


def _broken_links(connection: apsw.Connection) -> Iterator[str]:
    counts: dict[tuple[str, str], int] = {}
    for table, _, other, _ in connection.execute("PRAGMA foreign_key_check"):
        counts[table, other] = counts.get((table, other), 0) + 1
    for (table, other), count in counts.items():
        yield f"In {table}, {count} {'row refers' if count == 1 else 'rows refer'} to a missing row of {other}."


def _broken_rows(connection: apsw.Connection) -> Iterator[str]:
    version = int(connection.pragma("user_version"))
    for table in CHECKED_TABLES:
        if version < TABLE_SINCE.get(table, 0):
            continue
        damaged: dict[int, str] = {}
        try:
            for seq, row in track(f"Checking {table}", iter_rows(connection, table), _size(connection, table)):
                if row is None or not matches_checksum(row):
                    damaged[seq] = _row_name(connection, table, seq)
        except apsw.Error as error:
            yield f"The table {table} cannot be read: {error_text(error)}"
            continue
        if damaged.pop(0, None):
            yield f"Some rows of {table} cannot be reached."
        if damaged:
            yield _checksum_problem(table, list(damaged.values()))


def _size(connection: apsw.Connection, table: str) -> int:
    """Return the number of rows of a table if somebody wants to know how far a check is, else 0."""
    if not is_tracked():
        return 0
    rows: list[tuple[Any, ...]] = connection.execute(f"SELECT COUNT(*) FROM {table}").fetchall()
    return int(rows[0][0])


def _checksum_problem(table: str, names: Sequence[str]) -> str:
    shown = ", ".join(names[:MAX_ROWS_SHOWN]) + (", …" if len(names) > MAX_ROWS_SHOWN else "")
    return f"{_count_phrase(table, len(names))} checksum: {shown}."


def _row_name(connection: apsw.Connection, table: str, seq: int) -> str:
    """Return the id of a row if it has one that can be read, else its `seq`."""
    if table in _NAMED:
        try:
            for (id,) in connection.execute(f"SELECT id FROM {table} WHERE seq = ?", (seq,)):
                return one_line(clean(str(id)), 40)
        except (apsw.Error, UnicodeError):
            pass
    return str(seq)


def _count_phrase(table: str, count: int) -> str:
    match = "does not match its" if count == 1 else "do not match their"
    if table == "memory":
        return f"{count} {'memory' if count == 1 else 'memories'} {match}"
    return f"In {table}, {count} {'row' if count == 1 else 'rows'} {match}"


def _broken_texts(connection: apsw.Connection) -> Iterator[str]:
    """Read the tables without checksums: no other check finds invalid UTF-8 in them."""
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'")
    for table in {str(name) for (name,) in tables}.difference(CHECKED_TABLES):
        try:
            for _ in connection.execute(f'SELECT * FROM "{table}"'):
                pass
        except UnicodeError:
            yield f"In {table}, some text is damaged."


def iter_rows(connection: apsw.Connection, table: str) -> Iterator[tuple[int, Row | None]]:
    """Yield the `seq` of every row with the row, or None if it is unreadable; yield 0 if there may be more rows."""
    names = column_names(connection, table)
    numbers: dict[int, None] = {}
    is_complete = False
    for order in ("ASC", "DESC"):  # reach the rows on both sides of a damaged page
        try:
            for (seq,) in connection.execute(f"SELECT seq FROM {table} NOT INDEXED ORDER BY seq {order}"):
                numbers[seq] = None
            is_complete = True
            break
        except (apsw.CorruptError, apsw.IOError):
            continue
    for seq in sorted(numbers):
        yield seq, _row(connection, table, names, seq)
    if not is_complete:
        yield 0, None


def _row(connection: apsw.Connection, table: str, names: Sequence[str], seq: int) -> Row | None:
    try:
        rows = connection.execute(f"SELECT * FROM {table} WHERE seq = ?", (seq,)).fetchall()
    except (apsw.Error, UnicodeError):
        return None
    return dict(zip(names, rows[0], strict=True)) if rows else None


def column_names(connection: apsw.Connection, table: str) -> list[str]:
    """Return the column names of a table, in order."""
    return [column[1] for column in connection.execute(f"PRAGMA table_info({table})")]


def _broken_indexes(connection: apsw.Connection) -> Iterator[str]:
    # The FTS5 check needs a writable database, so it runs on a temporary copy.
    report_progress("Checking the search indexes")
    with closing(apsw.Connection("")) as copy:
        with copy.backup("main", connection, "main") as work:
            work.step()
        copy.execute("DELETE FROM attempts WHERE notes = ''")  # not indexed on purpose
        for name in search_indexes(copy):
            try:
                copy.execute(f"INSERT INTO {name} ({name}, rank) VALUES ('integrity-check', 1)")
            except apsw.Error:
                yield f"The search index {name} does not match its table."


def _compare(database: Database, project_id: str = "") -> dict[str, IndexComparison | None]:
    """Compare each index with its texts; the result is None for an unreadable index."""
    from ralph.store.index import compare_index

    compared: dict[str, IndexComparison | None] = {}
    for index in _INDEX_NOUNS:
        try:
            compared[index] = compare_index(database, index, project_id)
        except StoreUnavailableError:
            raise
        except (RalphError, KeyError, TypeError):  # the definition of its table may be damaged, too
            compared[index] = None
    return compared


def _wrong_words(compared: Mapping[str, IndexComparison | None]) -> Iterator[str]:
    for index, comparison in compared.items():
        one, many = _INDEX_NOUNS[index]
        if comparison is None:
            yield f"The search index of {many} cannot be read."
            continue
        if comparison.missing:
            yield f"{_are(comparison.missing, one, many)} not in the search index."
        if comparison.wrong:
            yield f"{_are(comparison.wrong, one, many)} in the search index with the wrong words."
        if comparison.wrong_files:
            yield f"{_are(comparison.wrong_files, one, many)} in the search index with the wrong files."


def _outdated(compared: Mapping[str, IndexComparison | None]) -> str:
    counts = {
        index: comparison.outdated for index, comparison in compared.items() if comparison and comparison.outdated
    }
    parts = [f"{count:,} {_INDEX_NOUNS[index][count > 1]}" for index, count in counts.items()]
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def _are(count: int, one: str, many: str) -> str:
    return f"{count:,} {one} is" if count == 1 else f"{count:,} {many} are"
