"""Bring a database's tables up to what this program knows.

Migrations are numbered files; all that are missing are applied in one
transaction. A released file is never edited: a change is a new number.
"""

from __future__ import annotations

from pathlib import Path

from ralph.store.database import checksum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.store.database import Database

SCHEMA = Path(__file__).parent / "schema"


def scripts(since: int, dialect: str, identity: str) -> list[str]:
    """Give the SQL that leads from a version to the newest, for one database."""
    found = []
    for path in sorted(SCHEMA.glob("*.sql")):
        number, parts = int(path.name[:3]), path.name.split(".")
        if number > since and (len(parts) == 2 or parts[1] == dialect):
            found.append(path.read_text(encoding="utf-8").replace("{identity}", identity))
    return found


def renew(database: Database, since: int) -> None:
    """Bring rows of an older version up to date where SQL alone cannot."""
    if since == 1:
        _mark_memories(database)


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
