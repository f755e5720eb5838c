"""One entry per agent, from which everything else follows."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from ralph.agents import agent_accepts_model, open_agent
from ralph.core.agents import AGENTS, CONNECTABLE_AGENTS, RUNNABLE_AGENTS
from ralph.core.config import AgentConfig, ModelsConfig
from ralph.core.config_file import config_template
from ralph.core.errors import AgentUnavailableError
from ralph.integrations.setup.agents import EDITS_BY_AGENT
from tests.cli.ran import run

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", RUNNABLE_AGENTS)
def test_an_entry_agrees_with_its_agent(name: str, tmp_path: Path) -> None:
    agent, spec = open_agent(AgentConfig(name=name), tmp_path, ModelsConfig()), AGENTS[name]

    assert agent.name == spec.name == name
    assert (agent.reports_cost, agent.reports_tokens) == (spec.reports_cost, spec.reports_tokens)
    assert agent.accepts_model == agent_accepts_model(AgentConfig(name=name), tmp_path, ModelsConfig())
    assert importlib.import_module(f"ralph.agents.{spec.module}").__doc__


def test_setup_knows_how_to_connect_what_an_entry_says_it_can() -> None:
    assert set(EDITS_BY_AGENT) == set(CONNECTABLE_AGENTS)


def test_settings_and_docs_name_every_agent() -> None:
    page = (ROOT / "docs/agents.md").read_text(encoding="utf-8")

    assert all(f"| `{name}` |" in page and name in config_template() for name in RUNNABLE_AGENTS)


def test_an_unknown_agent_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AgentUnavailableError):
        open_agent(AgentConfig(name="nonesuch"), tmp_path)

    assert run(capsys, tmp_path, "run", "--agent", "clod").error == "unknown-agent"
