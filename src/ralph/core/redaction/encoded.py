"""Detection of secrets in encoded text: base64 and percent-encoding."""

from __future__ import annotations

import re

from ralph.core.redaction.context import REDACTED
from ralph.core.text import compiled_pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SAMPLE_CHARACTERS = 64
"""Characters decoded first to see whether a value is encoded text; a multiple of four."""
MAX_PERCENT_CHARACTERS = 300
"""Maximum number of characters decoded before the first percent sign of a value, and after each."""

_BASE64 = (
    r"(?a)(?<![A-Za-z0-9+/])(?:(?:[A-Za-z0-9+/]{60,76}\\{0,4}\n[ \t]{0,8}(?=[A-Za-z0-9+/]))++[A-Za-z0-9+/]{2,}+"
    r"|[A-Za-z0-9+/_-]{24,}+)={0,2}"
)
_LINE_BREAK = r"\\*\s+"
_DELIMITERS = " \t\n\"'<>\\"
_PERCENT = r"(?:%[0-9A-Fa-f]{2}[^\s\"'<>\\%]{0,300}+){1,1000}+"
_TEXT = rb"[\t\n\r -~]+"


def redact_percent(text: str, redact: Callable[[str], str]) -> str:
    """Return the text without secrets in percent-encoded values."""
    parts = []
    position = 0
    for match in compiled_pattern(_PERCENT).finditer(text):
        earliest = max(position, match.start() - MAX_PERCENT_CHARACTERS)
        start = max(earliest, *(text.rfind(delimiter, earliest, match.start()) + 1 for delimiter in _DELIMITERS))
        parts += [text[position:start], _redact_percent(text[start : match.end()], redact)]
        position = match.end()
    return "".join([*parts, text[position:]])


def base64_spans(text: str, runs: Sequence[tuple[int, int]], redact: Callable[[str], str]) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each value in base64 in which `redact` finds a secret."""
    position = 0
    for start, end in runs:
        found = compiled_pattern(_BASE64).search(text, start, end) if start >= position else None
        if found and _decode(found[0][:SAMPLE_CHARACTERS]):
            found = compiled_pattern(_BASE64).match(text, found.start()) or found  # with the lines that follow
            position = found.end()
            decoded = _decode(compiled_pattern(_LINE_BREAK).sub("", found[0]))
            if redact(decoded) != decoded:
                yield found.span()


def _decode(value: str) -> str:
    """Return the text encoded in base64, or an empty string."""
    from binascii import Error, a2b_base64

    value = value.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        decoded = a2b_base64(value[: len(value) - (len(value) % 4 == 1)] + "=" * (-len(value) % 4))
    except Error:
        return ""
    return decoded.decode("ascii") if re.fullmatch(_TEXT, decoded) else ""


def _redact_percent(value: str, redact: Callable[[str], str]) -> str:
    """Return a percent-encoded value with its secrets replaced."""
    from urllib.parse import quote, unquote

    decoded = unquote(value)
    redacted = redact(decoded)
    if redacted == decoded:
        return value
    safe = "".join(set(value) - {"%"})
    return REDACTED.join(quote(part, safe=safe) for part in redacted.split(REDACTED))
