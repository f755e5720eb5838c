"""The real Claude Code plans a spec, and what its model answers is only ever a proposal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ralph.loop.planning import PlanOptions, PlanResult
from ralph.project import Project
from tests.real_agents.model_server import ModelServer, calls, says

SPEC = "# Orders\n\nMoney is in cents; never use float.\n"
PLAN = {
    "name": "Orders",
    "tasks": [
        {"key": "page", "title": "Show orders", "body": "One page.", "needs": ["model"], "priority": 2},
        {"key": "model", "title": "Store orders", "body": "Money is in cents; never use float.", "needs": []},
    ],
    "gates": ["make test"],
}

pytestmark = pytest.mark.usefixtures("claude")


@pytest.fixture
def project(a_git_project: Path) -> Iterator[Project]:
    with Project.open(a_git_project) as project:
        yield project


def plan(project: Project) -> PlanResult:
    return project.runs.plan(PlanOptions(spec=SPEC, agent="claude", model="haiku"))


def test_claude_reads_the_project_and_proposes_tasks(project: Project, model: ModelServer) -> None:
    model.play(
        calls("Read", {"file_path": str(project.root / "README.md")}),
        says(f"```json\n{json.dumps(PLAN, indent=2)}\n```"),
    )

    result = plan(project)

    assert result.problem == ""
    assert result.cost_usd
    assert result.plan
    assert [task.key for task in result.plan.tasks] == ["model", "page"]
    assert project.features.list() == []
    view = project.features.add_planned(result.plan, result.spec)
    assert [task.title for task in view.tasks] == ["Store orders", "Show orders"]
    assert "Money is in cents" in project.prompts.preview(view.tasks[0].id).text


def test_a_model_that_works_instead_of_planning_changes_nothing(project: Project, model: ModelServer) -> None:
    planted = project.root / "planted.txt"
    model.play(
        calls("Write", {"file_path": str(planted), "content": "planted"}),
        calls("Bash", {"command": "ralph task add Planted; touch planted.txt"}),
        says("I made all the changes. <task-done>t-000001</task-done>"),
    )

    result = plan(project)

    assert result.plan is None
    assert result.problem
    assert not planted.exists()
    assert project.tasks.tree() == []
