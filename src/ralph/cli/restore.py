"""`ralph restore`."""

from __future__ import annotations

import sys
from pathlib import Path

from ralph.cli.backup import contents
from ralph.cli.output import directory_of, moment, safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ralph.store.maintenance.restore import Restored

SHOWN_PROBLEMS = 5
"""Maximum number of database problems that are printed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="name of the backup (default: the newest undamaged one)"
    )
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask for confirmation")
    parser.add_argument("--dry-run", action="store_true", help="show what would be restored, without changing anything")
    parser.set_defaults(act=run)


def run(args: argparse.Namespace) -> int:
    """Restore a backup after confirmation."""
    from ralph.maintenance import find_project, preview_restore, restore_project

    root = find_project(directory_of(args))
    if args.dry_run or not args.yes:
        _require_terminal(args)
        _explain(preview_restore(root, args.name))
        if args.dry_run or not _confirm():
            print("Nothing was changed.")
            return 0 if args.dry_run else 1
    restored = restore_project(root, args.name)
    if args.yes:
        _explain(restored)
    print("Restored the intact part of the database." if restored.is_own else f"Restored {safe(restored.backup.path)}.")
    if restored.kept:
        print(f"The previous database is kept in {safe(restored.kept)}.")
    return 0


def _require_terminal(args: argparse.Namespace) -> None:
    from ralph.core.errors import UsageError

    if not args.dry_run and not sys.stdin.isatty():
        raise UsageError(
            "Confirmation needs a terminal. Use --yes to restore, or --dry-run to see what would happen.",
            code="no-terminal",
        )


def _confirm() -> bool:
    try:
        return input("Replace the database with it? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False


def _explain(plan: Restored) -> None:
    for line in plan.passed_over:
        print(f"Skipped: {safe(line)}")
    for problem in plan.problems[:SHOWN_PROBLEMS]:
        print(f"Problem in the database: {safe(problem)}")
    if plan.is_own:
        print(f"The intact part of the database is newer than any backup: {contents(plan.backup)}.")
    else:
        print(f"Backup: {Path(plan.backup.path).name}, created {moment(plan.backup.made_at)}: {contents(plan.backup)}.")
    print(plan.lost)
    if plan.brought_back:
        print(f"Intact memories recovered from the damaged database: {plan.brought_back:,}.")
