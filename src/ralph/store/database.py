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

    Row = dict[str, Any]

    class Database(Protocol):
        """One connection to one database, for one thread."""

        where: str
        """What to call it in a message."""
        skip_locked: str
        """Ends a subquery that picks a row to claim, so that two claims never wait for or share one."""
        now: str
        """SQL for the database's own present moment, as a timestamp."""
        lease_end: str
        """SQL for the moment `:lease_seconds` from now, as a timestamp."""
        like_any_case: str
        """The LIKE that does not tell upper from lower case."""

        def query(self, sql: str, **values: object) -> list[Row]:
            """Run one statement and give its rows by column name."""

        def execute(self, sql: str, **values: object) -> int:
            """Run one statement and say how many rows it changed."""

        def execute_all(self, sql: str, rows: Sequence[Mapping[str, object]]) -> None:
            """Run one statement once for each of the rows."""

        def transaction(self) -> AbstractContextManager[None]:
            """Make everything inside one durable change, or none; inside another one it joins that one.

            Writers of a project take turns: what was read inside still holds when it is written.
            """

        def look_up(self, index: str, words: Mapping[str, float], limit: int, where: str, **values: object) -> Found:
            """Give rows that hold the words, those with the most of their weight first, and how rare each word is.

            `index` is `memory`, `attempt` or `failure`; `where` narrows its table, known as `r`. Each row comes
            with the words it is indexed by.
            """

        def rows(self, index: str, seqs: Sequence[int], where: str, **values: object) -> list[Row]:
            """Give rows of an index by their numbers, with the words they are indexed by."""

        def add_words(self, index: str, rows: Sequence[Row]) -> None:
            """Index many rows that are not indexed yet by their words, in as few statements as it can."""

        def renew_indexes(self) -> None:
            """Make what the database keeps of the indexes anew, when their words were removed."""

        def put_off_upkeep(self, is_bulk: bool) -> None:
            """Leave the upkeep of the memory index for later while many rows are added, and take it up again."""

        def tidy(self, *, whole: bool = False) -> None:
            """Do a bounded bit of upkeep that makes later searches cheaper, when nobody waits; or the `whole` of it."""

        def json_array(self, column: str) -> str:
            """Give the SQL that gathers a column of a group into one JSON array."""

        def close(self) -> None:
            """Let go of the connection."""


class Found:
    """What was found by words: the rows, in how many rows each word is (about), and of how many."""

    __slots__ = ("held_by", "rows", "total")

    def __init__(self, rows: list[Row], held_by: dict[str, int], total: int) -> None:
        self.rows = rows
        self.held_by = held_by
        self.total = total


_encode = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode

CHECKED_TABLES = ("features", "tasks", "attempts", "failures", "memory")


def checksum(row: Mapping[str, Any]) -> str:
    """Give the SHA-256 of a row's values; the database's own counter does not count."""
    import hashlib

    # 1 and 1.0 count as the same: which of them comes back depends on the column, not on who wrote it.
    values = {name: float(value) if value.__class__ is int else value for name, value in row.items()}
    values.pop("seq", None)
    values.pop("checksum", None)
    return hashlib.sha256(_encode(values).encode()).hexdigest()


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
        return self.database.transaction()

    def insert(self, table: str, **row: object) -> None:
        """Add one row with its checksum."""
        row["project_id"] = self.project_id
        if table in CHECKED_TABLES:
            row["checksum"] = checksum(row)
        columns = ", ".join(row)
        marks = ", ".join(f":{name}" for name in row)
        self.database.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", **row)

    def insert_all(self, table: str, rows: Sequence[Row]) -> None:
        """Add many rows with the same columns, each with its checksum."""
        if not rows:
            return
        for row in rows:
            row["project_id"] = self.project_id
            if table in CHECKED_TABLES:
                row["checksum"] = checksum(row)
        columns = ", ".join(rows[0])
        marks = ", ".join(f":{name}" for name in rows[0])
        self.database.execute_all(f"INSERT INTO {table} ({columns}) VALUES ({marks})", rows)

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
        """Change rows in place and renew their checksums; give them as they are now."""
        rows = self.query(
            f"UPDATE {table} SET {assignments} WHERE project_id = :project_id AND {condition} RETURNING *", **values
        )
        for row in rows:
            row["checksum"] = checksum(row)
            self.database.execute(
                f"UPDATE {table} SET checksum = :checksum WHERE seq = :seq", checksum=row["checksum"], seq=row["seq"]
            )
        return rows

    def damaged(self) -> list[tuple[str, int]]:
        """Give table and number of every row that does not match its checksum."""
        return [
            (table, row["seq"])
            for table in CHECKED_TABLES
            for row in self.query(f"SELECT * FROM {table} WHERE project_id = :project_id ORDER BY seq")
            if row["checksum"] != checksum(row)
        ]
