"""`ralph backup`."""

from __future__ import annotations

from ralph.cli.output import add_format, count_of, directory_of, moment, plural, print_json, print_table, safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ralph.store.backup import Backup


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--list", action="store_true", help="list the backups there are")
    one.add_argument("--verify", nargs="?", const="", metavar="NAME", help="check all backups, or one")
    one.add_argument("--keep", type=count_of("backups"), default=10, metavar="N", help="how many to keep (default: 10)")
    add_format(parser)
    parser.set_defaults(act=run)


def run(given: argparse.Namespace) -> int:
    """Make a backup, or list or check those there are."""
    if given.list:
        return list_backups(given)
    return make(given) if given.verify is None else verify(given)


def make(given: argparse.Namespace) -> int:
    """Make a backup and say where it is."""
    from ralph.upkeep import backup_project, find_project

    made = backup_project(find_project(directory_of(given)), keep=given.keep)
    if given.format == "json":
        print_json(made)
    else:
        print(f"Backup made and checked: {safe(made.path)}")
        print(f"  {size(made.bytes)}: {contents(made)}")
    return 0


def list_backups(given: argparse.Namespace) -> int:
    """List the backups, newest first."""
    from pathlib import Path

    from ralph.upkeep import count_backups, find_project, list_backups

    root = find_project(directory_of(given))
    found = list_backups(root)
    unreadable = count_backups(root) - len(found)
    if given.format == "json":
        print_json(found)
        return 0
    if found:
        rows = [
            (Path(one.path).name, moment(one.made_at), size(one.bytes), one.memories, one.attempts, one.tasks)
            for one in found
        ]
        print_table(("NAME", "MADE", "SIZE", "MEMORIES", "ATTEMPTS", "TASKS"), rows)
    elif not unreadable:
        print("No backups yet. Make one with: ralph backup")
    if unreadable:
        print(f"{plural(unreadable, 'backup')} cannot be read. See: ralph backup --verify")
    return 0


def verify(given: argparse.Namespace) -> int:
    """Check backups; a damaged one makes the command fail."""
    from pathlib import Path

    from ralph.upkeep import find_project, verify_backups

    found = verify_backups(find_project(directory_of(given)), given.verify or None)
    if given.format == "json":
        print_json(found)
    elif found:
        rows = [(Path(one.path).name, "damaged" if one.problems else "sound", " ".join(one.problems)) for one in found]
        print_table(("NAME", "STATE", "PROBLEMS"), rows)
    else:
        print("No backups yet. Make one with: ralph backup")
    return 1 if any(one.problems for one in found) else 0


def contents(backup: Backup) -> str:
    """Say what is in a backup."""
    memories = f"{backup.memories:,} {'memory' if backup.memories == 1 else 'memories'}"
    return f"{memories}, {plural(backup.attempts, 'attempt')}, {plural(backup.tasks, 'task')}"


def size(count: float) -> str:
    """Give a number of bytes for people: 900 B, 1.2 MB."""
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 10 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
