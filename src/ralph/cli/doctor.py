"""`ralph doctor`."""

from __future__ import annotations

from ralph.cli.output import add_format, colour, directory_of, print_json, safe, wrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ralph.doctor import Finding

INDENT = " " * 18


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--reindex",
        action="store_true",
        help="make the search indexes anew from the texts first",
    )
    add_format(parser)
    parser.set_defaults(act=examine)


def examine(args: argparse.Namespace) -> int:
    """Look at everything; 1 when something is wrong."""
    from pathlib import Path

    from ralph.doctor import examine, reindex
    from ralph.location import find_root
    from ralph.setup.connections import examine_connections

    root = Path(find_root(directory_of(args)))
    made = [reindex(root)] if args.reindex else []
    findings = [*made, *examine(root), *examine_connections(root)]
    wrong = [one for one in findings if not one.is_fine]
    if args.format == "json":
        print_json(findings)
        return 1 if wrong else 0
    for one in findings:
        mark = colour("done", "ok   ") if one.is_fine else colour("failed", "WRONG")
        print(mark + wrapped(safe(one.says), f"  {one.about:<9}  ", INDENT))
        if one.mend and not one.is_fine:
            print(wrapped(safe(one.mend), f"{INDENT}-> ", f"{INDENT}   "))
    print(f"\n{_ending(findings)}")
    return 1 if wrong else 0


def _ending(findings: Sequence[Finding]) -> str:
    """Say in one line what it all comes to, and what waits for a person."""
    wrong = sum(not one.is_fine for one in findings)
    state = f"{wrong} things need attention" if wrong > 1 else "One thing needs attention" if wrong else "All is well"
    waits = [one.waits for one in findings if one.waits]
    return "; ".join([state, *waits]) if waits else f"{state}."
