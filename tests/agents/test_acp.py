"""Whatever an agent that speaks ACP does, it is answered, understood and ended; driven with a real one."""

import json
import os
import shlex
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ralph.agents import Limits, SessionOptions, acp_session, open_agent
from ralph.agents.acp import ACP_PRESETS, READ_TOOL_KINDS, AcpAgent
from ralph.agents.service_errors import ServiceProblem, read_service_error
from ralph.core.config import AgentConfig
from ralph.core.errors import AgentUnavailableError
from ralph.core.extras import install_hint
from ralph.core.records import AgentReply, SessionEnding
from tests.agents.supervisor.test_process import is_alive, pids_in, wait_until

pytestmark = pytest.mark.storeless

AGENT = [sys.executable, str(Path(__file__).with_name("acp_agent.py"))]
LIGHT = """
import json, sys
answers = json.loads(sys.argv[1])
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "session/prompt":
        for update in answers["updates"]:
            update = json.loads(json.dumps(update).replace("MEGABYTES", "x" * 8_000_000))
            params = {"sessionId": "s-1", "update": update}
            print(json.dumps({"method": "session/update", "params": params}), flush=True)
    print(json.dumps({"id": asked["id"], **answers[asked["method"]]}), flush=True)
"""
"""Gives the answers it is given, and takes a tenth of the time to start that the SDK takes."""
WAITING = """
import json, os, signal, sys, time
def send(**message): print(json.dumps(message), flush=True)
def say(text):
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    send(method="session/update", params={"sessionId": "s-1", "update": update})
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialize":
        send(id=asked["id"], result={"protocolVersion": 1})
    elif asked["method"] == "session/new":
        send(id=asked["id"], result={"sessionId": "s-1"})
    elif asked["method"] == "session/prompt":
        prompt_id = asked["id"]
        if os.fork() == 0:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            with open(sys.argv[1], "w") as file:
                file.write(str(os.getpid()))
            time.sleep(60)
        say("Waiting.")
    else:
        say(f" Got {asked['method']}.")
        send(id=prompt_id, result={"stopReason": "cancelled"})
"""
"""Starts a process that has its own session and no ear for SIGTERM, and waits to be cancelled."""
MODELS = {
    "configOptions": [
        {"id": "mode", "name": "Mode", "category": "mode", "type": "select", "currentValue": "a", "options": []},
        {
            "id": "brain",
            "name": "Model",
            "category": "model",
            "type": "select",
            "currentValue": "small-1",
            "options": [{"value": "small-1", "name": "Small"}, {"value": "large-1", "name": "Large"}],
        },
    ]
}


def script(directory: Path, *turn: dict[str, Any], **settings: Any) -> list[str]:
    path = directory / "script.json"
    path.write_text(json.dumps({"turn": turn, "log": str(directory / "log"), **settings}))
    return [*AGENT, str(path)]


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


def light(*updates: dict[str, Any], **answers: Any) -> list[str]:
    """Give the command of an agent that tells these updates and gives these answers."""
    given = {
        "updates": updates,
        "initialize": {"result": answers.get("hello", {"protocolVersion": 1})},
        "session/new": {"result": {"sessionId": "s-1", **answers.get("session", {})}},
        "session/prompt": answers.get("end", {"result": {"stopReason": "end_turn"}}),
    }
    return [*python(LIGHT), json.dumps(given)]


def says(text: str) -> dict[str, Any]:
    return {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}


def work(
    command: list[str],
    directory: Path,
    *,
    prompt: str = "Do it.",
    name: str = "acp",
    permissions: str = "all",
    **options: Any,
) -> AgentReply:
    config = AgentConfig(name=name, command=tuple(command), permissions=permissions)
    settings: dict[str, Any] = {
        "directory": directory,
        "model": None,
        "limits": Limits(seconds=30.0, idle_seconds=30.0),
        "environment": {},
        "should_stop": lambda: False,
        "on_output": lambda _: None,
    }
    return AcpAgent(config, directory).work(prompt, SessionOptions(**{**settings, **options}))


def log(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "log").read_text().splitlines()]


# --- talking -----------------------------------------------------------------------


def test_an_agent_is_given_the_prompt_in_the_directory_and_its_messages_are_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acp_session, "EXIT_SECONDS", 60.0)
    place = tmp_path / "place"
    place.mkdir()
    heard: list[str] = []
    turn: list[dict[str, Any]] = [
        {"think": "Hm."},
        {"say": "First ", "id": "m-1"},
        {"say": "words.", "id": "m-1"},
        {"update": {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Write\n a.txt", "kind": "edit"}},
        {"update": {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}},
        {"say": "Last \x1b[31mwords.", "id": "m-2"},
    ]

    reply = work(script(tmp_path, *turn), place, prompt="Grüße 🙂 " * 50_000, on_output=heard.append)

    assert (reply.text, reply.ending, reply.detail) == ("First words.\n\nLast words.", SessionEnding.FINISHED, "")
    assert (reply.session, reply.files, reply.exit_code) == ("s-1", None, 0)
    assert "".join(heard) == "First words.\n> Write a.txt\nLast words.\n"
    hello, new, prompt = log(tmp_path)
    assert not any(hello["capabilities"].get("fs", {}).values())
    assert not hello["capabilities"].get("terminal")
    assert (new["cwd"], new["where"], new["servers"]) == (str(place), str(place), [])
    assert (prompt["method"], prompt["length"]) == ("session/prompt", 8 * 50_000)


def test_text_is_heard_while_the_agent_works(tmp_path: Path) -> None:
    heard: list[str] = []

    command = script(tmp_path, {"say": "At work."}, {"await_cancel": 20}, {"say": "Never mind."}, {"stop": "cancelled"})
    reply = work(command, tmp_path, on_output=heard.append, should_stop=lambda: bool(heard))

    assert heard[0] == "At work."
    assert (reply.ending, reply.detail.endswith("was stopped.")) == (SessionEnding.STOPPED, True)
    assert reply.text == "At work.Never mind."
    assert log(tmp_path)[-1] == {"method": "session/cancel", "session": "s-1"}


def test_messages_without_an_id_are_told_apart_by_the_tools_between_them(tmp_path: Path) -> None:
    call = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Look", "kind": "read"}

    reply = work(light(says("I lo"), says("ok."), call, says("Seen.")), tmp_path)

    assert reply.text == "I look.\n\nSeen."


def test_what_others_say_and_what_nobody_knows_is_no_answer(tmp_path: Path) -> None:
    said = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "No answer."}}
    turn: list[dict[str, Any]] = [
        {"update": said, "session": "s-2"},
        {"update": {**said, "_meta": {"claudeCode": {"parentToolUseId": "t"}}}},
        {"update": {**said, "content": {"type": "smell", "text": 7}}},
        {"update": {"sessionUpdate": "invented", "of": [1]}},
        {"update": "nonsense"},
        {"print": "not JSON"},
        {"print": "[1, 2]"},
        {"print": '{"jsonrpc": "2.0", "method": "invented", "params": {}}'},
        {"print": '{"jsonrpc": "2.0", "id": [1], "result": {}}'},
        {"print": '{"jsonrpc": "2.0", "id": 99, "error": "x"}'},
        {"print": '{"jsonrpc": "2.0", "id": "q", "method": "fs/read_text_file", "params": {"path": "/etc/passwd"}}'},
        {"print": '{"jsonrpc": "2.0", "id": "r", "method": "session/request_permission", "params": {"options": 1}}'},
        {"say": "The answer."},
    ]

    reply = work(script(tmp_path, *turn), tmp_path)

    assert (reply.text, reply.ending) == ("The answer.", SessionEnding.FINISHED)


def test_nothing_an_agent_sends_shows_up_on_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    turn = [{"update": "nonsense"}, {"print": "}{"}, {"complain": "a warning"}, {"print": '{"id": 1, "method": 3}'}]

    work(script(tmp_path, *turn, {"exit": 3}), tmp_path)

    assert capfd.readouterr() == ("", "")


def test_a_message_of_megabytes_arrives_and_its_middle_is_left_out(tmp_path: Path) -> None:
    reply = work(light(says("begin MEGABYTES <task-done>t</task-done>")), tmp_path)

    assert reply.ending is SessionEnding.FINISHED
    assert reply.text.startswith("begin x")
    assert reply.text.endswith(" <task-done>t</task-done>")
    assert len(reply.text) < 3_000_000


def test_several_sessions_at_once_do_not_mix(tmp_path: Path) -> None:
    replies: dict[int, AgentReply] = {}

    def one(number: int) -> None:
        place = tmp_path / str(number)
        place.mkdir()
        replies[number] = work(script(place, {"say": f"I am {number}."}), place)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [replies[number].text for number in range(3)] == ["I am 0.", "I am 1.", "I am 2."]


def test_a_fault_of_whoever_listens_is_raised_and_the_agent_ended(tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    def broken(_: str) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work(script(tmp_path, {"start": str(pids)}, {"say": "x"}, {"sleep": 30}), tmp_path, on_output=broken)

    assert not any(map(is_alive, pids_in(pids)))


# --- permissions -------------------------------------------------------------------

KINDS = ["read", "search", "think", "fetch", "edit", "delete", "move", "switch_mode", "execute", "other", None]


@pytest.mark.parametrize(
    ("permissions", "read_only", "allowed"),
    [("all", False, KINDS), ("edit", False, KINDS[:8]), ("read", False, KINDS[:4]), ("all", True, KINDS[:4])],
)
def test_permission_is_given_once_and_only_for_what_is_allowed(
    tmp_path: Path, permissions: str, read_only: bool, allowed: list[str | None]
) -> None:
    command = script(tmp_path, *({"ask": kind} for kind in KINDS))

    reply = work(command, tmp_path, permissions=permissions, read_only=read_only)

    answers = reply.text.split()
    assert [kind for kind, answer in zip(KINDS, answers, strict=True) if answer == "id-allow_once"] == allowed
    assert set(answers) <= {"id-allow_once", "id-reject_once"}


def test_the_kind_that_was_told_before_counts_when_none_is_told_with_the_question(tmp_path: Path) -> None:
    told = {"sessionUpdate": "tool_call", "toolCallId": "c-1", "title": "Look", "kind": "read"}
    command = script(tmp_path, {"update": told}, {"ask": None}, {"ask": None, "call": "c-2"}, {"ask": "execute"})
    heard: list[str] = []

    reply = work(command, tmp_path, read_only=True, on_output=heard.append)

    assert heard.count("> not allowed: A tool\n") == 2
    assert reply.text.split() == ["id-allow_once", "id-reject_once", "id-reject_once"]


@pytest.mark.parametrize(
    ("kind", "title", "is_allowed"),
    [
        ("", "tree", True),
        ("other", "tree", True),
        ("", "shell", False),
        ("execute", "tree", False),
        ("read", "x", True),
    ],
)
def test_a_tool_is_known_by_its_name_only_where_it_does_not_say_its_kind(
    kind: str, title: str, is_allowed: bool
) -> None:
    rules = acp_session.ToolRules(kinds=READ_TOOL_KINDS, names=frozenset({"tree"}))

    assert rules.allow(kind, title) == is_allowed


@pytest.mark.parametrize("name", ACP_PRESETS)
def test_a_preset_is_started_by_its_command_and_who_is_not_logged_in_is_told_so(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    preset = ACP_PRESETS[name]
    program = tmp_path / preset.command[0]
    words = light(hello={"protocolVersion": 1})
    words[-1] = json.dumps({**json.loads(words[-1]), "session/new": {"error": {"code": -32000, "message": "No."}}})
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > "{tmp_path}/arguments"\nexec {shlex.join(words)}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    reply = work([], tmp_path, name=name)

    assert (tmp_path / "arguments").read_text().split() == list(preset.command[1:])
    assert reply.ending is SessionEnding.MODEL_FAILED
    assert read_service_error(reply.detail, datetime.now(UTC)).problem is ServiceProblem.LOGIN


@pytest.mark.parametrize("name", ACP_PRESETS)
def test_a_preset_that_is_not_installed_says_how_to_install_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(AgentUnavailableError) as error:
        open_agent(AgentConfig(name=name), tmp_path).check()

    assert error.value.code == "agent-not-installed"
    assert any(word in str(error.value) for word in ("npm install -g ", "curl "))


def test_without_a_fitting_option_the_narrowest_answer_is_given(tmp_path: Path) -> None:
    asked: list[dict[str, Any]] = [
        {"ask": "read", "options": ["allow_always", "reject_always"]},
        {"ask": "execute", "options": ["allow_once", "allow_always"]},
    ]

    edit = work(script(tmp_path, *asked), tmp_path, permissions="edit")
    everything = work(script(tmp_path, *asked), tmp_path, permissions="all")

    assert edit.text.split() == ["id-reject_always", "cancelled"]
    assert everything.text.split() == ["id-allow_always", "id-allow_once"]


def test_an_agent_that_has_a_mode_for_what_it_may_do_is_put_into_it(tmp_path: Path) -> None:
    offered = [{"id": "agent", "name": "Agent"}, {"id": "read-only", "name": "Reader"}]
    modes = {"currentModeId": "agent", "availableModes": offered}

    reply = work(script(tmp_path, session={"modes": modes}), tmp_path, name="codex-acp", read_only=True)

    chosen = [one for one in log(tmp_path) if one["method"] == "session/set_mode"]
    assert reply.ending is SessionEnding.FINISHED
    assert chosen == [{"method": "session/set_mode", "mode": "read-only", "session": "s-1"}]


NO_MODES: dict[str, Any] = {}
OTHER_MODES = {"modes": {"currentModeId": "wild", "availableModes": [{"id": "wild", "name": "Wild"}]}}
OTHER_OPTIONS = {
    "configOptions": [
        {"id": "mode", "name": "Mode", "category": "mode", "type": "select", "currentValue": "wild", "options": []}
    ]
}


@pytest.mark.parametrize("session", [NO_MODES, OTHER_MODES, OTHER_OPTIONS])
@pytest.mark.parametrize(
    ("name", "options", "mode"),
    [
        ("codex-acp", {"permissions": "edit"}, "workspace-write"),
        ("codex-acp", {"permissions": "read"}, "read-only"),
        ("codex-acp", {"read_only": True}, "read-only"),
        ("claude-acp", {"permissions": "edit"}, "default"),
    ],
)
def test_without_the_mode_that_keeps_it_to_what_it_may_do_an_agent_is_given_no_prompt(
    tmp_path: Path, session: dict[str, Any], name: str, options: dict[str, Any], mode: str
) -> None:
    reply = work(light(says("Never."), session=session), tmp_path, name=name, **options)

    assert (reply.ending, reply.text) == (SessionEnding.CRASHED, "")
    assert f" does not offer the mode {mode}, " in reply.detail
    assert "Install a newer version" in reply.detail


@pytest.mark.parametrize("name", ["codex-acp", "claude-acp"])
def test_an_agent_that_may_do_all_goes_on_without_a_mode_for_it(tmp_path: Path, name: str) -> None:
    reply = work(light(says("Done."), session=OTHER_MODES), tmp_path, name=name)

    assert (reply.ending, reply.text) == (SessionEnding.FINISHED, "Done.")


def test_a_file_that_the_prompt_names_is_not_put_into_it_by_claude(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret.txt").touch()
    monkeypatch.setenv("CLAUDECODE", "1")
    for name in ("CLAUDE_CODE_DISABLE_FILE_MENTIONS", "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"):
        monkeypatch.delenv(name, raising=False)
    modes = {"modes": {"currentModeId": "default", "availableModes": [{"id": "default", "name": "Ask"}]}}
    prompt = f"@secret.txt, @{tmp_path}/secret.txt and @property"

    reply = work(
        script(tmp_path, {"env": "CLAUDE"}, session=modes), tmp_path, name="claude-acp", read_only=True, prompt=prompt
    )
    work(script(tmp_path), tmp_path, prompt=prompt)

    claude, another = [one["text"] for one in log(tmp_path) if one["method"] == "session/prompt"]
    assert claude == f"secret.txt, {tmp_path}/secret.txt and @property"
    assert another == prompt
    assert {"CLAUDE_CODE_DISABLE_FILE_MENTIONS=1", "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1"} <= set(reply.text.split())
    assert "CLAUDECODE=1" not in reply.text.split()


def test_an_agent_that_goes_by_rules_is_given_them(tmp_path: Path) -> None:
    program = tmp_path / "opencode"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$1 $OPENCODE_PERMISSION" >> told\n')
    program.chmod(0o755)
    told = tmp_path / "told"

    for permissions in ("all", "edit", "read"):
        work(["./opencode"], tmp_path, name="opencode-acp", permissions=permissions, environment={"A": "B"})

    everything, edit, read = told.read_text().splitlines()
    assert (everything, edit) == ("acp ", 'acp {"bash": "deny"}')
    assert read.startswith('acp {"*": "deny", "read": "allow"')


# --- how it ends -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "ending", "why"),
    [
        ("max_tokens", SessionEnding.OUT_OF_TURNS, "output token limit"),
        ("max_turn_requests", SessionEnding.OUT_OF_TURNS, "limit of model requests"),
        ("refusal", SessionEnding.REFUSED, "refused"),
        ("cancelled", SessionEnding.CRASHED, "without being asked"),
        ("bored", SessionEnding.CRASHED, "invalid ACP response"),
    ],
)
def test_every_stop_reason_has_its_ending(tmp_path: Path, reason: str, ending: SessionEnding, why: str) -> None:
    reply = work(light(says("Said so far."), end={"result": {"stopReason": reason}}), tmp_path)

    assert (reply.ending, reply.text) == (ending, "Said so far.")
    assert why in reply.detail


@pytest.mark.parametrize(
    ("code", "message", "data", "ending", "why"),
    [
        (-32000, "Authentication required", None, SessionEnding.MODEL_FAILED, "not logged in"),
        (-32603, "Internal error", {"details": "API Error: 529"}, SessionEnding.MODEL_FAILED, "error: API Error: 529"),
        (
            -32603,
            "API Error: Request timed out.",
            None,
            SessionEnding.MODEL_FAILED,
            "which timed out: API Error: Request",
        ),
        (429, "slow down", None, SessionEnding.MODEL_FAILED, "could not use its model: slow down"),
        (400, '{"error": {"message": "no credit"}}', None, SessionEnding.MODEL_FAILED, "model: no credit"),
        (-32603, "x", {"errorKind": "max_output_tokens"}, SessionEnding.OUT_OF_TURNS, "stopped: x"),
        (-32603, "Reached maximum number of turns (3)", None, SessionEnding.OUT_OF_TURNS, "turns (3)"),
        (-32603, "The model ended with a refusal", None, SessionEnding.REFUSED, "a refusal"),
        (-32603, "undefined is not a function", None, SessionEnding.CRASHED, "failed: undefined is not"),
        (-32602, "Invalid params", "text", SessionEnding.CRASHED, "rejected a protocol message: Invalid params: text"),
        (None, None, [1], SessionEnding.CRASHED, "failed: no reason given"),
    ],
)
def test_every_error_has_its_ending(
    tmp_path: Path, code: object, message: object, data: object, ending: SessionEnding, why: str
) -> None:
    error = {"code": code, "message": message, "data": data}

    reply = work(light(says("Said so far."), end={"error": error}), tmp_path)

    assert (reply.ending, reply.text) == (ending, "Said so far.")
    assert why in reply.detail


@pytest.mark.parametrize(
    ("stop", "tokens"),
    [
        ({"usage": {"inputTokens": 9, "outputTokens": 5, "cachedReadTokens": 6, "totalTokens": 20}}, (15, 5)),
        ({"usage": {"inputTokens": 15, "outputTokens": 5, "cachedReadTokens": 6, "totalTokens": 20}}, (15, 5)),
        ({"_meta": {"quota": {"token_count": {"input_tokens": 7, "output_tokens": 3}}}}, (7, 3)),
        ({"_meta": {"quota": {"token_count": {"input_tokens": -7, "output_tokens": "many"}}}}, (None, None)),
        ({}, (None, None)),
    ],
)
def test_tokens_are_taken_from_where_the_agent_tells_them(
    tmp_path: Path, stop: dict[str, Any], tokens: tuple[int | None, int | None]
) -> None:
    reply = work(light(end={"result": {"stopReason": "end_turn", **stop}}), tmp_path)

    assert (reply.tokens_in, reply.tokens_out) == tokens


def test_tokens_that_come_with_messages_are_added_up_unless_the_answer_tells_them(tmp_path: Path) -> None:
    told = {**says("Hm."), "_meta": {"usage": {"inputTokens": 100, "outputTokens": 20, "totalTokens": 120}}}
    end = {"stopReason": "end_turn", "usage": {"inputTokens": 9, "outputTokens": 5}}

    alone = work(light(told, {**says("Hm."), "_meta": {"usage": 3}}, told), tmp_path)
    with_answer = work(light(told, end={"result": end}), tmp_path)

    assert (alone.tokens_in, alone.tokens_out) == (200, 40)
    assert (with_answer.tokens_in, with_answer.tokens_out) == (9, 5)


def test_the_cost_is_the_last_that_was_told_in_dollars(tmp_path: Path) -> None:
    told = {"sessionUpdate": "usage_update", "used": 10, "size": 100}
    costs = [{"amount": 0.25, "currency": "USD"}, {"amount": 0.5, "currency": "USD"}, {"amount": 9, "currency": "EUR"}]

    reply = work(light(*({**told, "cost": cost} for cost in costs)), tmp_path)

    assert reply.cost_usd == 0.5


def test_an_agent_that_dies_in_the_middle_has_crashed_with_its_last_words(tmp_path: Path) -> None:
    turn: list[dict[str, Any]] = [{"say": "Half a"}, {"complain": "out of memory"}, {"sleep": 0.1}, {"exit": 7}]

    reply = work(script(tmp_path, *turn), tmp_path)

    assert (reply.ending, reply.text, reply.exit_code) == (SessionEnding.CRASHED, "Half a", 7)
    assert reply.detail.endswith("exited with 7: out of memory")


def test_an_agent_that_hangs_up_has_crashed(tmp_path: Path) -> None:
    began = time.monotonic()

    reply = work(script(tmp_path, {"say": "Bye."}, {"sleep": 0.1}, {"hang_up": True}), tmp_path)

    assert (reply.ending, reply.text) == (SessionEnding.CRASHED, "Bye.")
    assert reply.detail.endswith("closed its output in the middle of the session.")
    assert time.monotonic() - began < 15


def test_a_program_that_prints_something_else_has_crashed_with_what_it_printed(tmp_path: Path) -> None:
    reply = work(python("print('usage: try --help')"), tmp_path)

    assert (reply.ending, reply.exit_code) == (SessionEnding.CRASHED, 0)
    assert reply.detail.endswith("exited with 0: usage: try --help")


def test_a_program_that_only_echoes_is_no_agent(tmp_path: Path) -> None:
    reply = work(["cat"], tmp_path)

    assert (reply.ending, reply.detail) == (SessionEnding.CRASHED, "cat rejected a protocol message: Method not found")


def test_an_agent_of_another_version_is_not_talked_to(tmp_path: Path) -> None:
    reply = work(light(says("Never."), hello={"protocolVersion": 2}), tmp_path)

    assert (reply.ending, reply.text) == (SessionEnding.CRASHED, "")
    assert "speaks ACP version 2, but Ralph needs version 1" in reply.detail


def test_an_answer_that_is_none_of_acp_is_told(tmp_path: Path) -> None:
    reply = work(light(hello=[1]), tmp_path)

    assert reply.ending is SessionEnding.CRASHED
    assert reply.detail.endswith("sent an invalid ACP response to initialize: [1]")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import time; time.sleep(60)", "within 0.3 s. Check that it speaks ACP and is logged in."),
        ("import time; print('hello', flush=True); time.sleep(60)", "It printed: hello"),
        ("import sys, time; print('a', file=sys.stderr, flush=True); time.sleep(60)", "It printed: a"),
    ],
)
def test_an_agent_that_never_answers_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, why: str
) -> None:
    monkeypatch.setattr(acp_session, "REQUEST_TIMEOUT_SECONDS", 0.3)

    reply = work(python(code), tmp_path)

    assert reply.ending is SessionEnding.CRASHED
    assert "did not answer initialize" in reply.detail
    assert reply.detail.endswith(why)


def test_a_program_that_hears_nothing_does_not_hold_a_huge_prompt_up(tmp_path: Path) -> None:
    reply = work(
        python("import os, time; os.close(0); time.sleep(60)"),
        tmp_path,
        prompt="x" * 1_000_000,
        limits=Limits(seconds=0.5, idle_seconds=30),
    )

    assert reply.ending is SessionEnding.TIMED_OUT


# --- limits ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "ending"),
    [
        (Limits(seconds=2.0, idle_seconds=30.0), SessionEnding.TIMED_OUT),
        (Limits(idle_seconds=2.0), SessionEnding.WENT_SILENT),
    ],
)
def test_past_a_limit_the_agent_and_all_that_it_started_end(
    tmp_path: Path, limits: Limits, ending: SessionEnding
) -> None:
    pids = tmp_path / "pids"

    reply = work([*python(WAITING), str(pids)], tmp_path, limits=limits)

    assert (reply.ending, reply.text) == (ending, "Waiting. Got session/cancel.")
    assert "2 s and was terminated" in reply.detail
    assert len(pids_in(pids)) == 1
    assert not any(map(is_alive, pids_in(pids)))


def test_an_agent_that_does_not_hear_of_its_cancelling_is_ended_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acp_session, "CANCEL_SECONDS", 0.2)
    pids = tmp_path / "pids"

    reply = work(
        script(tmp_path, {"start": str(pids)}, {"sleep": 60}), tmp_path, should_stop=lambda: bool(pids_in(pids))
    )

    assert reply.ending is SessionEnding.STOPPED
    assert not any(map(is_alive, pids_in(pids)))


def test_an_agent_that_prints_without_end_is_cut_short(tmp_path: Path) -> None:
    reply = work(python("while True: print('x' * 9999)"), tmp_path, limits=Limits(output_bytes=100_000))

    assert reply.ending is SessionEnding.FLOODED
    assert "100,000 bytes" in reply.detail


def test_an_agent_that_kills_its_guard_is_ended_with_it(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = WAITING.replace('say("Waiting.")', 'say("Waiting."); os.kill(os.getppid(), 9)')

    reply = work([*python(code), str(pids)], tmp_path)

    assert (reply.ending, reply.exit_code) == (SessionEnding.CRASHED, None)
    assert reply.detail.endswith("was terminated because its Ralph guard process was killed.")
    assert not any(map(is_alive, pids_in(pids)))


def test_nothing_stays_when_ralph_is_killed(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    command = script(tmp_path, {"start": str(pids)}, {"sleep": 60})
    pid = os.fork()
    if pid == 0:
        try:
            work(command, tmp_path)
        finally:
            os._exit(1)
    wait_until(lambda: pids_in(pids))

    os.kill(pid, 9)
    os.waitpid(pid, 0)

    wait_until(lambda: not any(map(is_alive, pids_in(pids))))


# --- models ------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", ["large-1", "LARGE"])
def test_a_model_is_chosen_by_its_value_or_its_name(tmp_path: Path, wanted: str) -> None:
    reply = work(script(tmp_path, session=MODELS), tmp_path, model=wanted)

    assert reply.ending is SessionEnding.FINISHED
    option = {"method": "session/set_config_option", "option": "brain", "session": "s-1", "value": "large-1"}
    assert option in log(tmp_path)


def test_a_model_that_is_in_use_is_not_chosen_again(tmp_path: Path) -> None:
    work(script(tmp_path, session=MODELS), tmp_path, model="small-1")

    assert [one["method"] for one in log(tmp_path)] == ["initialize", "session/new", "session/prompt"]


def test_a_model_that_is_not_offered_is_not_worked_with(tmp_path: Path) -> None:
    unknown = work(light(says("Never."), session=MODELS), tmp_path, model="huge-1")
    none = work(light(says("Never.")), tmp_path, model="huge-1")

    assert (unknown.ending, none.ending) == (SessionEnding.MODEL_FAILED, SessionEnding.MODEL_FAILED)
    assert unknown.detail.endswith("does not offer the model huge-1. Choose one of: small-1, large-1.")
    assert none.detail.endswith("offers no choice of models. Remove the model from the configuration.")
    assert unknown.text == none.text == ""


def test_an_agent_of_before_there_were_options_is_told_its_model_all_the_same(tmp_path: Path) -> None:
    models = {"currentModelId": "auto", "availableModels": [{"modelId": "auto"}, {"modelId": "pro", "name": "Pro"}]}
    given = {
        "initialize": {"result": {"protocolVersion": 1}},
        "session/new": {"result": {"sessionId": "s-1", "models": models}},
        "session/set_model": {"error": {"code": -32603, "message": "not today"}},
    }

    reply = work([*python(LIGHT), json.dumps(given)], tmp_path, model="Pro")

    assert reply.ending is SessionEnding.MODEL_FAILED
    assert reply.detail.endswith("rejected the model Pro: not today")


def test_only_who_is_configured_is_told_a_model(tmp_path: Path) -> None:
    def takes_model(name: str, model: str) -> bool:
        return open_agent(AgentConfig(name=name, model=model), tmp_path).accepts_model

    assert not any(takes_model(name, "") for name in ("claude-acp", "gemini-acp", "codex-acp", "acp"))
    assert all(takes_model(name, "one") for name in ("claude-acp", "gemini-acp", "codex-acp", "acp"))


# --- what is there -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "configured", "command"),
    [
        ("acp", ("./agent", "--stdio"), ("./agent", "--stdio")),
        ("claude-acp", (), ("claude-agent-acp",)),
        ("gemini-acp", (), ("gemini", "--acp")),
        ("gemini-acp", ("/opt/gemini", "--debug"), ("/opt/gemini", "--acp", "--debug")),
        ("codex-acp", (), ("codex-acp",)),
        ("opencode-acp", (), ("opencode", "acp")),
    ],
)
def test_every_agent_known_by_name_has_its_command(
    tmp_path: Path, name: str, configured: tuple[str, ...], command: tuple[str, ...]
) -> None:
    agent = open_agent(AgentConfig(name=name, command=configured), tmp_path)

    assert isinstance(agent, AcpAgent)
    assert (agent.name, agent._program.command) == (name, command)


def test_a_missing_agent_is_told_with_the_way_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(AgentUnavailableError, check=lambda error: error.code == "agent-not-installed"):
        AcpAgent(AgentConfig(name="gemini-acp"), tmp_path).check()
    with pytest.raises(AgentUnavailableError, check=lambda error: error.code == "program-not-found"):
        AcpAgent(AgentConfig(name="gemini-acp", command=("/nowhere/gemini",)), tmp_path).check()
    with pytest.raises(AgentUnavailableError, check=lambda error: error.code == "no-agent-program"):
        AcpAgent(AgentConfig(name="acp"), tmp_path).check()


def test_a_program_that_cannot_be_started_is_missing(tmp_path: Path) -> None:
    program = tmp_path / "agent"
    program.write_text("#!/nowhere/python\n")
    program.chmod(0o755)

    with pytest.raises(AgentUnavailableError, check=lambda error: error.code == "program-not-started"):
        work(["./agent"], tmp_path)


def test_without_the_sdk_the_way_to_install_it_is_told(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; sys.modules['acp'] = None\n"
        "from ralph.agents.acp import AcpAgent; from ralph.core.config import AgentConfig\n"
        "from ralph.core.errors import AgentUnavailableError\n"
        "try: AcpAgent(AgentConfig(name='acp', command=('cat',)), Path.cwd()).check()\n"
        "except AgentUnavailableError as error: print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert said.stdout == f"The Agent Client Protocol SDK is not installed: {install_hint('acp')}\n"
