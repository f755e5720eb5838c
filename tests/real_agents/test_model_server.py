"""The scripted model answers on every wire, and tells what was and was not asked of it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.request import Request as Sent
from urllib.request import urlopen

import pytest

from tests.real_agents.model_server import Call, ModelServer, Step, calls, fails, hangs, refuses, says

TOOL = {"name": "write"}
WIRES: dict[str, tuple[str, dict[str, Any]]] = {
    "anthropic": ("/v1/messages?beta=true", {"messages": [{"role": "user", "content": "Fix it."}], "tools": [TOOL]}),
    "gemini": (
        "/v1beta/models/m:streamGenerateContent?alt=sse",
        {"contents": [{"parts": [{"text": "Fix it."}]}], "tools": [{"functionDeclarations": [TOOL]}]},
    ),
    "responses": ("/v1/responses", {"input": [{"role": "user", "content": "Fix it."}], "tools": [TOOL]}),
    "chat": (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "Fix it."}], "tools": [{"type": "function", "function": TOOL}]},
    ),
}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """Give a model whose script need not be played to the end."""
    started = ModelServer()
    yield started
    started.close()


def ask(server: ModelServer, wire: str, *, stream: bool = True, **body: Any) -> tuple[int, str]:
    """Send a request as an agent would; give the status and the body."""
    path, usual = WIRES[wire]
    if not stream:
        path = path.replace("streamG", "g").replace("?alt=sse", "")
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=10)
    connection.request("POST", path, json.dumps({**usual, "stream": stream, **body}))
    answer = connection.getresponse()
    try:
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def events(body: str) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in body.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def leaves(part: object) -> list[object]:
    if isinstance(part, dict | list):
        inside = part.values() if isinstance(part, dict) else part
        return [leaf for one in inside for leaf in leaves(one)]
    return [part]


@pytest.mark.parametrize("wire", WIRES)
def test_a_step_is_said_on_every_wire_whole_and_in_pieces(server: ModelServer, wire: str) -> None:
    step = Step(text="I write.", calls=(Call(name="write", arguments={"path": "a.txt"}),), tokens_in=71, tokens_out=17)
    server.play(step, step)

    _, streamed = ask(server, wire)
    _, whole = ask(server, wire, stream=False)

    told = leaves(json.loads(whole))
    assert {"I write.", "write", 71, 17} <= set(told)
    assert "a.txt" in whole
    pieces = leaves(events(streamed))
    assert {"I wr", "ite.", "write", 17} <= set(pieces)
    assert "a.txt" in streamed.replace('\\"', "")


@pytest.mark.parametrize(
    ("wire", "refused", "cut"),
    [
        ("anthropic", "refusal", "max_tokens"),
        ("gemini", "SAFETY", "MAX_TOKENS"),
        ("responses", "refusal", "max_output_tokens"),
        ("chat", "content_filter", "length"),
    ],
)
def test_refusals_and_limits_have_each_wires_own_name(server: ModelServer, wire: str, refused: str, cut: str) -> None:
    server.play(refuses("No."), Step(text="Half", stop="length"))

    assert refused in leaves(events(ask(server, wire)[1]))
    assert cut in leaves(events(ask(server, wire)[1]))


@pytest.mark.parametrize("wire", WIRES)
def test_a_service_fails_before_the_stream_and_within_it(server: ModelServer, wire: str) -> None:
    server.play(fails(429, "Slow down."), Step(text="Half", stream_error="Overloaded."))

    status, body = ask(server, wire)
    _, broken = ask(server, wire)

    assert (status, json.loads(body)["error"]["message"]) == (429, "Slow down.")
    assert "Overloaded." in leaves(events(broken)[-1])


def test_a_stream_that_is_cut_is_seen_to_be_cut(server: ModelServer) -> None:
    server.play(says("A long answer.", drop_after=100))

    with pytest.raises(http.client.IncompleteRead) as cut:
        ask(server, "anthropic")

    assert len(cut.value.partial) == 100


def test_what_hangs_is_let_go_when_the_server_is_closed(server: ModelServer) -> None:
    server.play(hangs())
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=0.3)
    path, body = WIRES["anthropic"]

    connection.request("POST", path, json.dumps(body))
    with pytest.raises(TimeoutError):
        connection.getresponse()

    assert len(server.requests) == 1
    assert server.left() == []


def test_steps_are_chosen_by_what_was_said_and_else_in_order(server: ModelServer) -> None:
    server.play(says("blue", when="the sky"), says("first"), says("second"), says("ever", repeat=True))

    def answer(text: str) -> str:
        body = json.loads(ask(server, "anthropic", stream=False, messages=[{"role": "user", "content": text}])[1])
        return str(body["content"][0]["text"])

    asked = ("Hello.", "What is the sky?", "What is the sky?", "More?", "More?")
    assert [answer(text) for text in asked] == ["first", "blue", "second", "ever", "ever"]
    assert server.left() == []


def test_requests_without_tools_use_no_step_but_one_for_them(server: ModelServer) -> None:
    server.play(says("for the task"), says("a summary", aside=True))

    _, summary = ask(server, "anthropic", stream=False, tools=[])
    _, title = ask(server, "anthropic", tools=[])
    with urlopen(Sent(f"{server.url}/v1/messages/count_tokens", b"{}")) as counted:
        count = json.load(counted)

    assert "a summary" in summary
    assert "title" in title
    assert count == {"input_tokens": 100}
    assert [step.text for step in server.left()] == ["for the task"]
    assert (len(server.requests), len(server.asides)) == (0, 2)


def test_what_an_agent_sent_can_be_asked_for(server: ModelServer) -> None:
    server.play(says("Yes."))
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "two files"}]}
    turns = [{"role": "user", "content": "Count."}, {"role": "user", "content": [result]}]

    ask(server, "anthropic", system=[{"type": "text", "text": "Be brief."}], messages=turns)

    (request,) = server.requests
    assert request.text == "Be brief.\nCount.\ntwo files"
    assert request.last == "two files"
    assert request.has("Be brief.", "Count.")
    assert not request.has("tool_result")
    assert request.tools == ("write",)


def test_a_request_that_no_step_is_for_is_refused_and_remembered(server: ModelServer) -> None:
    server.play(calls("write", {}, when="something else"))

    status, _ = ask(server, "chat")

    assert status == 400
    assert [request.last for request in server.unexpected] == ["Fix it."]
    assert len(server.left()) == 1
