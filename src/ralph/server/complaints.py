"""What is wrong with what was sent, in a sentence that says how it should be: the library says it to programmers."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, Literal, get_args, get_origin

import msgspec

_TYPES = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "nothing",
}
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_LENGTH = re.compile(r"Expected `(\w+)` of length (>=|<=) (\d+)")
_BOUND = re.compile(r"Expected `\w+` (>=|<=|>|<) (\S+)")
_TYPE = re.compile(r"Expected `([^`]+)`, got `(\w+)`")
_BOUNDS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}


def sentence(kind: type[msgspec.Struct], complaint: str) -> str:
    """Give a complaint about what should have been of a type as a sentence that begins with the name of the field."""
    what, _, where = complaint.partition(" - at ")
    name = where.strip("`").removeprefix("$").lstrip(".")
    known = [field.encode_name for field in msgspec.structs.fields(kind)]
    if found := _UNKNOWN.match(what):
        takes = f"it is one of {', '.join(known)}" if known else "nothing can be said here"
        return f"{found[1]} is not known here: {takes}."
    if found := _MISSING.match(what):
        return f"{found[1]} is needed."
    return f"{name or 'The body'} {_must(kind, name, what)}."


def _must(kind: type[msgspec.Struct], name: str, what: str) -> str:
    if what.startswith("Invalid enum value"):
        return f"must be one of {', '.join(_choices(kind, name))}"
    if found := _LENGTH.match(what):
        many = "characters" if found[1] == "str" else "entries"
        return "must not be empty" if found.group(2, 3) == (">=", "1") else f"may have {found[3]} {many} at most"
    if found := _BOUND.match(what):
        return f"must be {_BOUNDS[found[1]]} {float(found[2]):g}"
    if found := _TYPE.match(what):
        wanted = " or ".join(_TYPES.get(one, one) for one in found[1].split(" | ") if one != "null")
        return f"must be {wanted}, not {_TYPES.get(found[2], found[2])}"
    if "matching regex" in what:
        return "holds what cannot be in it"
    return f"is wrong: {what}"


def _choices(kind: type[msgspec.Struct], name: str) -> list[str]:
    """Give what a field may be."""
    plain = re.split(r"[.\[]", name)[0]
    return next((_all_of(one.type) for one in msgspec.structs.fields(kind) if one.encode_name == plain), [])


def _all_of(kind: Any) -> list[str]:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [str(one.value) for one in kind]
    if get_origin(kind) is Literal:
        return [str(one) for one in get_args(kind)]
    return [choice for one in get_args(kind) for choice in _all_of(one)]
