"""The description of the API: sound, whole, and true."""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
import schemathesis

from ralph.web.api import ENDPOINTS
from ralph.web.events import EVENTS_PATH
from ralph.web.openapi import openapi_document, openapi_json
from tests.browser.sample import fill
from tests.web.asking import Served
from tests.web.known import filled, ids_in

METHODS = ("get", "post", "put", "delete")
WORDS = {"q": "invoice", "budget": "500"}
"""What a query must say, where it must say something."""


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in openapi_document()["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def references(part: object) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for value in part.values():
            yield from references(value)
    elif isinstance(part, list):
        for value in part:
            yield from references(value)


def test_it_is_sound_openapi() -> None:
    schemathesis.openapi.from_dict(copy.deepcopy(openapi_document())).validate()


def test_every_schema_in_it_is_sound() -> None:
    for name, schema in openapi_document()["components"]["schemas"].items():
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
        assert name


def test_it_names_nothing_that_is_not_in_it() -> None:
    for reference in set(references(openapi_document())):
        part: Any = openapi_document()
        for word in reference.removeprefix("#/").split("/"):
            assert word in part, reference
            part = part[word]


def test_it_tells_of_every_call_and_stream() -> None:
    told = {(method.upper(), path) for method, path, _ in operations()}

    assert told == {(call.method, call.path) for call in ENDPOINTS} | {("GET", EVENTS_PATH)}


def test_every_operation_has_a_name_of_its_own() -> None:
    names = Counter(operation["operationId"] for _, _, operation in operations())

    assert [name for name, count in names.items() if count > 1] == []


def test_every_operation_says_what_it_is_good_for() -> None:
    for method, path, operation in operations():
        assert method in METHODS
        assert re.fullmatch(r"[A-Z].*\.", operation["summary"]), (method, path, operation["summary"])
        assert operation["tags"], (method, path)


def test_every_parameter_of_a_path_is_told() -> None:
    for method, path, operation in operations():
        told = [one["name"] for one in operation.get("parameters", ()) if one["in"] == "path"]
        assert told == re.findall(r"\{(\w+)\}", path), (method, path)


def test_every_operation_tells_how_it_fails() -> None:
    for method, path, operation in operations():
        assert "default" in operation["responses"], (method, path)


def test_it_is_given_as_it_is(served_once: Served) -> None:
    status, told = served_once.get("/api/openapi.json")

    assert status == 200
    assert told == json.loads(openapi_json())


# --- that it is true ----------------------------------------------------------------------


def closed(schema: Any) -> Any:
    """Return a schema in which what is not told must not be there."""
    if isinstance(schema, dict):
        told = {name: closed(value) for name, value in schema.items()}
        return (
            {"additionalProperties": False, **told} if "properties" in told and told.get("type") == "object" else told
        )
    return [closed(one) for one in schema] if isinstance(schema, list) else schema


def complaints(operation: dict[str, Any], status: int, answer: object) -> list[str]:
    """Say in what an answer differs from its description."""
    response = operation["responses"][str(status)]
    whole = closed(copy.deepcopy({"components": openapi_document()["components"]}))
    schema = closed(copy.deepcopy(response["content"]["application/json"]["schema"]))
    validator = jsonschema_rs.Draft202012Validator({**whole, "allOf": [schema]})
    return [
        f"{'/'.join(map(str, error.instance_path))}: {error.message[:200]}" for error in validator.iter_errors(answer)
    ]


@pytest.mark.slow
def test_every_answer_is_as_it_is_described_and_there_is_something_in_it(served: Served) -> None:
    fill(served.project)
    known = ids_in(served.project)
    wrong, empty = [], []
    for method, path, operation in operations():
        if method != "get" or path == EVENTS_PATH:
            continue
        needed = [one["name"] for one in operation["parameters"] if one["in"] == "query" and one["required"]]
        query = "&".join(f"{name}={(known.get(name) or [WORDS.get(name, 'x')])[0]}" for name in needed)
        where = filled(path, known)
        if where is None:
            empty.append(path)
            continue
        status, answer = served.get(f"{where}?{query}")
        if status != 200:
            wrong.append(f"{where}?{query}: {status} {answer}")
            continue
        wrong += [f"{where}: {complaint}" for complaint in complaints(operation, status, answer)]

    assert wrong == []
    assert empty == []


@pytest.mark.parametrize("limit", ["0", "-1", "100001", "x", "1e9", "", "9" * 50])
def test_every_limit_is_kept(served_once: Served, limit: str) -> None:
    for method, path, operation in operations():
        told = {one["name"]: one["schema"] for one in operation.get("parameters", ())}
        where = filled(path, {"projects": ["-"]})
        if method == "get" and "limit" in told and where:
            assert 200 <= told["limit"]["maximum"] <= 100_000, path
            status, answer = served_once.get(f"{where}?limit={limit}{'&q=x' if 'q' in told else ''}")
            assert status == 422, path
            assert "limit" in answer["detail"], path


@pytest.mark.parametrize(
    "cursor", ["x", "-1", "0", "null", "%00", "%F0%9F%92%A9", "eyJhIjoxfQ==", "9" * 40, "a" * 5_000]
)
def test_a_cursor_we_did_not_give_is_refused_in_a_sentence(served_once: Served, cursor: str) -> None:
    for method, path, operation in operations():
        if method == "get" and "cursor" in [one["name"] for one in operation.get("parameters", ())]:
            where = filled(path, {"projects": ["-"]})
            if where:
                status, told = served_once.get(f"{where}?cursor={cursor}")
                assert status in (200, 422), (path, told)


def test_a_name_that_is_not_known_is_refused(served_once: Served) -> None:
    for call in ENDPOINTS:
        where = filled(call.path, {"projects": ["-"]})
        if call.query and where:
            said = served_once.ask(call.method, f"{where}?colour=red", "{}" if call.body else None)
            assert said.status == 422, call.path
            assert "colour" in said.json["detail"]
