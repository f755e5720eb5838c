"""The tasks: as a graph of what comes before what, as a list, and one by one."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any
from unicodedata import east_asian_width

from ralph.project import Project
from ralph.records import Status, record, replace
from ralph.server.calls import Query
from ralph.server.graph import HEIGHT, WIDTH, Drawing, draw
from ralph.server.pages.linking import address
from ralph.server.pages.telling import run_command
from ralph.server.paging import Cursor, Number, cursor_to, place_in
from ralph.server.problems import InvalidValueError
from ralph.server.views import Pages, View

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ralph.records import Attempt, FailureReport, Task

MOST_DRAWN = 500
"""With more tasks than this, the oldest of the done ones are not drawn."""
MOST_LISTED = 300
MOST_CHOICES = 300
"""So many tasks are offered where one is to be chosen."""
MOST_RANKED = 50
TITLE_COLUMNS = 26
"""So much of a title fits into the box of a task."""
MARGIN = 24
MOST_ALONE = 12
"""Done tasks that are linked to nothing are drawn as long as they are few."""
_WITH_LOOK: dict[str, dict[str, Any]] = {
    "running": {"status": Status.IN_PROGRESS},
    "ready": {"ready": True},
    "failed": {"status": Status.FAILED},
    "blocked": {"status": Status.BLOCKED},
    "waiting": {"ready": False},
    "done": {"status": Status.DONE},
}
"""How tasks stand, in the order of the list, and how each is asked for."""
_LOOKS_OF = {"": tuple(_WITH_LOOK), "pending": ("ready", "waiting"), "in_progress": ("running",)}
STATUSES = (*Status, "ready", "waiting")
"""What can be asked for: of those that are pending, some could start and some wait."""

pages = Pages()


class TasksQuery(Query):
    """Which tasks to show."""

    status: str = ""
    feature: str = ""
    show: str = ""
    """`list` shows the list alone, `graph` the graph too, also on a phone."""
    cursor: Cursor = ""
    """Where to go on in the list of those with a status."""


class TaskQuery(Query):
    """What else to show of a task."""

    show: str = ""
    """`prompt` adds the prompt of the next attempt, `ranking` the memories that were considered for it."""


@record
class Box:
    """A task as it is drawn."""

    task: Task
    x: float
    y: float
    look: str
    """Where it stands, in the word that has a colour."""
    title: str
    """As much of it as there is room for."""
    matches: bool


@record
class Told:
    """An attempt, with the report it left if it failed."""

    attempt: Attempt
    report: FailureReport | None
    same: tuple[Told, ...] = ()
    """Those right before it that ended in just the same way."""


@pages.page("/tasks")
def show_tasks(project: Project, query: TasksQuery) -> View:
    """Show what is to be done, in which order, and where each task stands."""
    if query.status and query.status not in STATUSES:
        raise InvalidValueError(f"status: must be one of {', '.join(STATUSES)}.")
    feature = query.feature or None
    counts, ready_count = project.task_counts(feature)
    in_scope = sum(counts.values())
    listed, place = _listed(project, query, feature)
    cursor = cursor_to(place)
    drawn = _worth_drawing(project.task_graph(MOST_DRAWN, feature=feature).tasks)
    drawing = draw([t.id for t in drawn], {t.id: t.needs for t in drawn}, {t.id: t.parent_id for t in drawn})
    ready = project.store.tasks.ready_among(one.id for one in (*listed, *drawn) if one.status is Status.PENDING)
    looks = {task.id: look_of(task, ready) for task in (*listed, *drawn)}
    names = project.store.tasks.some(id for task in listed if looks[task.id] == "waiting" for id in task.needs)

    def narrowed(status: str, show: str) -> str:
        return address("/tasks", status=status, feature=query.feature, show=show)

    return View(
        template="tasks.html",
        values={
            "query": query,
            "narrowed": narrowed,
            "statuses": _counts(counts, ready_count),
            "in_scope": in_scope,
            "features": project.store.features.all(),
            "tasks": listed,
            "next": address("/tasks", status=query.status, feature=query.feature, show=query.show, cursor=cursor)
            if cursor
            else "",
            "found": _found(query.status, counts, ready_count),
            "total": in_scope if feature is None else sum(project.store.tasks.counts().values()),
            "looks": looks,
            "names": names,
            "finished": {task.id for task in names.values() if task.status is Status.DONE},
            "choices": project.task_page(MOST_CHOICES)[0],
            "drawing": drawing,
            "boxes": _boxes(
                drawing,
                {task.id: task for task in drawn},
                looks,
                {task.id for task in drawn if _is_wanted(task, query.status, ready)},
            ),
            "left_out": max(0, in_scope - len(drawn)),
            "view_box": f"{-MARGIN} {-MARGIN} {drawing.width + 2 * MARGIN:.0f} {drawing.height + 2 * MARGIN:.0f}",
            "box_width": WIDTH,
            "box_height": HEIGHT,
        },
    )


@pages.page("/tasks/{id}")
def show_task(project: Project, id: str, query: TaskQuery) -> View:
    """Show all about a task, what was tried, and what the next attempt would be told."""
    seen = project.task(id)
    reports = {(one.run_id, one.iteration): one for one in project.failures_of(id)}
    parent = project.store.tasks.get(seen.task.parent_id) if seen.task.parent_id else None
    around = [seen.task, *seen.needs, *seen.needed_by, *seen.parts, *([parent] if parent else [])]
    ready = project.store.tasks.ready_among(one.id for one in around if one.status is Status.PENDING)
    return View(
        template="task.html",
        values={
            "seen": seen,
            "task": seen.task,
            "parent": parent,
            "looks": {task.id: look_of(task, ready) for task in around},
            "waits_for": [task for task in seen.needs if task.status is not Status.DONE],
            "attempts": _folded(
                [Told(attempt=one, report=reports.get((one.run_id, one.iteration))) for one in seen.attempts]
            ),
            "picked": [(task.id, task.title) for task in seen.needs],
            "run_command": run_command(project),
            "log": project.read_log(id)[::-1],
            "features": project.store.features.all(),
            "choices": [task for task in project.task_page(MOST_CHOICES + 1)[0] if task.id != id][:MOST_CHOICES],
            "show": query.show,
            "prompt": project.prompt(id) if query.show == "prompt" else None,
            "ranking": project.memory.ranking(id, MOST_RANKED) if query.show == "ranking" else None,
        },
    )


def _folded(attempts: Sequence[Told]) -> list[Told]:
    """Put failures that are the same in every word, one right after the other, together."""
    return [
        replace(first, same=tuple(others))
        for first, *others in (list(group) for _, group in groupby(attempts, key=_ending))
    ]


def _ending(told: Told) -> object:
    """Give what tells the end of an attempt from that of another; what did not fail is like no other."""
    attempt, report = told.attempt, told.report
    if report is None:
        return attempt.run_id, attempt.iteration
    return attempt.outcome, attempt.reason, attempt.notes, report.category, report.why, report.tried, report.trace


# --- in words and colours -------------------------------------------------------------


def look_of(task: Task, ready: Collection[str]) -> str:
    """Give where a task stands in the word that has a colour: a pending one is ready, or it waits."""
    if task.status is Status.PENDING:
        return "ready" if task.id in ready else "waiting"
    return "running" if task.status is Status.IN_PROGRESS else task.status.value


def _is_wanted(task: Task, status: str, ready: Collection[str]) -> bool:
    return status in ("", task.status.value, look_of(task, ready))


def _listed(project: Project, query: TasksQuery, feature: str | None) -> tuple[list[Task], tuple[int, int] | None]:
    """Give the tasks to list: those with a status and where to go on, or the first of all, in the order of looks."""
    looks = _LOOKS_OF.get(query.status, (query.status,))
    if len(looks) == 1:
        after = place_in(query.cursor, tuple[Number, Number])
        return project.task_page(MOST_LISTED, after, feature=feature, **_WITH_LOOK[looks[0]])
    listed: list[Task] = []
    for look in looks:
        if len(listed) < MOST_LISTED:
            listed += project.task_page(MOST_LISTED - len(listed), feature=feature, **_WITH_LOOK[look])[0]
    return listed, None


def _counts(counts: dict[Status, int], ready: int) -> list[tuple[str, str, int]]:
    """Give the statuses to choose from, each with the word for its colour and how many tasks have it."""
    others = (Status.IN_PROGRESS, Status.DONE, Status.FAILED, Status.BLOCKED)
    return [
        ("ready", "ready", ready),
        ("waiting", "waiting", max(0, counts.get(Status.PENDING, 0) - ready)),
        *((one.value, "running" if one is Status.IN_PROGRESS else one.value, counts.get(one, 0)) for one in others),
    ]


def _found(status: str, counts: dict[Status, int], ready: int) -> int:
    """Give how many tasks have a status, or how many there are."""
    if status in ("ready", "waiting"):
        return ready if status == "ready" else max(0, counts.get(Status.PENDING, 0) - ready)
    return counts.get(Status(status), 0) if status else sum(counts.values())


def fitting(text: str, columns: int) -> str:
    """Give as much of a text as fits into so many columns; some letters are two of them wide."""
    used = 0
    for at, letter in enumerate(text):
        used += 2 if east_asian_width(letter) in "WF" else 1
        if used > columns:
            return text[: max(0, at - 1)].rstrip() + "…"
    return text


# --- the graph ------------------------------------------------------------------------


def _worth_drawing(tasks: Sequence[Task]) -> list[Task]:
    """Give the tasks of which a graph tells more than a list."""
    linked = {other for task in tasks for other in (*task.needs, task.parent_id)}
    alone = {
        task.id
        for task in tasks
        if task.status is Status.DONE and not task.needs and not task.parent_id and task.id not in linked
    }
    return [task for task in tasks if task.id not in alone] if len(alone) > MOST_ALONE else list(tasks)


def _boxes(drawing: Drawing, tasks: dict[str, Task], looks: dict[str, str], wanted: Collection[str]) -> list[Box]:
    return [
        Box(
            task=tasks[node.id],
            x=node.x,
            y=node.y,
            look=looks[node.id],
            title=fitting(tasks[node.id].title, TITLE_COLUMNS),
            matches=node.id in wanted,
        )
        for node in drawing.nodes
    ]
