"""`ralph journal`."""

from __future__ import annotations

from ralph.cli.output import add_format, count_of, moment, open_project, print_json, print_table
from ralph.records import Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ralph.records import Attempt


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    one = actions.add_parser("list", help="List the latest entries", description="List the latest entries.")
    one.add_argument("--run", metavar="ID")
    one.add_argument("--task", metavar="ID")
    one.add_argument("--outcome", choices=tuple(Outcome))
    one.add_argument("--last", type=count_of("entries"), default=20, metavar="N", help="how many (default: 20)")
    add_format(one)
    one.set_defaults(act=list_entries)
    one = actions.add_parser("search", help="Find entries by their notes", description="Find entries by their notes.")
    one.add_argument("query", nargs="+")
    one.add_argument("--last", type=count_of("entries"), default=20, metavar="N", help="how many (default: 20)")
    add_format(one)
    one.set_defaults(act=search)
    one = actions.add_parser("show", help="Show one entry", description="Show one entry.")
    one.add_argument("entry", help="RUN/ITERATION, or an iteration of the latest run")
    add_format(one)
    one.set_defaults(act=show)


def list_entries(given: argparse.Namespace) -> None:
    """List the latest entries, newest last."""
    with open_project(given) as project:
        entries = project.journal(given.last, run=given.run, task=given.task, outcome=_outcome(given))
    narrowed = given.run or given.task or given.outcome
    nothing = "No entry matches." if narrowed else "No entries yet. They come with: ralph run"
    _print(list(reversed(entries)), given, nothing)


def search(given: argparse.Namespace) -> None:
    """Find entries by their notes, best first."""
    with open_project(given) as project:
        entries = project.search_journal(" ".join(given.query), given.last)
    _print(entries, given, "Nothing found.")


def show(given: argparse.Namespace) -> None:
    """Show one entry whole."""
    from ralph.loop.prompt import journal_text

    with open_project(given) as project:
        entry = project.journal_entry(given.entry)
    if given.format == "json":
        print_json(entry)
        return
    text, _ = journal_text([entry], 1_000_000, "")
    print(text.removeprefix("## Run Journal\n").strip())
    for name, value in (("Attempt", entry.number), ("Reason", entry.reason), ("Error", entry.error_type)):
        if value:
            print(f"- **{name}**: {value}")


def _outcome(given: argparse.Namespace) -> Outcome | None:
    return Outcome(given.outcome) if given.outcome else None


def _print(entries: list[Attempt], given: argparse.Namespace, nothing: str) -> None:
    if given.format == "json":
        print_json(entries)
    elif entries:
        rows = [
            (
                f"{entry.run_id}/{entry.iteration}",
                moment(entry.started_at),
                entry.task_id or "-",
                entry.number or "-",
                entry.outcome or "running",
                f"{entry.seconds:.1f}s",
                entry.notes or entry.reason or "-",
            )
            for entry in entries
        ]
        print_table(("ENTRY", "WHEN", "TASK", "ATTEMPT", "OUTCOME", "TIME", "NOTES"), rows, spare=("WHEN", "ATTEMPT"))
    else:
        print(nothing)
