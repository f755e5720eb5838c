"""Behind a pooler that hands out another connection for each transaction."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ralph.core.errors import StoreError
from ralph.core.records import AttemptOutcome, Memory, TaskStatus, now
from ralph.store import Store, create_store, open_store
from ralph.store.database import SCHEMA_VERSION
from ralph.store.memories import ChangeInfo
from ralph.store.postgres.driver import PostgresDatabase
from ralph.store.tasks import TaskDraft
from tests.make import damaged_rows
from tests.pgbouncer import Pooler, find_program
from tests.postgres import Server
from tests.postgres_only.machine import Machine, one_sentence

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.own_store,
    pytest.mark.skipif(find_program() is None, reason="there is no pgbouncer: make .venv/.pgbouncer"),
]

SAID = ChangeInfo(who="agent", why="a test")
SOON_SECONDS = 1.0


@pytest.fixture(scope="module")
def pooler(server: Server) -> Iterator[Pooler]:
    program = find_program()
    assert program is not None
    made = Pooler(program, server)
    yield made
    made.remove()


@pytest.fixture
def database(server: Server, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Give the name of a database that holds an empty project called `team`."""
    name = f"p{abs(hash(request.node.name)) % 10**9}"
    server.run(f"CREATE DATABASE {name}")
    create_store(server.url(name), "team").close()
    return name


@pytest.fixture
def store(server: Server, database: str) -> Iterator[Store]:
    """Give the project without the pooler."""
    opened = open_store(server.url(database), "team")
    yield opened
    opened.close()


def behind(folder: Path, pooler: Pooler, server: Server, database: str) -> Machine:
    machine = Machine(folder, pooler.url(database), RALPH_STORE_DIRECT_URL=server.url(database))
    machine.must("init", "--project", "team")
    return machine


def a_memory(title: str) -> Memory:
    return Memory(id="", kind="pattern", title=title, content="", created_at=now(), updated_at=now())


def test_the_tables_are_made_through_a_pooler(pooler: Pooler, server: Server, tmp_path: Path) -> None:
    server.run("CREATE DATABASE made_behind")

    machine = behind(tmp_path, pooler, server, "made_behind")

    assert machine.must("doctor")
    assert server.run("SELECT version FROM ralph_schema", "made_behind") == [(SCHEMA_VERSION,)]


def test_two_loops_share_tasks_and_memories_behind_a_pooler(
    pooler: Pooler, server: Server, database: str, store: Store, tmp_path: Path
) -> None:
    ids = [task.id for task in store.tasks.add_all([TaskDraft(title=f"Task {number}") for number in range(12)])]
    machines = [behind(tmp_path / name, pooler, server, database) for name in ("left", "right")]

    runs = [machine.work() for machine in machines]

    assert {run.end() for run in runs} == {0}, [run.errors for run in runs]
    attempts = store.attempts.latest(100)
    assert sorted(attempt.task_id or "" for attempt in attempts) == sorted(ids)
    assert {attempt.outcome for attempt in attempts} == {AttemptOutcome.DONE}
    knowledge = [memory.title for memory in store.memories.all() if memory.kind == "knowledge"]
    assert sorted(knowledge) == sorted(f"About {id}" for id in ids)
    assert sum(run.told("run_ended")[0]["done"] for run in runs) == 12
    assert damaged_rows(store) == []


def test_waiting_ends_within_a_second_behind_a_pooler(
    pooler: Pooler, server: Server, database: str, store: Store, tmp_path: Path
) -> None:
    machine = behind(tmp_path, pooler, server, database)
    through = open_store(pooler.url(database), "team", direct_url=server.url(database))
    run = machine.work("--wait")
    watch = machine.start("memory", "watch", "--since", "0")
    run.wait_for('"waiting"')
    through.memories.add(a_memory("Warm"), SAID)
    watch.wait_for("Warm")
    waits = []
    for number in range(3):
        time.sleep(0.3)
        through.memories.add(a_memory(f"Fact number {number}"), SAID)
        learned = time.monotonic()
        seen = watch.wait_for(f"Fact number {number}")
        through.tasks.add(TaskDraft(title=f"Task {number}"))
        added = time.monotonic()
        claimed = run.wait_for('"attempt_started"')
        run.wait_for('"waiting"')
        waits.append(max(seen - learned, claimed - added))
    for one in (run, watch):
        one.process.terminate()
        one.end()
    through.close()

    assert min(waits) < SOON_SECONDS


def test_nothing_relies_on_what_a_connection_was_told_before(
    pooler: Pooler, server: Server, database: str, store: Store
) -> None:
    stores = [open_store(pooler.url(database), "team", direct_url=server.url(database)) for _ in range(3)]
    run = stores[0].runs.start("test")

    for turn in range(8):
        one = stores[turn % 3]
        one.tasks.add(TaskDraft(title=f"Task {turn}"))
        begun = stores[(turn + 1) % 3].attempts.begin(run.id, f"w/{turn}/1", 60, agent="test")
        assert begun is not None
        assert stores[(turn + 2) % 3].tasks.claims.heartbeat(begun.task.id, begun.task.claim_token, 60)
        one.tasks.claims.settle(begun.task.id, begun.task.claim_token, TaskStatus.DONE)
        one.memories.add(a_memory(f"Fact number {turn} of the parser"), SAID)
        assert len(stores[(turn + 1) % 3].memories.index.search_words({"parser": 1.0}, 20).rows) == turn + 1
        database_of_another = stores[(turn + 2) % 3].database
        assert isinstance(database_of_another, PostgresDatabase)
        with one.database.snapshot():
            assert one.memories.stats.count() == turn + 1

    assert {task.status for task in store.tasks.all()} == {TaskStatus.DONE}
    for one in stores:
        one.close()
    (left,) = server.run(
        f"SELECT COUNT(*) FROM pg_locks JOIN pg_database AS d ON d.oid = database WHERE datname = '{database}'"
        " AND locktype = 'advisory'"
    )
    assert left == (0,)


def test_a_pooler_without_a_direct_url_is_told_of(
    pooler: Pooler, server: Server, database: str, tmp_path: Path
) -> None:
    machine = Machine(tmp_path, pooler.url(database))

    said = one_sentence(machine.ralph("init", "--project", "team"))

    assert "behind a pooler. Set [store] direct_url to the server itself: docs/postgres.md" in said


def test_a_forgiving_pooler_without_a_direct_url_is_told_of_when_it_changes_connections(
    server: Server, database: str, store: Store
) -> None:
    program = find_program()
    assert program is not None
    forgiving = Pooler(program, server, ignore_startup_parameters="options")
    try:
        opened = [open_store(forgiving.url(database), "team") for _ in range(2)]
        with pytest.raises(StoreError, match=r"behind a pooler\. Set \[store\] direct_url to the server itself"):
            for _ in range(10):
                for one in opened:
                    one.tasks.all()
        for one in opened:
            one.close()
    finally:
        forgiving.remove()
