"""A project made by version 0.1.0 works unchanged, and what programs read keeps its field names.

Fixtures, all written by 0.1.0 and never made anew; a later version gets its own:
- `project-0.1.0.tar.gz`: settings, database (schema 8), memory files, what `ralph setup claude` wrote, log of a run;
- `exports-0.1.0/`: its memories in every export format, after some edits;
- `cli-options-0.1.0.json`: the options of every command and their choices;
- `cli-json-0.1.0.json`, `http-0.1.0.json`: field names of `--format json`, and of requests and responses over HTTP.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ralph
from ralph.cli import COMMANDS, build_parser
from ralph.core.config import load_config
from ralph.project import Project
from ralph.web.openapi import openapi_document
from tests.cli.ran import Ran, run

pytestmark = pytest.mark.sqlite

FIXTURES = Path(__file__).parent / "fixtures"
EXPORTS = FIXTURES / "exports-0.1.0"
CLI_FIELDS: dict[str, list[str]] = json.loads((FIXTURES / "cli-json-0.1.0.json").read_text(encoding="utf-8"))
MONEY = "mem-1794907993-d8b9"
LOGIN = "mem-1794907990-bc97"
ANTIPATTERN = "mem-1794907993-59d9"
ESTIMATE = "mem-1794907993-e7cb"
DONE, FAILING, OPEN = "t-241727", "t-412b05", "t-44b9c1"
OLD_RUN = "run-097369a2"
SETUP_FILES = (".claude/settings.local.json", ".mcp.json", ".claude/skills/ralph-memory/SKILL.md")

Ralph = Callable[..., Ran]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The project as 0.1.0 left it."""
    with tarfile.open(FIXTURES / "project-0.1.0.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "shop"


@pytest.fixture
def ralph_in(shop: Path, capsys: pytest.CaptureFixture[str]) -> Ralph:
    """Return a function that runs a command in the project and expects it to succeed."""

    def command(*words: str, code: int = 0) -> Ran:
        ran = run(capsys, shop, *words)
        assert ran.code == code, ran.err
        return ran

    return command


def start(shop: Path, *words: str, given: str) -> str:
    """Run the program in a process of its own, as an agent does, and return what it printed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RALPH_", "CLAUDE"))}
    ran = subprocess.run(
        [sys.executable, "-m", "ralph", *words],
        cwd=shop,
        env=environment,
        input=given,
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    return ran.stdout


# --- reading ---------------------------------------------------------------------------


def test_status_tasks_and_runs_are_shown(ralph_in: Ralph) -> None:
    status = ralph_in("status")
    assert status.err == ""
    assert all(text in status.out for text in (FAILING, OPEN, OLD_RUN))

    tasks = {
        task["id"]: task for task in map(json.loads, ralph_in("task", "list", "--format", "jsonl").out.splitlines())
    }
    assert {id: task["status"] for id, task in tasks.items()} == {DONE: "done", FAILING: "pending", OPEN: "pending"}
    assert OLD_RUN in ralph_in("stats", "runs").out


def test_memories_are_listed_shown_and_found_with_their_history(ralph_in: Ralph) -> None:
    listed = ralph_in("memory", "list", "--format", "json").json
    assert {memory["id"] for memory in listed} >= {MONEY, LOGIN}
    assert len(listed) == 5
    assert "src/money.py" in ralph_in("memory", "show", MONEY).out
    assert MONEY in ralph_in("memory", "search", "float amounts in cents").out.splitlines()[1]
    assert "added" in ralph_in("memory", "history", LOGIN).out


def test_a_memory_is_edited_and_set_back(shop: Path, ralph_in: Ralph) -> None:
    ralph_in("memory", "edit", LOGIN, "--tags", "login,clock")
    assert "login, clock" in (shop / ".agent/memories.md").read_text(encoding="utf-8")
    ralph_in("memory", "undo", LOGIN)
    assert "login, tests" in (shop / ".agent/memories.md").read_text(encoding="utf-8")


def test_a_change_made_by_the_old_version_is_undone(ralph_in: Ralph) -> None:
    ralph_in("memory", "undo", ANTIPATTERN)  # since schema 11 its confidence is a bound on the evidence
    ralph_in("memory", "undo", ANTIPATTERN)

    assert ralph_in("memory", "show", ANTIPATTERN, "--format", "json").json["state"] == "staged"


def test_memory_files_are_in_sync_and_edits_are_imported(shop: Path, ralph_in: Ralph) -> None:
    files = [shop / ".agent/memories.md", shop / ".ralph/knowledge/migrations.md"]
    before = [file.read_text(encoding="utf-8") for file in files]
    ralph_in("memory", "list")
    assert [file.read_text(encoding="utf-8") for file in files] == before

    files[1].write_text(before[1].replace("alembic before", "alembic upgrade before"), encoding="utf-8")
    assert "alembic upgrade before" in ralph_in("memory", "list").out


def test_the_next_prompt_has_the_failures_and_the_memories(ralph_in: Ralph) -> None:
    assert "QUOTA-7731" in ralph_in("prompt", FAILING).out


def test_the_journal_has_attempts_and_sessions(ralph_in: Ralph) -> None:
    journal = ralph_in("journal", "list").out
    assert f"{OLD_RUN}/3" in journal
    assert "session/s-1" in journal
    assert "Rounded at the edge only." in ralph_in("journal", "show", f"{OLD_RUN}/1").out
    assert "QUOTA-7731" in ralph_in("failures", "list").out
    assert "mem-" not in ralph_in("learn", "list").out  # its estimate is a figure since schema 11
    assert "general 1 attempt, 0.1 s" in ralph_in("stats").out


def test_the_python_api_opens_it(shop: Path) -> None:
    with ralph.open(shop) as project:
        assert [found.memory.id for found in project.memory.search("cents")] == [MONEY]


# --- settings --------------------------------------------------------------------------


def test_settings_apply(shop: Path) -> None:
    settings = load_config(shop)

    assert settings.execution.max_retries == 2
    assert settings.execution.gates == ("true",)


def test_every_setting_of_the_old_template_is_still_valid(shop: Path, ralph_in: Ralph) -> None:
    path = shop / ".ralph.toml"
    template = path.read_text(encoding="utf-8")
    everything = re.sub(r"^# (?!url|project)(\w+ = )", r"\1", template, flags=re.MULTILINE)
    assert everything.count("\n#") == 2  # the two that would move the database

    path.write_text(everything, encoding="utf-8")

    assert ralph_in("status").err == ""


# --- running ---------------------------------------------------------------------------


def test_another_run_goes_on_where_the_old_one_stopped(ralph_in: Ralph) -> None:
    ran = ralph_in("run", "--", "sh", "agent.sh", code=1)  # a task waits for a person

    assert OPEN in ran.out
    tasks = {
        task["id"]: task for task in map(json.loads, ralph_in("task", "list", "--format", "jsonl").out.splitlines())
    }
    assert {id: task["status"] for id, task in tasks.items()} == {DONE: "done", FAILING: "blocked", OPEN: "done"}
    assert ralph_in("stats", "runs").out.count("run-") == 2


def test_the_old_run_can_be_resumed(ralph_in: Ralph) -> None:
    ralph_in("run", "--resume", OLD_RUN, "--max-iterations", "4", "--", "sh", "agent.sh")

    assert f"{OLD_RUN}/4" in ralph_in("journal", "list").out


# --- agents ----------------------------------------------------------------------------


def test_hooks_answer_the_commands_that_setup_wrote(shop: Path) -> None:
    settings = json.loads((shop / ".claude/settings.local.json").read_text(encoding="utf-8"))
    commands = [hook["command"] for (entry,) in settings["hooks"].values() for hook in entry["hooks"]]
    answers: dict[str, Any] = {}
    for command in commands:
        program, *words = command.split()
        assert program == "/opt/ralph/bin/ralph"
        given = {"session_id": "s-2", "cwd": str(shop), "source": "startup", "prompt": "Why do the login tests fail?"}
        answers[words[1]] = json.loads(start(shop, *words, given=json.dumps(given)))

    assert len(answers) == 7
    assert "Money is kept in cents" in json.dumps(answers["session-start"])


def test_a_prompt_of_a_new_session_recalls_what_it_is_about(shop: Path) -> None:
    given = {"session_id": "s-3", "cwd": str(shop), "prompt": "Why do the login tests fail?"}

    answer = start(shop, "hook", "user-prompt-submit", "--agent", "claude", given=json.dumps(given))

    assert "Login tests need TZ=UTC" in answer


def test_the_mcp_server_that_setup_registered_starts(shop: Path) -> None:
    server = json.loads((shop / ".mcp.json").read_text(encoding="utf-8"))["mcpServers"]["ralph"]
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    call = {"name": "search_memories", "arguments": {"query": "cents"}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    ]

    answers = start(shop, *server["args"], given="".join(json.dumps(one) + "\n" for one in messages))

    assert [json.loads(line)["id"] for line in answers.splitlines()] == [1, 2]
    assert MONEY in answers


def test_uninstall_removes_what_the_old_setup_wrote(shop: Path, ralph_in: Ralph) -> None:
    assert all((shop / name).exists() for name in SETUP_FILES)

    ralph_in("setup", "claude", "--uninstall", "--yes")

    assert not any((shop / name).exists() for name in SETUP_FILES)
    assert "settings.local.json" not in (shop / ".git/info/exclude").read_text(encoding="utf-8")
    assert not (shop / ".ralph/setup").exists()


def test_uninstall_recognizes_hooks_of_the_old_setup_without_its_backups(shop: Path, ralph_in: Ralph) -> None:
    for file in (shop / ".ralph/setup").iterdir():
        file.unlink()

    ralph_in("setup", "claude", "--uninstall", "--yes")

    assert "ralph" not in (shop / ".claude/settings.local.json").read_text(encoding="utf-8")


def test_setup_replaces_the_hooks_of_the_old_one(shop: Path, ralph_in: Ralph) -> None:
    ralph_in("setup", "claude", "--yes")

    hooks = json.loads((shop / ".claude/settings.local.json").read_text(encoding="utf-8"))["hooks"]
    assert all(len(entries) == 1 for entries in hooks.values())
    assert "/opt/ralph" not in json.dumps(hooks)
    ralph_in("setup", "claude", "--uninstall", "--yes")
    assert not any((shop / name).exists() for name in SETUP_FILES)


def test_the_plugin_stays_where_users_recorded_it(ralph_in: Ralph) -> None:
    folder = Path(ralph_in("setup", "claude", "--plugin").out.strip())

    assert folder == Path(ralph.__file__).parent / "plugin"
    assert (folder / ".claude-plugin" / "plugin.json").is_file()


# --- maintenance -----------------------------------------------------------------------


def test_doctor_finds_no_problem(ralph_in: Ralph) -> None:
    ralph_in("setup", "claude", "--yes")  # the program that 0.1.0 connected is not on this machine

    report = ralph_in("doctor").out

    found = re.findall(r"^(?:warn|bad|problem|error).*", report, re.MULTILINE)
    assert [one for one in found if "claude is not in the PATH" not in one] == []


def test_a_backup_is_made_and_restored(ralph_in: Ralph) -> None:
    ralph_in("backup")
    ralph_in("memory", "delete", MONEY)
    ralph_in("restore", "--yes")

    assert MONEY in ralph_in("memory", "list").out


# --- formats ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "count"),
    [("bundle.jsonl", 4), ("memories.json", 4), ("memories.csv", 4), ("memories.md", 2), ("ralph-learnings.json", 1)],
)
def test_exports_are_imported_by_another_project(project: Project, name: str, count: int) -> None:
    text = (EXPORTS / name).read_text(encoding="utf-8")

    imported = project.transfer.import_text(text, name)
    again = project.transfer.import_text(text, name)

    assert (imported.new, imported.problems) == (count, ())
    assert (again.new, again.merged, again.known) == (0, 0, count)
    assert len(project.memory.list()) == count


def test_a_bundle_brings_its_history_which_can_be_undone(project: Project) -> None:
    project.transfer.import_text((EXPORTS / "bundle.jsonl").read_text(encoding="utf-8"), "bundle.jsonl")

    assert project.memory.get(LOGIN).title == "Login tests need TZ=UTC and a fixed clock"
    edit = next(event for event in project.memory.history(LOGIN) if event.what == "edited")
    (restored,) = project.memory.undo(LOGIN, to=edit.seq - 1)
    assert restored.title == "Login tests need TZ=UTC"
    assert restored.tags == ("login", "tests")


def test_a_staged_export_waits_for_review(project: Project) -> None:
    imported = project.transfer.import_text((EXPORTS / "staging.json").read_text(encoding="utf-8"), "staging.json")

    assert imported.problems == ()
    assert len(project.learnings.list()) == 1


# --- what programs read ----------------------------------------------------------------


def test_every_command_still_has_its_options_and_choices() -> None:
    expected = json.loads((FIXTURES / "cli-options-0.1.0.json").read_text(encoding="utf-8"))
    offered = {name: options for command in COMMANDS for name, options in _options(command)}

    assert sorted(set(expected) - set(offered)) == []
    assert [
        f"{command} {option}"
        for command, options in expected.items()
        for option, choices in options.items()
        if option not in offered[command] or not set(choices) <= offered[command][option]
    ] == []


def _options(command: str) -> Iterator[tuple[str, dict[str, set[str]]]]:
    """Yield the name of a command, or of each of its actions, with its options and their choices."""
    parsers = [(command, _actions(build_parser(command))[command])]
    for name, parser in parsers:
        if actions := _actions(parser):
            parsers += [(f"{name} {action}", below) for action, below in actions.items()]
        else:
            options = [action for action in parser._actions if action.option_strings]
            yield name, {option.option_strings[-1]: {*map(str, option.choices or ())} for option in options}


def _actions(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    return next((dict(one.choices) for one in parser._actions if isinstance(one, argparse._SubParsersAction)), {})


@pytest.mark.parametrize("command", CLI_FIELDS)
def test_json_of_a_command_still_has_every_field(shop: Path, ralph_in: Ralph, command: str) -> None:
    words, separator, program = command.partition(" -- ")
    ralph_in("memory", "undo", ESTIMATE)  # or no learning would wait
    agent = shop / "agent.sh"  # or a run would teach nothing
    agent.write_text(agent.read_text().replace("Rounded at", "Wrote tests first. Rounded at"), encoding="utf-8")
    ralph_in("setup", "claude", "--yes")  # otherwise the doctor finds a program that is not on this machine
    ran = ralph_in(*words.split(), "--format", "json", *(["--", *program.split()] if separator else []))

    # Which shares a score has is up to the ranking.
    expected = {name for name in CLI_FIELDS[command] if not name.startswith("because.")}
    assert sorted(expected - _fields(_parse(ran.out))) == []


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]


def _fields(value: Any) -> set[str]:
    """Return the paths of all keys in a JSON value."""
    if isinstance(value, list):
        return set().union(*map(_fields, value))
    if not isinstance(value, dict):
        return set()
    return set(value) | {f"{key}.{field}" for key, inner in value.items() for field in _fields(inner)}


def test_http_still_has_every_endpoint_parameter_and_field() -> None:
    expected = json.loads((FIXTURES / "http-0.1.0.json").read_text(encoding="utf-8"))
    offered = _http_shape(openapi_document())

    assert sorted(set(expected) - set(offered)) == []
    missing = {
        (endpoint, part): sorted(set(fields) - set(offered[endpoint][part]))
        for endpoint, parts in expected.items()
        for part, fields in parts.items()
    }
    assert {key: fields for key, fields in missing.items() if fields} == {}


def _http_shape(document: dict[str, Any]) -> dict[str, dict[str, set[str]]]:
    """Return the names of parameters, of fields in the body and of fields in the response, by endpoint."""
    schemas = document["components"]["schemas"]

    def fields(schema: dict[str, Any], seen: tuple[str, ...] = ()) -> set[str]:
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return set() if name in seen else fields(schemas[name], (*seen, name))
        parts = [*schema.get("anyOf", ()), *([schema["items"]] if isinstance(schema.get("items"), dict) else [])]
        found = set().union(*(fields(part, seen) for part in parts))
        for key, value in schema.get("properties", {}).items():
            found |= {key, *(f"{key}.{field}" for field in fields(value, seen))}
        return found

    def json_fields(content: dict[str, Any]) -> set[str]:
        return fields(content.get("content", {}).get("application/json", {}).get("schema", {}))

    return {
        f"{method.upper()} {path}": {
            "parameters": {one["name"] for one in operation.get("parameters", ())},
            "body": json_fields(operation.get("requestBody", {})),
            "answer": set().union(
                *(json_fields(one) for status, one in operation["responses"].items() if status.startswith("2"))
            ),
        }
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }
