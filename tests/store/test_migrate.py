"""A database of an older version is brought up to date, with a backup first, or left as it was."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from ralph.errors import StoreError
from ralph.records import now
from ralph.store import backup, open_store
from ralph.store.database import checksum
from ralph.store.migrate import SCHEMA
from ralph.store.sqlite import APPLICATION_ID, SCHEMA_VERSION


def version_1(path: Path, memories: int) -> None:
    """Make a database as the first version had it."""
    connection = apsw.Connection(str(path))
    for name in ("001_start.sql", "001_start.sqlite.sql"):
        text = (SCHEMA / name).read_text().replace("{identity}", "INTEGER PRIMARY KEY AUTOINCREMENT")
        for _ in connection.execute(text):
            pass
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", 1)
    connection.execute("INSERT INTO projects VALUES ('p-1', 'old', ?)", (now(),))
    for n in range(memories):
        row: dict[str, object] = {
            "project_id": "p-1", "id": f"mem-{n}-0000", "kind": "knowledge", "title": f"Title {n}",
            "title_key": f"title {n}", "body": f"Body {n}", "content": "", "tags": "[]", "files": "[]",
            "feature": None, "task_type": None, "hat": None, "source": "explicit", "trust": "project",
            "state": "active", "confidence": 0.6, "wins": 0, "losses": 0, "uses": 0, "superseded_by": None,
            "origin_task": None, "origin_run": None, "origin_attempt": None, "origin_session": None,
            "origin_loops": "[]", "created_at": now(), "updated_at": now(), "used_at": None, "verified_at": None,
        }  # fmt: skip
        row["checksum"] = checksum(row)
        marks = ", ".join(f":{name}" for name in row)
        connection.execute(f"INSERT INTO memory ({', '.join(row)}) VALUES ({marks})", row)
    connection.close()


def test_an_older_database_is_brought_up_to_date_with_all_that_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "ralph.db"
    version_1(path, 700)

    store = open_store(str(path))

    assert store.memories.count() == 700
    assert store.damaged() == []
    assert store.memories.find_one("mem-3-0000") is not None
    assert {row["fingerprint"] for row in store.database.query("SELECT fingerprint FROM memory")} != {""}
    assert store.database.query("PRAGMA user_version")[0]["user_version"] == SCHEMA_VERSION
    store.close()


def test_before_that_a_verified_backup_of_the_old_version_is_made(tmp_path: Path) -> None:
    path = tmp_path / "ralph.db"
    version_1(path, 5)

    open_store(str(path)).close()

    (made,) = backup.backups(str(path))
    assert (made.schema, made.memories) == (1, 5)
    assert "before-schema" in made.path


def test_a_damaged_database_is_not_brought_up_to_date_because_no_sound_backup_can_be_made(tmp_path: Path) -> None:
    path = tmp_path / "ralph.db"
    version_1(path, 3)
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE memory SET body = 'flipped' WHERE seq = 2")
    connection.close()

    with pytest.raises(StoreError, match="does not match its checksum"):
        open_store(str(path))

    assert apsw.Connection(str(path)).pragma("user_version") == 1
