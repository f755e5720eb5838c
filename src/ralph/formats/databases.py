"""Read access to the SQLite files of other programs, which are never changed.

Even a connection that only reads makes SQLite create files next to a database with a write-ahead log. So a database
that nobody has open is read from a copy, with the log that was left behind. One that is open is read like by any other
reader: in one transaction, without keeping its writers waiting.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path

import apsw

from ralph.core.errors import UsageError
from ralph.formats.detection import DatabaseSample
from ralph.formats.foreign_sqlite import limit_connection, max_content, plain_tables
from ralph.formats.registry import FORMATS
from ralph.store.maintenance.check import error_text, open_read_only

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from ralph.formats.registry import FileFormat

    DatabaseRow = dict[str, Any]

SQLITE = b"SQLite format 3\0"
"""First bytes of a SQLite file."""
MAX_DATABASE_BYTES = 256 * 1024 * 1024
"""Maximum size of a database, in bytes."""
_WAL_MODE_OFFSET = 18
"""Position of the byte that is 2 if a database uses a write-ahead log."""
_ATTEMPTS = 3
"""Number of attempts to read a database that others change meanwhile."""


def is_sqlite(path: Path) -> bool:
    """Return whether a file is a SQLite database."""
    try:
        with path.open("rb") as file:
            return file.read(len(SQLITE)) == SQLITE
    except OSError:
        return False


class ForeignDatabase:
    """An open database of another program."""

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self.path = path
        self._connection = connection
        self.version = int(connection.pragma("user_version"))
        self.columns = plain_tables(connection)
        """Columns by table."""
        self._remaining = max_content(path.stat().st_size)
        """Number of bytes that may still be read; defaults and such are not stored in every row."""

    def rows(self, table: str) -> list[DatabaseRow]:
        """Return all rows of a table with their number as `row`; none if the table does not exist."""
        names = sorted(self.columns.get(table, ()))
        if not names:
            return []
        quoted = ", ".join('"{}"'.format(name.replace('"', '""')) for name in names)
        found = []
        for number, values in enumerate(self._connection.execute(f'SELECT {quoted} FROM "{table}"'), start=1):
            self._count(values)
            found.append({**dict(zip(names, values, strict=True)), "row": number})
        return found

    def _count(self, values: Sequence[object]) -> None:
        self._remaining -= sum(len(value) if isinstance(value, str | bytes) else 1 for value in values)
        if self._remaining < 0:
            raise UsageError(f"{self.path} has more content than its size allows, so it was not read.")


def detect_database(database: ForeignDatabase) -> FileFormat | None:
    """Return the format of a database, or None if it is unknown."""
    sample = DatabaseSample(name=database.path.name, columns=database.columns)
    return next((format for format in FORMATS.values() if format.is_database and format.detect(sample)), None)


@contextmanager
def open_foreign(path: Path) -> Iterator[ForeignDatabase]:
    """Open a consistent view of the database of another program; raise `UsageError` if it cannot be read."""
    try:
        if path.stat().st_size > MAX_DATABASE_BYTES:
            raise UsageError(
                f"{path} is larger than {MAX_DATABASE_BYTES // 2**20} MB, so it was not read. "
                "Remove what you do not need with the program that wrote it."
            )
        with tempfile.TemporaryDirectory() as folder, closing(_connect(path, Path(folder))) as connection:
            limit_connection(connection, path.stat().st_size)
            connection.execute("BEGIN")
            yield ForeignDatabase(connection, path)
    except (apsw.Error, UnicodeError) as error:
        raise UsageError(f"{path} cannot be read: {error_text(error)}") from error
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}.") from error


def _connect(path: Path, folder: Path) -> apsw.Connection:
    log, shared = Path(f"{path}-wal"), Path(f"{path}-shm")
    if (log.exists() and shared.exists()) or not _uses_log(path):
        return open_read_only(path)
    return open_read_only(_copy(path, log, folder / path.name))


def _uses_log(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(_WAL_MODE_OFFSET + 1)[-1:] == b"\x02"


def _copy(path: Path, log: Path, target: Path) -> Path:
    """Copy a database and its log, if nobody changes them meanwhile."""
    for _ in range(_ATTEMPTS):
        before = _versions(path, log)
        shutil.copyfile(path, target)
        if before[1]:
            shutil.copyfile(log, f"{target}-wal")
        if _versions(path, log) == before:
            return target
    raise UsageError(f"{path} kept changing while it was read. Stop the program that writes it, then try again.")


def _versions(*paths: Path) -> list[tuple[int, int] | None]:
    return [_version(path) for path in paths]


def _version(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_size, found.st_mtime_ns
