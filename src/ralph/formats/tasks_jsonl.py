"""Reader and writer of tasks as JSON lines; the reader also accepts a JSON array.

There are two conventions for priority. In our own export, a higher number runs first. Files of other tools use 1
(first) to 5 (last); a single field that only they have makes the whole file foreign, so that the order of its tasks is
kept.
"""

from __future__ import annotations

import json
import re

from ralph.core.records import TaskStatus
from ralph.core.text import sanitize
from ralph.formats.planned import MAX_TASK_CHARS, PlannedTask, ReadProblem, quote_excerpt, unify_newlines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from ralph.core.records import Task
    from ralph.formats.planned import Reading

    Fields = dict[str, object]
    Entry = tuple[int, Fields]
    """The line on which a JSON object starts, and the object."""

MAX_PRIORITY = 1_000_000
FOREIGN_FIELDS = frozenset({"blocked_by", "loop_id", "created"})
DEFAULT_FOREIGN_PRIORITY = 3
"""Priority of a foreign task that has none."""
NEEDS_FIELDS = ("needs", "deps", "dependencies", "depends_on", "blocked_by")
STATUS_BY_WORD = {
    **dict.fromkeys(("pending", "open", "todo", "to_do", "new", "ready", "backlog"), TaskStatus.PENDING),
    # The worker that started it is not part of this project, so it can be claimed again.
    **dict.fromkeys(("in_progress", "started", "doing", "running", "active", "claimed"), TaskStatus.PENDING),
    **dict.fromkeys(("done", "closed", "completed", "complete", "finished", "resolved"), TaskStatus.DONE),
    "failed": TaskStatus.FAILED,
    "blocked": TaskStatus.BLOCKED,
}
CANCELED_WORDS = frozenset({"cancelled", "canceled", "wontfix", "wont_fix", "wont_do", "skipped", "dropped", "deleted"})

_SPACE = re.compile(r"[ \t\n]*")
_ARRAY = re.compile(r"(?>(?:[ \t]*(?:(?:#|//)[^\n]*)?\n)*)[ \t]*\[")
"""The opening bracket of an array, possibly after blank lines and comments."""

_SIGIL_ID = re.compile(r"[A-Za-z0-9][\w.:/@-]{0,63}")


def read_tasks_jsonl(text: str) -> Reading:
    """Return the tasks and the problems of a text."""
    entries, unreadable = parse_entries(text)
    is_foreign = any(not FOREIGN_FIELDS.isdisjoint(fields) for _, fields in entries)
    tasks, problems = parse_tasks(entries, is_foreign=is_foreign)
    return tasks, tuple(sorted([*unreadable, *problems], key=lambda problem: problem.line))


def parse_entries(text: str) -> tuple[list[Entry], list[ReadProblem]]:
    """Return the JSON objects of a text with the lines they start on, and the lines that are none."""
    found = list(_entries(unify_newlines(text)))
    entries = [entry for entry in found if not isinstance(entry, ReadProblem)]
    return entries, [entry for entry in found if isinstance(entry, ReadProblem)]


def parse_tasks(entries: Iterable[Entry], *, is_foreign: bool) -> Reading:
    """Return the tasks of JSON objects, and the problems; foreign priorities are turned round."""
    tasks: dict[str, PlannedTask] = {}
    unreadable: list[ReadProblem] = []
    for number, (line, fields) in enumerate(entries, start=1):
        task, problems = _parse_task(line, fields, number, is_foreign)
        if task and task.key in tasks:
            problems = [f"Skipped: the id {quote_excerpt(task.key)} is already used on line {tasks[task.key].line}."]
            task = None
        elif task:
            tasks[task.key] = task
        unreadable += [ReadProblem(line=line, why=why, was_read=task is not None) for why in problems]
    return tuple(tasks.values()), tuple(unreadable)


def write_tasks_jsonl(tasks: Iterable[Task]) -> str:
    """Return the tasks as JSON lines that `read_tasks_jsonl` accepts."""
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
                **({"allow": task.allow} if task.allow else {}),
            },
            ensure_ascii=False,
        )
        + "\n"
        for task in tasks
    )


# --- from text to objects ------------------------------------------------------


class _InvalidJsonError(ValueError):
    """The text is not valid JSON; the message is a short reason."""


def _refuse_constant(word: str) -> object:
    raise _InvalidJsonError(f"{word} is not a valid number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _decode(text: str, start: int) -> tuple[object, int]:
    """Return the JSON value at `start`, and the index after it."""
    try:
        return _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise _InvalidJsonError(error.msg[:1].lower() + error.msg[1:]) from None
    except RecursionError:
        raise _InvalidJsonError("nested too deeply") from None
    except _InvalidJsonError:
        raise
    except ValueError:  # an integer with too many digits
        raise _InvalidJsonError("a number is too long") from None


def _entries(text: str) -> Iterator[Entry | ReadProblem]:
    opening = _ARRAY.match(text)
    done = (yield from _read_array(text, opening.end())) if opening else 0
    for line, row in enumerate(text[done:].split("\n"), start=1 + text.count("\n", 0, done)):
        if (row := row.strip()) and not row.startswith(("#", "//")):
            yield _read_line(row, line)


def _read_array(text: str, start: int) -> Generator[Entry | ReadProblem, None, int]:
    """Yield the objects of an array; return the index after its end."""
    line, counted = 1, 0
    while True:
        start = _skip_space(text, start)
        if text.startswith("]", start):
            return start + 1
        line, counted = line + text.count("\n", counted, start), start
        try:
            value, end = _decode(text, start)
        except _InvalidJsonError as error:
            yield ReadProblem(line=line, why=f"Skipped the rest of the array: invalid JSON ({error}).")
            return len(text)
        yield _entry(value, end - start, line)
        start = _skip_space(text, end)
        if text.startswith(",", start):
            start += 1
        elif not text.startswith("]", start):
            line += text.count("\n", counted, start)
            yield ReadProblem(line=line, why="Skipped the rest of the array: invalid JSON (missing comma).")
            return len(text)


def _read_line(row: str, line: int) -> Entry | ReadProblem:
    if len(row) > MAX_TASK_CHARS:
        return _too_long(line)
    try:
        value, end = _decode(row, 0)
    except _InvalidJsonError as error:
        return ReadProblem(line=line, why=f"Skipped: the line is not valid JSON ({error}).")
    if end < len(row):
        return ReadProblem(line=line, why=f"Skipped: unexpected text after the JSON value: {quote_excerpt(row[end:])}.")
    return _entry(value, end, line)


def _entry(value: object, length: int, line: int) -> Entry | ReadProblem:
    if length > MAX_TASK_CHARS:
        return _too_long(line)
    if not isinstance(value, dict):
        return ReadProblem(line=line, why="Skipped: a task must be a JSON object with a title.")
    return line, value


def _too_long(line: int) -> ReadProblem:
    return ReadProblem(line=line, why=f"Skipped: the task is longer than {MAX_TASK_CHARS:,} characters.")


def _skip_space(text: str, start: int) -> int:
    found = _SPACE.match(text, start)
    return found.end() if found else start


# --- from objects to tasks -----------------------------------------------------


def _parse_task(line: int, fields: Fields, number: int, is_foreign: bool) -> tuple[PlannedTask | None, list[str]]:
    """Return the task, or None if it is invalid or canceled, and the problems found."""
    problems: list[str] = []
    title = " ".join(_text(fields, ("title",), problems).split())
    if not title:
        return None, ["Skipped: the task has no title."]
    status = _status(fields.get("status"), problems)
    if status is None:
        return None, [f"Skipped: the status of the task is {quote_excerpt(str(fields['status']))}."]
    task = PlannedTask(
        key=_own_id(fields, problems) or f"#{number}",
        title=title,
        body=_text(fields, ("description", "body"), problems),
        status=status,
        priority=_priority(fields.get("priority"), is_foreign, problems),
        parent_key=_id(fields, ("parent", "parent_id"), problems),
        dependency_keys=_needs(fields, problems),
        feature=_id(fields, ("feature", "feature_id"), problems),
        allow=_allow(fields, problems),
        line=line,
    )
    return task, problems


def _text(fields: Fields, names: tuple[str, ...], problems: list[str]) -> str:
    """Return the first of these fields that is not empty."""
    for name in names:
        value = fields.get(name)
        if isinstance(value, str) and (text := sanitize(value)):
            return text
        if value is not None and not isinstance(value, str):
            problems.append(f"Ignored {name}: not a string.")
    return ""


def _id(fields: Fields, names: tuple[str, ...], problems: list[str]) -> str | None:
    """Return the first of these fields that is an id or name."""
    for name in names:
        value = fields.get(name)
        if key := _key(value):
            return key
        if value is not None and value != "":
            problems.append(f"Ignored {name}: not an id or name.")
    return None


def _own_id(fields: Fields, problems: list[str]) -> str | None:
    """Return the id of the task, unless it cannot be used in a sigil or is the placeholder of the prompt."""
    id = _id(fields, ("id",), problems)
    if id and (not _SIGIL_ID.fullmatch(id) or id == "TASK_ID"):
        problems.append(f"The id {quote_excerpt(id)} cannot be used in a sigil, so the task gets a new one.")
        return None
    return id


def _key(value: object) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return sanitize(value) or None if isinstance(value, str) else None


def _needs(fields: Fields, problems: list[str]) -> tuple[str, ...]:
    """Return the ids of all dependencies, without duplicates."""
    keys: dict[str, None] = {}
    for name in NEEDS_FIELDS:
        value = fields.get(name)
        listed = value.split(",") if isinstance(value, str) else value
        if listed is None:
            continue
        if not isinstance(listed, list):
            problems.append(f"Ignored {name}: not a list of ids.")
            continue
        keys |= dict.fromkeys(key for item in listed if (key := _key(item)))
        if not all(isinstance(item, str) or _key(item) for item in listed):
            problems.append(f"Ignored an item of {name}: not an id.")
    return tuple(keys)


def _allow(fields: Fields, problems: list[str]) -> tuple[str, ...]:
    """Return the globs of protected files that the task may change."""
    value = fields.get("allow")
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        problems.append("Ignored allow: not a list of globs.")
        return ()
    return tuple(filter(None, (sanitize(str(item)).strip() for item in value)))


def _status(word: object, problems: list[str]) -> TaskStatus | None:
    """Return the status that a word stands for, or None if the task was canceled."""
    if word is None or word == "":
        return TaskStatus.PENDING
    plain = "_".join(word.lower().replace("-", " ").replace("_", " ").split()) if isinstance(word, str) else ""
    if plain in CANCELED_WORDS:
        return None
    if plain not in STATUS_BY_WORD:
        problems.append(f"Unknown status {_display(word)}; used pending instead.")
    return STATUS_BY_WORD.get(plain, TaskStatus.PENDING)


def _priority(value: object, is_foreign: bool, problems: list[str]) -> int:
    """Convert a priority to ours, where the highest number runs first."""
    default = DEFAULT_FOREIGN_PRIORITY if is_foreign else 0
    number = _whole_number(value, default)
    if number is None:
        problems.append(f"Invalid priority {_display(value)}; used {default} instead.")
        number = default
    return 6 - min(5, max(1, number)) if is_foreign else number


def _whole_number(value: object, default: int) -> int | None:
    if value is None:
        return default
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d{1,9}\s*", value):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_PRIORITY:
        return value
    return None


def _display(value: object) -> str:
    # Printing a deeply nested list or object could exceed the recursion limit.
    return quote_excerpt(str(value)) if isinstance(value, (str, int, float)) else f"of type {type(value).__name__}"
