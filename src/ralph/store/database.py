"""The seam to a database: SQL with named values in, rows out.

SQL is written once, in the subset SQLite and PostgreSQL share. What they do
differently (locking, the clock, full-text search) is a member here, and each
database gives its own.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any, Protocol

    from ralph.errors import StoreError

    Row = dict[str, Any]

    class Database(Protocol):
        """One connection to one database, for one thread."""

        where: str
        """What to call it in a message."""
        skip_locked: str
        """Ends a subquery that picks a row to claim, so that two claims never wait for or share one."""
        row: str
        """What finds a row again within one statement, the quickest way."""
        for_update: str
        """Ends a query whose rows nobody else may change until the transaction ends, not even a claim."""
        is_server: bool
        """Whether several machines may use it."""
        hindrance: StoreError | None
        """What keeps everybody from writing; None when nothing is known to."""
        lease_end: str
        """SQL for a lease of `:lease_seconds` from now; it starts with the moment it seems to end, as a timestamp."""
        lease_is_over: str
        """SQL for whether the lease in `lease_until` has run out, by a clock that all who use the database share."""
        seq_key: str
        """The columns that make up the key of a table of words."""
        like_any_case: str
        """The LIKE that does not tell upper from lower case."""

        def query(self, sql: str, **values: object) -> list[Row]:
            """Run one statement and give its rows by column name."""

        def execute(self, sql: str, **values: object) -> int:
            """Run one statement and say how many rows it changed."""

        def execute_all(self, sql: str, rows: Sequence[Mapping[str, object]]) -> None:
            """Run one statement once for each of the rows."""

        def insert_many(self, table: str, rows: Sequence[Mapping[str, object]]) -> None:
            """Add many rows with the same columns, in as few statements as it can."""

        def transaction(self, project_id: str = "") -> AbstractContextManager[None]:
            """Make everything inside one durable change, or none; inside another one it joins that one.

            Writers of a project take turns: what was read inside still holds when it is written.
            """

        def snapshot(self) -> AbstractContextManager[None]:
            """Read everything inside as it is at one moment, while others write on; a transaction is joined."""

        def take_time(self) -> None:
            """Let the transaction last though nothing is asked for a while; else one that stops is soon ended."""

        def claiming(self) -> AbstractContextManager[None]:
            """Make everything inside one durable change, where the database can beside all other writers.

            What was read inside may no longer hold when it is written, but for rows that were picked with a lock.
            """

        def single(self) -> AbstractContextManager[None]:
            """Make one statement a durable change, where the database can beside all other writers."""

        def announce(self, project_id: str, topic: str) -> None:
            """Wake who watches a project for this topic, once the transaction is made."""

        def watch(self, project_id: str, *topics: str) -> Watch:
            """Give what waits until anybody changes something of these topics in a project."""

        def rest(self) -> None:
            """Let go of what others could use, until the database is needed again."""

        def look_up(self, index: str, words: Mapping[str, float], limit: int, where: str, **values: object) -> Found:
            """Give rows that hold the words, those with the most of their weight first, and how rare each word is.

            `index` is `memory`, `attempt` or `failure`; `where` narrows its table, known as `r`. Each row comes
            with the words it is indexed by.
            """

        def rows(self, index: str, seqs: Sequence[int], where: str, **values: object) -> list[Row]:
            """Give rows of an index by their numbers, with the words they are indexed by."""

        def clear_indexes(self, project_id: str) -> str:
            """Take away what the indexes hold, of one project where that can be.

            Gives the project whose rows are to be indexed anew; nothing when those of all are.
            """

        def add_words(self, index: str, rows: Sequence[Row]) -> None:
            """Index many rows that are not indexed yet by their words, in as few statements as it can."""

        def renew_indexes(self) -> None:
            """Make what the database keeps of the indexes anew, when their words were removed."""

        def reserve(self, table: str, column: str, until: int) -> None:
            """Give no number up to this one to a new row any more."""

        def put_off_upkeep(self, is_bulk: bool) -> None:
            """Leave the upkeep of the memory index for later while many rows are added, and take it up again."""

        def tidy(self, *, whole: bool = False) -> None:
            """Do a bounded bit of upkeep that makes later searches cheaper, when nobody waits; or the `whole` of it."""

        def json_list(self, column: str, source: str) -> str:
            """Give the SQL that gathers a column of what is found in a source into one JSON list."""

        def close(self) -> None:
            """Let go of the connection."""

    class Watch(Protocol):
        """What waits for changes that others make."""

        def wait(self, seconds: float) -> bool:
            """Give True as soon as something changed, or may have; False when nothing did for so long."""

        def close(self) -> None:
            """Stop watching."""


class Found:
    """What was found by words: the rows, in how many rows each word is (about), and of how many."""

    __slots__ = ("held_by", "rows", "total")

    def __init__(self, rows: list[Row], held_by: dict[str, int], total: int) -> None:
        self.rows = rows
        self.held_by = held_by
        self.total = total


SCHEMA_VERSION = 8
"""What the tables of this program look like: the number of the newest file in `schema/`."""

_encode = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode

FEED = "memory_events"
"""The table that those who follow what is learned read on from where they were."""
RUN_FEED = "run_events"
"""The same for those who follow runs and tasks."""
_FEEDS = (FEED, RUN_FEED)
CHECKED_TABLES = ("features", "tasks", "attempts", "failures", "memory", "sessions")
SINCE = {"sessions": 6, "writing": 8}
"""The version that brought a table, where that is not the first."""


_UNCOUNTED = frozenset(("seq", "checksum", "claimed_by", "claim_token", "lease_until", "seen", "stale"))
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
}
"""Columns that count only where they say something: rows that are older than they keep their checksums."""


def checksum(row: Mapping[str, Any]) -> str:
    """Give the SHA-256 of a row's values; the database's own counter does not count, nor who has claimed a task."""
    values = {
        name: value
        for name, value in row.items()
        if name not in _UNCOUNTED and not (name in _ADDED_LATER and value == _ADDED_LATER[name])
    }
    if values.get("status") == "in_progress":  # that a task is claimed is all this says
        values["status"] = "pending"
    return _digest(values)


def _digest(values: Mapping[str, Any]) -> str:
    import hashlib

    # 1 and 1.0 count as the same: which of them comes back depends on the column, not on who wrote it.
    plain = {name: float(value) if value.__class__ is int else value for name, value in values.items()}
    return hashlib.sha256(_encode(plain).encode()).hexdigest()


def is_right(row: Row) -> bool:
    """Say whether a row matches its checksum, also one of a task that was made before claims did not count."""
    try:
        if row["checksum"] == checksum(row):
            return True
        counted = {name: value for name, value in row.items() if name not in ("seq", "checksum")}
        return bool("claim_token" in row and row["checksum"] == _digest(counted))
    except (KeyError, TypeError, ValueError):  # text that has become bytes, and the like
        return False


class Scope:
    """A database seen from one project: every statement is bound to its id."""

    def __init__(self, database: Database, project_id: str) -> None:
        self.database = database
        self.project_id = project_id

    def query(self, sql: str, **values: object) -> list[Row]:
        """Run one statement about this project and give its rows."""
        return self.database.query(sql, project_id=self.project_id, **values)

    def execute(self, sql: str, **values: object) -> int:
        """Run one statement about this project and say how many rows it changed."""
        return self.database.execute(sql, project_id=self.project_id, **values)

    def transaction(self) -> AbstractContextManager[None]:
        """Make everything inside one durable change."""
        return self.database.transaction(self.project_id)

    def claiming(self) -> AbstractContextManager[None]:
        """Make everything inside one durable change, where the database can beside all other writers."""
        return self.database.claiming()

    def announce(self, topic: str) -> None:
        """Wake who watches this project for a topic, once the transaction is made."""
        self.database.announce(self.project_id, topic)

    def insert(self, table: str, **row: object) -> None:
        """Add one row with its checksum."""
        self.database.execute(self._insertion(table, row), **row)

    def insert_numbered(self, table: str, **row: object) -> int:
        """Add one row with its checksum; give its number."""
        return int(self.database.query(f"{self._insertion(table, row)} RETURNING seq", **row)[0]["seq"])

    def _insertion(self, table: str, row: dict[str, object]) -> str:
        """Give the statement that adds a row, which is completed."""
        row["project_id"] = self.project_id
        if table in CHECKED_TABLES:
            row["checksum"] = checksum(row)
        if table in _FEEDS:
            self.announce(table)
        columns = ", ".join(row)
        marks = ", ".join(f":{name}" for name in row)
        return f"INSERT INTO {table} ({columns}) VALUES ({marks})"

    def insert_all(self, table: str, rows: Sequence[Row]) -> None:
        """Add many rows with the same columns, each with its checksum."""
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
        """Write all columns of one row with its checksum; False when there is no such row."""
        whole = {**row, **key, "project_id": self.project_id}
        assignments = ", ".join(f"{name} = :{name}" for name in row)
        found = " AND ".join(f"{name} = :{name}" for name in key)
        changed = self.database.execute(
            f"UPDATE {table} SET {assignments}, checksum = :checksum WHERE project_id = :project_id AND {found}",
            **whole,
            checksum=checksum(whole),
        )
        return changed > 0

    def change(self, table: str, assignments: str, condition: str, **values: object) -> list[Row]:
        """Change rows in place and renew their checksums; give them as they are now.

        One that did not match its checksum is not made to: that it was damaged stays known.
        """
        there = self.query(f"SELECT * FROM {table} WHERE project_id = :project_id AND {condition}", **values)
        damaged = {row["seq"] for row in there if not is_right(row)}
        rows = self.query(
            f"UPDATE {table} SET {assignments} WHERE project_id = :project_id AND {condition} RETURNING *", **values
        )
        for row in rows:
            if row["seq"] in damaged:
                continue
            row["checksum"] = checksum(row)
            self.database.execute(
                f"UPDATE {table} SET checksum = :checksum WHERE project_id = :project_id AND seq = :seq",
                checksum=row["checksum"],
                seq=row["seq"],
                project_id=self.project_id,
            )
        return rows

    def damaged(self) -> list[tuple[str, int]]:
        """Give table and number of every row that does not match its checksum."""
        return [
            (table, row["seq"])
            for table in CHECKED_TABLES
            for row in self.query(f"SELECT * FROM {table} WHERE project_id = :project_id ORDER BY seq")
            if not is_right(row)
        ]
