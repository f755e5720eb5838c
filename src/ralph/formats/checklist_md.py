"""Reader of markdown checklists: `- [ ] title`, nested by indentation.

Checkboxes in code blocks and comments are ignored, as in the rendered page. A canceled item is skipped with everything
below it, because nobody watches an unattended run to stop work that was not meant to be done.
"""

from __future__ import annotations

import re
from itertools import takewhile

from ralph.core.markdown import CODE, NESTING_COLUMNS, TEXT, UNCLOSED, indentation, visible_rows
from ralph.core.records import TaskStatus, replace
from ralph.core.text import sanitize
from ralph.formats.planned import MAX_TASK_CHARS, PlannedTask, ReadProblem, quote_excerpt, unify_newlines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralph.formats.planned import Reading

OPEN_MARKS = ("", "~", "/")
"""Marks of tasks that can be claimed; `~` and `/` mean work in progress elsewhere."""
DONE_MARKS = ("x", "X")
CANCELED_MARK = "-"

_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+\[(.?)\](?:[ \t]+(.*))?$")
_HEADING = re.compile(r"(#{1,6})[ \t]+(.*)$")
_ID_IN_COMMENT = re.compile(r"\s*id:\s*([\w.-]{1,100})\s*$")
_ID_IN_PARENTHESES = re.compile(r"\((t-[0-9a-f]{6})\)$")


def read_checklist_md(text: str) -> Reading:
    """Return the tasks and the problems of a checklist."""
    parser = _ChecklistParser()
    for line, row, kind in visible_rows(unify_newlines(text).split("\n")):
        if kind == UNCLOSED:
            # Whatever follows may be an example or commented out, and nobody watches an unattended run.
            what = "comment" if row.lstrip().startswith("<!--") else "code block"
            why = f"Skipped the {what} that starts here: it never ends."
            parser.unreadable.append(ReadProblem(line=line, why=why))
            break
        if kind == TEXT and (found := _ITEM.match(row)):
            parser.add_item(line, row, found[1].strip(), found[2] or "")
        else:
            parser.add_text(row, kind == CODE)
    return _derive_parent_status(parser.tasks()), tuple(sorted(parser.unreadable, key=lambda problem: problem.line))


def has_checkboxes(text: str) -> bool:
    """Return whether the text has a checkbox."""
    rows = takewhile(lambda row: row[2] != UNCLOSED, visible_rows(unify_newlines(text).split("\n")))
    return any(kind == TEXT and _ITEM.match(row) for _, row, kind in rows)


def _derive_parent_status(tasks: list[PlannedTask]) -> tuple[PlannedTask, ...]:
    """Return the tasks with the status of every parent derived from its children."""
    all_done: dict[str, bool] = {}
    tasks_reversed = []
    for task in reversed(tasks):  # children come after their parent
        if task.key in all_done:
            task = replace(task, status=TaskStatus.DONE if all_done[task.key] else TaskStatus.PENDING)
        if task.parent_key is not None:
            all_done[task.parent_key] = all_done.get(task.parent_key, True) and task.status is TaskStatus.DONE
        tasks_reversed.append(task)
    return tuple(reversed(tasks_reversed))


class _Item:
    """A checklist item and the text below it."""

    __slots__ = ("indent", "is_canceled", "key", "rows", "section", "task")

    def __init__(self, indent: int, parent: _Item | None, section: str) -> None:
        self.indent = indent
        self.key: str | None = parent.key if parent else None
        """Key of the parent for items nested in this one; a skipped item keeps the key of its own parent."""
        self.is_canceled: bool = parent is not None and parent.is_canceled
        self.section = section if self.key is None else ""
        self.task: PlannedTask | None = None
        self.rows: list[str] = []

    def body(self) -> str:
        """Return the text below the item, after its section, which an item like “write tests” needs as context."""
        section = f"Section: {self.section}\n\n" if self.section else ""
        return sanitize(section + _dedent(self.rows))


class _ChecklistParser:
    """Parser state: the open items that the next line may belong to."""

    def __init__(self) -> None:
        self.unreadable: list[ReadProblem] = []
        self._items: list[_Item] = []
        self._lines: dict[str, int] = {}
        self._open: list[_Item] = []
        self._section = ""
        self._after_blank = False

    def add_item(self, line: int, row: str, mark: str, text: str) -> None:
        indent = indentation(row)
        while self._open and indent < self._open[-1].indent + NESTING_COLUMNS:
            indent = min(indent, self._open.pop().indent)
        item = _Item(indent, self._open[-1] if self._open else None, self._section)
        self._after_blank = False
        self._open.append(item)
        self._items.append(item)
        id, title = _split_id(sanitize(text[:MAX_TASK_CHARS]))
        key = id or f"#{len(self._items)}"
        is_struck = _is_struck(title)
        title = _strip_emphasis(title)

        reason = ""
        if item.is_canceled:
            reason = "the item is part of a canceled one"
        elif mark == CANCELED_MARK or (is_struck and mark not in DONE_MARKS):
            item.is_canceled = True
            reason = "the item is canceled"
        elif mark not in OPEN_MARKS and mark not in DONE_MARKS:
            reason = f"unknown mark {quote_excerpt(f'[{mark}]')}"
        elif not title:
            reason = "the task has no title"
        elif len(text) > MAX_TASK_CHARS:
            reason = f"the title is longer than {MAX_TASK_CHARS:,} characters"
        elif key in self._lines:
            reason = f"the id {quote_excerpt(key)} is already used on line {self._lines[key]}"
        if reason:
            self.unreadable.append(ReadProblem(line=line, why=f"Skipped: {reason}."))
            return

        status = TaskStatus.DONE if mark in DONE_MARKS else TaskStatus.PENDING
        item.task = PlannedTask(key=key, title=title, status=status, parent_key=item.key, line=line)
        item.key = key
        self._lines[key] = line

    def add_text(self, row: str, is_code: bool) -> None:
        if not is_code and not row.strip():
            self._after_blank = True
            return
        indent = indentation(row)
        while not is_code and self._open and indent <= self._open[-1].indent:
            self._open.pop()
        if self._open:
            self._open[-1].rows += ["", row] if self._after_blank else [row]
        elif not is_code and (heading := _HEADING.match(row)):
            # A first-level heading is the title of the document, not a section.
            self._section = "" if heading[1] == "#" else _strip_emphasis(sanitize(heading[2]))
        self._after_blank = False

    def tasks(self) -> list[PlannedTask]:
        return [replace(item.task, body=item.body()) for item in self._items if item.task]


def _dedent(rows: list[str]) -> str:
    margin = next((indentation(row) for row in rows if row), 0)
    return "\n".join(" " * (indentation(row) - margin) + row.strip() for row in rows)


def _split_id(title: str) -> tuple[str | None, str]:
    """Split a trailing id off a title; return None as id if there is none."""
    if title.endswith("-->") and "<!--" in title:
        title, _, comment = title[: -len("-->")].rpartition("<!--")
        title = title.rstrip()
        if found := _ID_IN_COMMENT.match(comment):
            return found[1], title
    if found := _ID_IN_PARENTHESES.search(title):
        return found[1], title[: found.start()].rstrip()
    return None, title


def _is_struck(title: str) -> bool:
    return len(title) > 4 and title.startswith("~~") and title.find("~~", 2) == len(title) - 2


def _strip_emphasis(title: str) -> str:
    """Remove emphasis around the whole title, or bold around its first words."""
    for mark in ("~~", "**", "__", "*", "_"):
        if not title.startswith(mark):
            continue
        words, closing, rest = title[len(mark) :].partition(mark)
        is_one_span = closing and words and words == words.strip()
        if is_one_span and (not rest or (mark == "**" and mark not in rest)):
            title = words + rest
    return " ".join(title.split())
