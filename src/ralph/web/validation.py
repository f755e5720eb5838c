"""Translation of msgspec validation errors into messages for API users."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, Literal, get_args, get_origin

import msgspec

_TYPES = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_LENGTH = re.compile(r"Expected `(\w+)` of length (>=|<=) (\d+)")
_BOUND = re.compile(r"Expected `\w+` (>=|<=|>|<) (\S+)")
_TYPE = re.compile(r"Expected `([^`]+)`, got `(\w+)`")
_BOUNDS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}


def validation_message(kind: type[msgspec.Struct], error: str) -> str:
    """Return a message for a validation error of a struct type, starting with the name of the field."""
    problem, _, path = error.partition(" - at ")
    name = path.strip("`").removeprefix("$").lstrip(".")
    known = [field.encode_name for field in msgspec.structs.fields(kind)]
    if match := _UNKNOWN.match(problem):
        hint = f"Known names: {', '.join(known)}" if known else "No parameters are accepted here"
        return f"{match[1]} is unknown. {hint}."
    if match := _MISSING.match(problem):
        return f"{match[1]} is required."
    return f"{name or 'The body'} {_requirement(kind, name, problem)}."


def _requirement(kind: type[msgspec.Struct], name: str, problem: str) -> str:
    if problem.startswith("Invalid enum value"):
        return f"must be one of {', '.join(_choices(kind, name))}"
    if match := _LENGTH.match(problem):
        unit = "characters" if match[1] == "str" else "items"
        return "must not be empty" if match.group(2, 3) == (">=", "1") else f"may have at most {match[3]} {unit}"
    if match := _BOUND.match(problem):
        return f"must be {_BOUNDS[match[1]]} {float(match[2]):g}"
    if match := _TYPE.match(problem):
        expected = " or ".join(_TYPES.get(one, one) for one in match[1].split(" | ") if one != "null")
        return f"must be {expected}, not {_TYPES.get(match[2], match[2])}"
    if "matching regex" in problem:
        return "contains characters that are not allowed"
    return f"is invalid: {problem}"


def _choices(kind: type[msgspec.Struct], name: str) -> list[str]:
    """Return the allowed values of a field."""
    top_level = re.split(r"[.\[]", name)[0]
    return next((_values(one.type) for one in msgspec.structs.fields(kind) if one.encode_name == top_level), [])


def _values(kind: Any) -> list[str]:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [str(one.value) for one in kind]
    if get_origin(kind) is Literal:
        return [str(one) for one in get_args(kind)]
    return [choice for one in get_args(kind) for choice in _values(one)]
