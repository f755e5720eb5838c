"""Conversion between records and rows: lists are stored as JSON, enums as text, booleans as 1 and 0."""

from __future__ import annotations

import json

from ralph.core.errors import StoreError
from ralph.core.records import record_fields
from ralph.core.text import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeVar

    R = TypeVar("R")
    Converters = Mapping[str, Callable[[Any], object]]
    """Conversion functions by column, for columns whose stored value differs from the field."""

_STORED_UNCHANGED = frozenset((str, int, float, type(None)))
_encode = json.JSONEncoder(ensure_ascii=False).encode
_decode = json.JSONDecoder().decode


def to_record(kind: type[R], row: Mapping[str, Any], convert: Converters, columns: Mapping[str, str] = {}) -> R:
    """Return the record in a row. NULL becomes None; `columns` names those of fields that are called otherwise."""
    try:
        fields = {name: row[columns.get(name, name)] for name in kind.__slots__}  # type: ignore[attr-defined]
        for name, reader in convert.items():
            if fields[name] is not None:
                fields[name] = reader(fields[name])
    except (KeyError, ValueError, TypeError) as error:
        reason = f"{error.args[0]} is missing" if isinstance(error, KeyError) else one_line(str(error))
        raise StoreError(
            f"A row of {kind.__name__} in the database is damaged: {reason}. Check the database with: ralph doctor",
            code="damaged-row",
        ) from error
    return kind(**fields)


def to_columns(record: object, columns: Mapping[str, str] = {}) -> dict[str, object]:
    """Return the columns of a record; `columns` names those of fields that are called otherwise."""
    return {
        columns.get(name, name): value if value.__class__ in _STORED_UNCHANGED else _stored(value)
        for name, value in record_fields(record).items()
    }


def _stored(value: object) -> object:
    if isinstance(value, tuple):
        return to_json(value)
    if isinstance(value, bool):
        return int(value)
    return str(value) if isinstance(value, str) else value


def to_json(items: Sequence[str]) -> str:
    """Encode a list for storage."""
    return _encode(list(items)) if items else "[]"


def from_json(stored: str) -> tuple[str, ...]:
    """Decode a stored list."""
    return tuple(_decode(stored)) if stored != "[]" else ()


def page_conditions(order: str, before: int | None, **filters: str | None) -> tuple[str, dict[str, object]]:
    """Return SQL conditions for the filters that are set and the cursor, and their values."""
    values: dict[str, object] = {name: value for name, value in filters.items() if value is not None}
    conditions = "".join(f" AND {name} = :{name}" for name in values)
    if before is not None:
        conditions += f" AND {order} < :before"
        values["before"] = before
    return conditions, values
