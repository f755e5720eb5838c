"""Past work in the sessions of real agents: what was decided before Ralph came, and where the last session stopped."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ralph.integrations.setup import apply_plan, plan_setup, setup_options
from tests.cli.terminal import at_terminal
from tests.real_agents.model_server import ModelServer, Request, says
from tests.real_agents.test_hooks import conversations, memories, run

Ask = Callable[..., object]
"""Have one prompt answered by an agent."""

DECISION = "Webhook retries stop after seven deliveries, because the eighth trips the abuse filter of the gateway."
COMMITTED = "Ledger amounts are integers of a tenth of a cent: floats lost money at month end."
LEFT = "Moved to JWT; still to do: refresh tokens; clock skew must be 30 s."
REMARK = "staging deploys go through the blue cluster only"
PAST = "Past work related to this prompt"
LAST = "Where the last session on this branch stopped"
WEEKS = 3
FIRST_MINUTE = 60.0


@pytest.fixture
def a_repository(tmp_path: Path, agent_environment: dict[str, str]) -> Path:
    """Give a repository with commits, in which Ralph is not set up."""
    directory = tmp_path / "shop"
    directory.mkdir()
    git(directory, "init", "-q", "-b", "main")
    for message in (
        "Add the storefront\n\nIt lists what is on sale.",
        f"Store amounts as integers\n\n{COMMITTED}",
        "Show the basket on every page",
        "Sort search results by price",
    ):
        git(directory, "commit", "-q", "--allow-empty", "-m", message)
    return directory


def git(directory: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=directory, check=True)


@pytest.fixture
def ask_claude(claude: Path, a_repository: Path) -> Ask:
    return lambda prompt, *more: run(
        claude, ["-p", "--output-format", "stream-json", "--verbose", *more], a_repository, prompt
    )


@pytest.fixture
def ask_gemini(gemini: Path, a_repository: Path) -> Ask:
    return lambda prompt, *more: run(
        gemini, ["-p", prompt, "-o", "stream-json", "-y", "-m", "gemini-2.5-pro", *more], a_repository, ""
    )


def move_into_the_past(home: Path, weeks: int) -> None:
    """Date the transcripts of Claude Code back, as if its sessions had been weeks ago."""
    today = datetime.now(UTC)
    for path in (home / ".claude" / "projects").glob("*/*.jsonl"):
        text = path.read_text()
        for day in (today, today - timedelta(days=1)):
            before = day - timedelta(weeks=weeks)
            text = text.replace(f'"timestamp":"{day:%Y-%m-%d}T', f'"timestamp":"{before:%Y-%m-%d}T')
        path.write_text(text)
        os.utime(path, (time.time() - weeks * 7 * 86_400,) * 2)


def section(request: Request, heading: str) -> str:
    """Return what a request holds under a heading of ours."""
    _, found, rest = request.text.partition(heading)
    return rest if found else ""


def test_a_new_user_asks_about_a_decision_of_weeks_ago_and_the_model_has_it(
    ask_claude: Ask, a_repository: Path, agent_environment: dict[str, str], model: ModelServer
) -> None:
    model.play(
        says(f"I looked at the gateway. {DECISION} I changed the worker."),
        says("The basket is blue now."),
        says("The search box is wider."),
    )
    ask_claude("How often should the worker deliver a webhook?")
    ask_claude("Make the basket blue.")
    ask_claude("Make the search box wider.")
    move_into_the_past(Path(agent_environment["HOME"]), WEEKS)
    assert not any(one.has(PAST) for one in model.requests)

    began = time.monotonic()
    question = "Found 3 Claude Code sessions and 4 commits for this project. Import them? [Y/n]"
    code, shown = at_terminal(a_repository, "init", typed=[(question, "y\r")])
    assert code == 0, shown
    assert "Claude Code: 3 sessions read, 3 passages new" in shown
    code, shown = at_terminal(a_repository, "setup", "claude", typed=[("Apply these changes?", "y\r")])
    assert code == 0, shown
    model.play(says("After seven."))
    ask_claude("Why do our webhook retries stop after seven deliveries?")
    spent = time.monotonic() - began

    quoted = section(conversations(model)[-1], PAST)
    day = datetime.now(UTC) - timedelta(weeks=WEEKS)
    assert DECISION in quoted
    assert any(f"### Session of {one:%Y-%m-%d} with Claude Code" in quoted for one in (day, day - timedelta(days=1)))
    assert spent < FIRST_MINUTE

    model.play(says("As integers."))
    ask_claude("Why are ledger amounts integers and not floats?")
    quoted = section(conversations(model)[-1], PAST)
    assert COMMITTED in quoted
    assert "### Commit " in quoted


def stay_in_touch(ask: Ask, model: ModelServer) -> tuple[Request, Request, Request]:
    """Have three sessions after setup: one that leaves work, one that goes on, one that asks for what is left."""
    model.play(says(LEFT), says("I go on."), says("Refresh tokens."))
    ask("Move the login from cookies to JWT.")
    ask("Hello there.")
    ask("What clock skew do refresh tokens of the JWT login allow?")
    first, second, third = conversations(model)
    return first, second, third


@pytest.mark.parametrize("agent", ["claude", "gemini"])
def test_a_session_is_told_where_the_last_one_stopped_and_finds_it_again(
    agent: str, a_repository: Path, model: ModelServer, request: pytest.FixtureRequest
) -> None:
    ask: Ask = request.getfixturevalue(f"ask_{agent}")
    connect(a_repository, agent)

    first, second, third = stay_in_touch(ask, model)

    assert not first.has(LAST)
    assert LEFT in section(second, LAST)
    assert not second.has(PAST)
    assert LEFT in section(third, PAST)
    assert "3 sessions unchanged" in ralph(a_repository, "import", "sessions", "--agent", agent, "--yes")


@pytest.mark.parametrize("agent", ["claude", "gemini"])
def test_what_a_person_asks_to_remember_is_a_memory_though_the_model_only_notes_it(
    agent: str, a_repository: Path, model: ModelServer, request: pytest.FixtureRequest
) -> None:
    ask: Ask = request.getfixturevalue(f"ask_{agent}")
    connect(a_repository, agent)
    model.play(says("Noted."), says("Through the blue cluster."))

    ask(f"Remember that {REMARK}.")
    ask("Hello there.")

    assert [one.content.lower() for one in memories(a_repository)] == [REMARK]
    assert not conversations(model)[0].has("Memories of this project")
    assert f"S{REMARK[1:]}" in section(conversations(model)[1], "Memories of this project")


def connect(directory: Path, agent: str) -> None:
    """Set up a project without what was before, and connect an agent to it."""
    ralph(directory, "init")
    apply_plan(plan_setup(agent, setup_options(directory)))


def ralph(directory: Path, *words: str) -> str:
    """Run a command without a terminal; return what it prints."""
    command = [sys.executable, "-m", "ralph", *words]
    return subprocess.run(
        command, cwd=directory, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ).stdout
