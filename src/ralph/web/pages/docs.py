"""API reference page, generated from the OpenAPI document."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from ralph.core.records import record
from ralph.project import Project
from ralph.web.openapi import openapi_document
from ralph.web.pages.page import PageView
from ralph.web.tokens import DEFAULT_SERVE_PORT

EXAMPLE_URL = f"http://127.0.0.1:{DEFAULT_SERVE_PORT}"
MAX_SHOWN_LIMIT = 1_000_000
"""Magnitude above which a limit is not shown."""
MAX_SHOWN_ENUM_VALUES = 12
"""Maximum number of enum values shown."""


@record
class ApiField:
    """Field of a request or response."""

    name: str
    type: str
    link: str
    """Name of the schema it refers to, if any."""
    is_required: bool
    default: str
    description: str


@record
class ApiOperation:
    """API operation."""

    id: str
    method: str
    path: str
    summary: str
    description: str
    parameters: tuple[ApiField, ...]
    body: tuple[ApiField, ...]
    answer: ApiField
    example: str


@record
class OperationGroup:
    """Group of operations with the same tag."""

    name: str
    operations: tuple[ApiOperation, ...]


@record
class ApiSchema:
    """Named schema."""

    name: str
    description: str
    fields: tuple[ApiField, ...]
    words: str
    """Type, if the schema is not an object."""


def show_docs(project: Project) -> PageView:
    """Show the API reference."""
    groups, shapes = api_reference()
    return PageView(
        template="docs.html",
        values={
            "groups": groups,
            "shapes": shapes,
            "address": EXAMPLE_URL,
            "version": openapi_document()["info"]["version"],
        },
    )


@cache
def api_reference() -> tuple[tuple[OperationGroup, ...], tuple[ApiSchema, ...]]:
    """Return all operations by group, and the named schemas."""
    spec = openapi_document()
    schemas: dict[str, Any] = spec["components"]["schemas"]
    groups: dict[str, list[ApiOperation]] = {}
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            tag = (operation.get("tags") or ["more"])[0]
            groups.setdefault(tag, []).append(_operation(method.upper(), path, operation, schemas))
    shapes = [
        ApiSchema(
            name=name,
            description=schema.get("description", ""),
            fields=_fields(schema),
            words="" if "properties" in schema else describe_type(schema),
        )
        for name, schema in sorted(schemas.items())
    ]
    return tuple(OperationGroup(name=name, operations=tuple(some)) for name, some in groups.items()), tuple(shapes)


def _operation(method: str, path: str, operation: dict[str, Any], schemas: dict[str, Any]) -> ApiOperation:
    body = _body_schema(operation, schemas)
    return ApiOperation(
        id=operation.get("operationId") or f"{method.lower()}{path.replace('/', '-')}",
        method=method,
        path=path,
        summary=operation.get("summary", ""),
        description=operation.get("description", ""),
        parameters=tuple(_parameter(one) for one in operation.get("parameters", ())),
        body=_fields(body),
        answer=_answer(operation),
        example=_example(method, path, operation, body),
    )


def _body_schema(operation: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the resolved schema of the request body."""
    content = operation.get("requestBody", {}).get("content", {})
    media: dict[str, Any] = next(iter(content.values()), {})
    schema: dict[str, Any] = media.get("schema", {})
    resolved: dict[str, Any] = schemas.get(_ref_name(schema), schema)
    return resolved


def _parameter(parameter: dict[str, Any]) -> ApiField:
    description = "in the path" if parameter["in"] == "path" else parameter.get("description", "")
    return _field(
        parameter["name"], {**parameter["schema"], "description": description}, parameter.get("required", False)
    )


def _answer(operation: dict[str, Any]) -> ApiField:
    status, answer = next(iter(operation["responses"].items()))
    contents: dict[str, dict[str, Any]] = answer.get("content", {})
    kind = next(iter(contents), "nothing")
    field = _field(status, contents.get(kind, {}).get("schema", {}), True)
    return (
        field
        if kind == "application/json"
        else ApiField(
            name=status, type=kind, link="", is_required=True, default="", description=answer.get("description", "")
        )
    )


def _fields(schema: dict[str, Any]) -> tuple[ApiField, ...]:
    needed = schema.get("required", ())
    return tuple(_field(name, one, name in needed) for name, one in schema.get("properties", {}).items())


def _field(name: str, schema: dict[str, Any], is_needed: bool) -> ApiField:
    default = schema.get("default")
    return ApiField(
        name=name,
        type=describe_type(schema),
        link=_linked_schema(schema),
        is_required=is_needed,
        default="" if default in (None, "", []) else json.dumps(default),
        description=schema.get("description", ""),
    )


# --- types ----------------------------------------------------------------------------


def describe_type(schema: dict[str, Any]) -> str:
    """Describe the type of a schema in a few words."""
    if name := _ref_name(schema):
        return name
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(describe_type(one) for one in schema[key]))
    if "enum" in schema:
        words = [json.dumps(one) for one in schema["enum"]]
        return " | ".join(words[:MAX_SHOWN_ENUM_VALUES]) + (" | …" if len(words) > MAX_SHOWN_ENUM_VALUES else "")
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {describe_type(schema['items'])}" if schema.get("items") else "list"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict) and schema["additionalProperties"]:
        return f"object of {describe_type(schema['additionalProperties'])}"
    name = " or ".join(kind) if isinstance(kind, list) else str(kind)
    return name + _limits(schema)


def _limits(schema: dict[str, Any]) -> str:
    minimum, maximum = (
        None if bound is None or abs(bound) > MAX_SHOWN_LIMIT else bound
        for bound in (schema.get("minimum"), schema.get("maximum"))
    )
    if minimum is None and maximum is None:
        return ""
    return f" {'' if minimum is None else minimum}…{'' if maximum is None else maximum}"


def _ref_name(schema: dict[str, Any]) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _linked_schema(schema: dict[str, Any]) -> str:
    """Return the first named schema that a type refers to."""
    if name := _ref_name(schema):
        return name
    inner = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    inner += [schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)]
    return next((name for one in inner if (name := _linked_schema(one))), "")


# --- examples -------------------------------------------------------------------------


def _example(method: str, path: str, operation: dict[str, Any], body: dict[str, Any]) -> str:
    """Return a curl command for an operation."""
    address = EXAMPLE_URL + path
    needed = [one for one in operation.get("parameters", ()) if one["in"] == "query" and one.get("required")]
    if needed:
        address += "?" + "&".join(f"{one['name']}={_sample(one['name'], one['schema'])}" for one in needed)
    lines = [f'curl -H "Authorization: Bearer $TOKEN"{"" if method == "GET" else f" -X {method}"}']
    if method in ("POST", "PUT"):
        payload = {
            name: _sample(name, schema)
            for name, schema in body.get("properties", {}).items()
            if name in body.get("required", ())
        }
        lines += ["-H 'Content-Type: application/json'", f"-d '{json.dumps(payload)}'"]
    is_stream = any("text/event-stream" in one.get("content", {}) for one in operation["responses"].values())
    return " \\\n  ".join([*lines, *(["-N"] if is_stream else []), f"'{address}'"])


def _sample(name: str, schema: dict[str, Any]) -> object:
    """Return a sample value of a field."""
    if schema.get("enum"):
        return schema["enum"][0]
    for one in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        if one.get("type") != "null":
            return _sample(name, one)
    samples: dict[str, object] = {"integer": 1, "number": 0.5, "boolean": True, "array": [], "object": {}}
    return samples.get(str(schema.get("type")), "…" if name == "q" else f"the {name}")
