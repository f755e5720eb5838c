"""What does not match its checksum is never made to look sound by something that happens to it."""

from __future__ import annotations

import pytest

from ralph.core.errors import StoreError
from ralph.core.records import now
from ralph.store import Store
from ralph.store.memories import ChangeInfo
from ralph.store.tasks import TaskDraft
from tests.make import a_memory, begin, remember

CHANGE = ChangeInfo(who="t", why="t")


def damage(store: Store, table: str, column: str) -> None:
    store.scope.execute(f"UPDATE {table} SET {column} = 'changed on the disk' WHERE project_id = :project_id")
    assert len(store.damaged_rows()) == 1


def test_a_damaged_memory_stays_known_as_one_when_it_is_used_and_changed(store: Store) -> None:
    memory = remember(store, a_memory("Tabs", "The parser wants tabs."))
    damage(store, "memory", "body")

    store.memories.credit_outcome([memory.id], now(), won=True)
    store.memories.update(memory.id, "edited", CHANGE, tags=("parser",))

    assert [table for table, _ in store.damaged_rows()] == ["memory"]


def test_a_damaged_memory_is_sound_once_its_text_is_written_anew(store: Store) -> None:
    memory = remember(store, a_memory("Tabs", "The parser wants tabs."))
    damage(store, "memory", "body")

    store.memories.update(memory.id, "edited", CHANGE, body="The parser wants tabs.")

    assert store.damaged_rows() == []


def test_a_damaged_task_stays_known_as_one_when_it_is_changed(store: Store) -> None:
    task = store.tasks.add(TaskDraft(title="Keep the table"))
    damage(store, "tasks", "title")

    store.tasks.update(task.id, priority=3)

    assert [table for table, _ in store.damaged_rows()] == ["tasks"]


def test_nobody_begins_a_task_that_may_not_be_what_was_asked_for(store: Store) -> None:
    task = store.tasks.add(TaskDraft(title="Keep the table"))
    store.attempts.start_run("test")
    damage(store, "tasks", "title")

    with pytest.raises(StoreError, match=f"Task {task.id} does not match its checksum"):
        begin(store, store.attempts.start_run("test").id)

    assert store.tasks.claimed() == []
