"""What comes in by the door for agents is the word of an agent."""

from __future__ import annotations

import pytest

from ralph.core.config import DOOR_VARIABLE
from ralph.core.errors import UsageError
from ralph.core.records import Status
from ralph.project import Project


@pytest.fixture(autouse=True)
def _by_that_door(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DOOR_VARIABLE, "mcp")


def test_an_agent_finishes_no_task_while_a_run_is_at_work_whichever_server_it_asks(project: Project) -> None:
    project.add_task("Fix it")
    other = project.add_task("Document it")
    run = project.store.attempts.start_run("command")
    begun = project.store.attempts.begin(run.id, "a worker", 60, agent="command")
    assert begun is not None

    for id in (begun.task.id, other.id):
        with pytest.raises(UsageError, match="once their gates have passed"):
            project.done(id)

    assert {task.status for task in project.tasks()} == {Status.IN_PROGRESS, Status.PENDING}


def test_an_agent_finishes_a_task_that_no_run_works_on_and_the_log_says_who(project: Project) -> None:
    task = project.add_task("Fix it")

    project.done(task.id)
    project.log(task.id, "It was easy.")

    assert [entry.who for entry in project.read_log(task.id)][-2:] == ["agent", "agent"]
