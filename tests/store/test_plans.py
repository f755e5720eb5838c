"""Frequent queries read a few rows, however many there are."""

from __future__ import annotations

from ralph.store import Store
from ralph.store.memory_queries import LAST_EVENT
from tests.make import a_memory, remember


def test_the_newest_event_is_found_without_sorting_all(store: Store) -> None:
    remember(store, a_memory("A fact", "It is so."))

    with store.transaction():
        if store.is_shared:
            store.database.execute("SET LOCAL enable_seqscan = off")  # a small table is read as a whole
        explain = "EXPLAIN" if store.is_shared else "EXPLAIN QUERY PLAN"
        plan = [str(list(row.values())[-1]) for row in store.scope.query(f"{explain} {LAST_EVENT}")]

    assert plan
    assert not [line for line in plan if "Sort " in line or "TEMP B-TREE" in line]
