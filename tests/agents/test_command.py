"""Any program that reads stdin and writes stdout can be the agent."""

from pathlib import Path

import pytest

from ralph.agents import Agent, Limits
from ralph.agents.command import CommandAgent
from ralph.core.config import AgentConfig
from ralph.core.errors import AgentUnavailableError
from ralph.core.records import SessionEnding
from tests.make import a_session

pytestmark = pytest.mark.storeless


def command_agent(directory: Path, command: tuple[str, ...]) -> CommandAgent:
    return CommandAgent(AgentConfig(command=command), directory)


def test_the_prompt_goes_in_and_the_answer_comes_out(tmp_path: Path) -> None:
    heard: list[str] = []
    agent: Agent = command_agent(tmp_path, ("sh", "-c", "tr a-z A-Z"))

    reply = agent.work("fix the parser\n", a_session(tmp_path, on_output=heard.append))

    assert agent.name == "command"
    assert (reply.text, reply.ending, reply.exit_code) == ("FIX THE PARSER\n", SessionEnding.FINISHED, 0)
    assert (reply.tokens_in, reply.tokens_out, reply.files, reply.detail) == (None, None, None, "")
    assert 0 < reply.seconds < 5
    assert heard == ["FIX THE PARSER\n"]


def test_a_crash_is_a_reply_and_its_text_is_kept(tmp_path: Path) -> None:
    script = "echo '<task-done>t-000001</task-done>'; echo 'out of credit' >&2; exit 3"
    agent = command_agent(tmp_path, ("sh", "-c", script))

    reply = agent.work("", a_session(tmp_path))

    assert reply.text == "<task-done>t-000001</task-done>\n"
    assert (reply.ending, reply.exit_code) == (SessionEnding.CRASHED, 3)
    assert reply.detail == "sh exited with 3: out of credit"


def test_the_session_sets_directory_model_environment_and_limits(tmp_path: Path) -> None:
    (tmp_path / "worktree").mkdir()
    agent = CommandAgent(
        AgentConfig(command=("sh", "-c", 'pwd; echo "$0 $COLOUR ${HOME:+home}"; sleep 60', "-m={model}")), tmp_path
    )
    session = a_session(
        tmp_path / "worktree", model="opus", environment={"COLOUR": "red"}, limits=Limits(idle_seconds=1.0)
    )

    reply = agent.work("", session)

    assert reply.text == f"{tmp_path}/worktree\n-m=opus red home\n"
    assert reply.ending is SessionEnding.WENT_SILENT


def test_without_a_model_its_place_stays_empty(tmp_path: Path) -> None:
    assert command_agent(tmp_path, ("echo", "[{model}]")).work("", a_session(tmp_path)).text == "[]\n"


def test_a_session_is_stopped_when_asked(tmp_path: Path) -> None:
    reply = command_agent(tmp_path, ("sleep", "60")).work("", a_session(tmp_path, should_stop=lambda: True))

    assert (reply.ending, reply.detail) == (SessionEnding.STOPPED, "sleep was stopped.")


def test_a_program_is_looked_for_in_the_project_and_run_in_the_session_directory(tmp_path: Path) -> None:
    (tmp_path / "agent").write_text("#!/bin/sh\npwd\n")
    (tmp_path / "agent").chmod(0o755)
    (tmp_path / "worktree").mkdir()
    agent = command_agent(tmp_path, ("./agent",))

    agent.check()

    assert agent.work("", a_session(tmp_path / "worktree")).text == f"{tmp_path}/worktree\n"


def test_check_tells_what_is_missing(tmp_path: Path) -> None:
    command_agent(tmp_path, ("sh", "agent.sh")).check()

    with pytest.raises(AgentUnavailableError) as none_given:
        command_agent(tmp_path, ()).check()
    with pytest.raises(AgentUnavailableError) as not_found:
        command_agent(tmp_path, ("nonesuch",)).check()

    assert str(none_given.value).startswith("No agent is set.")
    assert str(not_found.value) == "nonesuch was not found in the PATH. Install it or give its full path."
