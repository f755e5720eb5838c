"""What is wrong with a database file, if anything.

The file is only read, and nothing in it is mended: a damaged one must stay as it is,
so that all that is still in it can be saved.
"""

from __future__ import annotations

import stat
from contextlib import closing
from functools import cache
from pathlib import Path

import apsw

from ralph.records import record
from ralph.store.database import CHECKED_TABLES, checksum
from ralph.store.sqlite import APPLICATION_ID, BUSY_MILLISECONDS, SCHEMA_VERSION
from ralph.text import clean, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ralph.store.database import Row

MOST_PROBLEMS = 20
SHOWN_ROWS = 5
SUM = ".sha256"
"""The ending of the file next to a backup that holds the SHA-256 of it."""


@record
class Health:
    """What is wrong with a database file, one sentence each; nothing when it is sound."""

    problems: tuple[str, ...] = ()


def check(path: str, *, deep: bool = False) -> Health:
    """Say what is wrong with a database file, which is not changed; `deep` also compares the search indexes."""
    parts = [_foreign, _structure, _definitions_differ, _broken_links, _broken_rows, _broken_texts]
    parts += [_broken_indexes] if deep else []
    problems: list[str] = []
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            return Health(problems=("It is not a file.",))
        problems += _digest_differs(Path(path))
        with closing(open_read_only(Path(path))) as connection:
            connection.execute("BEGIN")  # all parts see the same moment
            for part in parts:
                try:
                    problems += part(connection)
                except (apsw.Error, UnicodeError) as error:
                    problems.append(f"It is damaged: {said(error)}")
    except (OSError, apsw.Error, UnicodeError) as error:
        problems.append(f"It cannot be read: {said(error)}")
    return Health(problems=tuple(dict.fromkeys(problems)))


def said(error: Exception) -> str:
    """Give the words of an error as a sentence's end."""
    words = str(error)
    if isinstance(error, OSError):
        words = f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
    elif isinstance(error, UnicodeEncodeError):
        words = "its path is not valid UTF-8"
    elif isinstance(error, UnicodeError):
        words = "it holds text that is none"
    return one_line(clean(words)).rstrip(".") + "."


def open_read_only(path: Path) -> apsw.Connection:
    """Open a database for reading alone."""
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        connection.pragma("cell_size_check", True)
        connection.pragma("user_version")
    except apsw.CantOpenError:
        # Where nothing can be written, SQLite must be told that nobody else writes either.
        if not path.exists() or Path(f"{path}-wal").exists():
            raise
        uri = path.absolute().as_uri() + "?immutable=1"
        connection = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    return connection


def _digest_differs(path: Path) -> Iterator[str]:
    noted = Path(f"{path}{SUM}")
    if noted.is_file() and noted.read_bytes()[:64] != file_digest(path).encode():
        yield "It is not what it was when it was made: its SHA-256 is another one."


def file_digest(path: Path) -> str:
    """Give the SHA-256 of a whole file."""
    import hashlib

    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _foreign(connection: apsw.Connection) -> Iterator[str]:
    version = int(connection.pragma("user_version"))
    if version == 0 or connection.pragma("application_id") != APPLICATION_ID:
        yield "It is empty or belongs to another program."
    elif not 0 < version <= SCHEMA_VERSION:
        yield f"It was written by a newer Ralph (schema {version}, this program knows {SCHEMA_VERSION}): upgrade ralph."


def _structure(connection: apsw.Connection) -> Iterator[str]:
    for (found,) in connection.execute(f"PRAGMA integrity_check({MOST_PROBLEMS})"):
        if found != "ok":
            yield f"Its structure is damaged: {one_line(clean(str(found)))}."


def _definitions_differ(connection: apsw.Connection) -> Iterator[str]:
    if connection.pragma("user_version") == SCHEMA_VERSION:
        there = _definitions(connection)
        for name, text in _own_definitions().items():
            if there.get(name) != text:
                yield f"The definition of {name} is {'damaged' if name in there else 'missing'}."


@cache
def _own_definitions() -> dict[str, str]:
    from ralph.store.migrate import scripts

    with closing(apsw.Connection(":memory:")) as connection:
        for script in scripts(0, "sqlite", "INTEGER PRIMARY KEY AUTOINCREMENT"):
            for _ in connection.execute(script):
                pass
        return _definitions(connection)


def _definitions(connection: apsw.Connection) -> dict[str, str]:
    """Give what is defined in a database, but for what a search index makes itself."""
    found = dict(connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid"))
    made_by = tuple(f"{name}_" for name in _indexes(connection))
    return {name: sql for name, sql in found.items() if not name.startswith(made_by)}


def _indexes(connection: apsw.Connection) -> list[str]:
    found = connection.execute("SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE VIRTUAL TABLE % USING fts5%'")
    return [name for (name,) in found]


def _broken_links(connection: apsw.Connection) -> Iterator[str]:
    counts: dict[tuple[str, str], int] = {}
    for table, _, other, _ in connection.execute("PRAGMA foreign_key_check"):
        counts[table, other] = counts.get((table, other), 0) + 1
    for (table, other), count in counts.items():
        yield f"In {table}, {count} {'row names' if count == 1 else 'rows name'} a row of {other} that is not there."


def _broken_rows(connection: apsw.Connection) -> Iterator[str]:
    for table in CHECKED_TABLES:
        wrong: dict[int, str] = {}
        try:
            for seq, row in numbered_rows(connection, table):
                if row is None or not is_right(row):
                    wrong[seq] = _name(connection, table, seq)
        except apsw.Error as error:
            yield f"The table {table} cannot be read: {said(error)}"
            continue
        if wrong.pop(0, None):
            yield f"Some rows of {table} cannot be reached."
        if wrong:
            names = list(wrong.values())
            shown = ", ".join(names[:SHOWN_ROWS]) + (", …" if len(names) > SHOWN_ROWS else "")
            yield f"{_counted(table, len(names))} checksum: {shown}."


def _name(connection: apsw.Connection, table: str, seq: int) -> str:
    """Give what to call a row: a memory by its id, if that can still be read."""
    if table == "memory":
        try:
            for (id,) in connection.execute("SELECT id FROM memory WHERE seq = ?", (seq,)):
                return one_line(clean(str(id)), 40)
        except (apsw.Error, UnicodeError):
            pass
    return str(seq)


def _counted(table: str, count: int) -> str:
    match = "does not match its" if count == 1 else "do not match their"
    if table == "memory":
        return f"{count} {'memory' if count == 1 else 'memories'} {match}"
    return f"In {table}, {count} {'row' if count == 1 else 'rows'} {match}"


def _broken_texts(connection: apsw.Connection) -> Iterator[str]:
    """Read what has no checksums: nothing else would find text that is none."""
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'")
    for table in {str(name) for (name,) in tables}.difference(CHECKED_TABLES):
        try:
            for _ in connection.execute(f'SELECT * FROM "{table}"'):
                pass
        except UnicodeError:
            yield f"In {table}, a text is damaged."


def numbered_rows(connection: apsw.Connection, table: str) -> Iterator[tuple[int, Row | None]]:
    """Give every row with its number, None for one that cannot be read; 0 when there may be more out of reach."""
    names = columns(connection, table)
    numbers: dict[int, None] = {}
    is_whole = False
    for order in ("ASC", "DESC"):  # round a damaged page, from both sides
        try:
            for (seq,) in connection.execute(f"SELECT seq FROM {table} NOT INDEXED ORDER BY seq {order}"):
                numbers[seq] = None
            is_whole = True
            break
        except (apsw.CorruptError, apsw.IOError):
            continue
    for seq in sorted(numbers):
        yield seq, _row(connection, table, names, seq)
    if not is_whole:
        yield 0, None


def _row(connection: apsw.Connection, table: str, names: Sequence[str], seq: int) -> Row | None:
    try:
        found = connection.execute(f"SELECT * FROM {table} WHERE seq = ?", (seq,)).fetchall()
    except (apsw.Error, UnicodeError):
        return None
    return dict(zip(names, found[0], strict=True)) if found else None


def columns(connection: apsw.Connection, table: str) -> list[str]:
    """Give the names of a table's columns, in their order."""
    return [column[1] for column in connection.execute(f"PRAGMA table_info({table})")]


def is_right(row: Row) -> bool:
    """Say whether a row matches its checksum."""
    try:
        return bool(row["checksum"] == checksum(row))
    except (KeyError, TypeError, ValueError):  # text that has become bytes, and the like
        return False


def _broken_indexes(connection: apsw.Connection) -> Iterator[str]:
    # SQLite wants to write for this, so it gets a copy of its own that is gone when it is closed.
    with closing(apsw.Connection("")) as copy:
        with copy.backup("main", connection, "main") as work:
            work.step()
        copy.execute("DELETE FROM attempts WHERE notes = ''")  # these are in no index, on purpose
        for name in _indexes(copy):
            try:
                copy.execute(f"INSERT INTO {name} ({name}, rank) VALUES ('integrity-check', 1)")
            except apsw.Error:
                yield f"The search index {name} does not match its table."
