"""The loop does as much for its hundredth iteration as for its tenth."""

from __future__ import annotations

import random

import pytest

from ralph.agents import SessionOptions
from ralph.core.records import replace
from ralph.loop.options import RunOptions
from ralph.loop.run import Loop
from ralph.project import Project
from ralph.store.sqlite.driver import SqliteDatabase
from ralph.store.tasks import TaskDraft
from tests.make import ScriptedAgent

ITERATIONS = 150
WINDOW = 20
STEPS = 50
"""Instructions of SQLite's machine that one count stands for."""


@pytest.mark.sqlite
def test_the_database_does_no_more_for_later_iterations_of_a_run(project: Project) -> None:
    chance = random.Random(1)

    def words(count: int) -> str:
        return " ".join(f"w{int(400 ** chance.random())}ord" for _ in range(count))

    project.store.tasks.add_all([TaskDraft(title=words(6), body=words(15)) for _ in range(ITERATIONS)])
    database = project.store.database
    assert isinstance(database, SqliteDatabase)
    steps = 0
    before: list[int] = []

    def count() -> bool:
        nonlocal steps
        steps += 1
        return False

    def answer(prompt: str, session: SessionOptions) -> str:
        before.append(steps)
        return f"<journal>{words(20)}</journal><task-done>TASK</task-done>"

    database._connection.set_progress_handler(count, STEPS)
    Loop(
        store=project.store,
        agent=ScriptedAgent(answer),
        config=replace(project.config, memories=replace(project.config.memories, meaning=False)),
        directory=project.root,
        run_options=RunOptions(iterations=ITERATIONS),
        emit=lambda _: None,
    ).run_loop()

    early, late = before[2 * WINDOW] - before[WINDOW], before[-1] - before[-1 - WINDOW]
    assert len(before) == ITERATIONS
    assert late < 1.5 * early
