"""`ralph task`."""

from __future__ import annotations

import sys

from ralph.cli.output import (
    action_adder,
    add_format_option,
    color_by_status,
    exact_line,
    format_time,
    parse_int,
    pluralize,
    print_json,
    print_list,
    print_table,
    printable,
    read_input_text,
    read_text_argument,
    symbol,
    wrap_line,
)
from ralph.cli.questions import print_questions, print_waiting
from ralph.core.errors import UsageError
from ralph.core.records import ALLOW_TESTS, TaskStatus, outcome_word, status_word, stored_status
from ralph.formats.tasks_jsonl import write_tasks_jsonl

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from ralph.core.records import Attempt, HeldChange, Task
    from ralph.project import Project

NO_TASKS = "No tasks. Add one with: ralph task add TITLE"
STATUS_CHOICES = ("ready", "waiting", "running", *TaskStatus)
"""Statuses to filter by: ready and waiting tasks are pending, running ones in progress."""
MAX_PROBLEMS_SHOWN = 20
"""Maximum number of unreadable lines that are printed."""
MAX_NOTES_SHOWN = 5
"""Maximum number of notes of the log that are printed with a task."""
_ROUTINE_LINES = ("Attempt ", "Ignored: ", "Released: ")
"""How the lines of Ralph in the log begin that are about attempts."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    action = action_adder(parser)
    sub = action("add", add, "Add a task")
    sub.add_argument("title", help="title of the task")
    sub.add_argument("--body", "-b", default="", help="description of the task; - reads standard input")
    sub.add_argument("--priority", "-p", type=parse_int, default=0, help="higher runs first (default: 0)")
    sub.add_argument("--parent", metavar="ID", help="parent task")
    sub.add_argument("--feature", "-f", metavar="NAME", help="name or id of its feature")
    sub.add_argument(
        "--needs", "-n", metavar="ID", action="append", default=[], help="task that must be done first; repeatable"
    )
    _add_scope_options(sub)
    sub.add_argument("--id", metavar="ID", help="custom id; adding the same id again does not create a second task")
    add_format_option(sub, "quiet", help="quiet prints only the id")

    sub = action("list", list_tasks, "List tasks by priority")
    sub.add_argument("--status", "-s", choices=STATUS_CHOICES, help="only tasks with this status")
    sub.add_argument("--feature", "-f", metavar="NAME", help="only tasks of this feature")
    sub.add_argument("--ready", action="store_true", help="only tasks that can start now")
    add_format_option(sub, "jsonl", help="jsonl can be read by task import")

    sub = action("show", show, "Show a task with its attempts")
    sub.add_argument("id", help="id of the task")
    add_format_option(sub)

    sub = action("diff", diff, "Show what the attempts at a task changed")
    sub.add_argument("id", help="id of the task")
    sub.add_argument("--attempt", metavar="N", type=parse_int, help="only what this attempt changed")
    add_format_option(sub)

    sub = action("tree", tree, "Show tasks and their subtasks as a tree")
    sub.add_argument("id", nargs="?", help="root of the tree (default: all tasks)")

    sub = action("update", update, "Change a task")
    sub.add_argument("id", help="id of the task")
    sub.add_argument("--title", help="new title")
    sub.add_argument("--body", "-b", help="new description; - reads standard input")
    sub.add_argument("--priority", "-p", type=parse_int, help="new priority; higher runs first")
    sub.add_argument("--parent", metavar="ID", help="new parent task; '' for none")
    sub.add_argument("--feature", "-f", metavar="NAME", help="new feature; '' for none")
    _add_scope_options(sub)

    sub = action(
        "approve", approve, "Accept what a task waits with: a change to protected files, or work without a review"
    )
    sub.add_argument("id", help="id of the task")
    sub.add_argument("--yes", "-y", action="store_true", help="do not ask for confirmation")

    sub = action("answer", answer, "Answer the question of a blocked task, which makes it ready")
    sub.add_argument("id", help="id of the task")
    sub.add_argument("text", help="answer, shown to the next session word for word; - reads standard input")

    sub = action("deps", deps, "Show or change the dependencies of a task")
    sub.add_argument("id", help="id of the task")
    sub.add_argument("--add", metavar="ID", action="append", default=[], help="dependency to add; repeatable")
    sub.add_argument("--remove", metavar="ID", action="append", default=[], help="dependency to remove; repeatable")
    add_format_option(sub)

    sub = action("move", move, "Move a pending task before or after another one")
    sub.add_argument("id", help="id of the task")
    place = sub.add_mutually_exclusive_group(required=True)
    place.add_argument("--before", metavar="ID", default="", help="task that should run right after it")
    place.add_argument("--after", metavar="ID", default="", help="task that should run right before it")

    sub = action("split", split, "Split a task into parts; it is done when they are")
    sub.add_argument("id", help="id of the task")
    sub.add_argument("title", nargs="+", help="titles of the parts")
    sub.add_argument("--in-order", action="store_true", help="each part needs the one before it")
    add_format_option(sub, "quiet", help="quiet prints only the ids")

    sub = action("done", done, "Mark a task as done")
    sub.add_argument("id", help="id of the task")
    for name, do, text in (
        ("fail", fail, "Mark a task as failed"),
        ("block", block, "Block a task until it is reset"),
    ):
        sub = action(name, do, text)
        sub.add_argument("id", help="id of the task")
        sub.add_argument("--reason", "-r", default="", help="reason, shown with the task")
    sub = action("reset", reset, "Set tasks back to pending and restore their retries")
    sub.add_argument("id", nargs="+", help="ids of the tasks")
    sub = action("delete", delete, "Delete a task with its subtasks and attempts; memories and notes are kept")
    sub.add_argument("id", help="id of the task")
    sub.add_argument("--yes", "-y", action="store_true", help="do not ask for confirmation")
    sub = action("log", log, "Show the log of a task, or add a line to it")
    sub.add_argument("id", help="id of the task")
    sub.add_argument("message", nargs="?", help="line to add")
    sub = action("import", import_tasks, "Add tasks from JSON lines, a Markdown checklist, beads or progress.db")
    sub.add_argument("file", help="file to import; - reads standard input")
    add_format_option(sub)


def _add_scope_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--allow",
        metavar="GLOB",
        action="append",
        help="protected files that the task may change; repeatable, '' for none; see docs/gates.md",
    )
    parser.add_argument("--allow-tests", action="store_true", help="the task may change existing tests")


def _allowed(args: argparse.Namespace) -> list[str] | None:
    if args.allow is None and not args.allow_tests:
        return None
    return [*(args.allow or ()), *([ALLOW_TESTS] if args.allow_tests else ())]


def approve(project: Project, args: argparse.Namespace) -> None:
    """Accept what a task waits with."""
    from ralph.cli.interactive import confirm
    from ralph.loop.options import how_to_reject

    held = project.tasks.get(args.id).held
    if held:
        _print_held(held)
        if not args.yes and not confirm("Accept exactly this?", f"Use: ralph task approve {args.id} --yes"):
            print(how_to_reject(args.id))
            return
    task = project.tasks.approve(args.id, held.digest if held else "")
    print(f"Approved: {task.id}. The next ralph run verifies the work again and finishes the task.")


def _print_held(held: HeldChange) -> None:
    print(f"Held change {held.digest[:12]}: {printable(held.reason)}")
    print("\n".join(f"  {exact_line(line)}" for line in held.diff.split("\n")))


def answer(project: Project, args: argparse.Namespace) -> None:
    """Answer the question of a blocked task."""
    task = project.questions.answer(args.id, read_text_argument(args.text))
    print(f"Answered: {task.id}. It is ready, and its next session is shown the answer.")


def add(project: Project, args: argparse.Namespace) -> None:
    """Add a task."""
    body = read_text_argument(args.body)
    task = project.tasks.add(
        args.title,
        body,
        priority=args.priority,
        parent=args.parent,
        feature=args.feature,
        needs=args.needs,
        id=args.id,
        allow=_allowed(args) or (),
    )
    if args.format == "json":
        print_json(task)
    else:
        print(task.id if args.format == "quiet" else f"Task added: {task.id}")


def list_tasks(project: Project, args: argparse.Namespace) -> None:
    """List tasks."""
    is_ready = {"ready": True, "waiting": False}.get(args.status, args.ready or None)
    status = None if args.status in (None, "ready", "waiting") else stored_status(args.status)
    tasks = project.tasks.list(status=status, feature=args.feature, ready=is_ready)
    if args.format == "jsonl":
        print(write_tasks_jsonl(tasks), end="")
        return
    word = _status_words(project, tasks)
    rows = [(task.id, word(task), task.priority, " ".join(task.needs) or "-", task.title) for task in tasks]
    print_list(args, tasks, ("ID", "STATUS", "PRIORITY", "NEEDS", "TITLE"), rows, NO_TASKS, droppable=("NEEDS",))
    if args.format == "table":
        print_waiting(tasks)


def _status_words(project: Project, tasks: Sequence[Task]) -> Callable[[Task], str]:
    """Return a function that returns what people read for the status of one of some tasks."""
    is_asked = any(task.status is TaskStatus.PENDING for task in tasks)
    ready = {task.id for task in project.tasks.list(ready=True)} if is_asked else set()
    return lambda task: status_word(task.status, is_ready=task.id in ready)


def show(project: Project, args: argparse.Namespace) -> None:
    """Show a task with its attempts."""
    view = project.tasks.get(args.id)
    if args.format == "json":
        print_json(view)
        return
    task, metrics, attempts, feature = view.task, view.metrics, view.attempts, view.feature
    estimate = project.stats.estimate(task.title, task.body, metrics.difficulty or "")
    word = _status_words(project, (task, *view.parts, *view.needs, *view.needed_by))
    print(f"{task.id}  {color_by_status(word(task), word(task))}  {printable(task.title)}")
    facts = {
        "Priority": task.priority,
        "Parent": task.parent_id,
        "Feature": printable(f"{feature.id} {feature.name}") if feature else "",
        "Subtasks": _format_tasks(view.parts, word),
        "Needs": _format_tasks(view.needs, word),
        "Needed by": _format_tasks(view.needed_by, word),
        "Reason": printable(task.reason),
        "May change": ", ".join(map(printable, task.allow)),
        "Worker": task.claimed_by,
        "Attempts": metrics.total_attempts,
        "Failures in a row": metrics.consecutive_failures,
        "Difficulty": metrics.difficulty,
        "Tasks like this took": estimate.text if estimate else "",
    }
    for name, value in facts.items():
        if value:
            print(wrap_line(f"{name}: {value}", "  ", "    "))
    if task.body:
        print()
        print("\n".join(f"  {printable(line)}" for line in task.body.split("\n")))
    if attempts:
        print()
        rows = [(a.number, outcome_word(a.outcome), f"{a.seconds:.1f}s", a.notes or a.reason) for a in attempts]
        print_table(("ATTEMPT", "OUTCOME", "TIME", "REASON OR NOTES"), rows)
    if recorded := [line for attempt in reversed(attempts) for line in _recorded(attempt)]:
        print()
        print("\n".join(recorded))
    if notes := _notes(project, task.id):
        print()
        print("\n".join(f"  Note: {printable(note)}" for note in notes))
    print_questions(view)
    if view.held:
        from ralph.loop.options import how_to_reject

        print()
        _print_held(view.held)
        print(f"\nTo accept it: ralph task approve {task.id}\n{how_to_reject(task.id)}")


def _recorded(attempt: Attempt) -> list[str]:
    """Return lines that say where the work of an attempt is."""
    see = f"ralph task diff {attempt.task_id} --attempt {attempt.number}"
    if attempt.commits:
        named = ", ".join(commit[:12] for commit in attempt.commits)
        return [f"  Attempt {attempt.number} committed {named}. See: {see}"]
    if attempt.checkpoint:
        return [f"  Attempt {attempt.number} left work in {attempt.checkpoint[:12]}. See: {see}"]
    return []


def diff(project: Project, args: argparse.Namespace) -> None:
    """Show what the attempts at a task changed."""
    found = project.journal.task_diff(args.id, args.attempt)
    if args.format == "json":
        print_json(found)
        return
    print(found.text or found.problem)
    if found.is_cut:
        print(f"… The diff is longer. See all of it with: git diff {found.before[:12]} {found.after[:12]}")


def _notes(project: Project, id: str) -> list[str]:
    """Return the latest lines of Ralph in the log that are not about an attempt: worktrees kept, changes undone."""
    lines = (entry.message for entry in project.tasks.read_log(id) if entry.who == "ralph")
    return [line for line in lines if not line.startswith(_ROUTINE_LINES)][-MAX_NOTES_SHOWN:]


def _format_tasks(tasks: Sequence[Task], word: Callable[[Task], str]) -> str:
    return ", ".join(f"{task.id} {printable(task.title)} ({word(task)})" for task in tasks)


def tree(project: Project, args: argparse.Namespace) -> None:
    """Show tasks and their subtasks as a tree."""
    tasks = project.tasks.tree(args.id)
    children: dict[str | None, list[Task]] = {}
    for task in tasks:
        children.setdefault(None if task.id == args.id else task.parent_id, []).append(task)
    if not tasks:
        print(NO_TASKS)
    word = _status_words(project, tasks)
    done = (
        {task.id for task in project.tasks.list(status=TaskStatus.DONE)} if any(one.needs for one in tasks) else set()
    )
    stack = [(task, "", True, True) for task in reversed(children.get(None, []))]
    while stack:
        task, indent, is_last, is_root = stack.pop()
        subtasks = children.get(task.id, [])
        tally = f" ({sum(subtask.status == 'done' for subtask in subtasks)}/{len(subtasks)} done)" if subtasks else ""
        connector = "" if is_root else symbol("└─ " if is_last else "├─ ", "  ")
        status = color_by_status(word(task), word(task))
        needs = ", ".join(id for id in task.needs if id not in done)
        waits = f" for {needs}:" if needs and task.status is TaskStatus.PENDING else ""
        print(f"{indent}{connector}{task.id} {status}{waits} {printable(task.title)}{tally}")
        child_indent = indent if is_root else indent + symbol("   " if is_last else "│  ", "  ")
        stack += [(subtask, child_indent, index == 0, False) for index, subtask in enumerate(reversed(subtasks))]


def update(project: Project, args: argparse.Namespace) -> None:
    """Change a task."""
    changes = {name: getattr(args, name) for name in ("title", "body", "priority", "parent", "feature")}
    changes["allow"] = _allowed(args)
    if all(value is None for value in changes.values()):
        raise UsageError("Nothing to change. Use --title, --body, --priority, --parent, --feature or --allow.")
    if args.body is not None:
        changes["body"] = read_text_argument(args.body)
    task = project.tasks.update(args.id, **changes)
    print(f"Task updated: {task.id}")


def deps(project: Project, args: argparse.Namespace) -> None:
    """Show or change the dependencies of a task."""
    task = project.tasks.change_needs(args.id, add=args.add, remove=args.remove)
    needs = project.tasks.get(task.id).needs
    word = _status_words(project, needs)
    rows = [(other.id, word(other), other.title) for other in needs]
    empty = f"{task.id} has no dependencies."
    print_list(args, {"id": task.id, "needs": needs}, ("NEEDS", "STATUS", "TITLE"), rows, empty)


def move(project: Project, args: argparse.Namespace) -> None:
    """Move a pending task."""
    project.backlog.move(args.id, before=args.before, after=args.after)
    place = f"before {args.before}" if args.before else f"after {args.after}"
    print(f"Task moved: {args.id} is {place}")


def split(project: Project, args: argparse.Namespace) -> None:
    """Split a task into parts."""
    parts = project.backlog.split(args.id, args.title, in_order=args.in_order)
    if args.format == "json":
        print_json(parts)
    else:
        print("\n".join(part.id if args.format == "quiet" else f"Part added: {part.id} {part.title}" for part in parts))


def done(project: Project, args: argparse.Namespace) -> None:
    """Mark a task as done."""
    print(f"Task done: {project.tasks.done(args.id).id}")
    _print_left_work(project, args.id)


def _print_left_work(project: Project, id: str) -> None:
    from ralph.loop.git.branches import describe_left_work

    if left := describe_left_work(project.directory, id):
        print(printable(left))


def fail(project: Project, args: argparse.Namespace) -> None:
    """Mark a task as failed."""
    print(f"Task failed: {project.tasks.fail(args.id, args.reason).id}")


def block(project: Project, args: argparse.Namespace) -> None:
    """Block a task."""
    print(f"Task blocked: {project.tasks.block(args.id, args.reason).id}")


def reset(project: Project, args: argparse.Namespace) -> None:
    """Set tasks back to pending."""
    for task in project.tasks.reset(*args.id):
        print(f"Task reset: {task.id}")


def delete(project: Project, args: argparse.Namespace) -> None:
    """Delete a task, once the person at the terminal has agreed."""
    from ralph.cli.interactive import confirm, is_interactive

    if is_interactive() and not args.yes:
        view = project.tasks.get(args.id)
        counts = (view.metrics.total_attempts, "attempt"), (len(project.tasks.tree(args.id)) - 1, "subtask")
        lost = " and ".join(pluralize(count, noun) for count, noun in counts if count)
        print(f"{view.task.id} {printable(view.task.title)}{', with ' if lost else ''}{lost}")
        print("Memories learned from it are kept, and its notes as past work: ralph memory search --episodes")
        if not confirm("Delete it?", f"Use: ralph task delete {args.id} --yes"):
            return
    for id in project.tasks.delete(args.id):
        print(f"Task deleted: {id}")
        _print_left_work(project, id)


def log(project: Project, args: argparse.Namespace) -> None:
    """Show the log of a task, or add a line to it."""
    if args.message is not None:
        project.tasks.log(args.id, args.message)
    entries = project.tasks.read_log(args.id)
    for entry in entries:
        print(f"{format_time(entry.at)}  {entry.who:6}  {printable(entry.message)}")
    if not entries:
        print("The log is empty.")


def import_tasks(project: Project, args: argparse.Namespace) -> int:
    """Add tasks from a file. Fails if none of its lines can be read, or something was left out."""
    from pathlib import Path

    from ralph.cli.transfer import LEFT_OUT_EXIT_CODE
    from ralph.formats.databases import is_sqlite
    from ralph.formats.task_files import read_task_database

    if args.file != "-" and is_sqlite(Path(args.file)):
        result = project.tasks.import_planned(read_task_database(Path(args.file)))
    else:
        result = project.tasks.import_(read_input_text(args.file), args.file)
    if args.format == "json":
        print_json(result)
    else:
        print(f"{pluralize(len(result.added), 'task')} added, {result.known} already there.")
        for problem in result.unreadable[:MAX_PROBLEMS_SHOWN]:
            print(f"{args.file}:{problem.line}: {problem.why}", file=sys.stderr)
        if len(result.unreadable) > MAX_PROBLEMS_SHOWN:
            print(f"… and {len(result.unreadable) - MAX_PROBLEMS_SHOWN} more problems.", file=sys.stderr)
    if result.unreadable and not result.added and not result.known:
        return 1
    return LEFT_OUT_EXIT_CODE if any(not problem.was_read for problem in result.unreadable) else 0
