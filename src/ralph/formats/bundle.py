"""Reader and writer of bundles: all memories of a project with their history, as JSON lines.

The first line identifies the format. Every memory has a line with all its fields, followed by a line for each change in
its history. The last line has the number of memories and a checksum of all lines before it. Bundles are read and
written line by line, so they may be larger than RAM.
"""

from __future__ import annotations

import hashlib
import json
import math
import re

from ralph.core.limits import MAX_BODY_LENGTH, MAX_TAG_LENGTH, MAX_TAGS
from ralph.core.memory_types import MEMORY_KINDS
from ralph.core.records import Memory, MemoryEvent, MemorySource, MemoryState, record_fields
from ralph.core.text import extract_title, one_line, sanitize
from ralph.formats.imported import (
    MAX_ID_CHARS,
    MAX_SOURCE_LOOPS,
    MAX_WORD_CHARS,
    TIMESTAMP_PATTERN,
    InvalidEntryError,
    is_plain_id,
    parse_count,
    parse_enum,
    parse_ratio,
    parse_timestamp,
    stored_title,
)
from ralph.formats.planned import ReadProblem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from ralph.formats.detection import FileSample

    Fields = Mapping[str, Callable[[Any, str], Any]]

BUNDLE_VERSION = 1
MAX_BUNDLE_LINE_CHARS = 8 * 1024 * 1024
"""Maximum length of a line, in characters; longer than any valid memory."""
MAX_KIND_CHARS = 50
"""Maximum length of a memory type, in characters."""
MAX_CHANGE_CHARS = 1_000_000
"""Maximum length of the JSON text of a change, in characters."""

_START = re.compile(r"\ufeff?\s{0,100}\{\s{0,100}\"ralph_bundle\"\s{0,100}:")
_HARMLESS = re.compile(
    rf"[a-z -]{{1,12}}|mem-\d{{1,12}}-[0-9a-f]{{4}}|run-[0-9a-f]{{8}}|t-[0-9a-f]{{6}}|{TIMESTAMP_PATTERN}", re.ASCII
)
"""Short words, ids and timestamps, which cannot contain secrets or invisible characters."""
_LOCAL_FIELDS = ("seen", "stale")
"""Fields derived from the files of a working copy, which are not exported."""
_TRUNCATED = "The bundle is truncated: its last line, with the checksum, is missing."


def is_bundle(sample: FileSample) -> bool:
    """Return whether a file is a bundle."""
    return bool(_START.match(sample.start))


# --- writing ---------------------------------------------------------------------


def write_bundle(memories: Iterable[tuple[Memory, Sequence[MemoryEvent]]], project: str, at: str) -> Iterator[str]:
    """Yield the lines of a bundle, for memories with their history (oldest change first)."""
    encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
    digest = hashlib.sha256()
    count = 0

    def hashed_line(fields: Mapping[str, Any]) -> str:
        line = encode(fields) + "\n"
        digest.update(line.encode("utf-8", "surrogatepass"))
        return line

    yield hashed_line({"ralph_bundle": BUNDLE_VERSION, "project": project, "exported_at": at})
    for memory, events in memories:
        fields = {_KEYS.get(name, name): value for name, value in record_fields(memory).items()}
        yield hashed_line({name: value for name, value in fields.items() if name not in _LOCAL_FIELDS})
        for event in events:
            yield hashed_line({"event": record_fields(event)})
        count += 1
    yield encode({"count": count, "checksum": digest.hexdigest()}) + "\n"


# --- reading ---------------------------------------------------------------------


def verify_bundle(lines: Iterable[str]) -> str:
    """Return a message if the bundle was truncated or changed after it was written, or an empty string.

    A text that does not start like a bundle is accepted here, because `read_bundle` reports it. Verifying is much
    faster than reading, since most lines are not parsed.
    """
    digest = hashlib.sha256()
    rows = _rows(lines)
    number, first = next(rows, (1, ""))
    if _parse_header(first)[1]:
        return ""
    digest.update(_bytes(first))
    for number, line in rows:
        fields = _decode_or_none(line) if '"checksum"' in line else None
        if fields and _is_footer(fields):
            problems = _check_footer(fields, digest.hexdigest(), number, next(rows, None))
            return next((problem.why for problem in problems), "")
        digest.update(_bytes(line))
    return _TRUNCATED


def _decode_or_none(line: str) -> dict[str, Any] | None:
    try:
        return _decode(line)
    except InvalidEntryError:
        return None


def read_bundle(lines: Iterable[str]) -> Iterator[Memory | MemoryEvent | ReadProblem]:
    """Yield the memories of a bundle, each followed by its history, and problems.

    The last item is a problem if the bundle was truncated or changed after it was written.
    """
    digest = hashlib.sha256()
    rows = _rows(lines)
    number, first = next(rows, (1, ""))
    exported_at, why = _parse_header(first)
    if why:
        yield ReadProblem(line=number, why=why)
        return
    digest.update(_bytes(first))
    last_id: str | None = ""
    for number, line in rows:
        try:
            fields = _decode(line)
            if _is_footer(fields):
                yield from _check_footer(fields, digest.hexdigest(), number, next(rows, None))
                return
            if "event" in fields:
                # The history of an invalid memory is skipped with it.
                if last_id is not None:
                    yield _event(fields["event"], last_id)
            else:
                last_id = None
                memory = _memory(fields, exported_at)
                last_id = memory.id
                yield memory
        except InvalidEntryError as error:
            yield ReadProblem(line=number, why=f"Line {number} was skipped: {error}.")
        digest.update(_bytes(line))
    yield ReadProblem(line=number, why=_TRUNCATED, was_read=True)


def _rows(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the number and text of every line that is not blank, without byte order mark and newline."""
    for number, line in enumerate(lines, start=1):
        if line and not line.isspace():
            yield number, (line.removeprefix("\ufeff") if number == 1 else line).rstrip("\r\n")


def _is_footer(fields: dict[str, Any]) -> bool:
    return "checksum" in fields and "kind" not in fields


def _parse_header(line: str) -> tuple[str, str]:
    """Return the export time in the first line, and a message if this is not a readable bundle."""
    try:
        fields = _decode(line)
        version = fields.get("ralph_bundle")
        if isinstance(version, int) and not isinstance(version, bool) and version > BUNDLE_VERSION:
            return (
                "",
                f"The bundle has version {version}, but this Ralph only supports {BUNDLE_VERSION}. Upgrade Ralph.",
            )
        if version != BUNDLE_VERSION or isinstance(version, bool):
            return "", "Not a bundle: the first line has no `ralph_bundle` version."
    except InvalidEntryError as error:
        return "", f"Not a bundle: invalid first line ({error})."
    try:
        return _moment(fields.get("exported_at"), "date"), ""
    except InvalidEntryError:
        return "", ""


def _check_footer(fields: dict[str, Any], digest: str, number: int, next_line: object) -> Iterator[ReadProblem]:
    """Yield the problems that the last line reveals."""
    if fields.get("checksum") != digest:
        why = "The checksum does not match: the bundle was changed after it was written."
        yield ReadProblem(line=number, why=why, was_read=True)
    elif next_line is not None:
        yield ReadProblem(line=number + 1, why="Ignored unexpected lines after the end of the bundle.")


def _bytes(line: str) -> bytes:
    return f"{line}\n".encode("utf-8", "surrogatepass")


def _refuse(word: str) -> float:
    raise InvalidEntryError(f"{word} is not a valid JSON number")


_decode_json = json.JSONDecoder(parse_constant=_refuse).decode


def _decode(line: str) -> dict[str, Any]:
    if len(line) > MAX_BUNDLE_LINE_CHARS:
        raise InvalidEntryError(f"it has {len(line):,} characters")
    try:
        fields = _decode_json(line)
    except InvalidEntryError:
        raise
    except (ValueError, RecursionError):
        raise InvalidEntryError("it is not valid JSON") from None
    if not isinstance(fields, dict):
        raise InvalidEntryError("it is not an object")
    return fields


# --- from fields to records ------------------------------------------------------


def _memory(values: dict[str, Any], exported_at: str) -> Memory:
    """Convert a line to a memory, with defaults for missing fields."""
    fields = _convert_fields(values, _MEMORY_FIELDS, _MEMORY_DEFAULTS)
    body, content = fields.setdefault("body", ""), fields.get("content")
    if not body and not content:
        raise InvalidEntryError("it is empty")
    if not fields.get("kind"):
        raise InvalidEntryError("it has no kind")
    fields.setdefault("id", "")
    fields["title"] = fields.get("title") or extract_title(body) or fields["kind"]
    created = fields["created_at"] = fields.get("created_at") or exported_at
    if not created:
        raise InvalidEntryError("it has no date")
    fields["updated_at"] = fields.get("updated_at") or created
    return Memory(**{_FIELDS_BY_KEY.get(key, key): value for key, value in fields.items()})


def _event(values: object, memory_id: str) -> MemoryEvent:
    if not isinstance(values, dict):
        raise InvalidEntryError("its event is not an object")
    fields = {"seq": 0, "was": None, "became": None, "who": "", "why": "", **_convert_fields(values, _EVENT_FIELDS, {})}
    if fields.get("memory_id") != memory_id:
        raise InvalidEntryError("its event belongs to another memory than the one above it")
    if not fields.get("what") or not fields.get("at"):
        raise InvalidEntryError("its event has no `what` or no `at`")
    return MemoryEvent(**fields)


def _convert_fields(values: dict[str, Any], known: Fields, defaults: dict[str, Any]) -> dict[str, Any]:
    """Return the known fields that differ from their default, cleaned and converted."""
    fields: dict[str, Any] = {}
    strings: list[str] = []
    body = values.get("body")
    for name, value in values.items():
        if value is None or value == defaults.get(name) or name not in known:
            continue
        fields[name] = value
        if type(value) is str:
            is_in_body = name == "title" and type(body) is str and body.startswith(value)
            if not is_in_body and not _HARMLESS.fullmatch(value):
                strings.append(value)
        elif type(value) is list:
            strings += [item for item in value if type(item) is str and not _HARMLESS.fullmatch(item)]
    # Most bundles were written by us and are clean, so all texts are first checked at once.
    text = "\n".join(strings).strip()
    if sanitize(text) != text:
        fields = {name: _clean_value(value) for name, value in fields.items()}
    for name, value in fields.items():
        fields[name] = known[name](value, name)
    return fields


def _clean_value(value: Any) -> Any:
    if isinstance(value, list):
        return [sanitize(item) if isinstance(item, str) else item for item in value]
    return sanitize(value) if isinstance(value, str) else value


# Converters: each gets a cleaned value, and the name of its field for messages.


def _text(value: Any, name: str, longest: int = MAX_BODY_LENGTH) -> str:
    if not isinstance(value, str):
        raise InvalidEntryError(f"its {name} is not a string")
    if len(value) > longest:
        raise InvalidEntryError(f"its {name} has {len(value):,} characters, and the limit is {longest:,}")
    return value.strip()


def _word(value: Any, name: str) -> str:
    return _text(value, name, MAX_WORD_CHARS)


def _id(value: Any, name: str) -> str:
    text = _text(value, name, MAX_ID_CHARS)
    if text and not is_plain_id(text):
        raise InvalidEntryError(f"its {name} has characters other than letters, digits, dots and hyphens")
    return text


def _line(value: Any, name: str) -> str:
    return stored_title(_text(value, name))


def _kind(value: Any, name: str) -> str:
    word = one_line(_text(value, name), MAX_KIND_CHARS)
    return known if (known := word.lower()) in MEMORY_KINDS else word


def _json(value: Any, name: str) -> str:
    text = _text(value, name)
    try:
        return _encode(_clean_nested(_decode(text)), text)
    except InvalidEntryError as error:
        raise InvalidEntryError(f"its {name} is invalid: {error}") from None


def _change(value: Any, name: str) -> str:
    """Return the changed fields as JSON, cleaned and without the id of the memory."""
    text = _text(value, name, MAX_CHANGE_CHARS)
    try:
        fields = _decode(text)
    except InvalidEntryError as error:
        raise InvalidEntryError(f"its {name} is invalid: {error}") from None
    known = {
        field: _clean_nested(value) for field, value in fields.items() if field in _MEMORY_FIELDS and field != "id"
    }
    return _encode(known, text)


def _clean_nested(value: Any) -> Any:
    """Return a value with all its strings cleaned, including strings that contain JSON."""
    if isinstance(value, dict):
        return {sanitize(name): _clean_nested(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_clean_nested(item) for item in value]
    if not isinstance(value, str):
        return value
    if value.startswith(("[", "{")):
        try:
            return _encode(_clean_nested(_decode_json(value)), value)
        except (ValueError, RecursionError, InvalidEntryError):
            pass
    return sanitize(value)


def _encode(value: Any, text: str) -> str:
    """Return a value as JSON: the original text if it is equivalent."""
    return text if _decode_json(text) == value else json.dumps(value, ensure_ascii=False)


def _list(value: Any, name: str, longest: int, most: int = MAX_TAGS) -> tuple[str, ...]:
    items: dict[str, None] = {}
    for item in value if type(value) is list else (None,):
        if type(item) is not str or len(item) > longest:
            raise InvalidEntryError(f"its {name} are not a list of strings of up to {longest} characters")
        items[" ".join(item.split())] = None
    items.pop("", None)
    if len(items) > most:
        raise InvalidEntryError(f"it has {len(items):,} {name}, and the limit is {most:,}")
    return tuple(items)


def _tags(value: Any, name: str) -> tuple[str, ...]:
    return tuple(map(str.lower, _list(value, name, MAX_TAG_LENGTH)))


def _loops(value: Any, name: str) -> tuple[str, ...]:
    return _list(value, name, MAX_WORD_CHARS, MAX_SOURCE_LOOPS)


def _paths(value: Any, name: str) -> tuple[str, ...]:
    return _list(value, name, MAX_TAG_LENGTH * 10)


def _share(value: Any, name: str) -> float | None:
    return parse_ratio(math.nan if isinstance(value, str) else value, name)


def _support(value: Any, name: str) -> int:
    return max(1, parse_count(value, name))


def _moment(value: Any, name: str) -> str:
    return parse_timestamp(_text(value, name))


def _source(value: Any, name: str) -> MemorySource:
    return parse_enum(_text(value, name), name, MemorySource)


def _state(value: Any, name: str) -> MemoryState:
    return parse_enum(_text(value, name), name, MemoryState)


_MEMORY_FIELDS: Fields = {
    "id": _id,
    "kind": _kind,
    "title": _line,
    "body": _text,
    "content": _json,
    "tags": _tags,
    "files": _paths,
    "feature": _word,
    "task_type": _word,
    "hat": _word,
    "source": _source,
    "state": _state,
    "state_reason": _text,
    "confidence": _share,
    "wins": parse_count,
    "losses": parse_count,
    "uses": parse_count,
    "success_rate": _share,
    "support": _support,
    "superseded_by": _id,
    "origin_task": _id,
    "origin_run": _id,
    "origin_attempt": parse_count,
    "origin_session": _word,
    "origin_loops": _loops,
    "created_at": _moment,
    "updated_at": _moment,
    "used_at": _moment,
    "verified_at": _moment,
    "validated_at": _moment,
    "pinned_at": _moment,
}
_EVENT_FIELDS: Fields = {
    "seq": parse_count,
    "memory_id": _id,
    "what": _word,
    "was": _change,
    "became": _change,
    "who": _word,
    "why": _text,
    "at": _moment,
    "change_id": _id,
    "undoes": parse_count,
}
_KEYS = {"content": "body", "structured_content": "content"}
"""Keys of fields that are called otherwise in a bundle."""
_FIELDS_BY_KEY = {key: name for name, key in _KEYS.items()}
_MEMORY_DEFAULTS = {
    _KEYS.get(name, name): list(value) if isinstance(value, tuple) else value
    for name, value in record_fields(Memory(id="", kind="", title="", content="", created_at="", updated_at="")).items()
}
