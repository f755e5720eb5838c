"""What the HTTP door adds to a search, and whether it stands many readers and writers at once.

The server is a process of its own, as people start it, and so is the load.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles
from urllib.parse import quote

from bench.measure import Table, best
from bench.recall_speed import MANY, SMALL, Texts, fill
from ralph.core.records import Attempt, AttemptOutcome, FailureReport, Run, TaskStatus, replace, timestamp
from ralph.project import Project
from ralph.store.memory_queries import MemoryFilter
from ralph.store.rows import to_columns
from ralph.store.tasks import TaskDraft
from ralph.web.tokens import token_path
from ralph.workspace import init_project

QUERIES = 20
REPEATS = 7
SHOWN = 20
READERS, WRITERS, SECONDS = 50, 5, 30.0
TASKS, RUNS, ATTEMPTS = 100_000, 200, 100
"""Tasks, runs, and attempts in each of them."""
PAGE_GROUPS = {
    "the overview": ("/", "/api/status"),
    "tasks": ("/tasks", "/tasks/{task}", "/api/tasks", "/api/features"),
    "memories": ("/memories", "/memories/{memory}", "/staging"),
    "runs": ("/runs", "/runs/{run}", "/live", "/journal", "/failures"),
}
ROOM = 300_000
"""Bytes that the first page may have in all."""
BARE = """
import sys
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
answer = sys.stdin.buffer.read()
async def bare(request):
    return Response(answer, media_type="application/json")
app = Starlette(routes=[Route("/", bare)])
uvicorn.run(app, port=int(sys.argv[1]), loop="asyncio", http="h11", log_level="error", access_log=False)
"""


def run(table: Table) -> None:
    """Measure a search, the pages of a large project, a crowd, and the first page."""
    with tempfile.TemporaryDirectory(prefix="ralph-bench-") as name, tempfile.TemporaryDirectory() as small:
        _search(table, Path(name))
        _pages(table, Path(name), Path(small))
    with tempfile.TemporaryDirectory(prefix="ralph-bench-") as name:
        _crowd(table, Path(name))


# --- one search -----------------------------------------------------------------------------


def _search(table: Table, directory: Path) -> None:
    print(f"Search over HTTP with {MANY:,} memories")
    texts = Texts(-2)
    queries = [texts.search().title for _ in range(QUERIES)]
    _make(directory, MANY)
    with Project.open(directory) as project, _serving(directory) as ask:
        paths = {query: f"/api/projects/-/memories/search?limit={SHOWN}&q={quote(query)}" for query in queries}
        _, sample = ask(paths[queries[0]])
        with _bare(sample) as ask_bare:
            pairs = [
                (
                    best(lambda query=query: project.memory.search(query, MemoryFilter(), SHOWN), REPEATS),  # type: ignore[misc]
                    best(lambda query=query: ask(paths[query]), REPEATS),  # type: ignore[misc]
                )
                for query in queries
            ]
            bare = best(lambda: ask_bare("/"), 50)
    inside, outside = median(one for one, _ in pairs), median(other for _, other in pairs)
    table.row("a search in the process", inside * 1000, 1.0)
    table.row("a bare endpoint of the same framework", bare * 1000, bare / inside)
    table.row("a search over HTTP, less the bare endpoint", (outside - bare) * 1000, (outside - bare) / inside, 1.5)


def _make(directory: Path, count: int) -> None:
    init_project(directory)
    with Project.open(directory) as project:
        fill(project, 0, count)
        project.files.sync()


# --- the pages of a large project ------------------------------------------------------------


def _pages(table: Table, directory: Path, small: Path) -> None:
    """Measure each page where there is much, beside the same page where there is nearly nothing."""
    print(f"Pages with {MANY:,} memories, {TASKS:,} tasks and {RUNS * ATTEMPTS:,} attempts")
    _make(small, 10)
    for where, tasks, runs in ((small, 10, 1), (directory, TASKS, RUNS)):
        with Project.open(where) as project:
            _work(project, tasks, runs)
    with Project.open(directory) as project:
        memory = next(iter(project.store.memories.listing.newest(MemoryFilter()))).id
    few = _page_times(small, "mem-0-bench")
    many = _page_times(directory, memory)
    for name, paths in PAGE_GROUPS.items():
        large, least = (max(times[path] for path in paths) for times in (many, few))
        table.row(f"{name}: the slowest of {len(paths)}, beside nearly nothing", large * 1000, large / least)


def _page_times(directory: Path, memory: str) -> dict[str, float]:
    names = {"task": "t-000004", "memory": memory, "run": "run-000000"}
    with _serving(directory) as ask:
        times = {}
        for path in (path for paths in PAGE_GROUPS.values() for path in paths):
            asked = path.format(**names)
            status, _ = ask(asked)
            assert status == 200, asked
            times[path] = best(lambda asked=asked: ask(asked), 3)  # type: ignore[misc]
    return times


def _work(project: Project, tasks: int, runs: int) -> None:
    """Add tasks, two of three done, and attempts at them."""
    chance = random.Random(1)
    store = project.store
    for first in range(0, tasks, 10_000):
        store.tasks.add_all(
            [
                TaskDraft(
                    id=f"t-{number:06x}",
                    title=f"Task {number} does something useful",
                    status=TaskStatus.DONE if number % 3 else TaskStatus.PENDING,
                    priority=number % 5,
                    needs=(f"t-{number - 1:06x}",) if number % 4 == 1 else (),
                )
                for number in range(first, min(first + 10_000, tasks))
            ]
        )
    numbers = dict.fromkeys(range(tasks), 0)
    with store.transaction():
        for run in range(runs):
            attempts, reports = [], []
            for iteration in range(1, ATTEMPTS + 1):
                task = chance.randrange(tasks)
                numbers[task] += 1
                attempt = _attempt(run, iteration, task, numbers[task])
                attempts.append(to_columns(attempt))
                if attempt.outcome is AttemptOutcome.FAILED:
                    reports.append(to_columns(_report(attempt, chance.randrange(300))))
            began, ended = attempts[0]["started_at"], attempts[-1]["ended_at"]
            whole = Run(id=f"run-{run:06x}", agent="bench", started_at=str(began), iterations=ATTEMPTS)
            store.scope.insert("runs", **to_columns(replace(whole, ended_at=ended, ending="nothing left")))
            store.scope.insert_many("attempts", attempts)
            store.scope.insert_many("failures", reports)


def _attempt(run: int, iteration: int, task: int, number: int) -> Attempt:
    at = 1_780_000_000 + 60 * (run * ATTEMPTS + iteration)
    return Attempt(
        run_id=f"run-{run:06x}",
        iteration=iteration,
        task_id=f"t-{task:06x}",
        number=number,
        agent="bench",
        model=("small", "middle", "large")[iteration % 3],
        outcome=AttemptOutcome.DONE if task % 3 else AttemptOutcome.FAILED,
        notes="Looked at the parser and changed three files.",
        with_memory=bool(iteration % 5),
        holdout=0.2,
        seconds=50.0,
        cost_usd=0.02,
        started_at=timestamp(at),
        ended_at=timestamp(at + 50),
    )


def _report(attempt: Attempt, way: int) -> FailureReport:
    return FailureReport(
        run_id=attempt.run_id,
        iteration=attempt.iteration,
        task_id=attempt.task_id or "",
        attempt_number=attempt.number or 0,
        tried="Something.",
        why=f"It broke in way {way}.",
        category="test_failure",
        fingerprint=f"{way:08x}",
        created_at=attempt.started_at,
    )


# --- a crowd --------------------------------------------------------------------------------


def _crowd(table: Table, directory: Path) -> None:
    print(f"{READERS} readers and {WRITERS} writers for {SECONDS:.0f} s, {SMALL:,} memories")
    _make(directory, SMALL)
    with _serving(directory) as ask:
        load = [sys.executable, "-m", "bench.server", str(ask.port), ask.token, str(SECONDS)]
        told = json.loads(subprocess.run(load, capture_output=True, text=True, check=True).stdout)
        sizes = first_page(ask)
    for who in ("readers", "writers"):
        times = sorted(told[who])
        p50, p99 = median(times), quantiles(times, n=100)[98]
        table.row(f"{who}: p50 of {len(times):,} answers ({len(times) / SECONDS:.0f} a second)", p50 * 1000, 1.0)
        table.row(f"{who}: p99", p99 * 1000, p99 / p50, 10.0)
    errors = told["errors"]
    table.missed += bool(errors)
    print(f"  errors: {len(errors)}  (none: {'MISSED ' + str(errors[:3]) if errors else 'met'})")
    total = sum(sizes.values())
    table.missed += total > ROOM
    print(
        f"  the first page: {total / 1000:.0f} kB in {len(sizes)} files  (at most {ROOM // 1000}: "
        f"{'met' if total <= ROOM else 'MISSED'})"
    )


def first_page(ask: Asking) -> dict[str, int]:
    """Give the sizes of the first page and of all it loads."""
    import re

    _, page = ask("/")
    found = {"/": len(page)}
    waiting = re.findall(rb'(?:href|src)="(/static/[^"]+)"', page)
    while waiting:
        path = waiting.pop().decode()
        if path not in found:
            _, body = ask(path)
            found[path] = len(body)
            folder = path.rpartition("/")[0]
            waiting += [f"{folder}/{one.decode()}".encode() for one in re.findall(rb'from\s*"\./([^"]+)"', body)]
            waiting += re.findall(rb'"(/static/[^"]+)"', body)
    return found


class _Load:
    """Readers and writers that ask one thing after the other, each on a connection of its own."""

    def __init__(self, port: int, token: str, seconds: float) -> None:
        self._port = port
        self._token = token
        self._until = time.monotonic() + seconds
        self.times: dict[str, list[float]] = {"readers": [], "writers": []}
        self.errors: list[str] = []

    async def run(self) -> None:
        """Ask until the time is over."""
        readers = [self._ask("readers", number, self._reading) for number in range(READERS)]
        writers = [self._ask("writers", number, self._writing) for number in range(WRITERS)]
        await asyncio.gather(*readers, *writers)

    async def _ask(self, who: str, number: int, request: Callable[[Texts, int], tuple[str, str, bytes]]) -> None:
        texts = Texts(1_000_000 + number)
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        turn = 0
        while time.monotonic() < self._until:
            method, path, body = request(texts, turn)
            turn += 1
            started = time.perf_counter()
            writer.write(self._head(method, path, body) + body)
            status = await _answer(reader)
            self.times[who].append(time.perf_counter() - started)
            if status >= 400:
                self.errors.append(f"{method} {path}: {status}")
        writer.close()

    def _head(self, method: str, path: str, body: bytes) -> bytes:
        return (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nAuthorization: Bearer {self._token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode()

    def _reading(self, texts: Texts, turn: int) -> tuple[str, str, bytes]:
        paths: Sequence[str] = (
            f"/api/projects/-/memories/search?limit={SHOWN}&q={quote(texts.words(4))}",
            "/api/projects/-/memories?limit=20",
            "/api/tasks",
            "/api/stats/runs",
        )
        return "GET", paths[turn % len(paths)], b""

    def _writing(self, texts: Texts, turn: int) -> tuple[str, str, bytes]:
        body = {"content": f"{texts.words(20)} {turn}", "type": "pattern"}
        return "POST", "/api/projects/-/memories", json.dumps(body).encode()


async def _answer(reader: asyncio.StreamReader) -> int:
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode("latin-1").lower().split("\r\n")
    length = next(int(line.partition(":")[2]) for line in lines if line.startswith("content-length:"))
    await reader.readexactly(length)
    return int(lines[0].split()[1])


# --- servers --------------------------------------------------------------------------------


class Asking:
    """One connection to a server on this machine."""

    def __init__(self, port: int, token: str) -> None:
        self.port = port
        self.token = token
        self._connection = http.client.HTTPConnection("127.0.0.1", port)

    def __call__(self, path: str, sent: object = None) -> tuple[int, bytes]:
        """Give the status and the body of an answer; what is sent is posted."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        body = None if sent is None else json.dumps(sent)
        self._connection.request("GET" if body is None else "POST", path, body, headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()


@contextlib.contextmanager
def _serving(directory: Path) -> Iterator[Asking]:
    """Serve a project as people do."""
    port = free_port()
    command = [sys.executable, "-m", "ralph", "-C", str(directory), "serve", "--port", str(port)]
    with started_process(command, b"", port):
        yield Asking(port, token_path(str(directory)).read_text().strip())


@contextlib.contextmanager
def _bare(answer: bytes) -> Iterator[Asking]:
    """Serve one answer with nothing around it."""
    port = free_port()
    with started_process([sys.executable, "-c", BARE, str(port)], answer, port):
        yield Asking(port, "")


@contextlib.contextmanager
def started_process(
    command: Sequence[str], given: bytes, port: int, environment: dict[str, str] | None = None
) -> Iterator[int]:
    """Start a server, wait until it listens, and give its process id."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment)
    assert process.stdin is not None
    process.stdin.write(given)
    process.stdin.close()
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield process.pid
    finally:
        os.kill(process.pid, signal.SIGTERM)
        process.wait()


def free_port() -> int:
    """Give a port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


if __name__ == "__main__":
    load = _Load(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
    asyncio.run(load.run())
    print(json.dumps({**load.times, "errors": load.errors}))
