"""`ralph setup` as a person uses it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from ralph.core import skill
from ralph.core.agents import CONNECTABLE_AGENTS
from ralph.integrations.setup import agents, plugin_directory
from tests.cli.ran import Ralph, run
from tests.make import set_up_project


@pytest.fixture
def ralph(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ralph:
    """Run one command in a project, as a person with a home of their own."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "RALPH_SESSION"):
        monkeypatch.delenv(name, raising=False)
    set_up_project(tmp_path)
    return lambda *words: run(capsys, tmp_path, *words)


def test_it_says_what_it_does_and_what_comes_next_and_is_undone(ralph: Ralph, tmp_path: Path) -> None:
    first = ralph("setup", "claude", "--yes")
    second = ralph("setup", "claude", "--yes")
    undone = ralph("setup", "claude", "--uninstall", "--yes")
    again = ralph("setup", "claude", "--uninstall", "--yes")

    assert [one.code for one in (first, second, undone, again)] == [0, 0, 0, 0]
    assert "create .mcp.json: add the MCP server ralph" in first.out
    assert "Start claude in this directory" in first.out
    assert first.out.splitlines()[-1].startswith("To check it: ralph doctor")
    assert "already connected to this project; nothing was changed" in second.out
    assert "remove .mcp.json" in undone.out
    assert "not connected to this project; nothing was changed" in again.out
    assert not (tmp_path / ".mcp.json").exists()


def test_a_dry_run_shows_every_line_and_changes_nothing(ralph: Ralph, tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text('{\n  "mcpServers": {}\n}\n')

    ran = ralph("setup", "claude", "--dry-run")

    assert ran.code == 0
    assert '+      "args": [' in ran.out
    assert ran.out.splitlines()[-1] == "Nothing was changed."
    assert (tmp_path / ".mcp.json").read_text() == '{\n  "mcpServers": {}\n}\n'
    assert not (tmp_path / ".ralph/setup").exists()


def test_of_a_new_skill_its_length_is_told_and_of_one_that_changes_the_lines(ralph: Ralph, tmp_path: Path) -> None:
    length = len(skill.SKILL_FILE.splitlines())

    new = ralph("setup", "claude", "--dry-run")
    ralph("setup", "claude", "--yes")
    (tmp_path / ".claude/skills/ralph-memory/SKILL.md").write_text("# Older\n")
    changed = ralph("setup", "claude", "--dry-run", "--force")
    gone = ralph("setup", "claude", "--dry-run", "--uninstall")

    assert f"SKILL.md: add the skill that explains how to use the memory ({length} lines)\n" in new.out
    assert "Search first" not in new.out
    assert "-# Older\n" in changed.out
    assert "Search first" in changed.out
    assert "remove .mcp.json: it did not exist before setup\n" in gone.out
    assert '-      "command"' in gone.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "it now recalls memories and stores what it learns."),
        (("--no-mcp",), "it now recalls memories and stores what it learns."),
        (("--no-hooks",), "it can now search and add memories."),
        (("--no-hooks", "--no-mcp"), "it now knows the memory commands."),
    ],
)
def test_it_says_only_what_is_so(ralph: Ralph, words: tuple[str, ...], said: str) -> None:
    ran = ralph("setup", "claude", "--yes", *words)

    assert f"Start claude in this directory: {said}\n" in ran.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("qwen",), "Start qwen in this directory: it now recalls memories"),
        (("kilo",), "Start kilo in this directory: it can now search and add memories."),
        (("cline",), "it now knows the memory commands. Its MCP servers are those of all projects; to add ours: ralph"),
        (("windsurf", "--user"), "Start Windsurf in any of your projects: it can now search and add memories."),
        (("agents-md",), "it now knows the memory commands. To let it search and remember with tools, add this MCP"),
        (("agents-md", "--no-mcp"), "it now knows the memory commands.\n"),
    ],
)
def test_of_other_agents_it_says_only_what_is_so(ralph: Ralph, words: tuple[str, ...], said: str) -> None:
    ran = ralph("setup", "--yes", *words)

    assert said in ran.out


def test_a_dry_run_shows_the_section_of_a_guide_and_the_server_is_named_afterwards(
    ralph: Ralph, tmp_path: Path
) -> None:
    (tmp_path / "AGENTS.md").write_text("# Mine\n")

    dry = ralph("setup", "agents-md", "--dry-run")
    ran = ralph("setup", "agents-md", "--yes")

    assert "      +## Project memory\n" in dry.out
    assert f" {agents.ralph_command()[0]} " in f"{ran.out.replace(chr(10), ' ')}"
    assert " mcp\n" in ran.out


def test_before_it_is_done_it_says_what_will_be_allowed(ralph: Ralph) -> None:
    claude = ralph("setup", "claude", "--dry-run")
    gemini = ralph("setup", "gemini", "--dry-run")
    without = ralph("setup", "claude", "--dry-run", "--no-mcp")

    assert "and allow the tools of the MCP server ralph\n" in claude.out
    assert "and add the MCP server ralph and trust its tools\n" in gemini.out
    assert "allow the tools" not in without.out


def test_with_nobody_to_ask_it_changes_nothing(ralph: Ralph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Path(os.devnull).open() as nobody:
        monkeypatch.setattr(sys, "stdin", nobody)
        ran = ralph("setup", "gemini")

    assert ran.code == 2
    assert "Use --yes" in ran.err
    assert not (tmp_path / ".gemini").exists()


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1), ("", 1)])
def test_on_a_terminal_it_asks(ralph: Ralph, tmp_path: Path, answer: str, code: int) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode())

    ran = subprocess.run(
        [sys.executable, "-m", "ralph", "-C", str(tmp_path), "setup", "gemini"],
        stdin=theirs,
        capture_output=True,
        text=True,
        timeout=30,
    )
    os.close(ours)
    os.close(theirs)

    assert ran.returncode == code
    assert "Apply these changes? [y/N]" in ran.stdout
    assert (tmp_path / ".gemini").exists() == (code == 0)


def test_every_agent_that_can_be_connected_has_hooks() -> None:
    assert tuple(agents.RECIPES) == CONNECTABLE_AGENTS


def test_it_tells_where_the_plugin_is(ralph: Ralph) -> None:
    found = ralph("setup", "claude", "--plugin")
    other = ralph("setup", "codex", "--plugin")

    assert found.out.strip() == str(plugin_directory())
    assert (other.code, other.out) == (2, "")


def test_the_marketplace_of_the_repository_leads_to_the_plugin() -> None:
    root = Path(__file__).parents[3]

    ours = json.loads((root / ".claude-plugin/marketplace.json").read_text(encoding="utf-8"))
    bundled = json.loads((plugin_directory() / ".claude-plugin/marketplace.json").read_text(encoding="utf-8"))

    assert (root / ours["plugins"][0]["source"]).resolve() == plugin_directory().resolve()
    bundled["plugins"][0]["source"] = ours["plugins"][0]["source"]
    assert ours == bundled


def test_for_all_projects_no_project_is_needed(
    ralph: Ralph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    elsewhere.mkdir()

    here = run(capsys, elsewhere, "setup", "cursor", "--yes")
    user = run(capsys, elsewhere, "setup", "cursor", "--user", "--yes")

    assert here.code != 0
    assert "ralph init" in here.err
    assert user.code == 0
    assert (tmp_path / "home/.cursor/hooks.json").exists()


def test_an_agent_in_a_session_of_the_loop_connects_nothing(
    ralph: Ralph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RALPH_SESSION", "s")

    ran = ralph("setup", "claude", "--yes")

    assert ran.code == 2
    assert not (tmp_path / ".mcp.json").exists()
