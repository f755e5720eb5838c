"""Bring a database's tables up to what this program knows.

Migrations are numbered files; all that are missing are applied in one
transaction. A released file is never edited: a change is a new number.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ralph.errors import RalphError
from ralph.store.database import checksum

TYPE_CHECKING = False
if TYPE_CHECKING:
    import apsw

    from ralph.store.database import Database

SCHEMA = Path(__file__).parent / "schema"


_TYPES = {
    "sqlite": {"{identity}": "INTEGER PRIMARY KEY AUTOINCREMENT", "{key}": "INTEGER PRIMARY KEY", "{bytes}": "BLOB"},
}
"""What a database calls a number it gives by itself, one that is given and is the key, and bytes."""


def scripts(since: int, dialect: str) -> list[str]:
    """Give the SQL that leads from a version to the newest, for one database."""
    found = []
    for path in sorted(SCHEMA.glob("*.sql")):
        number, parts = int(path.name[:3]), path.name.split(".")
        if number > since and (len(parts) == 2 or parts[1] == dialect):
            text = path.read_text(encoding="utf-8")
            for mark, name in _TYPES[dialect].items():
                text = text.replace(mark, name)
            found.append(text)
    return found


def renew(database: Database, since: int) -> None:
    """Bring rows of an older version up to date where SQL alone cannot."""
    if since == 1:
        _mark_memories(database)
    if 0 < since < 3:
        from ralph.store.index import rebuild

        rebuild(database)


_ADDED_IN_2 = ("state_reason", "success_rate", "support", "validated_at", "fingerprint")


def _mark_memories(database: Database) -> None:
    """Give every memory its fingerprint and a checksum over its new columns; a damaged one stays so."""
    from ralph.store.memories import fingerprint_of

    last = 0
    while rows := database.query("SELECT * FROM memory WHERE seq > :last ORDER BY seq LIMIT 500", last=last):
        for row in rows:
            before = {name: value for name, value in row.items() if name not in _ADDED_IN_2}
            if checksum(before) == row["checksum"]:
                row["fingerprint"] = fingerprint_of(row)
                database.execute(
                    "UPDATE memory SET fingerprint = :fingerprint, checksum = :checksum WHERE seq = :seq",
                    fingerprint=row["fingerprint"],
                    checksum=checksum(row),
                    seq=row["seq"],
                )
        last = rows[-1]["seq"]


# --- what is defined ---------------------------------------------------------------------


@cache
def own_definitions() -> dict[str, str]:
    """Give all that this program defines in a database, by name and in order."""
    from contextlib import closing

    import apsw

    with closing(apsw.Connection(":memory:")) as connection:
        for script in scripts(0, "sqlite"):
            for _ in connection.execute(script):
                pass
        return definitions(connection)


def definitions(connection: apsw.Connection) -> dict[str, str]:
    """Give what is defined in a database, but for what a search index makes itself."""
    found = dict(connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid"))
    made_by = tuple(f"{name}_" for name in search_indexes(connection))
    return {name: sql for name, sql in found.items() if not name.startswith(made_by)}


def search_indexes(connection: apsw.Connection) -> list[str]:
    """Give the names of the search indexes in a database."""
    found = connection.execute("SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE VIRTUAL TABLE % USING fts5%'")
    return [name for (name,) in found]


# --- search indexes ------------------------------------------------------------------------

_INDEXES = ("memory_index", "attempt_index", "failure_index")
_INDEX_TABLES = ("memory_words", "attempt_words", "failure_words", "memory_files")
_INDEX_PARTS = ("data", "idx", "content", "docsize", "config")


def remove_indexes(database: Database) -> None:
    """Take the search indexes away with what fills them, whatever state they are in."""
    for name in _INDEX_TABLES:
        database.execute(f"DROP TABLE IF EXISTS {name}")  # and its triggers
    for name in _INDEXES:
        try:
            database.execute(f"DROP TABLE IF EXISTS {name}")
        except RalphError:
            # SQLite wants to open an index before it drops it. Its entry has no pages of its own.
            database.execute("PRAGMA writable_schema = ON")
            database.execute("DELETE FROM sqlite_schema WHERE name = :name", name=name)
            database.execute("PRAGMA writable_schema = RESET")
        for part in _INDEX_PARTS:
            database.execute(f"DROP TABLE IF EXISTS {name}_{part}")


def make_index_tables(database: Database) -> None:
    """Make the tables of words and files, without what follows their changes."""
    for name, sql in own_definitions().items():
        if name.startswith(_INDEX_TABLES) and not sql.startswith("CREATE TRIGGER"):
            database.execute(sql)


def make_indexes(database: Database) -> None:
    """Make the search indexes, empty as yet, and what keeps them in step with the words."""
    from ralph.store.sqlite import AUTOMERGE

    for name, sql in own_definitions().items():
        if name in _INDEXES:
            database.execute(sql)
            database.execute(f"INSERT INTO {name} ({name}, rank) VALUES ('automerge', :merge)", merge=AUTOMERGE)
        elif name.startswith(_INDEX_TABLES) and sql.startswith("CREATE TRIGGER"):
            database.execute(sql)
