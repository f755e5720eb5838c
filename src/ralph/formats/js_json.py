"""JSON serialized exactly like JavaScript does it, for checksums computed by JavaScript programs.

Python's `json` differs in details (1.0, 1e-07, the order of numeric keys), each of which would change the checksum and
make an intact file look damaged.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from json.encoder import encode_basestring

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_JSON_DEPTH = 100
"""Maximum nesting depth."""
MAX_DIGITS = 400
"""Maximum number of digits; more than any double needs."""
MAX_SAFE_INTEGER = 2**53
"""Largest integer that JavaScript represents exactly."""
MAX_ARRAY_INDEX = 2**32 - 2
"""Largest key that JavaScript sorts as an array index."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_INDEX = re.compile(r"(?:0|[1-9][0-9]{0,9})")


# --- writing -------------------------------------------------------------------


def dumps(value: object, indent: int | None = None) -> str:
    """Return the value as `JSON.stringify(value, null, indent)` would."""
    pieces: list[str] = []
    _write(value, " " * (indent or 0), "\n" if indent else "", pieces)
    return "".join(pieces)


def checksum(items: object) -> str:
    """Return the hexadecimal SHA-256 digest of the compact JSON text."""
    return hashlib.sha256(dumps(items).encode()).hexdigest()


def _write(value: object, step: str, line: str, pieces: list[str]) -> None:
    """Append the value to the pieces; `line` is the newline and indentation of the current level, if any."""
    if isinstance(value, dict):
        names = _key_order(value)
        _write_items(
            "{", "}", [(_string(name) + (": " if step else ":"), value[name]) for name in names], step, line, pieces
        )
    elif isinstance(value, list | tuple):
        _write_items("[", "]", [("", item) for item in value], step, line, pieces)
    elif isinstance(value, str):
        pieces.append(_string(value))
    elif value is None:
        pieces.append("null")
    elif isinstance(value, bool):
        pieces.append("true" if value else "false")
    elif isinstance(value, int | float):
        pieces.append(format_number(value))
    else:
        raise TypeError(f"{type(value).__name__} is not JSON serializable")


def _write_items(
    opening: str, closing: str, items: Sequence[tuple[str, object]], step: str, line: str, pieces: list[str]
) -> None:
    inner = line + step
    pieces.append(opening)
    for index, (label, item) in enumerate(items):
        pieces.append(("," if index else "") + inner + label)
        _write(item, step, inner, pieces)
    pieces.append(line + closing if items else closing)


def _key_order(names: dict[str, object]) -> list[str]:
    """Return the keys in JavaScript order: array indices ascending, then the others in insertion order."""
    indices = [name for name in names if _INDEX.fullmatch(name) and int(name) <= MAX_ARRAY_INDEX]
    if not indices:
        return list(names)
    index_set = set(indices)
    return sorted(indices, key=int) + [name for name in names if name not in index_set]


def _string(text: str) -> str:
    quoted = encode_basestring(text)
    if quoted.isascii() or not _SURROGATE.search(quoted):
        return quoted
    # A surrogate pair is joined to one character; a lone surrogate is written as an escape.
    joined = quoted.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", joined)


def format_number(value: float) -> str:
    """Return a number as JavaScript writes it; NaN and infinity become `null`."""
    if isinstance(value, int) and -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
        return int.__repr__(value)
    try:
        value = float(value)
    except OverflowError:
        return "null"
    if not math.isfinite(value):
        return "null"
    if value == 0:
        return "0"
    # Both languages use the shortest digits that round-trip; only the notation differs.
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    return ("-" if value < 0 else "") + _format_digits(digits, point)


def _format_digits(digits: str, point: int) -> str:
    """Return the digits in decimal or exponential notation, with the decimal point at `point`."""
    if len(digits) <= point <= 21:
        return digits.ljust(point, "0")
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{point - 1:+d}"


# --- reading -------------------------------------------------------------------


def loads(text: str) -> object:
    """Parse JSON; raise `ValueError` with a short reason if it is invalid.

    NaN and infinite numbers are accepted, so that a reader can skip one entry instead of the file.
    """
    try:
        value = json.loads(text.removeprefix("\ufeff"), parse_int=_int)
    except json.JSONDecodeError as error:
        reason = error.msg[:1].lower() + error.msg[1:]
        raise ValueError(f"{reason} (line {error.lineno}, column {error.colno})") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    _check_depth(value)
    return value


def _int(digits: str) -> float:
    if len(digits) > MAX_DIGITS:
        raise ValueError("it has a number with too many digits")
    found = int(digits)
    return found if -MAX_SAFE_INTEGER <= found <= MAX_SAFE_INTEGER else float(digits)


def _check_depth(value: object) -> None:
    """Raise `ValueError` for deep nesting, which would exceed the recursion limit when it is written."""
    level = [value]
    for _ in range(MAX_JSON_DEPTH + 1):
        if not level:
            return
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
    raise ValueError("it is nested too deeply")
