"""Agents with Ralph connected: Claude Code and Gemini, and what opencode loads, in a program of ours."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ralph.integrations.setup
from ralph.core import skill
from ralph.integrations.setup import apply_plan, plan_removal, plan_setup, plugin_directory, setup_options
from ralph.project import Project
from tests.real_agents.model_server import ModelServer, calls, says

KNOWN = "The parser wants tabs, never spaces."
LEARNED = "The build needs forty files open at once"
OURS = Path(sys.executable).parent


@pytest.fixture
def a_project_that_knows(a_git_project: Path) -> Path:
    with Project.open(a_git_project) as project:
        project.memory.add(KNOWN)
    return a_git_project


def run_claude(claude: Path, directory: Path, *words: str, path: str | None = None) -> list[dict[str, Any]]:
    """Run a session and give its events."""
    environment = {**os.environ, "PATH": path or f"{OURS}{os.pathsep}{os.environ['PATH']}"}
    command = [str(claude), "-p", "--output-format", "stream-json", "--verbose", *words]
    ran = subprocess.run(
        command, input="How is the parser fed?", cwd=directory, env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def servers(events: list[dict[str, Any]]) -> dict[str, str]:
    begun = next(one for one in events if one.get("subtype") == "init")
    return {one["name"]: one["status"] for one in begun["mcp_servers"]}


def remembered(directory: Path) -> list[str]:
    with Project.open(directory) as project:
        return [one.content for one in project.store.memories.all()]


def test_the_plugin_works_from_its_folder_and_what_one_session_learns_the_next_is_told(
    claude: Path, model: ModelServer, a_project_that_knows: Path
) -> None:
    model.play(says(f"With tabs.\n\nMEMORY:constraint:{LEARNED}"), says("As before."))

    events = run_claude(claude, a_project_that_knows, "--plugin-dir", str(plugin_directory()))
    run_claude(claude, a_project_that_knows, "--plugin-dir", str(plugin_directory()))

    first, second = (one for one in model.requests if one.tools)
    assert first.has(KNOWN)
    assert first.has(skill.SKILL_DESCRIPTION[:60])
    assert not first.has(LEARNED)
    assert second.has(KNOWN, LEARNED)
    assert "connected" in [status for name, status in servers(events).items() if "ralph" in name]


def test_the_tools_of_the_plugin_can_be_allowed_by_one_word(
    claude: Path, model: ModelServer, a_project_that_knows: Path
) -> None:
    model.play(calls("mcp__plugin_ralph_ralph__remember", {"content": LEARNED}), says("Noted."))
    words = ("--plugin-dir", str(plugin_directory()), "--allowedTools", "mcp__plugin_ralph_ralph")

    events = run_claude(claude, a_project_that_knows, *words)

    assert events[-1]["permission_denials"] == []
    assert LEARNED in remembered(a_project_that_knows)


def test_the_plugin_disturbs_nothing_where_ralph_is_not_installed(
    claude: Path, model: ModelServer, a_project_that_knows: Path, tmp_path: Path
) -> None:
    model.play(says("With tabs."))
    without = os.pathsep.join(
        folder for folder in os.environ["PATH"].split(os.pathsep) if not (Path(folder) / "ralph").exists()
    )

    events = run_claude(claude, a_project_that_knows, "--plugin-dir", str(plugin_directory()), path=without)

    assert events[-1]["is_error"] is False
    assert not any(one.has(KNOWN) for one in model.requests)


def test_claude_code_uses_what_setup_wrote_and_no_more_once_it_is_taken_out(
    claude: Path, model: ModelServer, a_project_that_knows: Path
) -> None:
    wish = setup_options(a_project_that_knows)
    model.play(says(f"With tabs.\n\nMEMORY:constraint:{LEARNED}"), says("No idea."))

    apply_plan(plan_setup("claude", wish))
    events = run_claude(claude, a_project_that_knows, path=os.environ["PATH"])
    apply_plan(plan_removal("claude", wish))
    later = run_claude(claude, a_project_that_knows, path=os.environ["PATH"])

    first, last = (one for one in model.requests if one.tools)
    assert first.has(KNOWN)
    assert first.has(skill.SKILL_DESCRIPTION[:60])
    assert servers(events)["ralph"] == "connected"
    assert any(LEARNED in body for body in remembered(a_project_that_knows))
    assert not last.has(KNOWN)
    assert "ralph" not in servers(later)


def test_claude_code_uses_what_setup_wrote_for_all_projects(
    claude: Path, model: ModelServer, a_project_that_knows: Path
) -> None:
    model.play(says("With tabs."))

    apply_plan(plan_setup("claude", setup_options(None)))
    events = run_claude(claude, a_project_that_knows, path=os.environ["PATH"])

    assert any(one.has(KNOWN) for one in model.requests)
    assert servers(events)["ralph"] == "connected"
    assert not (a_project_that_knows / ".mcp.json").exists()


@pytest.mark.parametrize("for_all_projects", [False, True])
def test_after_setup_claude_code_may_use_the_tools_though_nobody_can_be_asked(
    claude: Path, model: ModelServer, a_project_that_knows: Path, for_all_projects: bool
) -> None:
    model.play(calls("mcp__ralph__remember", {"content": LEARNED}), says("Noted."))

    apply_plan(plan_setup("claude", setup_options(None if for_all_projects else a_project_that_knows)))
    events = run_claude(claude, a_project_that_knows, path=os.environ["PATH"])

    assert events[-1]["permission_denials"] == []
    assert LEARNED in remembered(a_project_that_knows)


def test_without_that_leave_claude_code_refuses_the_tools(
    claude: Path, model: ModelServer, a_project_that_knows: Path
) -> None:
    model.play(calls("mcp__ralph__remember", {"content": LEARNED}), says("I may not."))
    apply_plan(plan_setup("claude", setup_options(a_project_that_knows)))
    settings = a_project_that_knows / ".claude/settings.local.json"
    settings.write_text(settings.read_text().replace("mcp__ralph", "mcp__other"))

    events = run_claude(claude, a_project_that_knows, path=os.environ["PATH"])

    assert [one["tool_name"] for one in events[-1]["permission_denials"]] == ["mcp__ralph__remember"]
    assert LEARNED not in remembered(a_project_that_knows)


def test_what_a_person_denies_stays_denied_after_setup(
    claude: Path, model: ModelServer, a_project_that_knows: Path
) -> None:
    model.play(calls("mcp__ralph__remember", {"content": LEARNED}), says("I may not."))
    settings = a_project_that_knows / ".claude/settings.local.json"
    settings.write_text('{"permissions": {"deny": ["mcp__ralph"]}}')
    apply_plan(plan_setup("claude", setup_options(a_project_that_knows)))

    run_claude(claude, a_project_that_knows, path=os.environ["PATH"])

    assert LEARNED not in remembered(a_project_that_knows)


@pytest.mark.parametrize("trusted", [True, False])
def test_gemini_uses_the_tools_unasked_because_setup_trusts_the_server(
    gemini: Path, model: ModelServer, a_project_that_knows: Path, trusted: bool
) -> None:
    tool = "mcp_ralph_remember"
    model.play(calls(tool, {"content": LEARNED}), says("Noted."))
    apply_plan(plan_setup("gemini", setup_options(a_project_that_knows)))
    settings = a_project_that_knows / ".gemini/settings.json"
    settings.write_text(settings.read_text().replace('"trust": true', f'"trust": {json.dumps(trusted)}'))

    subprocess.run(
        [str(gemini), "-p", "How is the parser fed?", "-o", "stream-json"],
        cwd=a_project_that_knows,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )

    assert (LEARNED in remembered(a_project_that_knows)) == trusted


def test_gemini_uses_what_setup_wrote(gemini: Path, model: ModelServer, a_project_that_knows: Path) -> None:
    model.play(says(f"With tabs.\n\nMEMORY:constraint:{LEARNED}"))

    apply_plan(plan_setup("gemini", setup_options(a_project_that_knows)))
    ran = subprocess.run(
        [str(gemini), "-p", "How is the parser fed?", "-o", "stream-json", "-y"],
        cwd=a_project_that_knows,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    request = next(one for one in model.requests if one.tools)
    assert request.has(KNOWN)
    assert any("search_memories" in name for name in request.tools)
    assert any(LEARNED in body for body in remembered(a_project_that_knows))


# --- opencode: its plugin, in a program of ours ------------------------------------------

HOOK = """#!{python}
import json, sys, time
given = json.load(sys.stdin)
time.sleep({seconds})
with open({told!r}, "a") as file:
    file.write(json.dumps([sys.argv[2], given["session_id"], given]) + "\\n")
print(json.dumps({{"hookSpecificOutput": {{"additionalContext": "Told " + sys.argv[2]}}}}))
"""
PLAY = """
import {{ RalphMemory }} from "./plugin.mjs"
const hooks = await RalphMemory({{ directory: {directory} }})
const event = (type, id, more) => hooks.event({{ event: {{ type, properties: {{ sessionID: id, ...more }} }} }})
const asks = async (id) => {{
  const parts = [{{ id: "p", type: "text", text: "How?" }}]
  await hooks["chat.message"]({{ sessionID: id }}, {{ message: {{ id: "m" }}, parts }})
  return parts.slice(1).map((part) => part.text).join()
}}
const says = (id, text) => hooks["experimental.text.complete"]({{ sessionID: id }}, {{ text }})
const print = (...words) => console.log(JSON.stringify(words))
{script}
"""


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., tuple[list[Any], list[Any]]]:
    """Give what plays a script with the plugin: what the script printed, and what the hooks were told, in order."""
    node = shutil.which("node")
    if not node:
        pytest.skip("node is not installed here")

    def played(script: str, seconds: float = 0.0) -> tuple[list[Any], list[Any]]:
        hook, told = tmp_path / "hook", tmp_path / "told"
        hook.write_text(HOOK.format(python=sys.executable, seconds=seconds, told=str(told)))
        hook.chmod(0o755)
        plugin = Path(ralph.integrations.setup.__file__).with_name("opencode.js").read_text()
        (tmp_path / "plugin.mjs").write_text(plugin.replace("__PROGRAM__", json.dumps([str(hook)])))
        (tmp_path / "play.mjs").write_text(PLAY.format(directory=json.dumps(str(tmp_path)), script=script))
        ran = subprocess.run([node, "play.mjs"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert (ran.returncode, ran.stderr) == (0, "")
        return [json.loads(line) for line in ran.stdout.splitlines()], _lines_of(told)

    return played


def _lines_of(told: Path) -> list[Any]:
    """Give what the hooks wrote down, once no more comes."""
    deadline, seen = time.monotonic() + 20, -1
    while time.monotonic() < deadline:
        size = told.stat().st_size if told.exists() else 0
        if size == seen:
            break
        seen = size
        time.sleep(1.5)
    return [json.loads(line) for line in told.read_text().splitlines()]


def test_opencode_is_not_held_up_by_what_has_only_to_be_kept(play: Callable[..., tuple[list[Any], list[Any]]]) -> None:
    printed, told = play(
        """
        await event("session.created", "s", { info: { id: "s" } })
        print(await asks("s"))
        await says("s", "MEMORY: one")
        const began = Date.now()
        event("session.idle", "s")
        let ticks = 0
        const timer = setInterval(() => ticks++, 5)
        await new Promise((later) => setTimeout(later, 200))
        clearInterval(timer)
        print(ticks)
        print(await asks("s"), Date.now() - began)
        """,
        seconds=0.4,
    )

    assert printed[0] == ["Told session-start\n\nTold user-prompt-submit"]
    assert printed[1][0] > 2  # held up, it would tick once at most
    assert printed[2][0] == "Told user-prompt-submit"
    assert [event for event, _, _ in told] == [
        *("session-start", "user-prompt-submit", "stop", "user-prompt-submit", "session-end"),
    ]
    assert told[2][2]["last_assistant_message"] == "MEMORY: one"


@pytest.mark.parametrize("wait", ["", "await new Promise((later) => setTimeout(later, 100))"])
def test_what_opencode_learned_is_kept_when_it_ends_at_once(
    play: Callable[..., tuple[list[Any], list[Any]]], wait: str
) -> None:
    _, told = play(
        f"""
        await says("s", "MEMORY: one")
        await says("t", "x".repeat(300_000))
        event("session.idle", "s")
        event("session.idle", "t")
        event("session.compacted", "s")
        {wait}
        process.exit(0)
        """,
        seconds=0.3,
    )

    assert sorted((event, session) for event, session, _ in told) == [
        *(("post-compact", "s"), ("stop", "s"), ("stop", "t")),
    ]


def test_only_a_session_that_began_here_is_told_everything(
    play: Callable[..., tuple[list[Any], list[Any]]],
) -> None:
    _, told = play(
        """
        await event("session.created", "new", { info: { id: "new" } })
        await asks("new")
        await asks("old")
        event("session.compacted", "old")
        await asks("old")
        await asks("old")
        """
    )

    assert [(session, given["source"]) for event, session, given in told if event == "session-start"] == [
        *(("new", "startup"), ("old", "resume"), ("old", "compact")),
    ]
    assert [event for event, session, _ in told if session == "old"].index("post-compact") == 2


def test_the_repository_is_a_marketplace_that_has_the_plugin(
    claude: Path, model: ModelServer, a_project_that_knows: Path
) -> None:
    repository = Path(__file__).parents[2]
    model.play(says("With tabs."))

    def plugin(*words: str) -> str:
        ran = subprocess.run([str(claude), "plugin", *words], cwd=repository, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    plugin("validate", "./.claude-plugin/marketplace.json")
    plugin("marketplace", "add", "./")
    plugin("install", "ralph@ralph")
    installed = json.loads(plugin("list", "--json"))
    run_claude(claude, a_project_that_knows)

    assert [(one["id"], one["enabled"]) for one in installed] == [("ralph@ralph", True)]
    assert model.requests[0].has(KNOWN)
