"""What `ralph doctor` says of agents that are connected."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ralph.core.errors import UsageError
from ralph.integrations.setup import apply_plan, plan_removal, plan_setup, setup_options
from ralph.integrations.setup.agents import RECIPES, SetupOptions
from ralph.integrations.setup.connections import check_connections
from tests.cli.ran import run
from tests.make import set_up_project

pytestmark = pytest.mark.storeless

Said = list[tuple[str, bool, str, str]]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    (directory / ".ralph").mkdir(parents=True)
    return directory


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Return a folder that has ralph and every agent."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("ralph", *RECIPES):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def environment(tmp_path: Path, programs: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), "PATH": str(programs)}


@pytest.fixture
def wish(here: Path, programs: Path, environment: dict[str, str]) -> Callable[..., SetupOptions]:
    def make(*, user: bool = False, **more: Any) -> SetupOptions:
        words = (str(programs / "ralph"),)
        return setup_options(None if user else here, environment=environment, words=words, **more)

    return make


@pytest.fixture
def said(here: Path, environment: dict[str, str]) -> Callable[[], Said]:
    """Look, and give what is said: about what, whether it is fine, what, and what to do."""
    return lambda: [(one.about, one.is_fine, one.says, one.mend) for one in check_connections(here, environment)]


def put(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


@pytest.mark.parametrize(
    ("agent", "parts"),
    [
        ("claude", "7 hooks, MCP server, skill"),
        ("codex", "7 hooks, MCP server, skill"),
        ("gemini", "5 hooks, MCP server, skill"),
        ("cursor", "5 hooks, MCP server, skill"),
        ("opencode", "plugin, MCP server, skill"),
        ("copilot", "6 hooks, MCP server, skill"),
        ("qwen", "6 hooks, MCP server, skill"),
        ("kilo", "MCP server, skill"),
        ("antigravity", "MCP server, skill"),
    ],
)
def test_an_agent_that_is_connected_is_fine_and_one_that_is_not_any_more_is_not_spoken_of(
    agent: str, parts: str, wish: Callable[..., SetupOptions], said: Callable[[], Said]
) -> None:
    never = said()
    apply_plan(plan_setup(agent, wish()))
    here = said()
    apply_plan(plan_removal(agent, wish()))
    apply_plan(plan_setup(agent, wish(user=True)))
    everywhere = said()
    apply_plan(plan_removal(agent, wish(user=True)))

    assert never == []
    assert here == [(agent, True, f"connected: {parts}", "")]
    assert everywhere == [(agent, True, f"connected for all your projects: {parts}", "")]
    assert said() == []


def test_only_what_is_connected_is_named(wish: Callable[..., SetupOptions], said: Callable[[], Said]) -> None:
    apply_plan(plan_setup("claude", wish(with_hooks=False)))
    without_hooks = said()
    apply_plan(plan_setup("claude", wish(with_hooks=False, with_server=False)))

    assert without_hooks == [("claude", True, "connected: MCP server, skill", "")]
    assert said() == [("claude", True, "connected: skill", "")]


def test_that_there_is_no_such_program_is_said_and_is_no_fault(
    wish: Callable[..., SetupOptions], said: Callable[[], Said], programs: Path
) -> None:
    apply_plan(plan_setup("claude", wish()))
    (programs / "claude").unlink()

    [(_, is_fine, says, _)] = said()

    assert is_fine
    assert says.endswith("skill; claude is not in the PATH")


@pytest.mark.parametrize("agent", ["cline", "windsurf"])
def test_an_agent_with_servers_for_all_projects_has_only_the_skill_in_one(
    agent: str, wish: Callable[..., SetupOptions], said: Callable[[], Said]
) -> None:
    apply_plan(plan_setup(agent, wish()))
    here = said()
    apply_plan(plan_removal(agent, wish()))
    apply_plan(plan_setup(agent, wish(user=True)))

    assert here == [(agent, True, "connected: skill", "")]
    assert said() == [(agent, True, "connected for all your projects: MCP server, skill", "")]


def test_a_section_of_a_guide_that_was_removed_is_missed(
    here: Path, wish: Callable[..., SetupOptions], said: Callable[[], Said]
) -> None:
    apply_plan(plan_setup("agents-md", wish()))
    connected = said()
    put(here / "AGENTS.md", "# Mine\n")

    assert connected == [("agents-md", True, "connected: section", "")]
    missing = "the entries written by setup are missing from AGENTS.md"
    assert said() == [("agents-md", False, missing, "ralph setup agents-md")]


@pytest.mark.parametrize(
    ("agent", "user"),
    [
        *((agent, False) for agent, recipe in RECIPES.items() if recipe.has_project_server),
        *((agent, True) for agent, recipe in RECIPES.items() if recipe.has_user_settings),
    ],
)
def test_entries_that_call_a_program_that_is_gone_or_cannot_be_run_are_wrong(
    agent: str, user: bool, wish: Callable[..., SetupOptions], said: Callable[[], Said], programs: Path
) -> None:
    ralph, recipe = programs / "ralph", RECIPES[agent]
    apply_plan(plan_setup(agent, wish(user=user)))
    ralph.chmod(0o644)
    cannot_be_run = said()
    ralph.unlink()

    start = f"its {'hooks and MCP server start' if recipe.has_hooks else 'MCP server starts'} {ralph}, which"
    mend = f"ralph setup {agent}{' --user' * user}"
    assert cannot_be_run == [(agent, False, f"{start} is not executable", mend)]
    assert said() == [(agent, False, f"{start} does not exist", mend)]


STRICT = {
    "claude": [".claude/settings.local.json", ".mcp.json"],
    "codex": [".codex/hooks.json"],
    "copilot": [".github/hooks/ralph.json", ".github/mcp.json"],
}
"""Files in which an agent accepts neither comments nor trailing commas, as seen with the real ones."""
WITH_COMMENTS = {"gemini": [".gemini/settings.json"], "qwen": [".qwen/settings.json"]}
"""Files in which an agent accepts comments, but no trailing commas."""


def with_comment(text: str) -> str:
    return text.replace("{", "{\n  // Mine.", 1)


def with_trailing_comma(text: str) -> str:
    return f"{text.rstrip().removesuffix('}').rstrip()},\n}}\n"


@pytest.mark.parametrize(
    ("agent", "name", "spoil"),
    [
        *((agent, name, with_comment) for agent, names in STRICT.items() for name in names),
        *((agent, name, with_trailing_comma) for agent, names in {**STRICT, **WITH_COMMENTS}.items() for name in names),
    ],
)
def test_settings_in_a_form_that_their_agent_does_not_accept_are_told_by_doctor_and_by_setup(
    agent: str,
    name: str,
    spoil: Callable[[str], str],
    here: Path,
    wish: Callable[..., SetupOptions],
    said: Callable[[], Said],
) -> None:
    settings = here / name
    apply_plan(plan_setup(agent, wish()))
    put(settings, spoil(settings.read_text()))
    spoiled = settings.read_bytes()

    [(_, is_fine, says, _)] = said()
    with pytest.raises(UsageError) as error:
        plan_setup(agent, wish())
    unchanged = settings.read_bytes() == spoiled
    apply_plan(plan_removal(agent, wish()))

    assert (is_fine, str(settings) in says, error.value.code) == (False, True, "invalid-settings")
    assert unchanged
    assert not settings.exists() or b"ralph" not in settings.read_bytes()


@pytest.mark.parametrize(
    ("agent", "name", "spoil"),
    [
        *((agent, name, with_comment) for agent, names in WITH_COMMENTS.items() for name in names),
        *(("opencode", "opencode.json", spoil) for spoil in (with_comment, with_trailing_comma)),
    ],
)
def test_settings_in_a_form_that_their_agent_accepts_are_fine(
    agent: str,
    name: str,
    spoil: Callable[[str], str],
    here: Path,
    wish: Callable[..., SetupOptions],
    said: Callable[[], Said],
) -> None:
    apply_plan(plan_setup(agent, wish()))
    put(here / name, spoil((here / name).read_text()))

    assert [is_fine for _, is_fine, _, _ in said()] == [True]
    assert plan_setup(agent, wish()).changes == ()


def test_settings_that_claude_code_does_not_accept_switch_nothing_off(
    here: Path, wish: Callable[..., SetupOptions], said: Callable[[], Said]
) -> None:
    put(here / ".claude/settings.json", '{"disableAllHooks": true} // for now')
    apply_plan(plan_setup("claude", wish()))

    assert [is_fine for _, is_fine, _, _ in said()] == [True]


def test_what_setup_wrote_and_somebody_took_out_is_missed(
    here: Path, wish: Callable[..., SetupOptions], said: Callable[[], Said]
) -> None:
    apply_plan(plan_setup("claude", wish()))
    put(here / ".claude/settings.local.json", {"model": "opus"})
    (here / ".mcp.json").unlink()

    assert said() == [
        (
            "claude",
            False,
            "the entries written by setup are missing from .claude/settings.local.json, .mcp.json",
            "ralph setup claude",
        )
    ]


def test_some_hooks_that_are_gone_are_counted(
    here: Path, wish: Callable[..., SetupOptions], said: Callable[[], Said]
) -> None:
    apply_plan(plan_setup("claude", wish()))
    settings = here / ".claude/settings.local.json"
    value = json.loads(settings.read_text())
    del value["hooks"]["Stop"], value["hooks"]["SessionEnd"]
    put(settings, value)

    assert said() == [("claude", False, "only 5 of its 7 hooks are installed", "ralph setup claude")]


@pytest.mark.parametrize("user", [False, True])
@pytest.mark.parametrize("name", ["project/.claude/settings.json", "home/.claude/settings.json"])
def test_hooks_that_the_settings_of_claude_code_switch_off_are_wrong(
    name: str, user: bool, tmp_path: Path, wish: Callable[..., SetupOptions], said: Callable[[], Said]
) -> None:
    path = put(tmp_path / name, {"disableAllHooks": True})
    apply_plan(plan_setup("claude", wish(user=user)))

    [(_, is_fine, says, mend)] = said()

    assert not is_fine
    assert says == f"{path} disables all hooks"
    assert mend == f'remove "disableAllHooks" from {path}'


def test_the_settings_nearest_to_the_project_decide(
    here: Path, tmp_path: Path, wish: Callable[..., SetupOptions], said: Callable[[], Said]
) -> None:
    put(tmp_path / "home/.claude/settings.json", {"disableAllHooks": True})
    put(here / ".claude/settings.json", {"disableAllHooks": False})
    apply_plan(plan_setup("claude", wish()))

    assert [is_fine for _, is_fine, _, _ in said()] == [True]


@pytest.mark.parametrize(("value", "what"), [({"enabled": False}, "all"), ({"disabled": ["ralph"]}, "our")])
def test_hooks_that_the_settings_of_gemini_switch_off_are_wrong(
    value: object, what: str, tmp_path: Path, wish: Callable[..., SetupOptions], said: Callable[[], Said]
) -> None:
    path = put(tmp_path / "home/.gemini/settings.json", {"hooksConfig": value})
    apply_plan(plan_setup("gemini", wish()))

    assert [(is_fine, says) for _, is_fine, says, _ in said()] == [(False, f"{path} disables {what} hooks")]


@pytest.mark.parametrize("text", ["{", "[]", '{"mcpServers": 3}', '{"hooks": [1], "mcpServers": {"ralph": 1}}'])
def test_files_of_agents_that_were_never_connected_are_left_to_others(
    text: str, here: Path, tmp_path: Path, said: Callable[[], Said]
) -> None:
    for folder in (here, tmp_path / "home"):
        for name in (".mcp.json", ".claude.json", ".claude/settings.json", ".cursor/mcp.json", ".gemini/settings.json"):
            put(folder / name, text)

    assert said() == []


def test_settings_that_cannot_be_read_any_more_are_named(
    here: Path, wish: Callable[..., SetupOptions], said: Callable[[], Said]
) -> None:
    apply_plan(plan_setup("claude", wish()))
    put(here / ".mcp.json", "{")

    [(_, is_fine, says, mend)] = said()

    assert not is_fine
    assert "is not valid JSON" in says
    assert "changed" not in says
    assert mend.endswith("ralph setup claude")


@pytest.mark.usefixtures("store_url")
def test_doctor_looks_at_the_connection(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("CLAUDE_CONFIG_DIR", "XDG_STATE_HOME", "RALPH_SESSION"):
        monkeypatch.delenv(name, raising=False)
    set_up_project(tmp_path)

    run(capsys, tmp_path, "setup", "claude", "--yes")
    fine = run(capsys, tmp_path, "doctor")
    (tmp_path / ".mcp.json").unlink()
    wrong = run(capsys, tmp_path, "doctor", "--format", "json")

    assert fine.code == 0
    assert "claude     connected: 7 hooks, MCP server, skill" in fine.out
    assert wrong.code == 1
    assert [one["mend"] for one in wrong.json if one["about"] == "claude"] == ["ralph setup claude"]
