"""`ralph doctor`."""

from __future__ import annotations

from pathlib import Path

from ralph.cli.bars import progress_bar
from ralph.cli.output import (
    add_format_option,
    color_by_status,
    pluralize,
    print_json,
    printable,
    working_directory,
    wrap_line,
)
from ralph.integrations.doctor import Finding, diagnose, reindex
from ralph.integrations.setup.connections import check_connections
from ralph.workspace import find_worktree

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

INDENT = " " * 18
"""Indent of continuation lines, below the text of a finding."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--reindex",
        action="store_true",
        help="rebuild the search indexes first",
    )
    add_format_option(parser)
    parser.set_defaults(act=examine)


def examine(args: argparse.Namespace) -> int:
    """Print all findings. Returns 1 if there is a problem."""
    root, worktree = map(Path, find_worktree(working_directory(args)))
    with progress_bar():
        rebuilt = [reindex(root)] if args.reindex else []
        findings = [*_linked(root, worktree), *rebuilt, *diagnose(root), *check_connections(worktree)]
    problems = [finding for finding in findings if not finding.is_fine]
    if args.format == "json":
        print_json(findings)
        return 1 if problems else 0
    for finding in findings:
        status, mark = _mark(finding)
        line = wrap_line(printable(finding.says), f"{mark}  {finding.about:<9}  ", INDENT)
        print(color_by_status(status, mark) + line.removeprefix(mark))
        if finding.mend:
            print(wrap_line(printable(finding.mend), f"{INDENT}-> ", f"{INDENT}   "))
    print(f"\n{_summary(findings)}")
    return 1 if problems else 0


def _mark(finding: Finding) -> tuple[str, str]:
    """Return the status that colors a finding, and its mark."""
    if not finding.is_fine:
        return "failed", "FAIL "
    return ("blocked", "warn ") if finding.mend else ("done", "ok   ")


def _linked(root: Path, worktree: Path) -> list[Finding]:
    """Return a finding that a linked worktree uses the project of the main worktree."""
    return (
        [Finding(about="project", is_fine=True, says=f"that of the main worktree: {root}")] if root != worktree else []
    )


def _summary(findings: Sequence[Finding]) -> str:
    """Return a one-line summary of the findings, including what needs a decision."""
    problems = sum(not finding.is_fine for finding in findings)
    state = f"{pluralize(problems, 'problem')} found" if problems else "No problems found"
    pending = [finding.waits for finding in findings if finding.waits]
    return "; ".join([state, *pending]) if pending else f"{state}."
