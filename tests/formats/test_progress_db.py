"""The database of RefoundAI's ralph moves in: tasks, features and the journal."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from ralph.core.errors import UsageError
from ralph.core.records import TaskStatus
from ralph.formats import databases
from ralph.formats.registry import FORMATS, FileFormat
from ralph.memory.import_export import ImportResult
from ralph.project import Project
from tests.formats.progress_db import AT, open_progress_db


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Give the path of a database of the newest version, as a finished program leaves it, with a spec."""
    path = tmp_path / "other" / ".ralph" / "progress.db"
    open_progress_db(path).close()
    spec = path.parent / "features" / "parser" / "spec.md"
    spec.parent.mkdir(parents=True)
    spec.write_text("Parse everything.\n")
    return path


def import_one(project: Project, path: Path) -> ImportResult:
    (result,) = project.transfer.import_path(path)
    return result


def change(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_every_version_is_imported(project: Project, tmp_path: Path, version: int) -> None:
    path = tmp_path / "other" / ".ralph" / "progress.db"
    open_progress_db(path, version).close()

    result = import_one(project, path)

    assert (result.format, result.tasks, result.features) == ("progress-db", 5, int(version > 1))
    # The spec of the feature does not exist here.
    assert [(problem.line, problem.was_read) for problem in result.problems] == [(1, False)] * (version > 1)


def test_tasks_keep_their_links_status_order_and_feature(project: Project, database: Path) -> None:
    result = import_one(project, database)

    assert result.problems == ()
    tasks = {task.id: task for task in project.tasks.list()}
    assert {id: (task.status, task.parent_id, task.needs) for id, task in tasks.items()} == {
        "t-000000a1": (TaskStatus.FAILED, None, ()),  # as its parts are
        "t-000000a2": (TaskStatus.DONE, "t-000000a1", ()),
        "t-000000a3": (TaskStatus.FAILED, "t-000000a1", ("t-000000a2",)),
        "t-000000a4": (TaskStatus.PENDING, None, ("t-000000a3",)),
        "t-000000a5": (TaskStatus.BLOCKED, None, ()),
    }
    order = sorted(tasks, key=lambda key: -tasks[key].priority)
    assert order == ["t-000000a1", "t-000000a5", "t-000000a2", "t-000000a3", "t-000000a4"]
    (feature,) = project.store.features.all()
    assert (feature.name, feature.spec) == ("parser", "Parse everything.")
    assert tasks["t-000000a3"].feature_id == feature.id
    assert tasks["t-000000a3"].reason == "Escapes are not done."


def test_the_journal_is_in_the_log_and_the_notes_of_unfinished_tasks_in_their_description(
    project: Project, database: Path
) -> None:
    import_one(project, database)

    log = project.tasks.read_log("t-000000a3")
    assert [(entry.who, entry.at[:19]) for entry in log] == [("import", AT[:19])] * 3
    assert "retried 2 of 3 times" in log[0].message
    assert (
        log[1].message == "run-0000000b, iteration 1: failed (opus, 61 s, $0.25).\nQuotes nest.\nFiles: src/parser.rs"
    )
    assert [entry.message for entry in project.tasks.read_log("t-000000a2")][1:] == ["Half done."]
    body = project.store.tasks.get("t-000000a3").body
    assert "- 2026-02-26, failed: Quotes nest." in body
    assert "- 2026-02-26, failed: Escapes are not done." in body
    assert project.store.tasks.get("t-000000a2").body == "Tabs are eight columns."
    assert project.store.scope.query("SELECT 1 FROM attempts WHERE project_id = :project_id") == []


def test_importing_it_again_changes_nothing(project: Project, database: Path) -> None:
    import_one(project, database)
    log = project.tasks.read_log("t-000000a3")

    again = import_one(project, database)

    assert (again.tasks, again.features, again.known, again.problems) == (0, 0, 5, ())
    assert project.tasks.read_log("t-000000a3") == log


# --- the file is only read ---------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_a_database_that_nobody_has_open_is_left_as_it_is(project: Project, database: Path) -> None:
    before = contents(database.parent)
    assert list(before) == ["progress.db"]

    import_one(project, database)

    assert contents(database.parent) == before


def test_what_is_only_in_the_log_of_a_killed_program_is_imported_and_left_there(
    project: Project, tmp_path: Path
) -> None:
    live = tmp_path / "live" / "progress.db"
    connection = open_progress_db(live)
    left = tmp_path / "other" / ".ralph"
    left.mkdir(parents=True)
    for name in ("progress.db", "progress.db-wal"):
        (left / name).write_bytes((live.parent / name).read_bytes())
    connection.close()
    before = contents(left)

    result = import_one(project, left / "progress.db")

    assert result.tasks == 5
    assert contents(left) == before


def test_a_database_that_is_being_written_is_read_as_of_the_last_commit(project: Project, tmp_path: Path) -> None:
    path = tmp_path / "other" / ".ralph" / "progress.db"
    writer = open_progress_db(path, 1)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("INSERT INTO tasks (id, title, created_at, updated_at) VALUES ('t-000000ff', 'Later', '', '')")
    before = contents(path.parent)

    result = import_one(project, path)

    assert result.tasks == 5
    after = contents(path.parent)
    assert all(after[name] == before[name] for name in ("progress.db", "progress.db-wal"))
    writer.execute("COMMIT")  # nobody kept it waiting
    assert import_one(project, path).tasks == 1
    writer.close()


# --- bad input ---------------------------------------------------------------------


def test_rows_that_cannot_be_imported_are_named_and_the_rest_is_imported(project: Project, database: Path) -> None:
    change(
        database,
        "INSERT INTO tasks (id, title, created_at, updated_at) VALUES ('t-000000b1', '', '', 'x')",
        "INSERT INTO tasks (id, title, status, created_at, updated_at) VALUES ('t-000000b2', 'b', 'odd', 'soon', '')",
        "INSERT INTO dependencies VALUES ('t-000000a1', 't-gone')",
        "INSERT INTO task_logs (task_id, message, timestamp) VALUES ('t-gone', 'x', '')",
        "INSERT INTO journal (run_id, iteration, outcome, notes, created_at) VALUES ('run-1', 1, 'done', 'n', '')",
        "INSERT INTO model_overrides VALUES ('all', 'opus')",
        "UPDATE features SET plan_path = '../../../etc/hostname'",
        "PRAGMA user_version = 6",
    )

    result = import_one(project, database)

    assert result.tasks == 6
    assert project.store.tasks.get("t-000000b2").status is TaskStatus.BLOCKED
    assert result.rejected == 7
    assert [problem.was_read for problem in result.problems].count(True) == 1
    assert all(problem.line > 0 for problem in result.problems)


def test_tasks_that_wait_for_each_other_are_imported_without_one_of_the_links(project: Project, database: Path) -> None:
    change(database, "INSERT INTO dependencies VALUES ('t-000000a3', 't-000000a1')")

    result = import_one(project, database)

    assert result.tasks == 5
    assert (result.rejected, len(result.problems)) == (0, 1)
    assert project.store.tasks.get("t-000000a1").needs == ()


def test_a_database_of_another_kind_is_named(project: Project, tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    change(path, "CREATE TABLE notes (id INTEGER, text TEXT)")

    result = import_one(project, path)

    assert (result.format, result.has_content, result.rejected) == ("unknown", False, 1)


@pytest.mark.parametrize("damage", [lambda data: data[:5000], lambda data: data[:200] + b"\xff" * len(data[200:])])
def test_a_damaged_database_is_refused(project: Project, database: Path, damage: object) -> None:
    database.write_bytes(damage(database.read_bytes()))  # type: ignore[operator]

    with pytest.raises(UsageError):
        project.transfer.import_path(database)

    assert project.tasks.list() == []


def test_a_database_that_is_too_large_is_refused(
    project: Project, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.open("r+b") as file:
        file.truncate(2 * 1024**3)  # sparse
    with pytest.raises(UsageError):
        project.transfer.import_path(database)

    monkeypatch.setattr(databases, "MAX_DATABASE_BYTES", 100)
    with pytest.raises(UsageError):
        project.transfer.import_path(database)


def test_a_folder_of_a_project_has_its_database(project: Project, database: Path) -> None:
    (result,) = project.transfer.import_path(database.parent.parent)

    assert (result.name, result.tasks) == (".ralph/progress.db", 5)


def test_another_projects_database_is_not_merged_like_one_of_ours(project: Project, database: Path) -> None:
    (result,) = project.transfer.merge(database)

    assert result.tasks == 5


def test_a_new_kind_of_database_is_one_entry_in_the_registry(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = "tests.formats.toy_format:"
    format = FileFormat(
        name="toy-db",
        title="one row per memory",
        content="project",
        is_database=True,
        detector=here + "is_toy_database",
        reader=here + "read_toy_database",
    )
    monkeypatch.setitem(FORMATS, "toy-db", format)
    change(tmp_path / "x", "CREATE TABLE toys (body TEXT)", "INSERT INTO toys VALUES ('Start docker first.')")

    result = import_one(project, tmp_path / "x")

    assert (result.format, result.new) == ("toy-db", 1)
