"""Processes that answer reads of the API while many clients ask at once.

Python runs one thread at a time, so all threads of a server share one core, and each read makes every write wait. A
server that many ask starts a few processes that only read. Each is `python -m ralph.web.readers ROOT`: it gets a
request on its standard input, answers on its standard output, and ends when the server does.
"""

from __future__ import annotations

import asyncio
import os
import signal
import struct
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import IO, TYPE_CHECKING

import msgspec

from ralph.core.errors import RalphError
from ralph.store import FigureCache
from ralph.web.endpoints import RawResponse, encode_json, parse_query

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from concurrent.futures import Future

    from ralph.integrations.project_handle import ProjectHandle
    from ralph.project import Project
    from ralph.web.endpoints import Endpoint

MAX_PROCESSES = 4
"""Maximum number of processes that read."""
BUSY_READS = 8
"""Number of reads at a time from which processes are worth their memory."""
_LENGTH = struct.Struct("!I")


class ReadRequest(msgspec.Struct):
    """Read for a process to answer."""

    path: str
    """Path of the endpoint, with the names of its parameters."""
    parameters: list[str]
    query: list[tuple[str, str]]
    file_problems: tuple[str, ...] = ()
    """What the server, which syncs the memory files, found wrong with them."""


class ReadAnswer(msgspec.Struct):
    """What an endpoint answered."""

    text: bytes
    is_text: bool = False
    file_name: str = ""
    is_answered: bool = True
    """Whether the endpoint answered; otherwise the server asks it itself, and reports its error."""


class ReaderProcesses:
    """Processes that read for a server, started when it is busy."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._count = min(MAX_PROCESSES, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2)
        self._threads = ThreadPoolExecutor(self._count, thread_name_prefix="ralph-reader")
        self._meeting = threading.Barrier(self._count)
        self._local = threading.local()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._starts: list[Future[object]] = []
        self._reads = 0

    async def answer(
        self,
        endpoint: Endpoint,
        parameters: Sequence[str],
        query: list[tuple[str, str]],
        otherwise: Callable[[], Awaitable[RawResponse]],
        file_problems: tuple[str, ...] = (),
    ) -> RawResponse:
        """Return the answer to a read, by a process if many ask at once, else by the server itself."""
        self._reads += 1
        try:
            answer = None
            if self._is_ready():
                request = ReadRequest(
                    path=endpoint.path, parameters=list(parameters), query=query, file_problems=file_problems
                )
                answer = await asyncio.get_running_loop().run_in_executor(self._threads, self._ask, request)
            if answer and answer.is_answered:
                return RawResponse(text=answer.text, is_text=answer.is_text, file_name=answer.file_name)
            return await otherwise()
        finally:
            self._reads -= 1

    def _is_ready(self) -> bool:
        """Return whether processes can be asked; start them if many ask."""
        if not self._starts and self._reads > BUSY_READS:
            self._starts = [self._threads.submit(self._start) for _ in range(self._count)]
        return bool(self._starts) and all(one.done() for one in self._starts)

    def _start(self) -> None:
        self._meeting.wait()  # so that each thread starts one process
        self._ask(ReadRequest(path="", parameters=[], query=[]))

    def _ask(self, request: ReadRequest) -> ReadAnswer | None:
        """Ask the process of this thread, which is started if it is not there."""
        try:
            process = self._process()
            assert process.stdin
            assert process.stdout
            write_frame(process.stdin, msgspec.msgpack.encode(request))
            reply = read_frame(process.stdout)
        except OSError:
            reply = None
        if reply is None:
            self._local.process = None
            return None
        return msgspec.msgpack.decode(reply, type=ReadAnswer)

    def _process(self) -> subprocess.Popen[bytes]:
        process: subprocess.Popen[bytes] | None = getattr(self._local, "process", None)
        if process is None:
            # Without -P, Python would import modules from the current directory.
            command = [sys.executable, "-P", "-m", "ralph.web.readers", self._root]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self._local.process = process
            self._processes.append(process)
        return process

    def close(self) -> None:
        """End the processes after what they answer."""
        self._meeting.abort()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for process in self._processes:
            assert process.stdin
            with suppress(OSError):
                process.stdin.close()
            process.wait()


# --- frames ---------------------------------------------------------------------------


def write_frame(stream: IO[bytes], frame: bytes) -> None:
    """Write a frame: its length, then its bytes."""
    stream.write(_LENGTH.pack(len(frame)) + frame)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes | None:
    """Read a frame; None at the end of the stream."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    frame = stream.read(length)
    return frame if len(frame) == length else None


# --- the process ----------------------------------------------------------------------


def main(root: str) -> None:
    """Answer reads of a project until the input ends."""
    from ralph.integrations.project_handle import ProjectHandle
    from ralph.web.api import ENDPOINTS

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the server, whose end is the end of the input
    endpoints = {endpoint.path: endpoint for endpoint in ENDPOINTS if endpoint.method == "GET"}
    # A cache for each opened project: settings or the database may be others the next time.
    handle = ProjectHandle(root, figures=lambda _: FigureCache(), is_read_only=True)
    answers, sys.stdout = sys.stdout.buffer, sys.stderr  # nothing else may be printed into the answers
    while (frame := read_frame(sys.stdin.buffer)) is not None:
        request = msgspec.msgpack.decode(frame, type=ReadRequest)
        write_frame(answers, msgspec.msgpack.encode(_answer(handle, endpoints.get(request.path), request)))
    handle.close()


def _answer(handle: ProjectHandle, endpoint: Endpoint | None, request: ReadRequest) -> ReadAnswer:
    if endpoint is None:
        return ReadAnswer(text=b"", is_answered=False)
    arguments = {"query": parse_query(endpoint.query, request.query)} if endpoint.query else {}

    def work(project: Project) -> RawResponse:
        result = endpoint.handler(project, *request.parameters, **arguments)
        return result if isinstance(result, RawResponse) else RawResponse(text=encode_json(result))

    handle.file_problems = request.file_problems
    try:
        result = handle.call_with_project(work)
    except RalphError:  # the server asks again itself, and reports it
        return ReadAnswer(text=b"", is_answered=False)
    return ReadAnswer(text=result.text, is_text=result.is_text, file_name=result.file_name)


if __name__ == "__main__":
    main(sys.argv[1])
