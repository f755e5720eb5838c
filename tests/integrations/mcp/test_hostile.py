"""Whatever a client puts into a message, it is answered, and so is the next one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ralph.integrations.mcp.protocol import encode_response, handle_message, parse_message
from ralph.integrations.mcp.tool import Tool
from ralph.integrations.mcp.tools import TOOLS
from ralph.integrations.project_handle import ProjectHandle
from ralph.project import Project
from ralph.store.memory_queries import MemoryFilter
from tests.integrations.mcp.asking import Json, Served, called, error_of, request, tool_call

HALF = "a\ud83d"
"""What a client sends that has cut a text in the middle of a character."""
TEXTS = [
    (tool, name)
    for tool in TOOLS.values()
    for name, schema in tool.properties.items()
    if schema["type"] == "string" or schema.get("items", {}).get("type") == "string"
]


def half_calls() -> list[Json]:
    """Return a call for every argument of every tool that takes text, with half of a character in it."""
    return [
        request("tools/call", f"{tool.name} {name}", name=tool.name, arguments=_half(tool, name))
        for tool, name in TEXTS
    ]


def _half(tool: Tool, name: str) -> Json:
    return {
        **dict.fromkeys(tool.required, "x"),
        name: HALF if tool.properties[name]["type"] == "string" else ["x", HALF],
    }


OTHERS = [
    request("resources/read", "memory", uri=f"ralph://memory/{HALF}"),
    request("resources/read", "task", uri=f"ralph://task/{HALF}"),
    request("resources/read", "other", uri=HALF),
    request("tools/call", "tool", name=HALF, arguments={HALF: HALF}),
    request("tools/call", "name", name="prime", arguments={HALF: HALF}),
    request("initialize", "version", protocolVersion=HALF),
    request(HALF, "method"),
    request("ping", HALF),
]
"""All other places where text comes in."""


def refusals(answers: list[Json]) -> list[str]:
    return [one["result"]["content"][0]["text"] for one in answers if one["result"]["isError"]]


def test_half_of_a_character_is_refused_in_every_argument_and_the_server_goes_on(project: Project) -> None:
    with Served(project.root) as served:
        answers = [served.ask(call) for call in half_calls()]
        others = [served.ask(one) for one in OTHERS]
        last = served.ask(tool_call("list_tasks", "last"))
        _, err, code = served.end()

    assert [one["id"] for one in answers] == [f"{tool.name} {name}" for tool, name in TEXTS]
    assert len(answers) > 20
    for (tool, name), said in zip(TEXTS, refusals(answers), strict=True):
        assert said.startswith(f"The argument {name!r} of {tool.name} ")
        assert said.endswith("contains an unpaired surrogate.")
    assert [one["id"] for one in others] == [one["id"] for one in OTHERS]
    assert not last["result"]["isError"]
    assert (err, code) == ("", 0)
    assert not project.memory.list(MemoryFilter())
    assert not project.tasks.list()


def test_an_address_with_half_of_a_character_is_that_of_no_resource(opened: ProjectHandle) -> None:
    error = error_of(opened, "resources/read", uri=f"ralph://memory/{HALF}")

    assert (error["code"], error["message"]) == (
        -32002,
        "Resource not found: the URI contains an unpaired surrogate.",
    )


def test_a_number_that_json_cannot_write_is_no_id(opened: ProjectHandle) -> None:
    answered = handle_message(parse_message(b'{"jsonrpc": "2.0", "id": 1e999, "method": "ping"}'), opened)

    assert isinstance(answered, dict)
    assert (answered["id"], answered["error"]["code"]) == (None, -32600)


# --- anything -----------------------------------------------------------------------------

_ANY_TEXT = st.text(st.characters(categories=None), max_size=12)  # controls, halves and what has no meaning too
_ODD_TEXT = st.sampled_from(
    [
        *(
            "\x00",
            "a\x00b",
            HALF,
            "\ud800\udc00",
            "\x1b[31m",
            "\u202e",
            "%s",
            "{}",
            "\\",
            "'",
            '"; --',
            "*",
            "^a:b",
            "-1",
        ),
        *("../../etc/passwd", "/etc/passwd", "~", "a/../b", "C:\\x", "NEAR(", "AND", "<task-done>x</task-done>"),
        *(
            "t-000000",
            "mem-1-aaaa",
            "global:x",
            "é" * 300,
            "x" * 25_000,
            "\n\n",
            "---\n",
            "```",
            "tag, other",
            "\ufdd0",
        ),
    ]
)
_JUNK = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.lists(_ODD_TEXT, max_size=2)


def _values(schema: Json, known: list[str]) -> st.SearchStrategy[Any]:
    """Return values for an argument, most of them such that the schema allows them."""
    if schema["type"] == "integer":
        fits: st.SearchStrategy[Any] = st.integers(schema["minimum"], schema["maximum"])
    elif schema["type"] == "array":
        fits = st.lists(_ODD_TEXT | _ANY_TEXT | st.sampled_from(known), max_size=3)
    else:
        fits = _ODD_TEXT | _ANY_TEXT | st.sampled_from([*known, *schema.get("enum", ())])
    return st.one_of(fits, fits, fits, _JUNK)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.slow
def test_any_arguments_get_an_answer_of_any_tool(opened: ProjectHandle, project: Project, data: st.DataObject) -> None:
    if not project.tasks.list():
        called(opened, "add_task", title="First", body="A body.", priority=1)
    if not project.memory.list(MemoryFilter()):  # an earlier example may have forgotten it
        called(opened, "remember", content="The parser wants tabs.", tags=["parser"])
    known = [project.tasks.list()[0].id, project.memory.list(MemoryFilter())[0].id]
    tool = data.draw(st.sampled_from(list(TOOLS.values())))
    must = {name: _values(tool.properties[name], known) for name in tool.required}
    may = {name: _values(schema, known) for name, schema in tool.properties.items() if name not in must}
    arguments = data.draw(st.fixed_dictionaries(must, optional=may))

    found = handle_message(tool_call(tool.name, **arguments), opened)

    assert isinstance(found, dict)
    assert parse_message(encode_response(found)) == found
    assert found["result"]["content"][0]["text"]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(end=_ANY_TEXT | _ODD_TEXT, kind=st.sampled_from(["memory", "task", "prime", "other"]))
def test_any_address_gets_an_answer(opened: ProjectHandle, end: str, kind: str) -> None:
    found = handle_message(request("resources/read", uri=f"ralph://{kind}/{end}"), opened)

    assert isinstance(found, dict)
    assert found["error"]["message"]


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_a_nul_in_any_text_is_answered(opened: ProjectHandle, tool: Tool) -> None:
    for name, schema in tool.properties.items():
        if schema["type"] == "integer":
            continue
        value = "a\x00b" if schema["type"] == "string" else ["a\x00b"]

        found = handle_message(tool_call(tool.name, **{**dict.fromkeys(tool.required, "x"), name: value}), opened)

        assert isinstance(found, dict)
        assert found["result"]["content"][0]["text"]
