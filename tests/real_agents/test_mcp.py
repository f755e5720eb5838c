"""Claude Code with our MCP server: what its model says is in the store, and what tools answer is in its requests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from ralph.project import Project
from ralph.store.memory_queries import MemoryFilter
from ralph.web.tokens import mcp_token
from tests.real_agents.model_server import ModelServer, calls, says
from tests.web.asking import Served

ALLOWED = "mcp__ralph__remember,mcp__ralph__search_memories,mcp__ralph__show_task,mcp__ralph__report_failure"


def run_claude(
    claude: Path, directory: Path, environment: dict[str, str], server: dict[str, object]
) -> list[dict[str, object]]:
    """Let Claude Code answer one prompt with our server connected; return the events it printed."""
    config = {"mcpServers": {"ralph": {**server, "alwaysLoad": True}}}
    words = ["-p", "--output-format", "stream-json", "--verbose", "--model", "sonnet"]
    words += ["--strict-mcp-config", "--mcp-config", json.dumps(config), "--allowedTools", ALLOWED]
    ran = subprocess.run(
        [claude, *words], cwd=directory, env=environment, input="Go.", capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr + ran.stdout
    return [json.loads(line) for line in ran.stdout.splitlines()]


def over_stdio() -> dict[str, object]:
    return {"command": sys.executable, "args": ["-m", "ralph", "mcp"]}


def status_of(events: list[dict[str, object]]) -> object:
    begun = next(event for event in events if event.get("subtype") == "init")
    servers = begun["mcp_servers"]
    assert isinstance(servers, list)
    return [(one["name"], one["status"]) for one in servers]


def test_what_its_model_remembers_is_in_the_store_and_found_by_its_next_search(
    claude: Path, model: ModelServer, a_git_project: Path, agent_environment: dict[str, str]
) -> None:
    content = "ECONNREFUSED in the tests means that docker is not running."
    model.play(
        calls("mcp__ralph__remember", {"content": content, "kind": "fix", "tags": ["docker"]}),
        calls("mcp__ralph__search_memories", {"query": "docker"}),
        says("Noted."),
    )

    events = run_claude(claude, a_git_project, agent_environment, over_stdio())

    assert status_of(events) == [("ralph", "connected")]
    with Project.open(a_git_project) as project:
        memory = project.memory.list(MemoryFilter())[0]
    assert (memory.kind, memory.content, memory.source) == ("fix", content, "explicit")
    first, second, third = (request for request in model.requests if request.tools)
    assert "mcp__ralph__remember" in first.tools
    assert memory.id in second.last
    assert memory.id in third.last
    assert "docker is not running" in third.last


def test_a_refused_call_tells_its_model_what_to_do(
    claude: Path, model: ModelServer, a_git_project: Path, agent_environment: dict[str, str]
) -> None:
    model.play(calls("mcp__ralph__show_task", {"id": "t-000000"}), says("There is none."))

    run_claude(claude, a_git_project, agent_environment, over_stdio())

    _, second = (request for request in model.requests if request.tools)
    assert "Task not found: t-000000" in second.last


def test_it_comes_over_http_as_well(
    claude: Path, model: ModelServer, a_git_project: Path, agent_environment: dict[str, str]
) -> None:
    with Project.open(a_git_project) as project:
        task = project.tasks.add("Fix the parser")
    model.play(
        calls("mcp__ralph__report_failure", {"task": task.id, "tried": "A regex.", "why": "It cannot count brackets."}),
        calls("mcp__ralph__show_task", {"id": task.id}),
        says("Reported."),
    )

    with Project.open(a_git_project) as project:
        served = Served(a_git_project, project)
        headers = {"Authorization": f"Bearer {mcp_token(served.token)}"}
        connection: dict[str, object] = {"type": "http", "url": served.server.mcp_url, "headers": headers}
        try:
            events = run_claude(claude, a_git_project, agent_environment, connection)
        finally:
            served.close()

    assert status_of(events) == [("ralph", "connected")]
    third = [request for request in model.requests if request.tools][-1]
    assert "It cannot count brackets." in third.last
    with Project.open(a_git_project) as project:
        assert "It cannot count brackets." in project.prompts.preview(task.id).text
