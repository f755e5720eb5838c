"""`ralph watch`."""

from __future__ import annotations

from ralph.cli.output import format_time, open_project, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from ralph.core.records import Run
    from ralph.loop.progress import ProgressEvent

NOTHING_TO_DO = 3

EPILOG = """\
Shows what ralph run shows, starting with the current attempt, until the run ends. Ctrl+C stops
watching; the run continues.

Exit codes: 0 the run ended, 1 the run was killed or cannot be watched from here, 3 nothing is
running, 130 interrupted.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    parser.add_argument("run", nargs="?", metavar="RUN", default="", help="id of the run (default: the latest)")
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="json prints one object per event (default: text)"
    )
    parser.set_defaults(act=run)


def run(args: argparse.Namespace) -> int:
    """Show the events of a run until it ends."""
    from ralph.loop import run_log

    with open_project(args) as project:
        target = run_log.find_run_to_watch(project.store, args.run)
        if target is None:
            print("Nothing is running: there are no runs yet. Start one with: ralph run")
            return NOTHING_TO_DO
        if run_log.is_run_over(target):
            print(f"Nothing is running: {_ending(target)}")
            return NOTHING_TO_DO
        project.store.database.release_connection()  # watching may take hours
        run_log.require_watchable(project.directory, target)
        if _show(args.format, run_log.watch_events(project.directory, target)):
            return 0
        target = project.store.runs.get(target.id)
        print(f"The run has ended: {_ending(target)}")
        return 0 if target.ended_at else 1


def _show(format: str, events: Iterator[ProgressEvent]) -> bool:
    """Show events as they arrive. Return whether the last one was the end of the run."""
    from ralph.cli.progress import open_progress_view

    last_event = ""
    with open_progress_view(format) as view:
        for event in events:
            last_event = event.what
            try:
                view.show(event)
            except (AssertionError, LookupError, TypeError, ValueError):
                continue  # agents can write to this file too, so an event may be malformed
    return last_event == "run_ended"


def _ending(run: Run) -> str:
    if run.ended_at is None:
        return f"{run.id} was killed. To continue it: ralph run --resume {run.id}"
    return f"{run.id} ended {format_time(run.ended_at)}: {printable(run.ending)}."
