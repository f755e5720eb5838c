"""`ralph store`."""

from __future__ import annotations

import sys

from ralph.cli.output import add_format, directory_of, plural, print_json, print_table, safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ralph.store.copying import Copied

SHOWN_DIGEST = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    text = "Copy a project to another database"
    one = actions.add_parser("copy", help=text, description=text + ", and compare every row.")
    one.add_argument("source", metavar="FROM", help="a project directory, a database file, or a postgresql:// URL")
    one.add_argument("target", metavar="TO", help="the same; a file or tables that are not there yet are made")
    one.add_argument("--project", default="", metavar="NAME", help="which project (default: all there are)")
    one.add_argument("--as", dest="name", default="", metavar="NAME", help="what to call it there")
    add_format(one)
    one.set_defaults(act=copy)
    text = "Show where the project is kept"
    one = actions.add_parser("show", help=text, description=text + ", and how much of it there is.")
    add_format(one)
    one.set_defaults(act=show)


def copy(given: argparse.Namespace) -> int:
    """Copy a project, and say what is in both databases now."""
    from ralph.upkeep import copy_store

    try:
        done = copy_store(given.source, given.target, given.project, given.name, _tell)
    finally:
        _tell("", 0, 0)
    if given.format == "json":
        print_json(done)
        return 0
    for one in done:
        _print_copied(one)
    return 0


def _print_copied(one: Copied) -> None:
    print_table(
        ("TABLE", "ROWS", "SHA-256"),
        [(table.table, f"{table.rows:,}", table.digest[:SHOWN_DIGEST]) for table in one.tables],
    )
    rows = plural(sum(table.rows for table in one.tables), "row")
    name, target = safe(one.project), safe(one.target)
    if one.was_there:
        print(f"{name} is in {target} already, and is the same: {rows}.")
    else:
        print(f"{'Finished copying' if one.went_on else 'Copied'} {name} to {target}: {rows}, the same on both sides.")
    if one.has_changed:
        print(f"Somebody has written to {safe(one.source)} since: that is not in the copy.")


def show(given: argparse.Namespace) -> int:
    """Say where the project is kept."""
    from pathlib import Path

    from ralph.location import find_root
    from ralph.upkeep import show_store

    found = show_store(Path(find_root(directory_of(given))))
    if given.format == "json":
        print_json(found)
        return 0
    print(f"database  {found.database} {found.version}, tables of version {found.schema}")
    print(f"where     {safe(found.where)}")
    print(f"project   {safe(found.project)} ({found.id})")
    if found.database == "postgresql":
        print(f"pgvector  {found.pgvector or 'not used'}")
    print()
    print_table(("TABLE", "ROWS"), [(table, f"{count:,}") for table, count in found.rows.items()])
    return 0


def _tell(table: str, done: int, total: int) -> None:
    """Show on a terminal how far a copy is."""
    if sys.stderr.isatty():
        text = f"{table}: {done:,} of {total:,}" if table else ""
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
