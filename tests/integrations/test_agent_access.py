"""What comes in by the door for agents is the word of an agent."""

from __future__ import annotations

import pytest

from ralph.core.errors import UsageError
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
