"""Validation of tool arguments against the tool's JSON Schema.

Supports only the keywords our schemas use: strings, integers, enums and lists of strings, with limits.
"""

from __future__ import annotations

from ralph.core.errors import UsageError
from ralph.core.text import clean, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Schema = dict[str, Any]

MAX_ERROR_CHARS = 1000
"""Maximum length of an error message, in characters."""
UNPAIRED_SURROGATE = "contains an unpaired surrogate"
ARGUMENT_ALIASES = {"kind": "type", "kinds": "types"}
"""Aliases for argument names that models tend to use, because results contain both names."""


def validate_arguments(tool: str, schema: Schema, given: dict[str, Any]) -> dict[str, Any]:
    """Validate the arguments of a call and return them without nulls.

    Raises:
        UsageError: If an argument is unknown, missing or does not match the schema.
    """
    known: dict[str, Schema] = schema["properties"]
    given = {name if name in known else ARGUMENT_ALIASES.get(name, name): value for name, value in given.items()}
    if unknown := [name for name in given if name not in known]:
        raise UsageError(f"{tool} has no argument {unknown[0][:100]!r}. Arguments: {', '.join(known)}.")
    arguments = {name: value for name, value in given.items() if value is not None}
    for name in schema.get("required", ()):
        if name not in arguments:
            raise UsageError(f"{tool} requires the argument {name!r}: {known[name]['description']}")
    for name, value in arguments.items():
        if problem := _problem(known[name], value):
            raise UsageError(f"The argument {name!r} of {tool} {problem}.")
    return arguments


def is_encodable(text: str) -> bool:
    """Return whether a string can be encoded as UTF-8: JSON can escape unpaired surrogates, which no store accepts."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _problem(schema: Schema, value: Any) -> str:
    """Return what is wrong with a value, or an empty string."""
    return _CHECKS[schema["type"]](schema, value)


def _string_problem(schema: Schema, value: Any) -> str:
    if not isinstance(value, str):
        return "must be a string"
    if not is_encodable(value):
        return UNPAIRED_SURROGATE
    if "enum" in schema and value not in schema["enum"]:
        return f"must be one of {', '.join(schema['enum'])}"
    if not value.strip() and schema.get("minLength"):
        return "is empty"
    if len(value) > schema.get("maxLength", len(value)):
        return f"may have at most {schema['maxLength']:,} characters; this one has {len(value):,}"
    return ""


def _integer_problem(schema: Schema, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        return "must be an integer"
    if not schema["minimum"] <= value <= schema["maximum"]:
        return f"must be between {schema['minimum']:,} and {schema['maximum']:,}"
    return ""


def _array_problem(schema: Schema, value: Any) -> str:
    if not isinstance(value, list):
        return "must be a list of strings"
    if len(value) > schema["maxItems"]:
        return f"may have at most {schema['maxItems']} items; this one has {len(value):,}"
    problem = next(filter(None, (_problem(schema["items"], item) for item in value)), "")
    return f"contains an item that {problem}" if problem else ""


_CHECKS = {"string": _string_problem, "integer": _integer_problem, "array": _array_problem}


def error_text(error: Exception) -> str:
    """Return the message of an error on one line, without control characters a client may have sent."""
    return one_line(clean(str(error)), MAX_ERROR_CHARS)
