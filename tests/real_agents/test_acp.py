"""Real agents that speak ACP do tasks of ours, keep to what they may, and end when they have to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ralph.agents import Limits, open_agent
from ralph.core.config import AgentConfig
from ralph.core.records import SessionEnding, record
from tests.make import a_session
from tests.real_agents.model_server import ModelServer, calls, fails, hangs, says


@record
class Tools:
    """What an agent calls its tools, and their arguments."""

    fixture: str
    write: str
    run: str

    def writes(self, path: Path, **more: Any) -> Any:
        """Give a step that writes a file."""
        return calls(self.write, {"file_path": str(path), "content": "written\n"}, **more)

    def runs(self, command: str, **more: Any) -> Any:
        """Give a step that runs a command."""
        return calls(self.run, {"command": command, "description": "Run it"}, **more)


TOOLS = {
    "claude-acp": Tools(fixture="claude_acp", write="Write", run="Bash"),
    "gemini-acp": Tools(fixture="gemini", write="write_file", run="run_shell_command"),
}


@pytest.fixture(params=list(TOOLS))
def name(request: pytest.FixtureRequest, agent_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Give the name of an agent that is installed here."""
    chosen: str = request.param
    request.getfixturevalue(TOOLS[chosen].fixture)
    # It would guess what a person might ask next, which no script has a step for.
    monkeypatch.setenv("CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION", "false")
    return chosen


def start(directory: Path, name: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ralph", "run", "--agent", name, "--max-iterations", "1", "--format", "json", *words],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def events_of(run: subprocess.Popen[str]) -> list[dict[str, Any]]:
    out, err = run.communicate(timeout=100)
    assert not err
    return [json.loads(line) for line in out.splitlines()]


def attempt_of(run: subprocess.Popen[str]) -> dict[str, Any]:
    return next(event for event in events_of(run) if event["event"] == "attempt_ended")


def add_task(directory: Path) -> str:
    words = ["task", "add", "Write a.txt", "--format", "quiet"]
    said = subprocess.run(
        [sys.executable, "-m", "ralph", *words], cwd=directory, capture_output=True, text=True, check=True
    )
    return said.stdout.strip()


def survivors(home: Path) -> list[str]:
    """Give the processes that were started with this home."""
    mark = f"HOME={home}".encode()
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            try:
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except (OSError, ValueError):
                pass
    return found


def test_an_agent_does_a_task_and_its_review_may_look_but_not_write(
    name: str, model: ModelServer, a_git_project: Path, agent_environment: dict[str, str]
) -> None:
    task_id = add_task(a_git_project)
    tools = TOOLS[name]
    model.play(
        tools.writes(a_git_project / "a.txt", when="Write a.txt"),
        says(f"It is written.\n<task-done>{task_id}</task-done>"),
        tools.writes(a_git_project / "b.txt"),
        says("<verify-pass/>"),
    )

    ended = attempt_of(start(a_git_project, name, "--review"))

    assert (ended["outcome"], ended["task_status"], ended["files"]) == ("done", "done", ["a.txt"])
    assert (a_git_project / "a.txt").read_text() == "written\n"
    assert not (a_git_project / "b.txt").exists()
    assert ended["tokens_in"] >= 200
    assert ended["tokens_out"] >= 40
    assert ended["agent_session"]
    assert (ended["cost_usd"] > 0) == (name == "claude-acp")
    assert len(model.requests) == 4
    assert not survivors(Path(agent_environment["HOME"]))


@pytest.mark.parametrize("read_only", [False, True])
def test_a_prompt_arrives_without_the_files_that_it_names(
    name: str, read_only: bool, model: ModelServer, a_git_project: Path, agent_environment: dict[str, str]
) -> None:
    secret = Path(agent_environment["HOME"]) / "secret.txt"
    for path in (secret, a_git_project / "secret.txt"):
        path.write_text("Nobody asked for this.")
    model.play(says("Yes."))
    agent = open_agent(AgentConfig(name=name), a_git_project)

    reply = agent.work(
        f"See @secret.txt and @{secret}, the end.",
        a_session(a_git_project, read_only=read_only, limits=Limits(seconds=60)),
    )

    assert (reply.text, reply.ending) == ("Yes.", SessionEnding.FINISHED)
    assert any(one.has("secret.txt", "the end.") for one in model.requests)
    assert not any(one.has("Nobody asked for this.") for one in model.requests)


def test_a_service_that_does_not_answer_is_not_the_fault_of_the_session(
    model: ModelServer, a_git_project: Path, claude_acp: Path, agent_environment: dict[str, str]
) -> None:
    model.play(hangs())
    agent = open_agent(AgentConfig(name="claude-acp"), a_git_project)

    reply = agent.work("Fix it.", a_session(a_git_project, limits=Limits(seconds=60)))

    assert reply.ending is SessionEnding.MODEL_FAILED
    assert "timed out" in reply.detail


def test_a_session_past_its_time_ends_with_all_that_it_started(
    name: str, model: ModelServer, a_git_project: Path, agent_environment: dict[str, str]
) -> None:
    (a_git_project / ".ralph.toml").write_text("[agent]\nseconds = 20\n")
    add_task(a_git_project)
    model.play(TOOLS[name].runs("tail -f /dev/null"))

    ended = attempt_of(start(a_git_project, name))

    assert (ended["outcome"], ended["error_type"]) == ("error", "timeout")
    assert "20 s" in ended["reason"]
    assert not survivors(Path(agent_environment["HOME"]))


def test_an_interrupt_ends_a_session_with_all_that_it_started(
    name: str, model: ModelServer, a_git_project: Path, agent_environment: dict[str, str]
) -> None:
    begun = a_git_project / "begun"
    add_task(a_git_project)
    model.play(TOOLS[name].runs("touch begun; tail -f /dev/null"))
    run = start(a_git_project, name)
    until = time.monotonic() + 60
    while not begun.exists() and time.monotonic() < until:
        time.sleep(0.05)

    run.send_signal(signal.SIGINT)

    assert attempt_of(run)["outcome"] == "interrupted"
    assert run.returncode == 130
    assert begun.exists()
    assert not survivors(Path(agent_environment["HOME"]))


def test_a_model_that_cannot_be_used_is_told_by_what_the_service_says(
    name: str, model: ModelServer, a_git_project: Path, agent_environment: dict[str, str]
) -> None:
    add_task(a_git_project)
    model.play(fails(400, "This account has no credit.", repeat=True))

    ended = attempt_of(start(a_git_project, name))

    assert ended["outcome"] == "error"
    assert "could not use its model" in ended["reason"]
    assert "This account has no credit." in ended["reason"]
    assert not survivors(Path(agent_environment["HOME"]))
