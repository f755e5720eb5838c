"""Processes that read for a busy server."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from ralph.maintenance import backup_project, restore_project
from ralph.project import Project
from ralph.web.api import ENDPOINTS
from ralph.web.endpoints import RawResponse
from ralph.web.readers import BUSY_READS, ReaderProcesses
from tests.waiting import wait_until

TASKS = next(one for one in ENDPOINTS if (one.method, one.path) == ("GET", "/api/tasks"))
STATUS = next(one for one in ENDPOINTS if (one.method, one.path) == ("GET", "/api/status"))
TASK = next(one for one in ENDPOINTS if (one.method, one.path) == ("GET", "/api/tasks/{id}"))


class Asked:
    """Reads of one server, and how many of them it answered itself."""

    def __init__(self, project: Project) -> None:
        self.readers = ReaderProcesses(project.directory)
        self.own = 0

    def ask(self, endpoint: Any = TASKS, *parameters: str, times: int = 1, problems: tuple[str, ...] = ()) -> list[Any]:
        async def otherwise() -> RawResponse:
            self.own += 1
            await asyncio.sleep(0)
            return RawResponse(text=b'"own"')

        async def ask_all() -> list[RawResponse]:
            return await asyncio.gather(
                *(self.readers.answer(endpoint, parameters, [], otherwise, problems) for _ in range(times))
            )

        return [json.loads(one.text) for one in asyncio.run(ask_all())]

    def processes(self) -> list[psutil.Process]:
        return [one for one in psutil.Process().children() if "ralph.web.readers" in one.cmdline()]


@pytest.fixture
def asked(project: Project) -> Iterator[Asked]:
    """Return what asks the processes of a project with one task."""
    project.tasks.add("Round prices")
    one = Asked(project)
    yield one
    one.readers.close()
    assert one.processes() == []


def busy(asked: Asked) -> None:
    """Let so many ask that processes are there."""
    asked.ask(times=BUSY_READS + 1)
    wait_until(lambda: asked.ask() != ["own"])
    asked.own = 0


def test_one_reader_after_the_other_needs_no_process(asked: Asked) -> None:
    assert [asked.ask() for _ in range(BUSY_READS * 2)] == [["own"]] * BUSY_READS * 2

    assert asked.processes() == []


def test_many_readers_are_answered_by_processes_that_see_what_is_written(asked: Asked, project: Project) -> None:
    busy(asked)
    project.tasks.add("Print labels")

    answers = asked.ask(times=30)

    assert {tuple(one["title"] for one in answer["items"]) for answer in answers} == {("Round prices", "Print labels")}
    assert asked.own == 0


def test_what_is_wrong_with_the_memory_files_is_told_as_by_the_server(asked: Asked) -> None:
    busy(asked)

    (status,) = asked.ask(STATUS, problems=("A memory file is broken.",))

    assert status["warnings"] == ["A memory file is broken."]
    assert asked.ask(STATUS)[0]["warnings"] == []


def test_a_database_that_was_replaced_is_read_anew(asked: Asked, project: Project) -> None:
    backup_project(project.root)
    (task,) = project.tasks.list()
    project.tasks.update(task.id, priority=9)
    busy(asked)
    assert [sum(one["counts"].values()) for one in asked.ask(STATUS, times=20)] == [1] * 20
    restore_project(project.root)
    with Project.open(project.root) as restored:
        restored.tasks.add("Print labels")

    assert [sum(one["counts"].values()) for one in asked.ask(STATUS, times=20)] == [2] * 20


def test_an_error_is_left_to_the_server(asked: Asked) -> None:
    busy(asked)

    assert asked.ask(TASK, "t-000000") == ["own"]
    assert asked.ask() != ["own"]


def test_a_process_that_was_killed_is_replaced(asked: Asked) -> None:
    busy(asked)
    for process in asked.processes():
        process.kill()
        process.wait()

    wait_until(lambda: asked.ask() != ["own"])


def test_a_server_that_ends_while_processes_start_does_not_hang(project: Project) -> None:
    asked, hold = Asked(project), threading.Event()
    asked.readers._threads.submit(hold.wait)  # one of the threads comes too late
    asked.ask(times=BUSY_READS + 1)

    closing = threading.Thread(target=asked.readers.close, daemon=True)
    closing.start()
    wait_until(lambda: asked.readers._threads._shutdown)
    hold.set()

    wait_until(lambda: not closing.is_alive())


def test_a_process_ends_with_its_server(project: Project) -> None:
    words = [sys.executable, "-P", "-m", "ralph.web.readers", project.directory]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        process.stdin.close()
        assert process.wait(60) == 0
