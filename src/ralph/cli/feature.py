"""`ralph feature`."""

from __future__ import annotations

import sys

from ralph.cli.output import action_adder, add_format_option, print_json, print_list, print_table, read_input_text
from ralph.core.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ralph.core.records import Feature
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
    sub.add_argument(
        "--part", type=int, nargs="+", metavar="NUMBER", help="print only these parts of the spec and plan"
    )
    sub = action("update", update, "Change a feature")
    sub.add_argument("feature", help="id or name")
    sub.add_argument("--name", help="new name")
    sub.add_argument("--spec", metavar="FILE", help="file with the new spec; - reads standard input")
    sub.add_argument("--plan", metavar="FILE", help="file with the new plan")
    add_format_option(sub, "quiet", help="quiet prints only the id")
    sub = action("delete", delete, "Delete a feature; its tasks are kept")
    sub.add_argument("feature", help="id or name")


def add(project: Project, args: argparse.Namespace) -> None:
    """Add a feature."""
    spec = read_input_text(args.spec) if args.spec else ""
    plan = read_input_text(args.plan) if args.plan else ""
    _print_changed(args, project.features.add(args.name, spec, plan), "added")


def update(project: Project, args: argparse.Namespace) -> None:
    """Change a feature."""
    if args.name is None and not args.spec and not args.plan:
        raise UsageError("Nothing to change: give --name, --spec or --plan.", code="nothing-to-change")
    spec = read_input_text(args.spec) if args.spec else None
    plan = read_input_text(args.plan) if args.plan else None
    _print_changed(args, project.features.update(args.feature, name=args.name, spec=spec, plan=plan), "updated")


def _print_changed(args: argparse.Namespace, feature: Feature, what: str) -> None:
    from ralph.loop.authored_text import size_warnings

    if args.format == "json":
        print_json(feature)
    else:
        print(feature.id if args.format == "quiet" else f"Feature {what}: {feature.id}")
    sys.stdout.flush()
    for warning in size_warnings(feature.spec, feature.plan):
        print(f"Warning: {warning}", file=sys.stderr)


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
    if args.part:
        parts = project.features.read_parts(args.feature, args.part)
        print_json(parts) if args.format == "json" else print("\n".join(part.text.strip("\n") for part in parts))
        return
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
