"""The one JSON object that an agent answers with in a read-only session. Pure.

The answer is untrusted: what the agent read may have told it what to say. So there is exactly one object, with fields
that are known.
"""

from __future__ import annotations

import json
import re

from ralph.core.text import clean, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import Any

MAX_ANSWER_LENGTH = 100_000
"""Length above which an answer is not read, in characters."""
MAX_CANDIDATES = 200
"""Number of places of an answer at which its JSON object is looked for."""


class AnswerError(Exception):
    """An answer does not count; the message is a clause that says why."""


def read_json_answer(text: str, fields: Collection[str], what: str) -> dict[str, Any]:
    """Return the object of an answer that has some of these fields, and no others; `what` says what it holds."""
    if len(text) > MAX_ANSWER_LENGTH:
        raise AnswerError(f"the answer is longer than {MAX_ANSWER_LENGTH:,} characters")
    found = list(_json_objects(text, fields))
    if len(found) != 1:
        raise AnswerError(f"the answer has {len(found) or 'no'} JSON objects with {what} instead of one")
    if unknown := sorted(set(found[0]) - set(fields)):
        raise AnswerError(f"the answer has unknown fields: {one_line(clean(', '.join(unknown)), 80)}")
    return found[0]


def _json_objects(text: str, fields: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects that begin on a line of their own and have a field of an answer."""
    decoder, end = json.JSONDecoder(), 0
    for count, match in enumerate(re.finditer(r"(?m)^[ \t]*\{", text)):
        if count >= MAX_CANDIDATES:
            return
        if match.start() < end:
            continue
        try:
            value, end = decoder.raw_decode(text, match.end() - 1)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and set(value) & set(fields):
            yield value
