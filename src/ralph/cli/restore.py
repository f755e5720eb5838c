"""`ralph restore`."""

from __future__ import annotations

from pathlib import Path

from ralph.cli.backup import describe_contents
from ralph.cli.bars import progress_bar
from ralph.cli.interactive import confirm
from ralph.cli.output import format_time, printable, working_directory
from ralph.maintenance import find_project, preview_restore, restore_project

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ralph.store.maintenance.restore import RestoreResult

MAX_DAMAGE_SHOWN = 5
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
    root = find_project(working_directory(args))
    if args.dry_run or not args.yes:
        with progress_bar():
            plan = preview_restore(root, args.name)
        _explain(plan)
        if args.dry_run:
            print("Nothing was changed.")
            return 0
        if not confirm("Replace the database with it?", "Use --yes to restore, or --dry-run to see what would happen."):
            return 1
    with progress_bar():
        restored = restore_project(root, args.name)
    if args.yes:
        _explain(restored)
    print(f"Restored {printable(restored.backup.path)}.")
    if restored.saved_to:
        print(f"The previous database is kept in {printable(restored.saved_to)}.")
    return 0


def _explain(plan: RestoreResult) -> None:
    for line in plan.skipped:
        print(f"Skipped: {printable(line)}")
    for problem in plan.problems[:MAX_DAMAGE_SHOWN]:
        print(f"Problem in the database: {printable(problem)}")
    created = format_time(plan.backup.made_at)
    print(f"Backup: {Path(plan.backup.path).name}, created {created}: {describe_contents(plan.backup)}.")
    print(plan.loss_message)
    if plan.recovered:
        print(f"Intact memories recovered from the damaged database: {plan.recovered:,}.")
