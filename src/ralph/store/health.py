"""What is wrong with a database file, or with a project on a server, if anything.

The file is only read, and nothing in it is mended: a damaged one must stay as it is,
so that all that is still in it can be saved.
"""

from __future__ import annotations

import errno
import re
import stat
from contextlib import closing
from pathlib import Path

import apsw

from ralph.errors import RalphError, StoreUnavailableError
from ralph.records import record
from ralph.store.database import CHECKED_TABLES, SCHEMA_VERSION, SINCE, is_right
from ralph.store.migrate import entries, own_entries, search_indexes
from ralph.store.sqlite import (
    APPLICATION_ID,
    BUSY_MILLISECONDS,
    LEAST_BYTES,
    SqliteDatabase,
    lost_changes,
    lost_words,
    not_plain,
)
from ralph.text import clean, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ralph.store import Store
    from ralph.store.database import Database, Row, Scope
    from ralph.store.index import Compared

MOST_PROBLEMS = 20
SHOWN_ROWS = 5
PAGE = 500
UNREAD, NEWER = "It cannot be read", "written by a newer Ralph"
"""How the problems begin, or what is in them, that are not damage for sure."""
SUM = ".sha256"
"""The ending of the file next to a backup that holds the SHA-256 of it."""
_FOUND = {
    "memory": ("memory", "memories"),
    "attempt": ("journal entry", "journal entries"),
    "failure": ("failure report", "failure reports"),
}
"""What the rows of an index are called, one and many."""
_NAMED = ("memory", "tasks", "features", "sessions")
"""Tables whose rows people know by an id."""
_OF_AN_INDEX = re.compile(r"(?:memory|attempt|failure)_(?:words|index)|memory_files|fts5|search index")
_OF_WORK = re.compile(
    r"missing from index (memory_vectors|attempt_sums|attempt_summed|synced_places|synced_files|synced_entries)_twin"
)
"""A value that is worked out anew when it is gone, and no longer is what its twin says."""
_OF_MORE = re.compile(" checksum: |malformed database schema")
"""What names a row may name anything; and a malformed schema keeps SQLite from all of the file."""


@record
class Health:
    """What is wrong with what is stored, one sentence each; nothing when it is sound."""

    problems: tuple[str, ...] = ()
    outdated: str = ""
    """How much is indexed by the rules of another version: it is found, only not as well as it could be."""
    lost_changes: int = 0
    """How many changes were made to the file that are not in it any more; it may be sound without them."""

    @property
    def is_only_behind(self) -> bool:
        """Say whether the file is sound, and has only lost what was last written to it."""
        return bool(self.lost_changes) and len(self.problems) == 1


@record
class About:
    """What sort of database it is."""

    database: str
    version: str
    schema: int
    pgvector: str = ""
    """Its version; empty when it is not used to compare vectors."""
    can_have_pgvector: bool = False
    """It is on the server, used or not."""


def about(database: Database) -> About:
    """Say what sort of database it is."""
    if not database.is_server:
        return About(database="sqlite", version=apsw.sqlite_lib_version(), schema=SCHEMA_VERSION)
    row = database.query(
        """
        SELECT current_setting('server_version') AS version, (SELECT MAX(version) FROM ralph_schema) AS schema,
            (SELECT MAX(e.extversion) FROM pg_extension AS e JOIN pg_attribute AS a
                ON a.attrelid = to_regclass('memory_vectors') AND a.attname = 'near' AND NOT a.attisdropped
                WHERE e.extname = 'vector') AS pgvector,
            (SELECT COUNT(*) FROM pg_available_extensions WHERE name = 'vector') AS available
        """
    )[0]
    return About(
        database="postgresql",
        version=row["version"].partition(" ")[0],
        schema=row["schema"],
        pgvector=row["pgvector"] or "",
        can_have_pgvector=bool(row["available"]),
    )


def is_of_an_index(problem: str) -> bool:
    """Say whether a problem is of the search indexes alone, or of what else can be made anew from the texts."""
    return bool(_OF_AN_INDEX.search(problem) or _OF_WORK.search(problem)) and not _OF_MORE.search(problem)


def worked_out_wrong(path: str) -> set[str]:
    """Give the tables of a file with values that are not what they were, and can be worked out anew."""
    found = (_OF_WORK.search(problem) for problem in check(path).problems)
    return {match[1] for match in found if match}


def check(path: str, *, deep: bool = False) -> Health:
    """Say what is wrong with a database file, which is not changed; `deep` also compares the search indexes."""
    parts = [_foreign, _structure, _definitions_differ, _miscounted, _broken_links, _broken_rows, _broken_texts]
    parts += [_broken_indexes] if deep else []
    problems: list[str] = []
    compared: dict[str, Compared | None] = {}
    lost = 0
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            return Health(problems=("It is not a file.",))
        problems += _digest_differs(Path(path))
        with closing(open_read_only(Path(path))) as connection:
            lost = lost_changes(connection, path)
            problems += _lost_log(lost)
            connection.execute("BEGIN")  # all parts see the same moment
            for part in parts:
                try:
                    problems += part(connection)
                except (apsw.Error, UnicodeError) as error:
                    problems.append(f"It is damaged: {said(error)}")
            if deep and connection.pragma("user_version") == SCHEMA_VERSION:
                compared = _compare(SqliteDatabase(connection, "it"))
    except (OSError, apsw.Error, UnicodeError) as error:
        problems.append(f"{UNREAD}: {said(error)}")
    problems += _wrong_words(compared)
    return Health(problems=tuple(dict.fromkeys(problems)), outdated=_outdated(compared), lost_changes=lost)


def check_store(store: Store, *, deep: bool = False) -> Health:
    """Say what is wrong with what a store is in: the whole file, or its own project on a server."""
    if not store.is_shared:
        return check(store.database.where, deep=deep)
    with store.database.snapshot():
        return check_rows(store.scope, deep=deep)


def check_rows(scope: Scope, *, deep: bool = False) -> Health:
    """Say which rows of a project do not match their checksums; `deep` also compares the search indexes."""
    problems: list[str] = []
    for table in CHECKED_TABLES:
        wrong = _wrong_rows(scope, table)
        if wrong:
            problems.append(_unlike_checksum(table, wrong))
    compared = _compare(scope.database, scope.project_id) if deep else {}
    problems += _wrong_words(compared)
    return Health(problems=tuple(problems), outdated=_outdated(compared))


def _wrong_rows(scope: Scope, table: str) -> list[str]:
    """Give what to call the rows that do not match their checksums."""
    last = 0
    wrong: list[str] = []
    while rows := scope.query(
        f"SELECT * FROM {table} WHERE project_id = :project_id AND seq > :last ORDER BY seq LIMIT {PAGE}", last=last
    ):
        last = rows[-1]["seq"]
        wrong += [
            one_line(clean(str(row["id"])), 40) if table in _NAMED else str(row["seq"])
            for row in rows
            if not is_right(row)
        ]
    return wrong


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
    if name := not_plain(str(path)):
        raise OSError(errno.EINVAL, "It is no plain file", name)
    if path.exists() and path.stat().st_size < LEAST_BYTES:
        raise apsw.NotADBError("it is empty")  # SQLite would delete the log beside it, which may hold all there was
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


def _lost_log(lost: int) -> Iterator[str]:
    if lost:
        yield f"It {lost_words(lost)}."


def _foreign(connection: apsw.Connection) -> Iterator[str]:
    version = int(connection.pragma("user_version"))
    if version == 0 or connection.pragma("application_id") != APPLICATION_ID:
        yield "It is empty or belongs to another program."
    elif not 0 < version <= SCHEMA_VERSION:
        yield f"It was {NEWER} (schema {version}, this program knows {SCHEMA_VERSION}): upgrade ralph."


def _structure(connection: apsw.Connection) -> Iterator[str]:
    for (found,) in connection.execute(f"PRAGMA integrity_check({MOST_PROBLEMS})"):
        if found != "ok":
            yield f"Its structure is damaged: {one_line(clean(str(found)))}."


def _definitions_differ(connection: apsw.Connection) -> Iterator[str]:
    if connection.pragma("user_version") == SCHEMA_VERSION:
        there = entries(connection)
        for name, text in own_entries().items():
            if there.get(name) != text:
                yield f"The definition of {name} is {'damaged' if name in there else 'missing'}."


def _miscounted(connection: apsw.Connection) -> Iterator[str]:
    # SQLite leaves out what tables demand of their rows when it may only read.
    if connection.pragma("user_version") >= SINCE["writing"]:
        rows = connection.execute("SELECT changes = -against FROM writing").fetchall()
        if rows != [(1,)]:
            yield "The count of its changes, in writing, is damaged."


def _broken_links(connection: apsw.Connection) -> Iterator[str]:
    counts: dict[tuple[str, str], int] = {}
    for table, _, other, _ in connection.execute("PRAGMA foreign_key_check"):
        counts[table, other] = counts.get((table, other), 0) + 1
    for (table, other), count in counts.items():
        yield f"In {table}, {count} {'row names' if count == 1 else 'rows name'} a row of {other} that is not there."


def _broken_rows(connection: apsw.Connection) -> Iterator[str]:
    version = int(connection.pragma("user_version"))
    for table in CHECKED_TABLES:
        if version < SINCE.get(table, 0):
            continue
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
            yield _unlike_checksum(table, list(wrong.values()))


def _unlike_checksum(table: str, names: Sequence[str]) -> str:
    shown = ", ".join(names[:SHOWN_ROWS]) + (", …" if len(names) > SHOWN_ROWS else "")
    return f"{_counted(table, len(names))} checksum: {shown}."


def _name(connection: apsw.Connection, table: str, seq: int) -> str:
    """Give what to call a row: by its id where it has one that can still be read."""
    if table in _NAMED:
        try:
            for (id,) in connection.execute(f"SELECT id FROM {table} WHERE seq = ?", (seq,)):
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


def _broken_indexes(connection: apsw.Connection) -> Iterator[str]:
    # SQLite wants to write for this, so it gets a copy of its own that is gone when it is closed.
    with closing(apsw.Connection("")) as copy:
        with copy.backup("main", connection, "main") as work:
            work.step()
        copy.execute("DELETE FROM attempts WHERE notes = ''")  # these are in no index, on purpose
        for name in search_indexes(copy):
            try:
                copy.execute(f"INSERT INTO {name} ({name}, rank) VALUES ('integrity-check', 1)")
            except apsw.Error:
                yield f"The search index {name} does not match its table."


def _compare(database: Database, project_id: str = "") -> dict[str, Compared | None]:
    """Give how each index stands to its texts; None of one that cannot be read."""
    from ralph.store.index import compare

    compared: dict[str, Compared | None] = {}
    for index in _FOUND:
        try:
            compared[index] = compare(database, index, project_id)
        except StoreUnavailableError:
            raise
        except RalphError:
            compared[index] = None
    return compared


def _wrong_words(compared: Mapping[str, Compared | None]) -> Iterator[str]:
    for index, found in compared.items():
        one, many = _FOUND[index]
        if found is None:
            yield f"The search index of {many} cannot be read."
            continue
        if found.missing:
            yield f"{_are(found.missing, one, many)} not in the search index."
        if found.wrong:
            yield f"{_are(found.wrong, one, many)} in the search index with words of another text."
        if found.misfiled:
            yield f"{_are(found.misfiled, one, many)} in the search index with files of another text."


def _outdated(compared: Mapping[str, Compared | None]) -> str:
    counts = {index: found.outdated for index, found in compared.items() if found and found.outdated}
    parts = [f"{count:,} {_FOUND[index][count > 1]}" for index, count in counts.items()]
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def _are(count: int, one: str, many: str) -> str:
    return f"{count:,} {one} is" if count == 1 else f"{count:,} {many} are"
