"""Read and write tasks as JSON lines, one object each; a whole-file JSON array is read as well.

Two families are read. Our own export counts priority up: the highest number goes
first. Files of other loops count it down from 1 to 5; one field that only they have
makes the whole file theirs, so that the order of its tasks is kept.
"""

from __future__ import annotations

import json
import re

from ralph.formats.planned import LONGEST_ENTRY, PlannedTask, Unreadable, quote, unify_newlines
from ralph.records import Status
from ralph.text import accept

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from ralph.formats.planned import Reading
    from ralph.records import Task

    Fields = dict[str, object]
    Entry = tuple[int, Fields]
    """A JSON object, after the line it starts on."""

LARGEST_PRIORITY = 1_000_000
FOREIGN_FIELDS = frozenset({"blocked_by", "loop_id", "created"})
FOREIGN_PRIORITY = 3
"""The middle, for a task of theirs that does not say."""
NEEDS_FIELDS = ("needs", "deps", "dependencies", "depends_on", "blocked_by")
STATUS_WORDS = {
    **dict.fromkeys(("pending", "open", "todo", "to_do", "new", "ready", "backlog"), Status.PENDING),
    # Whoever worked on it is not with us, so it waits for somebody to take it up.
    **dict.fromkeys(("in_progress", "started", "doing", "running", "active", "claimed"), Status.PENDING),
    **dict.fromkeys(("done", "closed", "completed", "complete", "finished", "resolved"), Status.DONE),
    "failed": Status.FAILED,
    "blocked": Status.BLOCKED,
}
CANCELLED_WORDS = frozenset(
    {"cancelled", "canceled", "wontfix", "wont_fix", "wont_do", "skipped", "dropped", "deleted"}
)

_SPACE = re.compile(r"[ \t\n]*")
_ARRAY = re.compile(r"(?>(?:[ \t]*(?:(?:#|//)[^\n]*)?\n)*)[ \t]*\[")
"""The start of an array, with the blank lines and comments before it."""

_SAYABLE = re.compile(r"[A-Za-z0-9][\w.:/@-]{0,63}")


def read_tasks_jsonl(text: str) -> Reading:
    """Give the tasks of the text, and what could not be read."""
    found = list(_entries(unify_newlines(text)))
    unreadable = [entry for entry in found if isinstance(entry, Unreadable)]
    entries = [entry for entry in found if not isinstance(entry, Unreadable)]
    foreign = any(not FOREIGN_FIELDS.isdisjoint(fields) for _, fields in entries)
    tasks: dict[str, PlannedTask] = {}
    for number, (line, fields) in enumerate(entries, start=1):
        task, complaints = _planned(line, fields, number, foreign)
        if task and task.key in tasks:
            complaints = [f"The id {quote(task.key)} was already used on line {tasks[task.key].line}; left out."]
        elif task:
            tasks[task.key] = task
        unreadable += [Unreadable(line=line, why=why) for why in complaints]
    return tuple(tasks.values()), tuple(sorted(unreadable, key=lambda one: one.line))


def write_tasks_jsonl(tasks: Iterable[Task]) -> str:
    """Give the tasks as JSON lines that `read_tasks_jsonl` reads back."""
    return "".join(
        json.dumps(
            {
                "id": task.id,
                "title": task.title,
                "description": task.body,
                "status": task.status,
                "priority": task.priority,
                "parent": task.parent_id,
                "needs": task.needs,
                "feature": task.feature_id,
            },
            ensure_ascii=False,
        )
        + "\n"
        for task in tasks
    )


# --- from text to objects ------------------------------------------------------


class _NotJson(ValueError):
    """This is not JSON, or none we can read; says why in a few words."""


def _refuse_constant(word: str) -> object:
    raise _NotJson(f"{word} is no JSON number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _decode(text: str, start: int) -> tuple[object, int]:
    """Give the JSON value that starts here, and where it ends."""
    try:
        return _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise _NotJson(error.msg[:1].lower() + error.msg[1:]) from None
    except RecursionError:
        raise _NotJson("nested too deep") from None
    except _NotJson:
        raise
    except ValueError:  # Python reads no integer of more than some thousand digits.
        raise _NotJson("a number is too long") from None


def _entries(text: str) -> Iterator[Entry | Unreadable]:
    opening = _ARRAY.match(text)
    done = (yield from _in_array(text, opening.end())) if opening else 0
    for line, row in enumerate(text[done:].split("\n"), start=1 + text.count("\n", 0, done)):
        if (row := row.strip()) and not row.startswith(("#", "//")):
            yield _in_line(row, line)


def _in_array(text: str, start: int) -> Generator[Entry | Unreadable, None, int]:
    """Give every object of the array, then where the array ends."""
    line, counted = 1, 0
    while True:
        start = _skip_space(text, start)
        if text.startswith("]", start):
            return start + 1
        line, counted = line + text.count("\n", counted, start), start
        try:
            value, end = _decode(text, start)
        except _NotJson as error:
            yield Unreadable(line=line, why=f"From here on the array is not JSON ({error}); the rest is left out.")
            return len(text)
        yield _entry(value, end - start, line)
        start = _skip_space(text, end)
        if text.startswith(",", start):
            start += 1
        elif not text.startswith("]", start):
            line += text.count("\n", counted, start)
            yield Unreadable(line=line, why="From here on the array is not JSON (no comma); the rest is left out.")
            return len(text)


def _in_line(row: str, line: int) -> Entry | Unreadable:
    if len(row) > LONGEST_ENTRY:
        return _too_long(line)
    try:
        value, end = _decode(row, 0)
    except _NotJson as error:
        return Unreadable(line=line, why=f"The line is not JSON ({error}); left out.")
    if end < len(row):
        return Unreadable(line=line, why=f"More follows the JSON value, from {quote(row[end:])}; left out.")
    return _entry(value, end, line)


def _entry(value: object, length: int, line: int) -> Entry | Unreadable:
    if length > LONGEST_ENTRY:
        return _too_long(line)
    if not isinstance(value, dict):
        return Unreadable(line=line, why="A task must be a JSON object with a title; left out.")
    return line, value


def _too_long(line: int) -> Unreadable:
    return Unreadable(line=line, why=f"A task may have {LONGEST_ENTRY:,} characters, this has more; left out.")


def _skip_space(text: str, start: int) -> int:
    found = _SPACE.match(text, start)
    return found.end() if found else start


# --- from objects to tasks -----------------------------------------------------


def _planned(line: int, fields: Fields, number: int, foreign: bool) -> tuple[PlannedTask | None, list[str]]:
    """Give the task, or None when it cannot be one, and what had to be read other than it is written."""
    complaints: list[str] = []
    title = " ".join(_text(fields, ("title",), complaints).split())
    if not title:
        return None, ["A task needs a title; left out."]
    status = _status(fields.get("status"), complaints)
    if status is None:
        return None, [f"The task is {quote(str(fields['status']))}; left out."]
    task = PlannedTask(
        key=_own_id(fields, complaints) or f"#{number}",
        title=title,
        body=_text(fields, ("description", "body"), complaints),
        status=status,
        priority=_priority(fields.get("priority"), foreign, complaints),
        parent_key=_id(fields, ("parent", "parent_id"), complaints),
        needs_keys=_needs(fields, complaints),
        feature=_id(fields, ("feature", "feature_id"), complaints),
        line=line,
    )
    return task, complaints


def _text(fields: Fields, names: tuple[str, ...], complaints: list[str]) -> str:
    """Give the first of these fields that says something."""
    for name in names:
        value = fields.get(name)
        if isinstance(value, str) and (text := accept(value)):
            return text
        if value is not None and not isinstance(value, str):
            complaints.append(f"{name} is not text; taken as empty.")
    return ""


def _id(fields: Fields, names: tuple[str, ...], complaints: list[str]) -> str | None:
    """Give the first of these fields that names something."""
    for name in names:
        value = fields.get(name)
        if key := _key(value):
            return key
        if value is not None and value != "":
            complaints.append(f"{name} is no id or name; taken as none.")
    return None


def _own_id(fields: Fields, complaints: list[str]) -> str | None:
    """Give the task's id, if an agent can say it in a sigil; it must not be the prompt's own placeholder."""
    id = _id(fields, ("id",), complaints)
    if id and (not _SAYABLE.fullmatch(id) or id == "TASK_ID"):
        complaints.append(f"The id {quote(id)} cannot be used in a sigil; the task gets a new one.")
        return None
    return id


def _key(value: object) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return accept(value) or None if isinstance(value, str) else None


def _needs(fields: Fields, complaints: list[str]) -> tuple[str, ...]:
    """Give the ids in all the fields that say what a task waits for, each once."""
    keys: dict[str, None] = {}
    for name in NEEDS_FIELDS:
        value = fields.get(name)
        listed = value.split(",") if isinstance(value, str) else value
        if listed is None:
            continue
        if not isinstance(listed, list):
            complaints.append(f"{name} is not a list of ids; taken as none.")
            continue
        keys |= dict.fromkeys(key for one in listed if (key := _key(one)))
        if not all(isinstance(one, str) or _key(one) for one in listed):
            complaints.append(f"{name} holds something that is no id; taken without it.")
    return tuple(keys)


def _status(word: object, complaints: list[str]) -> Status | None:
    """Give the status a word stands for; None when the task was given up."""
    if word is None or word == "":
        return Status.PENDING
    plain = "_".join(word.lower().replace("-", " ").replace("_", " ").split()) if isinstance(word, str) else ""
    if plain in CANCELLED_WORDS:
        return None
    if plain not in STATUS_WORDS:
        complaints.append(f"The status {_shown(word)} is unknown; taken as pending.")
    return STATUS_WORDS.get(plain, Status.PENDING)


def _priority(value: object, foreign: bool, complaints: list[str]) -> int:
    """Give our priority, where the highest goes first, for a number of this family."""
    default = FOREIGN_PRIORITY if foreign else 0
    number = _whole_number(value, default)
    if number is None:
        complaints.append(f"The priority {_shown(value)} is not a whole number we can use; taken as {default}.")
        number = default
    return 6 - min(5, max(1, number)) if foreign else number


def _whole_number(value: object, default: int) -> int | None:
    if value is None:
        return default
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d{1,9}\s*", value):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST_PRIORITY:
        return value
    return None


def _shown(value: object) -> str:
    # Never the text of a list or an object: one that is nested deep enough cannot be printed.
    return quote(str(value)) if isinstance(value, (str, int, float)) else f"of type {type(value).__name__}"
