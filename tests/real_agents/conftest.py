"""What the tests with real agents share: the programs, the model they talk to, and a place of their own.

`make test-agents` installs the programs beside the virtual environment's own; a test that needs one that is not
there is skipped by name. Nothing here leaves this machine, and nothing of the person who runs it is read or changed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from ralph.workspace import init_project
from tests.real_agents.model_server import ModelServer

PROGRAMS = Path(sys.prefix) / "agents" / "node_modules" / ".bin"

# What would lead an agent to another service, another home or another way of working.
_FOREIGN = (
    *(
        "ANTHROPIC_",
        "CLAUDE",
        "GEMINI_",
        "GOOGLE_",
        "OPENAI_",
        "CODEX_",
        "OPENCODE_",
        "RALPH_",
        "XDG_",
        "NODE_",
        "GIT_",
    ),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"),
)


@pytest.fixture
def model() -> Iterator[ModelServer]:
    """Give the model that the agents of this test talk to; its script has to be played to the end, and suffice."""
    server = ModelServer()
    yield server
    server.close()
    assert not server.unexpected, "The script has no step for a request that came."
    assert not server.left(), "The script has steps that nothing asked for."


def _program(name: str) -> Path:
    path = PROGRAMS / name
    if not path.exists():
        pytest.skip(f"{name} is not installed here: make test-agents does that, with npm")
    return path


@pytest.fixture
def claude() -> Path:
    """Give the path of Claude Code."""
    return _program("claude")


@pytest.fixture
def claude_acp(claude: Path) -> Path:
    """Give the path of the adapter that lets Claude Code speak ACP."""
    return _program("claude-agent-acp")


@pytest.fixture
def gemini() -> Path:
    """Give the path of the Gemini CLI."""
    return _program("gemini")


@pytest.fixture
def codex(agent_environment: dict[str, str], model: ModelServer) -> Path:
    """Give the path of Codex, which asks the scripted model."""
    settings = Path(agent_environment["HOME"]) / ".codex" / "config.toml"
    settings.parent.mkdir()
    settings.write_text(_CODEX_SETTINGS.format(url=model.url))
    return _program("codex")


@pytest.fixture
def opencode(agent_environment: dict[str, str], model: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the path of opencode, which asks the scripted model and is in the PATH."""
    path = PROGRAMS.parent / "opencode-linux-x64" / "bin" / "opencode"
    if not path.exists():
        pytest.skip("opencode is not installed here: make test-agents does that, with npm, on Linux with x86-64")
    settings = Path(agent_environment["HOME"]) / ".config" / "opencode" / "opencode.json"
    settings.parent.mkdir(parents=True)
    options = {"baseURL": f"{model.url}/v1", "apiKey": "dummy"}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"scripted": {}}}
    settings.write_text(
        json.dumps(
            {"provider": {"local": provider}, "model": "local/scripted", "autoupdate": False, "share": "disabled"}
        )
    )
    for name in ("OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_LSP_DOWNLOAD"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")
    return path


@pytest.fixture
def agent_environment(tmp_path: Path, model: ModelServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Give the environment that agents run in, which is now that of this process too.

    Private folders, made up keys, the scripted model for a service, and the programs in the PATH.
    """
    home = tmp_path / "home"
    (home / "tmp").mkdir(parents=True)
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text(json.dumps(_GEMINI_SETTINGS))
    (home / ".gitconfig").write_text("[user]\nname = Tester\nemail = tester@example.com\n")
    for name in list(os.environ):
        if name.startswith(_FOREIGN) and name not in ("RALPH_STORE", "RALPH_TRUST"):
            monkeypatch.delenv(name)
    given = {
        "HOME": str(home),
        "TMPDIR": str(home / "tmp"),
        "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
        # Claude Code
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "sk-dummy",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "false",
        "CLAUDE_CODE_EXECUTABLE": str(PROGRAMS / "claude"),
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "API_TIMEOUT_MS": "2000",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_TELEMETRY": "1",
        "IS_SANDBOX": "1",
        # Codex
        "OPENAI_API_KEY": "dummy",
        # Gemini CLI
        "GEMINI_API_KEY": "dummy",
        "GOOGLE_GEMINI_BASE_URL": model.url,
        "GEMINI_TELEMETRY_ENABLED": "false",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    return dict(os.environ)


_CODEX_SETTINGS = """\
model = "scripted"
model_provider = "local"
check_for_update_on_startup = false

[model_providers.local]
name = "local"
base_url = "{url}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1

[analytics]
enabled = false
"""
_GEMINI_SETTINGS = {
    "general": {"disableAutoUpdate": True, "disableUpdateNag": True, "maxAttempts": 2},
    "privacy": {"usageStatisticsEnabled": False},
    "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
    "telemetry": {"enabled": False},
}


@pytest.fixture
def survivors(agent_environment: dict[str, str]) -> Callable[[], list[str]]:
    """Give a way to ask which processes run with the home of this test: those that an agent left behind."""

    def ask() -> list[str]:
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("HOME") == agent_environment["HOME"] and process.pid != os.getpid():
                    found.append(" ".join(process.cmdline()))
            except psutil.Error:
                pass  # It is gone, or it is not ours to ask.
        return found

    return ask


@pytest.fixture
def a_git_project(tmp_path: Path, agent_environment: dict[str, str]) -> Path:
    """Give the directory of a new project in a git repository of its own, with one commit."""
    directory = tmp_path / "project"
    directory.mkdir()
    (directory / "README.md").write_text("# A project\n")
    init_project(directory)
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "Begin"]):
        subprocess.run(["git", *words], cwd=directory, env=agent_environment, check=True)
    return directory
