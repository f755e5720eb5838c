"""Read a file of tasks, whatever its form.

The form is told by what the file says. Its name is only for the message, because
agents write JSON lines into `.txt` and checklists into anything.
"""

from __future__ import annotations

import re

from ralph.formats.planned import Unreadable, unify_newlines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.formats.planned import Reading

_JSON_FIRST = re.compile(r"(?>(?:[ \t]*(?:(?:#|//)[^\n]*)?\n)*)[ \t]*(?:\{\s*[\"}]|\[\s*(?:\{|\]\s*\Z))")
"""An object or an array of them, after nothing but blank lines and comments."""
_JSON_SOMEWHERE = re.compile(r"^[ \t]*\{[ \t]*\"", re.MULTILINE)


def read_tasks(text: str, name: str) -> Reading:
    """Give the tasks of a file, and what could not be read; `name` is what to call the file."""
    text = unify_newlines(text)
    if not text.strip():
        return (), ()
    if not _JSON_FIRST.match(text):
        from ralph.formats.checklist_md import has_boxes, read_checklist_md

        if has_boxes(text):
            return read_checklist_md(text)
        if not _JSON_SOMEWHERE.search(text):
            why = f"Neither JSON lines nor a markdown checklist (`- [ ] title`): no task was found in {name}."
            return (), (Unreadable(line=1, why=why),)
    from ralph.formats.tasks_jsonl import read_tasks_jsonl

    return read_tasks_jsonl(text)
