"""Translation of msgspec validation errors into messages for API users."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, Literal, get_args, get_origin

import msgspec


def validation_message(kind: type[msgspec.Struct], error: str) -> str:
    """Return a message for a validation error of a struct type that names the field and what it accepts."""
    problem, _, path = error.partition(" - at ")
    name = path.strip("`").removeprefix("$").lstrip(".")
    known = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    if problem.startswith("Object contains unknown field"):
        return f"{problem}. Known names: {', '.join(known) or 'none'}."
    if problem.startswith("Invalid enum value"):
        problem = f"must be one of {', '.join(_choices(known.get(re.split(r'[.[]', name)[0])))}"
    return f"{name}: {problem}." if name else f"{problem}."


def _choices(kind: Any) -> list[str]:
    """Return the allowed values of a type."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [str(one.value) for one in kind]
    if get_origin(kind) is Literal:
        return [str(one) for one in get_args(kind)]
    return [choice for one in get_args(kind) for choice in _choices(one)]
