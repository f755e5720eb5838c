"""Reader of the issues that beads keeps in `.beads/issues.jsonl`, or `beads.jsonl` in older projects.

An issue becomes a task. What a task has no field for is added to its description, so that the agent that works on it
sees it, or to its log.
"""

from __future__ import annotations

import re

from ralph.core.records import TaskLogEntry, TaskStatus, replace
from ralph.core.text import one_line, sanitize
from ralph.formats.imported import InvalidEntryError, imported_memory, parse_id, parse_timestamp
from ralph.formats.planned import PlannedProject, ReadProblem, quote_excerpt
from ralph.formats.task_links import without_cycles
from ralph.formats.tasks_jsonl import parse_entries, parse_tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ralph.core.records import Memory
    from ralph.formats.detection import FileSample
    from ralph.formats.planned import PlannedTask
    from ralph.formats.tasks_jsonl import Entry, Fields

WAITING_LINKS = frozenset({"blocks", "conditional-blocks", "waits-for"})
"""Types of dependencies for which an issue waits."""
PARENT_LINK = "parent-child"
TOMBSTONE = "tombstone"
STATUS_BY_WORD = {"hooked": "in_progress", "deferred": "blocked", "pinned": "blocked"}
"""Statuses that tasks do not have, as those that come closest."""
KNOWN_STATUSES = frozenset({"open", "in_progress", "blocked", "closed", *STATUS_BY_WORD})
LOWEST_PRIORITY = 4
DEFAULT_PRIORITY = 2
MEMORY_KIND = "context"
LOG_AUTHOR = "import"
_SECTIONS = {"design": "Design", "acceptance_criteria": "Acceptance criteria", "notes": "Notes"}
_ISSUE_FIELD = re.compile(r"\"(?:issue_type|depends_on_id)\"\s{0,9}:")


def is_beads_jsonl(sample: FileSample) -> bool:
    """Return whether a file has the issues or memories of beads."""
    if not sample.is_json or sample.is_array:
        return False
    fields = sample.first_object
    if str(fields.get("_schema", "")).startswith("beads"):
        return True
    if fields.get("_type") == "memory":
        return "key" in fields and "value" in fields
    return "title" in fields and "id" in fields and bool(_ISSUE_FIELD.search(sample.start))


def read_beads_jsonl(text: str, at: str) -> PlannedProject:
    """Return the tasks, memories and problems of a file; deleted issues are counted."""
    entries, problems = parse_entries(text)
    entries = [(line, fields) for line, fields in entries if "_schema" not in fields]
    others = [entry for entry in entries if entry[1].get("_type", "issue") != "issue"]
    issues = [entry for entry in entries if entry[1].get("_type", "issue") == "issue"]
    deleted = {str(fields.get("id")) for _, fields in issues if fields.get("status") == TOMBSTONE}
    kept = [entry for entry in issues if entry[1].get("status") != TOMBSTONE]
    tasks, task_problems = parse_tasks(
        [(line, _task_fields(fields, deleted)) for line, fields in kept], is_foreign=False
    )
    by_line = dict(kept)
    tasks, cycles = without_cycles([_complete(task, by_line[task.line]) for task in tasks])
    memories, memory_problems = _read_memories(others, at)
    notes = [problem for line, fields in kept for problem in _status_problems(line, fields)]
    return PlannedProject(
        tasks=tasks,
        memories=memories,
        problems=tuple(
            sorted([*problems, *task_problems, *notes, *cycles, *memory_problems], key=lambda problem: problem.line)
        ),
        is_foreign=True,
        note=f"skipped {len(issues) - len(kept):,} that beads marks as deleted" if len(issues) > len(kept) else "",
    )


# --- from issues to tasks --------------------------------------------------------


def _task_fields(issue: Fields, deleted: set[str]) -> Fields:
    """Return an issue in the fields of a task file."""
    links = list(_links(issue))
    parent = next((needed for kind, needed in links if kind == PARENT_LINK), None)
    word = issue.get("status")
    needs = [needed for kind, needed in links if kind in WAITING_LINKS and needed not in deleted]
    status = STATUS_BY_WORD.get(str(word), word if word in KNOWN_STATUSES else "blocked" if word else "open")
    if word == "blocked" and needs:
        status = "open"  # it can start when its dependencies are done
    return {
        "id": issue.get("id"),
        "title": issue.get("title"),
        "description": _description(issue, links),
        "status": status,
        "priority": _priority(issue.get("priority")),
        "parent": parent or issue.get("parent"),
        "needs": needs,
    }


def _links(issue: Fields) -> Iterator[tuple[str, str]]:
    """Yield the type and the target of each dependency."""
    listed = issue.get("dependencies")
    for link in listed if isinstance(listed, list) else ():
        if isinstance(link, dict) and isinstance(needed := link.get("depends_on_id"), str):
            yield str(link.get("type") or "blocks"), needed
        elif isinstance(link, str):
            yield "blocks", link


def _priority(value: object) -> object:
    """Return a priority with the highest number first; anything but 0 to 4 is left to be reported."""
    if value is None:
        value = DEFAULT_PRIORITY
    is_known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LOWEST_PRIORITY
    return LOWEST_PRIORITY + 1 - value if is_known and isinstance(value, int) else value


def _description(issue: Fields, links: list[tuple[str, str]]) -> str:
    parts = [_text(issue.get("description"))]
    parts += [f"## {title}\n\n{text}" for name, title in _SECTIONS.items() if (text := _text(issue.get(name)))]
    if comments := list(_comments(issue)):
        parts.append("## Comments\n\n" + "\n\n".join(comments))
    related = [f"{needed} ({kind})" for kind, needed in links if kind not in WAITING_LINKS and kind != PARENT_LINK]
    if related:
        parts.append(f"Related: {', '.join(related)}")
    return "\n\n".join(filter(None, parts))


def _comments(issue: Fields) -> Iterator[str]:
    listed = issue.get("comments")
    for comment in listed if isinstance(listed, list) else ():
        if isinstance(comment, dict) and (text := _text(comment.get("text"))):
            who = one_line(_text(comment.get("author"))) or "unknown"
            yield f"{who}, {_text(comment.get('created_at'))[:10] or 'undated'}: {text}"


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _complete(task: PlannedTask, issue: Fields) -> PlannedTask:
    """Return a task with the reason it is blocked, and its log."""
    word = _text(issue.get("status"))
    reason = f"{one_line(sanitize(word), 40)} in beads" if task.status is TaskStatus.BLOCKED else ""
    return replace(task, reason=reason, log=tuple(_log(issue)))


def _log(issue: Fields) -> Iterator[TaskLogEntry]:
    names = {"issue_type": "type", "created_by": "created by", "assignee": "assigned to", "owner": "owner"}
    facts = [f"{title} {text}" for name, title in names.items() if (text := _text(issue.get(name)))]
    labels = issue.get("labels")
    if isinstance(labels, list) and labels:
        facts.append("labels " + ", ".join(str(label) for label in labels))
    if reference := _text(issue.get("external_ref")):
        facts.append(f"see {reference}")
    created = _time(issue.get("created_at"))
    yield _log_entry(f"Imported from beads: {'; '.join(facts) or 'no details'}.", created)
    if reason := _text(issue.get("close_reason")):
        yield _log_entry(f"Closed: {reason}", _time(issue.get("closed_at")) or created)


def _log_entry(message: str, at: str) -> TaskLogEntry:
    return TaskLogEntry(message=sanitize(message), who=LOG_AUTHOR, at=at)


def _time(value: object) -> str:
    try:
        return parse_timestamp(value)
    except InvalidEntryError:
        return ""


def _status_problems(line: int, issue: Fields) -> Iterator[ReadProblem]:
    word = issue.get("status")
    if word and word not in KNOWN_STATUSES:
        why = f"Unknown status {quote_excerpt(str(word))}; added as blocked."
        yield ReadProblem(line=line, why=why, was_read=True)
    for name in ("dependencies", "comments"):
        listed = issue.get(name)
        if listed is not None and not isinstance(listed, list):
            yield ReadProblem(line=line, why=f"Ignored {name}: not a list.", was_read=True)


# --- memories --------------------------------------------------------------------


def _read_memories(entries: list[Entry], at: str) -> tuple[tuple[Memory, ...], list[ReadProblem]]:
    memories: list[Memory] = []
    problems: list[ReadProblem] = []
    for line, fields in entries:
        try:
            memories.append(_memory(fields, at))
        except InvalidEntryError as error:
            problems.append(ReadProblem(line=line, why=f"Skipped the entry: {error}."))
    return tuple(memories), problems


def _memory(fields: Fields, at: str) -> Memory:
    if fields.get("_type") != "memory":
        raise InvalidEntryError(f"its type {quote_excerpt(str(fields.get('_type')))} is not supported")
    key, value = fields.get("key"), fields.get("value")
    if not isinstance(key, str) or not isinstance(value, str):
        raise InvalidEntryError("it has no key and value")
    return imported_memory(kind=MEMORY_KIND, content=value, at=at, id=parse_id(f"bd-{key}"))
