"""The loop does as much for its hundredth iteration as for its tenth."""

from __future__ import annotations

import random
from collections.abc import Callable
from string import ascii_lowercase

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

pytestmark = pytest.mark.sqlite
chance = random.Random(1)


def words(count: int) -> str:
    """Give common words and rare ones."""
    return " ".join(f"w{int(400 ** chance.random())}ord" for _ in range(count))


def fresh_words(count: int) -> str:
    """Give words that no other text has, so that a search finds as little in a large memory as in a small one."""
    return " ".join(f"x{chance.randrange(10**9)}" for _ in range(count))


def done() -> str:
    return f"<journal>{words(20)}</journal><task-done>TASK</task-done>"


def failed_and_learned() -> str:
    return f"""
{"".join(chance.choices(ascii_lowercase, k=9))} is another answer each time.
<journal>{fresh_words(20)}</journal>
<knowledge tags="{fresh_words(1)}" title="{fresh_words(6)}">{fresh_words(30)}</knowledge>
<failure-report>
what_tried: {fresh_words(10)}
why_failed: {fresh_words(10)}
</failure-report>
"""


def steps_before_sessions(
    project: Project, answer: Callable[[], str], drafts: list[TaskDraft], max_retries: int = 3
) -> list[int]:
    """Run the loop and give what SQLite has done until each session."""
    project.store.tasks.add_all(drafts)
    database = project.store.database
    assert isinstance(database, SqliteDatabase)
    steps = 0
    before: list[int] = []

    def count() -> bool:
        nonlocal steps
        steps += 1
        return False

    def work(prompt: str, session: SessionOptions) -> str:
        before.append(steps)
        return answer()

    config = replace(
        project.config,
        memories=replace(project.config.memories, meaning=False),
        execution=replace(project.config.execution, max_retries=max_retries),
    )
    database._connection.set_progress_handler(count, STEPS)
    Loop(
        store=project.store,
        agent=ScriptedAgent(work),
        config=config,
        directory=project.root,
        run_options=RunOptions(iterations=ITERATIONS),
        emit=lambda _: None,
    ).run_loop()
    assert len(before) == ITERATIONS
    return before


def growth(before: list[int]) -> float:
    """Give what the last iterations took, as a multiple of early ones."""
    return (before[-1] - before[-1 - WINDOW]) / (before[2 * WINDOW] - before[WINDOW])


def test_the_database_does_no_more_for_later_iterations_of_a_run(project: Project) -> None:
    tasks = [TaskDraft(title=words(6), body=words(15)) for _ in range(ITERATIONS)]

    assert growth(steps_before_sessions(project, done, tasks)) < 1.5


@pytest.mark.parametrize(("tasks", "max_retries"), [(ITERATIONS, 1), (3, ITERATIONS), (1, ITERATIONS)])
def test_what_attempts_learn_and_report_makes_later_ones_no_slower(
    project: Project, tasks: int, max_retries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ralph.loop.context.MIN_SYNC_INTERVAL_SECONDS", 0.0)  # the files as well, every time
    drafts = [TaskDraft(title=fresh_words(6), body=fresh_words(15)) for _ in range(tasks)]

    assert growth(steps_before_sessions(project, failed_and_learned, drafts, max_retries)) < 2.0
