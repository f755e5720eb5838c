"""Read tasks from a markdown checklist: `- [ ] title`, nested by indentation.

A box only counts where a reader of the rendered page would see one: not in a code
block, not in a comment. Crossed-out work is left out with everything below it,
because nobody will be there to say that it was not meant.
"""

from __future__ import annotations

import re

from ralph.formats.planned import LONGEST_ENTRY, PlannedTask, Unreadable, quote, unify_newlines
from ralph.markdown import fence_in
from ralph.records import Status, replace
from ralph.text import accept

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ralph.formats.planned import Reading

NESTING_COLUMNS = 2
"""So much further right makes an item a child; a single column is a slip of the hand."""
TAB_COLUMNS = 4
OPEN_MARKS = ("", "~", "/")
"""`~` and `/` are work in progress: whoever did it is not with us."""
DONE_MARKS = ("x", "X")
CANCELLED_MARK = "-"

_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+\[(.?)\](?:[ \t]+(.*))?$")
_HEADING = re.compile(r"(#{1,6})[ \t]+(.*)$")
_ID_IN_COMMENT = re.compile(r"\s*id:\s*([\w.-]{1,100})\s*$")
_ID_IN_PARENTHESES = re.compile(r"\((t-[0-9a-f]{6})\)$")


def read_checklist_md(text: str) -> Reading:
    """Give the tasks of the checklist, and what was left out of it."""
    reader = _Reader()
    for line, row, is_code in _rows(text, reader.unreadable):
        if not is_code and (found := _ITEM.match(row)):
            reader.take_item(line, row, found[1].strip(), found[2] or "")
        else:
            reader.take_text(row, is_code)
    return _settled(reader.tasks()), tuple(sorted(reader.unreadable, key=lambda one: one.line))


def has_boxes(text: str) -> bool:
    """Say whether the text has anything of a checklist."""
    return any(not is_code and _ITEM.match(row) for _, row, is_code in _rows(text, []))


def _rows(text: str, unreadable: list[Unreadable]) -> Iterator[tuple[int, str, bool]]:
    """Give every line that is no comment: its number, its text, and whether it is inside a code block."""
    closing = ""
    opened = 0
    for line, row in enumerate(unify_newlines(text).split("\n"), start=1):
        bare = row.strip()
        if closing == "-->":
            closing = "" if "-->" in bare else closing
        elif closing:
            yield line, row, True
            # A fence is closed by one at least as long, with nothing after it.
            closing = "" if bare.startswith(closing) and not bare.strip(closing[0]) else closing
        elif bare.startswith("<!--"):
            closing, opened = ("" if "-->" in bare else "-->"), line
        else:
            yield line, row, False
            if fence := fence_in(row):
                closing, opened = fence[1], line
    if closing:
        what = "comment" if closing == "-->" else "code block"
        unreadable.append(
            Unreadable(line=opened, why=f"The {what} that starts here never ends; nothing in it is read.")
        )


def _settled(tasks: list[PlannedTask]) -> tuple[PlannedTask, ...]:
    """Give the tasks with every parent as far as its children are, whatever its own box says."""
    all_done: dict[str, bool] = {}
    settled = []
    for task in reversed(tasks):  # children stand below their parent
        if task.key in all_done:
            task = replace(task, status=Status.DONE if all_done[task.key] else Status.PENDING)
        if task.parent_key is not None:
            all_done[task.parent_key] = all_done.get(task.parent_key, True) and task.status is Status.DONE
        settled.append(task)
    return tuple(reversed(settled))


class _Item:
    """A box, and the text that stands under it."""

    __slots__ = ("indent", "is_cancelled", "key", "rows", "section", "task")

    def __init__(self, indent: int, parent: _Item | None, section: str) -> None:
        self.indent = indent
        self.key: str | None = parent.key if parent else None
        """Whose child an item below this one is; an item that is left out passes on its parent's."""
        self.is_cancelled: bool = parent is not None and parent.is_cancelled
        self.section = section if self.key is None else ""
        self.task: PlannedTask | None = None
        self.rows: list[str] = []

    def body(self) -> str:
        """Give the text under the item; without its section, “write tests” would not say for what."""
        section = f"Section: {self.section}\n\n" if self.section else ""
        return accept(section + _dedent(self.rows))


class _Reader:
    """The state of reading: which items the next line may belong to."""

    def __init__(self) -> None:
        self.unreadable: list[Unreadable] = []
        self._items: list[_Item] = []
        self._lines: dict[str, int] = {}
        self._open: list[_Item] = []
        self._section = ""
        self._after_blank = False

    def take_item(self, line: int, row: str, mark: str, written: str) -> None:
        indent = _indent(row)
        while self._open and indent < self._open[-1].indent + NESTING_COLUMNS:
            indent = min(indent, self._open.pop().indent)
        item = _Item(indent, self._open[-1] if self._open else None, self._section)
        self._after_blank = False
        self._open.append(item)
        self._items.append(item)
        id_given, title = _split_id(accept(written[:LONGEST_ENTRY]))
        key = id_given or f"#{len(self._items)}"
        is_struck = _is_struck(title)
        title = _without_emphasis(title)

        why = ""
        if item.is_cancelled:
            why = "The item belongs to a cancelled one"
        elif mark == CANCELLED_MARK or (is_struck and mark not in DONE_MARKS):
            item.is_cancelled = True
            why = "The item is cancelled"
        elif mark not in OPEN_MARKS and mark not in DONE_MARKS:
            why = f"The mark {quote(f'[{mark}]')} is unknown"
        elif not title:
            why = "A task needs a title"
        elif len(written) > LONGEST_ENTRY:
            why = f"A title may have {LONGEST_ENTRY:,} characters, this has more"
        elif key in self._lines:
            why = f"The id {quote(key)} was already used on line {self._lines[key]}"
        if why:
            self.unreadable.append(Unreadable(line=line, why=f"{why}; left out."))
            return

        status = Status.DONE if mark in DONE_MARKS else Status.PENDING
        item.task = PlannedTask(key=key, title=title, status=status, parent_key=item.key, line=line)
        item.key = key
        self._lines[key] = line

    def take_text(self, row: str, is_code: bool) -> None:
        if not is_code and not row.strip():
            self._after_blank = True
            return
        indent = _indent(row)
        while not is_code and self._open and indent <= self._open[-1].indent:
            self._open.pop()
        if self._open:
            self._open[-1].rows += ["", row] if self._after_blank else [row]
        elif not is_code and (heading := _HEADING.match(row)):
            # The one at the top names the document, not a part of it.
            self._section = "" if heading[1] == "#" else _without_emphasis(accept(heading[2]))
        self._after_blank = False

    def tasks(self) -> list[PlannedTask]:
        """Give the tasks so far, each with its body."""
        return [replace(item.task, body=item.body()) for item in self._items if item.task]


def _indent(row: str) -> int:
    return len(row[: len(row) - len(row.lstrip(" \t"))].expandtabs(TAB_COLUMNS))


def _dedent(rows: list[str]) -> str:
    """Give the rows moved left as far as the first one goes."""
    margin = next((_indent(row) for row in rows if row), 0)
    return "\n".join(" " * (_indent(row) - margin) + row.strip() for row in rows)


def _split_id(title: str) -> tuple[str | None, str]:
    """Give the id a title ends with, if any, and the title without it."""
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


def _without_emphasis(title: str) -> str:
    """Give the title without the marks around it or, when bold, around its first words."""
    for mark in ("~~", "**", "__", "*", "_"):
        if not title.startswith(mark):
            continue
        words, closing, rest = title[len(mark) :].partition(mark)
        is_one_span = closing and words and words == words.strip()
        if is_one_span and (not rest or (mark == "**" and mark not in rest)):
            title = words + rest
    return " ".join(title.split())
