"""Conversion of values from imported files to memories.

Readers never raise because of the content of a file: a file with a hundred entries, one of them invalid, yields
ninety-nine memories and one problem. A memory without an id in the file has an empty one until it is stored.
"""

from __future__ import annotations

import datetime
import math
import re

from ralph.core.limits import MAX_BODY_LENGTH, MAX_TAG_LENGTH, MAX_TAGS, MAX_TITLE_LENGTH
from ralph.core.records import Memory, MemorySource, timestamp
from ralph.core.text import extract_title, find_paths, one_line, sanitize
from ralph.formats.planned import ReadProblem, quote_excerpt
from ralph.memory.lifecycle.confidence import INITIAL_CONFIDENCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from enum import StrEnum
    from typing import Any, TypeVar

    Entry = TypeVar("Entry")
    Word = TypeVar("Word", bound=StrEnum)
    Reading = tuple[tuple[Memory, ...], tuple[ReadProblem, ...]]

MAX_ID_CHARS = 100
"""Maximum length of an id, in characters."""
MAX_WORD_CHARS = 200
"""Maximum length of a short text such as a feature name, in characters."""
MAX_COUNT = 10**9
"""Maximum value of a counter."""
MAX_SOURCE_LOOPS = 10_000
"""Maximum number of source loops of a memory."""
TIMESTAMP_PATTERN = r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z"
"""Pattern of our own timestamps, limited to days that exist in every month."""
_MOMENT = re.compile(TIMESTAMP_PATTERN, re.ASCII)
DAY_CHARACTERS = len("2026-01-31")
_ID_TIME = re.compile(r"mem-(\d{9,10})-[0-9a-f]{4,8}$", re.ASCII)
_PLAIN_ID = re.compile(r"[\w./@+-]+(?::[\w./@+-]+)?")


class InvalidEntryError(ValueError):
    """An entry of a file is invalid; the message is a clause with "it" as its subject."""


def convert_entries(entries: Iterable[tuple[int, Entry]], make: Callable[[Entry], Memory], what: str) -> Reading:
    """Return the memories made from numbered entries, and the problems; `what` is a template such as `Entry {}`."""
    memories: list[Memory] = []
    problems: list[ReadProblem] = []
    for number, entry in entries:
        try:
            memories.append(make(entry))
        except InvalidEntryError as error:
            problems.append(ReadProblem(line=number, why=f"{what.format(number)} was skipped: {error}."))
    return tuple(memories), tuple(problems)


def require_object(entry: object) -> dict[str, object]:
    """Return the entry if it is a JSON object; raise `InvalidEntryError` otherwise."""
    if not isinstance(entry, dict):
        raise InvalidEntryError("it is not an object")
    return entry


def imported_memory(*, kind: str, content: str, at: str, title: str = "", **fields: Any) -> Memory:
    """Return a memory made from untrusted text; raise `InvalidEntryError` if it is empty or too long.

    `at` is the current time, used for entries without a date. The default title is the first sentence.
    """
    if len(content) > MAX_BODY_LENGTH:
        raise InvalidEntryError(f"it has {len(content):,} characters, and the limit is {MAX_BODY_LENGTH:,}")
    text = sanitize(content)
    heading = stored_title(sanitize(title[:MAX_BODY_LENGTH])) or extract_title(text)
    if not heading or not (text or fields.get("structured_content")):
        raise InvalidEntryError("it is empty")
    created = fields.pop("created_at", "") or at
    confidence = fields.pop("confidence", None)
    return Memory(
        id=fields.pop("id", ""),
        kind=parse_kind(kind),
        title=heading,
        content=text,
        files=fields.pop("files", ()) or find_paths(text),
        source=fields.pop("source", MemorySource.IMPORTED),
        confidence=INITIAL_CONFIDENCE[MemorySource.IMPORTED] if confidence is None else confidence,
        created_at=created,
        updated_at=fields.pop("updated_at", "") or created,
        **fields,
    )


def stored_title(text: str) -> str:
    """Return a title in stored form: a single line of limited length."""
    is_line = len(text) <= MAX_TITLE_LENGTH and len(text.splitlines()) <= 1
    return text if is_line else one_line(text, MAX_TITLE_LENGTH)


def parse_kind(word: object) -> str:
    """Return a memory type in stored form: one line, in lower case."""
    kind = one_line(sanitize(word[:MAX_BODY_LENGTH]), 50).lower() if isinstance(word, str) else ""
    if not kind:
        raise InvalidEntryError("it has no type")
    return kind


def parse_id(value: object) -> str:
    """Return a valid id unchanged, and an empty string for anything else."""
    if not isinstance(value, str) or len(value) > MAX_ID_CHARS:
        return ""
    text = sanitize(value)
    return text if is_plain_id(text) else ""


def is_plain_id(text: str) -> bool:
    """Return whether an id has no characters that are special to an agent, a shell or markdown."""
    return bool(_PLAIN_ID.fullmatch(text))


def parse_enum(value: Any, name: str, words: type[Word]) -> Word:
    """Return the enum member of a value; raise `InvalidEntryError` if there is none."""
    try:
        return words(value)
    except ValueError:
        raise InvalidEntryError(f"its {name} {quote_excerpt(str(value))} is not supported") from None


def parse_ratio(value: object, name: str) -> float | None:
    """Return a number from 0 to 1, or None for an empty value; raise `InvalidEntryError` for anything else."""
    if type(value) is float and 0 <= value <= 1:
        return value
    if value is None or value == "":
        return None
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            value = math.nan
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidEntryError(f"its {name} is not a number from 0 to 1")
    return float(value)


def parse_count(value: object, name: str) -> int:
    """Return a non-negative integer, 0 for an empty value; raise `InvalidEntryError` for anything else."""
    if type(value) is int and 0 <= value <= MAX_COUNT:
        return value
    if value is None or value == "":
        return 0
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 10:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_COUNT:
        raise InvalidEntryError(f"its {name} is not a non-negative integer")
    return value


def parse_tags(values: object) -> tuple[str, ...]:
    """Return tags from a list or comma-separated text, in lower case and without duplicates."""
    return _parse_list(values, lower=True)


def parse_paths(values: object) -> tuple[str, ...]:
    """Return file paths from a list or comma-separated text, without duplicates."""
    return _parse_list(values, lower=False)


def _parse_list(values: object, *, lower: bool) -> tuple[str, ...]:
    if values is None:
        return ()
    listed: Iterable[object] = values.split(",") if isinstance(values, str) else ()
    if isinstance(values, list | tuple):
        listed = values
    elif not isinstance(values, str):
        raise InvalidEntryError("its tags or files are not a list")
    items = dict.fromkeys(_parse_item(value, lower) for value in listed)
    items.pop("", None)
    if len(items) > MAX_TAGS:
        raise InvalidEntryError(f"it has {len(items):,} tags or files, and the limit is {MAX_TAGS}")
    return tuple(items)


def _parse_item(value: object, lower: bool) -> str:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise InvalidEntryError("one of its tags or files is not a string")
    text = str(value)
    if len(text) > MAX_TAG_LENGTH * (1 if lower else 10):
        raise InvalidEntryError(f"one of its tags or files has {len(text):,} characters")
    text = " ".join(sanitize(text).split())
    return text.lower() if lower else text


def parse_source_loops(value: object) -> tuple[str, ...]:
    """Return the names of source loops from a list, without duplicates."""
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(loop, str) for loop in value):
        raise InvalidEntryError("its source loops are not a list of names")
    if len(value) > MAX_SOURCE_LOOPS or any(len(loop) > MAX_ID_CHARS for loop in value):
        raise InvalidEntryError(
            f"it has more than {MAX_SOURCE_LOOPS:,} source loops, or one of more than {MAX_ID_CHARS} characters"
        )
    loops = dict.fromkeys(" ".join(sanitize(loop).split()) for loop in value)
    loops.pop("", None)
    return tuple(loops)


def parse_timestamp(value: object) -> str:
    """Convert an ISO 8601 date or time to a timestamp; return an empty string for an empty value."""
    if value is None or value == "":
        return ""
    if type(value) is str and _MOMENT.fullmatch(value):
        return value
    if isinstance(value, datetime.datetime):
        found = value
    elif isinstance(value, datetime.date):
        found = datetime.datetime(value.year, value.month, value.day)
    else:
        try:
            found = datetime.datetime.fromisoformat(str(value)[:40].strip())
        except ValueError:
            raise InvalidEntryError(f"{one_line(sanitize(str(value)), 40)!r} is not a date") from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=datetime.UTC)
    try:
        return found.astimezone(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        raise InvalidEntryError("its date is out of range") from None


def parse_day(value: object, id: str) -> str:
    """Convert the date of an entry to a timestamp, exact to the second if its id has a time on that day.

    The file has only days, but which of several entries of one day is the newest decides what is told.
    """
    day = parse_timestamp(value)
    found = _ID_TIME.match(id) if len(str(value)) == DAY_CHARACTERS else None
    exact = timestamp(int(found[1])) if day and found else ""
    return exact if exact[:DAY_CHARACTERS] == day[:DAY_CHARACTERS] else day
