"""What is SQLite's alone: opening, migrating, refusing, surviving."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from ralph.core.errors import StatementError, StoreError, StoreTooNewError
from ralph.store import create_store, open_store
from ralph.store.database import SCHEMA_VERSION
from ralph.store.maintenance import migrate
from ralph.store.sqlite.driver import SERVER_CACHE_KIB, SqliteDatabase, limit_page_caches, open_sqlite
from tests.make import damaged_rows

pytestmark = pytest.mark.sqlite


def test_the_schema_version_is_that_of_the_newest_migration() -> None:
    assert max(int(path.name[:3]) for path in migrate.SCHEMA_DIR.glob("*.sql")) == SCHEMA_VERSION


def test_a_database_is_durable_by_its_settings(tmp_path: Path) -> None:
    store = create_store(str(tmp_path / "r.db"), "x")
    settings = {
        name: store.database.query(f"PRAGMA {name}")[0][name]
        for name in ("journal_mode", "synchronous", "foreign_keys")
    }

    assert settings == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


def test_opening_twice_makes_one_project(tmp_path: Path) -> None:
    first = create_store(str(tmp_path / "r.db"), "x")
    second = create_store(str(tmp_path / "r.db"), "y")

    assert first.project_id == second.project_id


def test_many_processes_may_make_the_same_database_at_once(tmp_path: Path) -> None:
    code = "import sys; from ralph.store import create_store; print(create_store(sys.argv[1], 'x').project_id)"
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "r.db")], stdout=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    answers = {process.communicate()[0].strip() for process in started}

    assert len(answers) == 1
    assert all(process.returncode == 0 for process in started)
    assert damaged_rows(open_store(str(tmp_path / "r.db"))) == []


def test_a_migration_that_fails_changes_nothing_and_can_be_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.db"
    good = migrate.migration_scripts
    monkeypatch.setattr(
        migrate, "migration_scripts", lambda *a: [*good(*a), "CREATE TABLE half (a); SELECT * FROM nowhere;"]
    )
    with pytest.raises(StatementError):
        open_sqlite(str(path), create=True)
    monkeypatch.undo()
    connection = apsw.Connection(str(path))
    assert connection.pragma("user_version") == 0
    assert connection.execute("SELECT COUNT(*) FROM sqlite_schema").fetchall() == [(0,)]
    connection.close()

    create_store(str(path), "x").close()

    assert open_store(str(path)).tasks.all() == []


def test_a_newer_database_is_refused_byte_for_byte_untouched(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    create_store(str(path), "x").close()
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", SCHEMA_VERSION + 1)
    # The newer program is still running and has its last change in the write-ahead log alone.
    connection.pragma("wal_autocheckpoint", 0)
    connection.execute("CREATE TABLE future (a)")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir() if not file.name.endswith("-shm")}

    with pytest.raises(StoreTooNewError, match="newer Ralph"):
        open_store(str(path))

    after = {file.name: file.read_bytes() for file in tmp_path.iterdir() if not file.name.endswith("-shm")}
    assert after == before


def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", 1)
    connection.execute("CREATE TABLE theirs (a)")
    connection.close()

    with pytest.raises(StoreError, match="another program"):
        create_store(str(path), "x")


def test_a_missing_database_is_not_made_by_reading(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="ralph init"):
        open_store(str(tmp_path / "r.db"))

    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_said_to_be_one(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)

    with pytest.raises(StoreError, match="permission"):
        create_store(str(tmp_path / "r.db"), "x")


def test_a_full_disk_is_one_sentence_and_what_was_acknowledged_stays(tmp_path: Path) -> None:
    code = """
import resource, signal, sys
from ralph.core.errors import StoreError
from ralph.store import create_store
from ralph.store.tasks import TaskDraft
store = create_store(sys.argv[1], "x")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (900_000, 900_000))
count = 0
try:
    while True:
        store.tasks.add(TaskDraft(title="x", body="y" * 2000))
        count += 1
except StoreError as error:
    print(count, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "r.db")], capture_output=True, text=True, check=True
    )

    acknowledged, _, said = done.stdout.partition(" ")
    assert "cannot be used" in said
    assert int(acknowledged) > 5
    store = open_store(str(tmp_path / "r.db"))
    assert len(store.tasks.all()) == int(acknowledged)
    assert damaged_rows(store) == []


def test_a_connection_of_a_server_keeps_few_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SqliteDatabase, "cache_kib", 0)  # restored at the end
    limit_page_caches()
    database = open_sqlite(str(tmp_path / "r.db"), create=True)
    database.execute("CREATE TABLE large (content TEXT)")
    database.insert_many("large", [{"content": "x" * 3_000} for _ in range(1_000)])

    assert database.query("SELECT SUM(LENGTH(content)) AS size FROM large") == [{"size": 3_000_000}]

    used, _ = database._connection.status(apsw.SQLITE_DBSTATUS_CACHE_USED)
    assert used < 2 * SERVER_CACHE_KIB * 1_024
