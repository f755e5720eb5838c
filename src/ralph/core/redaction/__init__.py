"""Redaction of keys, tokens and passwords.

A secret is recognized by its format (`tokens`, the rules of gitleaks in `gitleaks`, the detect-secrets library in
`detectors`) or by its context: a name, a command or a sentence (`context`), or a word close to a random value
(`nearby`). Text in base64 and percent-encoding is decoded first (`encoded`).
"""

from __future__ import annotations

import os
from functools import cache

from ralph.core.redaction.context import CONTEXT_MARKERS, REDACTED, redact_in_context
from ralph.core.redaction.detectors import redact_detected
from ralph.core.redaction.tokens import redact_tokens, unescaped
from ralph.core.text import compiled_pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["REDACTED", "environment_secrets", "redact"]

MIN_ENVIRONMENT_SECRET_CHARACTERS = 8
"""Minimum length of a secret from the environment, in characters; shorter values may be ordinary words."""
MAX_PASSES = 3
"""Maximum number of times that a text is searched; a text without secrets is searched once."""
MAX_ENCODINGS = 2
"""Maximum number of encodings around a secret that are undone."""

_MARKED_SECRETS = (
    (
        "private key",
        r"(?s)-{4,5} ?BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)? ?-{4,5}.*?"
        r"(?:-{4,5} ?END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)? ?-{4,5}|\Z)",
    ),
    (
        "private key",  # the rest of a key whose beginning was cut off
        r"(?:[A-Za-z0-9+/=]{16,80}(?:\\[nr]|[\s\"'+>|]){1,12}){1,100}"
        r"-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}",
    ),
    ("private-lines: ", r"Private-Lines: \d{1,4}\s{1,9}(?:[A-Za-z0-9+/=]{64}\s{1,9})*[A-Za-z0-9+/=]{0,64}"),  # PuTTY
    (
        "://",
        r"(?<=://)[^\s/:@]{0,100}:(?![$<{]|(?:pass(?:word|wd)?|secret|token|xxx+|\*+)@)[^\s/@]{1,200}(?=@)(?!@sha256:)",
    ),  # user:password in a URL
    ("q~", r"(?a)(?<![\w~.])[\w~.]{3}\dQ~[\w~.-]{31,34}"),  # Azure
    ("asana", r"\b[12]/\d{10,20}/\d{10,20}:[0-9a-f]{32}"),
    ("bearer ", r"(?i)(?<=\bbearer )(?=[^\s'\"]{0,80}\d)[^\s'\"$<{][^\s'\"]{7,}"),
    ("authorization: token ", r"(?i)(?<=authorization: token )(?=[^\s'\"]{0,80}\d)[^\s'\"$<{][^\s'\"]{7,}"),
)
"""Lowercase substring that must be in a text before the pattern is tried, and the pattern."""
_RUN = r"(?a)[\w+/=~-]{15,}+"
_HASH = r"(?ai)sha\d{1,3}[-:=]$"
"""Prefix of the hashes in lock files."""


def redact(text: str) -> str:
    """Return the text with keys, tokens and passwords replaced by `[redacted]`."""
    for _ in range(MAX_PASSES):
        redacted = _redact(text, MAX_ENCODINGS)
        if redacted == text:
            break
        text = redacted  # what was next to a secret may be recognized now
    return text


def _redact(text: str, encodings: int) -> str:
    """Return the text without secrets, also those that are encoded at most `encodings` times."""

    def decoded(part: str) -> str:
        return _redact(part, encodings - 1)

    if encodings and compiled_pattern(r"%[2-7][0-9A-Fa-f]").search(text):
        from ralph.core.redaction.encoded import redact_percent  # most texts do not need it

        text = redact_percent(text, decoded)
    folded = text.casefold()
    for marker, pattern in _MARKED_SECRETS:
        if marker in folded:
            text = compiled_pattern(pattern).sub(REDACTED, text)
    text = _redact_own_secrets(redact_tokens(text))
    if any(marker in folded for marker in CONTEXT_MARKERS):
        text = redact_in_context(text)
    view = unescaped(text)
    if runs := list(_random_runs(view)):
        from ralph.core.redaction.runs import redact_random  # most texts do not need it

        text = redact_random(text, view, runs, decoded if encodings else None)
    return redact_detected(text)


def _random_runs(text: str) -> Iterator[tuple[int, int]]:
    """Yield the positions of values with digits that may be random, encoded, or tokens."""
    digit, is_hash = compiled_pattern(r"(?a)\d"), compiled_pattern(_HASH)
    for run in compiled_pattern(_RUN).finditer(text):
        start, end = run.span()
        if digit.search(text, start, end) and not is_hash.search(text, max(0, start - 7), start):
            yield start, end


def _redact_own_secrets(text: str) -> str:
    """Return the text without secrets from our own environment, some of which agents inherit."""
    for secret in environment_secrets():
        if secret in text:
            text = text.replace(secret, REDACTED)
    return text


@cache
def environment_secrets() -> tuple[str, ...]:
    """Return the values of environment variables whose names mark them as secret, longest first."""
    secret_name = compiled_pattern(r"(?i)(?:^|_)(?:key|token|secret|password|passwd|pass|pwd|credentials?)$")
    values = {value for name, value in os.environ.items() if "_" in name and secret_name.search(name)}
    values = {
        value
        for value in values
        if len(value) >= MIN_ENVIRONMENT_SECRET_CHARACTERS and not (value.isalpha() or value[0] in "/~.")
    }
    return tuple(sorted(values, key=len, reverse=True))
