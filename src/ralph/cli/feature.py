"""`ralph feature`."""

from __future__ import annotations

from ralph.cli.output import add_format_option, open_project, print_json, print_table, read_input_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    sub = actions.add_parser("add", help="Add a feature", description="Add a feature.")
    sub.add_argument("name", help="name of the feature")
    sub.add_argument("--spec", metavar="FILE", help="file with the spec; - reads standard input")
    sub.add_argument("--plan", metavar="FILE", help="file with the implementation plan")
    sub.add_argument(
        "--format",
        choices=("table", "json", "quiet"),
        default="table",
        help="quiet prints only the id (default: table)",
    )
    sub.set_defaults(act=add)
    sub = actions.add_parser("list", help="List features", description="List features.")
    add_format_option(sub)
    sub.set_defaults(act=list_features)
    sub = actions.add_parser("show", help="Show a feature", description="Show a feature with its tasks.")
    sub.add_argument("feature", help="id or name")
    add_format_option(sub)
    sub.set_defaults(act=show)
    sub = actions.add_parser("delete", help="Delete a feature", description="Delete a feature; its tasks are kept.")
    sub.add_argument("feature", help="id or name")
    sub.set_defaults(act=delete)


def add(args: argparse.Namespace) -> None:
    """Add a feature."""
    spec = read_input_text(args.spec) if args.spec else ""
    plan = read_input_text(args.plan) if args.plan else ""
    with open_project(args) as project:
        feature = project.features.add(args.name, spec, plan)
    if args.format == "json":
        print_json(feature)
    else:
        print(feature.id if args.format == "quiet" else f"Feature added: {feature.id}")


def list_features(args: argparse.Namespace) -> None:
    """List features."""
    with open_project(args) as project:
        views = project.features.list()
    if args.format == "json":
        print_json(views)
    elif views:
        rows = [
            (
                view.feature.id,
                f"{sum(task.status == 'done' for task in view.tasks)}/{len(view.tasks)}",
                view.feature.name,
            )
            for view in views
        ]
        print_table(("ID", "DONE", "NAME"), rows)
    else:
        print("No features. Add one with: ralph feature add NAME --spec FILE")


def show(args: argparse.Namespace) -> None:
    """Show a feature with its tasks."""
    with open_project(args) as project:
        view = project.features.show(args.feature)
    if args.format == "json":
        print_json(view)
        return
    feature, tasks = view.feature, view.tasks
    print(f"{feature.id}  {feature.name}")
    for name, text in (("Spec", feature.spec), ("Plan", feature.plan)):
        if text:
            print(f"\n{name}:\n{text}")
    if tasks:
        print()
        print_table(("TASK", "STATUS", "TITLE"), [(task.id, task.status, task.title) for task in tasks])


def delete(args: argparse.Namespace) -> None:
    """Delete a feature."""
    with open_project(args) as project:
        feature = project.features.delete(args.feature)
    print(f"Feature deleted: {feature.id}")
