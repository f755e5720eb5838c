"""Processes that read for a busy server."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from ralph.project import Project
from ralph.web.api import ENDPOINTS
from ralph.web.endpoints import RawResponse
from ralph.web.readers import BUSY_READS, ReaderProcesses
from tests.waiting import wait_until

TASKS = next(one for one in ENDPOINTS if (one.method, one.path) == ("GET", "/api/tasks"))
TASK = next(one for one in ENDPOINTS if (one.method, one.path) == ("GET", "/api/tasks/{id}"))


class Asked:
    """Reads of one server, and how many of them it answered itself."""

    def __init__(self, project: Project) -> None:
        self.readers = ReaderProcesses(project.directory)
        self.own = 0

    def ask(self, endpoint: Any = TASKS, *parameters: str, times: int = 1) -> list[Any]:
        async def otherwise() -> RawResponse:
            self.own += 1
            await asyncio.sleep(0)
            return RawResponse(text=b'"own"')

        async def ask_all() -> list[RawResponse]:
            return await asyncio.gather(
                *(self.readers.answer(endpoint, parameters, [], otherwise) for _ in range(times))
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


def test_a_process_ends_with_its_server(project: Project) -> None:
    words = [sys.executable, "-P", "-m", "ralph.web.readers", project.directory]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        process.stdin.close()
        assert process.wait(60) == 0
