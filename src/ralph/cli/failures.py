"""`ralph failures`."""

from __future__ import annotations

from ralph.cli.output import (
    add_format_option,
    format_time,
    open_project,
    parse_int,
    positive_count,
    print_json,
    print_table,
)
from ralph.core.paging import Page

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    sub = actions.add_parser("list", help="List failure reports", description="List failure reports, newest first.")
    sub.add_argument("--task", metavar="ID", help="only of this task")
    sub.add_argument("--category", metavar="WORD", help="only of this category")
    sub.add_argument("--fingerprint", metavar="ID", help="only with this fingerprint, as shown by failures stats")
    sub.add_argument(
        "--last",
        type=positive_count("reports"),
        default=20,
        metavar="N",
        help="maximum number of reports (default: 20)",
    )
    add_format_option(sub)
    sub.set_defaults(act=list_reports)
    sub = actions.add_parser(
        "show", help="Show the failure reports of a task", description="Show the failure reports of a task."
    )
    sub.add_argument("id", help="id of the task")
    sub.add_argument("--attempt", type=parse_int, metavar="N", help="only of this attempt")
    add_format_option(sub)
    sub.set_defaults(act=show)
    text = "Count failures by category or by fingerprint"
    sub = actions.add_parser("stats", help=text, description=f"{text}.")
    sub.add_argument(
        "--by", choices=("category", "fingerprint"), default="category", help="what to group by (default: category)"
    )
    add_format_option(sub)
    sub.set_defaults(act=stats)


def list_reports(args: argparse.Namespace) -> None:
    """List failure reports, newest first."""
    with open_project(args) as project:
        reports = project.journal.failures(
            Page(limit=args.last), task=args.task, category=args.category, fingerprint=args.fingerprint
        )
    if args.format == "json":
        print_json(reports)
    elif reports:
        rows = [
            (
                report.task_id,
                report.attempt_number,
                format_time(report.created_at),
                report.category,
                report.why.partition("\n")[0],
            )
            for report in reports
        ]
        print_table(("TASK", "ATTEMPT", "WHEN", "CATEGORY", "WHY"), rows, droppable=("WHEN",))
    else:
        is_filtered = args.task or args.category or args.fingerprint
        print("No failure matches." if is_filtered else "No failures recorded.")


def show(args: argparse.Namespace) -> None:
    """Show the failure reports of a task in full."""
    from ralph.loop.prompt import report_text

    with open_project(args) as project:
        reports = project.journal.failures_of(args.id, args.attempt)
    if args.format == "json":
        print_json(reports)
        return
    print("\n".join(report_text(report) for report in reports) or f"No failures of {args.id} recorded.")


def stats(args: argparse.Namespace) -> None:
    """Count failures by category or by fingerprint."""
    if args.by == "fingerprint":
        _print_fingerprints(args)
        return
    with open_project(args) as project:
        counts = project.journal.failure_counts()
    if args.format == "json":
        print_json(counts)
    elif counts:
        rows = [(row["category"], row["failures"], row["tasks"], format_time(row["latest"])) for row in counts]
        print_table(("CATEGORY", "FAILURES", "TASKS", "LATEST"), rows)
    else:
        print("No failures recorded.")


def _print_fingerprints(args: argparse.Namespace) -> None:
    with open_project(args) as project:
        groups = project.journal.failure_groups()
    if args.format == "json":
        print_json(groups)
    elif groups:
        rows = [
            (
                group.fingerprint,
                group.failures,
                group.tasks,
                format_time(group.latest),
                group.category,
                group.example.why.partition("\n")[0],
            )
            for group in groups
        ]
        headings = ("FINGERPRINT", "FAILURES", "TASKS", "LATEST", "CATEGORY", "WHY")
        print_table(headings, rows, droppable=("CATEGORY", "LATEST"))
    else:
        print("No failures recorded.")
