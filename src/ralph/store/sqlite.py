"""SQLite behind the `Database` seam, through apsw.

Acknowledged means durable: write-ahead log, `synchronous=FULL`, and every
change in a `BEGIN IMMEDIATE`. Writers queue at a lock file first, because
SQLite's own waiting is unfair: with fifty writers some waited 15 seconds.
"""

from __future__ import annotations

import math
import os
import time

import apsw

from ralph.errors import RalphError, StatementRefused, StoreError, StoreTooNew

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import Any

    from ralph.store.database import Row

SCHEMA_VERSION = 2
APPLICATION_ID = 0x52414C50  # "RALP"
BUSY_MILLISECONDS = 30_000
TIDY_PAGES = 100
AUTOMERGE = 2
"""With so many parts of one size an index puts them together, as the schema says: few parts are quick to search."""
MOST_FOUND = 1_000

_INDEXES = {"journal": ("attempts", "journal_fts", 40), "memory": ("memory", "memory_fts", 60)}
"""Of each index: its table, its full-text table, and how many rows a search looks up for a word, newest first.

So the cost of a search stays the same as the table grows.
"""


def open_sqlite(path: str, *, create: bool = False) -> SqliteDatabase:
    """Open a database file, bringing its tables up to date first."""
    if not create and not os.path.exists(path):  # noqa: PTH110
        raise StoreError(f"The database {path} is missing. Make a new one with: ralph init")
    try:
        connection = apsw.Connection(path)
        _prepare(connection, path, create=create)
        database = SqliteDatabase(connection, path)
        if connection.pragma("user_version") < SCHEMA_VERSION:
            _migrate(connection, database, path)
    except apsw.Error as error:
        raise _explained(error, path) from error
    except UnicodeEncodeError:
        raise StoreError(f"The path {path!r} is not valid UTF-8, which SQLite needs. Rename the folder.") from None
    return database


def _prepare(connection: apsw.Connection, path: str, *, create: bool) -> None:
    connection.set_busy_timeout(BUSY_MILLISECONDS)
    # A database that is not ours to change must not even be tidied up when it is closed.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    if _version(connection, path) == 0 and (not create or connection.execute("SELECT 1 FROM sqlite_schema").fetchall()):
        connection.close()
        raise StoreError(f"{path} is empty or belongs to another program. Move it away and run: ralph init")
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "full")
    connection.pragma("foreign_keys", True)


def _version(connection: apsw.Connection, path: str) -> int:
    version = int(connection.pragma("user_version"))
    if version > SCHEMA_VERSION:
        connection.close()
        raise StoreTooNew(path, version, SCHEMA_VERSION)
    if version and connection.pragma("application_id") != APPLICATION_ID:
        connection.close()
        raise StoreError(f"{path} is a database of another program. Nothing was changed.")
    return version


def _migrate(connection: apsw.Connection, database: SqliteDatabase, path: str) -> None:
    from ralph.store.migrate import renew, scripts

    with database.transaction():
        version = _version(connection, path)  # another process may have been quicker
        if 0 < version < SCHEMA_VERSION:
            from ralph.store.backup import make_backup

            make_backup(path, f"before schema {SCHEMA_VERSION}")
        for script in scripts(version, "sqlite", "INTEGER PRIMARY KEY AUTOINCREMENT"):
            for _ in connection.execute(script):
                pass
        renew(database, version)
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", SCHEMA_VERSION)


def _explained(error: apsw.Error, path: str) -> RalphError:
    """Say in one sentence what is wrong with the file."""
    reasons = {
        apsw.FullError: "the disk is full. Free some space and run the command again",
        apsw.ReadOnlyError: "it is read-only. Check the permissions of the file and its folder",
        apsw.CantOpenError: "it cannot be opened. Check that the folder exists and may be written to",
        apsw.PermissionsError: "permission was denied. Check the permissions of the file and its folder",
        apsw.BusyError: "another program has held it for too long. Try again",
        apsw.NotADBError: "it is not a database. Bring a backup back with: ralph restore",
        apsw.CorruptError: "it is damaged. Bring a backup back with: ralph restore",
        apsw.IOError: f"the disk reported an error ({error})",
    }
    for kind, reason in reasons.items():
        if isinstance(error, kind):
            return StoreError(f"The database {path} cannot be used: {reason}.")
    return StatementRefused(f"The database {path} refused a statement: {error}.")


def _phrase(word: str) -> str:
    """Give a word the way no character of it means anything to FTS5."""
    return '"' + word.replace("\0", " ").replace('"', '""') + '"'


def _scores(holders: Mapping[str, list[int]], most: int, newest: int) -> dict[int, float]:
    """Give each row the share of the words' weight that it holds."""
    weights = {word: _weight(seqs, most, newest) for word, seqs in holders.items()}
    whole = sum(weights.values())
    scores: dict[int, float] = {}
    for word, seqs in holders.items():
        share = weights[word] / whole
        for seq in seqs:
            scores[seq] = scores.get(seq, 0.0) + share
    return scores


def _weight(newest_first: list[int], most: int, newest: int) -> float:
    """Give the weight of a word by how rare it is.

    Of a common word only the newest rows were looked up; how closely they lie together tells how common it is.
    """
    share = max(len(newest_first), 1) / newest
    if len(newest_first) == most:
        share = most / (newest - newest_first[-1] + 1)
    return math.log(1 + 1 / share)


class SqliteDatabase:
    """One connection to one SQLite file, for one thread."""

    skip_locked = ""  # writers take turns anyway
    like_any_case = "LIKE"
    now = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
    lease_end = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', :lease_seconds || ' seconds')"

    def __init__(self, connection: apsw.Connection, path: str) -> None:
        self.where = path
        self._connection = connection
        self._turn = Turn(connection, path)

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
            raise _explained(error, self.where) from error
        except UnicodeDecodeError as error:
            raise StoreError(f"The database {self.where} is damaged: it holds text that is none.") from error
        return rows

    def execute(self, sql: str, **values: object) -> int:
        """Run one statement and say how many rows it changed."""
        try:
            self._connection.execute(sql, values)
        except apsw.Error as error:
            raise _explained(error, self.where) from error
        return self._connection.changes()

    def execute_all(self, sql: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Run one statement once for each of the rows."""
        try:
            self._connection.executemany(sql, rows)
        except apsw.Error as error:
            raise _explained(error, self.where) from error

    def transaction(self) -> Turn:
        """Make everything inside one durable change, or none; inside another one it joins that one."""
        return self._turn

    def search(self, index: str, words: Sequence[str], limit: int, where: str, **values: object) -> list[Row]:
        """Give rows of an index's table that hold any of the words, best first, each with its `score`.

        The score is the share of the words' weight that a row holds, where rare words weigh more.
        SQLite's own ranking reads every posting of every word; this reads the newest few.
        """
        table, fts, most = _INDEXES[index]
        limit = min(limit, MOST_FOUND)
        rows, is_whole = self._best(table, fts, most, words, limit, where, values, narrow=False)
        if len(rows) < limit and not is_whole:
            # Too many of the newest rows are ruled out: rule them out first, which takes longer.
            rows, _ = self._best(table, fts, most, words, limit, where, values, narrow=True)
        return rows

    def _best(
        self,
        table: str,
        fts: str,
        most: int,
        words: Sequence[str],
        limit: int,
        where: str,
        values: Mapping[str, object],
        *,
        narrow: bool,
    ) -> tuple[list[Row], bool]:
        """Give the best rows, and whether every row with any of the words was looked at."""
        phrases = {f"w{n}": _phrase(word) for n, word in enumerate(dict.fromkeys(words))}
        if not phrases:
            return [], True
        source = f"{fts} AS f CROSS JOIN {table} AS r ON r.seq = f.rowid" if narrow else f"{fts} AS f"
        condition = f"AND {where}" if narrow else ""
        looked_up = " UNION ALL ".join(
            f"""SELECT '{name}', seq FROM (
                SELECT f.rowid AS seq FROM {source} WHERE {fts} MATCH :{name} {condition}
                ORDER BY f.rowid DESC LIMIT {most}
            )"""
            for name in phrases
        )
        holders: dict[str, list[int]] = {name: [] for name in phrases}
        for word, seq in self._tuples(looked_up, {**values, **phrases} if narrow else phrases):
            holders[word].append(seq)
        newest = self._tuples(f"SELECT MAX(seq) FROM {table}", {})[0][0] or 1
        scores = _scores(holders, most, newest)
        candidates = sorted(zip(scores.values(), scores, strict=True), reverse=True)[: 2 * limit]
        marks = ", ".join(f":s{n}" for n in range(2 * limit))  # always as many, so that it is prepared once
        seqs = {f"s{n}": candidates[n][1] if n < len(candidates) else None for n in range(2 * limit)}
        rows = self.query(f"SELECT r.* FROM {table} AS r WHERE r.seq IN ({marks}) AND {where}", **seqs, **values)
        for row in rows:
            row["score"] = scores[row["seq"]]
        rows.sort(key=lambda row: (-row["score"], -row["seq"]))
        is_whole = len(scores) <= 2 * limit and all(len(seqs) < most for seqs in holders.values())
        return rows[:limit], is_whole

    def _tuples(self, sql: str, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(sql, values).fetchall()
        except apsw.Error as error:
            raise _explained(error, self.where) from error

    def put_off_upkeep(self, is_bulk: bool) -> None:
        """Leave the upkeep of the memory index for later while many rows are added, and take it up again."""
        merge = 0 if is_bulk else AUTOMERGE
        self.execute("INSERT INTO memory_fts (memory_fts, rank) VALUES ('automerge', :merge)", merge=merge)

    def tidy(self, *, whole: bool = False) -> None:
        """Do a bounded bit of upkeep, or the whole of it: every part an index is in costs each search a look."""
        with self.transaction():
            for _, fts, _ in _INDEXES.values():
                if whole:
                    self.execute(f"INSERT INTO {fts} ({fts}) VALUES ('optimize')")
                    continue
                self.execute(f"INSERT INTO {fts} ({fts}, rank) VALUES ('merge', :pages)", pages=-TIDY_PAGES)

    def json_array(self, column: str) -> str:
        """Give the SQL that gathers a column of a group into one JSON array."""
        return f"json_group_array({column})"

    def close(self) -> None:
        """Let go of the connection."""
        self._turn.close()
        self._connection.close()


def _identity(path: str) -> tuple[int, int]:
    """Give what tells a file from another one at the same path."""
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


class Turn:
    """A transaction that first waits for its turn among all writers of the file."""

    def __init__(self, connection: apsw.Connection, path: str) -> None:
        self._connection = connection
        self._path = path
        self._queue: int | None = None
        self._depth = 0
        self._is_doomed = False
        self._file = _identity(path)

    def __enter__(self) -> None:
        if self._depth == 0:
            self._is_doomed = False
            self._wait()
            try:
                self._refuse_another_file()  # it may have been replaced while we waited
                self._connection.execute("BEGIN IMMEDIATE")
            except StoreError:
                self._leave()
                raise
            except apsw.Error as error:
                self._leave()
                raise _explained(error, self._path) from error
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        self._is_doomed = self._is_doomed or kind is not None
        if self._depth:
            return
        try:
            self._connection.execute("ROLLBACK" if self._is_doomed else "COMMIT")
        except apsw.Error as failed:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if kind is None:
                raise _explained(failed, self._path) from failed
        finally:
            self._leave()
        if self._is_doomed and kind is None:
            raise StatementRefused("A part of the change had failed, so none of it was made.")

    def _refuse_another_file(self) -> None:
        """Acknowledge nothing once the file at the path is not the one that was opened."""
        if _identity(self._path) != self._file:
            raise StoreError(f"The database {self._path} was moved or deleted while it was in use.")

    def _wait(self) -> None:
        """Queue at the lock file, but not for ever: whoever holds it may be stopped."""
        try:
            import fcntl
        except ImportError:  # not on this system: SQLite's own waiting has to do
            return
        deadline = time.monotonic() + BUSY_MILLISECONDS / 1000
        pause = 0.0005
        try:
            if self._queue is None:
                self._queue = os.open(self._path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            while time.monotonic() < deadline:
                try:
                    fcntl.flock(self._queue, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return
                except BlockingIOError:
                    time.sleep(pause)
                    pause = min(pause * 1.5, 0.01)
        except OSError:
            pass  # a folder that cannot be written to; BEGIN says so in better words

    def _leave(self) -> None:
        if self._queue is not None:
            import fcntl

            fcntl.flock(self._queue, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of the place in the queue."""
        if self._queue is not None:
            os.close(self._queue)
            self._queue = None
