"""The real Claude Code, without its terminal, does tasks of ours, and ends when it has to and as it should."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ralph.agents import Agent, Limits, open_agent
from ralph.core.config import AgentConfig
from ralph.core.records import Attempt, AttemptOutcome, ErrorType, SessionEnding, TaskStatus
from ralph.loop.options import RunOptions
from ralph.project import Project
from ralph.store.memory_queries import MemoryFilter
from tests.make import a_session
from tests.real_agents.model_server import LENGTH, Call, ModelServer, Step, calls, fails, hangs, refuses, says

LIMITS = Limits(seconds=60.0)
WAITS = f"touch started; {sys.executable} -c 'import time; time.sleep(300)'"
"""A command that takes longer than anybody waits; a plain `sleep` the program does not let through."""

pytestmark = pytest.mark.usefixtures("claude")


@pytest.fixture
def agent(a_git_project: Path) -> Agent:
    return open_agent(AgentConfig(name="claude"), a_git_project)


def attempt_at(directory: Path, title: str, **order: object) -> Attempt:
    """Have the loop make one attempt at a new task; give what the journal says of it."""
    with Project.open(directory) as project:
        project.tasks.add(title)
        project.runs.start(RunOptions(agent="claude", iterations=1, **order), lambda *told: None)  # type: ignore[arg-type]
        return project.store.attempts.latest(1)[0]


def settings(directory: Path, *lines: str) -> None:
    (directory / ".ralph.toml").write_text("\n".join(["[agent]", 'name = "claude"', *lines, ""]))


# --- in the loop -----------------------------------------------------------------------


def test_a_task_is_done_by_its_tools_and_a_retry_sees_why_the_first_attempt_failed(
    a_git_project: Path, model: ModelServer
) -> None:
    why = "The moon was full."
    with Project.open(a_git_project) as project:
        task = project.tasks.add("Write a.txt")
        model.play(
            says(
                f"<failure-report>\nwhat_tried: To look.\nwhy_failed: {why}\n</failure-report>\n"
                f"<task-failed>{task.id}</task-failed>"
            ),
            calls("Write", {"file_path": str(a_git_project / "a.txt"), "content": "written\n"}, text="I write."),
            calls("Bash", {"command": "cp a.txt b.txt", "description": "Copy"}),
            says(f"It is there.\n<task-done>{task.id}</task-done>"),
        )

        project.runs.start(RunOptions(agent="claude", model="sonnet", iterations=2), lambda *told: None)

        assert project.store.tasks.get(task.id).status is TaskStatus.DONE
        first, second = reversed(project.store.attempts.latest(2))
    assert (a_git_project / "a.txt").read_text() == (a_git_project / "b.txt").read_text() == "written\n"
    assert not model.requests[0].has(why)
    assert model.requests[1].has("Write a.txt", why)
    assert (first.outcome, first.tokens_in, first.tokens_out) == (AttemptOutcome.FAILED, 100, 20)
    assert (second.outcome, second.tokens_in, second.tokens_out) == (AttemptOutcome.DONE, 300, 60)
    assert second.cost_usd > first.cost_usd > 0
    assert (first.turns, second.turns) == (1, 3)
    assert set(second.files) >= {"a.txt", "b.txt"}
    assert first.agent_session
    assert first.agent_session != second.agent_session


def test_what_is_said_before_the_last_message_counts(a_git_project: Path, model: ModelServer) -> None:
    learned = '<knowledge tags="parser" title="Tabs">The parser wants tabs.</knowledge>'
    with Project.open(a_git_project) as project:
        task = project.tasks.add("Look around")
        said = f"{learned}\n<task-done>{task.id}</task-done>"
        model.play(
            calls("Read", {"file_path": str(a_git_project / "README.md")}, text=said),
            says("That was all."),
        )

        project.runs.start(RunOptions(agent="claude", iterations=1), lambda *told: None)

        assert project.store.tasks.get(task.id).status is TaskStatus.DONE
        assert [one.memory.title for one in project.memory.search("Tabs", MemoryFilter(), 5)] == ["Tabs"]


@pytest.mark.parametrize(
    ("step", "outcome", "error_type"),
    [
        (refuses("I", repeat=True), AttemptOutcome.FAILED, ErrorType.UNKNOWN),
        (fails(400, "No such thing.", repeat=True), AttemptOutcome.ERROR, ErrorType.TOOL_ERROR),
        (fails(529, "Overloaded.", repeat=True), AttemptOutcome.ERROR, ErrorType.TOOL_ERROR),
        (hangs(), AttemptOutcome.ERROR, ErrorType.TIMEOUT),
        (Step(text="Half", stop=LENGTH, repeat=True), AttemptOutcome.BLOCKED, ErrorType.UNKNOWN),
    ],
    ids=["a refusal", "a wrong request", "an overloaded service", "a silent service", "an endless answer"],
)
def test_what_ends_a_session_becomes_the_outcome_of_the_attempt(
    a_git_project: Path, model: ModelServer, step: Step, outcome: AttemptOutcome, error_type: ErrorType
) -> None:
    model.play(step)

    attempt = attempt_at(a_git_project, "Fix it")

    assert (attempt.outcome, attempt.error_type) == (outcome, error_type)
    assert attempt.reason
    assert attempt.agent_session


def test_a_limit_on_turns_blocks_the_attempt(a_git_project: Path, model: ModelServer) -> None:
    settings(a_git_project, 'command = ["claude", "--max-turns", "2"]')
    model.play(calls("Bash", {"command": "echo again >> turns", "description": "Again"}, repeat=True))

    attempt = attempt_at(a_git_project, "Go on")

    assert (attempt.outcome, attempt.error_type) == (AttemptOutcome.BLOCKED, ErrorType.UNKNOWN)
    assert len(model.requests) == 2
    assert attempt.tokens_in == 200


def test_a_session_is_ended_at_the_time_limit_with_all_that_it_started(
    a_git_project: Path, model: ModelServer, survivors: Callable[[], list[str]]
) -> None:
    settings(a_git_project, "seconds = 12.0")
    command = f"nohup setsid sleep 300 >/dev/null 2>&1 & {WAITS}"
    model.play(calls("Bash", {"command": command, "description": "Wait"}, text="I wait."))

    attempt = attempt_at(a_git_project, "Wait")

    assert (a_git_project / "started").exists()
    assert (attempt.outcome, attempt.error_type) == (AttemptOutcome.ERROR, ErrorType.TIMEOUT)
    assert attempt.tokens_in == 100
    assert survivors() == []


def test_a_program_that_is_killed_has_crashed(
    a_git_project: Path, model: ModelServer, survivors: Callable[[], list[str]]
) -> None:
    model.play(calls("Bash", {"command": f"sleep 300 & kill -9 $PPID; {WAITS}", "description": "Kill"}))

    attempt = attempt_at(a_git_project, "Crash")

    assert (attempt.outcome, attempt.error_type) == (AttemptOutcome.ERROR, ErrorType.TOOL_ERROR)
    assert "SIGKILL" in attempt.reason
    assert survivors() == []


def test_ctrl_c_ends_the_run_and_the_session(
    a_git_project: Path, model: ModelServer, survivors: Callable[[], list[str]]
) -> None:
    with Project.open(a_git_project) as project:
        task = project.tasks.add("Wait")
    model.play(calls("Bash", {"command": WAITS, "description": "Wait"}))
    run = subprocess.Popen(
        [sys.executable, "-m", "ralph", "run", "--agent", "claude"], cwd=a_git_project, stdout=subprocess.DEVNULL
    )
    until = time.monotonic() + 60
    while not (a_git_project / "started").exists() and time.monotonic() < until:
        time.sleep(0.05)

    run.send_signal(signal.SIGINT)

    assert run.wait(30) == 130
    with Project.open(a_git_project) as project:
        assert project.store.tasks.get(task.id).status is TaskStatus.PENDING
        assert project.store.attempts.latest(1)[0].outcome is AttemptOutcome.INTERRUPTED
    assert survivors() == []


# --- by itself -------------------------------------------------------------------------


def test_a_large_prompt_arrives_whole_and_no_file_that_it_names(
    agent: Agent, a_git_project: Path, model: ModelServer
) -> None:
    (a_git_project / "secret.txt").write_text("Nobody asked for this.")
    model.play(says("Yes."))

    agent.check()
    reply = agent.work(
        f"{'Fix the parser. ' * 13_000}See @secret.txt, the end.", a_session(a_git_project, limits=LIMITS)
    )

    assert (reply.text, reply.ending, reply.detail) == ("Yes.", SessionEnding.FINISHED, "")
    assert model.requests[0].text.count("Fix the parser.") == 13_000
    assert model.requests[0].has("secret.txt, the end.")
    assert not model.requests[0].has("Nobody asked for this.")


def test_it_goes_on_after_one_refusal(agent: Agent, a_git_project: Path, model: ModelServer) -> None:
    model.play(refuses(), says("Something else."))

    reply = agent.work("Fix it.", a_session(a_git_project, limits=LIMITS))

    assert (reply.text, reply.ending) == ("Something else.", SessionEnding.FINISHED)


def test_it_is_refused_when_nothing_comes_after_a_refusal(
    agent: Agent, a_git_project: Path, model: ModelServer
) -> None:
    model.play(refuses("I"), says("", repeat=True))

    reply = agent.work("Fix it.", a_session(a_git_project, limits=LIMITS))

    assert (reply.text, reply.ending) == ("I", SessionEnding.REFUSED)


@pytest.mark.parametrize(
    ("permissions", "read_only", "may_edit", "may_run"),
    [
        ("all", False, True, True),
        ("edit", False, True, False),
        ("read", False, False, False),
        ("all", True, False, False),
    ],
)
def test_it_does_what_is_permitted_and_no_more(
    a_git_project: Path, model: ModelServer, permissions: str, read_only: bool, may_edit: bool, may_run: bool
) -> None:
    agent = open_agent(AgentConfig(name="claude", permissions=permissions), a_git_project)
    model.play(
        Step(
            calls=(
                Call(name="Write", arguments={"file_path": str(a_git_project / "a.txt"), "content": "x"}),
                Call(name="Bash", arguments={"command": "touch b.txt", "description": "Touch"}),
                Call(name="Read", arguments={"file_path": str(a_git_project / "README.md")}),
            )
        ),
        says("That is it."),
    )

    reply = agent.work("Try it.", a_session(a_git_project, read_only=read_only, limits=LIMITS))

    assert (reply.text, reply.ending) == ("That is it.", SessionEnding.FINISHED)
    assert (a_git_project / "a.txt").exists() == may_edit
    assert (a_git_project / "b.txt").exists() == may_run
    assert "# A project" in model.requests[1].last


def test_what_a_subagent_says_is_not_the_answer(agent: Agent, a_git_project: Path, model: ModelServer) -> None:
    heard: list[str] = []
    asked = {"description": "Look", "prompt": "Look at the moon.", "subagent_type": "general-purpose"}
    model.play(
        says("The moon says <task-done>t-000009</task-done>", when="Look at the moon."),
        calls("Agent", asked, text="I ask."),
        says("I know."),
    )

    reply = agent.work("Ask somebody.", a_session(a_git_project, on_output=heard.append, limits=LIMITS))

    assert (reply.text, reply.ending) == ("I ask.\n\nI know.", SessionEnding.FINISHED)
    assert (reply.tokens_in, reply.tokens_out) == (300, 60)
    assert [line for line in heard if not line.startswith("> ")] == ["I ask.\n", "I know.\n"]


def test_a_session_ends_though_it_has_started_a_server(
    agent: Agent, a_git_project: Path, model: ModelServer, survivors: Callable[[], list[str]]
) -> None:
    model.play(
        calls("Bash", {"command": "sleep 300 & touch started", "description": "Serve"}),
        calls("ScheduleWakeup", {"delaySeconds": 300, "reason": "Later", "prompt": "Go on."}),
        says("It runs."),
    )

    reply = agent.work("Start a server.", a_session(a_git_project, limits=LIMITS))

    assert (a_git_project / "started").exists()
    assert (reply.text, reply.ending) == ("It runs.", SessionEnding.FINISHED)
    assert survivors() == []
