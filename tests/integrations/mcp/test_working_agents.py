"""Agents that work on tasks over MCP, with the official client: claim, work, finish through the gates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from ralph.core.actor import AGENT
from ralph.core.records import TaskStatus
from ralph.integrations.project_handle import ProjectHandle
from ralph.project import Project
from ralph.web.tokens import mcp_token
from tests.integrations.mcp.asking import called, over_http, over_stdio, refused, talk
from tests.web.asking import Served as ServedOverHttp

GATES = '[execution]\ngates = ["sh check.sh"]\n\n[memories]\nmeaning = false\n'


@pytest.fixture
def checked(project: Project) -> Project:
    """Give a project with a gate that passes once a file is there."""
    (project.root / "check.sh").write_text("test -e really-done || { echo 'AssertionError: nothing there'; exit 1; }\n")
    (project.root / ".ralph.toml").write_text(GATES)
    return project


async def work(client: Client, root: Path) -> tuple[str, ...]:
    """Claim the next task, finish it too early, and then in time; return what was said."""
    claimed = await client.call_tool("claim_task", {})
    id = claimed.content[0].text.split()[0]  # type: ignore[union-attr]
    early = await client.call_tool("finish_task", {"id": id})
    (root / "really-done").touch()
    done = await client.call_tool("finish_task", {"id": id, "notes": "Touched the file."})
    again = await client.call_tool("finish_task", {"id": id})
    results: tuple[Any, ...] = (claimed, early, done, again)
    assert not any(one.is_error for one in results), results
    return tuple(one.content[0].text for one in results)


def check(project: Project, said: tuple[str, ...]) -> None:
    claimed, early, done, again = said
    (task,) = project.tasks.list()
    assert task.status is TaskStatus.DONE
    assert "Make it so" in claimed
    assert "Mind the dragon" in claimed
    assert early.startswith("NOT DONE")
    assert "nothing there" in early
    assert done.startswith(f"Task done: {task.id}")
    assert again.startswith(f"Task done: {task.id}")
    assert [one.outcome for one in project.tasks.get(task.id).attempts] == ["done", "retried"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_an_agent_works_on_a_task_over_stdio(checked: Project, mode: str) -> None:
    checked.tasks.add("Make it so", "Mind the dragon.")

    check(checked, talk(over_stdio(checked.root, mode), lambda client: work(client, checked.root)))


def test_an_agent_works_on_a_task_over_http(checked: Project) -> None:
    checked.tasks.add("Make it so", "Mind the dragon.")
    served = ServedOverHttp(checked.root, checked)
    try:
        client = over_http(served.server.mcp_url, mcp_token(served.token))
        check(checked, talk(client, lambda client: work(client, checked.root)))
    finally:
        served.close()


def test_a_claim_of_a_server_that_is_gone_is_free_again(checked: Project) -> None:
    task = checked.tasks.add("Make it so")

    async def claim(client: Client) -> Any:
        return await client.call_tool("claim_task", {"id": task.id})

    async def finish_and_claim(client: Client) -> Any:
        return await client.call_tool("finish_task", {"id": task.id}), await claim(client)

    talk(over_stdio(checked.root), claim)
    finished, claimed = talk(over_stdio(checked.root), finish_and_claim)

    assert finished.is_error
    assert not claimed.is_error
    assert checked.tasks.get(task.id).task.status is TaskStatus.IN_PROGRESS


def test_a_gate_that_was_changed_is_for_a_person(checked: Project) -> None:
    task = checked.tasks.add("Make it so")
    opened = ProjectHandle(checked.directory, AGENT)
    called(opened, "claim_task")
    (checked.root / "check.sh").write_text("exit 0\n")

    said = called(opened, "finish_task", id=task.id)

    assert said.startswith("NOT DONE")
    assert checked.tasks.get(task.id).task.status is TaskStatus.BLOCKED
    assert refused(opened, "claim_task", id=task.id)
    opened.close()


def test_while_one_agent_has_a_claim_another_passes_on_an_answer(checked: Project) -> None:
    checked.tasks.add("Make it so")
    asks = checked.tasks.add("Round prices")
    checked.tasks.block(asks.id, "Cents or euros?")
    opened = ProjectHandle(checked.directory, AGENT)
    called(opened, "claim_task")

    called(opened, "answer_task", id=asks.id, answer="Cents.")

    assert checked.tasks.get(asks.id).task.status is TaskStatus.PENDING
    opened.close()


def test_with_nothing_to_do_nothing_is_claimed(checked: Project) -> None:
    opened = ProjectHandle(checked.directory, AGENT)

    assert "No task is ready" in called(opened, "claim_task")
    opened.close()
