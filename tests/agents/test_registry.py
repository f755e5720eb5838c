"""One entry per agent, from which everything else follows."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from ralph.agents import agent_accepts_model, open_agent
from ralph.core.agents import AGENTS, CONNECTABLE_AGENTS, RUNNABLE_AGENTS
from ralph.core.config import AgentConfig, ModelsConfig
from ralph.core.config_file import config_template
from ralph.core.environment import allowed_environment
from ralph.core.errors import AgentUnavailableError
from ralph.integrations.setup.agents import RECIPES
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
    assert set(RECIPES) == set(CONNECTABLE_AGENTS)


def test_settings_and_docs_name_every_agent() -> None:
    page = (ROOT / "docs/agents.md").read_text(encoding="utf-8")

    assert all(f"| `{name}` |" in page and name in config_template() for name in RUNNABLE_AGENTS)


def test_an_unknown_agent_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AgentUnavailableError):
        open_agent(AgentConfig(name="nonesuch"), tmp_path)

    assert run(capsys, tmp_path, "run", "--agent", "clod").error == "unknown-agent"


PRESETS = [name for name in RUNNABLE_AGENTS if name not in ("command", "rehearsal", "acp")]


@pytest.mark.parametrize("name", PRESETS)
def test_who_is_not_logged_in_is_told_a_command_and_the_variable_that_is_not_set(name: str) -> None:
    spec = AGENTS[name]

    hint = spec.login_hint({})

    assert "`" in hint
    assert re.search(r"\bset [A-Z][A-Z_]+", hint)
    assert hint.endswith(".")


@pytest.mark.parametrize("name", [name for name in PRESETS if AGENTS[name].login_keys])
def test_a_key_that_is_set_and_not_accepted_is_named(name: str) -> None:
    spec = AGENTS[name]

    hint = spec.login_hint({spec.login_keys[0]: "x"})

    assert f"correct {spec.login_keys[0]}" in hint


@pytest.mark.parametrize("name", PRESETS)
def test_an_agent_gets_the_variables_that_log_it_in(name: str) -> None:
    keys = AGENTS[name].login_keys

    assert allowed_environment(agent=name, environment=dict.fromkeys(keys, "x")) == dict.fromkeys(keys, "x")
