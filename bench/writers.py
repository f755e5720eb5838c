"""What adding a memory costs when many processes do it at once, as people and hooks start them."""

from __future__ import annotations

import compileall
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import ralph
from bench.cold import PROGRAM, command
from bench.measure import Table
from ralph.core.records import Memory, now
from ralph.project import Project
from ralph.store.memories import ChangeInfo
from ralph.workspace import init_project

PROCESSES = 16
EACH = 10
REPEATS = 20
MANY = 10_000
SPREAD = 5.0
"""Most that p99 may be of p50."""
GROWTH = 1.5
"""Most that one add among many memories may cost, of one among few."""


def run(table: Table) -> None:
    """Measure one process, then many at once, with few memories and with many."""
    compileall.compile_dir(str(Path(ralph.__file__).parent), quiet=2)  # as after an install
    print(f"ralph memory add, {PROCESSES} processes at once, .agent/memories.md is kept in step")
    alone: dict[int, float] = {}
    for count in (100, MANY):
        with tempfile.TemporaryDirectory(prefix="ralph-bench-", dir=Path.home()) as name:
            directory = Path(name)
            init_project(directory)
            fill(directory, count)
            alone[count] = _measure(table, directory, count)
    table.row(f"CPU of one, {MANY:,} memories to 100", alone[MANY], alone[MANY] / alone[100], GROWTH)


def fill(directory: Path, count: int) -> None:
    """Give a project memories that are in its file."""
    with Project.open(directory) as project:
        with project.store.transaction():
            for number in range(count):
                text = f"Fact {number} is about w{number * 7} and w{number * 13}."
                id, at = f"mem-{number}-0000", now()
                memory = Memory(id=id, kind="pattern", title=text, content=text, created_at=at, updated_at=at)
                project.store.memories.insert_unchecked(memory, ChangeInfo(who="bench", why="bench"))
        project.files.sync()


def _measure(table: Table, directory: Path, count: int) -> float:
    """Print one measurement and return the CPU of one process that runs alone, in milliseconds."""
    nothing = min(cpu(lambda: command(directory, sys.executable, "-c", "pass")) for _ in range(REPEATS))
    alone = min(cpu(lambda: _add(directory, "one alone")) for _ in range(REPEATS))
    waits: list[float] = []
    began = time.perf_counter()
    spent = cpu(lambda: _all_at_once(directory, waits))
    seconds = time.perf_counter() - began
    waits.sort()
    p50, p99 = waits[len(waits) // 2], waits[int(0.99 * len(waits))]
    table.row(f"{count:,} memories: CPU of one process alone", alone * 1000, alone / nothing)
    each = spent / len(waits)
    table.row("CPU of one of many: what the lock and the others cost", each * 1000, each / alone)
    table.row("p50", p50 * 1000, 1.0)
    table.row("p99", p99 * 1000, p99 / p50, SPREAD)
    print(f"  {len(waits) / seconds:.1f} a second")
    return alone * 1000


def _all_at_once(directory: Path, waits: list[float]) -> None:
    def loop(writer: int) -> None:
        for turn in range(EACH):
            began = time.perf_counter()
            _add(directory, f"writer {writer} in turn {turn}")
            waits.append(time.perf_counter() - began)

    threads = [threading.Thread(target=loop, args=(writer,)) for writer in range(PROCESSES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _add(directory: Path, who: str) -> None:
    command(directory, PROGRAM, "memory", "add", f"Learned by {who}: {os.urandom(4).hex()}")


def cpu(act: Callable[[], object]) -> float:
    """Return the CPU time of the processes that a call runs, in seconds."""
    before = getrusage(RUSAGE_CHILDREN)
    act()
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
