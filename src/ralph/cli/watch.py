"""`ralph watch`."""

from __future__ import annotations

import sys

from ralph.cli.output import format_time, open_project, printable
from ralph.core.errors import RalphError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ralph.cli.progress import ProgressView
    from ralph.cli.watch_keys import WatchKeys
    from ralph.core.records import Run
    from ralph.loop.progress import ProgressEvent
    from ralph.loop.run_watch import RunWatcher
    from ralph.project import Project

NOTHING_TO_DO = 3
POLL_SECONDS = 0.1
"""Interval between reads of the logs, in seconds."""
WAITING = "Waiting for a run. Start one with: ralph run"

EPILOG = """\
Shows what ralph run shows, starting with the current attempts, for all runs of this machine, until
the last of them ends. If none is active, it waits for one. Ctrl+C and q stop watching; the run
continues.

Keys in a terminal: p pause or continue, s stop, a answer a question, l log of the agent, m memories
shown to it, q quit.

Exit codes: 0 the runs ended, or q, 1 a run was killed or cannot be watched from here, 3 nothing is
running (with --no-wait or RUN), 130 interrupted.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = EPILOG
    parser.add_argument("run", nargs="?", metavar="RUN", default="", help="id of the run (default: all active ones)")
    parser.add_argument("--no-wait", action="store_true", help="exit with status 3 if nothing is running")
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="json prints one object per event (default: text)"
    )
    parser.set_defaults(act=run)


def run(args: argparse.Namespace) -> int:
    """Show the events of runs until they end."""
    from ralph.loop.run_watch import RunWatcher

    with open_project(args) as project:
        watcher = RunWatcher(project.store, project.directory, args.run)
        watcher.look()
        if not watcher.followed and (args.no_wait or args.run):
            return _print_nothing(project, args.run)
        if not _watch(project, watcher, args.format):
            return 0
        killed = [one.run.id for one in watcher.ended if not one.has_ended]
        endings = [project.store.runs.get(id) for id in killed]
        for one in endings:
            print(f"The run has ended: {_ending(one)}", file=sys.stderr if args.format == "json" else None)
        return 0 if all(one.ended_at for one in endings) else 1


def _print_nothing(project: Project, run_id: str) -> int:
    """Say why no run can be watched; raise an error if that is because it is elsewhere."""
    from ralph.loop import run_log

    target = run_log.find_run_to_watch(project.store, run_id)
    if target is None:
        print("Nothing is running: there are no runs yet. Start one with: ralph run")
        return NOTHING_TO_DO
    if not run_log.is_run_over(target):
        message = f"{target.id} runs on another machine or in another container. Watch it there."
        raise RalphError(message, code="run-elsewhere")
    print(f"Nothing is running: {_ending(target)}")
    return NOTHING_TO_DO


def _watch(project: Project, watcher: RunWatcher, format: str) -> bool:
    """Show events as they arrive, and do what keys say; return whether the runs ended before a person quit."""
    from ralph.cli.keys import Keys, can_read_keys
    from ralph.cli.progress import open_progress_view
    from ralph.cli.watch_keys import WatchKeys, keys_help

    has_keys = format == "text" and can_read_keys()
    with Keys(is_on=has_keys) as keys, open_progress_view(format) as view:
        _introduce(view, watcher, format, keys_help() if has_keys else "")
        controls = WatchKeys(project, watcher, view, keys)
        while watcher.followed or not watcher.ended:
            events = watcher.poll()
            view.is_naming_runs = view.is_naming_runs or len(watcher.followed) + len(watcher.ended) > 1
            for run_id, event in events:
                _show(view, controls, event, run_id)
            if not watcher.followed:
                watcher.look()  # another one may have begun meanwhile
            key = keys.read(0.0 if events else POLL_SECONDS)
            if key and not controls.press(key):
                return False
            controls.drop_old_question()
            view.describe(WAITING, controls.help if has_keys else "")
    return True


def _introduce(view: ProgressView, watcher: RunWatcher, format: str, help: str) -> None:
    """Say that nothing runs yet, and which keys there are."""
    from ralph.cli.live_view import LiveProgressView

    view.describe(WAITING, help)
    if not isinstance(view, LiveProgressView):
        if not watcher.followed:
            print(WAITING, file=sys.stderr)
        if help:
            print(f"Keys: {help.replace('  ', ', ')}")


def _show(view: ProgressView, controls: WatchKeys, event: ProgressEvent, run_id: str) -> None:
    try:
        view.show(event, run_id)
        controls.follow(event, run_id)
    except (AssertionError, LookupError, TypeError, ValueError):
        pass  # agents can write to this file too, so an event may be malformed


def _ending(run: Run) -> str:
    if run.ended_at is None:
        return f"{run.id} was killed. To continue it: ralph run --resume {run.id}"
    return f"{run.id} ended {format_time(run.ended_at)}: {printable(run.ending)}."
