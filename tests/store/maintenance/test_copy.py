"""Copying a project to another database and back: nothing is lost, nothing is half there."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from ralph.core.config import Config
from ralph.core.errors import ClaimLostError, StoreError, UsageError
from ralph.core.records import AgentSession, AttemptOutcome, TaskStatus
from ralph.projects import ProjectService
from ralph.store import Store, create_store, open_database, open_store
from ralph.store.database import ProjectScope
from ralph.store.maintenance.backup import back_up_store
from ralph.store.maintenance.copy import copy_project, iter_pages
from ralph.store.maintenance.migrate import schema_columns
from ralph.store.maintenance.restore import restore_project_rows
from ralph.store.postgres import driver
from ralph.store.tables import ALL_PROJECT_TABLES, PROJECT_TABLES
from ralph.store.tasks import TaskDraft
from tests.make import begin, finish
from tests.store.make import LEARNED, failures_found_by, fill, found_by, learn, notes_found_by

if TYPE_CHECKING:
    from ralph.store.database import Database, Row


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Store]:
    """Give a project in a file, with rows in every table."""
    store = create_store(str(tmp_path / "file.db"), "alpha")
    fill_all(store)
    yield store
    store.close()


@pytest.fixture
def there(store_url: str) -> Iterator[Database]:
    """Give a database without projects, of the sort that is tested."""
    database = open_database(store_url, create=True)
    yield database
    database.close()


def fill_all(store: Store) -> None:
    fill(store)
    first = store.tasks.add(TaskDraft(title="First", body="日本語 and 'quotes'\n\ttabs"))
    later = store.tasks.add(TaskDraft(title="Added later", needs=(first.id,)))
    store.tasks.update(first.id, parent_id=store.tasks.add(TaskDraft(title="Parent of one added before")).id)
    store.tasks.log(later.id, "Half of it.", "test")
    memory = store.memories.all()[0]
    store.memories.update(
        memory.id, "edited", LEARNED, body="See [[Fact 2]] in src/a.py.", files=("src/a.py", "src/b.py")
    )
    store.memories.undo(memory.id, LEARNED)
    store.memories.update(memory.id, "edited", LEARNED, body="See [[Fact 3]].", files=("src/c.py",))
    at = "2026-11-01T10:00:00.000Z"
    store.sessions.save(AgentSession(id="s1", agent="claude", shown=(memory.id,), started_at=at, last_at=at))
    store.database.execute(
        "INSERT INTO memory_vectors (project_id, seq, model, vector) SELECT project_id, seq, 'm', :v FROM memory",
        v=bytes(range(256)),
    )


def rows_of(database: Database, project: str) -> dict[str, list[Row]]:
    from ralph.store.projects import ProjectStore

    one = ProjectStore(database).get(project)
    return {
        "projects": [{"id": one.id, "created_at": one.created_at, "copying": one.copying}],
        **{
            part.table: [row for page in iter_pages(ProjectScope(database, one.id), part) for row in page]
            for part in PROJECT_TABLES
        },
    }


def test_to_and_fro_is_identical(file: Store, there: Database, tmp_path: Path) -> None:
    before = rows_of(file.database, "alpha")
    assert all(before.values())

    gone = copy_project(file.database, "alpha", there)
    back = open_database(str(tmp_path / "back.db"), create=True)
    come = copy_project(there, "alpha", back)

    assert rows_of(there, "alpha") == before
    assert rows_of(back, "alpha") == before
    assert gone.tables == come.tables
    assert {one.table: one.rows for one in gone.tables} == {
        table: len(rows) for table, rows in before.items() if table != "projects"
    }
    back.close()


def test_a_copy_is_worked_on_as_the_original_was(file: Store, there: Database, store_url: str) -> None:
    found = found_by(file, "all about Fact 7"), notes_found_by(file, "looked part"), failures_found_by(file, "broke")
    copy_project(file.database, "alpha", there)

    with_copy = open_store(store_url, "alpha")

    assert with_copy.damaged_rows() == []
    again = found_by(with_copy, "all about Fact 7"), notes_found_by(with_copy, "looked part")
    assert (*again, failures_found_by(with_copy, "broke")) == found
    learn(with_copy, "Learned there")
    with_copy.tasks.add(TaskDraft(title="Added there"))
    task, attempt = begin(with_copy, with_copy.attempts.start_run("test").id)
    finish(with_copy, task, attempt, AttemptOutcome.DONE, TaskStatus.DONE)
    assert found_by(with_copy, "learned there")[0] == "Learned there"
    with_copy.close()


def test_copying_again_says_that_it_is_there_or_that_it_differs(file: Store, there: Database) -> None:
    first = copy_project(file.database, "alpha", there)

    again = copy_project(file.database, "alpha", there)

    assert (first.was_there, again.was_there) == (False, True)
    assert again.tables == first.tables
    learn(file, "Learned since")
    with pytest.raises(UsageError, check=lambda error: error.code == "project-differs"):
        copy_project(file.database, "alpha", there)
    assert "Learned since" not in [row["title"] for row in rows_of(there, "alpha")["memory"]]


def test_a_project_is_copied_beside_others_under_another_name(file: Store, there: Database, store_url: str) -> None:
    theirs = create_store(store_url, "beta")
    fill(theirs)
    before = rows_of(there, "beta")
    copy_project(file.database, "alpha", there)

    twice = copy_project(file.database, "alpha", there, "gamma")
    once_more = copy_project(file.database, "alpha", there, "gamma")

    assert rows_of(there, "beta") == before
    assert twice.id != file.project_id
    assert once_more.was_there
    assert len(theirs.projects.all()) == 3
    gamma = open_store(store_url, "gamma")
    assert gamma.damaged_rows() == []
    assert found_by(gamma, "all about Fact 7") == found_by(file, "all about Fact 7")
    undone = [event.undoes for memory in gamma.memories.all() for event in gamma.memories.history(memory.id)]
    numbers = {row["seq"] for row in rows_of(there, "gamma")["memory_events"]}
    assert numbers >= {number for number in undone if number} != set()
    learn(gamma, "Learned in gamma")
    learn(theirs, "Learned in beta")
    for store in (gamma, theirs):
        assert store.damaged_rows() == []
        store.close()


def test_a_project_that_is_there_but_empty_is_filled(file: Store, there: Database, store_url: str) -> None:
    empty = create_store(store_url, "alpha")

    copied = copy_project(file.database, "alpha", there)

    assert copied.id == empty.project_id != file.project_id
    assert empty.damaged_rows() == []
    assert len(empty.memories.all()) == len(file.memories.all())
    empty.close()


def test_a_damaged_row_is_named_and_nothing_is_copied(file: Store, there: Database) -> None:
    id = file.memories.all()[0].id
    file.database.execute("UPDATE memory SET body = 'Changed' WHERE id = :id", id=id)

    with pytest.raises(StoreError, match=f"Nothing was copied.*1 memory does not match its checksum: {id}"):
        copy_project(file.database, "alpha", there)

    assert there.query("SELECT * FROM projects") == []


COPIER = """
import os, sys
from ralph.store import copy, open_database

copy.PAGE = 3

def tell(table, done, total):
    if table == sys.argv[3]:
        os._exit(9)

source, target = open_database(sys.argv[1]), open_database(sys.argv[2], create=True)
copy.copy_project(source, "alpha", target, tell=tell)
"""


def killed_at(table: str, source: Store, url: str) -> None:
    ran = subprocess.run([sys.executable, "-c", COPIER, source.database.display_url, url, table], check=False)
    assert ran.returncode == 9


@pytest.mark.parametrize("table", ["features", "tasks", "attempts", "memory_events", "memory_words", "memory_vectors"])
def test_an_interrupted_copy_cannot_be_opened_and_is_gone_on_with(
    file: Store, there: Database, store_url: str, table: str
) -> None:
    killed_at(table, file, store_url)
    half = len(rows_of(there, "alpha")["features"])

    with pytest.raises(StoreError, check=lambda error: error.code == "unfinished-copy"):
        open_store(store_url, "alpha")
    with pytest.raises(StoreError, check=lambda error: error.code == "unfinished-copy"):
        copy_project(there, "alpha", file.database, "beta")
    done = copy_project(file.database, "alpha", there)

    assert half == 1
    assert done.went_on
    assert rows_of(there, "alpha") == rows_of(file.database, "alpha")
    open_store(store_url, "alpha").close()


@pytest.mark.parametrize(
    "change",
    [
        lambda store: store.tasks.update(store.tasks.all()[0].id, title="Renamed"),
        lambda store: store.tasks.delete(next(task.id for task in store.tasks.all() if task.title == "Task 9")),
        lambda store: learn(store, "Learned since"),
    ],
)
def test_what_changed_in_the_source_since_an_interruption_is_in_the_copy(
    file: Store, there: Database, store_url: str, change: object
) -> None:
    killed_at("memory_events", file, store_url)
    assert callable(change)
    change(file)

    copy_project(file.database, "alpha", there)

    assert rows_of(there, "alpha") == rows_of(file.database, "alpha")


def test_an_unfinished_copy_of_another_project_is_left_alone(
    file: Store, there: Database, store_url: str, tmp_path: Path
) -> None:
    killed_at("memory_events", file, store_url)
    other = create_store(str(tmp_path / "other.db"), "alpha")
    learn(other, "Another one")

    with pytest.raises(UsageError, check=lambda error: error.code == "unfinished-copy"):
        copy_project(other.database, "alpha", there)
    copied = copy_project(other.database, "alpha", there, "other")

    assert [row["title"] for row in rows_of(there, "other")["memory"]] == ["Another one"]
    assert copied.id == other.project_id
    other.close()


def test_others_write_on_while_a_project_is_copied_and_that_is_told(
    file: Store, there: Database, store_url: str
) -> None:
    copy_project(file.database, "alpha", there)
    source = open_store(store_url, "alpha")
    fill_more = iter([True])

    def tell(table: str, done: int, total: int) -> None:
        if table == "memory" and next(fill_more, False):
            learn(source, "Learned meanwhile")

    copied = copy_project(there, "alpha", file.database, "beta", tell)

    assert copied.has_changed
    assert "Learned meanwhile" not in [row["title"] for row in rows_of(file.database, "beta")["memory"]]
    assert "Learned meanwhile" in [memory.title for memory in source.memories.all()]
    source.close()


# --- others, meanwhile ---------------------------------------------------------------------


@pytest.mark.parametrize("is_resumed", [False, True])
def test_a_copy_that_another_one_has_finished_leaves_what_was_added_since(
    file: Store, there: Database, store_url: str, is_resumed: bool
) -> None:
    if is_resumed:
        killed_at("memory_events", file, store_url)
    waiting = iter([True])

    def tell(table: str, done: int, total: int) -> None:
        if table == "memory_links" and next(waiting, False):
            again = open_database(file.database.display_url), open_database(store_url)
            copy_project(again[0], "alpha", again[1])
            worker = open_store(store_url, "alpha")
            worker.tasks.add(TaskDraft(title="Added since"))
            for one in (*again, worker):
                one.close()

    with pytest.raises(StoreError, check=lambda error: error.code == "copy-taken-over"):
        copy_project(file.database, "alpha", there, report_progress=tell)

    worker = open_store(store_url, "alpha")
    assert "Added since" in [task.title for task in worker.tasks.all()]
    worker.close()


def test_a_copy_that_another_one_has_begun_anew_stops_before_its_next_page(
    file: Store, there: Database, store_url: str
) -> None:
    killed_at("memory", file, store_url)
    waiting = iter([True])

    def tell(table: str, done: int, total: int) -> None:
        if table == "memory" and next(waiting, False):
            source = open_store(file.database.display_url)
            learn(source, "Learned since")
            source.close()
            killed_at("features", file, store_url)

    with pytest.raises(StoreError, check=lambda error: error.code == "copy-taken-over"):
        copy_project(file.database, "alpha", there, report_progress=tell)
    copy_project(file.database, "alpha", there)

    assert rows_of(there, "alpha") == rows_of(file.database, "alpha")


def test_a_task_added_just_before_a_project_is_filled_stays(
    file: Store, there: Database, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ralph.store.maintenance import copy

    worker = create_store(store_url, "alpha")
    begin_copy = copy._begin

    def begin_late(*given: Any) -> Any:
        worker.tasks.add(TaskDraft(title="Mine"))
        return begin_copy(*given)

    monkeypatch.setattr(copy, "_begin", begin_late)
    with pytest.raises(UsageError, check=lambda error: error.code == "project-in-use"):
        copy_project(file.database, "alpha", there)

    assert [task.title for task in worker.tasks.all()] == ["Mine"]
    worker.close()
    open_store(store_url, "alpha").close()


def test_a_task_added_while_a_project_is_filled_stays(
    file: Store, there: Database, store_url: str, tmp_path: Path
) -> None:
    worker = create_store(store_url, "alpha")
    waiting = iter([True])

    def tell(table: str, done: int, total: int) -> None:
        if table == "memory" and next(waiting, False):
            worker.tasks.add(TaskDraft(title="Mine"))

    with pytest.raises(StoreError, check=lambda error: error.code == "copy-target-changed"):
        copy_project(file.database, "alpha", there, report_progress=tell)
    for _ in range(2):
        with pytest.raises(StoreError, check=lambda error: error.code == "project-in-use"):
            copy_project(file.database, "alpha", there)

    assert "Mine" in [task.title for task in worker.tasks.all()]
    worker.close()
    (tmp_path / ".ralph").mkdir()
    assert ProjectService(tmp_path, Config(), there).remove("alpha").backup  # it holds what is nowhere else


def test_two_copies_that_begin_at_once_do_not_harm_each_other(
    file: Store, there: Database, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ralph.store.maintenance import copy

    begin_copy = copy._begin
    waiting = iter([True])

    def begin_late(*given: Any) -> Any:
        if next(waiting, False):
            other = open_database(store_url)
            copy_project(file.database, "alpha", other)
            other.close()
        return begin_copy(*given)

    monkeypatch.setattr(copy, "_begin", begin_late)
    with pytest.raises(StoreError, check=lambda error: error.code == "copy-taken-over"):
        copy_project(file.database, "alpha", there)

    assert rows_of(there, "alpha") == rows_of(file.database, "alpha")


def test_all_tables_with_rows_of_a_project_are_known(there: Database) -> None:
    tables = {name for name, columns in schema_columns().items() if "project_id" in columns}

    assert set(ALL_PROJECT_TABLES) == tables
    assert len(ALL_PROJECT_TABLES) == len(tables)


# --- taking time ---------------------------------------------------------------------------


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the server end a transaction that stops for a moment."""
    monkeypatch.setitem(driver._SETTINGS, "idle_in_transaction_session_timeout", "200ms")


@pytest.mark.postgres
def test_a_copy_from_a_server_may_take_its_time_to_compare(
    hasty: None, file: Store, there: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ralph.store.maintenance import copy

    copy_project(file.database, "alpha", there)
    compare = copy.tally_rows

    def slowly(*given: Any) -> Any:
        time.sleep(0.5)
        return compare(*given)

    monkeypatch.setattr(copy, "tally_rows", slowly)
    copied = copy_project(there, "alpha", file.database, "beta")
    again = copy_project(file.database, "alpha", there)

    assert not copied.has_changed
    assert again.was_there


@pytest.mark.postgres
def test_a_restore_and_a_removal_may_take_their_time(
    hasty: None, server_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ralph.store.maintenance import backup, restore

    publish = backup.publish

    def slowly(*given: Any) -> Path:
        time.sleep(0.5)
        return publish(*given)

    for module in (backup, restore):
        monkeypatch.setattr(module, "publish", slowly)
    back_up_store(server_store, "by hand")
    learn(server_store, "Learned since")
    restore_project_rows(server_store)
    (tmp_path / ".ralph").mkdir()
    removed = ProjectService(tmp_path, Config(), server_store.database).remove("alpha")

    assert removed.removed_rows["memory"] == 20


# --- bringing back on a server -------------------------------------------------------------


@pytest.fixture
def server_store(file: Store, there: Database, store_url: str, tmp_path: Path) -> Iterator[Store]:
    """Give a filled project on a server, with a working copy."""
    copy_project(file.database, "alpha", there)
    store = open_store(store_url, "alpha")
    store.data_dir = str(tmp_path / "home")
    Path(store.data_dir).mkdir()
    yield store
    store.close()


@pytest.mark.postgres
def test_a_restore_on_a_server_brings_every_row_back(server_store: Store, there: Database) -> None:
    before = rows_of(there, "alpha")
    back_up_store(server_store, "by hand")
    learn(server_store, "Learned since")
    server_store.tasks.delete(server_store.tasks.all()[0].id)

    restore_project_rows(server_store)

    after = rows_of(there, "alpha")
    made = [row.pop("made") for row in after["memory_vectors"]]
    assert min(made) > max(row.pop("made") for row in before["memory_vectors"])
    assert after == before
    learn(server_store, "Learned afterwards")
    assert server_store.damaged_rows() == []


@pytest.mark.postgres
def test_who_works_on_a_task_while_it_is_restored_cannot_settle_it(server_store: Store) -> None:
    back_up_store(server_store, "by hand")
    task, _ = begin(server_store, server_store.attempts.start_run("test").id)

    restore_project_rows(server_store)
    server_store.attempts.start_run("test")
    again, _ = begin(server_store, server_store.attempts.start_run("test").id)

    assert again.id == task.id
    assert again.claim_token > task.claim_token
    with pytest.raises(ClaimLostError):
        server_store.tasks.settle(task.id, task.claim_token, TaskStatus.DONE)
    assert server_store.damaged_rows() == []


@pytest.mark.postgres
def test_others_need_not_wait_while_a_restore_is_prepared_and_what_they_add_is_kept(
    server_store: Store, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ralph.store.maintenance import restore

    back_up_store(server_store, "by hand")
    other = open_store(store_url, "alpha")
    look = restore._gap
    waiting = iter([True])

    def look_slowly(*given: Any) -> restore.DataLoss | None:
        if next(waiting, False):
            learn(other, "Learned meanwhile")
        return look(*given)

    monkeypatch.setattr(restore, "_gap", look_slowly)
    monkeypatch.setitem(driver._SETTINGS, "lock_timeout", "1s")
    other.database.release_connection()
    restored = restore_project_rows(server_store)

    assert "Learned meanwhile" not in [memory.title for memory in other.memories.all()]
    assert "1 memory added" in restored.loss_message
    with closing(apsw.Connection(restored.saved_to)) as kept:
        assert ("Learned meanwhile",) in kept.execute("SELECT title FROM memory").fetchall()
    other.close()


@pytest.mark.postgres
def test_others_see_the_old_or_the_new_while_a_restore_goes_on(
    server_store: Store, there: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    back_up_store(server_store, "by hand")
    learn(server_store, "Learned since")
    before = rows_of(there, "alpha")
    seen = []
    insert = server_store.database.insert_many

    def look(table: str, rows: list[Row]) -> None:
        insert(table, rows)
        if table in ("tasks", "memory_vectors"):
            seen.append(rows_of(there, "alpha") == before)

    monkeypatch.setattr(server_store.database, "insert_many", look)
    restore_project_rows(server_store)

    assert seen == [True, True]
    assert rows_of(there, "alpha") != before


@pytest.mark.postgres
def test_a_restore_that_fails_changes_nothing(
    server_store: Store, there: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ralph.store.maintenance import copy

    back_up_store(server_store, "by hand")
    learn(server_store, "Learned since")
    before = rows_of(there, "alpha")

    def fail(*_: object) -> None:
        raise StoreError("The server is gone.")

    monkeypatch.setattr(copy, "_invalidate_claims", fail)
    with pytest.raises(StoreError, match="gone"):
        restore_project_rows(server_store)

    assert rows_of(there, "alpha") == before


@pytest.mark.postgres
def test_a_number_that_others_got_meanwhile_is_never_given_twice(file: Store, there: Database, store_url: str) -> None:
    others = create_store(store_url, "beta")
    learn(others, "One")
    copy_project(file.database, "alpha", there)
    learn(others, "Two")
    alpha = open_store(store_url, "alpha")
    learn(alpha, "Three")

    numbers = there.query("SELECT seq FROM memory ORDER BY seq DESC LIMIT 2")

    assert numbers[0]["seq"] > numbers[1]["seq"] > len(file.memories.all())
    for store in (others, alpha):
        store.close()
