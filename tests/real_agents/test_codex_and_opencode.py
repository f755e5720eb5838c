"""The real Codex and the real opencode, without their terminals, do tasks of ours and say why they cannot."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ralph.agents import Limits, open_agent
from ralph.agents.service_errors import ServiceProblem, read_service_error
from ralph.core.config import AgentConfig
from ralph.core.records import AttemptOutcome, SessionEnding, TaskStatus, record
from ralph.loop.options import RunOptions
from ralph.project import Project
from tests.make import a_session
from tests.real_agents.model_server import ModelServer, calls, fails, says


@record
class Tools:
    """How an agent writes a file and runs a command."""

    write: Callable[[Path], tuple[str, dict[str, Any]]]
    run: Callable[[str], tuple[str, dict[str, Any]]]


TOOLS = {
    "codex": Tools(
        write=lambda path: ("exec_command", {"cmd": f"echo written > {path}"}),
        run=lambda command: ("exec_command", {"cmd": command}),
    ),
    "opencode": Tools(
        write=lambda path: ("write", {"filePath": str(path), "content": "written\n"}),
        run=lambda command: ("bash", {"command": command, "description": "Run it"}),
    ),
}


@pytest.fixture(params=list(TOOLS))
def name(request: pytest.FixtureRequest, agent_environment: dict[str, str]) -> str:
    """Give the name of an agent that is installed here."""
    chosen: str = request.param
    request.getfixturevalue(chosen)
    return chosen


def test_a_task_is_done_and_a_review_may_look_but_not_write(
    name: str, a_git_project: Path, model: ModelServer, survivors: Callable[[], list[str]]
) -> None:
    tools = TOOLS[name]
    with Project.open(a_git_project) as project:
        task = project.tasks.add("Write a.txt")
        model.play(
            calls(*tools.write(a_git_project / "a.txt"), text="I write."),
            says(f"<task-done>{task.id}</task-done>"),
            calls(*tools.write(a_git_project / "b.txt")),
            says("<verify-pass/>"),
        )

        project.runs.start(RunOptions(agent=name, iterations=1, review=True), lambda *told: None)

        done = project.store.tasks.get(task.id).status
        (attempt,) = project.store.attempts.recent(project.store.runs.latest(1)[0].id, 5)
    assert (done, attempt.outcome, attempt.files) == (TaskStatus.DONE, AttemptOutcome.DONE, ("a.txt",))
    assert (a_git_project / "a.txt").read_text() == "written\n"
    assert not (a_git_project / "b.txt").exists()
    assert (attempt.tokens_in or 0) >= 200
    assert (attempt.tokens_out or 0) >= 40
    assert attempt.agent_session
    assert not survivors()


def test_a_key_that_is_refused_is_a_problem_of_the_login(name: str, a_git_project: Path, model: ModelServer) -> None:
    model.play(fails(401, "Incorrect API key provided.", repeat=True))
    agent = open_agent(AgentConfig(name=name), a_git_project)

    agent.check()
    reply = agent.work("Fix it.", a_session(a_git_project, limits=Limits(seconds=60)))

    assert reply.ending is SessionEnding.MODEL_FAILED
    assert read_service_error(reply.detail, datetime.now(UTC)).problem is ServiceProblem.LOGIN


def test_a_session_past_its_time_ends_with_all_that_it_started(
    codex: Path, a_git_project: Path, model: ModelServer, survivors: Callable[[], list[str]]
) -> None:
    model.play(calls(*TOOLS["codex"].run("touch begun; tail -f /dev/null")))
    agent = open_agent(AgentConfig(name="codex"), a_git_project)

    reply = agent.work("Fix it.", a_session(a_git_project, limits=Limits(seconds=5)))

    assert reply.ending is SessionEnding.TIMED_OUT
    assert (a_git_project / "begun").exists()
    assert not survivors()
