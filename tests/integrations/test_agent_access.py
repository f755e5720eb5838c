"""What comes in by the door for agents is the word of an agent."""

from __future__ import annotations

import pytest

from ralph.core.errors import UsageError
from ralph.core.paging import Page
from ralph.core.records import TaskStatus
from ralph.project import Project
from tests.make import as_agent


@pytest.fixture(name="project")
def _opened_by_an_agent(project: Project) -> Project:
    return as_agent(project)


def test_an_agent_finishes_no_task_while_a_run_is_at_work_whichever_server_it_asks(project: Project) -> None:
    project.tasks.add("Fix it")
    other = project.tasks.add("Document it")
    run = project.store.runs.start("command")
    begun = project.store.attempts.begin(run.id, "a worker", 60, agent="command")
    assert begun is not None

    for id in (begun.task.id, other.id):
        with pytest.raises(UsageError, check=lambda error: error.code == "run-active"):
            project.tasks.done(id)

    assert {task.status for task in project.tasks.list()} == {TaskStatus.IN_PROGRESS, TaskStatus.PENDING}


def test_an_agent_finishes_a_task_that_no_run_works_on_and_the_log_says_who(project: Project) -> None:
    task = project.tasks.add("Fix it")

    project.tasks.done(task.id)
    project.tasks.log(task.id, "It was easy.")

    assert [entry.who for entry in project.tasks.read_log(task.id)][-2:] == ["agent", "agent"]


def test_agents_remove_nothing_that_waits_for_a_person(project: Project) -> None:
    calls = (
        lambda: project.memory.maintenance.cleanup(min_confidence=1.0, yes=True),
        lambda: project.memory.maintenance.consolidate(yes=True),
        lambda: project.memory.maintenance.clear(yes=True),
        lambda: project.learnings.clear(yes=True),
        lambda: project.learnings.reject("mem-1"),
        lambda: project.learnings.edit("mem-1", content="x"),
    )

    for call in calls:
        with pytest.raises(UsageError, check=lambda error: error.code == "person-required"):
            call()


@pytest.mark.parametrize("limit", [0, -1, 2**63])
def test_a_page_without_items_or_end_is_refused(limit: int) -> None:
    with pytest.raises(UsageError, check=lambda error: error.code == "invalid-limit"):
        Page(limit=limit)
