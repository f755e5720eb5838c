"""What every database promises behind the `Database` seam."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from ralph.core.errors import StatementError
from ralph.core.records import now, timestamp
from ralph.store import Store


def count(store: Store) -> int:
    return int(store.database.query("SELECT COUNT(*) AS n FROM projects")[0]["n"])


def add(store: Store, id: str) -> None:
    store.database.execute("INSERT INTO projects (id, name, created_at) VALUES (:id, :id, 'y')", id=id)


def test_rows_come_by_column_name(store: Store) -> None:
    assert store.database.query("SELECT 1 AS a, 'x' AS b, NULL AS c") == [{"a": 1, "b": "x", "c": None}]


def test_values_are_bound_whatever_they_hold(store: Store) -> None:
    odd = "'; DROP TABLE tasks; -- \" %s :name \u2603 \U0001f600"

    assert store.database.query("SELECT CAST(:odd AS TEXT) AS odd", odd=odd) == [{"odd": odd}]


def test_execute_says_how_many_rows_it_changed(store: Store) -> None:
    add(store, "p-1")
    add(store, "p-2")

    assert store.database.execute("UPDATE projects SET created_at = 'z' WHERE created_at = 'y'") == 2
    assert store.database.execute("UPDATE projects SET created_at = 'z' WHERE name = 'nobody'") == 0


def test_a_transaction_is_all_or_nothing(store: Store) -> None:
    before = count(store)

    with pytest.raises(ZeroDivisionError), store.transaction():
        add(store, "p-1")
        raise ZeroDivisionError

    assert count(store) == before


def test_an_inner_transaction_joins_the_outer_one(store: Store) -> None:
    before = count(store)

    with pytest.raises(ZeroDivisionError), store.transaction():
        with store.transaction():
            add(store, "p-1")
        raise ZeroDivisionError

    assert count(store) == before


def test_after_an_error_in_a_transaction_the_connection_can_be_used(store: Store) -> None:
    with pytest.raises(StatementError), store.transaction():
        store.database.execute("INSERT INTO projects (id) VALUES ('no name')")

    add(store, "p-1")
    assert count(store) == 2


def test_a_second_connection_sees_what_was_committed_and_nothing_else(open_again: Callable[[], Store]) -> None:
    one, other = open_again(), open_again()

    with one.transaction():
        add(one, "p-1")
        unseen = count(other)

    assert (unseen, count(other)) == (1, 2)


def test_many_writers_at_once_all_get_their_turn(open_again: Callable[[], Store]) -> None:
    errors: list[Exception] = []

    def write(worker: int) -> None:
        store = open_again()
        try:
            for n in range(20):
                with store.transaction():
                    before = count(store)
                    add(store, f"p-{worker}-{n}")
                    assert count(store) == before + 1
        except Exception as error:
            errors.append(error)
        finally:
            store.close()

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert count(open_again()) == 161


def test_a_lease_starts_with_a_timestamp_and_runs_out(store: Store) -> None:
    database = store.database

    def lease(seconds: str) -> tuple[str, bool]:
        sql = f"SELECT {database.lease_end} AS lease_until"
        row = database.query(
            f"SELECT lease_until, {database.lease_expired} AS is_over FROM ({sql}) AS l", lease_seconds=seconds
        )[0]
        return str(row["lease_until"]), bool(row["is_over"])

    until, is_over = lease("90.5")
    assert now() < until[: len("2026-01-01T00:00:00.000Z")] < timestamp(time.time() + 91)
    assert not is_over
    assert lease("-0.1")[1]


def test_json_lists_gather_a_column(store: Store) -> None:
    from ralph.store.rows import from_json

    some = store.database.json_array("x", "(SELECT 'b' AS x UNION ALL SELECT 'a') AS t")
    none = store.database.json_array("name", "projects WHERE id = 'nobody'")
    rows = store.database.query(f"SELECT {some} AS found, {none} AS missing")

    assert sorted(from_json(rows[0]["found"])) == ["a", "b"]
    assert rows[0]["missing"] == "[]"


def test_many_rows_are_added_as_they_are(store: Store) -> None:
    texts = ["", "a\tb", "a\nb\r\n", "\\", "\\N", "\\.", "\\\\x41", "'\"日本\U0001f600\x01\x7f", " spaces "]
    rows = [
        {"project_id": store.project_id, "id": f"r-{n}", "agent": text, "started_at": "1", "ended_at": None,
         "ending": text, "iterations": -n}
        for n, text in enumerate(texts)
    ]  # fmt: skip

    store.database.insert_many("runs", rows)
    store.database.insert_many("runs", [])

    found = store.database.query(f"SELECT {', '.join(rows[0])} FROM runs ORDER BY seq")
    assert found == rows
    with pytest.raises(StatementError):
        store.database.insert_many("runs", rows)
    assert store.database.query("SELECT COUNT(*) AS n FROM runs") == [{"n": len(texts)}]
