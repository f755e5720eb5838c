"""`ralph project`."""

from __future__ import annotations

import sys

from ralph.cli.output import add_format, adder_of, directory_of, moment, plural, print_json, print_table, safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ralph.projects import Neighbours
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
    action = adder_of(parser.add_subparsers(dest="action", metavar="ACTION", required=True), run)
    one = action("list", list_projects, "List the projects of the database")
    add_format(one)
    one = action("show", show, "Show a project of the database")
    one.add_argument("name", nargs="?", default="", metavar="NAME", help="or id (default: the project here)")
    add_format(one)
    one = action("rename", rename, "Give a project another name")
    one.add_argument("old", metavar="OLD", help="its name or id")
    one.add_argument("new", metavar="NEW", help="a name that no other project of the database has")
    one = action("remove", remove, "Delete a project with all that is in it, after a backup")
    one.add_argument("name", metavar="NAME", help="or id")
    one.add_argument("--yes", "-y", action="store_true", help="do not ask")
    one.add_argument("--no-backup", action="store_true", help="also when no backup of it can be made")


def run(given: argparse.Namespace) -> int:
    """Do what is asked for."""
    from ralph.projects import Neighbours

    with Neighbours.open(directory_of(given)) as projects:
        return int(given.do(projects, given) or 0)


def list_projects(projects: Neighbours, given: argparse.Namespace) -> None:
    """List the projects."""
    found = projects.all()
    if given.format == "json":
        print_json(found)
        return
    rows = [
        (
            one.id,
            f"{one.open_tasks}/{one.tasks}",
            one.memories,
            one.attempts,
            moment(one.last_activity),
            one.name + _remark(one),
        )
        for one in found
    ]
    print_table(("ID", "OPEN", "MEMORIES", "ATTEMPTS", "ACTIVE", "NAME"), rows)


def _remark(one: ProjectSummary) -> str:
    return " (here)" if one.is_here else " (what all projects share)" if one.is_shared else ""


def show(projects: Neighbours, given: argparse.Namespace) -> None:
    """Show a project."""
    one = projects.show(given.name)
    if given.format == "json":
        print_json(one)
        return
    print(f"{one.id}  {safe(one.name)}{_remark(one)}")
    print(f"  {plural(one.tasks, 'task')}, {one.open_tasks:,} open")
    print(f"  {plural(one.memories, 'memory')}")
    print(f"  {plural(one.attempts, 'attempt')}")
    print(f"  made {moment(one.created_at)}, last active {moment(one.last_activity)}")


def rename(projects: Neighbours, given: argparse.Namespace) -> None:
    """Give a project another name."""
    done = projects.rename(given.old, given.new)
    print(f"Project renamed: {done.id} is called {safe(done.name)}")
    for note in done.notes:
        print(safe(note))


def remove(projects: Neighbours, given: argparse.Namespace) -> int:
    """Delete a project, after asking."""
    entry = projects.refuse_removal(given.name)
    if not given.yes:
        _refuse_without_a_person()
        show(projects, _shown(entry.id))
        if not _agreed(f"{entry.name} of {projects.where}"):
            print("Nothing was changed.")
            return 1
    done = projects.remove(entry.id, with_backup=not given.no_backup)
    gone = ", ".join(plural(count, _NOUNS[table]) for table, count in done.gone.items() if count)
    print(f"Project removed: {done.id} {safe(done.name)}: {gone or 'nothing was in it'}.")
    if done.backup:
        print(f"A copy is kept in {safe(done.backup)}")
        print(f"To bring it back: {safe(done.way_back)}")
    return 0


def _shown(id: str) -> argparse.Namespace:
    import argparse

    return argparse.Namespace(name=id, format="table")


def _refuse_without_a_person() -> None:
    from ralph.errors import UsageError

    if not sys.stdin.isatty():
        raise UsageError("There is nobody to ask. Say --yes to remove the project with all that is in it.")


def _agreed(name: str) -> bool:
    try:
        return input(f"Remove {safe(name)} with all that is in it? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False
