"""What Claude Code prints becomes the right reply, and what it should never print does no harm."""

import json
import os
import sys
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ralph.agents import Agent, Limits, claude, open_agent
from ralph.core.config import AgentConfig
from ralph.core.errors import AgentUnavailableError
from ralph.core.records import AgentReply, SessionEnding
from tests.make import a_session

pytestmark = pytest.mark.storeless

SESSION = "907fb029-ec7e-4fd5-a11a-24bf48b1d8d0"
Event = dict[str, Any]


# --- events of the shape that the program prints ---------------------------------------


def init() -> Event:
    return {"type": "system", "subtype": "init", "session_id": SESSION, "tools": ["Bash"], "permissionMode": "default"}


def message(*blocks: Event, id: str = "msg_1", parent: str | None = None, **more: object) -> Event:
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": 200,
        "cache_creation_input_tokens": 3000,
        "output_tokens": 1,
    }
    content = {"id": id, "model": "claude-1", "content": list(blocks), "stop_reason": None, "usage": usage}
    return {"type": "assistant", "message": content, "parent_tool_use_id": parent, "session_id": SESSION, **more}


def text(said: str) -> Event:
    return {"type": "text", "text": said}


def tool(name: str, **arguments: object) -> Event:
    return {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": arguments}


def notice(said: str, stop_reason: str = "stop_sequence", **more: object) -> Event:
    """Give what the program says itself, in place of the model."""
    content = {"id": "made-up", "model": "<synthetic>", "content": [text(said)], "stop_reason": stop_reason}
    return {
        "type": "assistant",
        "message": content,
        "parent_tool_use_id": None,
        "session_id": SESSION,
        "is_api_error_message": True,
        **more,
    }


def stopped(id: str) -> Event:
    """Give what is told to a model whose answer was stopped."""
    content = {"role": "user", "content": [text("Your response above was stopped.")]}
    return {"type": "user", "message": content, "parent_tool_use_id": None, "refused_message_id": id}


def result(said: str | None = "", *, is_error: object = False, **more: object) -> Event:
    event = {
        "type": "result",
        "subtype": "success",
        "is_error": is_error,
        "terminal_reason": "completed",
        "stop_reason": "end_turn",
        "num_turns": 2,
        "total_cost_usd": 0.25,
        "usage": {
            "input_tokens": 20,
            "cache_read_input_tokens": 400,
            "cache_creation_input_tokens": 6000,
            "output_tokens": 50,
        },
        "safety_stops": 0,
        "api_error_status": None,
        "session_id": SESSION,
    }
    return event | ({} if said is None else {"result": said}) | more


def failed(said: str | None, reason: str = "api_error", **more: object) -> Event:
    return result(said, is_error=True, terminal_reason=reason, **more)


# --- a program that prints them ----------------------------------------------------------


def a_claude(directory: Path, printed: bytes | str, *, exit_code: int = 0, then: str = "", version: str = "") -> Agent:
    """Give an agent whose program prints this, and keeps what it was given."""
    (directory / "printed").write_bytes(printed.encode() if isinstance(printed, str) else printed)
    program = directory / "claude"
    program.write_text(
        f"""#!/bin/sh
if [ "$1" = --version ]; then echo '{version or "2.1.325 (Claude Code)"}'; exit 0; fi
cat > '{directory}/prompt'
for word in "$@"; do echo "$word"; done > '{directory}/arguments'
env > '{directory}/environment'
cat '{directory}/printed'
{then}
exit {exit_code}
"""
    )
    program.chmod(0o755)
    return open_agent(AgentConfig(name="claude", command=(str(program),)), directory)


def lines(*events: object) -> str:
    return "".join(f"{json.dumps(event)}\n" for event in events)


def reply_to(directory: Path, *events: object, exit_code: int = 0, **session: object) -> AgentReply:
    agent = a_claude(directory, lines(*events), exit_code=exit_code)
    return agent.work("Do it.\n", a_session(directory, **session))


# --- a session that goes well --------------------------------------------------------------


def test_all_that_the_agent_says_itself_is_the_answer(tmp_path: Path) -> None:
    reply = reply_to(
        tmp_path,
        {"type": "system", "subtype": "hook_response", "stdout": "from a hook"},
        init(),
        message(text("I ask.\n")),
        message(tool("Task", description="look")),
        message(text("<task-done>t-000009</task-done>"), id="msg_2", parent="toolu_Task"),
        {"type": "user", "message": {"role": "user", "content": [{"type": "tool_result", "content": "found"}]}},
        message(text("<learning>\n\nTabs.</learning>"), id="msg_3"),
        message(text("<task-done>t-000001</task-done>"), id="msg_4"),
        result("<task-done>t-000001</task-done>"),
    )

    assert reply.text == "I ask.\n\n<learning>\n\nTabs.</learning>\n\n<task-done>t-000001</task-done>"
    assert (reply.ending, reply.detail, reply.exit_code, reply.files) == (SessionEnding.FINISHED, "", 0, None)
    assert (reply.cost_usd, reply.tokens_in, reply.tokens_out) == (0.25, 4 * 3210, 50)
    assert (reply.turns, reply.session) == (2, SESSION)
    assert 0 < reply.seconds < 5


def test_what_is_printed_twice_was_said_once(tmp_path: Path) -> None:
    first, second = text("One."), text("Two.")

    reply = reply_to(
        tmp_path, message(first), message(first, second), message(first, id="msg_2"), message(first), result("One.")
    )

    assert reply.text == "One.\n\nTwo.\n\nOne."


def test_people_who_watch_see_words_and_tools_as_they_come(tmp_path: Path) -> None:
    heard: list[str] = []
    command = "python -c '\nprint(1)'" + "x" * 500

    reply_to(
        tmp_path,
        message(text("I look.")),
        message(tool("Read", file_path="src/a.py"), id="msg_2"),
        message(tool("Bash", command=command), id="msg_3"),
        message(tool("Odd", number=3), id="msg_4"),
        {"type": "system", "subtype": "api_retry", "error_status": 529},
        {"type": "system", "subtype": "permission_denied", "tool_name": "mcp__a__b"},
        message(text("\x1b[31mDone.\u200b"), id="msg_5"),
        result("Done."),
        on_output=heard.append,
    )

    assert heard[:2] == ["I look.\n", "> Read src/a.py\n"]
    assert heard[2].startswith("> Bash python -c ' print(1)'xxx")
    assert len(heard[2]) < 130
    assert heard[3] == "> Odd\n"
    assert "529" in heard[4]
    assert "mcp__a__b" in heard[5]
    assert heard[6:] == ["Done.\n"]


def test_words_are_heard_before_the_session_ends(tmp_path: Path) -> None:
    heard: list[str] = []
    agent = a_claude(tmp_path, lines(message(text("Half way."))), then="sleep 60")

    reply = agent.work("", a_session(tmp_path, on_output=heard.append, should_stop=lambda: bool(heard)))

    assert heard == ["Half way.\n"]
    assert (reply.ending, reply.text) == (SessionEnding.STOPPED, "Half way.")


def test_a_session_that_goes_on_after_a_result_is_judged_by_its_last_one(tmp_path: Path) -> None:
    used = {"inputTokens": 100, "cacheReadInputTokens": 20, "cacheCreationInputTokens": 3, "outputTokens": 7}
    first = result("Waiting.", total_cost_usd=0.5, modelUsage={"a": used})
    last = result("Done.", num_turns=1, total_cost_usd=0.75, modelUsage={"a": used, "b": used})
    started = [init(), message(text("Waiting.")), first, init(), message(text("Done."), id="msg_2")]

    ended_well = reply_to(tmp_path, *started, last)
    cut_off = reply_to(tmp_path, *started)

    assert (ended_well.ending, ended_well.text) == (SessionEnding.FINISHED, "Waiting.\n\nDone.")
    assert (ended_well.turns, ended_well.cost_usd) == (3, 0.75)
    assert (ended_well.tokens_in, ended_well.tokens_out) == (6420, 50)
    assert (cut_off.ending, cut_off.cost_usd, cut_off.turns) == (SessionEnding.CRASHED, 0.5, 2)


def test_the_tokens_of_all_models_count(tmp_path: Path) -> None:
    used = {"inputTokens": 9000, "cacheReadInputTokens": 20, "cacheCreationInputTokens": 3, "outputTokens": 70}

    reply = reply_to(tmp_path, message(text("a")), result("a", modelUsage={"large": used, "small": used}))

    assert (reply.tokens_in, reply.tokens_out) == (18046, 140)


# --- how sessions end ------------------------------------------------------------------------

ENDINGS: dict[str, tuple[SessionEnding, str, list[Event]]] = {
    "service failed": (
        SessionEnding.MODEL_FAILED,
        "API Error: 500 Broken.",
        [notice("API Error: 500 Broken."), failed("API Error: 500 Broken.", api_error_status=500)],
    ),
    "no credit": (SessionEnding.MODEL_FAILED, "Credit is low", [failed("Credit is low", api_error_status=400)]),
    "gateway late": (SessionEnding.MODEL_FAILED, "504 timeout", [failed("504 timeout", api_error_status=504)]),
    "not logged in": (SessionEnding.MODEL_FAILED, "Please log in", [notice("Please log in"), failed("Please log in")]),
    "out of reach": (SessionEnding.MODEL_FAILED, "Refused", [failed("Refused", api_error="connection_failed")]),
    "late": (SessionEnding.MODEL_FAILED, "timed out: Request timed out", [failed("Request timed out")]),
    "stream stalled": (
        SessionEnding.MODEL_FAILED,
        "which timed out: No data.",
        [failed("No data.", api_error="stream_idle_timeout")],
    ),
    "prompt too long": (
        SessionEnding.OUT_OF_TURNS,
        "Too long.",
        [failed("Too long.", reason="prompt_too_long", api_error_status=400)],
    ),
    "prompt too long, older": (
        SessionEnding.OUT_OF_TURNS,
        "Prompt is too long",
        [{"type": "result", "subtype": "success", "is_error": True, "result": "Prompt is too long"}],
    ),
    "max turns": (
        SessionEnding.OUT_OF_TURNS,
        "Reached 2",
        [failed(None, reason="max_turns", subtype="error_max_turns", stop_reason="tool_use", errors=["Reached 2"])],
    ),
    "max turns, older": (
        SessionEnding.OUT_OF_TURNS,
        "error_max_turns",
        [{"type": "result", "subtype": "error_max_turns", "is_error": False}],
    ),
    "budget": (
        SessionEnding.OUT_OF_TURNS,
        "Reached $1",
        [failed(None, reason="budget_exhausted", subtype="error_max_budget_usd", errors=["Reached $1"])],
    ),
    "max tokens": (SessionEnding.OUT_OF_TURNS, "Too much.", [failed("Too much.", api_error="max_output_tokens")]),
    "max tokens, older": (
        SessionEnding.OUT_OF_TURNS,
        "Too much.",
        [
            {**message(text("a")), "message": {"id": "m", "content": [text("a")], "stop_reason": "max_tokens"}},
            {"type": "result", "subtype": "success", "is_error": True, "result": "Too much."},
        ],
    ),
    "max tokens once, then another failure, older": (
        SessionEnding.MODEL_FAILED,
        "Broken.",
        [
            {**message(text("a")), "message": {"id": "m", "content": [text("a")], "stop_reason": "max_tokens"}},
            message(text("b"), id="msg_2"),
            {"type": "result", "subtype": "success", "is_error": True, "result": "Broken."},
        ],
    ),
    "cut off after a result": (
        SessionEnding.CRASHED,
        "claude",
        [message(text("a")), result("a"), message(text("b"), id="msg_2")],
    ),
    "refused twice": (
        SessionEnding.REFUSED,
        "Flagged.",
        [
            message(text("I")),
            stopped("msg_1"),
            message(text("I"), id="msg_2"),
            notice("Flagged.", "refusal", refused_message_id="msg_2"),
            failed("Flagged.\n\nMore.", stop_reason="refusal", safety_stops=2),
        ],
    ),
    "refused, older": (
        SessionEnding.REFUSED,
        "Not allowed.",
        [
            {**message(text("I")), "message": {"id": "m", "content": [text("I")], "stop_reason": "refusal"}},
            notice("Not allowed."),
            {"type": "result", "subtype": "success", "is_error": True, "result": "Not allowed."},
        ],
    ),
    "refused once, then silent": (
        SessionEnding.REFUSED,
        "refused",
        [message(text("I")), stopped("msg_1"), result("", safety_stops=1)],
    ),
    "refused at once": (SessionEnding.REFUSED, "refused", [result("", safety_stops=1)]),
    "interrupted in a tool": (
        SessionEnding.CRASHED,
        "interrupted",
        [
            message(tool("Bash", command="sleep 9")),
            failed(None, reason="aborted_tools", subtype="error_during_execution", errors=["diagnostic"]),
        ],
    ),
    "another error": (
        SessionEnding.CRASHED,
        "It broke",
        [failed(None, reason="turn_setup_failed", subtype="error_during_execution", errors=["It broke"])],
    ),
}


@pytest.mark.parametrize(("ending", "words", "events"), ENDINGS.values(), ids=ENDINGS.keys())
@pytest.mark.parametrize("exit_code", [0, 1])
def test_each_way_to_end_is_told_apart(
    tmp_path: Path, ending: SessionEnding, words: str, events: list[Event], exit_code: int
) -> None:
    reply = reply_to(tmp_path, init(), *events, exit_code=exit_code)

    assert (reply.ending, reply.exit_code) == (ending, exit_code)
    assert words in reply.detail
    assert reply.detail.startswith("claude ")
    assert "\n" not in reply.detail
    assert words not in reply.text, "What the program says of an error, the model has not said."


def test_one_who_goes_on_after_a_refusal_has_finished(tmp_path: Path) -> None:
    goes_on = message(text("Else."), id="msg_2")

    reply = reply_to(tmp_path, message(text("I")), stopped("msg_1"), goes_on, result("Else.", safety_stops=1))

    assert (reply.ending, reply.text) == (SessionEnding.FINISHED, "I\n\nElse.")


def test_the_refusal_of_a_subagent_is_not_that_of_the_session(tmp_path: Path) -> None:
    of_subagent = {**stopped("msg_2"), "parent_tool_use_id": "toolu_1"}

    reply = reply_to(tmp_path, message(text("I")), of_subagent, result("I", safety_stops=1))

    assert reply.ending is SessionEnding.FINISHED


def test_a_good_result_counts_though_the_program_then_fails(tmp_path: Path) -> None:
    reply = reply_to(tmp_path, message(text("Done.")), result("Done."), exit_code=1)

    assert (reply.ending, reply.detail, reply.exit_code) == (SessionEnding.FINISHED, "", 1)


def test_what_it_said_counts_though_the_program_stays_after_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claude, "SILENCE_AFTER_RESULT_SECONDS", 0.5)
    agent = a_claude(tmp_path, lines(init(), message(text("All done.")), result()), then="sleep 60")

    reply = agent.work("Do it.\n", a_session(tmp_path))

    assert (reply.ending, reply.text) == (SessionEnding.FINISHED, "All done.")
    assert reply.seconds < 20


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_is_not_taken_ends_the_session_at_once(tmp_path: Path, status: int) -> None:
    retry = {"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 10, "error_status": status}
    agent = a_claude(tmp_path, lines(init(), retry | {"error": "authentication_failed"}), then="sleep 60")
    heard: list[str] = []

    reply = agent.work("Do it.\n", a_session(tmp_path, on_output=heard.append))

    assert reply.ending is SessionEnding.MODEL_FAILED
    assert reply.detail == f"claude could not use its model: {status} authentication_failed"
    assert "".join(heard) == f"> API error: {status} authentication_failed, attempt 1 of 10\n"
    assert reply.seconds < 20


@pytest.mark.parametrize(("exit_code", "words"), [(0, "no result"), (143, "143")])
def test_no_result_is_a_crash_whatever_the_exit_code(tmp_path: Path, exit_code: int, words: str) -> None:
    reply = reply_to(tmp_path, init(), message(text("I begin.")), exit_code=exit_code)

    assert (reply.ending, reply.text, reply.exit_code) == (SessionEnding.CRASHED, "I begin.", exit_code)
    assert words in reply.detail
    assert (reply.tokens_in, reply.tokens_out, reply.turns, reply.session) == (3210, 1, 1, SESSION)


def test_a_killed_program_is_a_crash(tmp_path: Path) -> None:
    reply = a_claude(tmp_path, lines(message(text("I begin."))), then="kill -9 $$").work("", a_session(tmp_path))

    assert (reply.ending, reply.text, reply.exit_code) == (SessionEnding.CRASHED, "I begin.", -9)
    assert reply.detail == "claude was killed by signal SIGKILL."


def test_why_it_did_not_start_is_in_the_detail(tmp_path: Path) -> None:
    on_stderr = a_claude(tmp_path, "", then="echo 'error: unknown option' >&2", exit_code=1)
    reply = on_stderr.work("", a_session(tmp_path))
    on_stdout = a_claude(tmp_path, "Credit is low\n", exit_code=1).work("", a_session(tmp_path))

    assert (reply.ending, reply.detail) == (SessionEnding.CRASHED, "claude exited with 1: error: unknown option")
    assert (reply.tokens_in, reply.turns, reply.session, reply.text) == (None, None, "", "")
    assert on_stdout.detail == "claude exited with 1; its last output was: Credit is low"


@pytest.mark.parametrize(
    ("limits", "ending"),
    [
        (Limits(seconds=0.5), SessionEnding.TIMED_OUT),
        (Limits(idle_seconds=0.5), SessionEnding.WENT_SILENT),
        (Limits(output_bytes=100), SessionEnding.FLOODED),
    ],
)
def test_our_own_limits_count_more_than_what_it_says(tmp_path: Path, limits: Limits, ending: SessionEnding) -> None:
    agent = a_claude(tmp_path, lines(message(text("Done.")), result("Done.")), then="sleep 60")

    reply = agent.work("", a_session(tmp_path, limits=limits))

    assert (reply.ending, reply.text) == (ending, "Done.")
    assert reply.detail.endswith("was terminated.")
    assert reply.seconds < 5


# --- bad input -------------------------------------------------------------------------------

GOOD = lines(message(text("Before.")))
END = lines(message(text("After."), id="msg_2"), result("After."))


@pytest.mark.parametrize(
    "bad",
    [
        b"Warning: something\n",
        b"[1, 2]\n3\nnull\n",
        b'{"type": "assistant", "mess\n',
        b"\xff\xfe\x00 not UTF-8 \xc3(\n",
        b'{"type": "assistant", "message": {"content": [{"type": "text", "text": "\xff"}], "id": "m"}\n',
        b"\n\n  \n",
        b'{"a": ' * 50_000 + b"\n",
    ],
)
def test_a_bad_line_costs_no_more_than_itself(tmp_path: Path, bad: bytes) -> None:
    agent = a_claude(tmp_path, GOOD.encode() + bad + END.encode())

    reply = agent.work("", a_session(tmp_path))

    assert (reply.ending, reply.text) == (SessionEnding.FINISHED, "Before.\n\nAfter.")


def test_a_stream_cut_in_the_middle_of_a_line_keeps_what_was_said(tmp_path: Path) -> None:
    whole = GOOD + lines(message(text("<task-done>t-000001</task-done>"), id="msg_2")) + lines(result("Done."))

    for length in (len(GOOD) + 40, len(whole) - 40):
        reply = a_claude(tmp_path, whole[:length]).work("", a_session(tmp_path))

        assert reply.ending is SessionEnding.CRASHED
        assert reply.text.startswith("Before.")
        assert "no result" in reply.detail


def test_the_last_line_may_lack_its_end(tmp_path: Path) -> None:
    reply = a_claude(tmp_path, (GOOD + END).rstrip("\n")).work("", a_session(tmp_path))

    assert reply.ending is SessionEnding.FINISHED


def test_no_output_at_all_is_a_crash(tmp_path: Path) -> None:
    reply = a_claude(tmp_path, "").work("", a_session(tmp_path))

    assert (reply.ending, reply.text, reply.tokens_in) == (SessionEnding.CRASHED, "", None)
    assert reply.detail == "claude stopped early: it gave no result."


def wrong_types(event: Event) -> list[Event]:
    """Give the event with each of its fields in turn, at any depth, of each wrong type."""
    values: list[Any] = [None, True, -1, 1e999, 10**30, "x", [], [None, 3], {}, {"a": []}]
    wrong: list[Event] = []
    for key, value in event.items():
        wrong += [{**event, key: other} for other in values]
        wrong.append({name: kept for name, kept in event.items() if name != key})
        if isinstance(value, dict):
            wrong += [{**event, key: inner} for inner in wrong_types(value)]
        if isinstance(value, list) and value and isinstance(value[0], dict):
            wrong += [{**event, key: [inner]} for inner in wrong_types(value[0])]
    return wrong


def test_no_field_of_any_type_does_harm(tmp_path: Path) -> None:
    events = [
        init(),
        message(text("a")),
        message(tool("Bash", command="ls"), id="msg_2"),
        notice("error"),
        stopped("msg_1"),
        {"type": "system", "subtype": "api_retry", "error_status": 529},
        result("a", modelUsage={"m": {"inputTokens": 3, "outputTokens": 4}}, errors=["e"]),
    ]
    wrong = [bad for event in events for bad in wrong_types(event)]

    reply = reply_to(tmp_path, *wrong, message(text("Last."), id="msg_9"), result("Last."))

    assert len(wrong) > 500
    assert reply.ending is SessionEnding.FINISHED
    assert reply.text.endswith("Last.")
    assert reply.tokens_in is not None
    assert 0 <= reply.cost_usd < 1e12


@pytest.mark.parametrize(
    "field", ["is_error", "subtype", "terminal_reason", "stop_reason", "errors", "result", "usage"]
)
@pytest.mark.parametrize("value", [None, 3, [], {}, "x"])
def test_a_result_with_a_wrong_field_is_still_judged(tmp_path: Path, field: str, value: object) -> None:
    wrong = failed(None, reason="max_turns", subtype="error_max_turns", errors=["Reached 2"]) | {field: value}

    reply = reply_to(tmp_path, wrong, exit_code=1)

    assert reply.ending is SessionEnding.OUT_OF_TURNS


def test_however_much_it_prints_little_is_kept(tmp_path: Path) -> None:
    agent = a_claude(tmp_path, GOOD)
    printer = f"{sys.executable} -I -S -c '{PRINTER}'"
    program = tmp_path / "claude"
    program.write_text(program.read_text().replace("\nexit 0\n", f"\n{printer}\nexit 0\n"))
    limits = Limits(seconds=60.0, output_bytes=200 * 1024 * 1024)

    tracemalloc.start()
    reply = agent.work("", a_session(tmp_path, limits=limits))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert reply.ending is SessionEnding.FINISHED
    assert reply.text.startswith("Before.")
    assert reply.text.endswith("<task-done>t-000001</task-done>")
    assert "bytes left out" in reply.text
    assert len(reply.text) < 3 * 1024 * 1024
    assert peak < 60 * 1024 * 1024


PRINTER = r"""
import json, sys
def say(id, text):
    block = {"type": "text", "text": text}
    print(json.dumps({"type": "assistant", "message": {"id": id, "content": [block]}}))
say("huge", "x" * 20_000_000)
for number in range(20):
    say(str(number), "y" * 1_000_000)
say("last", "<task-done>t-000001</task-done>")
print(json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": ""}))
"""


# --- what it is given ------------------------------------------------------------------------


def given(directory: Path, permissions: str = "all", **session: object) -> dict[str, str]:
    """Give the arguments of a session by option; an option without a value has an empty one."""
    made = a_claude(directory, lines(result("")))
    assert made.name == "claude"
    config = AgentConfig(
        name="claude", command=(str(directory / "claude"), "--max-turns", "7"), permissions=permissions
    )
    open_agent(config, directory).work("Do it.\n", a_session(directory, **session))
    found: dict[str, str] = {}
    option = ""
    for word in (directory / "arguments").read_text().splitlines():
        if word.startswith("-"):
            option = word
            found[option] = ""
        else:
            found[option] = word
    return found


def test_it_is_asked_for_events_and_gets_the_prompt_on_stdin(tmp_path: Path) -> None:
    options = given(tmp_path, model="sonnet", environment={"RALPH_HAT": "critic"})

    assert options["--output-format"] == "stream-json"
    assert options.keys() >= {"-p", "--verbose"}
    assert (options["--model"], options["--max-turns"]) == ("sonnet", "7")
    assert (tmp_path / "prompt").read_text() == "Do it.\n"
    assert "RALPH_HAT=critic\n" in (tmp_path / "environment").read_text()


def test_without_a_model_none_is_named(tmp_path: Path) -> None:
    assert "--model" not in given(tmp_path)


def test_a_prompt_of_any_size_arrives(tmp_path: Path) -> None:
    prompt = "Grüße, 世界 🙂\n" * 30_000

    a_claude(tmp_path, lines(result("a"))).work(prompt, a_session(tmp_path))

    assert (tmp_path / "prompt").read_text() == prompt


def test_a_file_is_named_in_the_prompt_and_not_put_into_it(tmp_path: Path) -> None:
    (tmp_path / "a b.txt").touch()
    (tmp_path / "secret.txt").touch()
    prompt = (
        f'@secret.txt, see @{tmp_path}/secret.txt#L3-9 (or\n@./secret.txt.) and @"a b.txt"\n'
        "    @property\nmail me@secret.txt, @types/node, @ secret.txt, @\x00, @"
    )

    a_claude(tmp_path, lines(result("a"))).work(prompt, a_session(tmp_path))

    assert (tmp_path / "prompt").read_text() == (
        f'secret.txt, see {tmp_path}/secret.txt#L3-9 (or\n./secret.txt.) and "a b.txt"\n'
        "    @property\nmail me@secret.txt, @types/node, @ secret.txt, @\x00, @"
    )
    assert "CLAUDE_CODE_DISABLE_FILE_MENTIONS=1\n" in (tmp_path / "environment").read_text()


@pytest.mark.parametrize(
    ("session", "permissions", "may_edit", "may_run"),
    [
        ({}, "all", True, True),
        ({}, "edit", True, False),
        ({}, "read", False, False),
        ({"read_only": True}, "all", False, False),
        ({"read_only": True}, "edit", False, False),
    ],
)
def test_it_may_do_what_is_permitted_and_no_more(
    tmp_path: Path, session: Mapping[str, object], permissions: str, may_edit: bool, may_run: bool
) -> None:
    options = given(tmp_path, permissions, **session)

    allowed, denied = (set(options[name].split(",")) for name in ("--allowedTools", "--disallowedTools"))
    assert {"Read", "Grep", "Glob"} <= allowed
    assert not allowed & denied
    for name in ("Edit", "Write", "NotebookEdit"):
        assert name in (allowed if may_edit else denied)
    assert "Bash" in (allowed if may_run else denied)
    assert options["--permission-mode"] == "default"
    assert "ScheduleWakeup" in denied


def test_a_session_inside_another_one_is_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    monkeypatch.delenv("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", raising=False)

    given(tmp_path)
    mine = (tmp_path / "environment").read_text()
    given(tmp_path, environment={"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "0"})
    theirs = (tmp_path / "environment").read_text()

    assert "CLAUDECODE=" not in mine
    assert "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1\n" in mine
    assert "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=0\n" in theirs


# --- what can be started -----------------------------------------------------------------------


def why_missing(agent: Agent) -> str:
    with pytest.raises(AgentUnavailableError) as missing:
        agent.check()
    assert "\n" not in str(missing.value)
    return str(missing.value)


def test_a_program_of_a_known_version_will_do(tmp_path: Path) -> None:
    for version in ("2.0.0 (Claude Code)", "2.1.325 (Claude Code)", "10.0.1"):
        a_claude(tmp_path, "", version=version).check()


def test_check_asks_for_the_version_once(tmp_path: Path) -> None:
    agent = a_claude(tmp_path, "")
    agent.check()
    (tmp_path / "claude").write_text("#!/bin/sh\nexit 1\n")

    agent.check()


def test_an_old_program_is_to_be_updated(tmp_path: Path) -> None:
    why = why_missing(a_claude(tmp_path, "", version="1.0.128 (Claude Code)"))

    assert "1.0.128 is too old" in why
    assert why.endswith("npm install -g @anthropic-ai/claude-code")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("#!/bin/sh\necho 'Error: native binary not installed.' >&2\necho >&2\necho 'Run it.' >&2\nexit 1\n", "native"),
        ('echo "Error: native binary not installed." >&2\nexit 1\n', "cannot run on this machine"),
        ("#!/nonesuch/node\n", "/nonesuch/node was not found"),
        ("#!/bin/sh\necho welcome\n", "welcome"),
        ("#!/bin/sh\n", "does not report its version"),
        ("#!/bin/sh\nkill -9 $$\n", "SIGKILL"),
    ],
)
def test_a_half_installed_program_is_to_be_installed_again(tmp_path: Path, script: str, words: str) -> None:
    agent = a_claude(tmp_path, "")
    (tmp_path / "claude").write_text(script)

    why = why_missing(agent)

    assert words in why
    assert why.endswith("npm install -g @anthropic-ai/claude-code")


def test_a_program_that_hangs_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ralph.agents.programs.VERSION_TIMEOUT_SECONDS", 0.3)
    agent = a_claude(tmp_path, "")
    (tmp_path / "claude").write_text("#!/bin/sh\nsleep 60\n")

    assert "was terminated" in why_missing(agent)


def test_a_missing_program_is_to_be_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    usual = open_agent(AgentConfig(name="claude"), tmp_path)
    more = open_agent(AgentConfig(name="claude", command=("claude", "--max-turns", "9")), tmp_path)
    own = open_agent(AgentConfig(name="claude", command=("./mine",)), tmp_path)

    assert why_missing(usual).startswith("claude was not found in the PATH.")
    assert why_missing(usual).endswith("npm install -g @anthropic-ai/claude-code")
    assert why_missing(more).endswith("npm install -g @anthropic-ai/claude-code")
    assert why_missing(own) == f"Program not found: {tmp_path}/mine. Check the path."


def test_the_usual_program_is_found_in_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_claude(tmp_path, lines(message(text("Here.")), result("Here.")))
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    agent = open_agent(AgentConfig(name="claude"), tmp_path)

    agent.check()

    assert agent.work("", a_session(tmp_path)).text == "Here."
    assert (agent.name, agent.reports_files, agent.reports_cost) == ("claude", False, True)
    assert (agent.reports_tokens, agent.accepts_model) == (True, False)
