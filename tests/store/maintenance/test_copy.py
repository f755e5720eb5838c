"""Copying a project to another database and back: nothing is lost, nothing is half there."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ralph.core.config import Config
from ralph.core.errors import StoreError, UsageError
from ralph.core.records import AgentSession, AttemptOutcome, HeldChange, Question, TaskStatus
from ralph.core.tracking import Tracking
from ralph.projects import ProjectService
from ralph.store import Store, create_store, open_database, open_store
from ralph.store.database import ProjectScope
from ralph.store.maintenance.backup import back_up_store
from ralph.store.maintenance.copy import copy_project, iter_pages
from ralph.store.maintenance.migrate import schema_columns
from ralph.store.maintenance.restore import restore_project_rows
from ralph.store.postgres import connection
from ralph.store.tables import ALL_PROJECT_TABLES, PROJECT_TABLES
from ralph.store.tasks import TaskDraft
from tests.make import an_episode, begin, damaged_rows, finish
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
        memory.id, "edited", LEARNED, content="See [[Fact 2]] in src/a.py.", files=("src/a.py", "src/b.py")
    )
    store.memories.undo(memory.id, LEARNED)
    store.memories.update(memory.id, "edited", LEARNED, content="See [[Fact 3]].", files=("src/c.py",))
    at = "2026-11-01T10:00:00.000Z"
    store.sessions.save(AgentSession(id="s1", agent="claude", shown=(memory.id,), started_at=at, last_at=at))
    store.held_changes.add(
        HeldChange(task_id=later.id, run_id="r", iteration=1, digest="d", reason="why", diff="+\tx", created_at=at)
    )
    store.questions.add(Question(task_id=later.id, text="Which?", asked_at=at, answer="This.", answered_by="person"))
    store.episodes.add([an_episode("We moved the login to JWT", files=("src/c.py",))])
    store.episodes.cursors.save("git", 1, "abc")
    for index, table in (("memory", "memory"), ("episode", "episodes")):
        store.database.execute(
            f"""
            INSERT INTO {index}_vectors (project_id, seq, model, vector) SELECT project_id, seq, 'm', :v FROM {table}
            """,
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

    assert damaged_rows(with_copy) == []
    again = found_by(with_copy, "all about Fact 7"), notes_found_by(with_copy, "looked part")
    assert (*again, failures_found_by(with_copy, "broke")) == found
    learn(with_copy, "Learned there")
    with_copy.tasks.add(TaskDraft(title="Added there"))
    task, attempt = begin(with_copy, with_copy.runs.start("test").id)
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
    assert damaged_rows(gamma) == []
    assert found_by(gamma, "all about Fact 7") == found_by(file, "all about Fact 7")
    undone = [event.undoes for memory in gamma.memories.all() for event in gamma.memories.history.of(memory.id)]
    numbers = {row["seq"] for row in rows_of(there, "gamma")["memory_events"]}
    assert numbers >= {number for number in undone if number} != set()
    learn(gamma, "Learned in gamma")
    learn(theirs, "Learned in beta")
    for store in (gamma, theirs):
        assert damaged_rows(store) == []
        store.close()


def test_a_project_that_is_there_but_empty_is_filled(file: Store, there: Database, store_url: str) -> None:
    empty = create_store(store_url, "alpha")

    copied = copy_project(file.database, "alpha", there)

    assert copied.id == empty.project_id != file.project_id
    assert damaged_rows(empty) == []
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
from ralph.core.tracking import Tracking
from ralph.store import open_database
from ralph.store.maintenance import copy

copy.PAGE = 3

def report(what, done, total):
    if what == f"Copying {sys.argv[3]}":
        os._exit(9)

source, target = open_database(sys.argv[1]), open_database(sys.argv[2], create=True)
with Tracking(report):
    copy.copy_project(source, "alpha", target)
"""


def killed_at(table: str, source: Store, url: str) -> None:
    ran = subprocess.run([sys.executable, "-c", COPIER, source.database.display_url, url, table], check=False)
    assert ran.returncode == 9


@pytest.mark.parametrize("table", ["tasks", "memory_vectors"])
def test_an_interrupted_copy_leaves_nothing_and_can_be_repeated(
    file: Store, there: Database, store_url: str, table: str
) -> None:
    killed_at(table, file, store_url)

    assert there.query("SELECT * FROM projects") == []
    copy_project(file.database, "alpha", there)

    assert rows_of(there, "alpha") == rows_of(file.database, "alpha")


def test_an_unfinished_copy_of_an_older_version_is_refused_and_replaced(
    file: Store, there: Database, store_url: str
) -> None:
    half = create_store(store_url, "alpha")
    half.tasks.add(TaskDraft(title="Copied before"))
    half.close()
    there.execute("UPDATE projects SET copying = :state", state='{"source": "file.db"}')

    with pytest.raises(StoreError, check=lambda error: error.code == "unfinished-copy"):
        open_store(store_url, "alpha")
    with pytest.raises(StoreError, check=lambda error: error.code == "unfinished-copy"):
        copy_project(there, "alpha", file.database, "beta")
    copy_project(file.database, "alpha", there)

    titles = [row["title"] for row in rows_of(there, "alpha")["tasks"]]
    assert titles == [row["title"] for row in rows_of(file.database, "alpha")["tasks"]]
    open_store(store_url, "alpha").close()


def test_others_write_on_while_a_project_is_copied_and_that_is_told(
    file: Store, there: Database, store_url: str
) -> None:
    copy_project(file.database, "alpha", there)
    source = open_store(store_url, "alpha")
    fill_more = iter([True])

    def tell(what: str, done: int, total: int) -> None:
        if what == "Copying memory" and next(fill_more, False):
            learn(source, "Learned meanwhile")

    with Tracking(tell):
        copied = copy_project(there, "alpha", file.database, "beta")

    assert copied.has_changed
    assert "Learned meanwhile" not in [row["title"] for row in rows_of(file.database, "beta")["memory"]]
    assert "Learned meanwhile" in [memory.title for memory in source.memories.all()]
    source.close()


# --- others, meanwhile ---------------------------------------------------------------------


def just_before_the_copy(monkeypatch: pytest.MonkeyPatch, step: str, work: Callable[[], object]) -> None:
    """Call `work` once, after a step that a copy takes before it locks its target."""
    from ralph.store.maintenance import copy

    take_step, waiting = getattr(copy, step), iter([work])

    def take_step_slowly(*given: Any) -> Any:
        result = take_step(*given)
        for one in waiting:
            one()
        return result

    monkeypatch.setattr(copy, step, take_step_slowly)


def test_a_task_added_just_before_a_project_is_filled_stays(
    file: Store, there: Database, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = create_store(store_url, "alpha")
    just_before_the_copy(monkeypatch, "is_empty", lambda: worker.tasks.add(TaskDraft(title="Mine")))

    with pytest.raises(UsageError, check=lambda error: error.code == "project-in-use"):
        copy_project(file.database, "alpha", there)

    assert [task.title for task in worker.tasks.all()] == ["Mine"]
    worker.close()


def test_two_copies_that_begin_at_once_do_not_harm_each_other(
    file: Store, there: Database, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copy_too() -> None:
        with closing(open_database(store_url)) as other:
            copy_project(file.database, "alpha", other)

    just_before_the_copy(monkeypatch, "_find_target", copy_too)
    with pytest.raises(UsageError, check=lambda error: error.code == "project-in-use"):
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
    monkeypatch.setitem(connection.SETTINGS, "idle_in_transaction_session_timeout", "200ms")


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
    for table in ("memory_vectors", "episode_vectors"):
        made = [row.pop("made") for row in after[table]]
        assert min(made) > max(row.pop("made") for row in before[table])
    assert after == before
    learn(server_store, "Learned afterwards")
    assert damaged_rows(server_store) == []


@pytest.mark.postgres
def test_who_works_on_a_task_while_it_is_restored_cannot_settle_it(server_store: Store) -> None:
    back_up_store(server_store, "by hand")
    task, _ = begin(server_store, server_store.runs.start("test").id)

    restore_project_rows(server_store)
    server_store.runs.start("test")
    again, _ = begin(server_store, server_store.runs.start("test").id)

    assert again.id == task.id
    assert again.claim_token > task.claim_token
    assert not server_store.tasks.claims.settle(task.id, task.claim_token, TaskStatus.DONE)
    assert damaged_rows(server_store) == []


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
