"""Messages, whatever carries them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ralph.integrations.mcp.protocol import (
    HANDSHAKE_VERSIONS,
    PROTOCOL_VERSIONS,
    JsonRpcError,
    encode_response,
    handle_message,
    parse_message,
)
from ralph.integrations.project_handle import ProjectHandle
from tests.integrations.mcp.asking import ALONE, INITIALIZE, error_of, request, result_of

NOWHERE = ProjectHandle("/nowhere")


@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
def test_a_version_with_a_handshake_is_spoken_as_asked(version: str) -> None:
    assert result_of(NOWHERE, "initialize", **{**INITIALIZE, "protocolVersion": version})["protocolVersion"] == version


@pytest.mark.parametrize("version", ["2099-01-01", "2026-07-28", "", "1"])
def test_whoever_asks_for_another_version_is_offered_the_newest(version: str) -> None:
    result = result_of(NOWHERE, "initialize", **{**INITIALIZE, "protocolVersion": version})

    assert result["protocolVersion"] == HANDSHAKE_VERSIONS[-1]


def test_discovery_names_all_versions_and_how_long_that_holds() -> None:
    result = result_of(NOWHERE, "server/discover", _meta=ALONE)

    assert set(result["supportedVersions"]) == set(PROTOCOL_VERSIONS)
    assert result["resultType"] == "complete"
    assert result["cacheScope"] == "private"
    assert result["ttlMs"] > 0


def test_only_who_speaks_without_a_handshake_gets_the_marks_of_that() -> None:
    before = result_of(NOWHERE, "tools/list")
    since = result_of(NOWHERE, "tools/list", _meta=ALONE)

    assert before.keys() == {"tools"}
    assert since.keys() == {"tools", "resultType", "_meta", "ttlMs", "cacheScope"}
    assert since["tools"] == before["tools"]


def test_an_unknown_version_without_a_handshake_is_told_which_are_known() -> None:
    error = error_of(NOWHERE, "tools/list", _meta={**ALONE, "io.modelcontextprotocol/protocolVersion": "2099-01-01"})

    assert error["code"] == -32022
    assert error["data"] == {"supported": list(PROTOCOL_VERSIONS), "requested": "2099-01-01"}


def test_without_a_handshake_there_is_no_initialize_and_with_one_no_discovery() -> None:
    assert error_of(NOWHERE, "initialize", **INITIALIZE, _meta=ALONE)["code"] == -32601
    assert error_of(NOWHERE, "server/discover")["code"] == -32602


@pytest.mark.parametrize("id", [0, 1, -7, 2**60, 1.5, "", "a", "ü\ud800", "1"])
def test_an_answer_has_the_id_of_its_request_whatever_type_it_is(id: object) -> None:
    answered = parse_message(encode_response(handle_message(request("ping", id), NOWHERE)))

    assert answered == {"jsonrpc": "2.0", "id": id, "result": {}}


@pytest.mark.parametrize("id", [None, True, [], {}])
def test_an_id_that_is_neither_text_nor_number_is_refused(id: object) -> None:
    answered = handle_message(request("ping", id), NOWHERE)

    assert isinstance(answered, dict)
    assert (answered["id"], answered["error"]["code"]) == (None, -32600)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (None, -32600),
        (7, -32600),
        ("ping", -32600),
        ([], -32600),
        ([{}] * 101, -32600),
        ({}, -32600),
        ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": 7}, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}, -32602),
        ({"jsonrpc": "2.0", "id": 1, "method": "no/such"}, -32601),
        (request("initialize"), -32602),
        (request("initialize", protocolVersion=7), -32602),
        (request("tools/call"), -32602),
        (request("tools/call", name="no_such_tool"), -32602),
        (request("tools/call", name="prime", arguments="x"), -32602),
        (request("tools/list", cursor="next"), -32602),
        (request("resources/read"), -32602),
        (request("resources/read", uri=7), -32602),
        (request("tools/list", _meta={"io.modelcontextprotocol/protocolVersion": 7}), -32602),
    ],
)
def test_what_makes_no_sense_is_answered_with_the_code_for_it(message: object, code: int) -> None:
    answered = handle_message(message, NOWHERE)

    assert isinstance(answered, dict)
    assert answered["error"]["code"] == code
    assert answered["error"]["message"].endswith(".")


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"\xff\xfe", b'{"id": NaN}', b"[" * 100_000, b'{"id": ' + b"9" * 10_000 + b"}"]
)
def test_what_is_not_json_is_a_parse_error(raw: bytes) -> None:
    with pytest.raises(JsonRpcError) as caught:
        parse_message(raw)

    assert caught.value.code == -32700


def test_a_batch_is_answered_as_a_batch_without_what_wants_no_answer() -> None:
    told = {"jsonrpc": "2.0", "method": "notifications/initialized"}

    answered = handle_message([request("ping", 1), told, 7, request("no/such", "b")], NOWHERE)

    assert isinstance(answered, list)
    assert [one["id"] for one in answered] == [1, None, "b"]
    assert handle_message([told, told], NOWHERE) is None


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/of_the_future", "params": {}},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}},
    ],
)
def test_what_is_merely_told_is_not_answered(message: object) -> None:
    assert handle_message(message, NOWHERE) is None


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_METHODS = st.sampled_from(
    ["initialize", "tools/list", "tools/call", "resources/read", "resources/list", "server/discover", "ping"]
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(method=_METHODS, params=_JSON, name=st.sampled_from(["remember", "search_memories", "prime", "list_tasks"]))
def test_any_params_get_an_answer(tmp_path: Path, method: str, params: Any, name: str) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    if method == "tools/call":
        message["params"] = {"name": name, "arguments": params}

    answered = handle_message(message, ProjectHandle(str(tmp_path)))

    assert isinstance(answered, dict)
    assert ("result" in answered) != ("error" in answered)
    assert parse_message(encode_response(answered)) == answered
