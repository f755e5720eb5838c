"""Recovery of intact memories from a damaged database."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw

from ralph.store.database import matches_checksum
from ralph.store.maintenance.check import column_names, iter_rows, open_read_only
from ralph.store.sqlite.driver import SqliteDatabase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ralph.store.database import Row

_MEMORY_TABLES = ("memory_events", "memory_links")


def recover_memories(damaged_path: str, into_path: str) -> int:
    """Copy the intact memories that are missing in the target from a damaged database; return their number.

    Only rows that match their checksum are copied, unchanged and with their history, and they are indexed.
    """
    try:
        source = open_read_only(Path(damaged_path))
    except (apsw.Error, UnicodeError):
        return 0
    with closing(source), closing(apsw.Connection(into_path, flags=apsw.SQLITE_OPEN_READWRITE)) as target:
        known = set(target.execute("SELECT project_id, id FROM memory"))
        projects = {id for (id,) in target.execute("SELECT id FROM projects")}
        count = 0
        with target:
            for row in _intact_memories(source, target):
                if (row["project_id"], row["id"]) not in known and row["project_id"] in projects:
                    del row["seq"]
                    if _add(target, "memory", row):
                        _index(target, row | {"seq": target.last_insert_rowid()})
                        _copy_related_rows(source, target, row)
                        count += 1
        return count


def _index(target: apsw.Connection, memory: Row) -> None:
    from ralph.store.index import write_index

    if column_names(target, "memory_words"):  # an older schema is indexed when it is migrated
        write_index(SqliteDatabase(target, "the copy"), "memory", [memory])


def _intact_memories(source: apsw.Connection, target: apsw.Connection) -> Iterator[Row]:
    """Yield the intact memory rows of the source, with the columns that the target has."""
    try:
        names, theirs = column_names(target, "memory"), column_names(source, "memory")
        if set(names) <= set(theirs):
            rows = ({name: row[name] for name in names} for _, row in iter_rows(source, "memory") if row)
            yield from filter(
                matches_checksum, rows
            )  # the checksum also matches without columns that only the source has
    except (apsw.Error, UnicodeError):
        return


def _copy_related_rows(source: apsw.Connection, target: apsw.Connection, memory: Row) -> None:
    for table in _MEMORY_TABLES:
        try:
            names = column_names(source, table)
            rows = source.execute(
                f"SELECT * FROM {table} WHERE project_id = ? AND memory_id = ?", (memory["project_id"], memory["id"])
            ).fetchall()
        except (apsw.Error, UnicodeError):
            continue
        if names == column_names(target, table):
            for row in (dict(zip(names, values, strict=True)) for values in rows):
                if "checksum" not in row or matches_checksum(row):
                    _add(target, table, row)


def _add(target: apsw.Connection, table: str, row: Row) -> bool:
    """Insert a row unless its key exists; return whether it was inserted."""
    placeholders = ", ".join(f":{name}" for name in row)
    target.execute(f"INSERT OR IGNORE INTO {table} ({', '.join(row)}) VALUES ({placeholders})", row)
    return target.changes() == 1
