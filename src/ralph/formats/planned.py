"""Records returned by the readers of task files and of other programs' projects: planned tasks and problems.

Readers never raise because of the content of a file: a file with a hundred tasks, one of them invalid, yields
ninety-nine tasks and one problem.
"""

from __future__ import annotations

from ralph.core.records import Memory, Task, TaskLogEntry, TaskStatus, Turn, record
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
    reason: str = ""
    """Why the task is blocked or failed."""
    priority: int = 0
    """Tasks with a higher priority run first."""
    parent_key: str | None = None
    dependency_keys: tuple[str, ...] = ()
    """Keys of dependencies. Like the parent, they may be tasks that are not in the file."""
    feature: str | None = None
    """Name or id of a feature."""
    allow: tuple[str, ...] = ()
    """Globs of protected files that the task may change."""
    log: tuple[TaskLogEntry, ...] = ()
    """What another program recorded about the task, oldest first."""
    line: int


@record
class PlannedFeature:
    """A feature from a file, before it is added to the project."""

    name: str
    spec: str = ""
    plan: str = ""


@record
class PlannedPassage:
    """Something that was said in a session, as another program recorded it, before it is added to the project."""

    project: str
    """Name of the project, which the other program takes from its directory."""
    session: str
    agent: str
    turn: Turn


@record
class ReadProblem:
    """A problem with one entry of a file, which was skipped or only partly read."""

    line: int
    why: str
    was_read: bool = False
    """Whether the entry was imported despite the problem, or is only a remark that nobody would miss."""
    needs_force: bool = False
    """Whether the whole file was refused because of it, and is imported only with `force`."""


@record
class PlannedProject:
    """What the project of another program has: tasks, features, memories and passages of sessions."""

    tasks: tuple[PlannedTask, ...] = ()
    features: tuple[PlannedFeature, ...] = ()
    """Features that have a spec or a plan, or no tasks; others are made when a task names them."""
    memories: tuple[Memory, ...] = ()
    passages: tuple[PlannedPassage, ...] = ()
    """Passages of sessions in any project, in order."""
    problems: tuple[ReadProblem, ...] = ()
    note: str = ""
    """What was not meant to be imported, such as deleted entries."""
    is_foreign: bool = False
    """Whether another program recorded it, so that its text is not that of the person who imports it."""


@record
class TaskImport:
    """Result of importing a task file."""

    added: tuple[Task, ...]
    known: int
    """Number of tasks that already existed."""
    features: int = 0
    """Number of features added."""
    unreadable: tuple[ReadProblem, ...]


@record
class PassageImport:
    """Result of importing passages that another program recorded."""

    added: int = 0
    known: int = 0
    """Number of episodes that already existed."""
    note: str = ""
    """How many were left out, and why."""


Reading = tuple[tuple[PlannedTask, ...], tuple[ReadProblem, ...]]


def unify_newlines(text: str) -> str:
    """Return the text with `\\n` as the only line separator and without a byte order mark."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def quote_excerpt(text: str) -> str:
    """Return a short, quoted excerpt of untrusted text for use in a message."""
    return repr(one_line(sanitize(text[:400]), 60))
