"""`ralph backup`."""

from __future__ import annotations

from pathlib import Path

from ralph import maintenance
from ralph.cli.bars import progress_bar
from ralph.cli.output import (
    add_format_option,
    format_time,
    pluralize,
    positive_count,
    print_json,
    print_table,
    printable,
    working_directory,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ralph.store.maintenance.backup import Backup


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--list", action="store_true", help="list backups")
    group.add_argument("--verify", nargs="?", const="", metavar="NAME", help="verify all backups, or only this one")
    group.add_argument(
        "--keep",
        type=positive_count("backups"),
        default=10,
        metavar="N",
        help="number of backups to keep (default: 10)",
    )
    add_format_option(parser)
    parser.set_defaults(act=run)


def run(args: argparse.Namespace) -> int:
    """Create, list or verify backups."""
    if args.list:
        return list_backups(args)
    return create_backup(args) if args.verify is None else verify(args)


def create_backup(args: argparse.Namespace) -> int:
    """Create a backup and print its path."""
    with progress_bar():
        backup = maintenance.backup_project(maintenance.find_project(working_directory(args)), keep=args.keep)
    if args.format == "json":
        print_json(backup)
    else:
        print(f"Backup created and verified: {printable(backup.path)}")
        print(f"  {format_bytes(backup.bytes)}: {describe_contents(backup)}")
    return 0


def list_backups(args: argparse.Namespace) -> int:
    """List the backups, newest first."""
    root = maintenance.find_project(working_directory(args))
    backups = maintenance.list_backups(root)
    unreadable = maintenance.count_backups(root) - len(backups)
    if args.format == "json":
        print_json(backups)
        return 0
    if backups:
        rows = [
            (
                Path(backup.path).name,
                format_time(backup.made_at),
                format_bytes(backup.bytes),
                backup.memories,
                backup.attempts,
                backup.tasks,
            )
            for backup in backups
        ]
        print_table(("NAME", "DATE", "SIZE", "MEMORIES", "ATTEMPTS", "TASKS"), rows)
    elif not unreadable:
        print("No backups yet. Create one with: ralph backup")
    if unreadable:
        print(f"{pluralize(unreadable, 'backup')} cannot be read. See: ralph backup --verify")
    return 0


def verify(args: argparse.Namespace) -> int:
    """Verify backups. The command fails if any of them is damaged."""
    with progress_bar():
        results = maintenance.verify_backups(maintenance.find_project(working_directory(args)), args.verify or None)
    if args.format == "json":
        print_json(results)
    elif results:
        rows = [
            (Path(result.path).name, "damaged" if result.problems else "ok", " ".join(result.problems))
            for result in results
        ]
        print_table(("NAME", "STATE", "PROBLEMS"), rows)
    else:
        print("No backups yet. Create one with: ralph backup")
    return 1 if any(result.problems for result in results) else 0


def describe_contents(backup: Backup) -> str:
    """Summarize the contents of a backup."""
    counts = ((backup.memories, "memory"), (backup.attempts, "attempt"), (backup.tasks, "task"))
    return ", ".join(pluralize(count, noun) for count, noun in counts)


def format_bytes(count: float) -> str:
    """Format a number of bytes: `900 B`, `1.2 MB`."""
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 10 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
