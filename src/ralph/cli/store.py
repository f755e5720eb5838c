"""`ralph store`."""

from __future__ import annotations

from pathlib import Path

from ralph.cli.bars import progress_bar
from ralph.cli.output import add_format_option, pluralize, print_json, print_table, printable, working_directory
from ralph.maintenance import copy_store, show_store
from ralph.workspace import find_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ralph.store.maintenance.copy import CopyResult

DIGEST_LENGTH_SHOWN = 12
"""Number of digest characters that are printed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    text = "Copy a project to another database"
    sub = actions.add_parser("copy", help=text, description=text + " and verify every row.")
    sub.add_argument("source", metavar="FROM", help="project directory, database file or postgresql:// URL")
    sub.add_argument("target", metavar="TO", help="the same; a missing file or missing tables are created")
    sub.add_argument("--project", default="", metavar="NAME", help="project to copy (default: all)")
    sub.add_argument("--as", dest="name", default="", metavar="NAME", help="name of the copy")
    add_format_option(sub)
    sub.set_defaults(act=copy)
    text = "Show where the project is stored"
    sub = actions.add_parser("show", help=text, description=text + " and how many rows it has.")
    add_format_option(sub)
    sub.set_defaults(act=show)


def copy(args: argparse.Namespace) -> int:
    """Copy a project and print the rows and digests of its tables."""
    with progress_bar():
        copies = copy_store(args.source, args.target, args.project, args.name)
    if args.format == "json":
        print_json(copies)
        return 0
    for copied in copies:
        _print_copied(copied)
    return 0


def _print_copied(copied: CopyResult) -> None:
    print_table(
        ("TABLE", "ROWS", "SHA-256"),
        [(table.table, f"{table.rows:,}", table.digest[:DIGEST_LENGTH_SHOWN]) for table in copied.tables],
    )
    rows = pluralize(sum(table.rows for table in copied.tables), "row")
    name, target = printable(copied.project), printable(copied.target)
    if copied.was_there:
        print(f"{name} is already in {target} and identical: {rows}.")
    else:
        print(f"Copied {name} to {target}: {rows}, verified.")
    if copied.has_changed:
        print(f"{printable(copied.source)} was changed during the copy. Those changes are not in the copy.")


def show(args: argparse.Namespace) -> int:
    """Show where the project is stored."""
    info = show_store(Path(find_root(working_directory(args))))
    if args.format == "json":
        print_json(info)
        return 0
    print(f"database  {info.database} {info.version}, schema version {info.schema}")
    print(f"location  {printable(info.where)}")
    print(f"project   {printable(info.project)} ({info.id})")
    print()
    print_table(("TABLE", "ROWS"), [(table, f"{count:,}") for table, count in info.rows.items()])
    return 0
