"""`ralph project`."""

from __future__ import annotations

from ralph.cli.interactive import confirm
from ralph.cli.output import (
    action_adder,
    add_format_option,
    format_time,
    pluralize,
    print_json,
    print_table,
    printable,
    working_directory,
)
from ralph.projects import ProjectService

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ralph.store.projects import ProjectSummary

_NOUNS = {
    "tasks": "task",
    "features": "feature",
    "runs": "run",
    "attempts": "attempt",
    "failures": "failure report",
    "memory": "memory",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    action = action_adder(parser, run)
    sub = action("list", list_projects, "List the projects in the database")
    add_format_option(sub)
    sub = action("show", show, "Show a project in the database")
    sub.add_argument("name", nargs="?", default="", metavar="NAME", help="name or id (default: the current project)")
    add_format_option(sub)
    sub = action("rename", rename, "Rename a project")
    sub.add_argument("old", metavar="OLD", help="current name or id")
    sub.add_argument("new", metavar="NEW", help="new name, unique in the database")
    sub = action("remove", remove, "Back up a project, then delete it with all its data")
    sub.add_argument("name", metavar="NAME", help="name or id")
    sub.add_argument("--yes", "-y", action="store_true", help="do not ask for confirmation")
    sub.add_argument("--no-backup", action="store_true", help="delete it even if it cannot be backed up")


def run(args: argparse.Namespace) -> int:
    """Run the action on the projects of the database."""
    with ProjectService.open(working_directory(args)) as projects:
        return int(args.do(projects, args) or 0)


def list_projects(projects: ProjectService, args: argparse.Namespace) -> None:
    """List the projects."""
    found = projects.list()
    if args.format == "json":
        print_json(found)
        return
    rows = [
        (
            project.id,
            f"{project.open_tasks}/{project.tasks}",
            project.memories,
            project.attempts,
            format_time(project.last_activity),
            project.name + _suffix(project),
        )
        for project in found
    ]
    print_table(("ID", "OPEN", "MEMORIES", "ATTEMPTS", "ACTIVE", "NAME"), rows, droppable=("ACTIVE",))


def _suffix(project: ProjectSummary) -> str:
    return " (current)" if project.is_here else " (shared memories)" if project.is_shared else ""


def show(projects: ProjectService, args: argparse.Namespace) -> None:
    """Show a project."""
    found = projects.show(args.name)
    if args.format == "json":
        print_json(found)
    else:
        _print_summary(found)


def _print_summary(project: ProjectSummary) -> None:
    print(f"{project.id}  {printable(project.name)}{_suffix(project)}")
    print(f"  {pluralize(project.tasks, 'task')}, {project.open_tasks:,} open")
    print(f"  {pluralize(project.memories, 'memory')}")
    print(f"  {pluralize(project.attempts, 'attempt')}")
    print(f"  created {format_time(project.created_at)}, last active {format_time(project.last_activity)}")


def rename(projects: ProjectService, args: argparse.Namespace) -> None:
    """Rename a project."""
    renamed = projects.rename(args.old, args.new)
    print(f"Project renamed: {renamed.id} is now called {printable(renamed.name)}")
    for note in renamed.notes:
        print(printable(note))


def remove(projects: ProjectService, args: argparse.Namespace) -> int:
    """Delete a project after confirmation."""
    entry = projects.check_removal(args.name)
    if not args.yes:
        _print_summary(projects.show(entry.id))
        question = f"Remove {printable(f'{entry.name} in {projects.where}')} with all its data?"
        if not confirm(question, "Use --yes to remove the project with all its data."):
            return 1
    removed = projects.remove(entry.id, with_backup=not args.no_backup)
    counts = ", ".join(pluralize(count, _NOUNS[table]) for table, count in removed.removed_rows.items() if count)
    print(f"Project removed: {removed.id} {printable(removed.name)} ({counts or 'it was empty'}).")
    if removed.backup:
        print(f"Backup: {printable(removed.backup)}")
        print(f"To restore it: {printable(removed.restore_command)}")
    return 0
