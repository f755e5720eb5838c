"""OpenAPI 3.1 document of the API, generated from its endpoints."""

from __future__ import annotations

import collections.abc
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import msgspec

import ralph
from ralph.core import records
from ralph.loop import stats, stuck
from ralph.memory.lifecycle import lift
from ralph.web.api import ENDPOINTS
from ralph.web.events import EVENT_TYPES, EVENTS_OPERATION, EVENTS_PATH
from ralph.web.problems import JSON_TYPE, PROBLEM_TYPE, Problem

if TYPE_CHECKING:
    from ralph.web.endpoints import Endpoint

REF_TEMPLATE = "#/components/schemas/{name}"
_TEXT: dict[str, Any] = {"schema": {"type": "string"}}


@cache
def openapi_json() -> bytes:
    """Return the OpenAPI document as JSON."""
    return msgspec.json.format(msgspec.json.encode(openapi_document()), indent=2)


@cache
def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI document."""
    schemas = _Schemas()
    paths: dict[str, Any] = {}
    for call in ENDPOINTS:
        paths.setdefault(call.path, {})[call.method.lower()] = _operation(call, schemas)
    paths[EVENTS_PATH] = {"get": EVENTS_OPERATION}
    for kind in EVENT_TYPES:
        schemas.of(kind)
    problem = schemas.of(Problem)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Ralph",
            "version": ralph.__version__,
            "description": "The memory, tasks and runs of a project. Errors are problem details (RFC 9457).",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "The token that `ralph serve` created."}
            },
            "responses": {
                "Problem": {
                    "description": "The request failed; `detail` says why.",
                    "content": {PROBLEM_TYPE: {"schema": problem}},
                }
            },
        },
    }


def _operation(call: Endpoint, schemas: _Schemas) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in call.path_parameters
    ]
    if call.query:
        parameters += _parameters(schemas.whole(call.query))
    operation: dict[str, Any] = {
        "operationId": call.handler.__name__,
        "summary": call.summary,
        "description": call.description,
        "tags": [call.tag],
        "parameters": parameters,
        "responses": {
            str(call.status): {
                "description": "Success.",
                "content": {JSON_TYPE: {"schema": schemas.of(call.response_type)}}
                | dict.fromkeys(call.text_types, _TEXT),
            },
            "default": {"$ref": "#/components/responses/Problem"},
        },
    }
    if call.body:
        is_required = bool(schemas.whole(call.body).get("required"))
        operation["requestBody"] = {"required": is_required, "content": {JSON_TYPE: {"schema": schemas.of(call.body)}}}
    return operation


def _parameters(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the fields of a query struct as OpenAPI parameters."""
    required = schema.get("required", ())
    return [
        {
            "name": name,
            "in": "query",
            "required": name in required,
            "description": field.get("description", ""),
            "schema": {key: value for key, value in field.items() if key != "description"},
        }
        for name, field in schema["properties"].items()
    ]


class _Schemas:
    """Collector of JSON Schemas for structs and records."""

    def __init__(self) -> None:
        self.components: dict[str, Any] = {}
        self._seen: dict[str, Any] = {}

    def of(self, kind: Any) -> dict[str, Any]:
        """Return the schema of a type and add the schemas it refers to to `components`."""
        if _is_record(kind):
            return self._record(kind)
        (schema,), found = msgspec.json.schema_components([kind], ref_template=REF_TEMPLATE, schema_hook=self._record)
        self.components |= found
        return schema

    def whole(self, kind: Any) -> dict[str, Any]:
        """Return the schema of a type with its fields instead of a reference."""
        schema = self.of(kind)
        found: dict[str, Any] = self.components[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
        return found

    def _record(self, kind: type) -> dict[str, Any]:
        if kind is object:
            return {"description": "Any value."}
        if not _is_record(kind):
            raise NotImplementedError
        if kind.__name__ not in self._seen:
            self._seen[kind.__name__] = kind
            hints = get_type_hints(kind, {**_names(), **vars(sys.modules[kind.__module__])})
            self.components[kind.__name__] = {
                "title": kind.__name__,
                "description": (kind.__doc__ or "").strip(),
                "type": "object",
                "properties": {name: self.of(hint) for name, hint in hints.items()},
                "required": list(hints),
            }
        assert self._seen[kind.__name__] is kind, f"two records are named {kind.__name__}"
        return {"$ref": REF_TEMPLATE.format(name=kind.__name__)}


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and hasattr(kind, "_layout") and not get_args(kind)


@cache
def _names() -> dict[str, Any]:
    """Return names in annotations that their modules import only for type checking."""
    names: dict[str, Any] = {"Row": dict[str, Any], "Any": Any}
    for module in (collections.abc, stuck, stats, records, lift):
        names |= {name: getattr(module, name) for name in dir(module)}
    return names
