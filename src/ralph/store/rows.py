"""Between records and rows: lists are JSON text, words with a fixed meaning are text, yes and no are 1 and 0."""

from __future__ import annotations

import json

from ralph.errors import StoreError
from ralph.records import fields_of
from ralph.text import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeVar

    R = TypeVar("R")
    Convert = Mapping[str, Callable[[Any], object]]
    """How a column becomes a field, for those that are not taken as they are."""


_AS_THEY_ARE = frozenset((str, int, float, type(None)))
_encode = json.JSONEncoder(ensure_ascii=False).encode
_decode = json.JSONDecoder().decode


def to_record(kind: type[R], row: Mapping[str, Any], convert: Convert) -> R:
    """Give the record that a row holds; an empty column stays None."""
    try:
        fields = {name: row[name] for name in kind.__slots__}  # type: ignore[attr-defined]
        for name, reader in convert.items():
            if fields[name] is not None:
                fields[name] = reader(fields[name])
    except (KeyError, ValueError, TypeError) as error:
        why = f"it has no {error.args[0]}" if isinstance(error, KeyError) else one_line(str(error))
        raise StoreError(
            f"A row of {kind.__name__} in the database is damaged: {why}. See what mends it: ralph doctor"
        ) from error
    return kind(**fields)


def to_columns(record: object) -> dict[str, object]:
    """Give a record's fields the way they are stored."""
    return {
        name: value if value.__class__ in _AS_THEY_ARE else _stored(value) for name, value in fields_of(record).items()
    }


def _stored(value: object) -> object:
    if isinstance(value, tuple):
        return to_json(value)
    if isinstance(value, bool):
        return int(value)
    return str(value) if isinstance(value, str) else value


def to_json(items: Sequence[str]) -> str:
    """Give a list as it is stored."""
    return _encode(list(items)) if items else "[]"


def from_json(stored: str) -> tuple[str, ...]:
    """Give a stored list."""
    return tuple(_decode(stored)) if stored != "[]" else ()
