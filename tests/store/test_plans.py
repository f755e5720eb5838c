"""Frequent queries read a few rows, however many there are."""

from __future__ import annotations

import pytest

from ralph.store import Store
from ralph.store.episodes import PASSAGES_WITH_RULES
from ralph.store.memories import ChangeInfo
from ralph.store.memory_index import LINKS
from ralph.store.memory_queries import EVENTS_SINCE, HAS_RULES, LAST_EVENT, MEMORIES_WITH_RULES
from tests.make import a_memory, remember


@pytest.mark.parametrize(("query", "values"), [(LAST_EVENT, {}), (EVENTS_SINCE, {"since": 0, "limit": 5})])
def test_the_newest_events_are_found_without_sorting_all(store: Store, query: str, values: dict[str, int]) -> None:
    remember(store, a_memory("A fact", "It is so."))

    plan = plan_of(store, query, **values)

    assert plan
    assert not [line for line in plan if "Sort " in line or "TEMP B-TREE" in line]


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (MEMORIES_WITH_RULES, "memory_with_rule"),
        (PASSAGES_WITH_RULES, "episodes_with_rules"),
        (HAS_RULES, "memory_with_rule"),
        (HAS_RULES, "episodes_with_rules"),
    ],
)
def test_rules_are_found_by_their_own_index(store: Store, query: str, index: str) -> None:
    remember(store, a_memory("A fact", "It is so."))

    assert any(index in line for line in plan_of(store, query, **({"limit": 5} if ":limit" in query else {})))


@pytest.mark.sqlite  # PostgreSQL decides by the statistics of the table
@pytest.mark.parametrize(("column", "index"), [("title_key", "memory_links_by_title"), ("memory_id", "")])
def test_links_are_found_from_both_sides(store: Store, column: str, index: str) -> None:
    plan = plan_of(store, f"{LINKS} AND {column} IN (:one, :other)", one="a", other="b")

    assert any(index in line and column in line for line in plan)


@pytest.mark.postgres
def test_candidates_are_looked_up_one_by_one_before_there_are_statistics(store: Store) -> None:
    from ralph.store.postgres.words import rows_query

    many = [a_memory(f"Fact {n}", id=f"mem-{n}-0000") for n in range(3_000)]
    store.memories.insert_all_unchecked(many, ChangeInfo(who="t", why="t"))

    plan = plan_of(store, rows_query("memory", "r.state = 'active'"), seqs=[1, 2, 3])

    scans = [line for line in plan if " Scan " in line]
    assert [line for line in scans if "memory_pkey" in line]
    assert not [line for line in scans if "memory_by_state" in line or "Seq Scan" in line]


def plan_of(store: Store, query: str, **values: object) -> list[str]:
    """Return how the database would answer a query, line by line."""
    with store.transaction():
        if store.is_shared:
            store.database.execute("SET LOCAL enable_seqscan = off")  # a small table is read as a whole
        explain = "EXPLAIN" if store.is_shared else "EXPLAIN QUERY PLAN"
        return [str(list(row.values())[-1]) for row in store.scope.query(f"{explain} {query}", **values)]
