"""What several workers of one run bring, and what it costs to ask where a project stands after many attempts."""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

from bench.measure import Table, best, seconds
from ralph.agents import SessionOptions
from ralph.core.config import Config, ExecutionConfig
from ralph.core.records import AgentReply, TaskStatus
from ralph.loop.options import RunOptions
from ralph.loop.run import Loop
from ralph.project import Project
from ralph.store import Store
from ralph.store.tasks import TaskDraft
from ralph.workspace import init_project

WORKERS = 8
TASKS = 40
SESSION_SECONDS = 0.1
REPEATS = 3
LEAST = 3.0
"""So many times one worker's throughput eight must reach."""
FEW, MANY = 1_000, 100_000
ATTEMPTS_PER_TASK = 4
OPEN_TASKS = 20
ASKED = 20
MAX_SECONDS = 1.0
"""Time that a question over all attempts may take, in seconds."""


class Sleeper:
    """An agent that thinks for a moment and then says done."""

    name = "sleeper"
    reports_files = True
    reports_cost = False
    reports_tokens = False
    accepts_model = False

    def check(self) -> None:
        """Be there."""

    def work(self, prompt: str, session: SessionOptions) -> AgentReply:
        """Sleep, and say done."""
        time.sleep(SESSION_SECONDS)
        text = f"<journal>Nothing to do.</journal><task-done>{session.environment['RALPH_TASK_ID']}</task-done>"
        return AgentReply(text=text, files=(), seconds=SESSION_SECONDS)


def one_run(directory: Path, workers: int, *gates: str) -> float:
    """Give how long a run over new tasks takes; nothing may be done twice or left."""
    config = Config(execution=ExecutionConfig(gates=gates))
    with Project.open(directory) as project:
        added = project.store.tasks.add_all([TaskDraft(title=f"Task {n}") for n in range(TASKS)])
        loop = Loop(
            store=project.store,
            agent=Sleeper(),
            config=config,
            directory=project.root,
            run_options=RunOptions(parallel=workers),
            emit=lambda event: None,
        )
        took = seconds(loop.run_loop)
        for task in added:
            assert project.store.tasks.get(task.id).status is TaskStatus.DONE
            assert project.store.stats.metrics(task.id).total_attempts == 1
    return took


def make_repository(directory: Path) -> None:
    """Make a small git repository that is a project."""
    for n in range(50):
        path = directory / "src" / f"module_{n}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"VALUE = {n}\n" * 20, encoding="utf-8")
    init_project(directory)
    who = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")
    for words in (("init", "-q"), ("add", "-A"), (*who, "commit", "-qm", "start")):
        subprocess.run(["git", *words], cwd=directory, check=True)


def fill(store: Store, attempts: int) -> None:
    """Give a project a past of so many attempts, most of them at tasks that are done."""
    tasks = store.tasks.add_all([TaskDraft(title=f"Task {n}") for n in range(attempts // ATTEMPTS_PER_TASK)])
    run = store.runs.start("past").id
    rows = [
        {
            "run_id": run,
            "iteration": n + 1,
            "task_id": tasks[n // ATTEMPTS_PER_TASK].id,
            "number": n % ATTEMPTS_PER_TASK + 1,
            "hat": "creator",
            "agent": "past",
            "model": ("haiku", "sonnet", "opus")[n % 3],
            "model_reason": "",
            "outcome": "done" if n % ATTEMPTS_PER_TASK == ATTEMPTS_PER_TASK - 1 else "failed",
            "reason": "",
            "seconds": 60.0,
            "cost_usd": 0.1,
            "tokens_in": 1000,
            "tokens_out": 500,
            "files": "[]",
            "notes": "",
            "shown": "[]",
            "with_memory": 1,
            "task_kind": ("bug-fix", "feature", "general")[n % 7 % 3],
            "started_at": "2026-01-01T00:00:00.000Z",
            "ended_at": "2026-01-01T00:01:00.000Z",
        }
        for n in range(attempts)
    ]
    with store.transaction():
        store.scope.insert_many("attempts", rows)
        store.scope.update_where("tasks", "status = 'done'", "status = 'pending'")
    store.tasks.add_all([TaskDraft(title=f"Open task {n}") for n in range(OPEN_TASKS)])
    store.runs.end(run, "all tasks are done")


def ask_status(project: Project) -> None:
    """Ask where the project stands."""
    for _ in range(ASKED):
        project.overview()


def ask_strategy(project: Project) -> None:
    """Ask what a model has to be chosen by."""
    from ralph.loop.choose_model import plan_attempt

    task = project.store.tasks.progress.ready()[0]
    for _ in range(ASKED):
        plan_attempt(project.store, project.config, task, project.store.stats.metrics(task.id))


def run(table: Table) -> None:
    """Measure both."""
    print(f"{WORKERS} workers, {TASKS} tasks, sessions of {SESSION_SECONDS * 1000:g} ms, a git worktree for each task")
    with tempfile.TemporaryDirectory(prefix="ralph-bench-", dir=Path.home()) as name:
        directory = Path(name)
        make_repository(directory)
        alone, together, gated = [], [], []
        for _ in range(REPEATS):
            alone.append(one_run(directory, 1))
            together.append(one_run(directory, WORKERS))
            gated.append(one_run(directory, WORKERS, "true"))
        table.row("one worker, per task", 1000 * min(alone) / TASKS, 1.0)
        table.row(f"{WORKERS} workers, per task", 1000 * min(together) / TASKS, min(together) / min(alone), 1 / LEAST)
        table.row(f"{WORKERS} workers with a gate, per task", 1000 * min(gated) / TASKS, min(gated) / min(together))
        print(f"  {min(alone) / min(together):.2f} times one worker's throughput (at least {LEAST:g})")
    print(f"Where a project stands, {FEW:,} and {MANY:,} attempts")
    from ralph.core.config import ModelsConfig
    from ralph.core.records import replace

    costs: dict[int, tuple[float, float]] = {}
    for attempts in (FEW, MANY):
        with tempfile.TemporaryDirectory(prefix="ralph-bench-", dir=Path.home()) as name:
            directory = Path(name)
            init_project(directory)
            with Project.open(directory) as project:
                fill(project.store, attempts)
                project.config = replace(project.config, models=ModelsConfig(strategy="cost-optimized"))
                costs[attempts] = (
                    best(lambda: ask_status(project), REPEATS) / ASKED,
                    best(lambda: ask_strategy(project), REPEATS) / ASKED,
                )
    for place, what in enumerate(("status", "strategy")):
        few, many = costs[FEW][place], costs[MANY][place]
        table.row(f"{what}, {FEW:,} attempts", 1000 * few, 1.0)
        table.row(f"{what}, {MANY:,} attempts", 1000 * many, many / MAX_SECONDS, 1.0)
