"""`ralph restore`."""

from __future__ import annotations

import sys
from pathlib import Path

from ralph.cli.backup import contents
from ralph.cli.output import directory_of, moment, safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ralph.store.restore import Restored

SHOWN_PROBLEMS = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="a backup's name (default: the newest sound one)")
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    parser.set_defaults(act=run)


def run(given: argparse.Namespace) -> int:
    """Bring a backup back, after asking."""
    from ralph.upkeep import find_project, preview_restore, restore_project

    root = find_project(directory_of(given))
    if given.dry_run or not given.yes:
        _refuse_without_a_person(given)
        _explain(preview_restore(root, given.name))
        if given.dry_run or not _agreed():
            print("Nothing was changed.")
            return 0 if given.dry_run else 1
    done = restore_project(root, given.name)
    if given.yes:
        _explain(done)
    print("Restored what was left." if done.is_own else f"Restored {safe(done.backup.path)}.")
    if done.kept:
        print(f"The database as it was is kept in {safe(done.kept)}.")
    return 0


def _refuse_without_a_person(given: argparse.Namespace) -> None:
    from ralph.errors import UsageError

    if not given.dry_run and not sys.stdin.isatty():
        raise UsageError("There is nobody to ask. Say --yes to restore, or --dry-run to see what that would do.")


def _agreed() -> bool:
    try:
        return input("Put it in the place of the database? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False


def _explain(plan: Restored) -> None:
    for line in plan.passed_over:
        print(f"Passed over: {safe(line)}")
    for problem in plan.problems[:SHOWN_PROBLEMS]:
        print(f"The database: {safe(problem)}")
    if plan.is_own:
        print(f"What is left of it is sound, and newer than any backup: {contents(plan.backup)}.")
    else:
        print(f"The backup: {Path(plan.backup.path).name}, of {moment(plan.backup.made_at)}: {contents(plan.backup)}.")
    print(plan.lost)
    if plan.brought_back:
        memories = "1 memory is" if plan.brought_back == 1 else f"{plan.brought_back:,} memories are"
        print(f"Of the damaged database, {memories} intact and taken over.")
