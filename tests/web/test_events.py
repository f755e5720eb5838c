"""The event stream: what happens, as it happens, and all of it to those who come back."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ralph.core.records import AttemptOutcome, TaskStatus
from ralph.project import Project
from ralph.store import run_events
from ralph.store.run_events import MAX_EVENTS
from ralph.store.tasks import TaskDraft
from ralph.web.events import MAX_STREAM_CLIENTS
from tests.make import begin, finish
from tests.postgres import Server
from tests.web.asking import Served

PATH = "/api/events"
MANY = MAX_EVENTS - 1
Told = tuple[str, str, Any]


def test_what_happens_to_a_memory_is_told_with_the_memory(served: Served) -> None:
    with served.stream(PATH) as stream:
        told = _events(stream)
        assert next(told)[0] == "0-0"
        memory = served.project.memory.add("<b>Tabs</b> are wanted.").memory

        id, kind, data = next(told)

    assert (kind, data["event"]["what"], data["event"]["memory_id"]) == ("memory", "added", memory.id)
    assert data["memory"]["content"] == "<b>Tabs</b> are wanted."
    assert id == f"{data['event']['seq']}-0"


def test_a_run_is_told_with_its_attempts_and_tasks_as_they_are(served: Served) -> None:
    store = served.project.store
    with served.stream(PATH) as stream:
        told = _events(stream)
        next(told)
        task = served.project.tasks.add("One")
        run = store.runs.start("test")
        claimed, attempt = begin(store, run.id)
        store.attempts.record_start(attempt)
        finish(store, claimed, attempt, AttemptOutcome.DONE, TaskStatus.DONE)
        store.runs.end(run.id, "all done")

        seen = _until(told, "run_ended")

    assert [data["event"]["what"] for _, _, data in seen if data["event"]["what"] != "task_changed"] == [
        "run_started",
        "attempt_started",
        "attempt_ended",
        "run_ended",
    ]
    by_what = {data["event"]["what"]: data for _, kind, data in seen if kind == "run"}
    assert by_what["attempt_ended"]["attempt"]["outcome"] == "done"
    assert by_what["attempt_ended"]["task"]["id"] == task.id
    assert by_what["run_ended"]["run"]["ending"] == "all done"
    assert by_what["run_ended"]["attempt"] is None


def test_a_change_by_another_process_is_told_within_a_second(served: Served) -> None:
    with served.stream(PATH) as stream:
        told = _events(stream)
        next(told)
        time.sleep(1.2)  # the first looks are over: from now on only a change wakes
        for words in (["memory", "add", "Learned elsewhere."], ["task", "add", "Planned elsewhere"]):
            _ralph(served, *words)
            _, kind, data = next(told)

            assert kind == ("memory" if words[0] == "memory" else "run"), data


def test_a_memory_written_into_the_file_is_told(served: Served) -> None:
    with served.project.synced() as project:
        project.memory.add("Something that is there already.")
    path = Path(served.project.directory) / ".agent" / "memories.md"
    assert path.exists()
    with served.stream(PATH) as stream:
        told = _events(stream)
        next(told)
        text = path.read_text(encoding="utf-8")
        path.write_text(text + "\n### mem-1700000000-beef\n> Written by hand.\n", encoding="utf-8")

        seen = _until(told, "added")

    assert seen[-1][2]["memory"]["content"].startswith("Written by hand")


def test_who_comes_back_gets_what_was_missed_in_order_and_each_once(served: Served) -> None:
    project = served.project
    with served.stream(PATH) as stream:
        told = _events(stream)
        next(told)
        project.tasks.add("First")
        last = next(told)[0]
    for number in range(5):
        project.tasks.add(f"Task {number}")
        project.memory.add(f"Fact number {number} stands alone.")

    for way in ({"headers": {"Last-Event-ID": last}}, {"path": f"{PATH}?since={last}"}):
        with served.stream(way.get("path", PATH), headers=way.get("headers")) as stream:  # type: ignore[arg-type]
            told = _events(stream)
            assert next(told)[0] == last
            missed = [next(told) for _ in range(10)]
        titles = [data["task"]["title"] for _, kind, data in missed if kind == "run"]
        facts = [data["memory"]["content"] for _, kind, data in missed if kind == "memory"]
        assert titles == [f"Task {number}" for number in range(5)]
        assert facts == [f"Fact number {number} stands alone." for number in range(5)]

    # The header counts: a browser repeats the address that it began with.
    with served.stream(f"{PATH}?since=0-0", headers={"Last-Event-ID": missed[-2][0]}) as stream:
        told = _events(stream)
        next(told)
        assert next(told) == missed[-1]


def test_as_many_missed_events_as_are_kept_all_come_once_and_in_order(served: Served) -> None:
    scope = served.project.store.scope
    with scope.transaction():
        rows = [
            {"what": "task_changed", "run_id": "", "iteration": None, "task_id": f"t-{number}", "at": "2026-01-01"}
            for number in range(MANY)
        ]
        scope.insert_many("run_events", rows)

    with served.stream(f"{PATH}?since=0-0") as stream:
        told = _events(stream)
        next(told)
        seen = [next(told)[2]["event"] for _ in range(MANY)]
        served.project.tasks.add("And one more")
        last = next(told)[2]

    assert [one["task_id"] for one in seen] == [f"t-{number}" for number in range(MANY)]
    assert [one["seq"] for one in seen] == sorted({one["seq"] for one in seen})
    assert last["task"]["title"] == "And one more"


def test_an_event_of_a_memory_is_told_as_its_history_tells_it(served: Served) -> None:
    memory = served.project.memory.add("Tabs are wanted.", files=["src/a.py"]).memory
    served.project.memory.edit(memory.id, content="Tabs are wanted everywhere.", why="clearer")
    _, history = served.get(f"/api/memories/{memory.id}/history")

    with served.stream(f"{PATH}?since=0-0") as stream:
        told = _events(stream)
        next(told)
        events = [next(told)[2]["event"] for _ in history["items"]]

    assert events == [{**one, "memory_id": memory.id} for one in history["items"]]
    assert events[-1]["changed"]["content"]["became"] == "Tabs are wanted everywhere."
    assert not {"seen", "trust", "was", "became", "body"} & {*events[0], *events[0]["changed"]}


@pytest.mark.parametrize("since", ["0-0", "0-3"])
def test_who_comes_back_too_late_is_told_once_that_something_was_missed(
    served: Served, monkeypatch: pytest.MonkeyPatch, since: str
) -> None:
    monkeypatch.setattr(run_events, "MAX_EVENTS", 5)
    for number in range(20):
        served.project.tasks.add(f"Task {number}")
    served.project.store.events.trim()
    memory = served.project.memory.add("Tabs are wanted.").memory

    with served.stream(f"{PATH}?since={since}") as stream:
        told = _events(stream)
        next(told)
        missed = next(told)
        rest = [next(told) for _ in range(6)]

    first = served.project.store.events.first_seq()
    assert missed == (f"0-{first - 1}", "missed", {})
    assert [data["task"]["title"] for _, kind, data in rest if kind == "run"] == [f"Task {n}" for n in range(15, 20)]
    assert [data["memory"]["id"] for _, kind, data in rest if kind == "memory"] == [memory.id]
    with served.stream(f"{PATH}?since={missed[0]}") as stream:
        told = _events(stream)
        next(told)
        assert next(told) == rest[0]


def test_many_who_listen_all_hear_the_same(served: Served) -> None:
    heard: list[list[Told]] = []

    def listen() -> None:
        with served.stream(PATH) as stream:
            told = _events(stream)
            next(told)
            ready.wait()
            heard.append([next(told) for _ in range(20)])

    ready = threading.Barrier(21, timeout=20)
    threads = [threading.Thread(target=listen) for _ in range(20)]
    for thread in threads:
        thread.start()
    ready.wait()
    for number in range(20):
        served.project.tasks.add(f"Task {number}")
    for thread in threads:
        thread.join(20)

    assert len(heard) == 20
    assert all([data["event"] for _, _, data in one] == [data["event"] for _, _, data in heard[0]] for one in heard)


def test_one_too_many_is_refused_and_has_a_place_once_another_left(served: Served) -> None:
    with ExitStack() as others:
        for _ in range(MAX_STREAM_CLIENTS - 1):
            others.enter_context(served.stream(PATH)).readline()
        with served.stream(PATH) as last:
            last.readline()
            status, problem = served.get(PATH)
            assert (status, problem["code"]) == (503, "service-unavailable")
        deadline = time.monotonic() + 5
        while True:
            with served.stream(PATH) as again:
                if again.status == 200:
                    break
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.mark.slow
def test_who_does_not_read_holds_up_nobody_and_gets_all_later(served: Served) -> None:
    store = served.project.store
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as slow:
        slow.sendall(
            f"GET {PATH} HTTP/1.1\r\nHost: {served.address}\r\nAuthorization: Bearer {served.token}\r\n\r\n".encode()
        )
        time.sleep(0.2)
        for number in range(40):
            store.tasks.add(TaskDraft(title=f"Task {number}", body="x" * 400_000))
        with served.stream(f"{PATH}?since=0-0") as stream:
            told = _events(stream)
            next(told)
            assert [next(told)[2]["task"]["title"] for _ in range(40)][-1] == "Task 39"

        response = http.client.HTTPResponse(slow)
        response.begin()
        told = _events(response)
        next(told)
        assert [next(told)[2]["task"]["title"] for _ in range(40)] == [f"Task {number}" for number in range(40)]


def test_the_server_ends_at_once_whoever_listens(project: Project) -> None:
    served = Served(Path(project.directory), project)
    with ExitStack() as listening:
        streams = [listening.enter_context(served.stream(PATH)) for _ in range(5)]
        for stream in streams:
            stream.readline()
        began = time.monotonic()

        served.close()

        assert time.monotonic() - began < 1.0
        assert all(stream.read() is not None for stream in streams)  # they ended as they should, not cut off


@pytest.mark.parametrize(
    "said", ["1", "-", "1-", "a-b", "-1-2", "1-2-3", "１-２", f"{10**30}-1", "1-9223372036854775807"]
)
def test_what_is_no_event_is_refused(served: Served, said: str) -> None:
    from urllib.parse import quote

    status, problem = served.get(f"{PATH}?since={quote(said)}")
    assert (status, problem["code"]) == (422, "invalid-value")
    if said.isascii():
        assert served.get(PATH, headers={"Last-Event-ID": said})[0] == 422


def test_other_ways_to_ask_are_refused(served: Served) -> None:
    assert served.ask("HEAD", PATH).status == 405
    assert served.post(PATH, {})[0] == 405
    assert served.get(f"{PATH}?unknown=1")[0] == 422
    assert served.ask("GET", PATH, headers={"Authorization": None}).status == 401


def test_an_event_that_is_not_there_yet_means_from_now_on(served: Served) -> None:
    served.project.tasks.add("Before")
    with served.stream(f"{PATH}?since=4000000-4000000") as stream:
        told = _events(stream)
        next(told)
        time.sleep(0.3)
        served.project.tasks.add("After")

        assert next(told)[2]["task"]["title"] == "After"


@pytest.mark.postgres
def test_a_lost_connection_to_the_database_loses_no_event(served: Served, server: Server) -> None:
    with served.stream(PATH) as stream:
        told = _events(stream)
        next(told)
        for number in range(3):
            server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
            _ralph(served, "task", "add", f"Task {number}")

        assert [next(told)[2]["task"]["title"] for _ in range(3)] == ["Task 0", "Task 1", "Task 2"]


def _ralph(served: Served, *words: str) -> None:
    """Do something in another process."""
    command = [sys.executable, "-m", "ralph", "-C", served.project.directory, *words]
    subprocess.run(command, check=True, capture_output=True)


def _until(told: Iterator[Told], what: str) -> list[Told]:
    seen = []
    for one in told:
        seen.append(one)
        if one[2]["event"]["what"] == what:
            break
    return seen


def _events(stream: http.client.HTTPResponse) -> Iterator[Told]:
    """Return id, kind and data of what is told; first the place it begins at, without data."""
    assert stream.status == 200
    assert stream.headers["content-type"].startswith("text/event-stream")
    fields: dict[str, str] = {}
    while line := stream.readline().decode():
        line = line.rstrip("\n")
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields.get("event") == "alive":
            fields = {}
        elif fields:
            yield fields["id"], fields.get("event", ""), json.loads(fields.get("data", "null"))
            fields = {}


@pytest.mark.sqlite
@pytest.mark.slow
def test_the_stream_goes_on_after_a_backup_was_restored(served: Served) -> None:
    _ralph(served, "task", "add", "Kept")
    _ralph(served, "backup")
    for number in range(5):
        _ralph(served, "task", "add", f"Lost {number}")
    served.project.close()
    with served.stream(PATH) as stream:
        told = _events(stream)
        next(told)
        _ralph(served, "restore", "--yes")
        time.sleep(2)
        _ralph(served, "task", "add", "After")

        assert next(told)[2]["task"]["title"] == "After"
