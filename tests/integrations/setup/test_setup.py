"""Connecting agents to the memory, and disconnecting them: what becomes of their files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ralph.core.errors import RalphError, UsageError
from ralph.core.records import replace
from ralph.integrations.setup import apply_plan, plan_removal, plan_setup, setup_options
from ralph.integrations.setup.agents import (
    RECIPES,
    SERVER_ENV_VARIABLES,
    SetupOptions,
    file_edits,
    ralph_command,
)
from ralph.integrations.setup.backups import OriginalFile, OriginalFiles, content_digest
from ralph.integrations.setup.connections import check_connections
from ralph.integrations.setup.edits import JsonEdit
from ralph.integrations.setup.entries import FileHistory, is_our_hook, is_our_server
from tests.integrations.setup.test_jsontext import INDENTS, VALUES

pytestmark = pytest.mark.storeless

PROGRAM = "/opt/with space/bin/ralph"
FILES = {
    "claude": [".claude/settings.local.json", ".claude/skills/ralph-memory/SKILL.md", ".mcp.json"],
    "codex": [".agents/skills/ralph-memory/SKILL.md", ".codex/config.toml", ".codex/hooks.json"],
    "gemini": [".gemini/settings.json", ".gemini/skills/ralph-memory/SKILL.md"],
    "cursor": [".cursor/hooks.json", ".cursor/mcp.json", ".cursor/skills/ralph-memory/SKILL.md"],
    "opencode": [".opencode/plugin/ralph.js", ".opencode/skills/ralph-memory/SKILL.md", "opencode.json"],
    "copilot": [".github/hooks/ralph.json", ".github/mcp.json", ".github/skills/ralph-memory/SKILL.md"],
    "qwen": [".qwen/settings.json", ".qwen/skills/ralph-memory/SKILL.md"],
    "cline": [".cline/skills/ralph-memory/SKILL.md"],
    "windsurf": [".windsurf/skills/ralph-memory/SKILL.md"],
    "kilo": [".kilo/kilo.jsonc", ".kilo/skills/ralph-memory/SKILL.md"],
    "antigravity": [".agents/mcp_config.json", ".agents/skills/ralph-memory/SKILL.md"],
    "agents-md": ["AGENTS.md"],
}
USER_RECIPES = [name for name, recipe in RECIPES.items() if recipe.has_user_settings]
BY_HAND = [
    {"command": f"{start} --agent {agent}"}
    for agent in RECIPES
    for start in ("ralph hook stop", "echo /x/ralph hook stop", "/x/ralph hook stop; /x/ralph hook 'stop", "hook stop")
]
JSON_FILES = [(agent, name) for agent, names in FILES.items() for name in names if name.endswith(".json")]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    (directory / ".ralph").mkdir(parents=True)
    return directory


@pytest.fixture
def wish(here: Path, tmp_path: Path) -> Callable[..., SetupOptions]:
    """Return what is wanted, for the project or, with `user`, for a person without any settings yet."""

    def make(*, user: bool = False, path: str = PROGRAM, **more: Any) -> SetupOptions:
        home = {"HOME": str(tmp_path / "home")}
        return setup_options(None if user else here, environment=home, words=(path,), **more)

    return make


def contents(directory: Path) -> dict[str, bytes | None]:
    """Return all files and folders in a directory, but for git's own."""
    found = sorted(path for path in directory.rglob("*") if ".git" not in path.relative_to(directory).parts)
    return {str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None for path in found}


def put(directory: Path, name: str, text: str) -> Path:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def loaded(path: Path) -> Any:
    return json.loads(path.read_text())


# --- from nothing, and back ------------------------------------------------------------


@pytest.mark.parametrize("agent", RECIPES)
def test_setup_makes_the_files_of_an_agent_and_uninstall_leaves_no_trace(
    agent: str, here: Path, wish: Callable[..., SetupOptions]
) -> None:
    before = contents(here)

    apply_plan(plan_setup(agent, wish()))
    after = contents(here)
    apply_plan(plan_removal(agent, wish()))

    assert sorted(name for name, content in after.items() if content and ".ralph" not in name) == FILES[agent]
    assert contents(here) == before


@pytest.mark.parametrize("agent", RECIPES)
def test_a_second_setup_changes_nothing(agent: str, here: Path, wish: Callable[..., SetupOptions]) -> None:
    apply_plan(plan_setup(agent, wish()))
    once = contents(here)

    again = plan_setup(agent, wish())
    apply_plan(again)

    assert (again.changes, again.notes) == ((), ())
    assert contents(here) == once


@pytest.mark.parametrize("agent", USER_RECIPES)
def test_for_all_projects_only_the_home_is_changed_and_is_as_before_afterwards(
    agent: str, here: Path, tmp_path: Path, wish: Callable[..., SetupOptions]
) -> None:
    project = contents(here)

    apply_plan(plan_setup(agent, wish(user=True)))
    home = contents(tmp_path / "home")
    apply_plan(plan_removal(agent, wish(user=True)))

    assert contents(here) == project
    assert sum(PROGRAM.encode() in (content or b"") for content in home.values()) >= 1
    assert [name for name in contents(tmp_path / "home") if not name.startswith(".local")] == []


@pytest.mark.parametrize("agent", RECIPES)
def test_without_hooks_or_server_neither_is_written_and_what_was_goes(
    agent: str, here: Path, wish: Callable[..., SetupOptions]
) -> None:
    apply_plan(plan_setup(agent, wish()))

    apply_plan(plan_setup(agent, wish(with_hooks=False, with_server=False)))
    left = contents(here)
    apply_plan(plan_removal(agent, wish()))

    assert not any(PROGRAM.encode() in (content or b"") for content in left.values())
    assert any(name.endswith(("SKILL.md", "AGENTS.md")) for name in left)
    assert list(contents(here)) == [".ralph"]


def test_uninstall_where_nothing_was_set_up_changes_nothing(here: Path, wish: Callable[..., SetupOptions]) -> None:
    put(here, ".claude/settings.local.json", '{"hooks": {"Stop": []}, "enabledMcpjsonServers": []}')
    before = contents(here)

    for agent in RECIPES:
        apply_plan(plan_removal(agent, wish()))

    assert contents(here) == before


# --- what is written ---------------------------------------------------------------------


def test_claude_code_gets_hooks_with_time_limits_in_seconds_and_a_server_it_may_start(
    here: Path, wish: Callable[..., SetupOptions]
) -> None:
    apply_plan(plan_setup("claude", wish()))

    settings = loaded(here / ".claude/settings.local.json")
    assert set(settings["hooks"]) == {
        *("SessionStart", "UserPromptSubmit", "PreCompact", "PostCompact", "Stop", "SubagentStop", "SessionEnd")
    }
    assert settings["hooks"]["SessionEnd"] == [
        {
            "hooks": [
                {"type": "command", "command": f"'{PROGRAM}' hook session-end --agent claude", "timeout": 10},
            ]
        }
    ]
    assert settings["enabledMcpjsonServers"] == ["ralph"]
    assert loaded(here / ".mcp.json") == {"mcpServers": {"ralph": {"command": PROGRAM, "args": ["mcp"]}}}


@pytest.mark.parametrize("user", [False, True])
def test_claude_code_may_use_our_tools_unasked_and_no_more_without_the_server(
    here: Path, tmp_path: Path, wish: Callable[..., SetupOptions], user: bool
) -> None:
    settings = tmp_path / "home/.claude/settings.json" if user else here / ".claude/settings.local.json"
    put(settings.parent, settings.name, '{"permissions": {"allow": ["Bash(ls)"]}}')

    apply_plan(plan_setup("claude", wish(user=user)))
    allowed = loaded(settings)["permissions"]
    apply_plan(plan_setup("claude", wish(user=user, with_server=False)))

    assert allowed == {"allow": ["Bash(ls)", "mcp__ralph"]}
    assert loaded(settings)["permissions"] == {"allow": ["Bash(ls)"]}


def test_what_a_person_has_allowed_or_denied_is_theirs(here: Path, wish: Callable[..., SetupOptions]) -> None:
    text = '{"permissions": {"allow": ["mcp__ralph"], "deny": ["mcp__ralph__remember"]}}'
    settings = put(here, ".claude/settings.local.json", text)

    apply_plan(plan_setup("claude", wish()))
    value = loaded(settings)
    put(here, ".claude/settings.local.json", json.dumps({**value, "model": "m"}))
    apply_plan(plan_removal("claude", wish()))

    assert value["permissions"] == json.loads(text)["permissions"]
    assert loaded(settings) == {**json.loads(text), "model": "m"}


def test_gemini_trusts_our_server_until_a_person_says_otherwise(here: Path, wish: Callable[..., SetupOptions]) -> None:
    settings = here / ".gemini/settings.json"
    apply_plan(plan_setup("gemini", wish()))
    value = loaded(settings)
    trusted = value["mcpServers"]["ralph"]["trust"]
    value["mcpServers"]["ralph"]["trust"] = False
    settings.write_text(json.dumps(value))

    apply_plan(plan_setup("gemini", wish(path="/new/ralph")))

    assert trusted is True
    assert loaded(settings)["mcpServers"]["ralph"] == {"command": "/new/ralph", "args": ["mcp"], "trust": False}


def test_gemini_gets_its_own_events_with_time_limits_in_milliseconds(
    here: Path, wish: Callable[..., SetupOptions]
) -> None:
    apply_plan(plan_setup("gemini", wish()))

    settings = loaded(here / ".gemini/settings.json")
    assert {event: entries[0]["hooks"][0]["command"].split()[-3] for event, entries in settings["hooks"].items()} == {
        "SessionStart": "session-start",
        "BeforeAgent": "user-prompt-submit",
        "AfterAgent": "stop",
        "PreCompress": "pre-compact",
        "SessionEnd": "session-end",
    }
    assert {entries[0]["hooks"][0]["timeout"] for entries in settings["hooks"].values()} == {10_000}
    assert is_our_server(settings["mcpServers"]["ralph"])


def test_cursor_gets_a_version_and_hooks_without_groups(here: Path, wish: Callable[..., SetupOptions]) -> None:
    apply_plan(plan_setup("cursor", wish()))

    hooks = loaded(here / ".cursor/hooks.json")
    assert hooks["version"] == 1
    assert hooks["hooks"]["afterAgentResponse"] == [
        {"command": f"'{PROGRAM}' hook stop --agent cursor", "timeout": 10},
    ]
    assert loaded(here / ".cursor/mcp.json")["mcpServers"]["ralph"]["args"] == ["-C", "${workspaceFolder}", "mcp"]


def test_a_version_that_setup_added_goes_with_it(here: Path, wish: Callable[..., SetupOptions]) -> None:
    hooks = put(here, ".cursor/hooks.json", '{\n  "mine": 1\n}\n')
    apply_plan(plan_setup("cursor", wish()))
    hooks.write_text(hooks.read_text().replace('"mine": 1', '"mine": 2'))

    apply_plan(plan_removal("cursor", wish()))

    assert hooks.read_text() == '{\n  "mine": 2\n}\n'


def test_a_version_that_hooks_of_others_need_stays(here: Path, wish: Callable[..., SetupOptions]) -> None:
    hooks = put(here, ".cursor/hooks.json", '{\n  "hooks": {"stop": [{"command": "mine"}]}\n}\n')
    apply_plan(plan_setup("cursor", wish()))
    hooks.write_text(hooks.read_text().replace("mine", "yours"))

    apply_plan(plan_removal("cursor", wish()))

    assert loaded(hooks) == {"version": 1, "hooks": {"stop": [{"command": "yours"}]}}


def test_codex_gets_a_table_at_the_end_of_its_settings(here: Path, wish: Callable[..., SetupOptions]) -> None:
    text = '# mine\nmodel = "m"\n\n[mcp_servers.other]\ncommand = "x" # why'
    settings = put(here, ".codex/config.toml", text)

    apply_plan(plan_setup("codex", wish()))
    after = settings.read_text()
    apply_plan(plan_removal("codex", wish()))

    assert after.startswith(text)
    assert tomllib.loads(after)["mcp_servers"]["ralph"] == {
        "command": PROGRAM,
        "args": ["mcp"],
        "env_vars": list(SERVER_ENV_VARIABLES),
    }
    assert settings.read_text() == text


def test_opencode_gets_a_plugin_that_calls_this_program(here: Path, wish: Callable[..., SetupOptions]) -> None:
    put(here, "opencode.jsonc", '{\n  // mine\n  "model": "m",\n}\n')

    apply_plan(plan_setup("opencode", wish()))

    assert f'const PROGRAM = ["{PROGRAM}"]' in (here / ".opencode/plugin/ralph.js").read_text()
    assert "// mine" in (here / "opencode.jsonc").read_text()
    assert f'"{PROGRAM}"' in (here / "opencode.jsonc").read_text()
    assert not (here / "opencode.json").exists()


@pytest.mark.parametrize(
    "words",
    [("/x/ralph",), ("/x y/ralph",), ("/usr/bin/python3", "-P", "-m", "ralph")],
)
@pytest.mark.parametrize("agent", RECIPES)
def test_what_setup_writes_is_known_again_whatever_starts_the_program(
    agent: str, words: tuple[str, ...], here: Path
) -> None:
    for edit in file_edits(agent, setup_options(here, environment={"HOME": "/nowhere"}, words=words)):
        if isinstance(edit, JsonEdit):
            assert all(is_our_hook(hook, agent) for hook in edit.hooks.values())
            assert edit.server is None or is_our_server(edit.server)


@pytest.mark.parametrize(
    "hook", ["ralph", {}, {"command": 1}, {"command": "echo ralph hook stop"}, {"command": "a"}, *BY_HAND]
)
def test_other_hooks_are_not_taken_for_ours(hook: object) -> None:
    assert not any(is_our_hook(hook, agent) for agent in RECIPES)


@pytest.mark.parametrize("entry", [None, {}, {"command": []}, {"command": 1}, {"command": "ralph", "args": ["x"]}])
def test_other_servers_are_not_taken_for_ours(entry: object) -> None:
    assert not is_our_server(entry)


def test_who_is_connected_for_all_projects_too_is_told(wish: Callable[..., SetupOptions]) -> None:
    apply_plan(plan_setup("claude", wish(user=True)))

    plan = plan_setup("claude", wish())

    assert any("run twice" in note for note in plan.notes)


def test_the_program_is_the_one_beside_this_python_or_this_python_itself(tmp_path: Path) -> None:
    beside = tmp_path / "ralph"
    beside.write_text("#!/bin/sh\n")

    without = ralph_command(str(tmp_path / "python"))
    beside.chmod(0o755)

    assert without == (str(tmp_path / "python"), "-P", "-m", "ralph")
    assert ralph_command(str(tmp_path / "python")) == (str(beside),)


# --- what is there already ----------------------------------------------------------------


@pytest.mark.parametrize(("agent", "name"), JSON_FILES)
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.text(max_size=6), VALUES, max_size=4), INDENTS, st.booleans(), st.booleans())
def test_whatever_object_a_file_holds_it_is_kept_and_comes_back_byte_for_byte(
    agent: str,
    name: str,
    here: Path,
    wish: Callable[..., SetupOptions],
    value: dict[str, Any],
    indent: Any,
    has_crlf: bool,
    has_mark: bool,
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    text = ("\ufeff" if has_mark else "") + (text.replace("\n", "\r\n") if has_crlf else text)
    path = put(here, name, text)
    before = contents(here)

    apply_plan(plan_setup(agent, wish()))
    once = path.read_bytes()
    apply_plan(plan_setup(agent, wish()))
    twice = path.read_bytes()
    apply_plan(plan_removal(agent, wish()))

    assert once == twice
    merged = json.loads(once.decode("utf-8-sig"))
    assert {key: merged[key] for key in value} == value
    assert once.startswith("\ufeff".encode()) == has_mark
    assert contents(here) == before


def edit_of(agent: str, name: str) -> JsonEdit:
    wish = setup_options(Path("/nowhere"), environment={"HOME": "/nowhere"}, words=(PROGRAM,))
    found = next(edit for edit in file_edits(agent, wish) if edit.path == Path("/nowhere") / name)
    assert isinstance(found, JsonEdit)
    return found


@pytest.mark.parametrize(("agent", "name"), JSON_FILES)
@settings(max_examples=20)
@given(st.dictionaries(st.text(max_size=6), VALUES, max_size=4), INDENTS, VALUES)
def test_from_a_file_that_a_person_changed_since_only_ours_is_taken_out(
    agent: str, name: str, value: dict[str, Any], indent: Any, later: Any
) -> None:
    edit = edit_of(agent, name)
    before = json.dumps(value, indent=indent).encode()

    written = json.loads(edit.with_entries(before))
    changed = json.dumps({"theirs": later, **written}, indent=indent).encode()
    stripped = edit.without_entries(changed, FileHistory(original=before, is_known=True))

    assert stripped is not None
    left = json.loads(stripped)
    assert {key: one for key, one in left.items() if key not in edit.defaults} == {"theirs": later, **value}


def test_hooks_and_servers_of_others_stay_and_ours_come_after_them(
    here: Path, wish: Callable[..., SetupOptions]
) -> None:
    theirs = {"matcher": "startup", "hooks": [{"type": "command", "command": "echo ralph hook stop"}]}
    settings = put(here, ".claude/settings.local.json", json.dumps({"hooks": {"SessionStart": [theirs]}}, indent=4))
    put(here, ".mcp.json", '{"mcpServers": {"other": {"command": "x"}}}')

    apply_plan(plan_setup("claude", wish()))

    assert loaded(settings)["hooks"]["SessionStart"][0] == theirs
    assert len(loaded(settings)["hooks"]["SessionStart"]) == 2
    assert list(loaded(here / ".mcp.json")["mcpServers"]) == ["other", "ralph"]


def test_another_program_path_renews_our_entries_and_keeps_what_people_did(
    here: Path, wish: Callable[..., SetupOptions]
) -> None:
    for agent in RECIPES:
        apply_plan(plan_setup(agent, wish(path="/old/ralph")))
    settings, servers = here / ".claude/settings.local.json", here / ".mcp.json"
    value = loaded(settings)
    value["hooks"]["Stop"][0]["hooks"].append({"type": "command", "command": "mine"})
    settings.write_text(json.dumps({"first": 1, **value}))
    servers.write_text(servers.read_text().replace('"args"', '"alwaysLoad": true, "args"'))

    for agent in RECIPES:
        apply_plan(plan_setup(agent, wish()))

    after = contents(here)
    assert not [name for name, content in after.items() if b"/old/ralph" in (content or b"") and "/setup" not in name]
    assert [hook["command"] for hook in loaded(settings)["hooks"]["Stop"][0]["hooks"]] == [
        f"'{PROGRAM}' hook stop --agent claude",
        "mine",
    ]
    assert next(iter(loaded(settings))) == "first"
    assert loaded(servers)["mcpServers"]["ralph"] == {"command": PROGRAM, "alwaysLoad": True, "args": ["mcp"]}


def test_what_a_person_added_to_our_group_of_hooks_stays_when_ours_go(
    here: Path, wish: Callable[..., SetupOptions]
) -> None:
    apply_plan(plan_setup("claude", wish()))
    settings = here / ".claude/settings.local.json"
    value = loaded(settings)
    value["hooks"]["Stop"][0]["hooks"].append({"type": "command", "command": "mine"})
    settings.write_text(json.dumps(value, indent=2))

    apply_plan(plan_removal("claude", wish()))

    assert loaded(settings) == {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "mine"}]}]}}


def test_uninstall_after_a_renewal_gives_what_was_there_at_first(here: Path, wish: Callable[..., SetupOptions]) -> None:
    put(here, ".gemini/settings.json", '{"theme":"dark"}')
    before = contents(here)

    apply_plan(plan_setup("gemini", wish(path="/old/ralph")))
    apply_plan(plan_setup("gemini", wish()))
    apply_plan(plan_removal("gemini", wish()))

    assert contents(here) == before


def test_a_table_of_codex_is_renewed_with_what_a_person_added_and_goes_alone(
    here: Path, wish: Callable[..., SetupOptions]
) -> None:
    apply_plan(plan_setup("codex", wish(path="/old/ralph")))
    settings = here / ".codex/config.toml"
    named = settings.read_text().replace('"RALPH_STORE"]', '"RALPH_STORE", "MINE"]')
    settings.write_text(named + "startup_timeout_sec = 20\n\n# theirs\n[other]\na = 1\n")

    apply_plan(plan_setup("codex", wish()))
    renewed = tomllib.loads(settings.read_text())
    settings.write_text("b = 2\n" + settings.read_text())
    apply_plan(plan_removal("codex", wish()))

    assert renewed["mcp_servers"]["ralph"] == {
        **{"command": PROGRAM, "args": ["mcp"], "startup_timeout_sec": 20},
        "env_vars": [*SERVER_ENV_VARIABLES, "MINE"],
    }
    assert tomllib.loads(settings.read_text()) == {"b": 2, "other": {"a": 1}}
    assert "# theirs" in settings.read_text()


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers = { other = { url = "u" } }\n',
        '[mcp_servers]\nother = { url = "u" }\n\n# about b\n[b]\nc = 1\n',
        'mcp_servers.other.url = "u"\n',
    ],
)
def test_servers_of_codex_may_have_any_form(text: str, here: Path, wish: Callable[..., SetupOptions]) -> None:
    settings = put(here, ".codex/config.toml", text)

    apply_plan(plan_setup("codex", wish()))
    written = tomllib.loads(settings.read_text())
    settings.write_text("# edited\n" + settings.read_text())
    apply_plan(plan_removal("codex", wish()))

    assert list(written["mcp_servers"]) == ["other", "ralph"]
    assert tomllib.loads(settings.read_text()) == tomllib.loads(text)
    assert settings.read_text().count("#") == text.count("#") + 1


@pytest.mark.parametrize(
    ("agent", "name", "text"),
    [
        ("claude", ".mcp.json", '{"mcpServers": {"ralph": {"command": "other-ralph"}}}'),
        ("gemini", ".gemini/settings.json", '{"mcpServers": {"ralph": {"url": "u"}}}'),
        ("opencode", "opencode.json", '{"mcp": {"ralph": {"type": "remote"}}}'),
        ("codex", ".codex/config.toml", '[mcp_servers.ralph]\ncommand = "x"\n'),
    ],
)
def test_a_server_of_our_name_that_is_not_ours_is_replaced_only_by_force(
    agent: str, name: str, text: str, here: Path, wish: Callable[..., SetupOptions]
) -> None:
    path = put(here, name, text)
    before = contents(here)

    with pytest.raises(UsageError, check=lambda error: error.code == "foreign-server"):
        plan_setup(agent, wish())
    unforced = contents(here)
    apply_plan(plan_setup(agent, wish(), force=True))
    forced = path.read_text()
    apply_plan(plan_removal(agent, wish()))

    assert unforced == before
    assert PROGRAM in forced
    assert contents(here) == before


@pytest.mark.parametrize(
    "text", ['{"a": 1', "[]", '{"hooks": []}', '{"hooks": {"Stop": {}}}', '{"enabledMcpjsonServers": "all"}']
)
def test_a_file_that_cannot_be_understood_is_refused_and_nothing_is_changed(
    text: str, here: Path, wish: Callable[..., SetupOptions]
) -> None:
    put(here, ".claude/settings.local.json", text)
    before = contents(here)

    with pytest.raises(UsageError, check=lambda error: error.code == "invalid-settings"):
        plan_setup("claude", wish())

    assert contents(here) == before


def test_a_file_that_is_not_utf8_or_is_a_folder_is_refused(here: Path, wish: Callable[..., SetupOptions]) -> None:
    put(here, ".gemini/settings.json", "").write_bytes('{"a": 1}'.encode("utf-16"))
    (here / ".mcp.json").mkdir()

    with pytest.raises(UsageError, check=lambda error: error.code == "invalid-settings"):
        plan_setup("gemini", wish())
    with pytest.raises(UsageError, check=lambda error: error.code == "unreadable-settings"):
        plan_setup("claude", wish())


def test_links_and_permissions_stay(here: Path, tmp_path: Path, wish: Callable[..., SetupOptions]) -> None:
    real = put(tmp_path, "dotfiles/settings.json", '{"a": 1}\n')
    real.chmod(0o640)
    (here / ".gemini").mkdir()
    (here / ".gemini/settings.json").symlink_to(real)

    plan = plan_setup("gemini", wish())
    apply_plan(plan)
    is_link, mode = (here / ".gemini/settings.json").is_symlink(), real.stat().st_mode & 0o777
    written = real.read_text()
    apply_plan(plan_removal("gemini", wish()))

    assert plan.notes == (f".gemini/settings.json is behind a symbolic link out of the project: {real}.",)
    assert (is_link, mode) == (True, 0o640)
    assert PROGRAM in written
    assert (here / ".gemini/settings.json").is_symlink()
    assert real.read_text() == '{"a": 1}\n'


def test_a_skill_that_somebody_changed_is_left_as_it_is(here: Path, wish: Callable[..., SetupOptions]) -> None:
    apply_plan(plan_setup("claude", wish()))
    path = here / ".claude/skills/ralph-memory/SKILL.md"
    path.write_text("mine")

    again = plan_setup("claude", wish())
    apply_plan(plan_removal("claude", wish()))

    assert (again.changes, len(again.notes)) == ((), 1)
    assert path.read_text() == "mine"


def test_a_file_saved_between_the_plan_and_the_change_is_not_overwritten(
    here: Path, wish: Callable[..., SetupOptions]
) -> None:
    path = put(here, ".gemini/settings.json", "{}")
    plan = plan_setup("gemini", wish())
    path.write_text('{"saved": "meanwhile"}')

    with pytest.raises(RalphError, check=lambda error: error.code == "file-changed"):
        apply_plan(plan)

    assert path.read_text() == '{"saved": "meanwhile"}'


# --- the way back ------------------------------------------------------------------------


def test_what_is_kept_for_the_way_back_is_private_and_out_of_git(here: Path, wish: Callable[..., SetupOptions]) -> None:
    put(here, ".gemini/settings.json", '{"key": "secret"}')

    apply_plan(plan_setup("gemini", wish()))

    folder = here / ".ralph/setup"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "gemini.json").stat().st_mode & 0o777 == 0o600
    assert (folder / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize("agent", [name for name in RECIPES if name not in ("cline", "windsurf")])
def test_without_what_was_kept_our_entries_are_taken_out_all_the_same(
    agent: str, here: Path, wish: Callable[..., SetupOptions]
) -> None:
    put(here, next(name for name in reversed(FILES[agent]) if not name.endswith("SKILL.md")), '{\n  "mine": 1\n}\n')
    before = contents(here)
    apply_plan(plan_setup(agent, wish()))
    OriginalFiles(here / ".ralph/setup", agent).write({})

    apply_plan(plan_removal(agent, wish()))

    after = {name: content for name, content in contents(here).items() if content}
    assert {name: content for name, content in before.items() if content}.items() <= after.items()
    assert not any(PROGRAM.encode() in content for content in after.values())


def test_what_was_kept_leads_to_no_file_but_those_of_the_agent(
    here: Path, tmp_path: Path, wish: Callable[..., SetupOptions]
) -> None:
    other = put(tmp_path, "other.txt", "precious")
    (tmp_path / "empty").mkdir()
    apply_plan(plan_setup("claude", wish()))
    kept = OriginalFiles(here / ".ralph/setup", "claude")
    originals = {name: replace(one, created_directories=("../empty",)) for name, one in kept.read().items()}
    kept.write({**originals, "../other.txt": OriginalFile(content=b"evil", written_digest=content_digest(b"precious"))})

    apply_plan(plan_removal("claude", wish()))

    assert other.read_text() == "precious"
    assert (tmp_path / "empty").exists()
    assert not (here / ".mcp.json").exists()


@pytest.mark.parametrize("damage", ["", "{", '{"a": 1}', "[]", "[" * 100_000])
def test_damage_to_what_was_kept_is_said_and_stops_nobody(
    damage: str, here: Path, wish: Callable[..., SetupOptions]
) -> None:
    put(here, ".mcp.json", '{"mine": 1}')
    put(here, ".ralph/setup/claude.json", damage)

    first = plan_setup("claude", wish())
    apply_plan(first)
    again = plan_setup("claude", wish())
    put(here, ".ralph/setup/claude.json", damage)
    last = plan_removal("claude", wish())
    apply_plan(last)

    assert all(" is damaged: " in one.notes[0] for one in (first, last))
    assert (again.changes, again.notes) == ((), ())
    assert loaded(here / ".mcp.json") == {"mine": 1}
    assert not (here / ".ralph/setup").exists()


def test_what_is_kept_is_never_seen_half_written(
    here: Path, wish: Callable[..., SetupOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    kept = here / ".ralph/setup/claude.json"
    monkeypatch.setattr(os, "fsync", lambda _: seen.append(kept.read_bytes() if kept.exists() else None))

    apply_plan(plan_setup("claude", wish()))

    assert seen[0] is None
    assert all(one is None or json.loads(one) for one in seen)


def test_what_came_with_a_repository_does_not_say_what_setup_wrote(
    here: Path, wish: Callable[..., SetupOptions]
) -> None:
    entry = {"command": "/x/ralph", "args": ["mcp"], "env": {"PYTHONPATH": "hostile"}}
    servers = put(here, ".mcp.json", json.dumps({"mcpServers": {"ralph": entry}}))
    original = OriginalFile(content=None, written_digest=content_digest(servers.read_bytes()))
    OriginalFiles(here / ".ralph/setup", "claude").write({".mcp.json": original})
    for words in (["init", "-q"], ["add", "-f", ".mcp.json", ".ralph/setup/claude.json"]):
        subprocess.run(["git", *words], cwd=here, check=True)

    plan = plan_setup("claude", wish())
    apply_plan(plan)

    assert any("is tracked by git and therefore not trusted" in note for note in plan.notes)
    assert loaded(servers) == {"mcpServers": {"ralph": entry}}
    assert list(loaded(here / ".claude/settings.local.json")) == ["hooks"]


def test_files_with_paths_of_this_machine_stay_out_of_git(here: Path, wish: Callable[..., SetupOptions]) -> None:
    subprocess.run(["git", "init", "-q"], cwd=here, check=True)
    exclude = here / ".git/info/exclude"
    before = exclude.read_bytes() if exclude.exists() else None
    for agent in RECIPES:
        apply_plan(plan_setup(agent, wish()))

    status = subprocess.run(["git", "status", "--short", "-uall"], cwd=here, capture_output=True, text=True, check=True)
    for agent in reversed(RECIPES):
        apply_plan(plan_removal(agent, wish()))

    assert {line[3:] for line in status.stdout.splitlines()} == {
        name for names in FILES.values() for name in names if name.endswith(("SKILL.md", "AGENTS.md"))
    }
    assert (exclude.read_bytes() if exclude.exists() else None) == before


def test_agents_may_be_disconnected_in_any_order(here: Path, wish: Callable[..., SetupOptions]) -> None:
    subprocess.run(["git", "init", "-q"], cwd=here, check=True)
    exclude = put(here, ".git/info/exclude", "*.mine")
    for agent in RECIPES:
        apply_plan(plan_setup(agent, wish()))

    for agent in RECIPES:
        apply_plan(plan_removal(agent, wish()))

    assert exclude.read_text().strip() == "*.mine"
    assert contents(here) == {".ralph": None}


def test_a_file_that_git_has_already_is_named(here: Path, wish: Callable[..., SetupOptions]) -> None:
    put(here, ".mcp.json", "{}")
    for words in (["init", "-q"], ["add", ".mcp.json"]):
        subprocess.run(["git", *words], cwd=here, check=True)

    plan = plan_setup("claude", wish())

    assert any(note.startswith(".mcp.json is tracked by git") for note in plan.notes)


def test_a_project_that_was_moved_is_disconnected_where_it_is(
    here: Path, tmp_path: Path, wish: Callable[..., SetupOptions]
) -> None:
    apply_plan(plan_setup("claude", wish()))
    moved = here.rename(tmp_path / "moved")

    apply_plan(plan_removal("claude", setup_options(moved, environment=dict(os.environ), words=(PROGRAM,))))

    assert contents(moved) == {".ralph": None}


# --- one repository, several projects -------------------------------------------------------


def in_one_repository(tmp_path: Path, *names: str) -> list[SetupOptions]:
    """Return what is wanted for each of some projects in one git repository."""
    subprocess.run(["git", "init", "-q", str(tmp_path / "all")], check=True)
    projects = [tmp_path / "all" / name for name in names]
    for project in projects:
        (project / ".ralph").mkdir(parents=True)
    home = {"HOME": str(tmp_path / "home")}
    return [setup_options(project, environment=home, words=(PROGRAM,)) for project in projects]


def seen_by_git(directory: Path) -> set[bytes]:
    words = ["git", "ls-files", "-z", "--others", "--exclude-standard"]
    found = subprocess.run(words, cwd=directory, capture_output=True, check=True).stdout.split(b"\0")
    return {name for name in found if name and b"SKILL.md" not in name}


def test_projects_in_one_repository_do_not_take_away_each_others_lines(tmp_path: Path) -> None:
    one, other = in_one_repository(tmp_path, "a", "b")
    exclude = put(tmp_path / "all", ".git/info/exclude", "*.mine\n")

    apply_plan(plan_setup("claude", one))
    apply_plan(plan_setup("claude", other))
    both = seen_by_git(tmp_path / "all")
    apply_plan(plan_removal("claude", one))
    left = seen_by_git(tmp_path / "all")
    apply_plan(plan_removal("claude", other))

    assert (both, left) == (set(), set())
    assert exclude.read_text() == "*.mine\n"


@pytest.mark.parametrize("name", ["app[1]", "a b ", "#x", "!x", " x", "st*r", "wh?t", "back\\slash"])
def test_whatever_a_folder_is_called_its_files_stay_out_of_git(name: str, tmp_path: Path) -> None:
    [wish] = in_one_repository(tmp_path, name)
    put(tmp_path / "all", "app1/.mcp.json", "{}")

    apply_plan(plan_setup("claude", wish))

    assert seen_by_git(tmp_path / "all") == {b"app1/.mcp.json"}


# --- what people wrote is theirs --------------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "name", "text"),
    [
        ("claude", ".mcp.json", '{"mcpServers": {"ralph": {"command": "ralph", "args": ["mcp"], "env": {"A": "b"}}}}'),
        ("claude", ".mcp.json", '{"mcpServers": {"ralph": {"command": "/mine/ralph", "args": ["mcp"]}}}'),
        ("gemini", ".gemini/settings.json", '{"mcpServers": {"ralph": {"command": "ralph", "args": ["mcp"]}}}'),
        ("opencode", "opencode.json", '{"mcp": {"ralph": {"type": "local", "command": ["ralph", "mcp"]}}}'),
        ("codex", ".codex/config.toml", '[mcp_servers.ralph]\ncommand = "ralph"\nargs = ["mcp"]\n'),
    ],
)
def test_a_server_that_a_person_wrote_stays_theirs(
    agent: str, name: str, text: str, here: Path, wish: Callable[..., SetupOptions]
) -> None:
    path = put(here, name, text)

    apply_plan(plan_removal(agent, wish()))
    untouched = path.read_text()
    plan = plan_setup(agent, wish())
    apply_plan(plan)
    entry = loaded(path) if path.suffix == ".json" else tomllib.loads(path.read_text())
    apply_plan(plan_setup(agent, wish(with_server=False)))
    apply_plan(plan_removal(agent, wish()))
    back = path.read_text()
    apply_plan(plan_setup(agent, wish(), force=True))
    forced = path.read_text()
    path.write_text(forced + "\n")
    apply_plan(plan_removal(agent, wish()))

    theirs = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    assert untouched == back == text
    assert {key: entry[key] for key in theirs} == theirs
    assert any("that setup did not write, which is left unchanged. --force" in note for note in plan.notes)
    assert PROGRAM in forced
    left = path.read_text()
    assert (json.loads(left) if path.suffix == ".json" else tomllib.loads(left)) == theirs


def test_what_a_person_starts_gets_no_leave_and_their_file_is_not_kept_out_of_git(
    here: Path, wish: Callable[..., SetupOptions]
) -> None:
    put(here, ".mcp.json", '{"mcpServers": {"ralph": {"command": "./ralph", "args": ["mcp"]}}}')
    subprocess.run(["git", "init", "-q"], cwd=here, check=True)

    apply_plan(plan_setup("claude", wish()))
    left = loaded(here / ".claude/settings.local.json")
    apply_plan(plan_setup("claude", wish(), force=True))
    forced = loaded(here / ".claude/settings.local.json")

    assert list(left) == ["hooks"]
    assert forced["enabledMcpjsonServers"] == ["ralph"]
    assert ".mcp.json" in (here / ".git/info/exclude").read_text()
    apply_plan(plan_removal("claude", wish()))
    apply_plan(plan_setup("claude", wish()))
    assert ".mcp.json" not in (here / ".git/info/exclude").read_text()


def test_hooks_that_a_person_wrote_stay_and_are_named(here: Path, wish: Callable[..., SetupOptions]) -> None:
    text = '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "ralph hook stop --agent claude"}]}]}}'
    path = put(here, ".claude/settings.local.json", text)

    apply_plan(plan_removal("claude", wish()))
    untouched = path.read_text()
    plan = plan_setup("claude", wish())
    apply_plan(plan)
    apply_plan(plan_removal("claude", wish()))

    assert untouched == path.read_text() == text
    assert any("hooks that call ralph" in note for note in plan.notes)


def test_what_a_person_has_allowed_stays_when_nothing_was_set_up(here: Path, wish: Callable[..., SetupOptions]) -> None:
    path = put(here, ".claude/settings.local.json", '{"permissions": {"allow": ["mcp__ralph"]}}')
    before = contents(here)

    apply_plan(plan_removal("claude", wish()))
    apply_plan(plan_setup("claude", wish(with_hooks=False, with_server=False)))

    assert path.read_text() == '{"permissions": {"allow": ["mcp__ralph"]}}'
    assert before.items() <= contents(here).items()


@pytest.mark.parametrize("empty", ["", " \n", "\ufeff"])
@pytest.mark.parametrize("parts", [{}, {"with_hooks": False, "with_server": False}])
def test_an_empty_file_comes_back_empty(
    empty: str, parts: dict[str, bool], here: Path, wish: Callable[..., SetupOptions]
) -> None:
    path = put(here, ".claude/settings.local.json", empty)

    apply_plan(plan_setup("claude", wish(**parts)))
    apply_plan(plan_removal("claude", wish()))
    once = path.read_bytes()
    apply_plan(plan_setup("claude", wish()))
    path.write_bytes(path.read_bytes() + b"\n")
    apply_plan(plan_removal("claude", wish()))

    assert once == path.read_bytes() == empty.encode()


# --- files that attack ---------------------------------------------------------------------------


def test_a_program_in_the_directory_is_not_run_in_our_place(here: Path, wish: Callable[..., SetupOptions]) -> None:
    words = ralph_command(str(here / "nowhere"))
    apply_plan(plan_setup("claude", replace(wish(), program=(sys.executable, *words[1:]))))
    put(here, "ralph.py", "print('hostile')")
    command = loaded(here / ".claude/settings.local.json")["hooks"]["Stop"][0]["hooks"][0]["command"]
    server = loaded(here / ".mcp.json")["mcpServers"]["ralph"]

    hook = subprocess.run(command, shell=True, cwd=here, input="{}", capture_output=True, text=True, check=True)
    answer = subprocess.run(
        [server["command"], *server["args"]], cwd=here, input="", capture_output=True, text=True, check=True
    )

    assert "hostile" not in hook.stdout + answer.stdout
    assert json.loads(hook.stdout) == {}


@pytest.mark.parametrize("what", ["zero", "pipe", "large"])
@pytest.mark.parametrize(("agent", "name"), [("claude", ".mcp.json"), ("codex", ".codex/config.toml")])
def test_what_is_no_file_of_settings_is_refused_at_once(
    what: str, agent: str, name: str, here: Path, wish: Callable[..., SetupOptions]
) -> None:
    path = put(here, name, "")
    path.unlink()
    if what == "zero":
        path.symlink_to("/dev/zero")
    elif what == "pipe":
        os.mkfifo(path)
    else:
        path.touch()
        os.truncate(path, 2**25)

    for plan in (plan_setup, plan_removal):
        with pytest.raises(UsageError, check=lambda error: error.code == "unreadable-settings"):
            plan(agent, wish())
    assert check_connections(here, {"HOME": "/nowhere", "PATH": ""}) == []


@pytest.mark.parametrize("group", ['{"hooks": 5}', "{}", "7", '{"hooks": {"command": "x"}}'])
def test_hooks_without_a_list_are_refused_and_uninstall_leaves_them(
    group: str, here: Path, wish: Callable[..., SetupOptions]
) -> None:
    path = put(here, ".claude/settings.local.json", f'{{"hooks": {{"Stop": [{group}]}}, "ralph": 1}}')
    before = path.read_bytes()

    with pytest.raises(UsageError, check=lambda error: error.code == "invalid-settings"):
        plan_setup("claude", wish())
    apply_plan(plan_removal("claude", wish()))

    assert path.read_bytes() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_stays_its_owners(here: Path, wish: Callable[..., SetupOptions]) -> None:
    path = put(here, ".gemini/settings.json", "{}")
    path.chmod(0o640)
    os.chown(path, 1234, 2345)

    apply_plan(plan_setup("gemini", wish()))

    found = path.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (1234, 2345, 0o640)


def test_a_folder_that_is_a_link_is_named(here: Path, tmp_path: Path, wish: Callable[..., SetupOptions]) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (here / ".gemini").symlink_to(elsewhere)

    plan = plan_setup("gemini", wish())
    apply_plan(plan)
    back = plan_removal("gemini", wish())

    assert [str(elsewhere) in note for note in (*plan.notes, *back.notes)] == [True] * 4


# --- a section of a guide -------------------------------------------------------------------

GUIDES = ["# Mine\n", "# Mine", "# Mine\r\nIn two lines.\r\n", "", "\n\n", "# Mine\n\n\n"]


@pytest.mark.parametrize("text", GUIDES)
def test_a_section_is_added_after_an_empty_line_and_taken_out_byte_for_byte(
    text: str, here: Path, wish: Callable[..., SetupOptions]
) -> None:
    guide = put(here, "AGENTS.md", text)

    apply_plan(plan_setup("agents-md", wish()))
    once = guide.read_bytes()
    apply_plan(plan_setup("agents-md", wish()))
    twice = guide.read_bytes()
    apply_plan(plan_removal("agents-md", wish()))

    assert once == twice
    assert once.startswith(text.encode())
    assert b"ralph memory search" in once
    assert b"\r\n" not in once or b"\n" not in once.replace(b"\r\n", b"")
    assert guide.read_bytes() == text.encode()


@pytest.mark.parametrize("text", GUIDES)
@pytest.mark.parametrize("is_kept", [True, False])
def test_what_a_person_writes_around_the_section_stays(
    text: str, is_kept: bool, here: Path, wish: Callable[..., SetupOptions]
) -> None:
    guide = put(here, "AGENTS.md", text)
    apply_plan(plan_setup("agents-md", wish()))
    guide.write_bytes(b"First.\n" + guide.read_bytes() + b"Last.\n")
    if not is_kept:
        OriginalFiles(here / ".ralph/setup", "agents-md").write({})

    apply_plan(plan_removal("agents-md", wish()))

    left = guide.read_bytes()
    assert b"ralph" not in left
    assert left.replace(b"\r\n", b"\n").split() == f"First. {text} Last.".encode().split()


def test_after_a_change_below_the_section_the_rest_is_as_before(here: Path, wish: Callable[..., SetupOptions]) -> None:
    guide = put(here, "AGENTS.md", "# Mine\n\nOne rule.\n")
    apply_plan(plan_setup("agents-md", wish()))
    guide.write_bytes(guide.read_bytes() + b"\nAnother rule.\n")

    apply_plan(plan_removal("agents-md", wish()))

    assert guide.read_text() == "# Mine\n\nOne rule.\n\nAnother rule.\n"


def test_a_section_that_was_edited_is_renewed_in_its_place(here: Path, wish: Callable[..., SetupOptions]) -> None:
    guide = put(here, "AGENTS.md", "# Mine\n")
    apply_plan(plan_setup("agents-md", wish()))
    wanted = guide.read_text() + "Below.\n"
    guide.write_text(wanted.replace("ralph prime", "something else"))

    apply_plan(plan_setup("agents-md", wish()))

    assert guide.read_text() == wanted


def test_a_guide_is_of_one_project(wish: Callable[..., SetupOptions]) -> None:
    for plan in (plan_setup, plan_removal):
        with pytest.raises(UsageError) as error:
            plan("agents-md", wish(user=True))
        assert error.value.code == "no-user-setup"


# --- agents that are not in the tests with real agents ---------------------------------------


def test_copilot_gets_hooks_in_a_file_of_its_own_with_the_fields_of_claude_code(
    here: Path, wish: Callable[..., SetupOptions]
) -> None:
    apply_plan(plan_setup("copilot", wish()))

    hooks = loaded(here / ".github/hooks/ralph.json")
    assert hooks["version"] == 1
    assert hooks["hooks"]["SessionStart"] == [
        {"type": "command", "command": f"'{PROGRAM}' hook session-start --agent copilot", "timeout": 10}
    ]
    assert loaded(here / ".github/mcp.json") == {"mcpServers": {"ralph": {"command": PROGRAM, "args": ["mcp"]}}}
    assert not (here / ".mcp.json").exists()


@pytest.mark.parametrize("name", ["kilo.jsonc", "kilo.json", ".kilo/kilo.json"])
def test_kilo_is_connected_in_the_settings_that_are_there(
    name: str, here: Path, wish: Callable[..., SetupOptions]
) -> None:
    settings = put(here, name, '{\n  // mine\n  "model": "m",\n}\n')

    apply_plan(plan_setup("kilo", wish()))
    after = settings.read_text()
    apply_plan(plan_removal("kilo", wish()))

    assert '"type": "local"' in after
    assert not (here / ".kilo/kilo.jsonc").exists()
    assert settings.read_text() == '{\n  // mine\n  "model": "m",\n}\n'


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("cline", ".cline/data/settings/cline_mcp_settings.json"),
        ("windsurf", ".codeium/windsurf/mcp_config.json"),
        ("antigravity", ".gemini/config/mcp_config.json"),
    ],
)
def test_servers_for_all_projects_are_added_to_those_that_are_there(
    agent: str, name: str, tmp_path: Path, wish: Callable[..., SetupOptions]
) -> None:
    text = '{"mcpServers": {"other": {"command": "x"}}}'
    settings = put(tmp_path / "home", name, text)

    apply_plan(plan_setup(agent, wish(user=True)))
    servers = loaded(settings)["mcpServers"]
    apply_plan(plan_removal(agent, wish(user=True)))

    assert servers == {"other": {"command": "x"}, "ralph": {"command": PROGRAM, "args": ["mcp"]}}
    assert settings.read_text() == text


def test_a_file_that_another_agent_uses_too_is_named_when_it_goes(
    here: Path, wish: Callable[..., SetupOptions]
) -> None:
    apply_plan(plan_setup("codex", wish()))
    apply_plan(plan_setup("antigravity", wish()))

    plan = plan_removal("codex", wish())

    assert plan.notes == (
        ".agents/skills/ralph-memory/SKILL.md is used by antigravity too. Run: ralph setup antigravity",
    )
