"""JSON to the letter as JavaScript writes it, so that checksums made there hold here.

Python's own writer differs in small things (1.0, 1e-07, the order of keys that are
numbers); each of them is another checksum, and the file would pass for damaged.
"""

from __future__ import annotations

import json
import math
import re
from json.encoder import encode_basestring

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_DEPTH = 100
LONGEST_NUMBER = 400
"""Digits. No number that a double can hold needs more."""
EXACT = 2**53
"""Whole numbers beyond this are doubles in JavaScript, and lose their last digits."""
LARGEST_INDEX = 2**32 - 2

_SURROGATE = re.compile("[\ud800-\udfff]")
_INDEX = re.compile(r"(?:0|[1-9][0-9]{0,9})")


# --- writing -------------------------------------------------------------------


def dumps(value: object, indent: int | None = None) -> str:
    """Give the value as `JSON.stringify(value, null, indent)` would write it."""
    pieces: list[str] = []
    _write(value, " " * (indent or 0), "\n" if indent else "", pieces)
    return "".join(pieces)


def checksum(items: object) -> str:
    """Give the SHA-256 of the compact text, as hexadecimal digits."""
    import hashlib

    return hashlib.sha256(dumps(items).encode()).hexdigest()


def _write(value: object, step: str, line: str, pieces: list[str]) -> None:
    """Add the value to the pieces; `line` is what starts a line here: a newline and the margin, or nothing."""
    if isinstance(value, dict):
        names = _in_order(value)
        _write_all(
            "{", "}", [(_string(name) + (": " if step else ":"), value[name]) for name in names], step, line, pieces
        )
    elif isinstance(value, list | tuple):
        _write_all("[", "]", [("", item) for item in value], step, line, pieces)
    elif isinstance(value, str):
        pieces.append(_string(value))
    elif value is None:
        pieces.append("null")
    elif isinstance(value, bool):
        pieces.append("true" if value else "false")
    elif isinstance(value, int | float):
        pieces.append(number(value))
    else:
        raise TypeError(f"{type(value).__name__} has no JSON form")


def _write_all(
    opening: str, closing: str, items: Sequence[tuple[str, object]], step: str, line: str, pieces: list[str]
) -> None:
    inner = line + step
    pieces.append(opening)
    for place, (label, item) in enumerate(items):
        pieces.append(("," if place else "") + inner + label)
        _write(item, step, inner, pieces)
    pieces.append(line + closing if items else closing)


def _in_order(names: dict[str, object]) -> list[str]:
    """Give the keys as JavaScript keeps them: small whole numbers first, by size, then the others as they came."""
    indices = [name for name in names if _INDEX.fullmatch(name) and int(name) <= LARGEST_INDEX]
    if not indices:
        return list(names)
    among = set(indices)
    return sorted(indices, key=int) + [name for name in names if name not in among]


def _string(text: str) -> str:
    quoted = encode_basestring(text)
    if quoted.isascii() or not _SURROGATE.search(quoted):
        return quoted
    # Two halves that meet are a character; a half alone can only be written as an escape.
    joined = quoted.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", joined)


def number(value: float) -> str:
    """Give a number as JavaScript writes it; what is no number becomes `null`."""
    if isinstance(value, int) and -EXACT <= value <= EXACT:
        return int.__repr__(value)
    try:
        value = float(value)
    except OverflowError:
        return "null"
    if not math.isfinite(value):
        return "null"
    if value == 0:
        return "0"
    # Both languages take the fewest digits that give the same double; only the form differs.
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    return ("-" if value < 0 else "") + _placed(digits, point)


def _placed(digits: str, point: int) -> str:
    """Give the digits with the decimal point after so many of them."""
    if len(digits) <= point <= 21:
        return digits.ljust(point, "0")
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{point - 1:+d}"


# --- reading -------------------------------------------------------------------


def loads(text: str, *, allow_nan: bool = False) -> object:
    """Give the value of a JSON text; raises `ValueError` with a clause that says why it is none.

    With `allow_nan`, numbers that JSON does not have are read (as infinite or no number),
    so that a reader can leave out one entry instead of the file.
    """
    strict = not allow_nan
    try:
        value = json.loads(
            text.removeprefix("\ufeff"),
            parse_int=_whole if strict else _int,
            parse_float=_finite if strict else _float,
            parse_constant=_refuse if strict else _float,
        )
    except json.JSONDecodeError as error:
        reason = error.msg[:1].lower() + error.msg[1:]
        raise ValueError(f"{reason} (line {error.lineno}, column {error.colno})") from None
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    _check_depth(value)
    return value


def _int(digits: str) -> float:
    if len(digits) > LONGEST_NUMBER:
        raise ValueError("a number in it is too long")
    found = int(digits)
    return found if -EXACT <= found <= EXACT else float(digits)


def _whole(digits: str) -> float:
    found = _int(digits)
    return _finite(digits) if math.isinf(found) else found


def _float(digits: str) -> float:
    if len(digits) > LONGEST_NUMBER:
        raise ValueError("a number in it is too long")
    return float(digits)


def _finite(digits: str) -> float:
    found = _float(digits)
    if math.isinf(found):
        raise ValueError("a number in it is too large")
    return found


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is no JSON number")


def _check_depth(value: object) -> None:
    """Refuse what is nested deeper than anybody means, or writing it would end in the middle."""
    level = [value]
    for _ in range(MOST_DEPTH + 1):
        if not level:
            return
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
    raise ValueError("it is nested too deep")
