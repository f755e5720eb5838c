"""Backups: made while others work, checked, and the newest kept."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ralph.core.errors import StoreError
from ralph.store import open_store
from ralph.store.database import SCHEMA_VERSION
from ralph.store.maintenance.backup import make_backup, readable_backups
from ralph.store.maintenance.check import check_database
from ralph.store.tasks import TaskDraft
from tests.store.make import a_database, damage, learn

pytestmark = pytest.mark.sqlite


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give the path of a closed database with rows in every table that has checksums."""
    return a_database(tmp_path)


def test_a_backup_holds_what_the_database_holds_and_is_for_its_owner_alone(path: Path) -> None:
    made = make_backup(str(path), "by hand")

    assert (made.memories, made.attempts, made.tasks, made.schema) == (20, 8, 30, SCHEMA_VERSION)
    assert made.reason == "by hand"
    assert made.bytes == Path(made.path).stat().st_size
    assert check_database(made.path, deep=True).problems == ()
    assert readable_backups(str(path)) == [made]
    assert stat.S_IMODE(Path(made.path).stat().st_mode) == 0o600
    assert stat.S_IMODE((path.parent / "backups").stat().st_mode) == 0o700
    assert (path.parent / "backups" / ".gitignore").read_text() == "*\n"


def test_the_checksum_next_to_a_backup_is_one_that_other_tools_read(path: Path) -> None:
    made = Path(make_backup(str(path), "by hand").path)

    told = subprocess.run(["sha256sum", "-c", f"{made.name}.sha256"], cwd=made.parent, capture_output=True, text=True)

    assert told.stdout == f"{made.name}: OK\n"


def test_what_is_only_in_the_write_ahead_log_is_in_the_backup(path: Path) -> None:
    store = open_store(str(path))
    learn(store, "The newest fact")
    assert Path(f"{path}-wal").stat().st_size > 0

    made = make_backup(str(path), "by hand")

    assert made.memories == 21
    assert {file.name for file in Path(made.path).parent.iterdir()} == {
        ".gitignore",
        Path(made.path).name,
        f"{Path(made.path).name}.sha256",
    }
    store.close()


def test_a_backup_is_sound_while_somebody_writes_all_the_time(path: Path) -> None:
    stop = threading.Event()
    written = 0

    def write() -> None:
        nonlocal written
        store = open_store(str(path))
        while not stop.is_set():
            store.tasks.add(TaskDraft(title=f"More {written}"))
            learn(store, f"More {written}")
            written += 1
        store.close()

    writer = threading.Thread(target=write)
    writer.start()
    made = [make_backup(str(path), "busy") for _ in range(8)]
    stop.set()
    writer.join()

    assert written > 8
    assert [check_database(one.path, deep=True).problems for one in made] == [()] * 8
    assert [one.tasks for one in made] == sorted(one.tasks for one in made)
    assert made[-1].tasks <= 30 + written
    assert [one.path for one in readable_backups(str(path))] == [one.path for one in reversed(made)]
    assert check_database(str(path), deep=True).problems == ()


def test_processes_that_make_backups_at_the_same_time_each_get_their_own(path: Path) -> None:
    code = (
        "import sys; from ralph.store.maintenance.backup import make_backup;"
        " print(make_backup(sys.argv[1], 'race').path)"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    made = {process.communicate()[0].strip() for process in started}

    assert len(made) == 4
    assert {one.path for one in readable_backups(str(path))} == made
    assert all(check_database(one).problems == () for one in made)


def test_only_the_newest_backups_are_kept_and_files_of_others_stay(path: Path) -> None:
    theirs = path.parent / "backups" / "before-the-holidays.db"
    first = make_backup(str(path), "first")
    theirs.write_bytes(Path(first.path).read_bytes())

    made = [make_backup(str(path), f"number {n}", keep=3) for n in range(5)]

    kept = {Path(one.path).name for one in readable_backups(str(path))}
    assert kept == {Path(one.path).name for one in made[2:]} | {theirs.name}
    assert not Path(f"{first.path}.sha256").exists()


def test_the_backup_just_made_stays_even_when_the_clock_was_ahead(path: Path) -> None:
    made = Path(make_backup(str(path), "by hand").path)
    for n in range(3):
        (made.parent / f"ralph-2999010{n + 1}-000000-ahead.db").write_bytes(made.read_bytes())

    newest = make_backup(str(path), "now", keep=2)

    assert Path(newest.path).exists()
    assert len(readable_backups(str(path))) == 2


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(reason=st.text(max_size=60))
def test_any_reason_gives_a_name_that_is_listed(path: Path, reason: str) -> None:
    made = make_backup(str(path), reason, keep=2)

    assert Path(made.path).parent == path.parent / "backups"
    assert made in readable_backups(str(path))


def test_a_damaged_database_is_not_backed_up_and_good_backups_stay(path: Path) -> None:
    good = [make_backup(str(path), f"number {n}") for n in range(2)]
    damage(path, b"All about Fact 7.", b"All about Fact 8.")

    with pytest.raises(StoreError, match="ralph restore"):
        make_backup(str(path), "too late", keep=1)

    assert readable_backups(str(path)) == list(reversed(good))
    assert [file.name for file in (path.parent / "backups").glob(".*.part")] == []


def test_a_database_that_is_gone_is_not_backed_up_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreError, check=lambda error: error.code == "store-missing"):
        make_backup(str(tmp_path / "ralph.db"), "by hand")

    assert not (tmp_path / "ralph.db").exists()


def test_a_full_disk_leaves_the_older_backup_and_nothing_half_done(path: Path) -> None:
    good = make_backup(str(path), "before")
    code = """
import resource, signal, sys
from ralph.core.errors import StoreError
from ralph.store.maintenance.backup import make_backup
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    make_backup(sys.argv[1], "too much", keep=1)
except StoreError as error:
    print(error)
"""
    told = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)

    assert "cannot be copied" in told.stdout
    assert readable_backups(str(path)) == [good]
    assert list((path.parent / "backups").glob(".*.part")) == []


def test_what_a_killed_backup_left_goes_with_a_later_one(path: Path) -> None:
    folder = path.parent / "backups"
    make_backup(str(path), "first")
    old, new = folder / ".1-abcd.part", folder / ".2-abcd.part"
    nameless = folder / "ralph-20200101-000000-lost.db.sha256"
    for file in (old, new, nameless):
        file.write_bytes(b"half")
    for file in (old, nameless):
        os.utime(file, (0, 0))

    make_backup(str(path), "second")

    assert (old.exists(), new.exists(), nameless.exists()) == (False, True, False)


def test_links_are_not_followed(path: Path, tmp_path: Path) -> None:
    made = Path(make_backup(str(path), "by hand").path)
    (made.parent / "ralph-29990101-000000-link.db").symlink_to(made)
    assert [one.path for one in readable_backups(str(path))] == [str(made)]
    elsewhere = tmp_path / "elsewhere"
    made.parent.rename(elsewhere)
    (tmp_path / "backups").symlink_to(elsewhere)

    with pytest.raises(StoreError, match="link"):
        make_backup(str(path), "by hand")
