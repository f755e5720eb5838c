"""`ralph init`."""

from __future__ import annotations

from ralph.cli.output import directory_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--store",
        default="",
        metavar="URL",
        help="keep it in this database, postgresql://USER@HOST/DATABASE, or in this file",
    )
    parser.add_argument("--project", default="", metavar="NAME", help="its name there; one of this name is joined")
    parser.set_defaults(act=run)


def run(given: argparse.Namespace) -> int:
    """Set up a project; safe to run twice."""
    from ralph.location import init_project

    done = init_project(directory_of(given), url=given.store, name=given.project)
    for line in done:
        print(f"  {line}")
    if any(line.startswith(("created", "joined")) for line in done):
        print('Ready. Next: ralph task add "What should be done", then ralph run --agent claude;')
        print("or use the memory inside your own sessions: ralph setup claude")
    else:
        print("This project is set up already; nothing else was changed.")
    return 0
