"""Check what a model gives a tool against the tool's schema, and say in a sentence what is wrong with which argument.

Only what our own schemas use is known: texts, whole numbers, choices and lists of texts, with limits.
"""

from __future__ import annotations

from ralph.errors import UsageError
from ralph.text import clean, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Schema = dict[str, Any]

LONGEST_ERROR = 1000
HALF = "holds half of a character"
SAME = {"kind": "type", "kinds": "types"}
"""What models call an argument that has another name here: what they read says both."""


def checked(tool: str, schema: Schema, given: dict[str, Any]) -> dict[str, Any]:
    """Give the arguments of a call, without those that are null; refuse what the schema does not allow."""
    known: dict[str, Schema] = schema["properties"]
    given = {SAME.get(name, name): value for name, value in given.items()}
    if unknown := [name for name in given if name not in known]:
        raise UsageError(f"{tool} has no argument {unknown[0][:100]!r}: it takes {', '.join(known)}.")
    arguments = {name: value for name, value in given.items() if value is not None}
    for name in schema.get("required", ()):
        if name not in arguments:
            raise UsageError(f"{tool} needs the argument {name!r}: {known[name]['description']}")
    for name, value in arguments.items():
        if wrong := _wrong(known[name], value):
            raise UsageError(f"The argument {name!r} of {tool} {wrong}.")
    return arguments


def is_whole(text: str) -> bool:
    """Say whether a text holds no half of a character: JSON can write one, and nothing that stores text takes it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _wrong(schema: Schema, value: Any) -> str:
    """Say what is wrong with a value; nothing when it is fine."""
    return _KINDS[schema["type"]](schema, value)


def _wrong_text(schema: Schema, value: Any) -> str:
    if not isinstance(value, str):
        return "must be a text"
    if not is_whole(value):
        return HALF
    if "enum" in schema and value not in schema["enum"]:
        return f"must be one of {', '.join(schema['enum'])}"
    if not value.strip() and schema.get("minLength"):
        return "is empty"
    if len(value) > schema.get("maxLength", len(value)):
        return f"may have {schema['maxLength']:,} characters; this has {len(value):,}"
    return ""


def _wrong_number(schema: Schema, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        return "must be a whole number"
    if not schema["minimum"] <= value <= schema["maximum"]:
        return f"must be from {schema['minimum']:,} to {schema['maximum']:,}"
    return ""


def _wrong_list(schema: Schema, value: Any) -> str:
    if not isinstance(value, list):
        return "must be a list of texts"
    if len(value) > schema["maxItems"]:
        return f"may have {schema['maxItems']} entries; this has {len(value):,}"
    wrong = next(filter(None, (_wrong(schema["items"], one) for one in value)), "")
    return f"has an entry that {wrong}" if wrong else ""


_KINDS = {"string": _wrong_text, "integer": _wrong_number, "array": _wrong_list}


def worded(error: Exception) -> str:
    """Give the words of an error for a client: they may name what it sent, which may be anything."""
    return one_line(clean(str(error)), LONGEST_ERROR)
