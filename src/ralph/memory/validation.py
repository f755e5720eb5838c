"""Checks and cleans what people and agents state about a memory."""

from __future__ import annotations

import time

from ralph.core.errors import ConfirmationRequiredError, UsageError
from ralph.core.limits import MAX_BODY_LENGTH, MAX_TAG_LENGTH, MAX_TAGS
from ralph.core.memory_types import MEMORY_KINDS, MEMORY_TYPES
from ralph.core.records import timestamp
from ralph.core.text import clean, one_line, sanitize
from ralph.memory.lifecycle.confidence import ALWAYS_REMOVABLE, needs_confirmation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

DAY_SECONDS = 86_400
MAX_DAYS = 36_500
MAX_TYPE_LENGTH = 50


def clean_content(text: str) -> str:
    """Return the cleaned and redacted content of a memory; raise `UsageError` if it is too long."""
    if len(text) > MAX_BODY_LENGTH:  # checked first: cleaning megabytes takes seconds
        raise UsageError(
            f"A memory can have up to {MAX_BODY_LENGTH:,} characters; this one has {len(text):,}. Split it.",
            code="memory-too-long",
        )
    return sanitize(text)


def clean_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Return tags in lower case without duplicates; raise `UsageError` if there are too many."""
    cleaned = dict.fromkeys(filter(None, (" ".join(sanitize(tag).lower().split()) for tag in tags)))
    if len(cleaned) > MAX_TAGS or any(len(tag) > MAX_TAG_LENGTH for tag in cleaned):
        raise UsageError(
            f"A memory can have up to {MAX_TAGS} tags of up to {MAX_TAG_LENGTH} characters each.", code="too-many-tags"
        )
    return tuple(cleaned)


def clean_files(files: Sequence[str]) -> tuple[str, ...]:
    """Return file paths, cleaned and without duplicates."""
    return tuple(dict.fromkeys(filter(None, map(sanitize, files))))


def tags_from_title(title: str) -> tuple[str, ...]:
    """Return tags for a knowledge entry that has none of its own."""
    from ralph.core.tokenize import search_terms

    return tuple(search_terms(title, 3)) or ("general",)


def check_confidence(confidence: float | None) -> None:
    """Raise `UsageError` unless a confidence is between 0 and 1."""
    if confidence is not None and not 0 <= confidence <= 1:
        raise UsageError("The confidence must be a number from 0 to 1.", code="invalid-confidence")


def check_type(text: str, used: Callable[[], Mapping[str, int]]) -> str:
    """Return a memory type that is built in or already used in the project; raise `UsageError` for others."""
    name = sanitize(text).lower()
    if not name or len(name) > MAX_TYPE_LENGTH or name.split() != [name]:
        raise UsageError(
            f"Invalid memory type: {one_line(text, 40)!r}. Use one word, such as {', '.join(MEMORY_KINDS[:4])}.",
            code="invalid-memory-type",
        )
    if name in MEMORY_TYPES or name in (custom := used()):
        return name
    import difflib

    close = difflib.get_close_matches(name, [*MEMORY_TYPES, *custom], n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    raise UsageError(
        f"Unknown memory type: {name!r}. Use one of {', '.join(MEMORY_KINDS)}.{hint}", code="unknown-memory-type"
    )


def check_removal(removed: int, total: int, yes: bool, *, always_removable: int = ALWAYS_REMOVABLE) -> None:
    """Raise `ConfirmationRequiredError` when so many memories would go that it may be a mistake."""
    if needs_confirmation(removed, total, always_removable=always_removable) and not yes:
        raise ConfirmationRequiredError(
            f"take {removed:,} of {total:,} memories out of use, more than a fifth", can_look=True
        )


def clean_query(text: str) -> str:
    """Return a search query; of a very long text, its beginning and end."""
    from ralph.memory.recall.query import truncate_middle

    return sanitize(truncate_middle(clean(text)))


def parse_date(text: str) -> str:
    """Return a date, or date and time, as a timestamp; in UTC unless it says otherwise."""
    from ralph.formats.imported import InvalidEntryError, parse_timestamp

    try:
        found = parse_timestamp(text.strip())
    except InvalidEntryError:
        found = ""
    if not found:
        raise UsageError(f"expected a date such as 2025-01-31, not {one_line(text, 40)!r}", code="invalid-date")
    return found


def days_ago(days: int) -> str:
    """Return the timestamp that many days ago."""
    return timestamp(time.time() - min(days, MAX_DAYS) * DAY_SECONDS)
