"""What one project of a database can do to another one: nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from ralph.project import Project
from ralph.store.tasks import TaskStore
from tests.faults.apart import LEFT_OUT, SECRET, Facts, attack, both, operations, rows_of, tables


@pytest.fixture
def two(tmp_path: Path) -> tuple[Project, Facts]:
    """Give a project, and what there is to know of the other one."""
    return both(tmp_path)


def test_no_operation_gives_or_changes_anything_of_another_project(two: tuple[Project, Facts]) -> None:
    mine, theirs = two

    tried = attack(mine, theirs, 0, 5)

    assert tried.wrong == ()
    assert tried.crashed == ()
    assert tried.calls == tried.operations > 200
    assert len(tried.skipped) < tried.calls // 20, tried.skipped
    assert tried.answered > tried.calls // 2
    mine.close()


def test_the_other_project_has_something_to_lose_in_every_table(two: tuple[Project, Facts]) -> None:
    mine, theirs = two
    # What is agreed about shared memories, and sums of many attempts, need more than one project.
    rare = {"attempt_sums", "attempt_summed", "shared_seen", "shared_agreed", "synced_places"}

    rows = rows_of(mine.store, theirs.project_id, tables(mine.store))

    assert {name for name, found in rows.items() if not found} <= rare
    assert SECRET in repr(rows)
    mine.close()


@pytest.mark.once
def test_whoever_forgets_the_project_in_a_statement_is_caught(
    two: tuple[Project, Facts], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, theirs = two

    def titles(self: TaskStore, ids: object) -> dict[str, str]:
        return {row["id"]: row["title"] for row in self._scope.database.query("SELECT id, title FROM tasks")}

    def log(self: TaskStore, id: str, message: str, who: str) -> None:
        self._scope.database.execute("UPDATE tasks SET title = 'x' WHERE id = :id", id=id)

    monkeypatch.setattr(TaskStore, "titles", titles)
    monkeypatch.setattr(TaskStore, "log", log)
    wrong = [one.partition("(")[0] for one in attack(mine, theirs, 20, 1, ("TaskStore.titles", "TaskStore.log")).wrong]

    assert "TaskStore.titles" in wrong
    assert "TaskStore.log" in wrong
    mine.close()


@pytest.mark.once
def test_what_is_left_out_is_there_and_has_a_reason(two: tuple[Project, Facts]) -> None:
    mine, _ = two
    tried = {called for called, _ in operations(mine)}

    assert tried.isdisjoint(LEFT_OUT)
    assert all(LEFT_OUT.values())
    mine.close()
