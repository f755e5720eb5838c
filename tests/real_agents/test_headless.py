"""The real Gemini CLI, without its terminal, does tasks of ours and ends when it has to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ralph.agents import Agent, Limits, open_agent
from ralph.core.config import AgentConfig
from ralph.core.records import AttemptOutcome, SessionEnding, TaskStatus
from ralph.loop.options import RunOptions
from ralph.project import Project
from tests.make import a_session
from tests.real_agents.model_server import ModelServer, Step, calls, fails, refuses, says


@pytest.fixture
def agent(gemini: Path, a_git_project: Path) -> Agent:
    return open_agent(AgentConfig(name="gemini"), a_git_project)


def test_gemini_does_a_task_and_a_retry_sees_why_the_first_attempt_failed(
    gemini: Path, a_git_project: Path, model: ModelServer
) -> None:
    why = "The moon was full."
    report = f"<failure-report>\nwhat_tried: It.\nwhy_failed: {why}\n</failure-report>"
    with Project.open(a_git_project) as project:
        task = project.tasks.add("Write a.txt")
        model.play(
            says(f"{report}\n<task-failed>{task.id}</task-failed>"),
            calls("write_file", {"file_path": str(a_git_project / "a.txt"), "content": "written\n"}, text="I write."),
            says(f"<task-done>{task.id}</task-done>"),
        )

        project.runs.start(RunOptions(agent="gemini", model="gemini-2.5-pro", iterations=2), lambda *told: None)

        assert project.store.tasks.get(task.id).status is TaskStatus.DONE
        attempts = project.store.attempts.recent(project.store.runs.latest(1)[0].id, 5)
    assert (a_git_project / "a.txt").read_text() == "written\n"
    assert {(attempt.outcome, attempt.tokens_in, attempt.tokens_out) for attempt in attempts} == {
        (AttemptOutcome.FAILED, 100, 20),
        (AttemptOutcome.DONE, 200, 40),
    }
    assert not model.requests[0].has(why)
    assert model.requests[1].has("Write a.txt", why)


def test_gemini_gets_a_large_prompt_whole_and_reads_no_file_that_it_names(
    agent: Agent, a_git_project: Path, model: ModelServer
) -> None:
    (a_git_project / "secret.txt").write_text("Nobody asked for this.")
    model.play(says("Yes."))

    agent.check()
    reply = agent.work(f"{'Fix the parser. ' * 13_000}See @secret.txt, the end.", a_session(a_git_project))

    assert (reply.text, reply.ending, bool(reply.session)) == ("Yes.", SessionEnding.FINISHED, True)
    assert model.requests[0].text.count("Fix the parser.") == 13_000
    assert model.requests[0].has("secret.txt, the end.")
    assert not model.requests[0].has("Nobody asked for this.")


def test_gemini_may_only_look_where_it_is_to_judge(agent: Agent, a_git_project: Path, model: ModelServer) -> None:
    model.play(
        calls("write_file", {"file_path": str(a_git_project / "a.txt"), "content": "x"}),
        calls("run_shell_command", {"command": "touch b.txt"}),
        calls("read_file", {"file_path": str(a_git_project / "README.md")}),
        says("It is good."),
    )

    reply = agent.work("Judge it.", a_session(a_git_project, read_only=True, limits=Limits(seconds=60)))

    assert (reply.text, reply.ending) == ("It is good.", SessionEnding.FINISHED)
    assert not (a_git_project / "a.txt").exists()
    assert not (a_git_project / "b.txt").exists()
    assert "# A project" in model.requests[3].last


@pytest.mark.parametrize(
    ("step", "ending", "told"),
    [
        (refuses(repeat=True), SessionEnding.REFUSED, "safety"),
        (fails(400, "No such thing.", repeat=True), SessionEnding.MODEL_FAILED, "No such thing."),
        (Step(text="Half of it.", drop_after=60, repeat=True), SessionEnding.MODEL_FAILED, ""),
    ],
    ids=["a safety block", "an API error", "a cut stream"],
)
def test_gemini_tells_why_it_cannot_go_on(
    agent: Agent, a_git_project: Path, model: ModelServer, step: Step, ending: SessionEnding, told: str
) -> None:
    model.play(step)

    reply = agent.work("Fix it.", a_session(a_git_project, limits=Limits(seconds=60)))

    assert reply.ending is ending
    assert told in reply.detail


def test_gemini_is_ended_at_the_time_limit_with_all_that_it_started(
    agent: Agent, a_git_project: Path, model: ModelServer, survivors: Callable[[], list[str]]
) -> None:
    command = "nohup setsid sleep 300 >/dev/null 2>&1 & touch started; sleep 300"
    model.play(calls("run_shell_command", {"command": command}))

    # It takes some seconds to start, more on a busy machine.
    reply = agent.work("Wait.", a_session(a_git_project, limits=Limits(seconds=20)))

    assert (a_git_project / "started").exists()
    assert reply.ending is SessionEnding.TIMED_OUT
    assert survivors() == []
