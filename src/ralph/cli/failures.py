"""`ralph failures`."""

from __future__ import annotations

from ralph.cli.output import (
    action_adder,
    add_format_option,
    add_last_option,
    format_time,
    parse_int,
    print_json,
    print_list,
)
from ralph.core.paging import Page
from ralph.core.records import category_word, stored_category
from ralph.loop.failure_text import report_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ralph.project import Project

NO_FAILURES = "No failures recorded."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    action = action_adder(parser)
    sub = action("list", list_reports, "List failure reports, newest first")
    sub.add_argument("--task", metavar="ID", help="only of this task")
    sub.add_argument("--category", metavar="WORD", help="only of this category")
    sub.add_argument("--fingerprint", metavar="ID", help="only with this fingerprint, as shown by failures stats")
    add_last_option(sub, "reports")
    add_format_option(sub)
    sub = action("show", show, "Show the failure reports of a task")
    sub.add_argument("id", help="id of the task")
    sub.add_argument("--attempt", type=parse_int, metavar="N", help="only of this attempt")
    add_format_option(sub)
    sub = action("stats", stats, "Count failures by category or by fingerprint")
    groups = ("category", "fingerprint")
    sub.add_argument("--by", choices=groups, default="category", help="what to group by (default: category)")
    add_format_option(sub)


def list_reports(project: Project, args: argparse.Namespace) -> None:
    """List failure reports, newest first."""
    reports = project.journal.failures(
        Page(limit=args.last),
        task=args.task,
        category=stored_category(args.category or "") or None,
        fingerprint=args.fingerprint,
    )
    rows = [
        (
            report.task_id,
            report.attempt_number,
            format_time(report.created_at),
            category_word(report.category),
            report.why.partition("\n")[0],
        )
        for report in reports
    ]
    is_filtered = args.task or args.category or args.fingerprint
    empty = "No failure matches." if is_filtered else NO_FAILURES
    print_list(args, reports, ("TASK", "ATTEMPT", "WHEN", "CATEGORY", "WHY"), rows, empty, droppable=("WHEN",))


def show(project: Project, args: argparse.Namespace) -> None:
    """Show the failure reports of a task in full."""
    reports = project.journal.failures_of(args.id, args.attempt)
    if args.format == "json":
        print_json(reports)
    else:
        print("\n".join(report_text(report) for report in reports) or f"No failures of {args.id} recorded.")


def stats(project: Project, args: argparse.Namespace) -> None:
    """Count failures by category or by fingerprint."""
    if args.by == "fingerprint":
        _print_fingerprints(project, args)
        return
    counts = project.journal.failure_counts()
    rows = [
        (category_word(row["category"]), row["failures"], row["tasks"], format_time(row["latest"])) for row in counts
    ]
    print_list(args, counts, ("CATEGORY", "FAILURES", "TASKS", "LATEST"), rows, NO_FAILURES)


def _print_fingerprints(project: Project, args: argparse.Namespace) -> None:
    groups = project.journal.failure_groups()
    rows = [
        (
            group.fingerprint,
            group.failures,
            group.tasks,
            format_time(group.latest),
            category_word(group.category),
            group.example.why.partition("\n")[0],
        )
        for group in groups
    ]
    headings = ("FINGERPRINT", "FAILURES", "TASKS", "LATEST", "CATEGORY", "WHY")
    print_list(args, groups, headings, rows, NO_FAILURES, droppable=("CATEGORY", "LATEST"))
