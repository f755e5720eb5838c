"""A database of an older version is brought up to date, with a backup first, or left as it was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from ralph.core.errors import StoreError
from ralph.store import open_store
from ralph.store.database import SCHEMA_VERSION
from ralph.store.maintenance import backup
from ralph.store.maintenance.check import check_database
from tests.make import damaged_rows
from tests.store.make import an_old_database, failures_found_by, found_by, notes_found_by

pytestmark = pytest.mark.sqlite

OLDER = range(1, SCHEMA_VERSION)


@pytest.mark.parametrize("version", OLDER)
def test_an_older_database_is_brought_up_to_date_with_all_that_is_in_it(tmp_path: Path, version: int) -> None:
    path = tmp_path / "ralph.db"
    an_old_database(path, version, 700)

    store = open_store(str(path))

    assert store.memories.stats.count() == 700
    assert damaged_rows(store) == []
    assert store.memories.find_by_id("mem-3-0000") is not None
    assert {row["fingerprint"] for row in store.database.query("SELECT fingerprint FROM memory")} != {""}
    assert store.database.query("PRAGMA user_version")[0]["user_version"] == SCHEMA_VERSION
    store.close()
    assert check_database(str(path), deep=True).problems == ()


@pytest.mark.parametrize("version", OLDER)
def test_all_of_an_older_database_is_found_by_its_words(tmp_path: Path, version: int) -> None:
    path = tmp_path / "ralph.db"
    an_old_database(path, version, 700)

    store = open_store(str(path))

    counts = [
        store.database.query(f"SELECT COUNT(*) AS n FROM {table}")[0]["n"]
        for table in ("memory_words", "memory_files", "attempt_words", "failure_words")
    ]
    assert counts == [700, 700, 1, 1]
    assert found_by(store, "Title 642", 1) == ["Title 642"]
    assert len(found_by(store, "encoders", 1_000)) == 700
    assert store.memories.index.seqs_naming_files(["src/old.py"], 5) == [700, 699, 698, 697, 696]
    assert notes_found_by(store, "zebras") == ["The zebra is in the export."]
    assert notes_found_by(store, "mending exporters") == ["The zebra is in the export."]
    assert failures_found_by(store, "build error") == ["The semicolon was missing."]
    store.close()


@pytest.mark.parametrize("version", OLDER)
def test_before_that_a_verified_backup_of_the_old_version_is_made(tmp_path: Path, version: int) -> None:
    path = tmp_path / "ralph.db"
    an_old_database(path, version, 5)

    open_store(str(path)).close()

    (made,) = backup.readable_backups(str(path))
    assert (made.schema, made.memories) == (version, 5)
    assert "before-schema" in made.path


@pytest.mark.parametrize("version", OLDER)
def test_a_damaged_database_is_not_brought_up_to_date_because_no_sound_backup_can_be_made(
    tmp_path: Path, version: int
) -> None:
    path = tmp_path / "ralph.db"
    an_old_database(path, version, 3)
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE memory SET body = 'flipped' WHERE seq = 2")
    connection.close()

    with pytest.raises(StoreError, match="does not match its checksum"):
        open_store(str(path))

    assert apsw.Connection(str(path)).pragma("user_version") == version


def test_a_program_killed_while_it_brings_a_database_up_to_date_leaves_it_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "ralph.db"
    an_old_database(path, 2, 50)
    code = """
import os, sys
from ralph.store import index, open_store
index.write_index = lambda *given, **more: os._exit(9)
open_store(sys.argv[1])
"""

    killed = subprocess.run([sys.executable, "-c", code, str(path)], check=False)

    assert killed.returncode == 9
    assert apsw.Connection(str(path)).pragma("user_version") == 2
    assert check_database(str(path), deep=True).problems == ()
    store = open_store(str(path))
    assert found_by(store, "Title 7", 1) == ["Title 7"]
    store.close()
