"""`ralph watch`."""

from __future__ import annotations

from ralph.cli.output import moment, open_project, safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from ralph.loop.progress import Event
    from ralph.records import Run

NOTHING_TO_DO = 3

EPILOG = """\
It shows what ralph run shows, from the attempt at work on, until the run ends. The run does not
notice; Ctrl+C ends the watching alone.

Exit codes: 0 the run ended, 1 it cannot be watched here or was killed, 3 nothing is running,
130 interrupted.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    parser.add_argument("run", nargs="?", metavar="RUN", default="", help="which run (default: the latest)")
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="json prints one object for each event"
    )
    parser.set_defaults(act=run)


def run(given: argparse.Namespace) -> int:
    """Show what a run tells until it ends."""
    from ralph import live

    with open_project(given) as project:
        watched = live.to_watch(project.store, given.run)
        if watched is None:
            print("Nothing is running: no run was started yet. Start one with: ralph run")
            return NOTHING_TO_DO
        if live.is_over(watched):
            print(f"Nothing is running: {_ending(watched)}")
            return NOTHING_TO_DO
        project.store.rest()  # it may take hours
        live.require(project.directory, watched)
        if _show(given.format, live.watch(project.directory, watched)):
            return 0
        watched = project.store.attempts.run(watched.id)
        print(f"The run is over: {_ending(watched)}")
        return 0 if watched.ended_at else 1


def _show(format: str, events: Iterator[Event]) -> bool:
    """Show events as they come; say whether the last of them was the run's end."""
    from ralph.cli.progress import open_view

    what = ""
    with open_view(format) as view:
        for event in events:
            what = event.what
            try:
                view.tell(event)
            except (AssertionError, LookupError, TypeError, ValueError):
                continue  # an agent can write there too: then it is none of ours
    return what == "run_ended"


def _ending(run: Run) -> str:
    if run.ended_at is None:
        return f"{run.id} was killed before it ended. Go on with it: ralph run --resume {run.id}"
    return f"{run.id} ended {moment(run.ended_at)}: {safe(run.ending)}."
