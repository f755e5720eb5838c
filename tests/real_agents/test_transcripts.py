"""The transcripts that real agents write: what was said comes out of them once, and nothing that Ralph put in.

Codex and opencode are not among the programs that `make test-agents` installs; where they are in the PATH, they are
tested too.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from ralph.formats.transcripts import READERS
from ralph.formats.transcripts.base import TranscriptProblem
from tests.formats.transcripts.make import Found
from tests.real_agents.model_server import Call, ModelServer, Step, calls, says
from tests.real_agents.test_hooks import GEMINI_EVENTS, TABS, Claude, asked_claude, hooks, remember, run

__all__ = ["asked_claude"]

FAILING = "ls /nonexistent; exit 3"
FAILED = "ls: cannot access '/nonexistent': No such file or directory"


def transcripts(agent: str, environment: dict[str, str], directory: Path) -> Found:
    """Read the transcripts of a directory, each turn once."""
    reader, problems = READERS[agent], list[TranscriptProblem]()
    found = list(reader.find(environment["HOME"], environment, [str(directory.resolve())], problems.append))
    turns = {turn.key: turn for one in reversed(found) for turn in reversed(list(reader.turns(one, problems.append)))}
    return Found(transcripts=tuple(found), turns=tuple(reversed(turns.values())), problems=tuple(problems))


def test_claude_code_resumed_compacted_and_forked(
    asked_claude: Claude, agent_environment: dict[str, str], model: ModelServer
) -> None:
    directory = asked_claude.directory
    remember(directory, TABS)
    write = Call(name="Write", arguments={"file_path": str(directory / "a.txt"), "content": "x\n"})
    model.play(
        Step(text="I write.", calls=(write,)),
        calls("Bash", {"command": FAILING, "description": "Look"}),
        says("It is written."),
        says("<summary>We spoke of the parser.</summary>"),
        says("Going on."),
        says("After the fork."),
    )
    allowed = ("--permission-mode", "bypassPermissions")

    session = asked_claude.ask("Look at the parser, which wants tabs.", *allowed)
    asked_claude.ask("/compact", "--resume", session)
    asked_claude.ask("Go on.", "--resume", session)
    fork = asked_claude.ask("And now?", "--resume", session, "--fork-session")
    result = transcripts("claude", agent_environment, directory)

    assert [one.session for one in result.transcripts] == [session, fork]
    assert result.said == [
        ("person", "Look at the parser, which wants tabs."),
        ("agent", "I write."),
        ("tool", f"$ {FAILING}\nExit code 3\n{FAILED}"),
        ("agent", "It is written."),
        ("person", "Go on."),
        ("agent", "Going on."),
        ("person", "And now?"),
        ("agent", "After the fork."),
    ]
    assert {file for turn in result.turns for file in turn.files} == {"a.txt"}
    assert {turn.branch for turn in result.turns} == {"main"}
    assert result.problems == ()


def test_a_subagent_of_claude_code(asked_claude: Claude, agent_environment: dict[str, str], model: ModelServer) -> None:
    task = {"description": "Search", "prompt": "Where is the parser?", "subagent_type": "general-purpose"}
    model.play(
        calls("Agent", {**task, "run_in_background": False}, when="Ask somebody."),
        says("It is in src.", when="Where is the parser?"),
        says("Somebody knows.", repeat=True),
    )

    asked_claude.ask("Ask somebody.", "--permission-mode", "bypassPermissions")
    result = transcripts("claude", agent_environment, asked_claude.directory)

    assert [one.is_subagent for one in result.transcripts] == [False, True]
    assert result.said == [("person", "Ask somebody."), ("agent", "Somebody knows."), ("agent", "It is in src.")]
    assert result.problems == ()


def test_gemini(gemini: Path, a_git_project: Path, agent_environment: dict[str, str], model: ModelServer) -> None:
    settings = Path(agent_environment["HOME"]) / ".gemini" / "settings.json"
    with_hooks = {**json.loads(settings.read_text()), "hooks": hooks("gemini", GEMINI_EVENTS, 10_000, name="ralph")}
    settings.write_text(json.dumps(with_hooks))
    remember(a_git_project, TABS)
    write = Call(name="write_file", arguments={"file_path": str(a_git_project / "a.txt"), "content": "x\n"})
    model.play(
        Step(text="I write.", calls=(write,)),
        calls("run_shell_command", {"command": FAILING}),
        says("It is written."),
    )

    words = ["-p", "The parser wants tabs.", "-o", "stream-json", "-y", "-m", "gemini-2.5-pro"]
    run(gemini, words, a_git_project, "")
    result = transcripts("gemini", agent_environment, a_git_project)

    assert result.said == [
        ("person", "The parser wants tabs."),
        ("agent", "I write."),
        ("tool", f"$ {FAILING}\nExit code 3\n{FAILED}"),
        ("agent", "It is written."),
    ]
    assert [turn.files for turn in result.turns] == [(), ("a.txt",), (), ()]
    assert result.problems == ()


# --- in the PATH or not at all ----------------------------------------------------------


def start(name: str, words: Sequence[str], directory: Path, environment: dict[str, str]) -> None:
    """Run a program to its end; skip the test if it is not installed."""
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not in the PATH")
    given = {**environment, "OPENAI_API_KEY": "sk-dummy", "PWD": str(directory)}
    ran = subprocess.run(
        [program, *words],
        cwd=directory,
        env=given,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr + ran.stdout


def test_codex(a_git_project: Path, agent_environment: dict[str, str], model: ModelServer) -> None:
    if shutil.which("codex") is None:
        pytest.skip("codex is not in the PATH")
    config = Path(agent_environment["HOME"]) / ".codex" / "config.toml"
    config.parent.mkdir()
    config.write_text(
        f'model_provider = "m"\nmodel = "gpt-5"\n[model_providers.m]\nname = "m"\nbase_url = "{model.url}/v1"\n'
        'wire_api = "responses"\nenv_key = "OPENAI_API_KEY"\n'
    )
    patch = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch\nEOF"
    model.play(
        Step(text="I look.", calls=(Call(name="exec_command", arguments={"cmd": FAILING}),)),
        calls("exec_command", {"cmd": patch}),
        says("It is written."),
        says("Going on."),
    )
    words = ["exec", "--dangerously-bypass-approvals-and-sandbox"]

    start("codex", [*words, "Look at the parser."], a_git_project, agent_environment)
    start("codex", [*words, "resume", "--last", "Go on."], a_git_project, agent_environment)
    result = transcripts("codex", agent_environment, a_git_project)

    assert result.said == [
        ("person", "Look at the parser."),
        ("agent", "I look."),
        ("tool", f"$ {FAILING}\nExit code 3\n{FAILED}"),
        ("agent", "It is written."),
        ("person", "Go on."),
        ("agent", "Going on."),
    ]
    assert {file for turn in result.turns for file in turn.files} == {"a.txt"}
    assert result.problems == ()


def test_opencode(a_git_project: Path, agent_environment: dict[str, str], model: ModelServer) -> None:
    if shutil.which("opencode") is None:
        pytest.skip("opencode is not in the PATH")
    config = Path(agent_environment["HOME"]) / ".config" / "opencode" / "opencode.json"
    config.parent.mkdir(parents=True)
    models = {"m": {"name": "m", "tool_call": True, "limit": {"context": 100_000, "output": 8_000}}}
    options = {"baseURL": f"{model.url}/v1", "apiKey": "sk-dummy"}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "m", "options": options, "models": models}
    config.write_text(json.dumps({"model": "local/m", "provider": {"local": provider}, "autoupdate": False}))
    model.play(
        Step(text="I write.", calls=(Call(name="write", arguments={"filePath": "a.txt", "content": "x\n"}),)),
        calls("bash", {"command": FAILING, "description": "Look"}),
        says("It is written."),
    )

    environment = {**agent_environment, "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}
    start("opencode", ["run", "Look at the parser."], a_git_project, environment)
    result = transcripts("opencode", agent_environment, a_git_project)

    assert result.said == [
        ("person", "Look at the parser."),
        ("agent", "I write."),
        ("tool", f"$ {FAILING}\nExit code 3\n{FAILED}"),
        ("agent", "It is written."),
    ]
    assert {file for turn in result.turns for file in turn.files} == {"a.txt"}
    assert result.problems == ()
