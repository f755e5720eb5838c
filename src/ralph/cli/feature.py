"""`ralph feature`."""

from __future__ import annotations

from ralph.cli.output import add_format, open_project, print_json, print_table, read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    one = actions.add_parser("add", help="Add a feature", description="Add a feature.")
    one.add_argument("name")
    one.add_argument("--spec", metavar="FILE", help="what is wanted; - reads standard input")
    one.add_argument("--plan", metavar="FILE", help="how it will be built")
    one.add_argument("--format", choices=("table", "json", "quiet"), default="table")
    one.set_defaults(act=add)
    one = actions.add_parser("list", help="List features", description="List features.")
    add_format(one)
    one.set_defaults(act=list_features)
    one = actions.add_parser("show", help="Show a feature", description="Show a feature with its tasks.")
    one.add_argument("feature", help="its id or name")
    add_format(one)
    one.set_defaults(act=show)
    one = actions.add_parser("delete", help="Delete a feature", description="Delete a feature; its tasks stay.")
    one.add_argument("feature", help="its id or name")
    one.set_defaults(act=delete)


def add(given: argparse.Namespace) -> None:
    """Add a feature."""
    spec = read_text(given.spec) if given.spec else ""
    plan = read_text(given.plan) if given.plan else ""
    with open_project(given) as project:
        feature = project.add_feature(given.name, spec, plan)
    if given.format == "json":
        print_json(feature)
    else:
        print(feature.id if given.format == "quiet" else f"Feature added: {feature.id}")


def list_features(given: argparse.Namespace) -> None:
    """List features."""
    with open_project(given) as project:
        views = project.features()
    if given.format == "json":
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


def show(given: argparse.Namespace) -> None:
    """Show a feature."""
    with open_project(given) as project:
        view = project.feature(given.feature)
    if given.format == "json":
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


def delete(given: argparse.Namespace) -> None:
    """Delete a feature."""
    with open_project(given) as project:
        feature = project.delete_feature(given.feature)
    print(f"Feature deleted: {feature.id}")
