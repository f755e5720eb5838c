"""Reader of task files in any supported format.

The format is detected from the content. The file name is used only in messages, because agents write JSON lines to
`.txt` files and checklists to anything.
"""

from __future__ import annotations

import re

from ralph.core.errors import UsageError
from ralph.core.markdown import TEXT
from ralph.core.records import now, replace
from ralph.formats.beads_jsonl import is_beads_jsonl, read_beads_jsonl
from ralph.formats.checklist_md import has_checkboxes, read_checklist_md
from ralph.formats.detection import FileSample, is_task
from ralph.formats.planned import PlannedProject, ReadProblem, quote_excerpt, unify_newlines
from ralph.formats.tasks_jsonl import read_tasks_jsonl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from ralph.formats.planned import Reading

_JSON_FIRST = re.compile(r"(?>(?:[ \t]*(?:(?:#|//)[^\n]*)?\n)*)[ \t]*(?:\{\s*[\"}]|\[\s*(?:\{|\]\s*\Z))")
"""A JSON object or array of objects, possibly after blank lines and comments."""
_BOX = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+\[.?\](?:[ \t]|$)")
_TASK_NAMES = re.compile(r"task|todo|plan|prd|checklist|backlog", re.IGNORECASE)
_JSON_SOMEWHERE = re.compile(r"^[ \t]*\{[ \t]*\"", re.MULTILINE)


def is_task_file(sample: FileSample) -> bool:
    """Return whether a file has JSON tasks, is mostly checkboxes, or has some and the name of a task file."""
    if sample.is_json:
        return is_task(sample.first_object)
    rows = [row for section in sample.sections for _, row, level in section.rows if level == TEXT and row.strip()]
    boxes = sum(bool(_BOX.match(row)) for row in rows)
    base_name = sample.name.replace("\\", "/").rsplit("/", 1)[-1]
    return boxes > 0 and (2 * boxes >= len(rows) or bool(_TASK_NAMES.search(base_name)))


def read_tasks(text: str, name: str) -> PlannedProject:
    """Return the tasks of a file and its problems; `name` is used in messages."""
    text = unify_newlines(text)
    if not text.strip():
        return PlannedProject()
    if not _JSON_FIRST.match(text):
        if has_checkboxes(text):
            return _planned(read_checklist_md(text))
        if not _JSON_SOMEWHERE.search(text):
            why = f"No tasks found in {name}: it has neither JSON lines nor a markdown checklist (`- [ ] title`)."
            return PlannedProject(problems=(ReadProblem(line=1, why=why),))
    if is_beads_jsonl(FileSample(text, name)):
        return _without_memories(read_beads_jsonl(text, now()), name)
    return _planned(read_tasks_jsonl(text))


def read_task_database(path: Path) -> PlannedProject:
    """Return the tasks of the database of another program; raise `UsageError` if it is none that can be read."""
    from ralph.formats.databases import detect_database, open_foreign

    with open_foreign(path) as database:
        format = detect_database(database)
        if format is None:
            raise UsageError(f"{path} is a SQLite database without the tasks of a supported program.")
        return _without_memories(format.read_project(database, now()), str(path))


def _planned(reading: Reading) -> PlannedProject:
    tasks, problems = reading
    return PlannedProject(tasks=tasks, problems=problems)


def _without_memories(project: PlannedProject, name: str) -> PlannedProject:
    """Return a project of another program whose memories and episodes are left out, and named."""
    left_out = tuple(
        ReadProblem(line=1, why=f"Left out the memory {quote_excerpt(memory.title)}. Use: ralph memory import {name}")
        for memory in project.memories
    )
    if project.passages:
        why = f"Left out {len(project.passages):,} passages of sessions. Use: ralph import {name}"
        left_out = (*left_out, ReadProblem(line=1, why=why))
    return replace(project, memories=(), passages=(), problems=(*project.problems, *left_out))
