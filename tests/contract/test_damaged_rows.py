"""Tasks that do not match their checksums."""

from __future__ import annotations

import pytest

from ralph.core.errors import StoreError
from ralph.store import Store
from ralph.store.memories import ChangeInfo
from ralph.store.tasks import TaskDraft
from tests.make import begin, damaged_rows

CHANGE = ChangeInfo(who="t", why="t")


def damage(store: Store, table: str, column: str) -> None:
    store.scope.execute(f"UPDATE {table} SET {column} = 'changed on the disk' WHERE project_id = :project_id")
    assert len(damaged_rows(store)) == 1


def test_nobody_begins_a_task_that_may_not_be_what_was_asked_for(store: Store) -> None:
    store.tasks.add(TaskDraft(title="Keep the table"))
    store.runs.start("test")
    damage(store, "tasks", "title")

    with pytest.raises(StoreError, check=lambda error: error.code == "damaged-task"):
        begin(store, store.runs.start("test").id)

    assert store.tasks.claims.claimed() == []
