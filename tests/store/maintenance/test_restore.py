"""Bringing a backup back: what it replaces is kept, and what is intact is taken over."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from ralph.core.errors import NotFoundError, StoreError
from ralph.core.records import TaskStatus
from ralph.store import open_store
from ralph.store.maintenance.backup import make_backup
from ralph.store.maintenance.check import check_database, open_read_only
from ralph.store.maintenance.recovery import recover_memories
from ralph.store.maintenance.restore import _prepared, _sqlite_lock, _swap, _write_lock, preview_restore, restore
from ralph.store.tasks import TaskDraft
from tests.make import a_memory, damaged_rows
from tests.store.make import (
    LEARNED,
    a_database,
    an_old_database,
    contents,
    damage,
    failures_found_by,
    found_by,
    learn,
    notes_found_by,
    titles,
)

pytestmark = pytest.mark.sqlite


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give the path of a closed database with rows in every table that has checksums."""
    return a_database(tmp_path)


def test_the_newest_backup_comes_back_and_the_damaged_original_is_kept(path: Path) -> None:
    make_backup(str(path), "older")
    newest = make_backup(str(path), "newest")
    damage(path, b"Task 29", b"Task 28")
    damaged = path.read_bytes()

    done = restore(str(path))

    assert done.backup == newest
    assert Path(done.saved_to, "ralph.db").read_bytes() == damaged
    (problem,) = done.problems
    assert problem.startswith("In tasks, 1 row does not match its checksum: t-")
    assert done.skipped == ()
    assert check_database(str(path), deep=True).problems == ()
    store = open_store(str(path))
    assert damaged_rows(store) == []
    assert sorted(task.title for task in store.tasks.all()) == sorted(f"Task {n}" for n in range(30))
    store.close()


def test_every_kind_of_damage_is_kept_as_it_was_and_the_backup_comes_back(path: Path) -> None:
    make_backup(str(path), "good")
    good = path.read_bytes()
    half = len(good) // 2
    for content in (b"", good[:10], good[:half], bytes(100) + good[100:], good[:half] + bytes(half), b"\xff" * 9_000):
        path.write_bytes(content)

        done = restore(str(path))

        assert Path(done.saved_to, "ralph.db").read_bytes() == content
        assert done.problems
        assert check_database(str(path), deep=True).problems == ()
        assert len(titles(path)) == 20
    assert len(list((path.parent / "damaged").glob("2*"))) == 6


def test_a_database_that_is_gone_comes_back(path: Path) -> None:
    make_backup(str(path), "good")
    for end in ("", "-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)

    done = restore(str(path))

    assert done.saved_to == ""
    assert "nobody knows how much" in done.loss_message
    assert len(titles(path)) == 20


def test_the_log_of_a_database_that_is_gone_does_not_get_into_the_restored_one(path: Path) -> None:
    make_backup(str(path), "good")
    write_and_die(path)
    path.unlink()

    done = restore(str(path))

    assert Path(done.saved_to, "ralph.db-wal").stat().st_size > 0
    assert check_database(str(path), deep=True).problems == ()
    store = open_store(str(path))
    assert len(store.tasks.all()) == 30
    store.close()


def write_and_die(path: Path) -> None:
    """Add a task in a process that ends at once, so that it is in the write-ahead log alone."""
    code = """
import os, sys
from ralph.store import open_store
from ralph.store.tasks import TaskDraft
store = open_store(sys.argv[1])
store.tasks.add(TaskDraft(title="Since the backup"))
os._exit(9)
"""
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)


def test_the_write_ahead_log_of_the_original_is_kept_with_it(path: Path) -> None:
    make_backup(str(path), "good")
    write_and_die(path)
    log = Path(f"{path}-wal").read_bytes()

    done = restore(str(path))

    assert Path(done.saved_to, "ralph.db-wal").read_bytes() == log
    kept = open_store(str(Path(done.saved_to) / "ralph.db"))
    assert len(kept.tasks.all()) == 31
    kept.close()
    assert "1 task added" in done.loss_message
    store = open_store(str(path))
    assert len(store.tasks.all()) == 30
    store.close()


def test_a_damaged_backup_is_passed_over(path: Path) -> None:
    good = make_backup(str(path), "good")
    bad = make_backup(str(path), "bad")
    damage(Path(bad.path), b"All about Fact 7.", b"All about Fact 8.")
    gone = make_backup(str(path), "gone")
    Path(gone.path).write_bytes(b"")
    path.write_bytes(b"damaged")

    done = restore(str(path))

    assert done.backup == good
    assert [text.split()[0] for text in done.skipped] == [Path(gone.path).name, Path(bad.path).name]
    assert len(titles(path)) == 20


def test_a_named_backup_that_is_damaged_is_refused_and_nothing_changes(path: Path) -> None:
    make_backup(str(path), "good")
    bad = Path(make_backup(str(path), "bad").path)
    damage(bad, b"All about Fact 7.", b"All about Fact 8.")
    before = contents(path.parent)

    with pytest.raises(StoreError, match="nothing was changed"):
        restore(str(path), bad.name)
    with pytest.raises(NotFoundError):
        restore(str(path), "ralph-20200101-000000-none.db")

    assert contents(path.parent) == before


def test_without_a_sound_backup_nothing_changes(path: Path) -> None:
    with pytest.raises(StoreError, check=lambda error: error.code == "no-backup"):
        restore(str(path))
    bad = Path(make_backup(str(path), "bad").path)
    bad.write_bytes(b"")
    before = contents(path.parent)

    with pytest.raises(StoreError, check=lambda error: error.code == "no-intact-backup"):
        restore(str(path))

    assert contents(path.parent) == before


def test_a_restore_that_cannot_keep_the_original_changes_nothing(path: Path) -> None:
    make_backup(str(path), "good")
    path.with_name("damaged").write_text("in the way")
    before = contents(path.parent)

    with pytest.raises(StoreError, match="Nothing was restored"):
        restore(str(path))

    assert contents(path.parent) == before


def test_a_preview_tells_what_a_restore_does_and_changes_nothing(path: Path) -> None:
    make_backup(str(path), "good")
    store = open_store(str(path))
    learn(store, "Fact 20", "Fact 21")
    store.tasks.add(TaskDraft(title="New"))
    store.tasks.set_status(store.tasks.all()[0].id, TaskStatus.DONE, tuple(TaskStatus), "")
    store.close()
    before = contents(path.parent)

    planned = preview_restore(str(path))

    assert contents(path.parent) == before
    done = restore(str(path))
    assert planned.saved_to == ""
    assert done.loss_message.startswith("Lost: 2 memories and 1 task added and changes to 1 task after 20")
    assert planned.loss_message.partition(" (")[0] == done.loss_message.partition(" (")[0]


def test_intact_memories_are_taken_over_from_a_damaged_database_with_their_history(path: Path) -> None:
    make_backup(str(path), "good")
    store = open_store(str(path))
    learn(store, "Fact 20", "Fact 21", "Fact 22")
    store.close()
    damage(path, b"All about Fact 21.", b"All about Fact 99.")

    done = restore(str(path))

    assert done.recovered == 2
    assert "Lost: 1 memory added" in done.loss_message
    assert check_database(str(path), deep=True).problems == ()
    assert titles(path)[-2:] == ["Fact 20", "Fact 22"]
    store = open_store(str(path))
    newest = store.memories.all()[-1]
    assert [event.what for event in store.memories.history.of(newest.id)] == ["added"]
    assert found_by(store, "22") == ["Fact 22"]
    learn(store, "Fact 23")
    assert damaged_rows(store) == []
    store.close()


def test_memories_on_both_sides_of_a_lost_page_are_taken_over(path: Path) -> None:
    make_backup(str(path), "good")
    store = open_store(str(path))
    for n in range(100, 200):
        store.memories.add(a_memory(f"Fact {n}", f"Long, about {n}. " * 40), LEARNED)
    store.close()
    content = path.read_bytes()
    page = content.index(b"Long, about 150. ") // 4096 * 4096
    path.write_bytes(content[:page] + bytes(4096) + content[page + 4096 :])

    done = restore(str(path))

    found = titles(path)
    assert {"Fact 100", "Fact 199"} <= set(found)
    assert "Fact 150" not in found
    assert 90 <= done.recovered < 100
    assert done.loss_message.startswith("Lost: unreadable data") or "added" in done.loss_message
    assert check_database(str(path), deep=True).problems == ()


def test_a_named_backup_comes_back_exactly_as_it_is(path: Path) -> None:
    made = make_backup(str(path), "before the import")
    store = open_store(str(path))
    learn(store, "Unwanted")
    store.close()
    damage(path, b"Task 29", b"Task 28")

    done = restore(str(path), Path(made.path).stem)

    assert done.recovered == 0
    assert "Unwanted" not in titles(path)


def test_a_sound_database_gives_nothing_back_when_an_older_one_is_wanted(path: Path) -> None:
    make_backup(str(path), "before the import")
    store = open_store(str(path))
    learn(store, "Unwanted")
    store.close()

    done = restore(str(path))

    assert (done.problems, done.recovered) == ((), 0)
    assert "Unwanted" not in titles(path)
    assert "Unwanted" in titles(Path(done.saved_to) / "ralph.db")


def test_nothing_is_taken_from_what_cannot_be_read(path: Path, tmp_path: Path) -> None:
    noise = tmp_path / "noise.db"
    noise.write_bytes(random.Random(1).randbytes(20_000))

    assert recover_memories(str(noise), str(path)) == 0


@pytest.mark.parametrize("version", [1, 2])
def test_a_database_of_an_older_version_is_checked_backed_up_and_brought_back(tmp_path: Path, version: int) -> None:
    path = tmp_path / "ralph.db"
    an_old_database(path, version, 20)

    assert check_database(str(path), deep=True).problems == ()
    made = make_backup(str(path), "by hand")
    path.unlink()
    restore(str(path))

    assert made.schema == version
    store = open_store(str(path))
    assert store.memories.stats.count() == 20
    assert damaged_rows(store) == []
    assert found_by(store, "Title 7", 1) == ["Title 7"]
    assert notes_found_by(store, "zebra") == ["The zebra is in the export."]
    assert failures_found_by(store, "semicolons") == ["The semicolon was missing."]
    store.close()
    assert check_database(str(path), deep=True).problems == ()


def test_memories_taken_over_into_a_backup_of_an_older_version_are_found(tmp_path: Path) -> None:
    path = tmp_path / "ralph.db"
    an_old_database(path, 2, 20)
    make_backup(str(path), "by hand")
    store = open_store(str(path))
    learn(store, "Fact 20", "Fact 21")
    store.close()
    for made in (tmp_path / "backups").glob("*before-schema*"):
        made.unlink()
    damage(path, b"Mend the exporter", b"Rend the exporter")

    done = restore(str(path))

    assert (done.backup.schema, done.recovered) == (2, 2)
    store = open_store(str(path))
    assert found_by(store, "Fact 21")[0] == "Fact 21"
    assert found_by(store, "Title 7", 1) == ["Title 7"]
    store.close()
    assert check_database(str(path), deep=True).problems == ()


def test_a_process_that_had_the_old_database_open_is_refused_and_harms_nothing(path: Path) -> None:
    make_backup(str(path), "good")
    code = """
import sys
from ralph.core.errors import StoreError
from ralph.store import open_store
from ralph.store.tasks import TaskDraft
store = open_store(sys.argv[1])
store.tasks.add(TaskDraft(title="Before"))
print("ready", flush=True)
sys.stdin.readline()
try:
    store.tasks.add(TaskDraft(title="After"))
except StoreError as error:
    print(error)
store.close()
"""
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout
    assert other.stdout.readline() == "ready\n"

    done = restore(str(path))
    store = open_store(str(path))
    store.tasks.add(TaskDraft(title="In the restored one"))
    told, _ = other.communicate("\n")

    assert "was moved or deleted while it was in use" in told
    assert "1 task added" in done.loss_message
    assert "In the restored one" in {task.title for task in store.tasks.all()}
    store.close()
    assert check_database(str(path), deep=True).problems == ()
    assert check_database(str(Path(done.saved_to) / "ralph.db")).problems == ()
    store = open_store(str(path))
    assert len(store.tasks.all()) == 31
    store.close()


def test_a_writer_that_queues_during_a_restore_is_refused(path: Path) -> None:
    make_backup(str(path), "good")
    store = open_store(str(path))
    refused: list[Exception] = []

    def write() -> None:
        other = open_store(str(path))
        is_open.set()
        try:
            other.tasks.add(TaskDraft(title="Acknowledged"))
        except StoreError as error:
            refused.append(error)
        other.close()

    is_open = threading.Event()
    with _write_lock(path), _sqlite_lock(path):
        writer = threading.Thread(target=write)
        writer.start()
        is_open.wait()
        with _prepared(path, None) as (fresh, _):
            _swap(path, fresh)
    writer.join()

    store.close()
    assert len(refused) == 1


def test_a_restore_waits_for_writers_but_not_for_ever(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_backup(str(path), "good")
    monkeypatch.setattr("ralph.store.maintenance.restore.WAIT_SECONDS", 0.2)
    store = open_store(str(path))
    with store.transaction(), pytest.raises(StoreError, match="Another process"):
        restore(str(path))
    store.close()

    assert restore(str(path)).saved_to


def test_a_restore_killed_at_any_moment_can_be_run_again(path: Path) -> None:
    make_backup(str(path), "good")
    path.write_bytes(b"damaged")
    for moment in (0.0, 0.01, 0.02, 0.04):
        code = "import sys, os, threading; from ralph.store.maintenance.restore import restore\n"
        code += f"threading.Timer({moment}, os._exit, (9,)).start(); restore(sys.argv[1])"
        subprocess.run([sys.executable, "-c", code, str(path)], check=False, stderr=subprocess.DEVNULL)

        done = restore(str(path))

        assert len(titles(path)) == 20
        assert check_database(done.backup.path).problems == ()
        path.write_bytes(b"damaged")


def test_who_writes_without_a_turn_is_waited_for_or_refused(path: Path) -> None:
    """Both ways: what is acknowledged before the exchange is counted, and nothing is after it."""
    make_backup(str(path), "older")
    damage(path, b"Task 29", b"Task 28")
    code = (
        "import sys, time; from ralph.store import open_database; from ralph.store.sqlite import write_queue\n"
        "write_queue.WriterQueue.acquire = lambda *_: False\n"
        "database = open_database(sys.argv[1])\n"
        "with database.transaction():\n"
        "    database.execute(\"UPDATE tasks SET title = 'Written aside' WHERE seq = 1\")\n"
        "    print('begun', flush=True); time.sleep(1)\n"
        "print('acknowledged', flush=True)\n"
        "try:\n"
        "    while True:\n"
        "        with database.transaction():\n"
        "            database.execute('UPDATE tasks SET priority = priority + 1 WHERE seq = 1')\n"
        "        print('again', flush=True)\n"
        "except Exception as error: print(error)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout
    assert writer.stdout.readline() == "begun\n"

    done = restore(str(path))
    said, _ = writer.communicate(timeout=60)

    assert said.startswith("acknowledged\n")
    assert "moved or deleted while it was in use" in said
    # All that was acknowledged is in the file that is kept, and none of it came after that was looked at.
    with closing(open_read_only(Path(done.saved_to, "ralph.db"))) as kept:
        assert kept.execute("SELECT title, priority FROM tasks WHERE seq = 1").fetchall() == [
            ("Written aside", said.count("again"))
        ]
