"""The server and the way to it fail at any moment: nothing acknowledged is lost, and nothing is done twice."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ralph.core.errors import ClaimLostError, StoreUnavailableError
from ralph.core.records import AttemptOutcome, AttemptResult, Memory, TaskStatus, now, replace
from ralph.store import Store, create_store, open_store
from ralph.store.attempts import ClaimedAttempt
from ralph.store.memories import ChangeInfo
from ralph.store.postgres import connection
from ralph.store.postgres import driver as own
from ralph.store.tasks import TaskDraft
from tests.make import damaged_rows
from tests.postgres import Server, free_port
from tests.postgres_only.machine import Machine
from tests.postgres_only.proxy import Cut, Proxy
from tests.waiting import wait_until

pytestmark = [pytest.mark.postgres, pytest.mark.own_store]

WORKER = "elsewhere/1/1"
SAID = ChangeInfo(who="agent", why="a test")
PATIENT_AGENT = """
touch in-session
while [ ! -e go ]; do sleep 0.05; done
echo "<knowledge tags=\\"task\\" title=\\"About $RALPH_TASK_ID\\">It was $RALPH_TASK_ID.</knowledge>"
echo "<task-done>$RALPH_TASK_ID</task-done>"
"""
"""An agent whose session lasts until it is told to go on."""


@pytest.fixture(scope="module")
def durable() -> Iterator[Server]:
    """Give a server that may be stopped at once: what it acknowledged is on the disk."""
    started = Server(is_durable=True, listen_addresses="127.0.0.1", port=str(free_port()))
    yield started
    started.remove()


@pytest.fixture
def url(durable: Server, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """Give the URL of an empty project called `team` in a database that only this test uses."""
    name = f"d{abs(hash(request.node.name)) % 10**9}"
    durable.run(f"CREATE DATABASE {name}")
    found = durable.address(name)
    create_store(found, "team").close()
    yield found
    if durable.is_running:
        # A server that was stopped at once goes through all its files when it is started.
        durable.run(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    """Give a way to the server that can be cut."""
    made = Proxy(int(url.split(":")[2].split("/")[0]))
    yield made
    made.close()


def by(proxy: Proxy, url: str) -> str:
    """Give the URL of a database by way of a proxy."""
    port = url.split(":")[2].split("/")[0]
    return url.replace(f":{port}/", f":{proxy.port}/")


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = open_store(url, "team")
    yield opened
    opened.close()


@pytest.fixture
def cut_off(url: str, proxy: Proxy) -> Iterator[Store]:
    """Give the same store by way of the proxy."""
    opened = open_store(by(proxy, url), "team")
    yield opened
    opened.close()


def a_memory(title: str) -> Memory:
    return Memory(id="", kind="pattern", title=title, content="", created_at=now(), updated_at=now())


def postgres(store: Store) -> own.PostgresDatabase:
    assert isinstance(store.database, own.PostgresDatabase)
    return store.database


def kill_backends(store: Store) -> int:
    """End every other connection to the database of a store."""
    rows = store.database.query(
        "SELECT pg_terminate_backend(pid) AS is_ended FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    return len(rows)


def begin(store: Store, title: str = "One") -> tuple[ClaimedAttempt, AttemptResult]:
    """Claim a new task; give what an attempt came to that got it done."""
    store.tasks.add(TaskDraft(title=title))
    run = store.runs.start("test")
    begun = store.attempts.begin(run.id, WORKER, 60, agent="test")
    assert begun is not None
    attempt = replace(begun.attempt, outcome=AttemptOutcome.DONE, notes=f"Did {title}.", ended_at=now())
    capture = AttemptResult(
        attempt=attempt,
        report=None,
        task_status=TaskStatus.DONE,
        memories=(a_memory(f"About {title}"),),
        log=("It is done.",),
    )
    return begun, capture


# --- connections that end --------------------------------------------------------------------


def test_what_only_reads_goes_on_when_its_connection_was_ended(store: Store, url: str) -> None:
    other = open_store(url, "team")
    other.tasks.add(TaskDraft(title="One"))
    other.memories.add(a_memory("The parser wants tabs"), SAID)

    for read in (
        lambda: [task.title for task in other.tasks.all()] == ["One"],
        lambda: other.memories.index.search_words({"tab": 1.0}, 5).rows,
        lambda: other.stats.totals()["attempts"] == 0,
    ):
        assert kill_backends(store) == 1
        assert read()
    other.close()


def test_a_transaction_begins_anew_when_its_connection_was_ended_before_it(store: Store, url: str) -> None:
    other = open_store(url, "team")
    assert kill_backends(store) == 1

    other.tasks.add(TaskDraft(title="One"))

    assert [task.title for task in store.tasks.all()] == ["One"]
    other.close()


def test_a_transaction_that_lost_its_connection_is_as_if_it_had_never_been(store: Store, url: str) -> None:
    other = open_store(url, "team")

    with pytest.raises(StoreUnavailableError, match=r"connection to .* was lost"), other.transaction():
        other.tasks.add(TaskDraft(title="One"))
        kill_backends(store)
        other.tasks.add(TaskDraft(title="Two"))
    assert store.tasks.all() == []
    with other.transaction():
        other.tasks.add(TaskDraft(title="One"))
        other.tasks.add(TaskDraft(title="Two"))

    assert [task.title for task in store.tasks.all()] == ["One", "Two"]
    other.close()


def test_who_goes_on_after_a_lost_connection_inside_a_transaction_changes_nothing(store: Store, url: str) -> None:
    other = open_store(url, "team")

    with pytest.raises(StoreUnavailableError, match="before the change was committed"), other.transaction():
        other.tasks.add(TaskDraft(title="One"))
        kill_backends(store)
        with pytest.raises(StoreUnavailableError):
            other.tasks.add(TaskDraft(title="Two"))
        with pytest.raises(StoreUnavailableError):
            other.tasks.add(TaskDraft(title="Three"))

    assert store.tasks.all() == []
    other.close()


def test_a_heartbeat_and_a_claim_go_on_when_their_connections_were_ended(store: Store, url: str) -> None:
    other = open_store(url, "team")
    begun, capture = begin(other)
    kill_backends(store)
    with pytest.raises(StoreUnavailableError):
        other.tasks.claims.heartbeat(begun.task.id, begun.task.claim_token, 60)
    assert other.tasks.claims.heartbeat(begun.task.id, begun.task.claim_token, 60)

    kill_backends(store)
    other.attempts.finish(capture, begun.task.claim_token)

    assert store.tasks.get(begun.task.id).status is TaskStatus.DONE
    other.close()


# --- answers that get lost -------------------------------------------------------------------


def test_a_machine_that_says_nothing_any_more_is_given_up(store: Store) -> None:
    told = postgres(store).server.get().info.get_parameters()

    silent_seconds = int(told["keepalives_idle"]) + int(told["keepalives_interval"]) * int(told["keepalives_count"])
    assert silent_seconds <= 60
    assert int(told["tcp_user_timeout"]) <= 60_000


def test_a_lost_answer_to_a_change_says_to_look_first(store: Store, cut_off: Store, proxy: Proxy) -> None:
    proxy.cut_next(b"COMMIT", Cut.AFTER, Cut.BEFORE)

    with pytest.raises(StoreUnavailableError, match=r"Check whether the change was made before you repeat it\.$"):
        cut_off.tasks.add(TaskDraft(title="Made"))
    with pytest.raises(StoreUnavailableError, match=r"Check whether the change was made before you repeat it\.$"):
        cut_off.tasks.add(TaskDraft(title="Not made"))

    assert [task.title for task in store.tasks.all()] == ["Made"]
    assert proxy.cuts == [Cut.AFTER, Cut.BEFORE]


@pytest.mark.parametrize("cut", Cut)
def test_an_attempt_is_settled_once_however_often_it_is_tried(
    store: Store, cut_off: Store, proxy: Proxy, cut: Cut
) -> None:
    begun, capture = begin(cut_off)
    proxy.cut_next(b"COMMIT", cut, cut)

    with pytest.raises(StoreUnavailableError):
        cut_off.attempts.finish(capture, begun.task.claim_token)
    if cut is Cut.BEFORE:
        with pytest.raises(StoreUnavailableError):
            cut_off.attempts.finish(capture, begun.task.claim_token, is_retry=True)
    proxy.cut_at = lambda said: None
    cut_off.attempts.finish(capture, begun.task.claim_token, is_retry=True)
    cut_off.attempts.finish(capture, begun.task.claim_token, is_retry=True)

    (attempt,) = store.attempts.latest(10)
    (memory,) = store.memories.all()
    assert attempt.outcome is AttemptOutcome.DONE
    assert (memory.title, memory.support) == ("About One", 1)
    assert [event.what for event in store.memories.history.of(memory.id)] == ["added"]
    assert [entry.message for entry in store.tasks.read_log(begun.task.id)] == ["It is done."]
    assert store.tasks.get(begun.task.id).status is TaskStatus.DONE


def test_a_claim_that_was_lost_is_told_once_more_and_written_once(store: Store, cut_off: Store, proxy: Proxy) -> None:
    begun, capture = begin(cut_off)
    store.tasks.set_status(begun.task.id, TaskStatus.PENDING, [TaskStatus.IN_PROGRESS])
    proxy.cut_next(b"COMMIT", Cut.AFTER)

    with pytest.raises(StoreUnavailableError):
        cut_off.attempts.finish(capture, begun.task.claim_token)
    with pytest.raises(ClaimLostError):
        cut_off.attempts.finish(capture, begun.task.claim_token, is_retry=True)

    (attempt,) = store.attempts.latest(10)
    (memory,) = store.memories.all()
    assert attempt.outcome is AttemptOutcome.INTERRUPTED
    assert memory.support == 1
    assert len(store.tasks.read_log(begun.task.id)) == 1


def test_a_memory_is_kept_once_when_it_is_said_again(store: Store, cut_off: Store, proxy: Proxy) -> None:
    proxy.cut_next(b"COMMIT", Cut.AFTER)
    memory = a_memory("The parser wants tabs")

    with pytest.raises(StoreUnavailableError):
        cut_off.memories.add(memory, SAID)
    cut_off.memories.add(memory, SAID)

    assert [one.title for one in store.memories.all()] == ["The parser wants tabs"]


def test_a_run_does_each_task_once_though_its_changes_lose_their_answers(
    tmp_path: Path, store: Store, url: str, proxy: Proxy
) -> None:
    ids = [store.tasks.add(TaskDraft(title=f"Task {number}")).id for number in range(8)]
    machine = Machine(tmp_path, by(proxy, url))
    machine.must("init", "--project", "team")
    # With every third change something goes wrong: claims, settlements and what is in between.
    proxy.cut_some(b"COMMIT", itertools.cycle([None, None, Cut.AFTER, None, None, Cut.BEFORE]))

    run = machine.work()

    assert run.end() == 0, run.errors
    attempts = store.attempts.latest(100)
    assert len(proxy.cuts) >= 5
    for id in ids:
        outcomes = [attempt.outcome for attempt in attempts if attempt.task_id == id]
        assert outcomes.count(AttemptOutcome.DONE) == 1
        assert set(outcomes) <= {AttemptOutcome.DONE, AttemptOutcome.INTERRUPTED}
    assert {task.status for task in store.tasks.all()} == {TaskStatus.DONE}
    knowledge = [memory for memory in store.memories.all() if memory.kind == "knowledge"]
    assert sorted(memory.title for memory in knowledge) == sorted(f"About {id}" for id in ids)
    assert {memory.support for memory in knowledge} == {1}
    assert store.attempts.running() == []
    assert damaged_rows(store) == []


# --- a server that is stopped ------------------------------------------------------------------

WRITER = """
import sys
from ralph.core.errors import StoreUnavailableError
from ralph.store import open_store
from ralph.store.tasks import TaskDraft

import time

def patiently(work):
    while True:
        try:
            return work()
        except StoreUnavailableError:
            time.sleep(0.05)

store = open_store(sys.argv[1], "team")
for number in range(100_000):
    title = f"{sys.argv[2]} {number}"
    try:
        store.tasks.add(TaskDraft(title=title))
    except StoreUnavailableError:
        # Whether it was made is not known: look, as a person is told to.
        if not patiently(lambda: [task for task in store.tasks.all() if task.title == title]):
            patiently(lambda: store.tasks.add(TaskDraft(title=title)))
    print(title, flush=True)
"""


def test_nothing_acknowledged_is_lost_when_the_server_is_stopped_at_once(
    tmp_path: Path, durable: Server, store: Store, url: str
) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, url, name], stdout=subprocess.PIPE) for name in ("a", "b")
    ]
    acknowledged: list[str] = []

    def read(writer: subprocess.Popen[bytes]) -> None:
        assert writer.stdout is not None
        acknowledged.extend(line.decode().rstrip("\n") for line in writer.stdout)

    readers = [threading.Thread(target=read, args=(writer,)) for writer in writers]
    for reader in readers:
        reader.start()
    wait_until(lambda: len(acknowledged) > 20)
    for _ in range(3):
        before = len(acknowledged)
        durable.stop(at_once=True)
        durable.start()
        wait_until(lambda before=before: len(acknowledged) > before + 10)  # type: ignore[misc]
    for writer in writers:
        writer.kill()
        writer.wait()
    for reader in readers:
        reader.join()

    titles = [task.title for task in store.tasks.all()]
    assert set(acknowledged) <= set(titles)
    assert len(set(titles)) == len(titles)
    assert len(titles) <= len(acknowledged) + len(writers)
    assert damaged_rows(store) == []


def test_a_run_outlives_a_server_that_is_stopped_in_a_session_and_when_it_settles(
    tmp_path: Path, durable: Server, store: Store, url: str
) -> None:
    task = store.tasks.add(TaskDraft(title="One"))
    machine = Machine(tmp_path, url, patience_seconds=3.0, RALPH_EXECUTION_LEASE_SECONDS="1")
    machine.must("init", "--project", "team")
    run = machine.work("--wait", agent=PATIENT_AGENT)
    wait_until((tmp_path / "in-session").exists)

    durable.stop(at_once=True)  # in the session
    time.sleep(0.5)
    durable.start()
    before = store.tasks.get(task.id).lease_until
    wait_until(lambda: store.tasks.get(task.id).lease_until != before)  # it still gives signs of life
    durable.stop(at_once=True)
    (tmp_path / "go").touch()
    run.wait_for("Waiting for it to come back")  # when it settles
    durable.start()
    run.wait_for('"attempt_ended"')
    store.tasks.get(task.id)
    run.wait_for('"waiting"')
    durable.stop(at_once=True)  # when it waits for a task to claim
    durable.start()
    second = store.tasks.add(TaskDraft(title="Two"))
    run.wait_for('"attempt_ended"')
    run.process.terminate()

    assert run.end() == 130
    assert [attempt.outcome for attempt in store.attempts.latest(10)] == [AttemptOutcome.DONE] * 2
    assert {one.id: one.claim_token for one in store.tasks.all()} == {task.id: 1, second.id: 1}
    titles = sorted(memory.title for memory in store.memories.all() if memory.kind == "knowledge")
    assert titles == sorted([f"About {task.id}", f"About {second.id}"])


def test_who_watches_memories_misses_none_and_sees_none_twice(
    tmp_path: Path, durable: Server, store: Store, url: str
) -> None:
    machine = Machine(tmp_path, url, patience_seconds=3.0)
    machine.must("init", "--project", "team")
    watch = machine.start("memory", "watch", "--since", "0", "--format", "json")
    numbers = itertools.count()

    def learn() -> None:
        for _ in range(4):
            store.memories.add(a_memory(f"Fact number {next(numbers)}"), SAID)

    learn()
    watch.wait_for("Fact number 3")
    durable.stop(at_once=True)
    wait_until(lambda: "Waiting for it to come back" in watch.errors)
    durable.start()
    learn()
    watch.wait_for("Fact number 7")
    kill_backends(store)
    learn()
    watch.wait_for("Fact number 11")
    kill_backends(store)
    kill_backends(store)
    learn()
    watch.wait_for("Fact number 15")
    watch.process.terminate()
    watch.end()

    seen = [json.loads(line) for _, line in watch.lines]
    assert [one["seq"] for one in seen] == [event.seq for event in store.memories.history.since(0, 100)]
    assert "The database is back." in watch.errors


def test_what_reads_waits_for_a_server_that_is_being_started(
    durable: Server, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "RECONNECT_SECONDS", 60.0)
    store.tasks.add(TaskDraft(title="One"))
    found: list[str] = []
    durable.stop(at_once=True)
    reading = threading.Thread(target=lambda: found.extend(task.title for task in store.tasks.all()))
    reading.start()
    time.sleep(0.3)

    durable.start()
    reading.join(60)

    assert found == ["One"]
