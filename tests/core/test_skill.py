"""The skill, the plugin that holds it, and what they say."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from ralph import __version__
from ralph.cli import build_parser
from ralph.core import skill
from ralph.integrations.setup import plugin_directory, setup_options
from ralph.integrations.setup.agents import file_edits
from ralph.integrations.setup.edits import JsonEdit


def plugin_json(name: str) -> dict[str, object]:
    read: dict[str, object] = json.loads((plugin_directory() / name).read_text(encoding="utf-8"))
    return read


def test_the_skill_keeps_to_what_agents_allow() -> None:
    _, head, body = skill.SKILL_FILE.split("---\n", 2)

    about = yaml.safe_load(head)

    assert set(about) == {"name", "description"}
    assert about["name"] == skill.SKILL_NAME
    assert re.fullmatch(r"[a-z0-9-]{1,64}", about["name"])
    assert len(about["description"]) <= 1024
    assert len(body.splitlines()) < 60


def test_every_command_the_skill_names_exists() -> None:
    commands = re.findall(r"(?m)^  (ralph .+?)(?:   .*)?$|`(ralph [^`]+)`", skill.SKILL_FILE)

    assert len(commands) == 5
    for command in (first or second for first, second in commands):
        words = shlex.split(command)[1:]
        build_parser(words[0]).parse_args(words)


def test_every_tool_the_skill_names_exists() -> None:
    from ralph.integrations.mcp.tools import TOOLS

    named = set(re.findall(r"`([a-z]+_[a-z_]+|remember)`", skill.SKILL_FILE))

    assert named == {"search_memories", "show_memory", "search_history", "remember", "report_failure"}
    assert named <= set(TOOLS)


def test_the_plugin_holds_the_same_skill_and_version() -> None:
    file = plugin_directory() / "skills" / skill.SKILL_NAME / "SKILL.md"

    assert file.read_text(encoding="utf-8") == skill.SKILL_FILE
    assert plugin_json(".claude-plugin/plugin.json")["version"] == __version__


def plugin_hooks() -> dict[str, dict[str, object]]:
    hooks = plugin_json("hooks/hooks.json")["hooks"]
    assert isinstance(hooks, dict)
    return {event: entries[0]["hooks"][0] for event, entries in hooks.items()}


def test_the_plugin_has_the_hooks_that_setup_writes() -> None:
    wish = setup_options(Path("/nowhere"), environment={"HOME": "/nowhere"}, words=("ralph",))
    settings = file_edits("claude", wish)[0]
    assert isinstance(settings, JsonEdit)

    hooks = plugin_hooks()

    assert list(hooks) == list(settings.hooks)
    for event, hook in settings.hooks.items():
        assert hooks[event]["timeout"] == hook["timeout"]
        assert f"exec {hook['command']};" in str(hooks[event]["command"])


@pytest.mark.parametrize("event", ["SessionStart", "Stop"])
def test_a_hook_of_the_plugin_answers_with_nothing_where_ralph_is_not_installed(event: str, tmp_path: Path) -> None:
    command = str(plugin_hooks()[event]["command"])

    ran = subprocess.run(
        ["/bin/sh", "-c", command],
        env={**os.environ, "PATH": str(tmp_path)},
        input="{}",
        capture_output=True,
        text=True,
    )

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "{}\n", "")
