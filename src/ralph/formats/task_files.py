"""Reader of task files in any supported format.

The format is detected from the content. The file name is used only in messages, because agents write JSON lines to
`.txt` files and checklists to anything.
"""

from __future__ import annotations

import re

from ralph.core.markdown import TEXT
from ralph.formats.checklist_md import has_checkboxes, read_checklist_md
from ralph.formats.detection import is_task
from ralph.formats.planned import ReadProblem, unify_newlines
from ralph.formats.tasks_jsonl import read_tasks_jsonl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.formats.detection import FileSample
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


def read_tasks(text: str, name: str) -> Reading:
    """Return the tasks of a file and its problems; `name` is used in messages."""
    text = unify_newlines(text)
    if not text.strip():
        return (), ()
    if not _JSON_FIRST.match(text):
        if has_checkboxes(text):
            return read_checklist_md(text)
        if not _JSON_SOMEWHERE.search(text):
            why = f"No tasks found in {name}: it has neither JSON lines nor a markdown checklist (`- [ ] title`)."
            return (), (ReadProblem(line=1, why=why),)
    return read_tasks_jsonl(text)
