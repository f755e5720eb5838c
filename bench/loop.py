"""What the loop costs per iteration besides the agent, with 10,000 attempts behind it."""

from __future__ import annotations

import random
import subprocess
import tempfile
from pathlib import Path

import apsw

from bench.measure import Table, seconds
from ralph.agents import SessionOptions
from ralph.core.config import Config
from ralph.core.records import AgentReply, Memory, now
from ralph.loop.options import RunOptions
from ralph.loop.run import Loop
from ralph.project import Project
from ralph.store import Store
from ralph.store.memories import ChangeInfo
from ralph.store.tasks import TaskDraft
from ralph.workspace import init_project

PAST = 10_000
PAST_TASKS = 2_000
MEMORIES = 500
ITERATIONS = 100
REPEATS = 5
COMMITS = 2
"""The claim with its attempt, and the settlement."""
VOCABULARY = 8_000


class Idle:
    """An agent that says done and does nothing."""

    name = "idle"
    reports_cost = False
    reports_tokens = False
    accepts_model = False

    def __init__(self, knows_files: bool) -> None:
        self.reports_files = knows_files

    def check(self) -> None:
        """Be there."""

    def work(self, prompt: str, session: SessionOptions) -> AgentReply:
        """Say done."""
        text = f"<journal>Nothing to do.</journal><task-done>{session.environment['RALPH_TASK_ID']}</task-done>"
        return AgentReply(text=text, files=() if self.reports_files else None)


def words(chance: random.Random, count: int) -> str:
    """Give text whose words are as unevenly frequent as in real notes (Zipf), common ones first."""
    return " ".join(f"w{int(VOCABULARY ** chance.random())}ord" for _ in range(count))


def fill(store: Store) -> None:
    """Give the project a past: runs, attempts with notes, memories."""
    chance = random.Random(1)
    at = now()
    tasks = store.tasks.add_all([TaskDraft(title=words(chance, 6)) for _ in range(PAST_TASKS)])
    runs = [store.runs.start("past").id for _ in range(50)]
    with store.transaction():
        for n in range(PAST):
            task = tasks[n % PAST_TASKS]
            store.scope.insert(
                "attempts",
                run_id=runs[n % 50],
                iteration=n // 50 + 1,
                task_id=task.id,
                number=n // PAST_TASKS + 1,
                feature_id=None,
                hat="creator",
                agent="past",
                model="sonnet",
                model_reason="",
                outcome="done" if n >= PAST - PAST_TASKS else "failed",
                reason="",
                error_type=None,
                seconds=60.0,
                cost_usd=0.1,
                tokens_in=1000,
                tokens_out=500,
                files='["src/a.py"]',
                notes=words(chance, 60),
                difficulty=None,
                shown="[]",
                with_memory=1,
                worker=None,
                started_at=at,
                ended_at=at,
            )
        for n in range(MEMORIES):
            memory = Memory(
                id=f"mem-{n}-0000",
                kind="knowledge",
                title=f"{words(chance, 5)} {n}",
                content=words(chance, 60),
                tags=(f"w{n % 300}ord",),
                created_at=at,
                updated_at=at,
            )
            store.memories.add(memory, ChangeInfo(who="bench", why="bench"))
        store.scope.update_where("tasks", "status = 'done'", "status = 'pending'")


def one_run(project: Project, *, words_each: int, knows_files: bool = True) -> float:
    """Give the time per iteration of one run over new tasks."""
    chance = random.Random(2)
    project.store.tasks.add_all(
        [TaskDraft(title=words(chance, 6), body=words(chance, words_each - 6)) for _ in range(ITERATIONS)]
    )
    loop = Loop(
        store=project.store,
        agent=Idle(knows_files),
        config=Config(),
        directory=project.root,
        run_options=RunOptions(iterations=ITERATIONS),
        emit=lambda event: None,
    )
    return seconds(loop.run_loop) / ITERATIONS


class RawCommits:
    """Durable commits of one small row each, with nothing around them."""

    def __init__(self, directory: Path) -> None:
        self._connection = apsw.Connection(str(directory / "raw.db"))
        self._connection.pragma("journal_mode", "wal")
        self._connection.pragma("synchronous", "full")
        self._connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT)")

    def __call__(self) -> None:
        for _ in range(ITERATIONS):
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute("INSERT INTO t (text) VALUES (?)", ("x" * 200,))
            self._connection.execute("COMMIT")


def run(table: Table) -> None:
    """Measure in turns, so that all meet the same noise."""
    print(f"Loop overhead per iteration, {PAST:,} past attempts, {MEMORIES} memories, idle agent")
    with tempfile.TemporaryDirectory(prefix="ralph-bench-", dir=Path.home()) as name:
        directory = Path(name)
        init_project(directory)
        with Project.open(directory) as project:
            fill(project.store)
            one_run(project, words_each=6)
            raw_commits = RawCommits(directory)
            raw, bare, full = [], [], []
            for _ in range(REPEATS):
                raw.append(seconds(raw_commits) / ITERATIONS)
                bare.append(one_run(project, words_each=6))
                full.append(one_run(project, words_each=36))
            subprocess.run(["git", "init", "-q", str(directory)], check=True)
            with_git = one_run(project, words_each=36, knows_files=False)
    commits = COMMITS * min(raw)
    table.row(f"{COMMITS} raw durable commits, as many as an iteration makes", commits * 1000, 1.0)
    table.row("an iteration, everything but the agent, short tasks", min(bare) * 1000, min(bare) / commits, 5.0)
    table.row("the same, tasks of 36 words", min(full) * 1000, min(full) / commits, 5.0)
    table.row("the same, and git is asked for changed files", with_git * 1000, with_git / commits)
