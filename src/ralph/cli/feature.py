"""`ralph feature`."""

from __future__ import annotations

from ralph.cli.output import action_adder, add_format_option, print_json, print_list, print_table, read_input_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ralph.project import Project


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    action = action_adder(parser)
    sub = action("add", add, "Add a feature")
    sub.add_argument("name", help="name of the feature")
    sub.add_argument("--spec", metavar="FILE", help="file with the spec; - reads standard input")
    sub.add_argument("--plan", metavar="FILE", help="file with the implementation plan")
    add_format_option(sub, "quiet", help="quiet prints only the id")
    add_format_option(action("list", list_features, "List features"))
    sub = action("show", show, "Show a feature with its tasks")
    sub.add_argument("feature", help="id or name")
    add_format_option(sub)
    sub = action("delete", delete, "Delete a feature; its tasks are kept")
    sub.add_argument("feature", help="id or name")


def add(project: Project, args: argparse.Namespace) -> None:
    """Add a feature."""
    spec = read_input_text(args.spec) if args.spec else ""
    plan = read_input_text(args.plan) if args.plan else ""
    feature = project.features.add(args.name, spec, plan)
    if args.format == "json":
        print_json(feature)
    else:
        print(feature.id if args.format == "quiet" else f"Feature added: {feature.id}")


def list_features(project: Project, args: argparse.Namespace) -> None:
    """List features."""
    views = project.features.list()
    rows = [
        (view.feature.id, f"{sum(task.status == 'done' for task in view.tasks)}/{len(view.tasks)}", view.feature.name)
        for view in views
    ]
    empty = "No features. Add one with: ralph feature add NAME --spec FILE"
    print_list(args, views, ("ID", "DONE", "NAME"), rows, empty)


def show(project: Project, args: argparse.Namespace) -> None:
    """Show a feature with its tasks."""
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


def delete(project: Project, args: argparse.Namespace) -> None:
    """Delete a feature."""
    feature = project.features.delete(args.feature)
    print(f"Feature deleted: {feature.id}")
