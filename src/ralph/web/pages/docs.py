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
    schema: dict[str, Any]
    is_required: bool = True

    @property
    def default(self) -> str:
        """Default value as JSON; empty if there is none."""
        value = self.schema.get("default")
        return "" if value in (None, "", []) else json.dumps(value)


def show_docs(project: Project) -> PageView:
    """Show the API reference."""
    document = openapi_document()
    schemas = document["components"]["schemas"]
    return PageView(
        template="docs.html",
        values={
            "groups": operations_by_tag(),
            "schemas": [(name, schema, _fields(schema)) for name, schema in sorted(schemas.items())],
            "describe_type": describe_type,
            "linked_schema": linked_schema,
            "address": EXAMPLE_URL,
            "version": document["info"]["version"],
        },
    )


@cache
def operations_by_tag() -> dict[str, list[dict[str, Any]]]:
    """Return the operations by tag, with the fields of their parameters, body and response."""
    document = openapi_document()
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            body = _content_schema(operation.get("requestBody", {}))
            status, response = next(iter(operation["responses"].items()))
            fields = {
                "method": method.upper(),
                "path": path,
                "parameter_fields": [_parameter(one) for one in operation["parameters"]],
                "body_fields": _fields(document["components"]["schemas"].get(_ref_name(body), body)),
                "response": ApiField(name=status, schema=_content_schema(response)),
            }
            groups.setdefault(operation["tags"][0], []).append(operation | fields)
    return groups


def _content_schema(part: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a request body or response."""
    media: dict[str, Any] = next(iter(part.get("content", {}).values()), {})
    schema: dict[str, Any] = media.get("schema", {})
    return schema


def _parameter(parameter: dict[str, Any]) -> ApiField:
    description = "in the path" if parameter["in"] == "path" else parameter.get("description", "")
    schema = {**parameter["schema"], "description": description}
    return ApiField(name=parameter["name"], schema=schema, is_required=parameter["required"])


def _fields(schema: dict[str, Any]) -> list[ApiField]:
    required = schema.get("required", ())
    properties = schema.get("properties", {})
    return [ApiField(name=name, schema=one, is_required=name in required) for name, one in properties.items()]


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


def linked_schema(schema: dict[str, Any]) -> str:
    """Return the first named schema that a type refers to."""
    if name := _ref_name(schema):
        return name
    inner = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    inner += [schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)]
    return next((name for one in inner if (name := linked_schema(one))), "")
