"""SQLite behind the `Database` seam, through apsw.

Acknowledged means durable: write-ahead log, `synchronous=FULL`, and every
change in a `BEGIN IMMEDIATE`. Writers queue at a lock file first, because
SQLite's own waiting is unfair: with fifty writers some waited 15 seconds.
"""

from __future__ import annotations

import json
import os
import time

import apsw

from ralph.errors import (
    RalphError,
    StatementError,
    StoreError,
    StoreNotWritableError,
    StoreTooNewError,
    StoreUnavailableError,
)
from ralph.files import FULL, READ_ONLY, trouble_of_disk
from ralph.store.database import SCHEMA_VERSION, Found

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import Any

    from ralph.store.database import Row
    from ralph.store.queueing import Queue

APPLICATION_ID = 0x52414C50  # "RALP"
BUSY_MILLISECONDS = 30_000
LITTLE_MILLISECONDS = 1_000
TIDY_PAGES = 100
WATCH_SECONDS = 0.1
"""So often a watched file is looked at."""
AUTOMERGE = 2
"""With so many parts of one size an index puts them together, as the schema says: few parts are quick to search."""
TOGETHER = 20
"""So many rows are indexed in one statement. With more, the index ends in so few parts that what is added next
soon has to be put together with all of it."""
_TABLES = {"memory": "memory", "attempt": "attempts", "failure": "failures"}
"""The table behind each index."""
POSTINGS = 20_000
"""So many places where the words stand a search looks up at most, the telling words first.

So its cost stays the same as the table grows; SQLite's own ranking reads every place of every word.
"""
NARROW_POSTINGS = 100_000
"""So many at most when most of what is found is ruled out, by its kind for example, and has to be passed over."""
_NO_ROOM = f"{FULL}. Free some space, then try again"
_OF_DISKS = {FULL: _NO_ROOM, READ_ONLY: f"{READ_ONLY}. Make it writable, then try again"}
FEW = 64
"""Of every word at least so many, the newest."""
SIDECARS = ("-wal", "-shm", "-journal")
"""The endings of the files that SQLite has beside a database."""
LEAST_BYTES = 512
"""No database is smaller."""
QUEUE = ".lock"
"""The ending of the file that writers queue at, which holds the number of the newest change too."""


def open_sqlite(path: str, *, create: bool = False, may_only_read: bool = False) -> SqliteDatabase:
    """Open a database file, bringing its tables up to date first.

    Where the disk takes nothing, and that `may_only_read`, what is there can still be read.
    """
    if not create and not os.path.exists(path):  # noqa: PTH110
        raise StoreError(f"The database {path} is missing. Make a new one with: ralph init")
    if name := not_plain(path):
        raise StoreError(f"{name} is no plain file, so the database is not opened. Move it away and try again.")
    _refuse_emptied(path, create=create)
    try:
        connection = None
        connection = apsw.Connection(path)
        _prepare(connection, path, create=create, waits=not (may_only_read and trouble_of_disk(path)))
        database = SqliteDatabase(connection, path)
        if connection.pragma("user_version") < SCHEMA_VERSION:
            _migrate(connection, database, path)
    except apsw.Error as error:
        told = explained(error, path)
        if may_only_read and isinstance(told, StoreNotWritableError):
            from ralph.store.reading import open_to_read

            if connection is not None:
                connection.close()  # it would stand in its own way
            return open_to_read(path, told)
        raise told from error
    except UnicodeEncodeError:
        raise StoreError(f"The path {path!r} is not valid UTF-8, which SQLite needs. Rename the folder.") from None
    return database


def _refuse_emptied(path: str, *, create: bool) -> None:
    """Refuse a file that was cut to nothing: SQLite would delete the log beside it, which may hold all there was."""
    try:
        is_empty = os.stat(path).st_size < LEAST_BYTES  # noqa: PTH116
        has_log = is_empty and os.path.exists(f"{path}-wal")  # noqa: PTH110
    except (OSError, ValueError):
        return  # told in better words below
    if is_empty and (has_log or not create):
        raise StoreError(
            f"The database {path} is empty. Bring a backup back with: ralph restore. "
            "If there never was anything in it, move it away and run: ralph init"
        )


def not_plain(path: str) -> str:
    """Give the first file of a database that is no plain one, if there is any: SQLite would wait for ever at a pipe."""
    import stat

    for one, look in ((path, os.stat), *((path + end, os.lstat) for end in SIDECARS)):
        try:
            if not stat.S_ISREG(look(one).st_mode):
                return one
        except OSError:
            continue
    return ""


def _prepare(connection: apsw.Connection, path: str, *, create: bool, waits: bool) -> None:
    # Where the disk takes nothing, others who read may have it locked for long.
    connection.set_busy_timeout(BUSY_MILLISECONDS if waits else LITTLE_MILLISECONDS)
    # A database that is not ours to change must not even be tidied up when it is closed.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    if _version(connection, path) == 0 and (not create or connection.execute("SELECT 1 FROM sqlite_schema").fetchall()):
        connection.close()
        raise StoreError(f"{path} is empty or belongs to another program. Move it away and run: ralph init")
    if lost := lost_changes(connection, path):
        connection.close()
        raise StoreError(f"The database {path} {lost_words(lost)}. Go on with what is left: ralph restore")
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


def lost_changes(connection: apsw.Connection, path: str) -> int:
    """Give how many changes less a file holds than were noted beside it when they were made."""
    try:
        id, noted, against, identity, *_ = _noted(path).split()
        # Only now: others may write on, and the file is never older than what was noted before.
        rows: list[Any] = connection.execute("SELECT changes FROM writing WHERE id = ?", (id,)).fetchall()
        if int(noted) != -int(against) or identity != _noted_identity(path) or not rows:
            return 0  # of another file that was here
        return max(0, int(noted) - int(rows[0][0]))
    except (OSError, ValueError, apsw.SQLError):
        return 0  # nothing was noted yet, or the file is of an older version


def lost_words(lost: int) -> str:
    """Say of a file that it has lost so many changes."""
    changes = "change that was" if lost == 1 else f"{lost:,} changes that were"
    why = "its write-ahead log is gone or damaged, or an older copy was put in its place"
    return f"has lost the last {changes} written to it: {why}"


def _noted(path: str) -> str:
    """Give what was noted beside a database; a link is not followed, and a pipe not waited for."""
    file = os.open(
        path + QUEUE, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    )
    try:
        return os.read(file, 200).decode()
    finally:
        os.close(file)


def _noted_identity(path: str) -> str:
    return "{}:{}".format(*_identity(path))


def _migrate(connection: apsw.Connection, database: SqliteDatabase, path: str) -> None:
    from ralph.store.migrate import renew, scripts

    with database.transaction():
        version = _version(connection, path)  # another process may have been quicker
        if 0 < version < SCHEMA_VERSION:
            from ralph.store.backup import make_backup

            make_backup(path, f"before schema {SCHEMA_VERSION}")
        for script in scripts(version, "sqlite"):
            for _ in connection.execute(script):
                pass
        renew(database, version)
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", SCHEMA_VERSION)


def explained(error: apsw.Error, path: str) -> RalphError:
    """Say in one sentence what is wrong with the file."""
    reasons = {
        apsw.FullError: (StoreNotWritableError, _NO_ROOM),
        apsw.ReadOnlyError: (
            StoreNotWritableError,
            "it is read-only. Check the permissions of the file and its folder",
        ),
        apsw.CantOpenError: (StoreNotWritableError, "it cannot be opened. Check that the folder may be written to"),
        apsw.PermissionsError: (StoreError, "permission was denied. Check the permissions of the file and its folder"),
        apsw.BusyError: (StoreUnavailableError, "another program has held it for too long. Try again"),
        apsw.NotADBError: (StoreError, "it is not a database. Bring a backup back with: ralph restore"),
        apsw.CorruptError: (StoreError, "it is damaged. Bring a backup back with: ralph restore"),
        apsw.IOError: (StoreNotWritableError, f"the disk reported an error ({error}). Check it, then try again"),
    }
    if any(sign in str(error) for sign in ("fts5: corrupt", "invalid fts5", "vtable constructor")):
        return StoreError(f"The search index in {path} is damaged. Make it anew with: ralph doctor --reindex")
    for kind, (told, reason) in reasons.items():
        if isinstance(error, kind):
            if told is StoreNotWritableError:
                # SQLite says only which step failed.
                reason = _OF_DISKS.get(trouble_of_disk(os.path.dirname(path) or "."), reason)  # noqa: PTH120
            return told(f"The database {path} cannot be used: {reason}.")
    return StatementError(f"The database {path} refused a statement: {error}.")


def _phrase(word: str) -> str:
    """Give a word the way FTS5 takes it for one, whatever it holds; one with other signs is in no index."""
    if word.isalnum():
        return f'"{word}"'
    kept = "".join(sign if sign.isalnum() or sign in "_.-" or sign > "\x7f" else "_" for sign in word)
    return f'"{kept.encode("utf-8", "replace").decode()}"'


class _Held:
    """The newest rows that hold a word, and whether those are all."""

    __slots__ = ("_span", "is_whole", "seqs")

    def __init__(self, seqs: list[int], is_whole: bool, span: int) -> None:
        """`span` is how far apart the first and the last row of all are."""
        self.seqs = seqs
        self.is_whole = is_whole
        self._span = span

    def count(self, total: int) -> int:
        """Give in how many rows the word is; when not all were looked up, how closely they lie together tells it."""
        if self.is_whole or not self.seqs:
            return len(self.seqs)
        return min(total, len(self.seqs) * self._span // (self.seqs[0] - self.seqs[-1] + 1))


def _few_enough(held_by: Mapping[str, int], words: Mapping[str, float]) -> dict[str, float]:
    """Give the rarest words, as many as can be read to their end."""
    left = NARROW_POSTINGS
    found: dict[str, float] = {}
    for word in sorted(words, key=held_by.__getitem__):
        left -= held_by[word]
        if left < 0 and found:
            break
        found[word] = words[word]
    return found


def _heaviest(holders: Mapping[str, _Held], words: Mapping[str, float], total: int, most: int) -> list[int]:
    from ralph.store.postings import heaviest

    found = {word: held.seqs for word, held in holders.items()}
    held_by = {word: held.count(total) for word, held in holders.items()}
    return heaviest(found, held_by, words, total, most)


def _lease_end(*values: Any) -> str:
    from ralph.store.leases import lease_end

    return lease_end(values[0])


def _lease_is_over(*values: Any) -> bool:
    from ralph.store.leases import is_over

    return is_over(values[0])


class SqliteDatabase:
    """One connection to one SQLite file, for one thread."""

    skip_locked = for_update = ""  # writers take turns anyway
    row = "seq"
    is_server = False
    like_any_case = "LIKE"
    seq_key = "seq"
    lease_end = "lease_end(:lease_seconds)"
    lease_is_over = "lease_is_over(lease_until)"

    def __init__(self, connection: apsw.Connection, path: str, hindrance: StoreError | None = None) -> None:
        """`hindrance` is what keeps everybody from writing, if anything does."""
        self.where = path
        self.hindrance = hindrance
        self._connection = connection
        self._turn = Turn(connection, path, hindrance)
        connection.create_scalar_function("lease_end", _lease_end, 1)
        connection.create_scalar_function("lease_is_over", _lease_is_over, 1)

    def query(self, sql: str, **values: object) -> list[Row]:
        """Run one statement and give its rows by column name."""
        try:
            cursor = self._connection.execute(sql, values)
            rows: list[Row] = []
            names: tuple[str, ...] = ()
            for row in cursor:
                names = names or tuple(column[0] for column in cursor.get_description())
                rows.append(dict(zip(names, row, strict=True)))
        except apsw.Error as error:
            raise explained(error, self.where) from error
        except UnicodeDecodeError as error:
            raise StoreError(
                f"The database {self.where} is damaged: it holds text that is none. "
                "Bring a backup back with: ralph restore"
            ) from error
        return rows

    def execute(self, sql: str, **values: object) -> int:
        """Run one statement and say how many rows it changed."""
        try:
            self._connection.execute(sql, values)
        except apsw.Error as error:
            raise explained(error, self.where) from error
        return self._connection.changes()

    def execute_all(self, sql: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Run one statement once for each of the rows."""
        try:
            self._connection.executemany(sql, rows)
        except apsw.Error as error:
            raise explained(error, self.where) from error

    def insert_many(self, table: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Add many rows with the same columns."""
        if not rows:
            return
        marks = ", ".join(f":{name}" for name in rows[0])
        self.execute_all(f"INSERT INTO {table} ({', '.join(rows[0])}) VALUES ({marks})", rows)

    def transaction(self, project_id: str = "") -> Turn:
        """Make everything inside one durable change, or none; inside another one it joins that one."""
        return self._turn

    def snapshot(self) -> Snapshot:
        """Read everything inside as it is at one moment, while others write on."""
        return Snapshot(self._connection, self.where)

    def take_time(self) -> None:
        """Do nothing: a transaction lasts until it ends."""

    def claiming(self) -> Turn:
        """Do what `transaction` does: all writers of a file take turns."""
        return self._turn

    def single(self) -> Turn:
        """Do what `transaction` does: all writers of a file take turns."""
        return self._turn

    def announce(self, project_id: str, topic: str) -> None:
        """Do nothing: who watches sees that the file has changed."""

    def watch(self, project_id: str, *topics: str) -> Watch:
        """Give what waits until anybody changes the file."""
        return Watch(self.where)

    def rest(self) -> None:
        """Keep the file open: that costs nobody anything."""

    def look_up(self, index: str, words: Mapping[str, float], limit: int, where: str, **values: object) -> Found:
        """Give rows that hold the words, those with the most of their weight first, and how rare each word is."""
        table = _TABLES[index]
        # Both ends in one would read the whole table.
        ends = f"""
            SELECT (SELECT MIN(seq) FROM {index}_words), (SELECT MAX(seq) FROM {index}_words),
                EXISTS (SELECT 1 FROM projects WHERE id <> :project_id)
        """
        first, newest, has_others = self._tuples(ends, values)[0]
        total = newest - first + 1 if newest is not None else 0
        source, own = f"{index}_index AS f", ""
        if has_others:
            # The index holds the words of all projects: how rare one is here, only the rows of this one tell.
            ends = f"SELECT MIN(seq), MAX(seq), COUNT(*) FROM {table} WHERE project_id = :project_id"
            first, newest, total = self._tuples(ends, values)[0]
            source, own = f"{source} CROSS JOIN {table} AS r ON r.seq = f.rowid", "AND r.project_id = :project_id"
        if not total or not words:
            return Found([], {}, 0)
        span = newest - first + 1
        holders = self._holders(f"{source} WHERE {index}_index MATCH :word {own}", words, total, span, values)
        held_by = {word: held.count(total) for word, held in holders.items()}
        best = _heaviest(holders, words, total, 2 * limit)
        rows = self._rows(index, table, best, where, values)
        is_whole = len(best) < 2 * limit and all(held.is_whole for held in holders.values())
        if len(rows) < limit and not is_whole:
            # Too many of the newest are ruled out: rule them out first, which takes longer.
            source = f"{index}_index AS f CROSS JOIN {table} AS r ON r.seq = f.rowid"
            few = _few_enough(held_by, words)
            holders = self._holders(f"{source} WHERE {index}_index MATCH :word AND {where}", few, total, span, values)
            more = self._rows(index, table, _heaviest(holders, few, total, limit), where, values)
            rows = list({row["seq"]: row for row in (*rows, *more)}.values())
        return Found(rows[:limit], held_by, total)

    def _holders(
        self, source: str, words: Mapping[str, float], total: int, span: int, values: Mapping[str, object]
    ) -> dict[str, _Held]:
        """Give the newest rows that hold each word; of the telling words all, as far as there is room."""
        from ralph.memory.words import rarity

        sql = f"SELECT f.rowid FROM {source} ORDER BY f.rowid DESC LIMIT :most"
        found = {word: self._held(sql, word, FEW, span, values) for word in words}
        left = POSTINGS - sum(len(held.seqs) for held in found.values())
        cut_off = [word for word, held in found.items() if not held.is_whole]
        cut_off.sort(key=lambda word: -words[word] * rarity(found[word].count(total), total))
        for word in cut_off:
            if left <= 0:
                break
            found[word] = self._held(sql, word, left + FEW, span, values)
            left -= len(found[word].seqs) - FEW
        return found

    def _held(self, sql: str, word: str, most: int, span: int, values: Mapping[str, object]) -> _Held:
        seqs = [seq for (seq,) in self._tuples(sql, {**values, "word": _phrase(word), "most": most})]
        return _Held(seqs, len(seqs) < most, span)

    def _rows(self, index: str, table: str, seqs: Sequence[int], where: str, values: Mapping[str, object]) -> list[Row]:
        """Give rows by their numbers, in that order, with the words they are indexed by."""
        return self.query(
            f"""
            SELECT r.*, w.title AS title_words, w.body AS body_words, w.paths AS path_words, w.tags AS tag_words
            FROM json_each(:seqs) AS s CROSS JOIN {table} AS r ON r.seq = s.value
                CROSS JOIN {index}_words AS w ON w.seq = r.seq
            WHERE {where} ORDER BY s.key
            """,
            seqs=f"[{','.join(map(str, seqs))}]",
            **values,
        )

    def rows(self, index: str, seqs: Sequence[int], where: str, **values: object) -> list[Row]:
        """Give rows of an index by their numbers, with the words they are indexed by."""
        return self._rows(index, _TABLES[index], seqs, where, values) if seqs else []

    def _tuples(self, sql: str, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(sql, values).fetchall()
        except apsw.Error as error:
            raise explained(error, self.where) from error

    def clear_indexes(self, project_id: str) -> str:
        """Take the indexes away, whatever is wrong with them: all projects of a file share them."""
        from ralph.store.migrate import make_index_tables, remove_indexes

        remove_indexes(self)
        make_index_tables(self)
        return ""

    def add_words(self, index: str, rows: Sequence[Row]) -> None:
        """Index many rows that are not indexed yet by their words.

        FTS5 writes out what it has gathered before each statement, so one for several rows takes half the time.
        """
        columns = ("project_id", "seq", "version", "title", "body", "paths", "tags")
        values = ", ".join(f"value ->> {place}" for place in range(len(columns)))
        sql = f"INSERT INTO {index}_words ({', '.join(columns)}) SELECT {values} FROM json_each(:rows)"
        for start in range(0, len(rows), TOGETHER):
            part = [[row[name] for name in columns] for row in rows[start : start + TOGETHER]]
            self.execute(sql, rows=json.dumps(part, ensure_ascii=False))

    def renew_indexes(self) -> None:
        """Make what the database keeps of the indexes anew, when their words were removed."""
        from ralph.store.migrate import make_indexes

        make_indexes(self)
        for index in _TABLES:
            self.execute(f"INSERT INTO {index}_index ({index}_index) VALUES ('rebuild')")

    def reserve(self, table: str, column: str, until: int) -> None:
        """Give no number up to this one to a new row any more."""
        if not self.execute("UPDATE sqlite_sequence SET seq = MAX(seq, :n) WHERE name = :name", n=until, name=table):
            self.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :n)", n=until, name=table)

    def put_off_upkeep(self, is_bulk: bool) -> None:
        """Leave the upkeep of the memory index for later while many rows are added, and take it up again."""
        merge = 0 if is_bulk else AUTOMERGE
        self.execute("INSERT INTO memory_index (memory_index, rank) VALUES ('automerge', :merge)", merge=merge)

    def tidy(self, *, whole: bool = False) -> None:
        """Do a bounded bit of upkeep, or the whole of it: every part an index is in costs each search a look."""
        with self.transaction():
            for name in (f"{index}_index" for index in _TABLES):
                if whole:
                    self.execute(f"INSERT INTO {name} ({name}) VALUES ('optimize')")
                    continue
                self.execute(f"INSERT INTO {name} ({name}, rank) VALUES ('merge', :pages)", pages=-TIDY_PAGES)

    def json_list(self, column: str, source: str) -> str:
        """Give the SQL that gathers a column of what is found in a source into one JSON list."""
        return f"(SELECT json_group_array({column}) FROM {source})"

    def close(self) -> None:
        """Let go of the connection."""
        self._turn.close()
        self._connection.close()


class Watch:
    """Waits until somebody else changes the file."""

    def __init__(self, path: str) -> None:
        try:
            self._connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
            self._seen = self._connection.pragma("data_version")
        except apsw.Error as error:
            raise explained(error, path) from error

    def wait(self, seconds: float) -> bool:
        """Give True as soon as something changed; False when nothing did for so long."""
        deadline = time.monotonic() + seconds
        try:
            while (found := self._connection.pragma("data_version")) == self._seen:
                if (left := deadline - time.monotonic()) <= 0:
                    return False
                time.sleep(min(left, WATCH_SECONDS))
        except apsw.Error:  # whoever waits looks now and then without being woken, too
            time.sleep(max(0.0, deadline - time.monotonic()))
            return False
        self._seen = found
        return True

    def close(self) -> None:
        """Stop watching."""
        self._connection.close()


def _identity(path: str) -> tuple[int, int]:
    """Give what tells a file from another one at the same path."""
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


class Snapshot:
    """A transaction that only reads."""

    def __init__(self, connection: apsw.Connection, path: str) -> None:
        self._connection = connection
        self._path = path
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


class Turn:
    """A transaction that first waits for its turn among all writers of the file."""

    def __init__(self, connection: apsw.Connection, path: str, hindrance: StoreError | None = None) -> None:
        self._connection = connection
        self._path = path
        self._hindrance = hindrance
        self._queue: Queue | None = None
        self._depth = 0
        self._is_doomed = False
        self._file = _identity(path)
        self._log = (0, 0)
        self._changes = 0

    def __enter__(self) -> None:
        if self._hindrance:
            raise self._hindrance
        if self._depth == 0:
            self._is_doomed = False
            self._wait()
            try:
                self._refuse_another_file()  # it may have been replaced while we waited
                self._connection.execute("BEGIN IMMEDIATE")
                self._refuse_another_file()  # or while we waited for whoever went without a turn
                self._log = self._log if self._log[1] else _identity(f"{self._path}-wal")
                self._changes = self._connection.total_changes()
            except StoreError:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                self._leave()
                raise
            except apsw.Error as error:
                self._leave()
                raise explained(error, self._path) from error
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        self._is_doomed = self._is_doomed or kind is not None
        if self._depth:
            return
        try:
            noted = b"" if self._is_doomed else self._counted()
            self._connection.execute("ROLLBACK" if self._is_doomed else "COMMIT")
            if noted and self._queue is not None:
                self._queue.note(noted)
        except apsw.Error as failed:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if kind is None:
                raise explained(failed, self._path) from failed
        finally:
            self._leave()
        if self._is_doomed and kind is None:
            raise StatementError("A part of the change had failed, so none of it was made.")

    def _counted(self) -> bytes:
        """Count a change, unless nothing was changed; give what to note beside the file once it is made."""
        if self._connection.total_changes() == self._changes:
            return b""
        try:
            sql = "UPDATE writing SET changes = changes + 1, against = -(changes + 1) RETURNING id, changes"
            rows: list[Any] = self._connection.execute(sql).fetchall()
        except apsw.SQLError:  # of an older version
            return b""
        return b"".join(f"{id} {n:020d} {-n:020d} {'{}:{}'.format(*self._file)}\n".encode() for id, n in rows[:1])

    def _refuse_another_file(self) -> None:
        """Acknowledge nothing once the file at the path is not the one that was opened, nor its log."""
        if _identity(self._path) != self._file or (self._log[1] and _identity(f"{self._path}-wal") != self._log):
            raise StoreError(f"The database {self._path} was moved or deleted while it was in use.")

    def _wait(self) -> None:
        """Queue, but not for ever: whoever is at work may be stopped."""
        try:
            if self._queue is None:
                from ralph.store.queueing import Queue

                self._queue = Queue(self._path)
            self._queue.enter(BUSY_MILLISECONDS / 1000)
        except ImportError:  # not on this system: SQLite's own waiting has to do
            pass
        except OSError:
            pass  # a folder that cannot be written to; BEGIN says so in better words

    def _leave(self) -> None:
        if self._queue is not None:
            self._queue.leave()

    def close(self) -> None:
        """Let go of the place in the queue."""
        if self._queue is not None:
            self._queue.close()
            self._queue = None
