"""Where a project stands is told in a few tasks and true numbers, and anew when something has happened."""

from __future__ import annotations

from ralph.core.records import AttemptOutcome, TaskStatus
from ralph.project import Project
from tests.make import a_memory, a_report, begin, finish, remember


def test_an_overview_gives_the_first_tasks_and_how_many_there_are(project: Project) -> None:
    tasks = [project.tasks.add(f"Task {number}") for number in range(8)]
    for task in tasks[5:]:
        project.tasks.block(task.id, "a person must look")
    project.tasks.fail(tasks[4].id)

    seen = project.overview(2)

    assert ([task.id for task in seen.ready], seen.ready_count) == ([one.id for one in tasks[:2]], 4)
    assert ([task.id for task in seen.waiting], seen.waiting_count) == ([one.id for one in tasks[5:7]], 4)
    whole = project.overview()
    assert (len(whole.ready), len(whole.waiting)) == (4, 4)
    assert whole.waiting[-1].id == tasks[4].id


def test_an_overview_follows_what_happens(project: Project) -> None:
    first = project.tasks.add("First")
    then = project.tasks.add("Then", needs=[first.id])
    assert (project.overview(5).ready_count, project.overview(5).trouble_count) == (1, 0)

    run = project.store.runs.start("test")
    task, attempt = begin(project.store, run.id)
    finish(project.store, task, attempt, AttemptOutcome.FAILED, report=a_report(attempt))
    in_trouble = project.overview(5)
    project.tasks.done(first.id)
    after = project.overview(5)

    assert [one.task.id for one in in_trouble.trouble] == [first.id]
    assert (in_trouble.trouble_count, after.trouble_count) == (1, 0)
    assert [task.id for task in after.ready] == [then.id]
    assert (after.ready_count, project.tasks.count_ready()) == (1, 1)
    assert project.tasks.counts() == {TaskStatus.DONE: 1, TaskStatus.PENDING: 1}


def test_figures_of_the_memory_follow_what_is_learned_and_what_attempts_make_of_it(project: Project) -> None:
    project.tasks.add("Task")
    memory = remember(project.store, a_memory("Tabs", "Use tabs.", kind="pattern"))
    before = project.stats.memory()
    assert (before.memories, before.wins) == (1, 0)
    assert project.stats.memory() is before

    run = project.store.runs.start("test")
    task, attempt = begin(project.store, run.id)
    finish(project.store, task, attempt, AttemptOutcome.DONE, TaskStatus.DONE, shown=(memory.id,))
    used = project.stats.memory()
    project.memory.add("Use four spaces in YAML.")

    assert (used.memories, used.shown, used.wins) == (1, 1, 1)
    assert project.stats.memory().memories == 2
