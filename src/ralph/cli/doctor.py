"""`ralph doctor`."""

from __future__ import annotations

from ralph.cli.output import add_format, colour, directory_of, plural, print_json, safe, wrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ralph.integrations.doctor import Finding

INDENT = " " * 18
"""Indent of continuation lines, below the text of a finding."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--reindex",
        action="store_true",
        help="rebuild the search indexes first",
    )
    add_format(parser)
    parser.set_defaults(act=examine)


def examine(args: argparse.Namespace) -> int:
    """Print all findings. Returns 1 if there is a problem."""
    from pathlib import Path

    from ralph.integrations.doctor import examine, reindex
    from ralph.integrations.setup.connections import examine_connections
    from ralph.workspace import find_root

    root = Path(find_root(directory_of(args)))
    rebuilt = [reindex(root)] if args.reindex else []
    findings = [*rebuilt, *examine(root), *examine_connections(root)]
    problems = [finding for finding in findings if not finding.is_fine]
    if args.format == "json":
        print_json(findings)
        return 1 if problems else 0
    for finding in findings:
        mark = colour("done", "ok   ") if finding.is_fine else colour("failed", "FAIL ")
        print(mark + wrapped(safe(finding.says), f"  {finding.about:<9}  ", INDENT))
        if finding.mend and not finding.is_fine:
            print(wrapped(safe(finding.mend), f"{INDENT}-> ", f"{INDENT}   "))
    print(f"\n{_summary(findings)}")
    return 1 if problems else 0


def _summary(findings: Sequence[Finding]) -> str:
    """Return a one-line summary of the findings, including what needs a decision."""
    problems = sum(not finding.is_fine for finding in findings)
    state = f"{plural(problems, 'problem')} found" if problems else "No problems found"
    pending = [finding.waits for finding in findings if finding.waits]
    return "; ".join([state, *pending]) if pending else f"{state}."
