"""Programs that work for Ralph get the variables they need and those a person named, and no others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ralph.agents import open_agent
from ralph.agents.command import CommandAgent
from ralph.core.agents import RUNNABLE_AGENTS
from ralph.core.config import AgentConfig, load_config
from ralph.core.environment import allowed_environment, is_variable_pattern
from ralph.core.errors import ConfigError
from ralph.core.git import run_git, trust_git_programs
from ralph.loop.environment import missing_password_warning, missing_variables, missing_variables_hint
from tests.loop.trial import SAYS_DONE, Trial
from tests.make import a_session

SECRETS = {
    **{"AWS_ACCESS_KEY_ID": "canary-1", "AWS_SECRET_ACCESS_KEY": "canary-2", "AWS_SESSION_TOKEN": "canary-3"},
    **{"GITHUB_TOKEN": "canary-4", "GH_TOKEN": "canary-5", "GITLAB_TOKEN": "canary-6", "NPM_TOKEN": "canary-7"},
    **{"DATABASE_URL": "postgresql://app:canary-8@db/app", "PGPASSWORD": "canary-9", "REDIS_URL": "canary-10"},
    **{"GOOGLE_APPLICATION_CREDENTIALS": "canary-11", "AZURE_CLIENT_SECRET": "canary-12", "KUBECONFIG": "canary-13"},
    **{"STRIPE_SECRET_KEY": "canary-14", "SLACK_BOT_TOKEN": "canary-15", "TWINE_PASSWORD": "canary-16"},
    **{"UV_PUBLISH_TOKEN": "canary-17", "CARGO_REGISTRY_TOKEN": "canary-18", "VAULT_TOKEN": "canary-19"},
    **{"SSH_AUTH_SOCK": "/canary-20", "GIT_ASKPASS": "/canary-21", "GIT_CONFIG_VALUE_0": "canary-22"},
    **{"RALPH_SERVER_TOKEN": "canary-23", "XDG_RUNTIME_DIR": "/canary-24", "DBUS_SESSION_BUS_ADDRESS": "canary-25"},
    **{"MYAPP_PASSWORD": "canary-26", "PIP_INDEX_URL": "https://u:canary-27@host/", "DOCKER_AUTH_CONFIG": "canary-28"},
    **{"NETRC": "canary-29", "SENTRY_AUTH_TOKEN": "canary-30", "CI_JOB_TOKEN": "canary-31", "SECRET": "canary-32"},
}
KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY")
PRINTS = "import os; [print(f'{name}={value}') for name, value in os.environ.items()]"


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a person have many secrets in their environment."""
    for name in [name for name in os.environ if name.startswith(("CLAUDE", "ANTHROPIC_", "AWS_", "GOOGLE_"))]:
        monkeypatch.delenv(name)
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    for key in KEYS:
        monkeypatch.setenv(key, f"of {key}")


def seen_by(name: str, directory: Path, *named: str) -> str:
    """Give the environment that a session of an agent finds, as its program writes it down."""
    program = directory / "program"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -c \"{PRINTS}\" > '{directory}/seen'\n")
    program.chmod(0o755)
    config = AgentConfig(name=name, command=(str(program),), environment=named)
    open_agent(config, directory).work("", a_session(directory, environment={"RALPH_TASK_ID": "t-1"}))
    return (directory / "seen").read_text()


# --- agents ------------------------------------------------------------------------


@pytest.mark.storeless
@pytest.mark.parametrize("name", [name for name in RUNNABLE_AGENTS if name != "rehearsal"])
def test_no_agent_sees_a_secret_that_is_not_its_own(tmp_path: Path, name: str) -> None:
    seen = seen_by(name, tmp_path)

    assert "canary" not in seen
    assert f"PATH={os.environ['PATH']}\n" in seen
    assert "RALPH_TASK_ID=t-1\n" in seen


@pytest.mark.storeless
@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("claude", KEYS[:1]),
        ("claude-acp", KEYS[:1]),
        ("codex", KEYS[1:2]),
        ("gemini-acp", KEYS[2:3]),
        ("opencode", KEYS),
        ("command", KEYS),
        ("acp", KEYS),
    ],
)
def test_an_agent_gets_the_key_to_its_own_model(tmp_path: Path, name: str, keys: tuple[str, ...]) -> None:
    seen = seen_by(name, tmp_path)

    assert [key for key in KEYS if f"{key}=of {key}\n" in seen] == list(keys)


@pytest.mark.storeless
def test_an_agent_gets_what_is_named_in_the_settings_and_no_more(tmp_path: Path) -> None:
    seen = seen_by("command", tmp_path, "DATABASE_URL", "MYAPP_*")

    assert f"DATABASE_URL={SECRETS['DATABASE_URL']}\n" in seen
    assert "MYAPP_PASSWORD=canary-26\n" in seen
    assert seen.count("canary") == 2


@pytest.mark.storeless
def test_a_star_gives_everything(tmp_path: Path) -> None:
    seen = seen_by("claude", tmp_path, "*")

    assert [name for name in SECRETS if f"{name}={SECRETS[name]}\n" not in seen] == []


@pytest.mark.storeless
@pytest.mark.parametrize(
    ("agent", "switch", "name"),
    [
        ("claude", "CLAUDE_CODE_USE_BEDROCK", "AWS_SECRET_ACCESS_KEY"),
        ("claude-acp", "CLAUDE_CODE_USE_VERTEX", "GOOGLE_APPLICATION_CREDENTIALS"),
        ("claude", "CLAUDE_CODE_USE_FOUNDRY", "AZURE_CLIENT_SECRET"),
        ("gemini", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_APPLICATION_CREDENTIALS"),
    ],
)
def test_keys_of_a_cloud_go_to_an_agent_whose_model_is_there(agent: str, switch: str, name: str) -> None:
    there, off = {name: "key", switch: "1"}, {name: "key", switch: "false"}

    assert allowed_environment(agent=agent, environment=there) == there
    assert allowed_environment(agent=agent, environment=off) == {switch: "false"}
    assert allowed_environment(agent="codex", environment=there) == {}
    assert allowed_environment(environment=there) == {}


@pytest.mark.storeless
def test_what_programs_need_to_work_is_passed_on() -> None:
    usual = (
        *("PATH", "HOME", "USER", "LANG", "LC_CTYPE", "TERM", "TMPDIR", "TZ", "HTTPS_PROXY", "no_proxy"),
        *("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "VIRTUAL_ENV", "NVM_DIR", "CARGO_HOME", "GOPATH", "JAVA_HOME"),
        *("XDG_CONFIG_HOME", "XDG_STATE_HOME", "PYTHONPATH", "GIT_AUTHOR_NAME", "RALPH_MEMORIES_ENABLED"),
    )

    assert allowed_environment(environment=dict.fromkeys(usual, "x")) == dict.fromkeys(usual, "x")


# --- settings ----------------------------------------------------------------------


@pytest.mark.storeless
def test_variables_are_named_in_the_settings_file_or_in_a_variable(tmp_path: Path) -> None:
    (tmp_path / ".ralph.toml").write_text('[agent]\nenvironment = ["DATABASE_URL", "MYAPP_*"]\n')

    assert load_config(tmp_path, {"RALPH_TRUST": "1"}).agent.environment == ("DATABASE_URL", "MYAPP_*")
    assert load_config(tmp_path, {"RALPH_AGENT_ENVIRONMENT": "A\nB_*"}).agent.environment == ("A", "B_*")


@pytest.mark.storeless
@pytest.mark.parametrize("given", ["KEY=hunter2", "MY APP", "*_KEY", "", "A*B"])
def test_what_is_no_name_is_refused_without_showing_a_value(tmp_path: Path, given: str) -> None:
    (tmp_path / ".ralph.toml").write_text(f'[agent]\nenvironment = ["OK", "{given}"]\n')

    with pytest.raises(ConfigError) as refused:
        load_config(tmp_path, {})

    assert str(refused.value).startswith(".ralph.toml: agent.environment must be variable names")
    assert "hunter2" not in str(refused.value)
    assert not is_variable_pattern(given)


# --- in a run ----------------------------------------------------------------------


def test_neither_agent_nor_gate_nor_review_sees_a_secret(trial: Trial) -> None:
    root, seen = trial.root, trial.root.parent
    (root / "seen.py").write_text(PRINTS)
    passes = '[ "$RALPH_READ_ONLY" ] && echo "<verify-pass>$RALPH_TASK_ID</verify-pass>"'
    (root / "agent.sh").write_text(f"{sys.executable} seen.py >> {seen}/by-agent\n{SAYS_DONE}\n{passes}\n:\n")
    trial.project.tasks.add("A")

    ran = trial.ralph("run", "--gate", f"{sys.executable} seen.py > {seen}/by-gate", "--review", "--", "sh", "agent.sh")

    assert ran.code == 0, ran.out
    by_agent, by_gate = (seen / "by-agent").read_text(), (seen / "by-gate").read_text()
    assert "canary" not in by_agent + by_gate
    assert by_agent.count("RALPH_SESSION=") == 2
    assert "RALPH_READ_ONLY=1" in by_agent
    assert "OPENAI_API_KEY" in by_agent
    assert "OPENAI_API_KEY" not in by_gate
    assert "RALPH_TASK_ID=t-" in by_gate


def test_a_failing_gate_that_asks_for_a_variable_tells_how_to_pass_it_once(trial: Trial) -> None:
    (trial.root / "agent.sh").write_text(SAYS_DONE)
    trial.project.tasks.add("A")

    gate = '[ "$DATABASE_URL" ] || { echo "KeyError: DATABASE_URL"; exit 1; }'
    ran = trial.ralph("run", "--gate", gate, "--", "sh", "agent.sh")

    said = ran.out + ran.err
    hint = (
        "DATABASE_URL is set here but not passed to agents and gates. To pass on: "
        'set environment = ["DATABASE_URL"] under [agent] in .ralph.toml.'
    )
    assert said.count(hint) == 1, said
    assert said.count("KeyError: DATABASE_URL") > 1
    assert "canary" not in said


def test_a_gate_gets_what_is_named(trial: Trial) -> None:
    (trial.root / "agent.sh").write_text(SAYS_DONE)
    settings = trial.root / ".ralph.toml"
    settings.write_text(settings.read_text().replace("# [agent]\n", '[agent]\nenvironment = ["DATABASE_URL"]\n'))
    trial.project.tasks.add("A")

    ran = trial.ralph("run", "--gate", '[ "$DATABASE_URL" ]', "--", "sh", "agent.sh")

    assert ran.code == 0, ran.err


@pytest.mark.storeless
def test_only_variables_that_are_set_held_back_and_named_count_as_missed() -> None:
    text = "needs DATABASE_URL and PATH and OTHER_URL, not XGITHUB_TOKEN or GITHUB_TOKENS; SECRET"

    assert missing_variables(text, allowed_environment()) == ["DATABASE_URL", "SECRET"]
    assert missing_variables_hint(["A_KEY", "B_KEY"]).startswith("A_KEY, B_KEY are set here but not passed")


# --- the store ---------------------------------------------------------------------


def test_an_agent_can_use_the_memory_of_its_project(trial: Trial) -> None:
    script = f"{sys.executable} -m ralph memory add 'The cache wants a lock.' --type pattern || exit 1\n{SAYS_DONE}\n"
    (trial.root / "agent.sh").write_text(script)
    trial.project.tasks.add("A")

    ran = trial.ralph("run", "--", "sh", "agent.sh")

    assert ran.code == 0, ran.err
    assert "The cache wants a lock." in [memory.content for memory in trial.project.store.memories.all()]


@pytest.mark.sqlite
def test_the_password_of_the_store_stays_with_ralph_unless_it_is_named(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RALPH_STORE", "postgresql://ralph:canary-0@db.example.com/ralph?sslmode=require")
    monkeypatch.setenv("RALPH_STORE_DIRECT_URL", "postgresql://ralph:canary-0@other.example.com/ralph")
    script = f"env > seen; {SAYS_DONE}"

    def seen(*named: str) -> str:
        trial.project.tasks.add("A")
        trial.run(
            CommandAgent(AgentConfig(command=("sh", "-c", script), environment=named), trial.root),
            agent={"environment": named},
        )
        return (trial.root / "seen").read_text()

    without, named = seen(), seen("RALPH_STORE")

    assert "RALPH_STORE=postgresql://ralph@db.example.com/ralph?sslmode=require\n" in without
    assert "RALPH_STORE_DIRECT_URL=postgresql://ralph@other.example.com/ralph\n" in without
    assert "canary" not in without
    assert f"RALPH_STORE={os.environ['RALPH_STORE']}\n" in named
    assert named.count("canary") == 1


@pytest.mark.storeless
def test_a_run_says_when_sessions_cannot_log_in_to_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".ralph.toml").write_text('[store]\nurl = "postgresql://ralph@db/ralph"\nproject = "shop"\n')

    def said(**environment: str) -> str:
        with monkeypatch.context() as patch:
            patch.delenv("PGPASSWORD")
            for name, value in environment.items():
                patch.setenv(name, value)
            return missing_password_warning(load_config(tmp_path))

    url = "postgresql://ralph:hunter2@db/ralph"
    assert "password in RALPH_STORE" in said(RALPH_STORE=url)
    assert 'environment = ["RALPH_STORE"] under [agent] in .ralph.toml.' in said(RALPH_STORE=url)
    assert "password in PGPASSWORD" in said(RALPH_STORE="postgresql://ralph@db/ralph", PGPASSWORD="hunter2")
    assert said(RALPH_STORE=url, RALPH_AGENT_ENVIRONMENT="RALPH_STORE") == ""
    assert said(RALPH_STORE="postgresql://ralph@db/ralph") == ""


# --- git ---------------------------------------------------------------------------


@pytest.mark.storeless
def test_a_filter_of_the_repository_sees_no_secret(tmp_path: Path) -> None:
    (tmp_path / "seen.py").write_text(PRINTS + "\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    run_git(tmp_path, "config", "filter.spy.clean", f"{sys.executable} seen.py > seen; cat")
    (tmp_path / ".gitattributes").write_text("*.txt filter=spy\n")
    (tmp_path / "a.txt").write_text("a\n")
    trust_git_programs(tmp_path)

    added = run_git(tmp_path, "add", "a.txt")

    assert added.ok
    seen = (tmp_path / "seen").read_text().replace("GIT_CONFIG_VALUE_0=canary-22", "")
    assert "PATH=" in seen
    assert "canary" not in seen
