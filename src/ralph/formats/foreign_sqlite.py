"""Limits for SQLite files of other programs: a small file can describe endless rows and texts of any length.

Views, virtual tables, generated columns and defaults are computed while they are read. So only plain tables count, a
value is at most as long as the file, and queries take a bounded number of steps.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    import apsw

MIN_VALUE_BYTES = 1024 * 1024
"""Length that a value may have in a file of any size, in bytes."""
MAX_STEPS = 300_000_000
"""Number of steps of SQLite's virtual machine for all queries of a connection; a minute at most."""
STEPS = 1_000_000
"""Number of steps after which they are counted."""


def limit_connection(connection: apsw.Connection, size: int) -> None:
    """Limit the length of values by the size of the file, and the steps of queries."""
    import apsw

    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    connection.limit(apsw.SQLITE_LIMIT_LENGTH, max_content(size))
    remaining = iter(range((MAX_STEPS + 4 * size) // STEPS))
    connection.set_progress_handler(lambda: next(remaining, None) is None, STEPS)


def max_content(size: int) -> int:
    """Return how many bytes can be stored in a file of a size; text may take more in memory than on disk."""
    return max(MIN_VALUE_BYTES, 2 * size)


def plain_tables(connection: apsw.Connection) -> dict[str, frozenset[str]]:
    """Return the names of the tables that hold data themselves, with their columns that are not computed."""
    listed = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
    columns = "SELECT name FROM pragma_table_info(?)"
    names = [str(name) for (name,) in connection.execute(listed)]
    return {name: frozenset(str(column) for (column,) in connection.execute(columns, (name,))) for name in names}


def lacks_tables(connection: apsw.Connection, needed: dict[str, Collection[str]]) -> bool:
    """Return whether one of the tables, or of their columns, is missing or computed."""
    found = plain_tables(connection)
    return any(not set(columns) <= found.get(table, frozenset()) for table, columns in needed.items())
