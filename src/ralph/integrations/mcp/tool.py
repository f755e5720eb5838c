"""Description of a tool of the MCP server, with its JSON Schema."""

from __future__ import annotations

from ralph.core.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ralph.project import Project

    Arguments = dict[str, Any]
    ToolResult = tuple[str, dict[str, Any] | None]
    """Text of a result, and the same as fields if it is structured."""

MAX_TEXT_CHARS = 20_000
"""Maximum length of the text of a memory or task, in characters."""


@record
class Tool:
    """Description, input schema and handler of a tool."""

    name: str
    title: str
    description: str
    properties: dict[str, dict[str, Any]]
    required: tuple[str, ...] = ()
    is_read_only: bool = False
    """Whether the tool changes nothing."""
    is_idempotent: bool = False
    """Whether the tool is idempotent."""
    is_destructive: bool = False
    """Whether the tool takes something away."""
    handler: Callable[[Project, Arguments], ToolResult]

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments."""
        schema: dict[str, Any] = {"type": "object", "properties": self.properties, "additionalProperties": False}
        return {**schema, "required": list(self.required)} if self.required else schema

    @property
    def listed_schema(self) -> dict[str, Any]:
        """JSON Schema as a model is told it, which pays for every word: without limits that no call should reach."""
        return {**self.schema, "properties": {name: _without_limits(one) for name, one in self.properties.items()}}

    @property
    def listing_entry(self) -> dict[str, Any]:
        """Entry of the tool in `tools/list`."""
        hints = {
            "title": self.title,
            "readOnlyHint": self.is_read_only,
            "destructiveHint": self.is_destructive,
            "idempotentHint": self.is_read_only or self.is_idempotent,
            "openWorldHint": False,
        }
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.listed_schema,
            "annotations": hints,
        }


_UNLISTED = ("minLength", "maxLength", "maxItems")
"""Limits that are checked but not listed."""


def _without_limits(schema: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in schema.items() if name not in _UNLISTED}
    return {**kept, "items": _without_limits(schema["items"])} if "items" in schema else kept


# --- schemas ------------------------------------------------------------------------------


def string(description: str, max_length: int = 200, **more: object) -> dict[str, Any]:
    """Return the schema of a string."""
    return {"type": "string", "description": description, "minLength": 1, "maxLength": max_length, **more}


def integer(description: str, minimum: int, maximum: int, default: int) -> dict[str, Any]:
    """Return the schema of an integer."""
    return {"type": "integer", "description": description, "minimum": minimum, "maximum": maximum, "default": default}


def strings(description: str, max_items: int = 50, max_length: int = 300) -> dict[str, Any]:
    """Return the schema of a list of strings."""
    items = {"type": "string", "minLength": 1, "maxLength": max_length}
    return {"type": "array", "description": description, "items": items, "maxItems": max_items}


# --- text of results ----------------------------------------------------------------------


def count(number: int, one: str, many: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {one if number == 1 else many}"


def fact_lines(facts: dict[str, Any]) -> list[str]:
    """Return a line for each fact that has a value."""
    return [f"{name}: {value}" for name, value in facts.items() if value]
