"""`ralph doctor`."""

from __future__ import annotations

from ralph.cli.output import add_format, colour, directory_of, print_json, safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_format(parser)
    parser.set_defaults(act=examine)


def examine(given: argparse.Namespace) -> int:
    """Look at everything; 1 when something is wrong."""
    from ralph.doctor import examine
    from ralph.project import find_root

    findings = examine(find_root(directory_of(given)))
    wrong = [one for one in findings if not one.is_fine]
    if given.format == "json":
        print_json(findings)
        return 1 if wrong else 0
    for one in findings:
        mark = colour("done", "ok   ") if one.is_fine else colour("failed", "WRONG")
        print(f"{mark}  {one.about:<9}  {safe(one.says)}")
        if not one.is_fine:
            print(f"       {'':<9}  -> {safe(one.mend)}")
    print(
        f"\n{len(wrong)} things need attention."
        if len(wrong) > 1
        else "\nOne thing needs attention."
        if wrong
        else "\nAll is well."
    )
    return 1 if wrong else 0
