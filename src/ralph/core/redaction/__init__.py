"""Redaction of keys, tokens and passwords.

A secret is recognized by its format (`tokens`, the rules of gitleaks in `gitleaks`, the detect-secrets library in
`detectors`) or by its context: a name, a command or a sentence (`context`), or a word close to a random value
(`nearby`). Text in base64 and percent-encoding is decoded first (`encoded`).
"""

from __future__ import annotations

import os
from functools import cache

from ralph.core.redaction import hints as hint
from ralph.core.redaction.context import REDACTED, redact_in_context
from ralph.core.redaction.detectors import redact_detected
from ralph.core.redaction.tokens import redact_marked, redact_tokens, unescaped
from ralph.core.text import compiled_pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["REDACTED", "environment_secrets", "redact", "redact_all"]

MIN_ENVIRONMENT_SECRET_CHARACTERS = 8
"""Minimum length of a secret from the environment, in characters; shorter values may be ordinary words."""
MAX_PASSES = 3
"""Maximum number of times that a text is searched; a text without secrets is searched once."""
MAX_ENCODINGS = 2
"""Maximum number of encodings around a secret that are undone."""


def redact(text: str) -> str:
    """Return the text with keys, tokens and passwords replaced by `[redacted]`."""
    return redact_all([text])[0]


def redact_all(texts: Sequence[str]) -> list[str]:
    """Return texts with keys, tokens and passwords replaced; this is faster than one by one."""
    return [_redact_repeatedly(text, hints) for text, hints in zip(texts, hint.find_hints(texts), strict=True)]


def _redact_repeatedly(text: str, hints: int) -> str:
    redacted = _redact_with(text, hints, MAX_ENCODINGS)
    for _ in range(MAX_PASSES - 1):
        if redacted == text:
            break
        text = redacted  # what was next to a secret may be recognized now
        redacted = _redact(text, MAX_ENCODINGS)
    return redacted


def _redact(text: str, encodings: int) -> str:
    """Return the text without secrets, also those that are encoded at most `encodings` times."""
    return _redact_with(text, hint.find_hints([text])[0], encodings)


def _redact_with(text: str, hints: int, encodings: int) -> str:
    for needed, step in _STEPS:
        if hints & needed and (redacted := step(text, hints, encodings)) != text:
            text, hints = redacted, hint.ALL
    return text


def _redact_percent(text: str, _: int, encodings: int) -> str:
    from ralph.core.redaction.encoded import redact_percent  # most texts do not need it

    return redact_percent(text, lambda part: _redact(part, encodings - 1)) if encodings else text


def _redact_own_secrets(text: str, *_: int) -> str:
    """Return the text without secrets from our own environment, some of which agents inherit."""
    for secret in environment_secrets():
        if secret in text:
            text = text.replace(secret, REDACTED)
    return text


def _redact_in_context(text: str, hints: int, _: int) -> str:
    return redact_in_context(text, hints & hint.SURE_NAME, [bool(hints & rule) for rule in hint.RULES])


def _redact_random(text: str, _: int, encodings: int) -> str:
    view = unescaped(text)
    runs = list(hint.random_runs(view))
    if not runs:
        return text
    from ralph.core.redaction.runs import redact_random  # most texts do not need it

    return redact_random(text, view, runs, (lambda part: _redact(part, encodings - 1)) if encodings else None)


_STEPS: tuple[tuple[int, Callable[[str, int, int], str]], ...] = (
    (hint.PERCENT, _redact_percent),
    (hint.MARKED, lambda text, *_: redact_marked(text)),
    (hint.TOKEN, lambda text, *_: redact_tokens(text)),
    (hint.ANY, _redact_own_secrets),
    (hint.CONTEXT, _redact_in_context),
    (hint.RANDOM, _redact_random),
    (hint.DETECTED, lambda text, *_: redact_detected(text)),
)
"""Steps of the redaction, with the hints without which they find nothing; they take a text, its hints and encodings."""


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
