"""Write and read the bundle: everything a project remembers, as JSON lines.

The first line says what it is, then every memory has a line with all its fields and,
directly below, a line for each change in its history; the last line counts the
memories and seals all lines before it. Both ways work line by line, so that a bundle
may be larger than the machine's memory.
"""

from __future__ import annotations

import json
import math
import re

from ralph.formats.imported import (
    LONGEST_ID,
    LONGEST_WORD,
    MOMENT,
    MOST_LOOPS,
    InvalidEntryError,
    count_of,
    heading_of,
    is_plain_id,
    moment_of,
    share_of,
    word_of,
)
from ralph.formats.planned import Unreadable
from ralph.memory.limits import LONGEST_BODY, LONGEST_TAG, MOST_TAGS
from ralph.records import KINDS, Memory, MemoryEvent, Source, State, fields_of
from ralph.text import accept, one_line, title_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    Fields = Mapping[str, Callable[[Any, str], Any]]

VERSION = 1
LONGEST_LINE = 8 * 1024 * 1024
"""Characters. No memory is that long, whatever its fields hold."""
LONGEST_KIND = 50
LONGEST_CHANGE = 1_000_000
"""Characters of the JSON text that says what a change replaced."""

_BEGINNING = re.compile(r"\ufeff?\s{0,100}\{\s{0,100}\"ralph_bundle\"\s{0,100}:")
_HARMLESS = re.compile(
    rf"[a-z -]{{1,12}}|mem-\d{{1,12}}-[0-9a-f]{{4}}|run-[0-9a-f]{{8}}|t-[0-9a-f]{{6}}|{MOMENT}", re.ASCII
)
"""A short word, an id or a date of ours: nothing in it could be a secret or invisible."""
_OF_THIS_COPY = ("seen", "stale")
"""What the files of a working copy say of a memory means nothing elsewhere."""
_CUT_OFF = "The bundle was cut off: its last line, which counts the memories, is missing."


def is_bundle(start: str) -> bool:
    """Say whether a text that starts so is a bundle."""
    return bool(_BEGINNING.match(start))


# --- writing ---------------------------------------------------------------------


def write_bundle(memories: Iterable[tuple[Memory, Sequence[MemoryEvent]]], project: str, at: str) -> Iterator[str]:
    """Give the lines of a bundle, each with its newline: every memory with its history, oldest change first."""
    import hashlib

    encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
    seal = hashlib.sha256()
    count = 0

    def sealed(fields: Mapping[str, Any]) -> str:
        line = encode(fields) + "\n"
        seal.update(line.encode("utf-8", "surrogatepass"))
        return line

    yield sealed({"ralph_bundle": VERSION, "project": project, "exported_at": at})
    for memory, events in memories:
        yield sealed({name: value for name, value in fields_of(memory).items() if name not in _OF_THIS_COPY})
        for event in events:
            yield sealed({"event": fields_of(event)})
        count += 1
    yield encode({"count": count, "checksum": seal.hexdigest()}) + "\n"


# --- reading ---------------------------------------------------------------------


def verify_bundle(lines: Iterable[str]) -> str:
    """Give a sentence when a bundle was cut off or changed after it was written; empty for a whole one.

    What does not even begin as a bundle is left to `read_bundle`, which reads nothing of it and says why.
    It takes a small part of the time of reading: nearly all lines are only looked at as text.
    """
    import hashlib

    seal = hashlib.sha256()
    rows = _rows(lines)
    number, first = next(rows, (1, ""))
    if _opened(first)[1]:
        return ""
    seal.update(_bytes(first))
    count = 0
    for number, line in rows:
        fields = _decoded_or_none(line) if '"checksum"' in line else None
        if fields and _is_last(fields):
            problems = _closed(fields, count, seal.hexdigest(), number, next(rows, None))
            return next((problem.why for problem in problems), "")
        count += _has_memory(line)
        seal.update(_bytes(line))
    return _CUT_OFF


def _has_memory(line: str) -> bool:
    """Say whether a line holds a memory, as reading it would count."""
    if line.startswith('{"event":'):
        return False
    if line.startswith('{"id":') and '"event"' not in line:
        return True
    fields = _decoded_or_none(line)
    return fields is not None and "event" not in fields


def _decoded_or_none(line: str) -> dict[str, Any] | None:
    try:
        return _decoded(line)
    except InvalidEntryError:
        return None


def read_bundle(lines: Iterable[str]) -> Iterator[Memory | MemoryEvent | Unreadable]:
    """Give the memories of a bundle, each followed by its history, and what is wrong with it.

    The last thing given is a problem when the bundle was cut off or changed after it was written.
    """
    import hashlib

    seal = hashlib.sha256()
    rows = _rows(lines)
    number, first = next(rows, (1, ""))
    exported_at, why = _opened(first)
    if why:
        yield Unreadable(line=number, why=why)
        return
    seal.update(_bytes(first))
    count = 0
    last_id: str | None = ""
    for number, line in rows:
        try:
            fields = _decoded(line)
            if _is_last(fields):
                yield from _closed(fields, count, seal.hexdigest(), number, next(rows, None))
                return
            if "event" in fields:
                # The history of a memory that could not be read is not told on its own.
                if last_id is not None:
                    yield _event(fields["event"], last_id)
            else:
                count, last_id = count + 1, None
                memory = _memory(fields, exported_at)
                last_id = memory.id
                yield memory
        except InvalidEntryError as error:
            yield Unreadable(line=number, why=f"Line {number} is left out: {error}.")
        seal.update(_bytes(line))
    yield Unreadable(line=number, why=_CUT_OFF, was_read=True)


def _rows(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Give the lines that are not blank with their numbers, without what may stand before the first and after each."""
    for number, line in enumerate(lines, start=1):
        if line and not line.isspace():
            yield number, (line.removeprefix("\ufeff") if number == 1 else line).rstrip("\r\n")


def _is_last(fields: dict[str, Any]) -> bool:
    return "checksum" in fields and "kind" not in fields


def _opened(line: str) -> tuple[str, str]:
    """Give when the bundle was written, and a sentence when it cannot be read."""
    try:
        fields = _decoded(line)
        version = fields.get("ralph_bundle")
        if isinstance(version, int) and not isinstance(version, bool) and version > VERSION:
            return "", f"The bundle has version {version}, and this Ralph knows {VERSION}: upgrade Ralph to read it."
        if version != VERSION or isinstance(version, bool):
            return "", "This is no bundle: its first line does not say so."
    except InvalidEntryError as error:
        return "", f"This is no bundle: of its first line, {error}."
    try:
        return _moment(fields.get("exported_at"), "date"), ""
    except InvalidEntryError:
        return "", ""


def _closed(fields: dict[str, Any], count: int, seal: str, number: int, more: object) -> Iterator[Unreadable]:
    """Give what the last line shows to be wrong with the lines before it."""
    if fields.get("checksum") != seal:
        yield Unreadable(
            line=number, why="The checksum does not match: the bundle was changed after it was written.", was_read=True
        )
    elif fields.get("count") != count:
        yield Unreadable(
            line=number,
            why=f"The last line gives another number of memories than the {count} there are.",
            was_read=True,
        )
    elif more is not None:
        yield Unreadable(line=number + 1, why="There is more after the last line; it was not read.")


def _bytes(line: str) -> bytes:
    return f"{line}\n".encode("utf-8", "surrogatepass")


def _refuse(word: str) -> float:
    raise InvalidEntryError(f"{word} is no JSON number")


_DECODE = json.JSONDecoder(parse_constant=_refuse).decode


def _decoded(line: str) -> dict[str, Any]:
    if len(line) > LONGEST_LINE:
        raise InvalidEntryError(f"it has {len(line):,} characters")
    try:
        fields = _DECODE(line)
    except InvalidEntryError:
        raise
    except (ValueError, RecursionError):
        raise InvalidEntryError("it is not JSON") from None
    if not isinstance(fields, dict):
        raise InvalidEntryError("it is not an object")
    return fields


# --- from fields to records ------------------------------------------------------


def _memory(given: dict[str, Any], exported_at: str) -> Memory:
    """Give the memory of a line; what it does not say is as in a new one."""
    fields = _converted(given, _MEMORY_FIELDS, _MEMORY_DEFAULTS)
    body, content = fields.setdefault("body", ""), fields.get("content")
    if not body and not content:
        raise InvalidEntryError("it says nothing")
    if not fields.get("kind"):
        raise InvalidEntryError("it has no kind")
    fields.setdefault("id", "")
    fields["title"] = fields.get("title") or title_of(body) or fields["kind"]
    created = fields["created_at"] = fields.get("created_at") or exported_at
    if not created:
        raise InvalidEntryError("it has no date")
    fields["updated_at"] = fields.get("updated_at") or created
    return Memory(**fields)


def _event(given: object, memory_id: str) -> MemoryEvent:
    if not isinstance(given, dict):
        raise InvalidEntryError("its event is not an object")
    fields = {"seq": 0, "was": None, "became": None, "who": "", "why": "", **_converted(given, _EVENT_FIELDS, {})}
    if fields.get("memory_id") != memory_id:
        raise InvalidEntryError("its event is of another memory than the one above it")
    if not fields.get("what") or not fields.get("at"):
        raise InvalidEntryError("its event does not say what happened and when")
    return MemoryEvent(**fields)


def _converted(given: dict[str, Any], known: Fields, defaults: dict[str, Any]) -> dict[str, Any]:
    """Give the fields that say something, as they may be stored; null counts as not given."""
    fields: dict[str, Any] = {}
    texts: list[str] = []
    body = given.get("body")
    for name, value in given.items():
        if value is None or value == defaults.get(name) or name not in known:
            continue
        fields[name] = value
        if type(value) is str:
            is_in_body = name == "title" and type(body) is str and body.startswith(value)
            if not is_in_body and not _HARMLESS.fullmatch(value):
                texts.append(value)
        elif type(value) is list:
            texts += [one for one in value if type(one) is str and not _HARMLESS.fullmatch(one)]
    # Nearly every memory is clean, for we wrote it; one look at all its texts together is enough to know.
    text = "\n".join(texts).strip()
    if accept(text) != text:
        fields = {name: _accepted(value) for name, value in fields.items()}
    for name, value in fields.items():
        fields[name] = known[name](value, name)
    return fields


def _accepted(value: Any) -> Any:
    if isinstance(value, list):
        return [accept(one) if isinstance(one, str) else one for one in value]
    return accept(value) if isinstance(value, str) else value


# Each of these gets a value whose text is clean, and the name of its field for the message.


def _text(value: Any, name: str, longest: int = LONGEST_BODY) -> str:
    if not isinstance(value, str):
        raise InvalidEntryError(f"its {name} is not text")
    if len(value) > longest:
        raise InvalidEntryError(f"its {name} has {len(value):,} characters, and {longest:,} are allowed")
    return value.strip()


def _word(value: Any, name: str) -> str:
    return _text(value, name, LONGEST_WORD)


def _id(value: Any, name: str) -> str:
    text = _text(value, name, LONGEST_ID)
    if text and not is_plain_id(text):
        raise InvalidEntryError(f"its {name} holds other signs than letters, digits, dots and hyphens")
    return text


def _line(value: Any, name: str) -> str:
    return heading_of(_text(value, name))


def _kind(value: Any, name: str) -> str:
    word = one_line(_text(value, name), LONGEST_KIND)
    return known if (known := word.lower()) in KINDS else word


def _json(value: Any, name: str) -> str:
    text = _text(value, name)
    try:
        return _encoded(_cleaned(_decoded(text)), text)
    except InvalidEntryError as error:
        raise InvalidEntryError(f"of its {name}, {error}") from None


def _change(value: Any, name: str) -> str:
    """Give the fields that a change was about, clean; whose memory it is, an event does not say."""
    text = _text(value, name, LONGEST_CHANGE)
    try:
        fields = _decoded(text)
    except InvalidEntryError as error:
        raise InvalidEntryError(f"of its {name}, {error}") from None
    known = {field: _cleaned(one) for field, one in fields.items() if field in _MEMORY_FIELDS and field != "id"}
    return _encoded(known, text)


def _cleaned(value: Any) -> Any:
    """Give a value with every text in it clean, also those that are JSON themselves."""
    if isinstance(value, dict):
        return {accept(name): _cleaned(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_cleaned(one) for one in value]
    if not isinstance(value, str):
        return value
    if value.startswith(("[", "{")):
        try:
            return _encoded(_cleaned(_DECODE(value)), value)
        except (ValueError, RecursionError, InvalidEntryError):
            pass
    return accept(value)


def _encoded(value: Any, text: str) -> str:
    """Give a value as JSON text: the one it came from, if that says the same."""
    return text if _DECODE(text) == value else json.dumps(value, ensure_ascii=False)


def _list(value: Any, name: str, longest: int, most: int = MOST_TAGS) -> tuple[str, ...]:
    items: dict[str, None] = {}
    for one in value if type(value) is list else (None,):
        if type(one) is not str or len(one) > longest:
            raise InvalidEntryError(f"its {name} are not a list of texts of up to {longest} characters")
        items[" ".join(one.split())] = None
    items.pop("", None)
    if len(items) > most:
        raise InvalidEntryError(f"it has {len(items):,} {name}, and a memory may have {most:,}")
    return tuple(items)


def _tags(value: Any, name: str) -> tuple[str, ...]:
    return tuple(map(str.lower, _list(value, name, LONGEST_TAG)))


def _loops(value: Any, name: str) -> tuple[str, ...]:
    return _list(value, name, LONGEST_WORD, MOST_LOOPS)


def _paths(value: Any, name: str) -> tuple[str, ...]:
    return _list(value, name, LONGEST_TAG * 10)


def _share(value: Any, name: str) -> float | None:
    return share_of(math.nan if isinstance(value, str) else value, name)


def _support(value: Any, name: str) -> int:
    return max(1, count_of(value, name))


def _moment(value: Any, name: str) -> str:
    return moment_of(_text(value, name))


def _source(value: Any, name: str) -> Source:
    return word_of(_text(value, name), name, Source)


def _state(value: Any, name: str) -> State:
    return word_of(_text(value, name), name, State)


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
    "trust": _word,
    "state": _state,
    "state_reason": _text,
    "confidence": _share,
    "wins": count_of,
    "losses": count_of,
    "uses": count_of,
    "success_rate": _share,
    "support": _support,
    "superseded_by": _id,
    "origin_task": _id,
    "origin_run": _id,
    "origin_attempt": count_of,
    "origin_session": _word,
    "origin_loops": _loops,
    "created_at": _moment,
    "updated_at": _moment,
    "used_at": _moment,
    "verified_at": _moment,
    "validated_at": _moment,
}
_EVENT_FIELDS: Fields = {
    "seq": count_of,
    "memory_id": _id,
    "what": _word,
    "was": _change,
    "became": _change,
    "who": _word,
    "why": _text,
    "at": _moment,
    "change_id": _id,
    "undoes": count_of,
}
_MEMORY_DEFAULTS = {
    name: list(value) if isinstance(value, tuple) else value
    for name, value in fields_of(Memory(id="", kind="", title="", body="", created_at="", updated_at="")).items()
}
