"""Pages of tasks: the dependency graph, the list, and the details of one."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any
from unicodedata import east_asian_width

from ralph.core.paging import Page, ResultList
from ralph.core.records import Attempt, FailureReport, Task, TaskStatus, record, replace, status_word
from ralph.project import Project
from ralph.web.endpoints import QueryParams
from ralph.web.graph import NODE_HEIGHT, NODE_WIDTH, GraphLayout, layout_graph
from ralph.web.pages.page import PageView, page_url, run_command
from ralph.web.paging import Cursor, Number, decode_cursor, encode_cursor
from ralph.web.problems import InvalidValueError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

MAX_GRAPH_TASKS = 500
"""Maximum number of tasks in the graph; the oldest done ones are left out first."""
TASKS_PER_PAGE = 300
"""Number of tasks on a page of the list."""
MAX_TASK_MENU_CHOICES = 300
"""Maximum number of tasks offered in a menu."""
MAX_RANKED_MEMORIES = 50
"""Maximum number of memories in a ranking."""
TITLE_COLUMNS = 26
"""Width of a title in the graph, in columns."""
GRAPH_MARGIN = 24
"""Margin of the graph, in SVG units."""
MAX_UNLINKED_DONE_TASKS = 12
"""Maximum number of done tasks without links in the graph; with more, none of them are drawn."""
_FILTERS_BY_LOOK: dict[str, dict[str, Any]] = {
    "running": {"status": TaskStatus.IN_PROGRESS},
    "ready": {"ready": True},
    "failed": {"status": TaskStatus.FAILED},
    "blocked": {"status": TaskStatus.BLOCKED},
    "waiting": {"ready": False},
    "done": {"status": TaskStatus.DONE},
}
"""Filters of each display status, in the order of the list."""
_LOOKS_BY_STATUS = {"": tuple(_FILTERS_BY_LOOK), "pending": ("ready", "waiting"), "in_progress": ("running",)}
STATUS_FILTERS = (*TaskStatus, "ready", "waiting")
"""Values of the status filter; ready and waiting tasks are both pending."""


class TasksPageQuery(QueryParams):
    """Filters for tasks."""

    status: str = ""
    feature: str = ""
    show: str = ""
    """`list` hides the graph, `graph` shows it even on small screens."""
    cursor: Cursor = ""
    """Cursor of the list of tasks with one status."""


class TaskPageQuery(QueryParams):
    """Options for the page of a task."""

    show: str = ""
    """`prompt` adds the prompt of the next attempt, `ranking` the memories considered for it."""


@record
class TaskBox:
    """Task in the graph."""

    task: Task
    x: float
    y: float
    display_status: str
    """Display status, which determines the color."""
    title: str
    """Title, truncated to fit."""
    matches: bool


@record
class AttemptRow:
    """Attempt with its failure report, if any."""

    attempt: Attempt
    report: FailureReport | None
    identical: tuple[AttemptRow, ...] = ()
    """Directly preceding attempts that failed identically."""


def show_tasks(project: Project, query: TasksPageQuery) -> PageView:
    """Show the tasks with their status and dependencies."""
    if query.status and query.status not in STATUS_FILTERS:
        raise InvalidValueError(f"status: must be one of {', '.join(STATUS_FILTERS)}.")
    feature = query.feature or None
    counts = project.tasks.counts(feature)
    ready_count = project.tasks.count_ready(feature)
    in_scope = sum(counts.values())
    listed = _page(project, query, feature)
    cursor = encode_cursor(listed.next)
    drawn = _worth_drawing(project.tasks.graph(MAX_GRAPH_TASKS, feature=feature).tasks)
    drawing = layout_graph([t.id for t in drawn], {t.id: t.needs for t in drawn}, {t.id: t.parent_id for t in drawn})
    ready = project.store.tasks.progress.filter_ready(
        one.id for one in (*listed, *drawn) if one.status is TaskStatus.PENDING
    )
    looks = {task.id: display_status(task, ready) for task in (*listed, *drawn)}
    names = project.store.tasks.get_many(id for task in listed if looks[task.id] == "waiting" for id in task.needs)

    def narrowed(status: str, show: str) -> str:
        return page_url("/tasks", status=status, feature=query.feature, show=show)

    return PageView(
        template="tasks.html",
        values={
            "query": query,
            "narrowed": narrowed,
            "statuses": _counts(counts, ready_count),
            "in_scope": in_scope,
            "features": project.store.features.all(),
            "tasks": listed,
            "next": page_url("/tasks", status=query.status, feature=query.feature, show=query.show, cursor=cursor)
            if cursor
            else "",
            "found": _status_total(query.status, counts, ready_count),
            "total": in_scope if feature is None else sum(project.store.tasks.progress.counts().values()),
            "looks": looks,
            "names": names,
            "finished": {task.id for task in names.values() if task.status is TaskStatus.DONE},
            "choices": project.tasks.list(Page(limit=MAX_TASK_MENU_CHOICES)),
            "drawing": drawing,
            "boxes": _boxes(
                drawing,
                {task.id: task for task in drawn},
                looks,
                {task.id for task in drawn if _matches(task, query.status, ready)},
            ),
            "left_out": max(0, in_scope - len(drawn)),
            "view_box": _view_box(drawing),
            "box_width": NODE_WIDTH,
            "box_height": NODE_HEIGHT,
        },
    )


def show_task(project: Project, id: str, query: TaskPageQuery) -> PageView:
    """Show a task with its attempts and the prompt of the next one."""
    view = project.tasks.get(id)
    reports = {(one.run_id, one.iteration): one for one in project.journal.failures_of(id)}
    parent = project.store.tasks.get(view.task.parent_id) if view.task.parent_id else None
    related = [view.task, *view.needs, *view.needed_by, *view.parts, *([parent] if parent else [])]
    ready = project.store.tasks.progress.filter_ready(one.id for one in related if one.status is TaskStatus.PENDING)
    looks = {task.id: display_status(task, ready) for task in related}
    return PageView(
        template="task.html",
        values={
            "seen": view,
            "estimate": project.stats.estimate(view.task.title, view.task.body, view.metrics.difficulty or ""),
            "task": view.task,
            "parent": parent,
            "looks": looks,
            "waits_for": [task for task in view.needs if task.status is not TaskStatus.DONE],
            "attempts": _group_identical(
                [AttemptRow(attempt=one, report=reports.get((one.run_id, one.iteration))) for one in view.attempts]
            ),
            "picked": [(task.id, task.title) for task in view.needs],
            "run_command": run_command(project, f" --task {id}" if looks[id] == "ready" else ""),
            "log": project.tasks.read_log(id)[::-1],
            "features": project.store.features.all(),
            "choices": [task for task in project.tasks.list(Page(limit=MAX_TASK_MENU_CHOICES + 1)) if task.id != id][
                :MAX_TASK_MENU_CHOICES
            ],
            "show": query.show,
            "prompt": project.prompts.preview(id) if query.show == "prompt" else None,
            "ranking": project.prompts.ranking(id, MAX_RANKED_MEMORIES) if query.show == "ranking" else None,
        },
    )


def _group_identical(attempts: Sequence[AttemptRow]) -> list[AttemptRow]:
    """Group consecutive attempts that failed identically."""
    return [
        replace(first, identical=tuple(others))
        for first, *others in (list(group) for _, group in groupby(attempts, key=_group_key))
    ]


def _group_key(entry: AttemptRow) -> object:
    """Return the key of identical failures; attempts that did not fail have unique keys."""
    attempt, report = entry.attempt, entry.report
    if report is None:
        return attempt.run_id, attempt.iteration
    return attempt.outcome, attempt.reason, attempt.notes, report.category, report.why, report.tried, report.trace


# --- display status -------------------------------------------------------------------


def display_status(task: Task, ready: Collection[str]) -> str:
    """Return the display status of a task; a pending one is ready or waiting."""
    return status_word(task.status, is_ready=task.id in ready)


def _matches(task: Task, status: str, ready: Collection[str]) -> bool:
    return status in ("", task.status.value, display_status(task, ready))


def _page(project: Project, query: TasksPageQuery, feature: str | None) -> ResultList[Task]:
    """Return a page of tasks with one status, or the first tasks of several statuses."""
    looks = _LOOKS_BY_STATUS.get(query.status, (query.status,))
    if len(looks) == 1:
        after = decode_cursor(query.cursor, tuple[Number, Number])
        return project.tasks.list(
            Page(limit=TASKS_PER_PAGE, after=after), feature=feature, **_FILTERS_BY_LOOK[looks[0]]
        )
    listed: ResultList[Task] = ResultList()
    for look in looks:
        if len(listed) < TASKS_PER_PAGE:
            page = Page(limit=TASKS_PER_PAGE - len(listed))
            listed += project.tasks.list(page, feature=feature, **_FILTERS_BY_LOOK[look])
    return listed


def _counts(counts: dict[TaskStatus, int], ready: int) -> list[tuple[str, str, int]]:
    """Return the statuses to filter by, each with its display status and number of tasks."""
    others = (TaskStatus.IN_PROGRESS, TaskStatus.DONE, TaskStatus.FAILED, TaskStatus.BLOCKED)
    return [
        ("ready", "ready", ready),
        ("waiting", "waiting", max(0, counts.get(TaskStatus.PENDING, 0) - ready)),
        *((one.value, "running" if one is TaskStatus.IN_PROGRESS else one.value, counts.get(one, 0)) for one in others),
    ]


def _status_total(status: str, counts: dict[TaskStatus, int], ready: int) -> int:
    """Return the number of tasks with a status, or of all tasks."""
    if status in ("ready", "waiting"):
        return ready if status == "ready" else max(0, counts.get(TaskStatus.PENDING, 0) - ready)
    return counts.get(TaskStatus(status), 0) if status else sum(counts.values())


def truncate_to_columns(text: str, columns: int) -> str:
    """Truncate a text to a number of columns; wide characters take two."""
    used = 0
    for at, character in enumerate(text):
        used += 2 if east_asian_width(character) in "WF" else 1
        if used > columns:
            return text[: max(0, at - 1)].rstrip() + "…"
    return text


# --- graph ----------------------------------------------------------------------------


def _worth_drawing(tasks: Sequence[Task]) -> list[Task]:
    """Return the tasks to draw, without done tasks that have no links if there are many."""
    linked = {other for task in tasks for other in (*task.needs, task.parent_id)}
    alone = {
        task.id
        for task in tasks
        if task.status is TaskStatus.DONE and not task.needs and not task.parent_id and task.id not in linked
    }
    return [task for task in tasks if task.id not in alone] if len(alone) > MAX_UNLINKED_DONE_TASKS else list(tasks)


def _view_box(drawing: GraphLayout) -> str:
    width, height = drawing.width + 2 * GRAPH_MARGIN, drawing.height + 2 * GRAPH_MARGIN
    return f"{-GRAPH_MARGIN} {-GRAPH_MARGIN} {width:.0f} {height:.0f}"


def _boxes(
    drawing: GraphLayout, tasks: dict[str, Task], looks: dict[str, str], matching: Collection[str]
) -> list[TaskBox]:
    return [
        TaskBox(
            task=tasks[node.id],
            x=node.x,
            y=node.y,
            display_status=looks[node.id],
            title=truncate_to_columns(tasks[node.id].title, TITLE_COLUMNS),
            matches=node.id in matching,
        )
        for node in drawing.nodes
    ]
