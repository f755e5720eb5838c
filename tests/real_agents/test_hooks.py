"""Our hooks in the real programs: what is remembered is in the model's request, what the model says is in the store."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ralph.core.records import AgentSession, Memory
from ralph.project import Project
from ralph.store.memory_queries import MemoryFilter
from tests.real_agents.model_server import ModelServer, Request, Step, says

CLAUDE_EVENTS = (
    *("SessionStart", "UserPromptSubmit", "Stop", "SubagentStop"),
    *("PreCompact", "PostCompact", "SessionEnd"),
)
GEMINI_EVENTS = ("SessionStart", "BeforeAgent", "AfterAgent", "PreCompress", "SessionEnd")
TABS = "The parser wants tabs, never spaces."
PAPER = "The printer wants paper of the size A5."
LESSON = "Port 5433 is taken by the test database."


def hooks(agent: str, events: Sequence[str], seconds: int, **more: str) -> dict[str, Any]:
    """Give the part of an agent's settings that calls us."""
    start = shlex.join([sys.executable, "-m", "ralph", "hook"])
    return {
        event: [
            {"hooks": [{"type": "command", "command": f"{start} {event} --agent {agent}", "timeout": seconds, **more}]}
        ]
        for event in events
    }


def remember(directory: Path, *bodies: str) -> None:
    with Project.open(directory) as project:
        for body in bodies:
            project.memory.add(body, type="fix")


def memories(directory: Path) -> list[Memory]:
    with Project.open(directory) as project:
        return list(project.memory.list(MemoryFilter()))


def sessions(directory: Path) -> list[AgentSession]:
    with Project.open(directory) as project:
        return project.sessions.latest(10)


def run(program: Path, words: Sequence[str], directory: Path, prompt: str) -> list[dict[str, Any]]:
    """Let an agent answer a prompt; give the events it printed."""
    ran = subprocess.run([program, *words], cwd=directory, input=prompt, capture_output=True, text=True, timeout=90)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    return [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]


class Claude:
    """Claude Code in a project whose settings call our hooks."""

    def __init__(self, program: Path, directory: Path) -> None:
        self.program, self.directory = program, directory
        self.settings = directory.parent / "hooks.json"
        self.settings.write_text(json.dumps({"hooks": hooks("claude", CLAUDE_EVENTS, 10)}))

    def ask(self, prompt: str, *more: str) -> str:
        """Have one prompt answered; give the name of the session."""
        words = ["-p", "--output-format", "stream-json", "--verbose", "--model", "sonnet"]
        events = run(self.program, [*words, "--settings", str(self.settings), *more], self.directory, prompt)
        return str(events[-1]["session_id"])


@pytest.fixture
def asked_claude(claude: Path, a_git_project: Path) -> Claude:
    return Claude(claude, a_git_project)


def conversations(model: ModelServer) -> list[Request]:
    return [request for request in model.requests if request.tools]


def test_claude_code_tells_its_model_what_is_remembered_and_keeps_what_it_says(
    asked_claude: Claude, model: ModelServer
) -> None:
    directory = asked_claude.directory
    remember(directory, TABS)
    model.play(says(f"Done.\nMEMORY:fix:{LESSON}"), says("Fine."))

    first = asked_claude.ask("Go.")
    learned = [one for one in memories(directory) if one.content == LESSON]
    asked_claude.ask("Go on.")

    one, two = conversations(model)
    assert one.text.count(TABS) == 1
    assert not one.has(LESSON)
    assert two.text.count(TABS) == two.text.count(LESSON) == 1
    assert [(memory.source, memory.origin_session, memory.support) for memory in learned] == [("explicit", first, 1)]
    assert len(memories(directory)) == 2
    session = next(one for one in sessions(directory) if one.id == first)
    assert (session.agent, session.title, session.summary, session.prompts) == ("claude", "Go.", "Done.", 1)
    assert session.ended_at


def test_claude_code_tells_its_model_with_a_prompt_what_is_new_and_has_to_do_with_it(
    asked_claude: Claude, model: ModelServer
) -> None:
    directory = asked_claude.directory
    remember(directory, TABS)
    model.play(says("Yes."), says("Yes."), says("Yes."))

    session = asked_claude.ask("Does the parser want tabs or spaces?")
    with Project.open(directory) as project:
        project.memory.delete(memories(directory)[0].id)
    settings = json.loads(asked_claude.settings.read_text())
    del settings["hooks"]["SessionStart"]
    asked_claude.settings.write_text(json.dumps(settings))
    remember(directory, PAPER)
    asked_claude.ask("Is the printer out of paper?", "--resume", session)
    asked_claude.ask("Is the printer out of paper again?", "--resume", session)

    one, two, three = conversations(model)
    assert one.text.count(TABS) == 1  # from the start of the session, and not with the prompt again
    assert not one.has(PAPER)
    assert two.text.count(PAPER) == 1
    assert three.text.count(PAPER) == 1
    assert [one.prompts for one in sessions(directory)] == [3]


def test_claude_code_that_goes_on_is_not_told_again(asked_claude: Claude, model: ModelServer) -> None:
    remember(asked_claude.directory, TABS)
    model.play(says(f"Done.\nMEMORY:fix:{LESSON}"), says(f"As I said.\nMEMORY:fix:{LESSON}\nMEMORY:fix:{TABS}"))

    session = asked_claude.ask("Go.")
    asked_claude.ask("Go on.", "--resume", session)

    one, two = conversations(model)
    assert one.text.count(TABS) == two.text.count(TABS) == 1
    assert two.text.count(LESSON) == 1  # its own words, in the conversation
    assert sorted((one.content, one.support) for one in memories(asked_claude.directory)) == [(LESSON, 1), (TABS, 1)]


def test_claude_code_is_told_again_after_a_compaction(asked_claude: Claude, model: ModelServer) -> None:
    directory = asked_claude.directory
    remember(directory, TABS)
    summary = Step(text="<summary>We spoke of the parser.</summary>", when="summary", repeat=True)
    model.play(says("Noted."), says("Yes."), summary)

    session = asked_claude.ask("Look at the parser.")
    asked_claude.ask("/compact", "--resume", session)
    asked_claude.ask("Go on.", "--resume", session)

    assert conversations(model)[-1].has(TABS)
    assert sessions(directory)[0].compactions == 1


def test_claude_code_that_is_forked_does_not_bring_back_what_a_person_changed(
    asked_claude: Claude, model: ModelServer
) -> None:
    directory = asked_claude.directory
    model.play(says(f"Done.\nMEMORY:fix:{LESSON}"), says(f"Fine.\nMEMORY:fix:{PAPER}"))

    session = asked_claude.ask("Go.")
    with Project.open(directory) as project:
        project.memory.edit(memories(directory)[0].id, content=TABS)
    forked = asked_claude.ask("Go on.", "--resume", session, "--fork-session")

    assert forked != session
    assert conversations(model)[-1].has(LESSON)
    assert sorted(one.content for one in memories(directory)) == [TABS, PAPER]


@pytest.mark.sqlite
def test_claude_code_goes_on_where_our_store_is_broken_and_nothing_is_lost(
    asked_claude: Claude, model: ModelServer
) -> None:
    directory = asked_claude.directory
    database = directory / ".ralph" / "ralph.db"
    whole = database.read_bytes()
    database.write_bytes(b"noise" * 2_000)
    model.play(says(f"Done.\nMEMORY:fix:{LESSON}"), says("Fine."))

    asked_claude.ask("Go.")
    for beside in database.parent.glob("ralph.db-*"):
        beside.unlink()
    database.write_bytes(whole)
    asked_claude.ask("Go on.")

    assert [(one.content, one.support) for one in memories(directory)] == [(LESSON, 1)]


def test_gemini_tells_its_model_what_is_remembered_and_keeps_what_it_says(
    gemini: Path, a_git_project: Path, agent_environment: dict[str, str], model: ModelServer
) -> None:
    settings = Path(agent_environment["HOME"]) / ".gemini" / "settings.json"
    with_hooks = {**json.loads(settings.read_text()), "hooks": hooks("gemini", GEMINI_EVENTS, 10_000, name="ralph")}
    settings.write_text(json.dumps(with_hooks))
    remember(a_git_project, TABS)
    model.play(says(f"Done.\nMEMORY:fix:{LESSON}"), says("Fine."))

    for prompt in ("Go.", "Go on."):
        run(gemini, ["-p", prompt, "-o", "stream-json", "-y", "-m", "gemini-2.5-pro"], a_git_project, "")

    one, two = conversations(model)
    assert one.text.count(TABS) == 1
    assert two.text.count(TABS) == two.text.count(LESSON) == 1
    assert sorted((one.content, one.support) for one in memories(a_git_project)) == [(LESSON, 1), (TABS, 1)]
    assert {(one.agent, one.title) for one in sessions(a_git_project)} == {("gemini", "Go."), ("gemini", "Go on.")}
