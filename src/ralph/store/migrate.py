"""Bring a database's tables up to what this program knows.

Migrations are numbered files; all that are missing are applied in one
transaction. A released file is never edited: a change is a new number.
"""

from __future__ import annotations

from pathlib import Path

SCHEMA = Path(__file__).parent / "schema"


def scripts(since: int, dialect: str, identity: str) -> list[str]:
    """Give the SQL that leads from a version to the newest, for one database."""
    found = []
    for path in sorted(SCHEMA.glob("*.sql")):
        number, parts = int(path.name[:3]), path.name.split(".")
        if number > since and (len(parts) == 2 or parts[1] == dialect):
            found.append(path.read_text(encoding="utf-8").replace("{identity}", identity))
    return found
