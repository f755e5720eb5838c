"""What the readers of task files give: tasks somebody planned elsewhere, and what could not be read.

Readers are pure and never raise on what a file says: a file of a hundred tasks with
one bad line is ninety-nine tasks and one sentence about the line.
"""

from __future__ import annotations

from ralph.records import Status, record
from ralph.text import accept, one_line

LONGEST_ENTRY = 1024 * 1024
"""Characters. What is longer is no task but a file in the wrong place."""


@record
class PlannedTask:
    """A task as a file describes it, before it has an id here."""

    key: str
    """Its id in the file, or `#n` for the n-th task of the file when it has none."""
    title: str
    body: str = ""
    status: Status = Status.PENDING
    priority: int = 0
    """Higher goes first."""
    parent_key: str | None = None
    needs_keys: tuple[str, ...] = ()
    """Like the parent, these may name tasks that are not in the file."""
    feature: str | None = None
    """A name or an id, as given."""
    line: int


@record
class Unreadable:
    """Something in a file that was left out, or read other than it is written, and why."""

    line: int
    why: str
    was_read: bool = False
    """The entry was taken in all the same, other than it is written."""


Reading = tuple[tuple[PlannedTask, ...], tuple[Unreadable, ...]]


def unify_newlines(text: str) -> str:
    """Give the text with `\\n` at every line's end and no byte order mark, so that lines can be counted."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def quote(text: str) -> str:
    """Give a few words of a file for use in a message."""
    return repr(one_line(accept(text[:400]), 60))
