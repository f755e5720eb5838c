"""`ralph failures`."""

from __future__ import annotations

from ralph.cli.output import add_format, count_of, moment, open_project, print_json, print_table, whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    one = actions.add_parser("list", help="List failure reports", description="List failure reports, freshest first.")
    one.add_argument("--task", metavar="ID")
    one.add_argument("--category", metavar="WORD")
    one.add_argument("--fingerprint", metavar="ID", help="only those that are the same, as failures stats shows it")
    one.add_argument("--last", type=count_of("reports"), default=20, metavar="N", help="how many (default: 20)")
    add_format(one)
    one.set_defaults(act=list_reports)
    one = actions.add_parser("show", help="Show the reports of a task", description="Show the reports of a task.")
    one.add_argument("id", help="the task")
    one.add_argument("--attempt", type=whole_number, metavar="N", help="only of this attempt")
    add_format(one)
    one.set_defaults(act=show)
    says = "Count failures by category, or those that are the same"
    one = actions.add_parser("stats", help=says, description=f"{says}.")
    one.add_argument("--by", choices=("category", "fingerprint"), default="category", help="(default: category)")
    add_format(one)
    one.set_defaults(act=stats)


def list_reports(args: argparse.Namespace) -> None:
    """List failure reports, freshest first."""
    with open_project(args) as project:
        reports, _ = project.past.failures(
            args.last, task=args.task, category=args.category, fingerprint=args.fingerprint
        )
    if args.format == "json":
        print_json(reports)
    elif reports:
        rows = [
            (r.task_id, r.attempt_number, moment(r.created_at), r.category, r.why.partition("\n")[0]) for r in reports
        ]
        print_table(("TASK", "ATTEMPT", "WHEN", "CATEGORY", "WHY"), rows)
    else:
        is_narrowed = args.task or args.category or args.fingerprint
        print("No failure matches." if is_narrowed else "No failures recorded.")


def show(args: argparse.Namespace) -> None:
    """Show the reports of a task whole."""
    from ralph.loop.prompt import report_text

    with open_project(args) as project:
        reports = project.failures_of(args.id, args.attempt)
    if args.format == "json":
        print_json(reports)
        return
    print("\n".join(report_text(report) for report in reports) or f"No failure of {args.id} is recorded.")


def stats(args: argparse.Namespace) -> None:
    """Count failures by category, or those that are the same."""
    if args.by == "fingerprint":
        _count_the_same(args)
        return
    with open_project(args) as project:
        counts = project.failure_counts()
    if args.format == "json":
        print_json(counts)
    elif counts:
        rows = [(row["category"], row["failures"], row["tasks"], moment(row["latest"])) for row in counts]
        print_table(("CATEGORY", "FAILURES", "TASKS", "LATEST"), rows)
    else:
        print("No failures recorded.")


def _count_the_same(args: argparse.Namespace) -> None:
    with open_project(args) as project:
        groups = project.past.failure_groups()
    if args.format == "json":
        print_json(groups)
    elif groups:
        rows = [
            (
                one.fingerprint,
                one.failures,
                one.tasks,
                moment(one.latest),
                one.category,
                one.example.why.partition("\n")[0],
            )
            for one in groups
        ]
        print_table(("FINGERPRINT", "FAILURES", "TASKS", "LATEST", "CATEGORY", "WHY"), rows, spare=("CATEGORY",))
    else:
        print("No failures recorded.")
