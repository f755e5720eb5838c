"""What `ralph task` prints of the questions that wait for a person."""

from __future__ import annotations

from ralph.cli.output import format_time, printable, unblock_step, wrap_line
from ralph.core.records import ASKS, TaskStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.core.records import Question, Task
    from ralph.loop.tasks import TaskView

MAX_WAITING_SHOWN = 5
"""Maximum number of blocked tasks listed with their reason."""


def print_waiting(tasks: Sequence[Task]) -> None:
    """Print why the blocked ones of some tasks wait for a person, questions first, and the command to go on."""
    blocked = [task for task in tasks if task.status is TaskStatus.BLOCKED and task.reason]
    blocked.sort(key=lambda task: not task.reason.startswith(f"{ASKS}: "))
    if not blocked:
        return
    print()
    for task in blocked[:MAX_WAITING_SHOWN]:
        print(wrap_line(f"{task.id} {printable(task.reason)}", "", "  "))
        print(f"  {_next_step(task)}")
    if len(blocked) > MAX_WAITING_SHOWN:
        print(f"… and {len(blocked) - MAX_WAITING_SHOWN} more that wait for a person.")


def _next_step(task: Task) -> str:
    what, command = unblock_step(task.id, task.reason)
    return f"{what.capitalize()}: {command}"


def print_questions(view: TaskView) -> None:
    """Print what was asked about a task, with the answers, and the command to go on if it waits."""
    for question in view.questions:
        print()
        _print_text(f"Asked {format_time(question.asked_at)}", question.text)
        if question.answered_at:
            _print_text(f"Answered {format_time(question.answered_at)} by {_who(question)}", question.answer)
    if view.task.status in (TaskStatus.BLOCKED, TaskStatus.FAILED) and not view.held:
        print(f"\n{_next_step(view.task)}")


def _who(question: Question) -> str:
    return "a person" if question.answered_by == "person" else "an agent"


def _print_text(head: str, text: str) -> None:
    print(f"  {head}:")
    print("\n".join(f"    {printable(line)}" for line in text.split("\n")))
