"""Several machines with a working copy each work on one project: each task is done once, what one learns all know."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ralph.core.records import AttemptOutcome, Memory, TaskStatus, now
from ralph.store import Store, open_store
from ralph.store.database import SCHEMA_VERSION
from ralph.store.memories import ChangeInfo
from ralph.store.tasks import TaskDraft
from tests.make import damaged_rows
from tests.postgres import Server
from tests.postgres_only.machine import AGENT, Machine, Running
from tests.waiting import wait_until

pytestmark = [pytest.mark.postgres, pytest.mark.own_store]

NAME = "team"
SOON_SECONDS = 1.0
HELD = """
id="$RALPH_TASK_ID"
cat > "prompt-$id.md"
touch "in-$id"
while [ -e "../held/$id" ]; do sleep 0.05; done
echo "<knowledge tags=\\"frobnicator\\" title=\\"Frobnicator input of $id\\">"
echo "The frobnicator wants tabs in its input, $id.</knowledge><task-done>$id</task-done>"
"""
"""An agent that keeps what it was told, and works as long as it is held."""

Clone = Callable[[str], Machine]


def git(folder: Path, *words: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=Team", "-c", "user.email=team@example.com", *words],
        cwd=folder,
        check=True,
        capture_output=True,
    )


@pytest.fixture
def url(server: Server, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Give the URL of a database without any tables."""
    name = f"m{abs(hash(request.node.name)) % 10**9}"
    server.run(f"CREATE DATABASE {name}")
    return server.url(name)


@pytest.fixture
def clone(url: str, tmp_path: Path) -> Clone:
    """Give a way to clone the repository of the project, which says which project of the database it is."""
    origin = tmp_path / "origin"
    origin.mkdir()
    git(origin, "init", "-q")
    (origin / ".ralph.toml").write_text(f'[store]\nproject = "{NAME}"\n\n[execution]\nlease_seconds = 2\n')
    (origin / "frobnicator.py").write_text("\tpass\n")
    git(origin, "add", ".")
    git(origin, "commit", "-q", "-m", "The project")

    def clone(name: str) -> Machine:
        git(tmp_path, "clone", "-q", str(origin), name)
        return Machine(tmp_path / name, url)

    return clone


@pytest.fixture
def store(clone: Clone, url: str) -> Iterator[Store]:
    """Give the project, as one more machine sees it."""
    clone("own").must("init")
    opened = open_store(url, NAME)
    yield opened
    opened.close()


def joined(clone: Clone, *names: str) -> list[Machine]:
    machines = [clone(name) for name in names]
    for machine in machines:
        machine.must("init")
    return machines


def outcomes(store: Store, task_id: str) -> list[AttemptOutcome | None]:
    return [attempt.outcome for attempt in reversed(store.attempts.latest(1000, task=task_id))]


def test_machines_that_start_at_once_make_the_tables_and_the_project_once(
    clone: Clone, server: Server, url: str
) -> None:
    machines = [clone(f"m{number}") for number in range(6)]

    starting = [machine.start("init") for machine in machines]
    codes = [one.end() for one in starting]

    assert codes == [0] * 6, [one.errors for one in starting]
    database = url.split("/")[3].split("?")[0]
    assert server.run("SELECT version, oldest FROM ralph_schema", database) == [(SCHEMA_VERSION, 6)]
    assert server.run("SELECT name FROM projects", database) == [(NAME,)]
    assert sum("created project" in line for one in starting for _, line in one.lines) == 1


def test_eight_workers_do_forty_tasks_once_each(clone: Clone, store: Store) -> None:
    ids = [task.id for task in store.tasks.add_all([TaskDraft(title=f"Task {number}") for number in range(40)])]
    machines = joined(clone, *(f"m{number}" for number in range(8)))

    runs = [machine.work() for machine in machines]
    codes = [run.end() for run in runs]

    assert set(codes) <= {0, 3}, [run.errors for run in runs]  # 3: others had done all before it came
    started = [line for machine in machines for line in _lines(machine.directory / "started.txt")]
    assert sorted(started) == sorted(ids)
    assert [outcomes(store, id) for id in ids] == [[AttemptOutcome.DONE]] * 40, [run.told("warning") for run in runs]
    assert {task.status for task in store.tasks.all()} == {TaskStatus.DONE}
    knowledge = [memory.title for memory in store.memories.all() if memory.kind == "knowledge"]
    assert sorted(knowledge) == sorted(f"About {id}" for id in ids)
    assert damaged_rows(store) == []


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_the_task_of_a_machine_that_died_is_taken_over_when_its_lease_ends(
    clone: Clone, store: Store, server: Server, url: str, tmp_path: Path
) -> None:
    dying, other = joined(clone, "dying", "other")
    task = store.tasks.add(TaskDraft(title="One"))
    (tmp_path / "held").mkdir()
    (tmp_path / "held" / task.id).touch()
    killed = dying.work(agent=HELD)
    wait_until((dying.directory / f"in-{task.id}").exists)

    killed.kill()
    # A worker of this machine is known to be gone; one of another machine is not.
    server.run("UPDATE tasks SET claimed_by = 'elsewhere:1:1/1/1'", url.split("/")[3].split("?")[0])
    lease_until = store.tasks.get(task.id).lease_until
    taking = other.work("--wait", agent=AGENT)
    taking.wait_for('"attempt_ended"')
    taking.process.terminate()

    assert taking.end() == 130
    assert outcomes(store, task.id) == [AttemptOutcome.INTERRUPTED, AttemptOutcome.DONE]
    assert lease_until is not None
    assert store.attempts.latest(1)[0].started_at >= lease_until
    assert "Released: the lease ran out." in [entry.message for entry in store.tasks.read_log(task.id)]


def test_a_machine_that_slept_past_its_lease_cannot_settle(clone: Clone, store: Store, tmp_path: Path) -> None:
    sleeping, other = joined(clone, "sleeping", "other")
    task = store.tasks.add(TaskDraft(title="One"))
    (tmp_path / "held").mkdir()
    (tmp_path / "held" / task.id).touch()
    slept = sleeping.work(agent=HELD)
    wait_until((sleeping.directory / f"in-{task.id}").exists)

    os.kill(slept.process.pid, signal.SIGSTOP)
    wait_until(lambda: (store.tasks.get(task.id).lease_until or "") < now())
    awake = other.work(agent=AGENT)
    assert awake.end() == 0, awake.errors
    (tmp_path / "held" / task.id).unlink()
    os.kill(slept.process.pid, signal.SIGCONT)

    assert slept.end() == 0, slept.errors
    assert outcomes(store, task.id) == [AttemptOutcome.INTERRUPTED, AttemptOutcome.DONE]
    assert store.tasks.get(task.id).claim_token == 2
    assert slept.told("run_ended")[0]["done"] == 0
    assert awake.told("run_ended")[0]["done"] == 1


def test_what_one_machine_remembers_is_in_the_next_prompt_and_the_files_of_another(clone: Clone, store: Store) -> None:
    one, other = joined(clone, "one", "other")
    task = store.tasks.add(TaskDraft(title="Mend the frobnicator"))

    one.must("memory", "add", "The frobnicator wants tabs.", "--type", "knowledge", "--title", "Frobnicator input")
    prompt = other.must("prompt", task.id, "--raw")

    assert "The frobnicator wants tabs." in prompt
    other.must("memory", "list")
    written = [path.read_text() for path in (other.directory / ".ralph" / "knowledge").glob("*.md")]
    assert any("The frobnicator wants tabs." in text for text in written)


def test_two_loops_share_tasks_and_memories_while_they_run(clone: Clone, store: Store, tmp_path: Path) -> None:
    machines = joined(clone, "left", "right")
    held = tmp_path / "held"
    held.mkdir()
    runs = [machine.work("--wait", agent=HELD) for machine in machines]
    for run in runs:
        run.wait_for('"waiting"')

    def add(*ids: str) -> None:
        for id in ids:
            (held / id).touch()
            store.tasks.add(TaskDraft(id=id, title=f"Read tabs in the input of the frobnicator: {id}"))

    def at_work(*ids: str) -> dict[str, Machine]:
        wait_until(lambda: all(any((one.directory / f"in-{id}").exists() for one in machines) for id in ids))
        return {id: one for id in ids for one in machines if (one.directory / f"in-{id}").exists()}

    add("t-000001", "t-000002")
    first = at_work("t-000001", "t-000002")
    assert first["t-000001"] is not first["t-000002"]
    for path in held.iterdir():
        path.unlink()
    wait_until(lambda: not store.tasks.progress.has_unfinished())
    add("t-000003", "t-000004")
    second = at_work("t-000003", "t-000004")
    assert second["t-000003"] is not second["t-000004"]
    for path in held.iterdir():
        path.unlink()
    wait_until(lambda: not store.tasks.progress.has_unfinished())
    for run in runs:
        run.process.terminate()

    assert [run.end() for run in runs] == [130, 130]
    for id, machine in second.items():
        told = (machine.directory / f"prompt-{id}.md").read_text()
        assert "wants tabs in its input, t-000001." in told
        assert "wants tabs in its input, t-000002." in told
    heard = {title for run in runs for event in run.told("heard") for title in event["titles"]}
    assert {f"Frobnicator input of {id}" for id in ("t-000001", "t-000002")} <= heard


def test_a_run_tells_what_was_learned_elsewhere(clone: Clone, store: Store, tmp_path: Path) -> None:
    one, other = joined(clone, "one", "other")
    task = store.tasks.add(TaskDraft(title="Mend the frobnicator"))
    store.tasks.add(TaskDraft(title="Mend it again"))
    (tmp_path / "held").mkdir()
    (tmp_path / "held" / task.id).touch()
    (one.directory / "agent.sh").write_text(HELD)
    run = one.start("run", "--", "sh", "agent.sh")
    wait_until((one.directory / f"in-{task.id}").exists)

    other.must("memory", "add", "The frobnicator wants tabs.")
    (tmp_path / "held" / task.id).unlink()

    assert run.end() == 0, run.errors
    assert any("learned by another worker: The frobnicator wants tabs" in line for _, line in run.lines)


def fastest(tries: int, once: Callable[[int], float]) -> float:
    """Give the least time of a few tries; the machine may be busy with something else."""
    least = float("inf")
    for number in range(tries):
        least = min(least, once(number))
        if least < SOON_SECONDS:
            break
    return least


def test_a_waiting_run_wakes_within_a_second_of_a_task_added_elsewhere(clone: Clone, store: Store) -> None:
    (machine,) = joined(clone, "one")
    run = machine.work("--wait")
    run.wait_for('"waiting"')
    time.sleep(0.3)

    def once(number: int) -> float:
        store.tasks.add(TaskDraft(title=f"Task {number}"))
        added = time.monotonic()
        woke = run.wait_for('"attempt_started"')
        run.wait_for('"waiting"')
        time.sleep(0.3)
        return woke - added

    assert fastest(4, once) < SOON_SECONDS
    _stop(run)


def test_who_watches_memories_sees_one_added_elsewhere_within_a_second(clone: Clone, store: Store) -> None:
    (machine,) = joined(clone, "one")
    watch = machine.start("memory", "watch", "--since", "0")
    store.memories.add(_memory("Warm"), ChangeInfo(who="person", why="a test"))
    watch.wait_for("Warm")
    time.sleep(0.3)

    def once(number: int) -> float:
        store.memories.add(_memory(f"Fact number {number}"), ChangeInfo(who="person", why="a test"))
        added = time.monotonic()
        return watch.wait_for(f"Fact number {number}") - added

    assert fastest(4, once) < SOON_SECONDS
    _stop(watch)


def _memory(title: str) -> Memory:
    return Memory(id="", kind="pattern", title=title, content="", created_at=now(), updated_at=now())


def _stop(running: Running) -> None:
    running.process.terminate()
    running.end()
