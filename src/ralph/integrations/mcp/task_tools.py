"""Tools for tasks, and their text as resources."""

from __future__ import annotations

from ralph.core.paging import Page, ResultList
from ralph.core.records import TaskStatus
from ralph.core.text import truncate
from ralph.integrations.mcp.tool import MAX_TEXT_CHARS, count, fact_lines
from ralph.loop.authored_text import authored_line, authored_text
from ralph.loop.failure_text import report_text
from ralph.memory.recall.render import escape_inline, escape_untrusted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ralph.core.records import Task
    from ralph.integrations.mcp.tool import Arguments, ToolResult
    from ralph.loop.tasks import TaskView
    from ralph.project import Project

MAX_SHOWN_REPORTS = 3
"""Number of failure reports shown with a task."""
MAX_SHOWN_ATTEMPTS = 5
"""Number of attempts shown with a task."""
DEFAULT_TASK_LIMIT = 20
"""Default number of tasks in a list."""
OPEN = "open"
READY = "ready"
ALL = "all"


def list_tasks(project: Project, arguments: Arguments) -> ToolResult:
    """List tasks."""
    which = arguments.get("status", OPEN)
    status = None if which in (OPEN, READY, ALL) else TaskStatus(which)
    tasks = project.tasks.list(status=status, feature=arguments.get("feature"), ready=which == READY or None)
    if which == OPEN:
        tasks = ResultList(task for task in tasks if task.status is not TaskStatus.DONE)
    shown = tasks[: arguments.get("limit", DEFAULT_TASK_LIMIT)]
    fields = {"tasks": [_task_fields(task) for task in shown], "total": len(tasks)}
    if not tasks:
        return f"No task is {which}." if which != ALL else "There are no tasks.", fields
    more = f" The first {len(shown)}:" if len(shown) < len(tasks) else ""
    head = f"{count(len(tasks), 'task', 'tasks')}, ordered by priority.{more}"
    return "\n".join([head, *map(_task_line, shown)]), fields


def _task_fields(task: Task) -> dict[str, Any]:
    fields = {
        "id": task.id,
        "status": task.status.value,
        "title": escape_untrusted(task.title),
        "priority": task.priority,
        "needs": list(task.needs),
        "part_of": task.parent_id,
        "reason": escape_untrusted(task.reason),
    }
    return {name: value for name, value in fields.items() if value}


def _task_line(task: Task) -> str:
    more = [f"priority {task.priority}"] if task.priority else []
    more += [f"needs {' '.join(task.needs)}"] if task.needs else []
    more += [f"part of {task.parent_id}"] if task.parent_id else []
    return f"- {task.id} [{task.status}] {escape_untrusted(task.title)}" + (f" ({', '.join(more)})" if more else "")


def show_task(project: Project, arguments: Arguments) -> ToolResult:
    """Show a task."""
    return task_text(project, arguments["id"]), None


def task_text(project: Project, id: str) -> str:
    """Return a task with its details and previous failures as text."""
    view = project.tasks.get(id)
    task = view.task
    facts = {
        "Priority": task.priority,
        "Feature": escape_untrusted(view.feature.name) if view.feature else "",
        "Part of": task.parent_id,
        "Parts": _task_names(view.parts),
        "Needs": _task_names(view.needs),
        "Needed by": _task_names(view.needed_by),
        "Reason": escape_untrusted(task.reason),
        "Worker": task.claimed_by,
        "Attempts": _attempts(view),
    }
    lines = [f"{task.id} [{task.status}] {authored_line(task.title, task.written_by)}", *fact_lines(facts)]
    if task.body:
        lines += ["", authored_text("description", truncate(task.body, MAX_TEXT_CHARS), task.written_by)]
    for question in view.questions:
        lines += ["", f"Question: {escape_inline(question.text)}"]
        if question.answered_at:
            lines += [f"Answer of the {question.answered_by}: {escape_inline(question.answer)}"]
    if reports := project.journal.failures(Page(limit=MAX_SHOWN_REPORTS), task=id):
        lines += ["", "Previous failures, latest first:", "", *map(report_text, reports)]
    return "\n".join(lines).rstrip()


def _task_names(tasks: Sequence[Task]) -> str:
    return ", ".join(f"{task.id} {escape_untrusted(task.title)} ({task.status})" for task in tasks)


def _attempts(view: TaskView) -> str:
    latest = "; ".join(
        f"{attempt.number} {attempt.outcome or 'running'}" for attempt in view.attempts[:MAX_SHOWN_ATTEMPTS]
    )
    return f"{view.metrics.total_attempts}, latest first: {latest}" if latest else ""


def add_task(project: Project, arguments: Arguments) -> ToolResult:
    """Add a task."""
    task = project.tasks.add(
        arguments["title"],
        arguments.get("body", ""),
        priority=arguments.get("priority", 0),
        parent=arguments.get("parent"),
        feature=arguments.get("feature"),
        needs=arguments.get("needs", ()),
    )
    return f"Task added: {task.id} {escape_untrusted(task.title)}", _task_fields(task)


def answer_task(project: Project, arguments: Arguments) -> ToolResult:
    """Pass on the answer to the question of a task."""
    task = project.questions.answer(arguments["id"], arguments["answer"])
    return f"Answered: {task.id} {escape_untrusted(task.title)}", _task_fields(task)


def claim_task(project: Project, arguments: Arguments) -> ToolResult:
    """Claim a task."""
    work = project.outside_work.claim(arguments.get("id"))
    if work is None:
        return "No task is ready. See list_tasks.", None
    head = f"{work.task.id} is yours. Work on it in this directory, then call finish_task, or report_failure."
    return "\n\n".join(filter(None, [head, task_text(project, work.task.id), work.memories])).rstrip(), None


def finish_task(project: Project, arguments: Arguments) -> ToolResult:
    """Finish a task through the gates."""
    work = project.outside_work.finish(arguments["id"], arguments.get("notes", ""))
    task, attempt = work.task, work.attempt
    notes = [f"Warning: {escape_untrusted(one)}" for one in work.notes]
    if work.is_done:
        gates = f", {count(attempt.checks_passed, 'gate', 'gates')} passed" if attempt and attempt.checks_passed else ""
        head = f"Task done: {task.id} {escape_untrusted(task.title)}{gates}"
        return "\n".join([head, *notes]), {**_task_fields(task), **({"warnings": notes} if notes else {})}
    head = f"NOT DONE: {task.id} {escape_untrusted(task.title)}"
    if task.status is TaskStatus.IN_PROGRESS:
        head += "\nThe task is still yours: fix this, and call finish_task again."
    else:
        reason = f": {escape_untrusted(task.reason)}" if task.reason else ""
        head += f"\nIt is now {task.status}{reason}. Only a person can let it go on."
    return "\n".join([head, *notes, *(["", report_text(work.report)] if work.report else [])]).rstrip(), None
