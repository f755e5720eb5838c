"""What an iteration costs in CPU time besides the agent: after many iterations, and among many files.

With the extra for search by meaning the encoding of the task comes on top, once there are vectors, which a run makes
in the background; it is measured by itself.
"""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
from itertools import pairwise
from pathlib import Path

from bench.loop import MEMORIES, PAST, Idle, fill, words
from bench.measure import Table
from ralph.agents import SessionOptions
from ralph.core.config import Config, MemoriesConfig
from ralph.core.records import AgentReply
from ralph.loop.options import RunOptions
from ralph.loop.run import Loop
from ralph.project import Project
from ralph.store.tasks import TaskDraft
from ralph.workspace import init_project

ITERATIONS = int(os.environ.get("RALPH_BENCH_ITERATIONS", "2000"))
STEP = 50
"""Number of iterations that one figure is the mean of."""
MAX_MILLISECONDS = 25.0
MAX_GROWTH = 1.25
"""Cost of the last iterations, relative to the first."""
FEW_FILES, MANY_FILES = 100, int(os.environ.get("RALPH_BENCH_FILES", "200000"))
FILE_ITERATIONS = 20
FILES_PER_FOLDER = 100


class _Clocked(Idle):
    """An idle agent that notes the CPU time at each of its sessions, and may change a file in each."""

    def __init__(self, file: Path | None = None) -> None:
        super().__init__(knows_files=False)
        self.marks: list[float] = []
        self._file = file

    def work(self, prompt: str, session: SessionOptions) -> AgentReply:
        """Say done."""
        self.marks.append(sum(os.times()[:4]))
        if self._file:
            self._file.write_text(f"x = {len(self.marks)}\n")
        return super().work(prompt, session)

    def costs(self, step: int) -> list[float]:
        """Return the milliseconds per iteration of each `step` iterations."""
        ends = self.marks[::step]
        return [(end - start) / step * 1000 for start, end in pairwise(ends)]


def run(table: Table) -> None:
    """Measure, and print a row each."""
    print(f"CPU per iteration without the agent, {PAST:,} past attempts, {MEMORIES} memories, git asked for changes")
    with tempfile.TemporaryDirectory(prefix="ralph-bench-") as name:
        costs = _run(Path(name), FEW_FILES, ITERATIONS + 1, has_past=True).costs(STEP)
    tenth = max(1, len(costs) // 10)
    first, last = min(costs[:tenth]), min(costs[-tenth:])
    table.row("an iteration; the bar is in milliseconds", min(costs), min(costs), MAX_MILLISECONDS)
    table.row(f"the last of {ITERATIONS:,} iterations, relative to the first", last, last / first, MAX_GROWTH)
    few, many = (_among(count) for count in (FEW_FILES, MANY_FILES))
    table.row(f"without a past, in a repository of {FEW_FILES} files, one changed", few, 1.0)
    table.row(f"the same in one of {MANY_FILES:,}", many, many / few, goal=2.0)


def _among(files: int) -> float:
    with tempfile.TemporaryDirectory(prefix="ralph-bench-") as name:
        return min(_run(Path(name), files, FILE_ITERATIONS + 1, has_past=False).costs(5))


def _run(root: Path, files: int, iterations: int, *, has_past: bool) -> _Clocked:
    """Run the loop in a new repository and return its agent."""
    _make_repository(root, files)
    init_project(root)
    agent = _Clocked(None if has_past else root / "src" / "0" / "0.py")
    chance = random.Random(2)
    with Project.open(root) as project:
        if has_past:
            fill(project.store)
        project.store.tasks.add_all(
            [TaskDraft(title=words(chance, 6), body=words(chance, 30)) for _ in range(iterations)]
        )
        Loop(
            store=project.store,
            agent=agent,
            config=Config(memories=MemoriesConfig(meaning=False)),
            directory=root,
            run_options=RunOptions(iterations=iterations),
            emit=lambda event: None,
        ).run_loop()
    return agent


def _make_repository(root: Path, files: int) -> None:
    for number in range(files):
        folder = root / "src" / str(number // FILES_PER_FOLDER)
        if number % FILES_PER_FOLDER == 0:
            folder.mkdir(parents=True)
        (folder / f"{number}.py").write_text("x = 1\n")
    identity = ("-c", "user.name=A", "-c", "user.email=a@b.example")
    for command in (("init", "--quiet"), ("add", "-A"), ("commit", "--quiet", "-m", "first")):
        subprocess.run(["git", *identity, *command], cwd=root, check=True)
