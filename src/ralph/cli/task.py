"""`ralph task`."""

from __future__ import annotations

from ralph.cli.output import (
    add_format,
    colour,
    moment,
    open_project,
    plural,
    print_json,
    print_table,
    read_text,
    safe,
    whole_number,
)
from ralph.errors import UsageError
from ralph.records import Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from ralph.records import Task

MOST_COMPLAINTS = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def action(name: str, act: Callable[[argparse.Namespace], int | None], text: str) -> argparse.ArgumentParser:
        one = actions.add_parser(name, help=text, description=text + ".")
        one.set_defaults(act=act)
        return one

    one = action("add", add, "Add a task")
    one.add_argument("title")
    one.add_argument("--body", "-b", default="", help="what is to be done; - reads standard input")
    one.add_argument("--priority", "-p", type=whole_number, default=0, help="higher goes first (default: 0)")
    one.add_argument("--parent", metavar="ID", help="the task it is a part of")
    one.add_argument("--feature", "-f", metavar="NAME", help="the feature it belongs to, by name or id")
    one.add_argument("--needs", "-n", metavar="ID", action="append", default=[], help="a task that must be done first")
    one.add_argument("--id", metavar="ID", help="an id of your own: asked again, it is still one task")
    one.add_argument("--format", choices=("table", "json", "quiet"), default="table", help="quiet prints the id alone")

    one = action("list", list_tasks, "List tasks, the most urgent first")
    one.add_argument("--status", "-s", choices=tuple(Status))
    one.add_argument("--feature", "-f", metavar="NAME")
    one.add_argument("--ready", action="store_true", help="only those that could start now")
    one.add_argument(
        "--format",
        choices=("table", "json", "jsonl"),
        default="table",
        help="jsonl is what task import reads (default: table)",
    )

    one = action("show", show, "Show all about a task")
    one.add_argument("id")
    add_format(one)

    one = action("tree", tree, "Show tasks with their parts below them")
    one.add_argument("id", nargs="?")

    one = action("update", update, "Change what a task says or where it belongs")
    one.add_argument("id")
    one.add_argument("--title")
    one.add_argument("--body", "-b", help="- reads standard input")
    one.add_argument("--priority", "-p", type=whole_number)
    one.add_argument("--parent", metavar="ID", help="'' takes it out of its parent")
    one.add_argument("--feature", "-f", metavar="NAME", help="'' takes it out of its feature")

    one = action("deps", deps, "Show or change what a task waits for")
    one.add_argument("id")
    one.add_argument("--add", metavar="ID", action="append", default=[])
    one.add_argument("--remove", metavar="ID", action="append", default=[])
    add_format(one)

    one = action("done", done, "Say that a task is done")
    one.add_argument("id")
    for name, act, text in (
        ("fail", fail, "Say that a task has failed for good"),
        ("block", block, "Hold a task back until it is reset"),
    ):
        one = action(name, act, text)
        one.add_argument("id")
        one.add_argument("--reason", "-r", default="")
    one = action("reset", reset, "Put tasks back to pending, with all their retries")
    one.add_argument("id", nargs="+")
    one = action("delete", delete, "Delete a task, its parts and its attempts; what was learned stays")
    one.add_argument("id")
    one = action("log", log, "Show a task's log, or add a line to it")
    one.add_argument("id")
    one.add_argument("message", nargs="?")
    one = action("import", import_tasks, "Add tasks from JSON lines or a markdown checklist")
    one.add_argument("file", help="- reads standard input")
    add_format(one)


def add(given: argparse.Namespace) -> None:
    """Add a task."""
    body = read_text("-") if given.body == "-" else given.body
    with open_project(given) as project:
        task = project.add_task(
            given.title,
            body,
            priority=given.priority,
            parent=given.parent,
            feature=given.feature,
            needs=given.needs,
            id=given.id,
        )
    if given.format == "json":
        print_json(task)
    else:
        print(task.id if given.format == "quiet" else f"Task added: {task.id}")


def list_tasks(given: argparse.Namespace) -> None:
    """List tasks."""
    with open_project(given) as project:
        status = Status(given.status) if given.status else None
        tasks = project.tasks(status=status, feature=given.feature, ready=given.ready)
    if given.format == "json":
        print_json(tasks)
    elif given.format == "jsonl":
        from ralph.formats.tasks_jsonl import write_tasks_jsonl

        print(write_tasks_jsonl(tasks), end="")
    elif tasks:
        rows = [(task.id, task.status, task.priority, " ".join(task.needs) or "-", task.title) for task in tasks]
        print_table(("ID", "STATUS", "PRIORITY", "NEEDS", "TITLE"), rows)
    else:
        print("No tasks. Add one with: ralph task add TITLE")


def show(given: argparse.Namespace) -> None:
    """Show all about a task."""
    with open_project(given) as project:
        seen = project.task(given.id)
    if given.format == "json":
        print_json(seen)
        return
    task, metrics, attempts, feature = seen.task, seen.metrics, seen.attempts, seen.feature
    print(f"{task.id}  {colour(task.status, task.status)}  {safe(task.title)}")
    facts = {
        "Priority": task.priority,
        "Part of": task.parent_id,
        "Feature": safe(f"{feature.id} {feature.name}") if feature else "",
        "Parts": _named(seen.parts),
        "Needs": _named(seen.needs),
        "Needed by": _named(seen.needed_by),
        "Reason": safe(task.reason),
        "Worker": task.claimed_by,
        "Attempts": metrics.total_attempts,
        "Failures in a row": metrics.consecutive_failures,
        "Difficulty": metrics.difficulty,
    }
    for name, value in facts.items():
        if value:
            print(f"  {name}: {value}")
    if task.body:
        print()
        print("\n".join(f"  {safe(line)}" for line in task.body.split("\n")))
    if attempts:
        print()
        rows = [(a.number, a.outcome or "running", f"{a.seconds:.1f}s", a.notes or a.reason) for a in attempts]
        print_table(("ATTEMPT", "OUTCOME", "TIME", "REASON OR NOTES"), rows)


def _named(tasks: Sequence[Task]) -> str:
    return ", ".join(f"{task.id} {safe(task.title)} ({task.status})" for task in tasks)


def tree(given: argparse.Namespace) -> None:
    """Show tasks with their parts below them."""
    with open_project(given) as project:
        tasks = project.tree(given.id)
    below: dict[str | None, list[Task]] = {}
    for task in tasks:
        below.setdefault(None if task.id == given.id else task.parent_id, []).append(task)
    if not tasks:
        print("No tasks. Add one with: ralph task add TITLE")
    branches = [(task, "", True, True) for task in reversed(below.get(None, []))]
    while branches:
        task, indent, last, top = branches.pop()
        parts = below.get(task.id, [])
        tally = f" ({sum(part.status == 'done' for part in parts)}/{len(parts)} done)" if parts else ""
        branch = "" if top else "└─ " if last else "├─ "
        print(f"{indent}{branch}{task.id} {colour(task.status, task.status)} {safe(task.title)}{tally}")
        inner = indent if top else indent + ("   " if last else "│  ")
        branches += [(part, inner, place == 0, False) for place, part in enumerate(reversed(parts))]


def update(given: argparse.Namespace) -> None:
    """Change a task."""
    changes = {name: getattr(given, name) for name in ("title", "body", "priority", "parent", "feature")}
    if all(value is None for value in changes.values()):
        raise UsageError("Say what to change: --title, --body, --priority, --parent or --feature.")
    if given.body == "-":
        changes["body"] = read_text("-")
    with open_project(given) as project:
        task = project.update_task(given.id, **changes)
    print(f"Task updated: {task.id}")


def deps(given: argparse.Namespace) -> None:
    """Show or change what a task waits for."""
    with open_project(given) as project:
        task = project.change_needs(given.id, add=given.add, remove=given.remove)
        needed = project.task(task.id).needs
    if given.format == "json":
        print_json({"id": task.id, "needs": needed})
    elif needed:
        print_table(("NEEDS", "STATUS", "TITLE"), [(other.id, other.status, other.title) for other in needed])
    else:
        print(f"{task.id} waits for nothing.")


def done(given: argparse.Namespace) -> None:
    """Say that a task is done."""
    with open_project(given) as project:
        print(f"Task done: {project.done(given.id).id}")


def fail(given: argparse.Namespace) -> None:
    """Say that a task has failed for good."""
    with open_project(given) as project:
        print(f"Task failed: {project.fail(given.id, given.reason).id}")


def block(given: argparse.Namespace) -> None:
    """Hold a task back."""
    with open_project(given) as project:
        print(f"Task blocked: {project.block(given.id, given.reason).id}")


def reset(given: argparse.Namespace) -> None:
    """Put a task back to pending."""
    with open_project(given) as project:
        for task in project.reset_all(given.id):
            print(f"Task reset: {task.id}")


def delete(given: argparse.Namespace) -> None:
    """Delete a task."""
    with open_project(given) as project:
        for id in project.delete_task(given.id):
            print(f"Task deleted: {id}")


def log(given: argparse.Namespace) -> None:
    """Show a task's log, or add a line to it."""
    with open_project(given) as project:
        if given.message is not None:
            project.log(given.id, given.message)
        entries = project.read_log(given.id)
    for entry in entries:
        print(f"{moment(entry.at)}  {entry.who:6}  {safe(entry.message)}")
    if not entries:
        print("No log yet.")


def import_tasks(given: argparse.Namespace) -> int:
    """Add tasks from a file; fails only when nothing could be read."""
    import sys

    text = read_text(given.file)
    with open_project(given) as project:
        result = project.import_tasks(text, given.file)
    if given.format == "json":
        print_json(result)
    else:
        print(f"{plural(len(result.added), 'task')} added, {result.known} already there.")
        for problem in result.unreadable[:MOST_COMPLAINTS]:
            print(f"{given.file}:{problem.line}: {problem.why}", file=sys.stderr)
        if len(result.unreadable) > MOST_COMPLAINTS:
            print(f"… and {len(result.unreadable) - MOST_COMPLAINTS} more complaints.", file=sys.stderr)
    return 1 if result.unreadable and not result.added and not result.known else 0
