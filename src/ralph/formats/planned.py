"""Records returned by the readers of task files: planned tasks and problems.

Readers never raise because of the content of a file: a file with a hundred tasks, one of them invalid, yields
ninety-nine tasks and one problem.
"""

from __future__ import annotations

from ralph.core.records import Task, TaskStatus, record
from ralph.core.text import one_line, sanitize

MAX_TASK_CHARS = 1024 * 1024
"""Maximum length of a task in a file, in characters."""


@record
class PlannedTask:
    """A task from a file, before it is added to the project."""

    key: str
    """Id in the file, or `#n` for the n-th task if it has none."""
    title: str
    body: str = ""
    status: TaskStatus = TaskStatus.PENDING
    priority: int = 0
    """Tasks with a higher priority run first."""
    parent_key: str | None = None
    dependency_keys: tuple[str, ...] = ()
    """Keys of dependencies. Like the parent, they may be tasks that are not in the file."""
    feature: str | None = None
    """Name or id of a feature."""
    allow: tuple[str, ...] = ()
    """Globs of protected files that the task may change."""
    line: int


@record
class ReadProblem:
    """A problem with one entry of a file, which was skipped or only partly read."""

    line: int
    why: str
    was_read: bool = False
    """Whether the entry was imported despite the problem."""
    needs_force: bool = False
    """Whether the whole file was refused because of it, and is imported only with `force`."""


@record
class TaskImport:
    """Result of importing a task file."""

    added: tuple[Task, ...]
    known: int
    """Number of tasks that already existed."""
    unreadable: tuple[ReadProblem, ...]


Reading = tuple[tuple[PlannedTask, ...], tuple[ReadProblem, ...]]


def unify_newlines(text: str) -> str:
    """Return the text with `\\n` as the only line separator and without a byte order mark."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def quote_excerpt(text: str) -> str:
    """Return a short, quoted excerpt of untrusted text for use in a message."""
    return repr(one_line(sanitize(text[:400]), 60))
