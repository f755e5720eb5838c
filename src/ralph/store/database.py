"""Database interface: SQL with named parameters in, rows out.

SQL is written once, in the subset that SQLite and PostgreSQL share. Where they differ (locking, clock, full-text
search), the interface has a member that each database implements.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any, Protocol

    from ralph.core.errors import StoreError

    Row = dict[str, Any]

    class Database(Protocol):
        """One connection to one database, for one thread."""

        display_url: str
        """Path or URL to show in messages, without the password."""
        skip_locked: str
        """SQL that ends a subquery which picks a row to claim, so that concurrent claims never wait for each other."""
        row_key: str
        """Column that identifies a row within one statement."""
        for_update: str
        """SQL that ends a query whose rows must stay locked until the end of the transaction, even against claims."""
        is_server: bool
        """Whether several machines may use the database."""
        write_error: StoreError | None
        """Error that is raised on every write; None if the database is writable as far as is known."""
        lease_end: str
        """SQL expression for a lease of `:lease_seconds` from now. Its value starts with the expiry as a timestamp."""
        lease_expired: str
        """SQL condition for an expired `lease_until`, by a clock that all users of the database share."""
        word_key: str
        """Columns of the primary key of the word tables."""
        ilike: str
        """Operator for a case-insensitive LIKE."""

        @property
        def words(self) -> WordIndex:
            """Word index of the database."""

        def query(self, sql: str, **values: object) -> list[Row]:
            """Run a statement and return its rows as dictionaries."""

        def execute(self, sql: str, **values: object) -> int:
            """Run a statement and return the number of rows it changed."""

        def execute_many(self, sql: str, rows: Sequence[Mapping[str, object]]) -> None:
            """Run a statement once per row."""

        def insert_many(self, table: str, rows: Sequence[Mapping[str, object]]) -> None:
            """Insert rows with the same columns in as few statements as possible."""

        def transaction(self, project_id: str = "") -> AbstractContextManager[None]:
            """Run the block in one transaction, or join the transaction that is open.

            Writers of a project are serialized: what the block reads still holds when it writes.
            """

        def snapshot(self) -> AbstractContextManager[None]:
            """Run the block in a read-only transaction with a consistent view, or join the transaction that is open."""

        def extend_idle_timeout(self) -> None:
            """Extend the idle timeout of the current transaction."""

        def concurrent_transaction(self) -> AbstractContextManager[None]:
            """Run the block in one transaction, concurrently with other writers if the database supports it.

            What the block reads may no longer hold when it writes, except for rows selected with a lock.
            """

        def single_statement(self) -> AbstractContextManager[None]:
            """Run a single statement, concurrently with other writers if the database supports it."""

        def erase_deleted(self) -> str:
            """Erase what was deleted from the disk; return where it remains, in a sentence for people."""

        def announce(self, project_id: str, topic: str) -> None:
            """Notify watches of this topic when the transaction commits."""

        def watch(self, project_id: str, *topics: str) -> ChangeWatch:
            """Return a watch for changes to these topics of a project."""

        def release_connection(self) -> None:
            """Release the connection until the database is used again."""

        def reserve_numbers(self, table: str, column: str, until: int) -> None:
            """Advance the sequence of a column so that new rows get numbers above `until`."""

        def json_array(self, column: str, source: str) -> str:
            """Return SQL that aggregates a column of `source` into a JSON list."""

        def close(self) -> None:
            """Close the connection."""

    class WordIndex(Protocol):
        """Word index of a database, over memories, journal entries, failure reports and episodes."""

        def search(
            self,
            index: str,
            words: Mapping[str, float],
            limit: int,
            where: str,
            *,
            below: int | None = None,
            max_postings: int = ...,
            **values: object,
        ) -> WordMatches:
            """Return rows that contain the words, ordered by total word weight, with the frequency of each word.

            `index` is one of `store.index.INDEXES`; `where` filters its table, which has the alias `r`, and only
            rows with a `seq` below `below` are read. Each row includes the words it is indexed under. `max_postings`
            bounds how much is read, and so what is found if all words are frequent.
            """

        def rows(self, index: str, seqs: Sequence[int], where: str, **values: object) -> list[Row]:
            """Return the rows of an index with these `seq` values, including the words they are indexed under."""

        def clear(self, project_id: str) -> str:
            """Clear the search indexes, of one project if the database can.

            Return the id of the project to reindex, or an empty string if all projects have to be reindexed.
            """

        def insert(self, index: str, rows: Sequence[Row]) -> None:
            """Index rows that are not indexed yet, in as few statements as possible."""

        def rebuild(self) -> None:
            """Rebuild the full-text indexes after `clear`."""

        def set_bulk_mode(self, index: str, is_bulk: bool) -> None:
            """Suspend maintenance of an index during a bulk insert (`is_bulk`), or resume it."""

        def optimize(self, *, is_full: bool = False) -> None:
            """Run a bounded amount of index maintenance, or all of it if `is_full` is true."""

    class ChangeWatch(Protocol):
        """Watch for changes by other connections."""

        def wait(self, seconds: float) -> bool:
            """Wait until something changed or may have changed; return False on timeout."""

        def close(self) -> None:
            """Stop watching."""


class WordMatches:
    """Result of a word search: the rows, the approximate number of rows per word, and the total number of rows."""

    __slots__ = ("rows", "total", "word_counts")

    def __init__(self, rows: list[Row], word_counts: dict[str, int], total: int) -> None:
        self.rows = rows
        self.word_counts = word_counts
        self.total = total


SCHEMA_VERSION = 19
"""Schema version of this program: the number of the newest file in `schema/`."""

_encode = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode

HELD_MARK = " held="
"""Separates the hash of all memory files from the number of held entries, in `synced_places`."""
LAYOUT_MARK = " layout="
"""Separates the hash of all memory files from where their sections are, likewise."""
MEMORY_FEED = "memory_events"
"""Event table for changes to memories."""
RUN_FEED = "run_events"
"""Event table for runs and tasks."""
_FEEDS = (MEMORY_FEED, RUN_FEED)
CHECKED_TABLES = ("features", "tasks", "attempts", "failures", "memory", "sessions", "episodes")
TABLE_SINCE = {"sessions": 6, "episodes": 10}
"""Schema version that introduced a table, if it is not the first."""


def split_files_mark(stored: str) -> tuple[str, str, int]:
    """Return the hash of all memory files, their layout, and the number of held entries."""
    mark, _, held = stored.partition(HELD_MARK)
    mark, _, layout = mark.partition(LAYOUT_MARK)
    return mark, layout, int(held or 0)


_NOT_HASHED = frozenset(("seq", "checksum", "claimed_by", "claim_token", "lease_until", "seen", "stale"))
_ADDED_LATER = {
    "holdout": 0.0,
    "task_kind": "",
    "next_model": "",
    "handed_to": "",
    "change_mark": "",
    "checks_passed": 0,
    "checks_failed": 0,
    "excused": 0,
    "turns": None,
    "agent_session": "",
    "feedback": "",
    "start_commit": "",
    "commits": "[]",
    "checkpoint": "",
    "cause": None,
    "allow": "[]",
    "written_by": "person",
    "pinned_at": None,
    "rule": "",
    "rules": "",
}
"""Columns that are left out of the checksum at their default, so that rows older than them keep their checksums."""


def checksum(row: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a row's values, without its sequence number and its claim."""
    values = {
        name: value
        for name, value in row.items()
        if name not in _NOT_HASHED and not (name in _ADDED_LATER and value == _ADDED_LATER[name])
    }
    if values.get("status") == "in_progress":  # part of the claim
        values["status"] = "pending"
    return _digest(values)


def _digest(values: Mapping[str, Any]) -> str:
    from ralph.core.hashing import sha256_hex

    # 1 and 1.0 have to be equal: which one is read back depends on the column type.
    plain = {name: float(value) if value.__class__ is int else value for name, value in values.items()}
    return sha256_hex(_encode(plain).encode())


def matches_checksum(row: Row) -> bool:
    """Return whether a row matches its checksum."""
    try:
        if row["checksum"] == checksum(row):
            return True
        # Before schema 4 the checksum of a task included its claim.
        hashed = {name: value for name, value in row.items() if name not in ("seq", "checksum")}
        return bool("claim_token" in row and row["checksum"] == _digest(hashed))
    except (KeyError, TypeError, ValueError):  # damage can turn text into bytes
        return False


class ProjectScope:
    """Database access limited to one project: every statement is bound to its id."""

    def __init__(self, database: Database, project_id: str) -> None:
        self.database = database
        self.project_id = project_id

    def query(self, sql: str, **values: object) -> list[Row]:
        """Run a statement and return its rows."""
        return self.database.query(sql, project_id=self.project_id, **values)

    def execute(self, sql: str, **values: object) -> int:
        """Run a statement and return the number of rows it changed."""
        return self.database.execute(sql, project_id=self.project_id, **values)

    def transaction(self) -> AbstractContextManager[None]:
        """Run the block in one transaction."""
        return self.database.transaction(self.project_id)

    def concurrent_transaction(self) -> AbstractContextManager[None]:
        """Run the block in one transaction, concurrently with other writers if the database supports it."""
        return self.database.concurrent_transaction()

    def announce(self, topic: str) -> None:
        """Notify watches of this topic when the transaction commits."""
        self.database.announce(self.project_id, topic)

    def insert(self, table: str, **row: object) -> None:
        """Insert a row with its checksum."""
        self.database.execute(self._insertion(table, row), **row)

    def insert_returning_seq(self, table: str, **row: object) -> int:
        """Insert a row with its checksum and return its `seq`."""
        return int(self.database.query(f"{self._insertion(table, row)} RETURNING seq", **row)[0]["seq"])

    def _insertion(self, table: str, row: dict[str, object]) -> str:
        """Complete the row with its project and checksum, and return the INSERT statement."""
        row["project_id"] = self.project_id
        if table in CHECKED_TABLES:
            row["checksum"] = checksum(row)
        if table in _FEEDS:
            self.announce(table)
        columns = ", ".join(row)
        marks = ", ".join(f":{name}" for name in row)
        return f"INSERT INTO {table} ({columns}) VALUES ({marks})"

    def insert_many(self, table: str, rows: Sequence[Row]) -> None:
        """Insert rows with the same columns, each with its checksum."""
        if not rows:
            return
        if table in _FEEDS:
            self.announce(table)
        for row in rows:
            row["project_id"] = self.project_id
            if table in CHECKED_TABLES:
                row["checksum"] = checksum(row)
        self.database.insert_many(table, rows)

    def update(self, table: str, key: Mapping[str, object], row: Mapping[str, object]) -> bool:
        """Update all columns of a row and its checksum; return False if there is no such row."""
        full = {**row, **key, "project_id": self.project_id}
        assignments = ", ".join(f"{name} = :{name}" for name in row)
        conditions = " AND ".join(f"{name} = :{name}" for name in key)
        changed = self.database.execute(
            f"UPDATE {table} SET {assignments}, checksum = :checksum WHERE project_id = :project_id AND {conditions}",
            **full,
            checksum=checksum(full),
        )
        return changed > 0

    def update_where(self, table: str, assignments: str, condition: str, **values: object) -> list[Row]:
        """Update rows in place with their checksums, and return the new rows."""
        rows = self.query(
            f"UPDATE {table} SET {assignments} WHERE project_id = :project_id AND {condition} RETURNING *", **values
        )
        for row in rows:
            row["checksum"] = checksum(row)
            self.database.execute(
                f"UPDATE {table} SET checksum = :checksum WHERE project_id = :project_id AND seq = :seq",
                checksum=row["checksum"],
                seq=row["seq"],
                project_id=self.project_id,
            )
        return rows
