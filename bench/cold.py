"""What a cold command costs: the time until it is done, against Python doing nothing, and the memory it takes."""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import ralph
from bench.measure import Table, best
from bench.recall_speed import SMALL, fill
from ralph.project import Project
from ralph.workspace import init_project

REPEATS = 30
MEGABYTES = 50
PROGRAM = str(Path(sys.executable).parent / "ralph")
PRIME = ("memory", "prime", "--budget", "2000")

_PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def run(table: Table) -> None:
    """Measure cold commands in a small project, and what an agent is told first in one with many memories."""
    compileall.compile_dir(str(Path(ralph.__file__).parent), quiet=2)  # as after an install
    with tempfile.TemporaryDirectory(prefix="ralph-bench-") as name:
        print("Cold start")
        directory = Path(name)
        init_project(directory)
        command(directory, PROGRAM, "task", "add", "A task")
        nothing = best(lambda: command(directory, sys.executable, "-c", "pass"), REPEATS)
        table.row("python -c pass", nothing * 1000, 1.0)
        for words, bar in ((("status",), 6.0), (("task", "list"), None), (("journal", "list"), None), (PRIME, None)):
            spent = best(lambda words=words: command(directory, PROGRAM, *words), REPEATS)  # type: ignore[misc]
            table.row(f"ralph {' '.join(words)}", spent * 1000, spent / nothing, bar)
    with tempfile.TemporaryDirectory(prefix="ralph-bench-") as name:
        with_many(table, Path(name), SMALL)


def with_many(table: Table, directory: Path, count: int, repeats: int = REPEATS) -> None:
    """Measure the command that runs at the start of every agent's session, with so many memories."""
    print(f"Cold start with {count:,} memories")
    init_project(directory)
    with Project.open(directory) as project:
        fill(project, 0, count)
    command(directory, PROGRAM, *PRIME)  # writes the files, once
    nothing = best(lambda: command(directory, sys.executable, "-c", "pass"), repeats)
    spent = best(lambda: command(directory, PROGRAM, *PRIME), repeats)
    table.row("python -c pass", nothing * 1000, 1.0)
    table.row(f"ralph {' '.join(PRIME)}", spent * 1000, spent / nothing, 5.0)
    taken = peak_megabytes(directory, PROGRAM, *PRIME)
    table.missed += taken > MEGABYTES
    verdict = "met" if taken <= MEGABYTES else "MISSED"
    print(f"  it takes {taken:.1f} MB of memory  (at most {MEGABYTES}: {verdict})", flush=True)
    every = best(lambda: command(directory, PROGRAM, "memory", "prime"), max(repeats // 10, 1))
    table.row("ralph memory prime, all of them", every * 1000, every / nothing)


def command(directory: Path, *words: str) -> None:
    """Run a program to its end, without what it prints."""
    subprocess.run(words, cwd=directory, check=True, stdout=subprocess.DEVNULL, env=dict(os.environ))


def peak_megabytes(directory: Path, *words: str) -> float:
    """Give the most memory a program takes.

    A small process starts it: what a process starts counts as large as the one that started it, if that is larger.
    """
    told = subprocess.run((sys.executable, "-c", _PEAK, *words), cwd=directory, check=True, capture_output=True)
    return int(told.stdout) / (1024 if sys.platform != "darwin" else 1024 * 1024)
