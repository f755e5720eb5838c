"""What the readers of memory files give: memories, and what could not be read.

Readers are pure and never raise on what a file says: of a hundred entries with
one that makes no sense, ninety-nine are memories and one is a sentence. A memory
whose file gives it no id has an empty one until it is stored.
"""

from __future__ import annotations

import math

from ralph.records import Memory, Source
from ralph.text import accept, one_line, paths_in, title_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ralph.formats.planned import Unreadable

    Reading = tuple[tuple[Memory, ...], tuple[Unreadable, ...]]

IMPORTED_CONFIDENCE = 0.7
LONGEST_TITLE = 200
LONGEST_BODY = 100_000
LONGEST_TAG = 100
LONGEST_ID = 100
MOST_TAGS = 50
MOST_COUNT = 10**9


class NotAMemory(ValueError):
    """An entry cannot be one; says why in a few words."""


def imported(*, kind: str, body: str, at: str, title: str = "", **fields: Any) -> Memory:
    """Give a memory made from a file's words, cleaned; raises `NotAMemory` for one without words.

    `at` is the present moment, for what the file leaves undated. Without a title, the first sentence is one.
    """
    if len(body) > LONGEST_BODY:
        raise NotAMemory(f"it has {len(body):,} characters, and a memory may have {LONGEST_BODY:,}")
    text = accept(body)
    heading = one_line(accept(title[:LONGEST_BODY]), LONGEST_TITLE) or title_of(text)
    if not heading or not (text or fields.get("content")):
        raise NotAMemory("it says nothing")
    created = fields.pop("created_at", "") or at
    confidence = fields.pop("confidence", None)
    return Memory(
        id=fields.pop("id", ""),
        kind=kind_of(kind),
        title=heading,
        body=text,
        files=fields.pop("files", ()) or paths_in(text),
        source=fields.pop("source", Source.IMPORTED),
        confidence=IMPORTED_CONFIDENCE if confidence is None else confidence,
        created_at=created,
        updated_at=fields.pop("updated_at", "") or created,
        **fields,
    )


def kind_of(word: object) -> str:
    """Give a kind as it is stored: known ones in lower case, an agent's own categories as given."""
    kind = one_line(accept(word[:LONGEST_BODY]), 50).lower() if isinstance(word, str) else ""
    if not kind:
        raise NotAMemory("it has no type")
    return kind


def id_of(value: object) -> str:
    """Give an id that may be kept, or an empty one."""
    if not isinstance(value, str) or len(value) > LONGEST_ID:
        return ""
    text = accept(value)
    return text if text.isprintable() and not any(c.isspace() for c in text) else ""


def share_of(value: object, name: str) -> float | None:
    """Give a number between 0 and 1, or None when there is none; raises `NotAMemory` for anything else."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            value = math.nan
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise NotAMemory(f"its {name} is not a number from 0 to 1")
    return float(value)


def count_of(value: object, name: str) -> int:
    """Give a whole number of 0 or more; nothing counts as 0; raises `NotAMemory` for anything else."""
    if value is None or value == "":
        return 0
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 10:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_COUNT:
        raise NotAMemory(f"its {name} is not a count")
    return value


def tags_of(values: object) -> tuple[str, ...]:
    """Give tags from a list or a text with commas: lower case, each once."""
    return _items(values, lower=True)


def paths_of(values: object) -> tuple[str, ...]:
    """Give file paths from a list or a text with commas, each once."""
    return _items(values, lower=False)


def _items(values: object, *, lower: bool) -> tuple[str, ...]:
    if values is None:
        return ()
    listed: Iterable[object] = values.split(",") if isinstance(values, str) else ()
    if isinstance(values, list | tuple):
        listed = values
    elif not isinstance(values, str):
        raise NotAMemory("its tags or files are not a list")
    items = dict.fromkeys(_item(value, lower) for value in listed)
    items.pop("", None)
    if len(items) > MOST_TAGS:
        raise NotAMemory(f"it has {len(items):,} tags or files, and a memory may have {MOST_TAGS}")
    return tuple(items)


def _item(value: object, lower: bool) -> str:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise NotAMemory("one of its tags or files is not text")
    text = str(value)
    if len(text) > LONGEST_TAG * (1 if lower else 10):
        raise NotAMemory(f"one of its tags or files has {len(text):,} characters")
    text = " ".join(accept(text).split())
    return text.lower() if lower else text


def moment_of(value: object) -> str:
    """Give a moment as a timestamp: an ISO-8601 date or time with any offset; empty when there is none."""
    if value is None or value == "":
        return ""
    import datetime

    if isinstance(value, datetime.datetime):
        found = value
    elif isinstance(value, datetime.date):
        found = datetime.datetime(value.year, value.month, value.day)
    else:
        try:
            found = datetime.datetime.fromisoformat(str(value)[:40].strip())
        except ValueError:
            raise NotAMemory(f"{one_line(accept(str(value)), 40)!r} is not a date") from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=datetime.UTC)
    try:
        return found.astimezone(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        raise NotAMemory("its date is out of range") from None
